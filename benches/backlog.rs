//! What a client waits for with the backlog: the real command over a real pipe, on real files that
//! are written for it.
//!
//! `cargo bench -p reqlore --profile dist --bench backlog -- [--storages] [--data FILE]
//! [--folder DIR]`; the profile is the one that is shipped. FILE holds epics with their stories and
//! requirements as JSON, which are loaded by tool calls; without it others of the same number are
//! made up. With `--storages` 100,000 requirements are measured in each storage, and nothing else.
//! Writes are durable, so DIR decides what they cost; the same bytes are written durably beside
//! them, and the difference is ours.
//!
//! Each row is the quietest of three rounds, because other processes only ever make it worse.
//! Missed bars are told; only wrong results fail, because machines differ.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "harness/client.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod client;
#[path = "harness/durable.rs"]
mod durable;
#[path = "knowledge/tree.rs"]
#[expect(dead_code, reason = "of the tree only its language is needed")]
mod entities;
#[path = "backlog/items.rs"]
mod items;
#[path = "backlog/load.rs"]
mod load;
#[path = "backlog/reads.rs"]
mod reads;
#[path = "harness/rounds.rs"]
mod rounds;
#[path = "backlog/starts.rs"]
mod starts;
#[path = "backlog/storages.rs"]
mod storages;
#[path = "harness/table.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod table;
#[path = "backlog/writes.rs"]
mod writes;

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use client::Client;
use entities::Language;
use items::Size;
use table::{Row, header};

/// A file that is older than this can be told from its next state by its times.
const SETTLED: Duration = Duration::from_millis(2_100);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("WRONG: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| arguments.iter().skip_while(|given| *given != flag).nth(1);
    let folder = match value("--folder") {
        Some(folder) => tempfile::tempdir_in(Path::new(folder).canonicalize()?)?,
        None => tempfile::tempdir()?,
    };
    let language = Language::new();
    let place = Place { folder, language };
    println!("\n{}", header());
    if arguments.iter().any(|argument| argument == "--storages") {
        return storages::measure(&place, Size { requirements: 100_000 });
    }
    load::measure(&place, value("--data").map(Path::new))?;
    let size = Size { requirements: 10_000 };
    println!("\n{} items: {} requirements, ten to a story", size.items(), size.requirements);
    let (project, cache) = place.project("b10000", size)?;
    starts::measure(&project, &cache, size)?;
    let mut client = start(&project, &cache, "fs")?;
    reads::stories(&mut client, size, Duration::from_micros(200))?;
    reads::hierarchies(&mut client, size)?;
    reads::searches(&mut client, &place.language)?;
    reads::resources(&mut client, size)?;
    writes::measure(&mut client, &project, size)?;
    println!("{}", memory(&client)?);
    Ok(client.end()?)
}

/// Where everything is measured.
struct Place {
    folder: tempfile::TempDir,
    language: Language,
}

impl Place {
    /// A project with a backlog of this size, settled, and a cache folder of its own.
    fn project(&self, name: &str, size: Size) -> Result<(PathBuf, PathBuf)> {
        let (project, cache) = self.empty(name)?;
        items::write(&project, &self.language, size)?;
        sleep(SETTLED);
        Ok((project, cache))
    }

    fn empty(&self, name: &str) -> io::Result<(PathBuf, PathBuf)> {
        let project = self.folder.path().join(name);
        fs::create_dir_all(&project)?;
        Ok((project, self.folder.path().join(format!("{name}-cache"))))
    }
}

/// A server on this storage with its caches in this folder, ranking by words and the built-in
/// table.
fn start(project: &Path, cache: &Path, storage: &str) -> io::Result<Client> {
    let variables = [
        ("REQLORE_CACHE", cache.as_os_str()),
        ("REQLORE_SEARCH_MODEL", OsStr::new("static")),
        ("REQLORE_STORAGE", OsStr::new(storage)),
    ];
    Ok(Client::start_with(project, &variables)?.0)
}

fn memory(client: &Client) -> Result<Row> {
    let mib = f64::from(u32::try_from(client.resident_bytes()? / 1024)?) / 1024.0;
    Ok(Row::new("resident memory after all of that").note(format!("{mib:.1} MiB")))
}
