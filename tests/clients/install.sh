# Functions to install pinned programs, sourced by `run` and `agents/run`.

give_up() {
  echo "$*" >&2
  exit 2
}

# Runs INSTALL FOLDER unless it was done for the same VERSIONS. Prints output only on failure.
once() { # FOLDER VERSIONS INSTALL
  local folder=$1 versions=$2 install=$3
  [[ -f $folder/installed && $(<"$folder/installed") == "$versions" ]] && return
  rm -rf "$folder"
  mkdir -p "$folder"
  if ! "$install" "$folder" >"$folder/install.log" 2>&1; then
    cat "$folder/install.log" >&2
    give_up "the clients could not be installed into $folder"
  fi
  echo "$versions" >"$folder/installed"
}

# Within a condition `set -e` does not hold, hence the chains.
install_npm() { # PINNED FOLDER
  cp "$1/package.json" "$1/package-lock.json" "$2" &&
    npm --prefix "$2" ci --omit=dev --ignore-scripts --no-audit --no-fund
}

install_wheels() { # REQUIREMENTS FOLDER
  python3 -m venv "$2" &&
    "$2/bin/python" -m pip install --no-input --disable-pip-version-check \
      --require-hashes --only-binary :all: --requirement "$1"
}
