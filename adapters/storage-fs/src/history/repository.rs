//! Read-only queries of the Git repository around a project.
//!
//! Object names and paths go to Git as lines of text, and each answer is matched to its line.
//! Callers reject paths with control characters, which would add lines.

use std::path::Path;

use reqlore_domain::document::MAX_DOCUMENT_BYTES;
use reqlore_domain::ports::history::HistoryNote;
use reqlore_domain::timestamp::Timestamp;
use reqlore_git_runner::{GitEnvironment, GitError, GitOutput, GitRunner};

/// Maximum commits that changed a file; older ones are not listed.
pub(super) const MAX_COMMITS: usize = 10_000;
const MAX_NAME_CHARS: usize = 100;
const MAX_SUBJECT_CHARS: usize = 300;
/// Attributes that make the bytes in Git differ from those of the file.
const CONVERSIONS: [&str; 3] = ["filter", "ident", "working-tree-encoding"];

/// The repository around a project, which is on a commit.
pub(super) struct GitRepository {
    git: GitRunner,
    head: String,
    pub(super) is_shallow: bool,
}

/// A file in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommittedFile {
    /// The object's name and its size in bytes.
    Blob(String, u64),
    /// The name of an object that is larger than a document can be.
    TooLarge(String),
    Missing,
}

/// One commit that changed a file.
pub(super) struct FileCommit {
    pub(super) commit: String,
    pub(super) file: CommittedFile,
}

#[derive(Debug)]
pub(super) struct CommitInfo {
    pub(super) author: Option<String>,
    pub(super) committed_at: Timestamp,
    pub(super) subject: Option<String>,
}

/// An answer of Git, or the reason why there is none.
pub(super) type GitResult<T> = Result<T, HistoryNote>;

