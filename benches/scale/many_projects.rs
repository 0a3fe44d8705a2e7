//! Many small projects on one HTTP server, called at random.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqlore_domain::project_key::ProjectKey;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::harness::client::server_program;
use crate::harness::language::{Random, SyntheticLanguage};
use crate::harness::report::{Row, Times, header, verdict, wrong_answer};
use crate::harness::{Arguments, Result, TIMESTAMP_SETTLE_TIME, process};
use crate::items::{self, ProjectSize};

/// Documents of each project: an epic, stories, requirements and entities.
const SIZE: ProjectSize = ProjectSize { total: 50 };
/// Number of measured calls, after a search in each project.
const CALLS: usize = 5_000;
/// Descriptors are counted after this number of calls.
const SAMPLE_INTERVAL: usize = 100;

const MAX_MEBIBYTES: f64 = 400.0;
const MAX_DESCRIPTORS: f64 = 4_096.0;
/// Maximum 99th percentile of all calls, divided by their median.
const MAX_SPREAD: f64 = 10.0;

const TOOLS: [&str; 4] = ["get_item", "list_epics", "search_global", "create_requirement"];
/// No limit of the server slows down the only client.
const LIMITS: &str = "[http.limits]\nrequests_per_second = 0\nlook_ups_per_second = 0\n";

pub(crate) fn measure(arguments: &Arguments, count: usize) -> Result<()> {
    let language = SyntheticLanguage::new();
    let mut missed = 0;
    for storage in arguments.value("--storage").unwrap_or("sqlite,fs").split(',') {
        println!("\n{count} projects of {} documents in {storage}\n{}", SIZE.documents(), header());
        let folder = arguments.folder()?;
        let projects = Projects { root: folder.path().join("server"), storage, count };
        let clock = Instant::now();
        projects.create(&language)?;
        println!("{}", Row::new("creation").single_time(clock.elapsed()));
        missed += ManyProjects::start(&projects, &language)?.measure()?;
    }
    match missed {
        0 => Ok(()),
        missed => Err(format!("{missed} bars are missed").into()),
    }
}

/// The folder of a server with its settings, cache and projects.
struct Projects<'a> {
    root: PathBuf,
    storage: &'a str,
    count: usize,
}

impl Projects<'_> {
    fn create(&self, language: &SyntheticLanguage) -> Result<()> {
        let mut settings = LIMITS.to_owned();
        for number in 0..self.count {
            let key = key_of(number);
            fs::create_dir_all(self.root.join(key.as_str()))?;
            writeln!(settings, "[projects.{key}]\nroot = \"{key}\"")?;
        }
        fs::write(self.settings(), settings)?;
        if self.storage == "fs" {
            for number in 0..self.count {
                let project = self.root.join(key_of(number).as_str());
                items::write_files(&project, language, SIZE, seed_of(number))?;
            }
            std::thread::sleep(TIMESTAMP_SETTLE_TIME);
        } else {
            let dump = self.root.join("projects.dump");
            let seeds = (0..self.count).map(|number| (key_of(number), seed_of(number))).collect();
            let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
            runtime.block_on(items::write_dump(&dump, language, SIZE, seeds))?;
            self.run(&["restore".as_ref(), dump.as_os_str()])?;
            fs::remove_file(dump)?;
        }
        self.run(&["user", "add", "bench", "--role", "administrator"].map(AsRef::as_ref))?;
        Ok(())
    }

    fn settings(&self) -> PathBuf {
        self.root.join("reqlore.toml")
    }

    fn run(&self, arguments: &[&std::ffi::OsStr]) -> Result<String> {
        let output = self.command().args(arguments).output()?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?);
        }
        Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(server_program());
        command
            .env_clear()
            .env("REQLORE_CACHE", self.root.join("cache"))
            .env("REQLORE_SEARCH_MODEL", "static")
            .args(["--root".as_ref(), self.root.as_os_str()])
            .args(["--config".as_ref(), self.settings().as_os_str()])
            .args(["--storage", self.storage])
            .stdin(Stdio::null());
        command
    }
}

fn key_of(number: usize) -> ProjectKey {
    ProjectKey::new(format!("p{number:05}"))
}

/// The texts of each project differ, as far as their words are concerned.
fn seed_of(number: usize) -> u64 {
    (number as u64 + 1) << 32
}

/// A running server and its only client. Dropping it kills the server.
struct ManyProjects<'a> {
    server: Child,
    address: SocketAddr,
    token: String,
    connection: Connection,
    language: &'a SyntheticLanguage,
    count: usize,
    max_descriptors: u32,
}

impl<'a> ManyProjects<'a> {
    fn start(projects: &Projects<'_>, language: &'a SyntheticLanguage) -> Result<Self> {
        let token = ["token", "create", "--user", "bench"].map(AsRef::as_ref);
        let token = projects.run(&token)?.trim().to_owned();
        let clock = Instant::now();
        let mut command = projects.command();
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
        let mut server = command.stderr(Stdio::piped()).spawn()?;
        let mut errors = server.stderr.take().map(BufReader::new).ok_or("no stderr")?;
        let address = loop {
            let mut line = String::new();
            if errors.read_line(&mut line)? == 0 {
                return Err("the server has not started".into());
            }
            let place = line.split_once("http://").and_then(|(_, rest)| rest.split_once('/'));
            if let Some(address) = place.and_then(|(address, _)| address.parse().ok()) {
                break address;
            }
        };
        println!("{}", Row::new("start").single_time(clock.elapsed()));
        // Drain the pipe, because a full one would block the server.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let (connection, count) = (Connection::open(address)?, projects.count);
        Ok(Self { server, address, token, connection, language, count, max_descriptors: 0 })
    }

