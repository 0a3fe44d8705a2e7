//! Transcripts over HTTP: an MCP client gets the same answers as over pipes, on each storage.
//!
//! A line `{"http": …}` after the expected answer records an intended difference.

use std::fmt::Write as _;

use serde_json::Value;

use crate::http::{Client, Server, TestTeam};
use crate::transcripts::{
    NAMES, Placeholders, Step, commit_document, commit_to_postgres, mask_variable_parts,
    transcripts_folder, write_file,
};

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

#[test]
fn transcripts_over_http_on_postgres_match_pipes() {
    check_all("postgres");
}

fn check_all(storage: &'static str) {
    let differences: String = NAMES.iter().map(|name| differences(name, storage)).collect();
    assert!(differences.is_empty(), "{differences}");
}

fn differences(name: &str, storage: &'static str) -> String {
    let source =
        std::fs::read_to_string(transcripts_folder().join(format!("{name}.jsonl"))).unwrap();
    let lines: Vec<Value> =
        source.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut player = HttpPlayer::start(storage);
    let mut differences = String::new();
    for (index, line) in lines.iter().enumerate() {
        let parsed_step = if line.get("expect").is_none() { Step::parse(line) } else { None };
        let Some(step) = parsed_step else { continue };
        let Some(answer) = player.play(&step) else { continue };
        let answer = mask_variable_parts(name, answer);
        let special = lines.get(index + 2).and_then(|line| {
            let on_files = line.get("files").filter(|_| storage == "fs");
            on_files.or_else(|| line.get("http"))
        });
        let expected = special.unwrap_or(&lines[index + 1]["expect"]);
        if answer != *expected {
            let line = index + 1;
            writeln!(
                differences,
                "{name} on {storage}, line {line}: {answer}\ninstead of: {expected}\n"
            )
            .unwrap();
        }
    }
    differences
}

/// A team with one user. The name is that of the local user in the other transcripts.
struct HttpPlayer {
    team: TestTeam,
    token: String,
    server: Option<Server>,
    placeholders: Placeholders,
}

impl HttpPlayer {
    fn start(storage: &'static str) -> Self {
        let team = TestTeam::new(storage);
        team.user("tester", "user");
        // An assignee in the transcripts.
        team.user("bob", "commenter");
        let token = team.token("tester", "");
        let server = Some(team.serve());
        let placeholders = Placeholders::new(&team.root());
        Self { team, token, server, placeholders }
    }

    fn play(&mut self, step: &Step) -> Option<Value> {
        match step {
            Step::Write { path, text } => {
                self.write(path, text);
                None
            }
            Step::Send(request) => {
                let request = self.placeholders.insert(request);
                let mut client = client_for(self.server.as_ref().unwrap(), &self.token, &request);
                Some(self.placeholders.mask(&client.post(&request).json()))
            }
        }
    }

    /// Writes a document as an editor would. Stops the server for a storage of one process.
    fn write(&mut self, path: &str, text: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = self.team.root().join(".reqlore/local");
        match self.team.storage {
            "fs" => write_file(&self.team.root(), path, text),
            "sqlite" => {
                let config =
                    reqlore_storage_sqlite::SqliteConfig { file: local.join("reqlore.db") };
                let store = reqlore_storage_sqlite::open(&config).unwrap();
                runtime.block_on(commit_document(&store, path, text));
            }
            "postgres" => commit_to_postgres(&self.team.storage_argument, path, text),
            _ => {
                self.server.take().unwrap().end();
                let config = reqlore_storage_sled::SledConfig { folder: local.join("sled") };
                let store = reqlore_storage_sled::open(&config).unwrap();
                runtime.block_on(commit_document(&store, path, text));
                drop(store);
                self.server = Some(self.team.serve());
            }
        }
    }
}

/// A client with the headers that the protocol revision of this request requires.
fn client_for(server: &Server, token: &str, request: &Value) -> Client {
    let client = server.client(token).into_mcp_client();
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