impl GitRepository {
    /// Opens the repository around a folder; `None` if it has no commit.
    pub(super) fn open(folder: &Path, environment: &GitEnvironment) -> GitResult<Option<Self>> {
        let git = GitRunner::find(folder, environment).ok_or(HistoryNote::NoGit)?;
        let flags =
            query(&git, &["rev-parse", "--is-inside-work-tree", "--is-shallow-repository"], "")?;
        if !flags.is_success() {
            return Err(match &flags.errors {
                errors if errors.contains("not a git repository") => HistoryNote::NoRepository,
                errors if errors.contains("dubious ownership") => HistoryNote::ForeignOwner,
                _ => failure(&flags),
            });
        }
        let flags = flags.text();
        let mut flags = flags.lines();
        if flags.next() != Some("true") {
            return Err(HistoryNote::NoRepository);
        }
        let is_shallow = flags.next() == Some("true");
        let head = query(&git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], "")?;
        let name = head.text().trim().to_owned();
        // Exit code 1 without a message: the branch has no commit yet.
        if head.code == Some(1) && name.is_empty() {
            return Ok(None);
        }
        if !head.is_success() || !is_object_name(&name) {
            return Err(failure(&head));
        }
        Ok(Some(Self { git, head: name, is_shallow }))
    }

    /// Returns the commits that changed a file, newest first. False if older ones are left out.
    pub(super) fn commits_of(&self, paths: &[String]) -> GitResult<(Vec<String>, bool)> {
        let limit = format!("--max-count={}", MAX_COMMITS + 1);
        // Without `--full-history`, so a merged branch is left out if nothing of it was kept.
        let mut arguments = vec!["rev-list", "--date-order", &limit, &self.head, "--"];
        // A name may have characters that Git would take for a pattern.
        let literal: Vec<String> = paths.iter().map(|path| format!(":(literal){path}")).collect();
        arguments.extend(literal.iter().map(String::as_str));
        let listed = successful(query(&self.git, &arguments, "")?)?;
        let mut commits: Vec<String> = listed.text().lines().map(str::to_owned).collect();
        let is_complete = commits.len() <= MAX_COMMITS;
        commits.truncate(MAX_COMMITS);
        Ok((commits, is_complete))
    }

    /// Finds the file in the current commit and in each of these, at the first path that exists.
    pub(super) fn find_files(
        &self,
        paths: &[String],
        commits: Vec<String>,
    ) -> GitResult<(CommittedFile, Vec<FileCommit>)> {
        let mut names = String::new();
        for commit in std::iter::once(&self.head).chain(&commits) {
            for path in paths {
                // Relative to Git's working directory, which need not be the repository's root.
                names.extend([commit, ":./", path, "\n"]);
            }
        }
        // One process for all commits, because starting one for each is slow.
        let listed = successful(query(&self.git, &["cat-file", "--batch-check"], &names)?)?;
        let listed = listed.text();
        let lines: Vec<&str> = listed.lines().collect();
        let mut files = Vec::with_capacity(commits.len() + 1);
        // `chunks` panics at a size of zero.
        for lines in lines.chunks(paths.len().max(1)) {
            let mut file = CommittedFile::Missing;
            for line in lines {
                let found = parse_object_line(line).ok_or(HistoryNote::Unreadable)?;
                if file == CommittedFile::Missing {
                    file = found;
                }
            }
            files.push(file);
        }
        // With a missing line, later answers would belong to other commits.
        if lines.len() != (commits.len() + 1) * paths.len() {
            return Err(HistoryNote::Unreadable);
        }
        let mut files = files.into_iter();
        let current = files.next().unwrap_or(CommittedFile::Missing);
        let mut found = Vec::with_capacity(commits.len());
        for (commit, file) in commits.into_iter().zip(files) {
            found.push(FileCommit { commit, file });
        }
        Ok((current, found))
    }

    /// Returns the commit that was checked out at a time, from the log of the work tree. False if
    /// the log is younger: then it is the first one in it.
    pub(super) fn commit_at(&self, at: Timestamp) -> GitResult<Option<(String, bool)>> {
        // The log has whole seconds.
        let revision = format!("HEAD@{{@{} +0000}}^{{commit}}", at.seconds() - 1);
        let found = query(&self.git, &["rev-parse", "--verify", &revision], "")?;
        let name = found.text().trim().to_owned();
        let is_of_time = found.errors.is_empty();
        Ok((found.is_success() && is_object_name(&name)).then_some((name, is_of_time)))
    }

    /// Returns the files in which the present commit differs from another one.
    pub(super) fn paths_changed_since(&self, commit: &str) -> GitResult<Vec<String>> {
        let options = ["-r", "-z", "--name-only", "--no-renames", "--relative"];
        self.list_paths("diff-tree", &[&options[..], &[commit, &self.head]].concat())
    }

    /// Returns the files that are in Git's index, but not in the work tree.
    pub(super) fn deleted_paths(&self) -> GitResult<Vec<String>> {
        self.list_paths("ls-files", &["-z", "--deleted"])
    }

    /// Paths are relative to Git's working directory.
    fn list_paths(&self, command: &str, options: &[&str]) -> GitResult<Vec<String>> {
        let listed = successful(query(&self.git, &[&[command][..], options].concat(), "")?)?;
        let listed = listed.text();
        Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }

    /// Returns for each file whether a commit has it.
    pub(super) fn has_files(&self, commit: &str, paths: &[String]) -> GitResult<Vec<bool>> {
        let mut names = String::new();
        for path in paths {
            names.extend([commit, ":./", path, "\n"]);
        }
        let listed = successful(query(&self.git, &["cat-file", "--batch-check"], &names)?)?;
        Ok(listed.text().lines().map(|line| !line.ends_with(" missing")).collect())
    }

    /// True if the clone may lack objects, which then look as if they did not exist.
    pub(super) fn is_partial_clone(&self) -> GitResult<bool> {
        let keys = r"^(extensions\.partialclone|remote\..*\.promisor)$";
        let found = query(&self.git, &["config", "--get-regexp", keys], "")?;
        Ok(found.is_success())
    }

    /// True if attributes make Git convert the content of a file by more than its line ends.
    pub(super) fn is_converted(&self, path: &str) -> GitResult<bool> {
        let mut arguments = vec!["check-attr", "-z"];
        arguments.extend(CONVERSIONS);
        arguments.extend(["--", path]);
        let listed = successful(query(&self.git, &arguments, "")?)?;
        // Path, attribute and value, each with a NUL after it.
        let fields: Vec<&[u8]> = listed.stdout.split(|byte| *byte == 0).collect();
        let values = fields.chunks_exact(3).map(|field| field[2]);
        Ok(values.into_iter().any(|value| value != b"unspecified" && value != b"unset"))
    }

    /// Reads objects by name, in this order; `None` for one that is missing.
    pub(super) fn read_objects(&self, names: &[String]) -> GitResult<Vec<Option<Vec<u8>>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let input = names.join("\n") + "\n";
        let output = successful(query(&self.git, &["cat-file", "--batch"], &input)?)?;
        let mut rest = &output.stdout[..];
        let mut objects = Vec::with_capacity(names.len());
        for _ in names {
            let (object, after) = split_object(rest).ok_or(HistoryNote::Unreadable)?;
            objects.push(object.map(<[u8]>::to_vec));
            rest = after;
        }
        Ok(objects)
    }
}

impl CommittedFile {
    pub(super) fn blob(&self) -> Option<&str> {
        match self {
            Self::Blob(name, _) => Some(name),
            _ => None,
        }
    }
}

fn query(git: &GitRunner, arguments: &[&str], input: &str) -> GitResult<GitOutput> {
    git.query(arguments, input.as_bytes().to_vec()).map_err(|error| {
        tracing::warn!(%error, command = arguments[0], "history: git failed");
        match error {
            GitError::NotStarted(_) | GitError::SpecialFile(_) => HistoryNote::Unreadable,
            GitError::TimedOut | GitError::TooMuchOutput => HistoryNote::Truncated,
        }
    })
}

