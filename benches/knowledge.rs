//! Latency of docsets, the knowledge graph and search: the real command over a real pipe, on real
//! files.
//!
//! `cargo bench -p reqlore --profile dist --bench knowledge -- [--large] [--storages]
//! [--folder DIR]`; the profile is the one that is shipped. With `--storages` 100,000 entities are
//! measured in each storage, and nothing else. With `--large` also 100,000 entities are measured,
//! and 10,000 with a sentence model, which takes a quarter of an hour. A sentence model is measured
//! if `REQLORE_TEST_MODEL` names a folder with the files of all-minilm-l6-v2.
//!
//! Each row is the quietest of three rounds. Missed bars are printed; only wrong results fail.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "knowledge/commits.rs"]
mod commits;
#[path = "knowledge/docsets.rs"]
mod docsets;
#[path = "knowledge/graph.rs"]
mod graph;
#[path = "harness/mod.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod harness;
#[path = "knowledge/meaning.rs"]
mod meaning;
#[path = "knowledge/storages.rs"]
mod storages;
#[path = "knowledge/tree.rs"]
mod tree;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use harness::client::{Client, program};
use harness::language::Language;
use harness::report::{Row, header, verdict};
use harness::{Arguments, Result, SETTLED};

/// The size that the bars are for.
const BAR_SIZE: usize = 10_000;
/// After this time without changes the index is saved.
const SAVED: Duration = Duration::from_secs(4);
/// The maximum size of the program in bytes.
const SIZE_BAR: u64 = 45_000_000;

/// The folder of all projects, and the texts in them.
struct Place {
    folder: tempfile::TempDir,
    language: Language,
    queries: Vec<String>,
}

impl Place {
    /// A project of this many entities, settled, and a cache folder of its own.
    fn project(&self, name: &str, count: usize) -> io::Result<(PathBuf, PathBuf)> {
        let project = self.folder.path().join(name);
        fs::create_dir_all(&project)?;
        tree::write(&project, &self.language, count)?;
        std::thread::sleep(SETTLED);
        Ok((project, self.folder.path().join(format!("{name}-cache"))))
    }
}

fn main() -> ExitCode {
    harness::run(measure)
}

fn measure(arguments: &Arguments) -> Result<()> {
    let is_large = arguments.has("--large");
    let language = Language::new();
    let queries = language.queries(300);
    let place = Place { folder: arguments.folder()?, language, queries };
    println!("\n{}", header());
    if arguments.has("--storages") {
        commits::measure(place.folder.path())?;
        return storages::measure(&place, 100_000);
    }
    let bytes = fs::metadata(program())?.len();
    let note = format!("{bytes} bytes; bar {SIZE_BAR}: {}", verdict(bytes <= SIZE_BAR));
    println!("{}", Row::new("program").note(note));
    docsets::measure(place.folder.path())?;
    let sizes: &[usize] =
        if is_large { &[100, 1_000, 10_000, 100_000] } else { &[100, 1_000, 10_000] };
    for size in sizes {
        graph::measure(&place, *size)?;
    }
    meaning::measure(&place, if is_large { &[1_000, 10_000] } else { &[1_000] })
}

/// A server that ranks by words and this model, and the time until it answered.
fn start(project: &Path, cache: &Path, model: &str) -> io::Result<(Client, Duration)> {
    let variables =
        [("REQLORE_CACHE", cache.as_os_str()), ("REQLORE_SEARCH_MODEL", OsStr::new(model))];
    Client::start(project, &variables)
}

/// Bars are for one size; the other sizes show the growth.
fn with_bar(row: Row, size: usize, bar: Duration) -> Row {
    if size == BAR_SIZE { row.bar(bar) } else { row }
}
