//! Runs the queries of a judged collection and writes what was found as a TREC run.
//!
//! `cargo run --release -p reqlore-search --example quality -- DATA.json RUN.trec`

#![allow(clippy::print_stdout, reason = "a report for a person")]

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::time::Instant;

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::search::{Item, Meaning, Projection, Query};
use reqlore_search::{Config, Index};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(data), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: quality DATA.json RUN.trec".into());
    };
    let data: Value = serde_json::from_slice(&fs::read(data)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let run = runtime.block_on(run(&data))?;
    fs::write(out, run)?;
    Ok(())
}

async fn run(data: &Value) -> Result<String, Box<dyn Error>> {
    let index = Index::new(Config::default());
    let key = ProjectKey::default();
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let list = |name: &str| data[name].as_array().cloned().unwrap_or_default();
    let started = Instant::now();
    let documents = list("docs");
    for batch in documents.chunks(256) {
        let projections = batch.iter().map(|document| Projection {
            document: DocumentId::entity(text(document, "id")),
            version: Some(Version::of(text(document, "text").as_bytes())),
            items: vec![Item {
                reference: text(document, "id"),
                kind: "document".to_owned(),
                title: text(document, "title"),
                text: text(document, "text"),
                tags: Vec::new(),
                links: Vec::new(),
                facets: Vec::new(),
            }],
        });
        index.apply(&key, projections.collect()).await?;
    }
    let query = |text: String| Query {
        text,
        documents: Vec::new(),
        kinds: Vec::new(),
        facets: Vec::new(),
        offset: 0,
        limit: 100,
        meaning: Meaning::Best,
    };
    index.search(&key, &query(String::new())).await?;
    let filled = started.elapsed();
    let mut run = String::new();
    let mut times = Vec::new();
    let mut signals = Vec::new();
    for asked in list("queries") {
        let started = Instant::now();
        let hits = index.search(&key, &query(text(&asked, "text"))).await?;
        times.push(started.elapsed());
        for (rank, hit) in hits.hits.iter().enumerate() {
            let score = 1000 - rank;
            writeln!(run, "{}\tQ0\t{}\t{rank}\t{score}\tx", text(&asked, "id"), hit.reference)?;
        }
        signals = hits.signals;
    }
    times.sort();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    let count = documents.len();
    println!("{count} documents in {filled:?}, a query in {middle:?} (limit 100) by {signals:?}");
    Ok(run)
}
