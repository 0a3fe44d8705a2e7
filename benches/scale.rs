//! Growth of memory, starts and calls with the data: the real program over a pipe, at two sizes.
//!
//! `cargo bench --locked -p reqlore --profile dist --bench scale -- [--sizes 10000,100000]
//! [--storage sqlite] [--folder DIR] [--against PROGRAM]`. The profile is that of releases. A
//! million items need about 10 GiB in DIR and, depending on the storage, a quarter of an hour.
//!
//! `--projects 10000 [--storage sqlite,fs]` measures small projects on one HTTP server instead:
//! calls at random over all of them, memory and descriptors.
//!
//! A bar is a ratio of medians: the largest size divided by the smallest, in one run. It is also
//! met by a call that stays within an absolute time at the largest size. A missed bar fails.
//!
//! With `--against`, the bars are ratios of this program to PROGRAM, at the largest size.

#![expect(clippy::print_stdout, reason = "the bench prints a table")]

#[path = "scale/bars.rs"]
mod bars;
#[path = "scale/calls.rs"]
mod calls;
#[path = "scale/compare.rs"]
mod compare;
#[path = "team/connection.rs"]
#[expect(dead_code, reason = "another bench uses the rest")]
mod connection;
#[path = "harness/mod.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod harness;
#[path = "scale/items.rs"]
mod items;
#[path = "scale/many_projects.rs"]
mod many_projects;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use harness::client::{Client, server_program};
use harness::language::SyntheticLanguage;
use harness::report::{Times, header};
use harness::{Arguments, Result, process};
use reqlore_domain::project_key::ProjectKey;
use serde_json::json;

use bars::Measurements;
use items::ProjectSize;

/// A vocabulary that is as large for a million texts as a natural one.
const VOCABULARY: usize = 60_000;
const DEFAULT_SIZES: &str = "10000,100000";
/// Number of starts; the median counts.
const STARTS: usize = 5;
const RESTORE: &str = "restore";
const FIRST_SYNC: &str = "spawn to a complete search, no index";
const FIRST_SYNC_CPU: &str = "CPU of that start";
const WARM_START: &str = "spawn to the first search";

fn main() -> ExitCode {
    harness::run(measure)
}

fn measure(arguments: &Arguments) -> Result<()> {
    if let Some(count) = arguments.value("--projects") {
        return many_projects::measure(arguments, count.parse()?);
    }
    let storage = arguments.value("--storage").unwrap_or("sqlite");
    let mut sizes: Vec<usize> = Vec::new();
    for size in arguments.value("--sizes").unwrap_or(DEFAULT_SIZES).split(',') {
        sizes.push(size.parse()?);
    }
    let language = SyntheticLanguage::with_vocabulary(VOCABULARY);
    if let Some(old) = arguments.value("--against") {
        let total = sizes.pop().ok_or("no size")?;
        return compare::measure(arguments, &language, storage, total, old.as_ref());
    }
    let mut all = Vec::new();
    for total in sizes {
        println!("\n{total} items in {storage}\n{}", header());
        let (folder, size) = (arguments.folder()?, ProjectSize { total });
        let dump = create_dump(folder.path(), &language, size)?;
        let project = BenchProject::restore(folder.path(), &dump, storage, size, server_program())?;
        fs::remove_file(&dump)?;
        all.push(project.measure(&language)?);
    }
    fail_if_missed(bars::report(&all, storage))
}

fn fail_if_missed(missed: usize) -> Result<()> {
    match missed {
        0 => Ok(()),
        missed => Err(format!("{missed} bars are missed").into()),
    }
}

/// Writes a dump of the project.
fn create_dump(folder: &Path, language: &SyntheticLanguage, size: ProjectSize) -> Result<PathBuf> {
    let dump = folder.join("project.dump");
    let only_project = vec![(ProjectKey::default(), 0)];
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    runtime.block_on(items::write_dump(&dump, language, size, only_project))?;
    Ok(dump)
}

/// A restored project and its cache.
struct BenchProject {
    program: OsString,
    folder: PathBuf,
    cache: PathBuf,
    storage: String,
    size: ProjectSize,
    measurements: Measurements,
}