fn successful(output: GitOutput) -> GitResult<GitOutput> {
    if output.is_success() { Ok(output) } else { Err(failure(&output)) }
}

/// Logs the message of Git. Callers do not see it, because it may contain absolute paths.
fn failure(output: &GitOutput) -> HistoryNote {
    tracing::warn!(code = output.code, error = output.errors, "history: git failed");
    HistoryNote::Unreadable
}

fn is_object_name(text: &str) -> bool {
    // SHA-1 or SHA-256.
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses a line of `cat-file --batch-check`: name, type and size, or the given name and `missing`.
fn parse_object_line(line: &str) -> Option<CommittedFile> {
    if line.ends_with(" missing") {
        return Some(CommittedFile::Missing);
    }
    let mut words = line.split(' ');
    let (name, kind, size) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    match kind {
        "blob" if !is_object_name(name) => None,
        "blob" if size > MAX_DOCUMENT_BYTES as u64 => {
            Some(CommittedFile::TooLarge(name.to_owned()))
        }
        "blob" => Some(CommittedFile::Blob(name.to_owned(), size)),
        // A folder or a submodule has the file's name.
        _ => Some(CommittedFile::Missing),
    }
}

/// Splits the first object off the output of `cat-file --batch`.
fn split_object(output: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let end = output.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = (std::str::from_utf8(&output[..end]).ok()?, &output[end + 1..]);
    if line.ends_with(" missing") {
        return Some((None, rest));
    }
    let size: usize = line.rsplit(' ').next()?.parse().ok()?;
    // A line break follows the object.
    let after = rest.get(size.checked_add(1)?..)?;
    Some((Some(&rest[..size]), after))
}

/// Parses the raw text of a commit. Leaves out missing and damaged fields.
pub(super) fn parse_commit(raw: &[u8]) -> CommitInfo {
    let text = String::from_utf8_lossy(raw);
    let (header, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut info = CommitInfo { author: None, committed_at: Timestamp::default(), subject: None };
    for line in header.lines() {
        if let Some(author) = line.strip_prefix("author ") {
            let name = author.split('<').next().unwrap_or_default();
            info.author = one_line(name, MAX_NAME_CHARS);
        } else if let Some(committer) = line.strip_prefix("committer ") {
            // `Name <address> 1700000000 +0100`
            let (_, time) = committer.rsplit_once('>').unwrap_or_default();
            let seconds = time.split_whitespace().next().and_then(|time| time.parse().ok());
            info.committed_at = Timestamp::new(seconds.unwrap_or_default(), 0);
        }
    }
    let subject = message.trim_start().lines().next().unwrap_or_default();
    info.subject = one_line(subject, MAX_SUBJECT_CHARS);
    info
}

/// Removes control characters, which could change a terminal; `None` if nothing remains.
fn one_line(text: &str, max_chars: usize) -> Option<String> {
    let text: String = text.trim().chars().filter(|c| !c.is_control()).take(max_chars).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_fields_are_parsed_and_cleaned() {
        let raw = b"tree 0\nauthor Ada \x1b[1m<a@b> 5 +0000\ncommitter B <c@d> 1700000000 +0100\n\
            gpgsig x\n author Eve <e@e> 1 +0000\n\nSubject\x07 line\nmore\n";
        let info = parse_commit(raw);
        assert_eq!(info.author.as_deref(), Some("Ada [1m"));
        assert_eq!(info.committed_at, Timestamp::new(1_700_000_000, 0));
        assert_eq!(info.subject.as_deref(), Some("Subject line"));
        for damaged in [&b""[..], b"author", b"\n\n", b"committer >", b"author <\ncommitter x\n\n"]
        {
            let info = parse_commit(damaged);
            assert_eq!((info.author, info.subject), (None, None));
        }
    }

    #[test]
    fn objects_are_split_by_their_size() {
        let name = "a".repeat(40);
        let output = format!("{name} blob 3\na\nb\nx:./y missing\n{name} blob 0\n\n");
        let (object, rest) = split_object(output.as_bytes()).unwrap();
        assert_eq!(object, Some(&b"a\nb"[..]));
        let (object, rest) = split_object(rest).unwrap();
        assert_eq!(object, None);
        let (object, rest) = split_object(rest).unwrap();
        assert_eq!((object, rest), (Some(&b""[..]), &b""[..]));
        for cut in
            [&b""[..], b"x", b"x blob 5\nabc\n", b"x blob y\n", b"x blob 99999999999999999\n"]
        {
            assert!(split_object(cut).is_none());
        }
        assert_eq!(parse_object_line("a:./b missing"), Some(CommittedFile::Missing));
        assert_eq!(parse_object_line(&format!("{name} tree 3")), Some(CommittedFile::Missing));
        assert_eq!(parse_object_line("blob"), None);
    }
}
