//! One project in each storage: copy, start, reads and memory.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::graph::{SEARCH, entity_reads};
use crate::harness::client::{Client, measure_copy};
use crate::harness::report::{Row, quietest, wrong_answer};
use crate::harness::{Result, micros, millis};
use crate::{BenchProjects, INDEX_SAVE_DELAY, tree};

const STARTS: usize = 5;
/// Maximum memory of a server in MiB.
const MEMORY_BAR: f64 = 300.0;

/// A value of `--storage` and the bar for the first answer.
struct Storage {
    name: &'static str,
    start: Option<Duration>,
}

const STORAGES: [Storage; 3] = [
    Storage { name: "fs", start: None },
    Storage { name: "sqlite", start: Some(millis(100)) },
    Storage { name: "sled", start: Some(millis(150)) },
];

pub(crate) fn measure(projects: &BenchProjects, size: usize) -> Result<()> {
    let (project, cache) = projects.project("storages", size)?;
    println!("\n{size} entities, copied");
    let back = project.join("back");
    fs::create_dir(&back)?;
    let back = format!("fs:{}", back.display());
    for (from, to) in [("fs", "sqlite"), ("sqlite", "sled"), ("sled", back.as_str())] {
        println!("{}", measure_copy(&project, from, to)?.bar(Duration::from_secs(30)));
    }
    for storage in STORAGES {
        println!("\n{size} entities in {}", storage.name);
        measure_storage(projects, &project, &cache, &storage, size)?;
    }
    Ok(fs::remove_dir_all(&project)?)
}

fn measure_storage(
    projects: &BenchProjects,
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
    let start = || Client::start(project, &variables);
    // The first server fills the caches.
    let (mut client, _) = start()?;
    let query = json!({ "query": projects.queries[0] });
    client.call(SEARCH, &query)?;
    sleep(INDEX_SAVE_DELAY);
    client.end()?;

    let first = |tool: &str, arguments: &Value, key: &str| -> Result<Duration> {
        let clock = Instant::now();
        let (mut client, _) = start()?;
        let (_, content) = client.call(tool, arguments)?;
        let elapsed = clock.elapsed();
        if content[key].is_null() {
            return wrong_answer(tool, &content);
        }
        client.end()?;
        Ok(elapsed)
    };
    let show = json!({ "id": tree::entity_id(size / 2) });
    let times = quietest(|| (0..STARTS).map(|_| first("ixchel_show", &show, "raw")).collect())?;
    let row = Row::new("start to the first answer (show)").times(&times);
    println!("{}", if let Some(bar) = storage.start { row.bar(bar) } else { row });
    let times = quietest(|| (0..STARTS).map(|_| first(SEARCH, &query, "hits")).collect())?;
    println!("{}", Row::new("start to the first search").times(&times).bar(millis(2_000)));

    let (mut client, _) = start()?;
    for (tool, key, bar) in [("show", "raw", 150), ("graph", "outgoing", 200)] {
        println!("{}", entity_reads(&mut client, size, tool, key)?.bar(micros(bar)));
    }
    println!("{}", memory("memory after show and graph", &client)?);
    client.call(SEARCH, &query)?;
    client.call("ixchel_tags", &json!({}))?;
    println!("{}", memory("memory with search and tags", &client)?);
    Ok(client.end()?)
}

fn memory(label: &str, client: &Client) -> Result<Row> {
    Ok(Row::new(label).at_most(MEMORY_BAR, client.mebibytes()?, "MiB"))
}
