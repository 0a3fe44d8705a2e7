//! Cost of the HTTP server for a team: the real program with tokens, limits and audit log.
//!
//! `cargo bench -p reqlore --profile dist --bench team -- [--million] [--only PART] [--folder
//! DIR]`; the profile is that of releases. PART is one of cost, pages, rate, abuse, tokens,
//! postgres and million.
//! This program is the client and starts itself again as the baselines.
//!
//! Client and server share the machine, so rates include both. The bench fails only on wrong
//! results, not on missed bars.

#![expect(clippy::print_stdout, reason = "the bench prints a table")]

#[path = "team/abuse.rs"]
mod abuse;
#[path = "team/baseline.rs"]
mod baseline;
#[path = "team/connection.rs"]
mod connection;
#[path = "team/cost.rs"]
mod cost;
#[path = "harness/mod.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod harness;
#[path = "backlog/items.rs"]
mod items;
#[path = "team/load.rs"]
mod load;
#[path = "team/pages.rs"]
mod pages;
#[path = "team/postgres.rs"]
mod postgres;
#[path = "team/server.rs"]
mod server;
#[path = "team/tokens.rs"]
mod tokens;

use std::path::Path;
use std::process::ExitCode;

use harness::report::header;
use harness::{Arguments, Result};
use items::Size;
use server::Project;

const SIZE: Size = Size { requirements: 10_000 };
/// Bars apply to the first storage.
const STORAGES: [&str; 3] = ["sqlite", "fs", "sled"];

fn main() -> ExitCode {
    harness::run(measure)
}

fn measure(arguments: &Arguments) -> Result<()> {
    if let Some(answers) = arguments.value(baseline::FLAG) {
        return baseline::serve(Path::new(answers));
    }
    if let Some(answers) = arguments.value(baseline::RMCP_FLAG) {
        return baseline::serve_rmcp(Path::new(answers));
    }
    let only = arguments.value("--only");
    let is_wanted = |part: &str| only.is_none_or(|only| only == part);
    let folder = arguments.folder()?;
    println!("\n{}", header());
    if is_wanted("tokens") {
        tokens::measure(folder.path())?;
    }
    if is_wanted("postgres") {
        postgres::measure(folder.path())?;
    }
    if matches!(only, Some("tokens" | "postgres")) {
        return Ok(());
    }
    println!("\n{} items: {} requirements, ten to a story", SIZE.items(), SIZE.requirements);
    let project = Project::create(folder.path(), SIZE, &["sqlite", "sled"])?;
    if is_wanted("cost") {
        STORAGES.iter().try_for_each(|storage| cost::measure(&project, storage))?;
    }
    if is_wanted("pages") {
        pages::measure(&project, "sqlite")?;
    }
    if is_wanted("rate") {
        STORAGES.iter().try_for_each(|storage| load::measure_rate(&project, storage))?;
    }
    if is_wanted("abuse") {
        abuse::measure(&project)?;
    }
    if arguments.has("--million") && is_wanted("million") {
        load::measure_memory(&project)?;
    }
    Ok(())
}
