//! The knowledge graph at one size: from the first sync to a warm start, with words and the
//! built-in table.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::table::{Row, Times};
use crate::{
    Place, ROUNDS, Result, SAVED, calls, judged, micros, millis, quietest, row, start, tree, wrong,
};

const SYNC: &str = "ixchel_sync";
pub(crate) const SEARCH: &str = "ixchel_search";
const CALLS: usize = 300;
const EDITS: usize = 10;
const STARTS: usize = 5;

pub(crate) fn measure(place: &Place, size: usize) -> Result<()> {
    println!("\n{size} entities");
    let (project, cache) = place.project(&format!("e{size}"), size)?;
    let mut client = syncs(&project, &cache, size)?;
    searches(place, &mut client, size)?;
    reads(&mut client, size)?;
    edits(&project, &mut client, size)?;
    let mib = f64::from(u32::try_from(client.resident_bytes()? / 1024)?) / 1024.0;
    println!("{}", Row::new("resident memory").note(format!("{mib:.1} MiB")));
    client.end()?;
    let cold = |tool: &str, arguments: &Value| -> Result<Times> {
        quietest(|| (0..STARTS).map(|_| cold(&project, &cache, tool, arguments)).collect())
    };
    let times = cold(SEARCH, &json!({ "query": place.queries[0] }))?;
    let row = Row::new("cold start to the first search answer").times(&times);
    println!("{}", judged(row, size, millis(150)));
    let times = cold("ixchel_show", &json!({ "id": tree::id(size / 2) }))?;
    println!("{}", Row::new("cold start to the first show answer").times(&times));
    fs::remove_dir_all(&project)?;
    Ok(fs::remove_dir_all(&cache)?)
}

/// The first sync on empty caches, and later ones; gives the server that did the last of them.
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
            return Err(wrong("the first sync", &content));
        }
        processor = processor.min(client.processor_time()?.saturating_sub(before));
        times.push(elapsed);
        server = Some(client);
    }
    let best = Times::of(vec![times.into_iter().min().unwrap_or_default()]);
    let first = Row { p50: Some(best.p50()), processor: Some(processor), ..Row::new("first sync") };
    println!("{}", judged(first, size, Duration::from_secs(2)));
    let mut client = server.ok_or("no round")?;

    sleep(SAVED);
    let nothing = vec![json!({}); 10];
    let found = calls(&mut client, SYNC, &nothing, |content| content["unchanged"] == size)?;
    println!("{}", judged(row("sync, nothing changed", found), size, millis(60)));
    let times = quietest(|| {
        let mut edit = |number: usize| {
            append(&tree::path(project, number * 7), "\nOne more line.\n")?;
            let (elapsed, content) = client.call(SYNC, &json!({}))?;
            if content["modified"] == 1 { Ok(elapsed) } else { Err(wrong("one edit", &content)) }
        };
        (0..EDITS).map(&mut edit).collect()
    })?;
    let row = Row::new("sync, one file changed").times(&times);
    println!("{}", judged(row, size, millis(80)));
    sleep(SAVED);
    Ok(client)
}

fn searches(place: &Place, client: &mut Client, size: usize) -> Result<()> {
    let queries = |words_only: bool| -> Vec<Value> {
        let query = |query: &String| json!({ "query": query, "words_only": words_only });
        place.queries.iter().map(query).collect()
    };
    let by_words = |content: &Value| content["signals"] == json!(["words"]);
    let found = calls(client, SEARCH, &queries(true), by_words)?;
    println!("{}", judged(row("search by words", found), size, millis(1)));
    let by_both = |content: &Value| {
        content["signals"] == json!(["words", "meaning:static"]) && content["pending"] == 0
    };
    let found = calls(client, SEARCH, &queries(false), by_both)?;
    println!(
        "{}",
        judged(row("search by words and the built-in table", found), size, micros(1_500))
    );
    Ok(())
}

/// The tools that read what is known, each time of another entity.
fn reads(client: &mut Client, size: usize) -> Result<()> {
    let found = calls(client, "ixchel_tags", &vec![json!({}); 100], |content| {
        content["total"].as_u64() > Some(10)
    })?;
    println!("{}", judged(row("tags", found), size, millis(2)));
    let one = |number: usize| json!({ "id": tree::id((number * 31 + 5) % size) });
    let ids: Vec<Value> = (0..CALLS).map(one).collect();
    let tools = [("show", "raw", 100), ("graph", "outgoing", 150), ("context", "items", 250)];
    for (tool, key, bar) in tools {
        let is_there = |content: &Value| !content[key].is_null();
        let found = calls(client, &format!("ixchel_{tool}"), &ids, is_there)?;
        println!("{}", judged(row(tool, found), size, micros(bar)));
    }
    Ok(())
}

/// A word comes into a file as by an editor, and the very next search must find it there.
fn edits(project: &Path, client: &mut Client, size: usize) -> Result<()> {
    let mut word = 0;
    let times = quietest(|| {
        let mut edit = |number: usize| {
            let number = number * 9 % size;
            word += 1;
            append(&tree::path(project, number), &format!("\nqwx{word}zyv\n"))?;
            let query = json!({ "query": format!("qwx{word}zyv"), "words_only": true });
            let (elapsed, content) = client.call(SEARCH, &query)?;
            let is_found = content["hits"][0]["id"] == tree::id(number);
            if is_found { Ok(elapsed) } else { Err(wrong("the search after an edit", &content)) }
        };
        (0..EDITS).map(&mut edit).collect()
    })?;
    let row = Row::new("search right after an edit by hand").times(&times);
    println!("{}", row.note("it knows the edit: met"));
    Ok(())
}

fn cold(project: &Path, cache: &Path, tool: &str, arguments: &Value) -> Result<Duration> {
    let clock = Instant::now();
    let (mut client, _) = start(project, cache, "static")?;
    let (_, content) = client.call(tool, arguments)?;
    let elapsed = clock.elapsed();
    if content["hits"].as_array().is_some_and(Vec::is_empty) {
        return Err(wrong("a cold start", &content));
    }
    client.end()?;
    Ok(elapsed)
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}