    /// Returns the number of missed bars.
    fn measure(mut self) -> Result<usize> {
        let mut first_searches = Vec::with_capacity(self.count);
        for project in 0..self.count {
            first_searches.push(self.call(project, "search_global", project)?);
        }
        let first_searches = Times::from_unsorted(first_searches);
        println!("{}", Row::new("first search of a project").times(&first_searches));
        self.print_memory("memory after these searches", "VmRSS")?;
        let mut random = Random::new(7);
        let mut all = Vec::new();
        let mut by_tool = TOOLS.map(|_| Vec::new());
        for number in 0..CALLS {
            let (project, tool) = (random.below(self.count), random.below(TOOLS.len()));
            let elapsed = self.call(project, TOOLS[tool], number)?;
            all.push(elapsed);
            by_tool[tool].push(elapsed);
            if number.is_multiple_of(SAMPLE_INTERVAL) {
                self.count_descriptors()?;
            }
        }
        for (tool, times) in TOOLS.into_iter().zip(by_tool) {
            let slowest = times.iter().max().copied().unwrap_or_default();
            let note = format!("slowest {:.1} ms", slowest.as_secs_f64() * 1_000.0);
            println!("{}", Row::new(tool).times(&Times::from_unsorted(times)).note(note));
        }
        let all = Times::from_unsorted(all);
        println!("{}", Row::new("all calls").times(&all).rate(&all));
        let spread = all.p99().as_secs_f64() / all.p50().as_secs_f64();
        self.print_memory("memory after all calls", "VmRSS")?;
        let memory = self.print_memory("peak memory", "VmHWM")?;
        let bars = [
            ("p99 of all calls / p50", spread, MAX_SPREAD),
            ("peak memory in MiB", memory, MAX_MEBIBYTES),
            ("descriptors", f64::from(self.max_descriptors), MAX_DESCRIPTORS),
        ];
        for (label, value, bar) in bars {
            println!("{label:<44} {value:>10.1}; bar {bar}: {}", verdict(value <= bar));
        }
        Ok(bars.iter().filter(|(_, value, bar)| value > bar).count())
    }

    /// Calls a tool in a project and checks that the answer is the project's own.
    fn call(&mut self, project: usize, tool: &str, number: usize) -> Result<Duration> {
        let requirement = number * 7 % SIZE.requirements() + 1;
        let title = items::requirement_title(self.language, requirement, seed_of(project));
        let arguments = match tool {
            "get_item" => json!({ "reference": format!("REQ-{requirement}") }),
            "list_epics" => json!({ "limit": 50 }),
            // All documents: those with more common words may be before the one with the title.
            "search_global" => json!({ "query": title, "limit": 50 }),
            _ => json!({
                "user_story": format!("US-{}", number % SIZE.stories() + 1), "title": "created",
                "priority": 2, "type": "Functional", "description": self.language.query(number)
            }),
        };
        let (elapsed, content) = self.exchange(project, tool, &arguments)?;
        let is_right = match tool {
            "get_item" => content["item"]["title"] == title,
            "list_epics" => content["total"] == SIZE.epics(),
            "search_global" => {
                let mut found = content["results"].as_array().into_iter().flatten();
                found.any(|result| result["title"] == title)
            }
            _ => content["reference_id"].is_string() || content["item"].is_object(),
        };
        if is_right { Ok(elapsed) } else { wrong_answer(&format!("{tool} {title}"), &content) }
    }

    fn exchange(
        &mut self,
        project: usize,
        tool: &str,
        arguments: &Value,
    ) -> Result<(Duration, Value)> {
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let (body, key) = (body.to_string(), key_of(project));
        let request = format!(
            "POST /api/v1/mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json\r\nContent-Type: application/json\r\n\
             Reqlore-Project: {key}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let clock = Instant::now();
        let answer = self.connection.ask(request.as_bytes())?;
        let elapsed = clock.elapsed();
        let mut answer: Value = serde_json::from_slice(answer.body)?;
        if !answer["result"].is_object() {
            return wrong_answer(tool, &answer);
        }
        Ok((elapsed, answer["result"]["structuredContent"].take()))
    }

    fn print_memory(&self, label: &str, which: &str) -> Result<f64> {
        let mebibytes = process::mebibytes(self.server.id(), which)?;
        println!("{}", Row::new(label).note(format!("{mebibytes:.1} MiB")));
        Ok(mebibytes)
    }

    fn count_descriptors(&mut self) -> Result<()> {
        let folder = format!("/proc/{}/fd", self.server.id());
        let count = fs::read_dir(folder)?.count();
        self.max_descriptors = self.max_descriptors.max(count.try_into()?);
        Ok(())
    }
}

impl Drop for ManyProjects<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
