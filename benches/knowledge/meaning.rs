//! Search with a sentence model: how fast it reads, and what a query costs that it reads too.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, program};
use crate::graph::SEARCH;
use crate::table::Row;
use crate::{JUDGED, Place, Result, calls, millis, row, start, wrong};

const MODEL: &str = "all-minilm-l6-v2";
/// The least number of texts that it reads in a second of one processor.
const PACE_BAR: f64 = 16.0;
/// Each question takes a turn from the reading.
const BREATH: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(3_600);
/// So many of the queries are asked: each is read by the model.
const CALLS: usize = 100;

pub(crate) fn measure(place: &Place, sizes: &[usize]) -> Result<()> {
    let Some(model) = folder() else {
        println!("\n{MODEL}: not measured, because REQLORE_TEST_MODEL names no folder with it");
        return Ok(());
    };
    for size in sizes {
        println!("\n{size} entities with {MODEL}");
        let (project, cache) = place.project(&format!("m{size}"), *size)?;
        install(&cache, Path::new(&model))?;
        let (mut client, _) = start(&project, &cache, MODEL)?;
        client.call("ixchel_sync", &json!({}))?;
        read(&mut client)?;
        searches(place, &mut client, *size)?;
        let mib = client.resident_bytes()? / (1 << 20);
        println!("{}", Row::new("resident memory").note(format!("{mib} MiB")));
        client.end()?;
        fs::remove_dir_all(&project)?;
        fs::remove_dir_all(&cache)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "only the environment knows where the model is")]
fn folder() -> Option<OsString> {
    std::env::var_os("REQLORE_TEST_MODEL").filter(|folder| !folder.is_empty())
}

fn install(cache: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(program());
    command.args(["model", "install", MODEL, "--from"]).arg(folder);
    let output = command.env_clear().env("REQLORE_CACHE", cache).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("model install: {told}").into()) }
}

/// Waits until the model has read everything.
fn read(client: &mut Client) -> Result<()> {
    let question = json!({ "query": "anything", "words_only": true, "limit": 1 });
    let texts = pending(&client.call(SEARCH, &question)?.1)?;
    let (clock, before) = (Instant::now(), client.processor_time()?);
    loop {
        sleep(BREATH);
        let left = pending(&client.call(SEARCH, &question)?.1)?;
        if left == 0 {
            break;
        }
        if clock.elapsed() > PATIENCE {
            return Err(format!("{left} of {texts} texts are not read").into());
        }
    }
    let processor = client.processor_time()?.saturating_sub(before).as_secs_f64();
    let pace = f64::from(u32::try_from(texts)?) / processor;
    let verdict = if pace >= PACE_BAR { "met" } else { "MISSED" };
    let wall = clock.elapsed().as_secs();
    let note = format!(
        "{pace:.1} texts per CPU second ({texts} texts, {wall} s); bar {PACE_BAR}: {verdict}"
    );
    println!("{}", Row::new("reading in the background").note(note));
    Ok(())
}

fn searches(place: &Place, client: &mut Client, size: usize) -> Result<()> {
    let query = |query: &String| json!({ "query": query });
    let queries: Vec<Value> = place.queries.iter().take(CALLS).map(query).collect();
    let signals = json!(["words", format!("meaning:{MODEL}")]);
    let found = calls(client, SEARCH, &queries, |content| content["signals"] == signals)?;
    let row = row("search by words and this model", found).bar(millis(30));
    let is_judged = size == JUDGED;
    println!("{}", if is_judged { row } else { row.note("(the bar is for 10,000)") });
    Ok(())
}

fn pending(content: &Value) -> Result<u64> {
    content["pending"].as_u64().ok_or_else(|| wrong("a search", content))
}
