//! The transcripts over HTTP: a client of MCP gets the same answers as over pipes, on each storage.
//!
//! An intended difference is a line `{"http": …}`, written by hand, after the expected answer.

use std::fmt::Write as _;

use serde_json::Value;

use crate::http::{Client, Place, Server};
use crate::transcripts::{NAMES, Step, commit, folder, masked, once, save, unmasked};

// S5: 2.5, 7.3, 7.4
#[test]
fn transcripts_over_http_on_files_match_pipes() {
    check_all("fs");
}

#[test]
fn transcripts_over_http_on_sqlite_match_pipes() {
    check_all("sqlite");
}

#[test]
fn transcripts_over_http_on_sled_match_pipes() {
    check_all("sled");
}

fn check_all(storage: &'static str) {
    let found: String = NAMES.iter().map(|name| differences(name, storage)).collect();
    assert!(found.is_empty(), "{found}");
}

fn differences(name: &str, storage: &'static str) -> String {
    let source = std::fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
    let lines: Vec<Value> =
        source.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut player = Player::start(storage);
    let mut differences = String::new();
    for (at, line) in lines.iter().enumerate() {
        let said = if line.get("expect").is_none() { Step::of(line) } else { None };
        let Some(step) = said else { continue };
        let Some(answer) = player.play(&step) else { continue };
        let answer = if name.starts_with("backlog") { once(&answer) } else { answer };
        let http = lines.get(at + 2).and_then(|line| line.get("http"));
        let expected = http.unwrap_or(&lines[at + 1]["expect"]);
        if answer != *expected {
            let line = at + 1;
            writeln!(
                differences,
                "{name} on {storage}, line {line}: {answer}\ninstead of: {expected}\n"
            )
            .unwrap();
        }
    }
    differences
}

/// A place with one user, whose name is that of the local person in the other transcripts.
struct Player {
    place: Place,
    token: String,
    server: Option<Server>,
}

impl Player {
    fn start(storage: &'static str) -> Self {
        let place = Place::new(storage);
        place.user("tester", "user");
        let token = place.token("tester", "");
        let server = Some(place.serve());
        Self { place, token, server }
    }

    fn play(&mut self, step: &Step) -> Option<Value> {
        let root = self.place.root();
        match step {
            Step::Write { path, text } => {
                self.write(path, text);
                None
            }
            Step::Send(request) => {
                let root = root.to_str().unwrap();
                let request = unmasked(request, root);
                let mut client = client(self.server.as_ref().unwrap(), &self.token, &request);
                Some(masked(&client.post(&request).json(), root))
            }
        }
    }

    /// As an editor would. A database of one process is lent by its server.
    fn write(&mut self, path: &str, text: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = self.place.root().join(".reqlore/local");
        match self.place.storage {
            "fs" => save(&self.place.root(), path, text),
            "sqlite" => {
                let config = reqlore_storage_sqlite::Config { file: local.join("reqlore.db") };
                let store = reqlore_storage_sqlite::SqliteStore::open(&config).unwrap();
                runtime.block_on(commit(&store, path, text));
            }
            _ => {
                self.server.take().unwrap().end();
                let config = reqlore_storage_sled::Config { folder: local.join("sled") };
                let store = reqlore_storage_sled::SledStore::open(&config).unwrap();
                runtime.block_on(commit(&store, path, text));
                drop(store);
                self.server = Some(self.place.serve());
            }
        }
    }
}

/// With the headers that clients of this message's era send.
fn client(server: &Server, token: &str, request: &Value) -> Client {
    let client = server.client(token).of_mcp();
    let version = &request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    let Some(version) = version.as_str() else {
        let is_first = request["method"] == "initialize";
        return if is_first { client } else { client.with("MCP-Protocol-Version", "2025-06-18") };
    };
    let method = request["method"].as_str().unwrap();
    let client = client.with("MCP-Protocol-Version", version).with("Mcp-Method", method);
    match request["params"]["name"].as_str() {
        Some(name) => client.with("Mcp-Name", name),
        None => client,
    }
}
