//! The knowledge graph at one size, ranked with words and the built-in embedding table.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::report::{ROUNDS, Row, measure_calls, quietest, wrong_answer};
use crate::harness::{Result, micros, millis};
use crate::{BenchProjects, INDEX_SAVE_DELAY, start, tree, with_bar};

const SYNC: &str = "ixchel_sync";
pub(crate) const SEARCH: &str = "ixchel_search";
const CALLS: usize = 300;
const EDITS: usize = 10;
const STARTS: usize = 5;

pub(crate) fn measure(projects: &BenchProjects, size: usize) -> Result<()> {
    println!("\n{size} entities");
    let (project, cache) = projects.project(&format!("e{size}"), size)?;
    let mut client = syncs(&project, &cache, size)?;
    searches(projects, &mut client, size)?;
    reads(&mut client, size)?;
    edits(&project, &mut client, size)?;
    println!("{}", Row::new("resident memory").note(format!("{:.1} MiB", client.mebibytes()?)));
    client.end()?;
    let query = json!({ "query": projects.queries[0] });
    let cold = || first_search(&project, &cache, &query);
    let times = quietest(|| (0..STARTS).map(|_| cold()).collect())?;
    let row = Row::new("cold start to the first search answer").times(&times);
    println!("{}", with_bar(row, size, millis(150)));
    fs::remove_dir_all(&project)?;
    Ok(fs::remove_dir_all(&cache)?)
}

/// Measures the first sync with an empty cache, then later ones. Returns the last server.
fn syncs(project: &Path, cache: &Path, size: usize) -> Result<Client> {
    let mut times = Vec::new();
    let mut processor = Duration::MAX;
    let mut server = None;
    for _ in 0..ROUNDS {
        if let Some(client) = server.take() {
            Client::end(client)?;
            fs::remove_dir_all(cache)?;
        }
        let (mut client, _) = start(project, cache, "static")?;
        let before = client.processor_time()?;
        let (elapsed, content) = client.call(SYNC, &json!({}))?;
        if content["added"] != size || content["scanned"] != size {
            return wrong_answer("the first sync", &content);
        }
        processor = processor.min(client.processor_time()?.saturating_sub(before));
        times.push(elapsed);
        server = Some(client);
    }
    let best = times.into_iter().min().unwrap_or_default();
    let first = Row::new("first sync").single_time(best).processor(processor);
    println!("{}", with_bar(first, size, Duration::from_secs(2)));
    let mut client = server.ok_or("no round")?;

    sleep(INDEX_SAVE_DELAY);
    let nothing = vec![json!({}); 10];
    let is_unchanged = |content: &Value| content["unchanged"] == size;
    let row = measure_calls("sync, nothing changed", &mut client, SYNC, &nothing, is_unchanged)?;
    println!("{}", with_bar(row, size, millis(60)));
    let times = quietest(|| {
        let mut edit = |number: usize| {
            append(&tree::entity_path(project, number * 7), "\nOne more line.\n")?;
            let (elapsed, content) = client.call(SYNC, &json!({}))?;
            if content["modified"] == 1 { Ok(elapsed) } else { wrong_answer("one edit", &content) }
        };
        (0..EDITS).map(&mut edit).collect()
    })?;
    let row = Row::new("sync, one file changed").times(&times);
    println!("{}", with_bar(row, size, millis(80)));
    sleep(INDEX_SAVE_DELAY);
    Ok(client)
}

fn searches(projects: &BenchProjects, client: &mut Client, size: usize) -> Result<()> {
    let queries = |words_only: bool| -> Vec<Value> {
        let query = |query: &String| json!({ "query": query, "words_only": words_only });
        projects.queries.iter().map(query).collect()
    };
    let by_words = |content: &Value| content["signals"] == json!(["words"]);
    let row = measure_calls("search by words", client, SEARCH, &queries(true), by_words)?;
    println!("{}", with_bar(row, size, millis(1)));
    let by_both = |content: &Value| {
        content["signals"] == json!(["words", "meaning:static"]) && content["pending"] == 0
    };
    let label = "search by words and the built-in table";
    let row = measure_calls(label, client, SEARCH, &queries(false), by_both)?;
    println!("{}", with_bar(row, size, micros(1_500)));
    Ok(())
}

fn reads(client: &mut Client, size: usize) -> Result<()> {
    let has_tags = |content: &Value| content["total"].as_u64() > Some(10);
    let row = measure_calls("tags", client, "ixchel_tags", &vec![json!({}); 100], has_tags)?;
    println!("{}", with_bar(row, size, millis(2)));
    for (tool, key, bar) in
        [("show", "raw", 100), ("graph", "outgoing", 150), ("context", "items", 250)]
    {
        let row = entity_reads(client, size, tool, key)?;
        println!("{}", with_bar(row, size, micros(bar)));
    }
    Ok(())
}

/// Calls an entity tool for different entities. Each answer must have this key.
pub(crate) fn entity_reads(client: &mut Client, size: usize, tool: &str, key: &str) -> Result<Row> {
    let arguments = |number: usize| json!({ "id": tree::entity_id((number * 31 + 5) % size) });
    let ids: Vec<Value> = (0..CALLS).map(arguments).collect();
    measure_calls(tool, client, &format!("ixchel_{tool}"), &ids, |content| !content[key].is_null())
}

/// Appends a word to a file. The next search must find it.
fn edits(project: &Path, client: &mut Client, size: usize) -> Result<()> {
    let mut word = 0;
    let times = quietest(|| {
        let mut edit = |number: usize| {
            let number = number * 9 % size;
            word += 1;
            append(&tree::entity_path(project, number), &format!("\nqwx{word}zyv\n"))?;
            let query = json!({ "query": format!("qwx{word}zyv"), "words_only": true });
            let (elapsed, content) = client.call(SEARCH, &query)?;
            let is_found = content["hits"][0]["id"] == tree::entity_id(number);
            if is_found { Ok(elapsed) } else { wrong_answer("the search after an edit", &content) }
        };
        (0..EDITS).map(&mut edit).collect()
    })?;
    let row = Row::new("search right after an edit on disk").times(&times);
    println!("{}", row.note("finds the edit: met"));
    Ok(())
}

fn first_search(project: &Path, cache: &Path, query: &Value) -> Result<Duration> {
    let clock = Instant::now();
    let (mut client, _) = start(project, cache, "static")?;
    let (_, content) = client.call(SEARCH, query)?;
    let elapsed = clock.elapsed();
    if content["hits"].as_array().is_some_and(Vec::is_empty) {
        return wrong_answer("a cold start", &content);
    }
    client.end()?;
    Ok(elapsed)
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}
