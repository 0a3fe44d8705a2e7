//! The smallest client that can measure: it prepares every byte before the clock starts and reads
//! an answer's JSON only after it stopped.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Linux counts processor time in hundredths of a second, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);

/// The command that is measured: another one than Cargo built where `REQLORE_BENCH_PROGRAM` names
/// it.
#[expect(clippy::disallowed_methods, reason = "benches have no configuration to read it in")]
pub(crate) fn program() -> OsString {
    let named = std::env::var_os("REQLORE_BENCH_PROGRAM").filter(|named| !named.is_empty());
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_reqlore").into())
}

/// A running server and the only client it has.
pub(crate) struct Client {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    project: PathBuf,
    id: u64,
    answer: Vec<u8>,
}

impl Client {
    /// Starts a server and shakes hands; tells how long that took from the spawn on.
    pub(crate) fn start(project: &Path) -> io::Result<(Self, Duration)> {
        Self::start_with(project, &[])
    }

    /// The same, with variables of its environment.
    pub(crate) fn start_with(
        project: &Path,
        variables: &[(&str, &OsStr)],
    ) -> io::Result<(Self, Duration)> {
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" }
        });
        let hello = line(0, "initialize", &hello);
        let clock = Instant::now();
        let mut server = Command::new(program())
            .arg("--root")
            .arg(project)
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
            return Err(io::Error::other("the server has no pipes"));
        };
        let output = BufReader::with_capacity(1 << 20, output);
        let project = project.to_owned();
        let mut client = Self { server, input, output, project, id: 0, answer: Vec::new() };
        client.input.write_all(&hello)?;
        client.read()?;
        let elapsed = clock.elapsed();
        result(serde_json::from_slice(&client.answer)?, 0)?;
        client
            .input
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok((client, elapsed))
    }

    /// Calls a tool; gives its structured content and how long the answer took.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> io::Result<(Duration, Value)> {
        let (id, request) = self.request(tool, arguments);
        let elapsed = self.exchange(&request)?;
        Ok((elapsed, content(serde_json::from_slice(&self.answer)?, id)?))
    }

    /// Asks for something else than a tool; gives the result and how long the answer took.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> io::Result<(Duration, Value)> {
        self.id += 1;
        let request = line(self.id, method, params);
        let elapsed = self.exchange(&request)?;
        Ok((elapsed, result(serde_json::from_slice(&self.answer)?, self.id)?))
    }

    /// A request that touches no file.
    pub(crate) fn ping(&mut self) -> io::Result<Duration> {
        self.ask("ping", &json!({})).map(|(elapsed, _)| elapsed)
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<Duration> {
        let clock = Instant::now();
        self.input.write_all(request)?;
        self.read()?;
        Ok(clock.elapsed())
    }

    /// Sends all calls at once and then reads the answers, in whatever order they come; gives them
    /// in the order of the calls.
    pub(crate) fn pipelined(
        &mut self,
        tool: &str,
        calls: &[Value],
    ) -> io::Result<(Duration, Vec<Value>)> {
        let (ids, requests): (Vec<u64>, Vec<Vec<u8>>) =
            calls.iter().map(|arguments| self.request(tool, arguments)).unzip();
        let requests = requests.concat();
        let mut lines = Vec::with_capacity(ids.len());
        let Self { input, output, .. } = self;
        let clock = Instant::now();
        // A thread writes: the server may stop reading while nobody takes its answers.
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| input.write_all(&requests));
            for _ in &ids {
                let mut line = Vec::new();
                output.read_until(b'\n', &mut line)?;
                lines.push(line);
            }
            writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
        })?;
        let elapsed = clock.elapsed();
        let mut answers = HashMap::new();
        for line in lines {
            let answer: Value = serde_json::from_slice(&line)?;
            answers.insert(answer["id"].as_u64(), answer);
        }
        let mut take = |id| content(answers.remove(&Some(id)).unwrap_or_default(), id);
        Ok((elapsed, ids.into_iter().map(&mut take).collect::<io::Result<_>>()?))
    }

    /// The memory that is really there, in bytes.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS in status"))
    }

    /// The processor time that the server has used so far.
    pub(crate) fn processor_time(&self) -> io::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.server.id()))?;
        // The name in parentheses may hold blanks; utime and stime are fields 14 and 15 of all.
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields = behind_name.split_whitespace().skip(11).take(2);
        let ticks: u32 = fields.filter_map(|field| field.parse::<u32>().ok()).sum();
        Ok(TICK * ticks)
    }

    /// Ends the input and waits for the server to go.
    pub(crate) fn end(self) -> io::Result<()> {
        let Self { mut server, input, .. } = self;
        drop(input);
        let status = server.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the server ended with {status}")))
    }

    fn request(&mut self, tool: &str, arguments: &Value) -> (u64, Vec<u8>) {
        self.id += 1;
        let mut all = arguments.clone();
        if tool.starts_with("reqlix_") {
            all["project_root"] = json!(self.project);
            all["operation_description"] = json!("measuring");
        }
        (self.id, line(self.id, "tools/call", &json!({ "name": tool, "arguments": all })))
    }

    /// The next answer; what the server tells unasked is passed over.
    fn read(&mut self) -> io::Result<()> {
        loop {
            self.answer.clear();
            self.output.read_until(b'\n', &mut self.answer)?;
            if !self.answer.starts_with(br#"{"jsonrpc":"2.0","method":"#) {
                return Ok(());
            }
        }
    }
}

/// What two pipes and two processes cost without any work: lines that `cat` sends back.
pub(crate) fn echoes(count: usize) -> io::Result<Vec<Duration>> {
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut input), Some(output)) = (cat.stdin.take(), cat.stdout.take()) else {
        return Err(io::Error::other("cat has no pipes"));
    };
    let mut output = BufReader::new(output);
    let (sent, mut line) = (line(0, "ping", &json!({})), Vec::new());
    let mut echo = || {
        line.clear();
        let clock = Instant::now();
        input.write_all(&sent)?;
        output.read_until(b'\n', &mut line)?;
        Ok(clock.elapsed())
    };
    let times = (0..count).map(|_| echo()).collect();
    drop(input);
    cat.wait()?;
    times
}

fn line(id: u64, method: &str, params: &Value) -> Vec<u8> {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    format!("{request}\n").into_bytes()
}

/// The structured content of a good answer to this request.
fn content(answer: Value, id: u64) -> io::Result<Value> {
    Ok(result(answer, id)?["structuredContent"].take())
}

fn result(mut answer: Value, id: u64) -> io::Result<Value> {
    if answer["id"] != id || !answer["result"].is_object() || answer["result"]["isError"] == true {
        return Err(io::Error::other(format!("request {id} was answered with {answer}")));
    }
    Ok(answer["result"].take())
}
