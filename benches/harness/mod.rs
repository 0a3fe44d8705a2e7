//! Shared code of the benches: command line, client, synthetic texts, statistics and report.

pub(crate) mod client;
pub(crate) mod language;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod report;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// After this time a file's next change gets a different timestamp on any file system.
pub(crate) const TIMESTAMP_SETTLE_TIME: Duration = Duration::from_millis(2_100);

/// Runs a bench. Fails only on wrong results; missed bars are printed, because machines differ.
pub(crate) fn run(bench: fn(&Arguments) -> Result<()>) -> ExitCode {
    let Err(error) = bench(&Arguments(std::env::args().collect())) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("WRONG: {error}");
    ExitCode::FAILURE
}

/// Arguments of the command line.
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.iter().any(|argument| argument == flag)
    }

    pub(crate) fn value(&self, flag: &str) -> Option<&str> {
        self.0.iter().skip_while(|argument| *argument != flag).nth(1).map(String::as_str)
    }

    /// A temporary folder inside the value of `--folder`, or in the system's temporary folder.
    pub(crate) fn folder(&self) -> io::Result<TempDir> {
        match self.value("--folder") {
            Some(folder) => tempfile::tempdir_in(Path::new(folder).canonicalize()?),
            None => tempfile::tempdir(),
        }
    }
}

/// Writes a file durably (sync, rename, sync of the folder) and returns the time.
pub(crate) fn durable_write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<Duration> {
    let clock = Instant::now();
    let temporary = folder.join(format!("{name}.tmp"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(name))?;
    File::open(folder)?.sync_all()?;
    Ok(clock.elapsed())
}

/// A section with `size` requirements of about 100 bytes each.
pub(crate) fn section_text(size: usize) -> String {
    let mut source = "# Generated\n".to_owned();
    for number in 1..=size {
        let _ = write!(source, "\n**{number}.** {}\n", requirement_text(number));
    }
    source
}

pub(crate) fn requirement_text(number: usize) -> String {
    format!(
        "In case {number} the server must answer every request of a known user within half a \
         second."
    )
}

pub(crate) const fn micros(number: u64) -> Duration {
    Duration::from_micros(number)
}

pub(crate) const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}
