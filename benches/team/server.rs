//! The real server on a large backlog, with a token for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use reqlore_domain::backlog::ItemKind;
use serde_json::{Value, json};

use crate::connection::{Connection, request};
use crate::harness::client::server_program;
use crate::harness::language::SyntheticLanguage;
use crate::harness::process::{mebibytes, processor_time};
use crate::harness::{Result, TIMESTAMP_SETTLE_TIME};
use crate::items::{self, REQUIREMENTS, Size, reference};

/// Number of different calls of a tool.
const RECORDED_CALLS: usize = 300;
/// Limits that no bench reaches.
const NO_LIMITS: &str = "requests_per_second = 0\nfailed_logins_per_minute = 0\n\
                   look_ups_per_second = 0\nconnections_per_address = 1000\n\
                   in_flight_per_token = 64\n";
/// Default limits without the request rate, which would slow down the measured client.
const DEFAULT_LIMITS: &str = "requests_per_second = 0\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limits {
    Off,
    On,
}

/// A project with the same backlog in every storage.
#[derive(Debug)]
pub(crate) struct Project {
    root: PathBuf,
    cache: PathBuf,
    size: Size,
}

impl Project {
    /// Creates files and copies them into the databases.
    pub(crate) fn create(folder: &Path, size: Size, databases: &[&str]) -> Result<Self> {
        let project = Self { root: folder.join("team"), cache: folder.join("cache"), size };
        fs::create_dir_all(&project.root)?;
        items::write_backlog(&project.root, &SyntheticLanguage::new(), size)?;
        let docsets = project.root.join(".knowledge");
        fs::create_dir_all(&docsets)?;
        fs::write(docsets.join("config.yaml"), "docsets:\n  react:\n    version: \"18.2\"\n")?;
        sleep(TIMESTAMP_SETTLE_TIME);
        for to in databases {
            project.run("fs", &["copy", "--from", "fs", "--to", to])?;
        }
        for storage in [&["fs"], databases].concat() {
            project.run(storage, &["user", "add", "bench", "--role", "administrator"])?;
        }
        Ok(project)
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Deletes the search index, so that the next server is like a new one.
    pub(crate) fn delete_cache(&self) -> Result<()> {
        Ok(fs::remove_dir_all(&self.cache)?)
    }

    /// Creates a token.
    pub(crate) fn token(&self, storage: &str) -> Result<String> {
        Ok(self.run(storage, &["token", "create", "--user", "bench"])?.trim().to_owned())
    }

    pub(crate) fn start(&self, storage: &str, limits: Limits) -> Result<Server> {
        let token = self.token(storage)?;
        let limits = if limits == Limits::Off { NO_LIMITS } else { DEFAULT_LIMITS };
        let settings = self.root.join("reqlore.toml");
        fs::write(&settings, format!("[http.limits]\n{limits}"))?;
        let mut command = self.command(storage);
        command.arg("--config").arg(settings);
        command.args([
            "--transport",
            "http",
            "--listen",
            "127.0.0.1:0",
            "--log",
            "error",
            "--answers",
            "both",
        ]);
        let mut process = command.stderr(Stdio::piped()).spawn()?;
        let mut errors = process.stderr.take().map(BufReader::new).ok_or("no stderr")?;
        let (mut log, mut address) = (String::new(), None);
        while address.is_none() && errors.read_line(&mut log)? > 0 {
            let place = log.split_once("http://").and_then(|(_, rest)| rest.split_once('/'));
            address = place.and_then(|(address, _)| address.parse().ok());
        }
        let Some(address) = address else {
            let _ = process.kill();
            return Err(log.into());
        };
        // Drain the pipe, because a full one would block the server.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Ok(Server { process, address, token, size: self.size })
    }

    fn run(&self, storage: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(storage).args(arguments).output()?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?);
        }
        Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    fn command(&self, storage: &str) -> Command {
        let mut command = Command::new(server_program());
        command
            .env_clear()
            .env("REQLORE_CACHE", &self.cache)
            .env("REQLORE_SEARCH_MODEL", "static")
            .args(["--root".as_ref(), self.root.as_os_str()])
            .args(["--storage", storage])
            .stdin(Stdio::null());
        command
    }
}

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    size: Size,
}

