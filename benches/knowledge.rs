//! Latency of docsets, the knowledge graph and search: the real program over a pipe, on real files.
//!
//! `cargo bench -p reqlore --profile dist --bench knowledge -- [--large] [--storages]
//! [--folder DIR]`; the profile is that of releases. `--storages` measures only 100,000 entities in
//! each storage. `--large` adds 100,000 entities, and 10,000 with a sentence model, which takes a
//! quarter of an hour. Sentence models need `REQLORE_TEST_MODEL`, a folder with all-minilm-l6-v2.
//!
//! Each row is the quietest of three rounds. Only wrong results fail; missed bars are printed.

#![expect(clippy::print_stdout, reason = "the bench prints a table")]

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

use harness::client::{Client, server_program};
use harness::language::SyntheticLanguage;
use harness::report::{Row, header, verdict};
use harness::{Arguments, Result, TIMESTAMP_SETTLE_TIME};

/// Number of entities for which the bars are defined.
const BAR_SIZE: usize = 10_000;
/// The server saves the index after this time without changes.
const INDEX_SAVE_DELAY: Duration = Duration::from_secs(4);
/// Maximum size of the program in bytes.
const SIZE_BAR: u64 = 45_000_000;

/// The folder of all projects, their language and the queries.
struct BenchProjects {
    folder: tempfile::TempDir,
    language: SyntheticLanguage,
    queries: Vec<String>,
}

impl BenchProjects {
    /// Creates a project with `size` entities. Returns its folder and its cache folder.
    fn project(&self, name: &str, count: usize) -> io::Result<(PathBuf, PathBuf)> {
        let project = self.folder.path().join(name);
        fs::create_dir_all(&project)?;
        tree::write_entities(&project, &self.language, count)?;
        std::thread::sleep(TIMESTAMP_SETTLE_TIME);
        Ok((project, self.folder.path().join(format!("{name}-cache"))))
    }
}

fn main() -> ExitCode {
    harness::run(measure)
}

fn measure(arguments: &Arguments) -> Result<()> {
    let is_large = arguments.has("--large");
    let language = SyntheticLanguage::new();
    let queries = language.queries(300);
    let projects = BenchProjects { folder: arguments.folder()?, language, queries };
    println!("\n{}", header());
    if arguments.has("--storages") {
        commits::measure(projects.folder.path())?;
        return storages::measure(&projects, 100_000);
    }
    let bytes = fs::metadata(server_program())?.len();
    let note = format!("{bytes} bytes; bar {SIZE_BAR}: {}", verdict(bytes <= SIZE_BAR));
    println!("{}", Row::new("program").note(note));
    docsets::measure(projects.folder.path())?;
    let sizes: &[usize] =
        if is_large { &[100, 1_000, 10_000, 100_000] } else { &[100, 1_000, 10_000] };
    for size in sizes {
        graph::measure(&projects, *size)?;
    }
    meaning::measure(&projects, if is_large { &[1_000, 10_000] } else { &[1_000] })
}

/// Starts a server that ranks with words and this model. Returns the time to its first answer.
fn start(project: &Path, cache: &Path, model: &str) -> io::Result<(Client, Duration)> {
    let variables =
        [("REQLORE_CACHE", cache.as_os_str()), ("REQLORE_SEARCH_MODEL", OsStr::new(model))];
    Client::start(project, &variables)
}

/// Adds the bar if it is defined for this size. Other sizes show the growth.
fn with_bar(row: Row, size: usize, bar: Duration) -> Row {
    if size == BAR_SIZE { row.bar(bar) } else { row }
}
