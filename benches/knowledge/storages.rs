//! The same project in each storage: moving it there, starting on it, reading, and what it takes.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, program};
use crate::graph::SEARCH;
use crate::table::{Row, Times};
use crate::{Place, Result, SAVED, calls, micros, millis, quietest, row, tree, wrong};

const CALLS: usize = 300;
const STARTS: usize = 5;
/// The most memory of a server, in MiB.
const MEMORY_BAR: u64 = 300;

/// Where a project is kept, as `--storage` says it, and how soon a server answers from there.
struct Storage {
    name: &'static str,
    start: Option<Duration>,
}

const STORAGES: [Storage; 3] = [
    Storage { name: "fs", start: None },
    Storage { name: "sqlite", start: Some(millis(100)) },
    Storage { name: "sled", start: Some(millis(150)) },
];

pub(crate) fn measure(place: &Place, size: usize) -> Result<()> {
    let (project, cache) = place.project("storages", size)?;
    println!("\n{size} entities, moved");
    let back = project.join("back");
    fs::create_dir(&back)?;
    let back = format!("fs:{}", back.display());
    for (from, to) in [("fs", "sqlite"), ("sqlite", "sled"), ("sled", back.as_str())] {
        println!("{}", copy(&project, from, to)?);
    }
    for storage in STORAGES {
        println!("\n{size} entities in {}", storage.name);
        serve(place, &project, &cache, &storage, size)?;
    }
    Ok(fs::remove_dir_all(&project)?)
}

/// One copy, its time, its processor time and the most memory that it took.
fn copy(project: &Path, from: &str, to: &str) -> Result<Row> {
    let clock = Instant::now();
    let mut command = Command::new(program());
    command.args(["copy", "--from", from, "--to", to, "--root"]).arg(project);
    let mut copying = command.stdout(Stdio::null()).spawn()?;
    let mut most = 0;
    let status = loop {
        if let Some(status) = copying.try_wait()? {
            break status;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", copying.id()));
        let peak = status.unwrap_or_default();
        let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        most = most.max(peak.unwrap_or_default());
        sleep(Duration::from_millis(20));
    };
    let elapsed = clock.elapsed();
    if !status.success() {
        return Err(format!("copy from {from} to {to} ended with {status}").into());
    }
    let to = to.split(':').next().unwrap_or(to);
    let row = Row::new(format!("copy from {from} to {to}"));
    let row = row.note(format!("most memory {} MiB", most / 1024));
    Ok(Row { p50: Some(elapsed), ..row }.bar(Duration::from_secs(30)))
}

fn serve(
    place: &Place,
    project: &Path,
    cache: &Path,
    storage: &Storage,
    size: usize,
) -> Result<()> {
    let cache = cache.join(storage.name);
    let variables = [
        ("REQLORE_CACHE", cache.as_os_str()),
        ("REQLORE_SEARCH_MODEL", OsStr::new("static")),
        ("REQLORE_STORAGE", OsStr::new(storage.name)),
    ];
    let start = || Client::start_with(project, &variables);
    // The first one fills the caches.
    let (mut client, _) = start()?;
    let query = json!({ "query": place.queries[0] });
    let (elapsed, _) = client.call(SEARCH, &query)?;
    println!("{}", Row { p50: Some(elapsed), ..Row::new("first search ever, index included") });
    sleep(SAVED);
    client.end()?;

    let first = |tool: &str, arguments: &Value, key: &str| -> Result<Duration> {
        let clock = Instant::now();
        let (mut client, _) = start()?;
        let (_, content) = client.call(tool, arguments)?;
        let elapsed = clock.elapsed();
        if content[key].is_null() {
            return Err(wrong(tool, &content));
        }
        client.end()?;
        Ok(elapsed)
    };
    let show = json!({ "id": tree::id(size / 2) });
    let times = quietest(|| (0..STARTS).map(|_| first("ixchel_show", &show, "raw")).collect())?;
    let row_of = |what, times: &Times| Row::new(what).times(times);
    let row = row_of("start to the first answer (show)", &times);
    println!("{}", storage.start.map_or_else(|| row_of("start, show", &times), |bar| row.bar(bar)));
    let times = quietest(|| (0..STARTS).map(|_| first(SEARCH, &query, "hits")).collect())?;
    println!("{}", row_of("start to the first search", &times).bar(Duration::from_secs(2)));

    let (mut client, _) = start()?;
    reads(&mut client, size)?;
    println!("{}", memory("memory after show and graph", &client)?);
    client.call(SEARCH, &query)?;
    client.call("ixchel_tags", &json!({}))?;
    println!("{}", memory("memory with search and tags", &client)?);
    Ok(client.end()?)
}

fn reads(client: &mut Client, size: usize) -> Result<()> {
    let one = |number: usize| json!({ "id": tree::id((number * 31 + 5) % size) });
    let ids: Vec<Value> = (0..CALLS).map(one).collect();
    for (tool, key, bar) in [("show", "raw", 150), ("graph", "outgoing", 200)] {
        let is_there = |content: &Value| !content[key].is_null();
        let found = calls(client, &format!("ixchel_{tool}"), &ids, is_there)?;
        println!("{}", row(tool, found).bar(micros(bar)));
    }
    Ok(())
}

fn memory(what: &str, client: &Client) -> Result<Row> {
    let mib = client.resident_bytes()? / (1024 * 1024);
    let verdict = if mib <= MEMORY_BAR { "met" } else { "MISSED" };
    Ok(Row::new(what).note(format!("{mib} MiB; bar {MEMORY_BAR}: {verdict}")))
}