/// A request and its expected answer.
#[derive(Debug)]
pub(crate) struct RecordedCall {
    pub(crate) request: Vec<u8>,
    pub(crate) answer: Vec<u8>,
}

impl Server {
    /// Calls this method or tool with different arguments and records the answers.
    pub(crate) fn record_calls(&self, target: &str) -> Result<Vec<RecordedCall>> {
        let count =
            if ["tools/list", "list_docsets"].contains(&target) { 1 } else { RECORDED_CALLS };
        let mut connection = Connection::open(self.address)?;
        let mut ask = |number| {
            let request =
                request(self.address, &self.token, &body(target, number, self.size)?.to_string());
            let answer = connection.ask(&request)?;
            let answer = (answer.status, answer.body.to_vec());
            let json: Value = serde_json::from_slice(&answer.1)?;
            let content = &json["result"]["structuredContent"];
            let is_right = match target {
                "get_item" => content["item"].is_object(),
                "tools/list" => json["result"]["tools"].is_array(),
                "list_docsets" => content.is_object(),
                _ => content["requirements"].as_array().is_some_and(|a| a.len() == REQUIREMENTS),
            };
            if answer.0 != 200 || !is_right {
                return Err(format!("{target} was answered with {} {json}", answer.0).into());
            }
            Ok(RecordedCall { request, answer: answer.1 })
        };
        (0..count).map(&mut ask).collect()
    }

    /// Searches, and returns the number of texts that the search index lacks.
    pub(crate) fn pending_texts(&self) -> Result<u64> {
        let params = json!({ "name": "search_global", "arguments": { "query": "known user" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = request(self.address, &self.token, &body.to_string());
        let mut connection = Connection::open(self.address)?;
        let json: Value = serde_json::from_slice(connection.ask(&request)?.body)?;
        let pending = json["result"]["structuredContent"]["pending"].as_u64();
        pending.ok_or_else(|| format!("search_global was answered with {json}").into())
    }

    /// Calls that create requirements, each in another story.
    pub(crate) fn creations(&self, count: usize) -> Result<Vec<RecordedCall>> {
        let mut calls = Vec::with_capacity(count);
        for number in 0..count {
            let story = reference(ItemKind::UserStory, number * 31 % self.size.stories() + 1)?;
            let arguments = json!({
                "user_story": story.to_string(), "title": format!("Requirement {number}"),
                "priority": 2, "type": "Functional",
                "description": "The server must answer every request of a known user in time.",
            });
            let params = json!({ "name": "create_requirement", "arguments": arguments });
            let body =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            let request = request(self.address, &self.token, &body.to_string());
            calls.push(RecordedCall { request, answer: Vec::new() });
        }
        Ok(calls)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn processor_time(&self) -> Result<Duration> {
        Ok(processor_time(self.process.id())?)
    }

    pub(crate) fn mebibytes(&self, which: &str) -> Result<f64> {
        Ok(mebibytes(self.process.id(), which)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The body of a JSON-RPC request.
fn body(target: &str, number: usize, size: Size) -> Result<Value> {
    let stories = size.stories();
    let (kind, argument, number) = match target {
        "tools/list" => return Ok(json!({ "jsonrpc": "2.0", "id": 1, "method": target })),
        "list_docsets" => {
            let params = json!({ "name": target, "arguments": {} });
            let method = "tools/call";
            return Ok(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        }
        "get_item" => (ItemKind::Requirement, "reference", number * 31 % size.requirements + 1),
        _ => (ItemKind::UserStory, "user_story", number * 31 % stories + 1),
    };
    let arguments = json!({ argument: reference(kind, number)?.to_string() });
    let params = json!({ "name": target, "arguments": arguments });
    Ok(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
}
