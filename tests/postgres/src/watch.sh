# Ends a PostgreSQL cluster when no process of a test uses it any more.
# Arguments: folder of the cluster, file that names it to tests, seconds without a use.
trap '' HUP INT QUIT TERM
folder=$1 record=$2 patience=$3

is_used() {
    for user in "$folder"/users/*; do
        [ -e "$user" ] || continue
        kill -0 "${user##*/}" 2>/dev/null && return 0
        rm -f "$user"
    done
    return 1
}

unused=0
while [ "$unused" -le "$patience" ]; do
    sleep 1
    [ -d "$folder" ] || exit 0
    if is_used; then unused=0; else unused=$((unused + 1)); fi
done
# A test that finds the record registers first and then reads the record again.
grep -qsxF "$folder" "$record" && rm -f "$record"
while is_used; do sleep 1; done
process=$(head -n 1 "$folder/server/data/postmaster.pid" 2>/dev/null)
if [ -n "$process" ]; then
    kill -QUIT "$process" 2>/dev/null
    while kill -0 "$process" 2>/dev/null; do sleep 0.1; done
fi
rm -rf "$folder"
