//! What a client waits for with docsets, the knowledge graph and search: the real command over a
//! real pipe, on real files that are written for it.
//!
//! `cargo bench -p reqlore --profile dist --bench knowledge -- [--large] [--storages]
//! [--folder DIR]`; the profile is the one that is shipped. With `--storages` the same 100,000
//! entities are measured in each storage, and nothing else. With `--large` also 100,000 entities
//! are measured, and 10,000 with a sentence model, which takes a quarter of an hour. A sentence
//! model is measured where `REQLORE_TEST_MODEL` names a folder with the files of
//! all-minilm-l6-v2.
//!
//! Each row is the quietest of three rounds, because other processes only ever make it worse.
//! Missed bars are told; only wrong results fail, because machines differ.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "harness/client.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod client;
#[path = "knowledge/commits.rs"]
mod commits;
#[path = "knowledge/docsets.rs"]
mod docsets;
#[path = "knowledge/graph.rs"]
mod graph;
#[path = "knowledge/meaning.rs"]
mod meaning;
#[path = "harness/rounds.rs"]
mod rounds;
#[path = "knowledge/storages.rs"]
mod storages;
#[path = "harness/table.rs"]
mod table;
#[path = "knowledge/tree.rs"]
mod tree;

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use client::Client;
use rounds::{ROUNDS, calls, quietest, row, wrong};
use table::{Row, header};
use tree::Language;

/// The size that the bars are for.
const JUDGED: usize = 10_000;
/// A file that is older than this can be told from its next state by its times.
const SETTLED: Duration = Duration::from_millis(2_100);
/// After this long without changes the index is saved.
const SAVED: Duration = Duration::from_secs(4);
/// The largest program, in bytes.
const SIZE_BAR: u64 = 45_000_000;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Where everything is measured.
struct Place {
    folder: tempfile::TempDir,
    language: Language,
    queries: Vec<String>,
}

impl Place {
    /// A project of so many entities, settled, and a cache folder of its own.
    fn project(&self, name: &str, count: usize) -> io::Result<(PathBuf, PathBuf)> {
        let project = self.folder.path().join(name);
        fs::create_dir_all(&project)?;
        tree::write(&project, &self.language, count)?;
        std::thread::sleep(SETTLED);
        Ok((project, self.folder.path().join(format!("{name}-cache"))))
    }
}

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("WRONG: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let is_large = arguments.iter().any(|argument| argument == "--large");
    let folder = arguments.iter().skip_while(|argument| *argument != "--folder").nth(1);
    let folder = match folder {
        Some(folder) => tempfile::tempdir_in(Path::new(folder).canonicalize()?)?,
        None => tempfile::tempdir()?,
    };
    let language = Language::new();
    let queries = language.queries(300);
    let place = Place { folder, language, queries };
    println!("\n{}", header());
    if arguments.iter().any(|argument| argument == "--storages") {
        commits::measure(place.folder.path())?;
        return storages::measure(&place, 100_000);
    }
    println!("{}", program()?);
    docsets::measure(place.folder.path())?;
    let sizes: &[usize] =
        if is_large { &[100, 1_000, 10_000, 100_000] } else { &[100, 1_000, 10_000] };
    for size in sizes {
        graph::measure(&place, *size)?;
    }
    meaning::measure(&place, if is_large { &[1_000, 10_000] } else { &[1_000] })
}

/// The size of this build. Without sentence models (`cargo build --profile dist -p reqlore
/// --no-default-features`) the bar is 20 MB; that is another build and is not measured here.
fn program() -> Result<Row> {
    let bytes = fs::metadata(client::program())?.len();
    let verdict = if bytes <= SIZE_BAR { "met" } else { "MISSED" };
    let note = format!("{bytes} bytes; bar {SIZE_BAR}: {verdict}");
    Ok(Row::new("program").note(note))
}

/// A server with its caches in this folder, and what ranks by meaning; and how long it took to
/// start.
fn start(project: &Path, cache: &Path, model: &str) -> io::Result<(Client, Duration)> {
    let variables =
        [("REQLORE_CACHE", cache.as_os_str()), ("REQLORE_SEARCH_MODEL", OsStr::new(model))];
    Client::start_with(project, &variables)
}

/// Bars are for one size; the other sizes show how it grows.
fn judged(row: Row, size: usize, bar: Duration) -> Row {
    if size == JUDGED { row.bar(bar) } else { row }
}

const fn micros(number: u64) -> Duration {
    Duration::from_micros(number)
}

const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}
