//! Search with a sentence model: rate of embedding and cost of a query.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::graph::SEARCH;
use crate::harness::client::{Client, server_program};
use crate::harness::report::{Row, measure_calls, verdict, wrong_answer};
use crate::harness::{Result, millis};
use crate::{BenchProjects, start, with_bar};

const MODEL: &str = "all-minilm-l6-v2";
/// Minimum number of texts embedded per second of processor time.
const PACE_BAR: f64 = 16.0;
/// Pause between two polls, because each poll delays the embedding.
const POLL_PAUSE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(3_600);
/// Number of queries. The model embeds them too.
const CALLS: usize = 100;

pub(crate) fn measure(projects: &BenchProjects, sizes: &[usize]) -> Result<()> {
    let Some(model) = model_folder() else {
        println!("\n{MODEL}: not measured; set REQLORE_TEST_MODEL to a folder with it");
        return Ok(());
    };
    for size in sizes {
        println!("\n{size} entities with {MODEL}");
        let (project, cache) = projects.project(&format!("m{size}"), *size)?;
        install(&cache, Path::new(&model))?;
        let (mut client, _) = start(&project, &cache, MODEL)?;
        client.call("ixchel_sync", &json!({}))?;
        measure_embedding(&mut client)?;
        searches(projects, &mut client, *size)?;
        println!("{}", Row::new("resident memory").note(format!("{:.1} MiB", client.mebibytes()?)));
        client.end()?;
        fs::remove_dir_all(&project)?;
        fs::remove_dir_all(&cache)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the environment sets the model folder")]
fn model_folder() -> Option<OsString> {
    std::env::var_os("REQLORE_TEST_MODEL").filter(|folder| !folder.is_empty())
}

fn install(cache: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(server_program());
    command.args(["model", "install", MODEL, "--from"]).arg(folder);
    let output = command.env_clear().env("REQLORE_CACHE", cache).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("model install: {errors}").into()) }
}

/// Waits until the model has embedded all texts and reports the rate.
fn measure_embedding(client: &mut Client) -> Result<()> {
    let query = json!({ "query": "anything", "words_only": true, "limit": 1 });
    let texts = pending_texts(&client.call(SEARCH, &query)?.1)?;
    let (clock, before) = (Instant::now(), client.processor_time()?);
    loop {
        sleep(POLL_PAUSE);
        let remaining = pending_texts(&client.call(SEARCH, &query)?.1)?;
        if remaining == 0 {
            break;
        }
        if clock.elapsed() > TIMEOUT {
            return Err(format!("{remaining} of {texts} texts are not embedded").into());
        }
    }
    let processor = client.processor_time()?.saturating_sub(before).as_secs_f64();
    let pace = f64::from(u32::try_from(texts)?) / processor;
    let (wall, verdict) = (clock.elapsed().as_secs(), verdict(pace >= PACE_BAR));
    let note = format!(
        "{pace:.1} texts per CPU second ({texts} texts, {wall} s); bar {PACE_BAR}: {verdict}"
    );
    println!("{}", Row::new("background embedding").note(note));
    Ok(())
}

fn searches(projects: &BenchProjects, client: &mut Client, size: usize) -> Result<()> {
    let query = |query: &String| json!({ "query": query });
    let queries: Vec<Value> = projects.queries.iter().take(CALLS).map(query).collect();
    let signals = json!(["words", format!("meaning:{MODEL}")]);
    let is_right = |content: &Value| content["signals"] == signals;
    let row = measure_calls("search by words and this model", client, SEARCH, &queries, is_right)?;
    println!("{}", with_bar(row, size, millis(30)));
    Ok(())
}

fn pending_texts(content: &Value) -> Result<u64> {
    content["pending"].as_u64().map_or_else(|| wrong_answer("a search", content), Ok)
}
