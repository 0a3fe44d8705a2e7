//! Latency of the backlog tools: the real program over a pipe, on real files.
//!
//! `cargo bench -p reqlore --profile dist --bench backlog -- [--storages] [--folder DIR]`; the
//! profile is that of releases. `--storages` measures only 100,000 requirements in each storage.
//! Writes are durable, so DIR decides their cost. The bench writes the same bytes durably and
//! reports the difference.
//!
//! Each row is the quietest of three rounds. Only wrong results fail; missed bars are printed.

#![expect(clippy::print_stdout, reason = "the bench prints a table")]

#[path = "harness/mod.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod harness;
#[path = "backlog/items.rs"]
mod items;
#[path = "backlog/reads.rs"]
mod reads;
#[path = "backlog/writes.rs"]
mod writes;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;

use harness::client::{Client, measure_copy};
use harness::language::SyntheticLanguage;
use harness::report::{Row, header};
use harness::{Arguments, Result, TIMESTAMP_SETTLE_TIME, micros};
use items::Size;

fn main() -> ExitCode {
    harness::run(measure)
}

fn measure(arguments: &Arguments) -> Result<()> {
    let folder = arguments.folder()?;
    let language = SyntheticLanguage::new();
    println!("\n{}", header());
    if arguments.has("--storages") {
        return measure_storages(folder.path(), &language, Size { requirements: 100_000 });
    }
    let size = Size { requirements: 10_000 };
    let (project, cache) = project(folder.path(), &language, size)?;
    reads::starts(&project, &cache, size)?;
    let mut client = start(&project, &cache, "fs")?;
    reads::stories(&mut client, size, micros(200))?;
    reads::items(&mut client, size)?;
    reads::lists(&mut client, size)?;
    reads::hierarchies(&mut client, size)?;
    reads::searches(&mut client, &language)?;
    writes::measure(&mut client, &project, size)?;
    println!("{}", memory(&client)?);
    Ok(client.end()?)
}

/// Copies one backlog into each storage and reads it there.
fn measure_storages(folder: &Path, language: &SyntheticLanguage, size: Size) -> Result<()> {
    let (project, cache) = project(folder, language, size)?;
    for (from, to) in [("fs", "sqlite"), ("sqlite", "sled")] {
        println!("{}", measure_copy(&project, from, to)?);
    }
    for storage in ["fs", "sqlite", "sled"] {
        println!("\nin {storage}");
        let mut client = start(&project, &cache.join(storage), storage)?;
        reads::stories(&mut client, size, micros(300))?;
        reads::lists(&mut client, size)?;
        reads::hierarchies(&mut client, size)?;
        println!("{}", memory(&client)?);
        client.end()?;
    }
    Ok(())
}

/// Creates a project with a backlog of this size. Returns its folder and its cache folder.
fn project(folder: &Path, language: &SyntheticLanguage, size: Size) -> Result<(PathBuf, PathBuf)> {
    println!("\n{} items: {} requirements, ten to a story", size.items(), size.requirements);
    let (project, cache) = (folder.join("project"), folder.join("cache"));
    fs::create_dir_all(&project)?;
    items::write_backlog(&project, language, size)?;
    sleep(TIMESTAMP_SETTLE_TIME);
    Ok((project, cache))
}

/// Starts a server on this storage that ranks with words and the built-in embedding table.
fn start(project: &Path, cache: &Path, storage: &str) -> io::Result<Client> {
    let variables = [
        ("REQLORE_CACHE", cache.as_os_str()),
        ("REQLORE_SEARCH_MODEL", OsStr::new("static")),
        ("REQLORE_STORAGE", OsStr::new(storage)),
    ];
    Ok(Client::start(project, &variables)?.0)
}

fn memory(client: &Client) -> Result<Row> {
    let note = format!("{:.1} MiB", client.mebibytes()?);
    Ok(Row::new("resident memory at the end").note(note))
}
