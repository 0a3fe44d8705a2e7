//! Runs Git for queries, so that no configuration of a repository starts a program.
//!
//! A repository is untrusted: a clone, an archive or another user may have written its
//! configuration, attributes and objects. Callers pass only commands that read, that convert or
//! fetch nothing and compare no contents: `rev-parse`, `rev-list`, `cat-file --batch`,
//! `check-attr`, `check-ignore`, `ls-files`, `diff-tree --name-only` and `config --get`.

mod special_files;
#[cfg(test)]
mod tests;
mod work_tree;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use work_tree::{WorkTree, repository_around};

/// Time for all queries of one runner together.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Maximum output of one query.
pub const MAX_OUTPUT_BYTES: usize = 32 << 20;
const MAX_ERROR_BYTES: usize = 4 << 10;
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Time to read the rest of standard error after Git exits.
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// Override each setting of a repository that could start a program or change its meaning.
const SAFE_OPTIONS: [&str; 13] = [
    "--no-pager",
    "--no-replace-objects",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "log.showSignature=false",
    "-c",
    // A directory of the work tree could look like a repository with its own configuration.
    "safe.bareRepository=explicit",
    "--no-optional-locks",
];
const SAFE_ENVIRONMENT: [(&str, &str); 4] = [
    // A partial clone must not contact its remote.
    ("GIT_NO_LAZY_FETCH", "1"),
    // Older versions of Git do not know the variable above. They find no allowed protocol.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Messages are compared in English.
    ("LC_ALL", "C"),
];

/// The part of the process environment that Git gets. All other variables are removed: some name
/// programs, and in a hook some name another repository.
#[derive(Debug, Clone, Default)]
pub struct GitEnvironment {
    /// Programs called `git`, in the order of `PATH`. Each path is absolute.
    pub programs: Vec<PathBuf>,
    /// The folders of `PATH`, in which Git finds its helpers. Each path is absolute.
    pub path: Vec<PathBuf>,
    /// Values of [`GitEnvironment::VARIABLES`].
    pub variables: Vec<(String, String)>,
}

impl GitEnvironment {
    /// Variables that locate the user's own configuration and bound the search for a repository.
    pub const VARIABLES: &'static [&'static str] = &[
        "HOME",
        "XDG_CONFIG_HOME",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CEILING_DIRECTORIES",
        "TMPDIR",
        // Apple's `git` is a stub that locates the real one with it.
        "DEVELOPER_DIR",
        #[cfg(windows)]
        "USERPROFILE",
        // Windows loads its own libraries from there.
        #[cfg(windows)]
        "SYSTEMROOT",
    ];

    pub fn home(&self) -> Option<&Path> {
        let (_, home) =
            self.variables.iter().find(|(name, _)| name == "HOME" || name == "USERPROFILE")?;
        Some(Path::new(home))
    }
}

/// Exit code and output of a finished query.
#[derive(Debug)]
pub struct GitOutput {
    /// `None` if a signal ended Git.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    /// Standard error on one line, shortened. It may contain absolute paths.
    pub errors: String,
}

impl GitOutput {
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// The output as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git could not be started: {0}")]
    NotStarted(#[from] io::Error),
    #[error("git did not exit within {TIME_LIMIT:?}")]
    TimedOut,
    #[error("git was not started, because {0} is a pipe or a device; remove it")]
    SpecialFile(String),
    #[error("git wrote more than {} MiB", MAX_OUTPUT_BYTES >> 20)]
    TooMuchOutput,
}

/// The Git program, run in one folder.
#[derive(Debug)]
pub struct GitRunner {
    program: PathBuf,
    path: OsString,
    variables: Vec<(String, String)>,
    folder: PathBuf,
    /// A file of the repository for which Git would wait, relative to its root.
    special_file: Option<String>,
    deadline: Instant,
}

impl GitRunner {
    /// Returns the first Git outside of the repository around `folder`; `None` if there is none. A
    /// cloned repository may contain a program called `git`.
    pub fn find(folder: &Path, environment: &GitEnvironment) -> Option<Self> {
        let repository = repository_around(folder, environment.home());
        let repository = repository.unwrap_or_else(|| folder.to_owned());
        let is_safe = |path: &&PathBuf| is_outside(path, &repository);
        let program = environment.programs.iter().find(is_safe)?.clone();
        // Git starts its helpers from PATH as well.
        let path = std::env::join_paths(environment.path.iter().filter(is_safe)).ok()?;
        let (variables, folder) = (environment.variables.clone(), folder.to_owned());
        let special_file = special_files::find_special_file(&repository)
            .map(|file| file.strip_prefix(&repository).unwrap_or(&file).display().to_string());
        let deadline = Instant::now() + TIME_LIMIT;
        Some(Self { program, path, variables, folder, special_file, deadline })
    }

    /// Runs a query with this standard input. A failure of Git is an exit code, not an error.
    pub fn query(&self, arguments: &[&str], input: Vec<u8>) -> Result<GitOutput, GitError> {
        if let Some(file) = &self.special_file {
            return Err(GitError::SpecialFile(file.clone()));
        }
        let mut command = Command::new(&self.program);
        command.args(SAFE_OPTIONS).args(arguments).current_dir(&self.folder).env_clear();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs(SAFE_ENVIRONMENT).env("PATH", &self.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut git = KilledOnDrop(command.spawn()?);
        if let Some(mut stdin) = git.0.stdin.take() {
            // A thread, because Git may write before it has read everything.
            thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let stdout = read_in_background(git.0.stdout.take(), MAX_OUTPUT_BYTES);
        let stderr = read_in_background(git.0.stderr.take(), MAX_ERROR_BYTES);
        // Before the wait for the exit: Git does not exit while its output pipe is full.
        let Ok(stdout) = stdout.recv_timeout(self.remaining_time()) else {
            return Err(GitError::TimedOut);
        };
        if stdout.len() > MAX_OUTPUT_BYTES {
            return Err(GitError::TooMuchOutput);
        }
        let code = self.wait_for_exit(&mut git.0)?;
        // A helper of Git may keep standard error open longer than Git runs.
        let errors = stderr.recv_timeout(STDERR_TIMEOUT).unwrap_or_default();
        Ok(GitOutput { code, stdout, errors: join_lines(&errors) })
    }

    fn wait_for_exit(&self, git: &mut Child) -> Result<Option<i32>, GitError> {
        loop {
            if let Some(status) = git.try_wait()? {
                return Ok(status.code());
            }
            if self.remaining_time().is_zero() {
                return Err(GitError::TimedOut);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn remaining_time(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // An error means that Git has exited already.
        let _ = self.0.kill();
        // Without `wait`, the process would stay as a zombie.
        let _ = self.0.wait();
    }
}

/// Reads at most one byte more than the limit, then closes the pipe. In a thread, because a read
/// from a pipe has no time limit.
fn read_in_background(
    pipe: Option<impl Read + Send + 'static>,
    max_bytes: usize,
) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(max_bytes as u64 + 1).read_to_end(&mut bytes);
        }
        // The receiver is gone after the time limit.
        let _ = sender.send(bytes);
    });
    receiver
}

fn join_lines(errors: &[u8]) -> String {
    const MAX_CHARS: usize = 200;
    let text = String::from_utf8_lossy(errors);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" | ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// True if neither the path nor its link target is in `folder`.
fn is_outside(path: &Path, folder: &Path) -> bool {
    !path.starts_with(folder)
        && dunce::canonicalize(path).is_ok_and(|resolved| !resolved.starts_with(folder))
}