impl BenchProject {
    /// Restores a dump with the measured program, into a new folder.
    fn restore(
        folder: &Path,
        dump: &Path,
        storage: &str,
        size: ProjectSize,
        program: OsString,
    ) -> Result<Self> {
        let mut project = Self {
            program,
            folder: folder.join("project"),
            cache: folder.join("cache"),
            storage: storage.to_owned(),
            size,
            measurements: Measurements::new(size.total),
        };
        fs::create_dir_all(&project.folder)?;
        let clock = Instant::now();
        let mut restore = Command::new(&project.program);
        restore.arg("restore").arg(dump).arg("--root").arg(&project.folder);
        restore.env_clear().envs(project.variables()).stdout(Stdio::null());
        let status = restore.status()?;
        if !status.success() {
            return Err(format!("restore ended with {status}").into());
        }
        project.measurements.add_time(RESTORE, clock.elapsed());
        // The first start must not find what the restore has cached.
        match fs::remove_dir_all(&project.cache) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(project),
        }
    }

    /// Measures one phase after the other. Memory is that of the server at the end of a phase.
    fn measure(mut self, language: &SyntheticLanguage) -> Result<Measurements> {
        self.first_sync(language)?;
        self.warm_starts(language)?;

        // The first call of a process, because it may have to count what later calls reuse.
        let mut client = self.start()?;
        let first_tags = calls::list_tags(&mut client)?;
        self.measurements.add_time("first ixchel_tags", first_tags);
        client.end()?;

        let (mut client, _) = self.start_and_search(language)?;
        self.add_memory("memory after a start and a search", &client, "VmRSS")?;
        // sled allows one process at a time.
        let mut other = if self.storage == "sled" { None } else { Some(self.start()?) };
        let size = self.size;
        calls::measure(&mut client, other.as_mut(), language, size, &mut self.measurements)?;
        self.add_memory("memory after all calls", &client, "VmRSS")?;
        self.add_memory("peak memory of all calls", &client, "VmHWM")?;
        client.end()?;
        if let Some(other) = other {
            other.end()?;
        }
        Ok(self.measurements)
    }

    /// Measures the first start, which builds the index.
    fn first_sync(&mut self, language: &SyntheticLanguage) -> Result<()> {
        let (client, elapsed) = self.start_and_search(language)?;
        self.measurements.add_time(FIRST_SYNC, elapsed);
        self.measurements.add_time(FIRST_SYNC_CPU, client.processor_time()?);
        self.add_memory("memory after a first index", &client, "VmRSS")?;
        self.add_memory("peak memory of a first index", &client, "VmHWM")?;
        Ok(client.end()?)
    }

    fn warm_starts(&mut self, language: &SyntheticLanguage) -> Result<()> {
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            let (client, elapsed) = self.start_and_search(language)?;
            starts.push(elapsed);
            client.end()?;
        }
        let starts = Times::from_unsorted(starts);
        self.measurements.add_times(WARM_START, &starts);
        Ok(())
    }

    fn start(&self) -> Result<Client> {
        Ok(Client::start_program(&self.program, &self.folder, &self.variables())?.0)
    }

    /// Starts a server and searches until no text is missing from the index. Returns the time from
    /// the spawn to that answer.
    fn start_and_search(&self, language: &SyntheticLanguage) -> Result<(Client, Duration)> {
        let query = json!({ "query": language.query(0), "limit": 10 });
        let clock = Instant::now();
        let mut client = self.start()?;
        loop {
            let (_, content) = client.call("search_global", &query)?;
            if content["pending"] == 0 {
                return Ok((client, clock.elapsed()));
            }
            std::thread::sleep(harness::millis(20));
        }
    }

    fn variables(&self) -> [(&str, &OsStr); 3] {
        [
            ("REQLORE_CACHE", self.cache.as_os_str()),
            ("REQLORE_SEARCH_MODEL", OsStr::new("static")),
            ("REQLORE_STORAGE", OsStr::new(&self.storage)),
        ]
    }

    fn add_memory(&mut self, label: &'static str, client: &Client, which: &str) -> Result<()> {
        let mebibytes = process::mebibytes(client.process(), which)?;
        self.measurements.add_mebibytes(label, mebibytes);
        Ok(())
    }
}
