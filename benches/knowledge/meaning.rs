//! Search with a sentence model: its pace of embedding texts, and the cost of a query.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::graph::SEARCH;
use crate::harness::client::{Client, program};
use crate::harness::report::{Row, calls, verdict, wrong};
use crate::harness::{Result, millis};
use crate::{Place, start, with_bar};

const MODEL: &str = "all-minilm-l6-v2";
/// The minimum of texts that it embeds in a second of one processor.
const PACE_BAR: f64 = 16.0;
/// The pause between two polls, which each delay the embedding.
const POLL_PAUSE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(3_600);
/// The number of queries, which the model embeds too.
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
        println!("{}", Row::new("resident memory").note(format!("{:.1} MiB", client.mebibytes()?)));
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

/// Waits until the model has embedded everything.
fn read(client: &mut Client) -> Result<()> {
    let question = json!({ "query": "anything", "words_only": true, "limit": 1 });
    let texts = pending(&client.call(SEARCH, &question)?.1)?;
    let (clock, before) = (Instant::now(), client.processor_time()?);
    loop {
        sleep(POLL_PAUSE);
        let left = pending(&client.call(SEARCH, &question)?.1)?;
        if left == 0 {
            break;
        }
        if clock.elapsed() > TIMEOUT {
            return Err(format!("{left} of {texts} texts are not read").into());
        }
    }
    let processor = client.processor_time()?.saturating_sub(before).as_secs_f64();
    let pace = f64::from(u32::try_from(texts)?) / processor;
    let (wall, verdict) = (clock.elapsed().as_secs(), verdict(pace >= PACE_BAR));
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
    let is_right = |content: &Value| content["signals"] == signals;
    let row = calls("search by words and this model", client, SEARCH, &queries, is_right)?;
    println!("{}", with_bar(row, size, millis(30)));
    Ok(())
}

fn pending(content: &Value) -> Result<u64> {
    content["pending"].as_u64().map_or_else(|| wrong("a search", content), Ok)
}
