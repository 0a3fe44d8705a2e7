//! What a team waits for: the real command over HTTP, with tokens, limits and the audit.
//!
//! `cargo bench -p reqlore --profile dist --bench team -- [--million] [--only PART] [--folder
//! DIR]`; the profile is the one that is shipped. PART is one of cost, rate, abuse, tokens and
//! million. The client and what the costs are held against are this program itself: it starts
//! itself again as a handler that does nothing but answer.
//!
//! The client shares the machine with the server, so rates are those of both together. Missed bars
//! are told; only wrong answers fail, because machines differ.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "team/abuse.rs"]
mod abuse;
#[path = "team/bare.rs"]
mod bare;
#[path = "harness/client.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod client;
#[path = "team/connection.rs"]
mod connection;
#[path = "team/cost.rs"]
mod cost;
#[path = "knowledge/tree.rs"]
#[expect(dead_code, reason = "of the tree only its language is needed")]
mod entities;
#[path = "backlog/items.rs"]
mod items;
#[path = "team/million.rs"]
mod million;
#[path = "team/process.rs"]
mod process;
#[path = "team/rate.rs"]
mod rate;
#[path = "team/server.rs"]
mod server;
#[path = "harness/table.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod table;
#[path = "team/tokens.rs"]
mod tokens;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use entities::Language;
use items::Size;
use server::Project;
use table::header;

const SIZE: Size = Size { requirements: 10_000 };
/// The first one is what the bars are for.
const STORAGES: [&str; 3] = ["sqlite", "fs", "sled"];

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("WRONG: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| arguments.iter().skip_while(|given| *given != flag).nth(1);
    if let Some(answers) = value(bare::FLAG) {
        return bare::serve(Path::new(answers));
    }
    if let Some(answers) = value(bare::RMCP_FLAG) {
        return bare::serve_rmcp(Path::new(answers));
    }
    let only = value("--only");
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let folder = match value("--folder") {
        Some(folder) => tempfile::tempdir_in(Path::new(folder).canonicalize()?)?,
        None => tempfile::tempdir()?,
    };
    println!("\n{}", header());
    if wanted("tokens") {
        tokens::measure(folder.path())?;
    }
    if only.is_some_and(|only| only == "tokens") {
        return Ok(());
    }
    println!("\n{} items: {} requirements, ten to a story", SIZE.items(), SIZE.requirements);
    let project = Project::make(folder.path(), &Language::new(), SIZE)?;
    if wanted("cost") {
        STORAGES.iter().try_for_each(|storage| cost::measure(&project, storage))?;
    }
    if wanted("rate") {
        STORAGES.iter().try_for_each(|storage| rate::measure(&project, storage))?;
    }
    if wanted("abuse") {
        abuse::measure(&project)?;
    }
    if arguments.iter().any(|argument| argument == "--million") && wanted("million") {
        million::measure(&project)?;
    }
    Ok(())
}
