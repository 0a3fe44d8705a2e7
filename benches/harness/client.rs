//! A minimal client that prepares requests and parses answers outside the measured time.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::report::Row;
use super::{Result, millis, process};

/// The measured program: the value of `REQLORE_BENCH_PROGRAM` or the program that Cargo built.
#[expect(clippy::disallowed_methods, reason = "benches have no configuration to read it in")]
pub(crate) fn server_program() -> OsString {
    let program = std::env::var_os("REQLORE_BENCH_PROGRAM").filter(|program| !program.is_empty());
    program.unwrap_or_else(|| env!("CARGO_BIN_EXE_reqlore").into())
}

/// A running server and its only client.
pub(crate) struct Client {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    project: PathBuf,
    id: u64,
    answer: Vec<u8>,
}

impl Client {
    /// Starts a server with these environment variables and initializes it. Returns the time from
    /// the spawn to the first answer.
    pub(crate) fn start(
        project: &Path,
        variables: &[(&str, &OsStr)],
    ) -> io::Result<(Self, Duration)> {
        Self::start_program(&server_program(), project, variables)
    }

    /// Starts this program like [`Client::start`].
    pub(crate) fn start_program(
        program: &OsStr,
        project: &Path,
        variables: &[(&str, &OsStr)],
    ) -> io::Result<(Self, Duration)> {
        let initialize = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" }
        });
        let initialize = request_line(0, "initialize", &initialize);
        let clock = Instant::now();
        let mut server = Command::new(program)
            .args(["--answers", "both", "--root"])
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
        client.input.write_all(&initialize)?;
        client.read_answer()?;
        let elapsed = clock.elapsed();
        into_result(serde_json::from_slice(&client.answer)?, 0)?;
        client
            .input
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok((client, elapsed))
    }

    /// Calls a tool. Returns the time to the answer and its structured content.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> io::Result<(Duration, Value)> {
        self.id += 1;
        let mut arguments = arguments.clone();
        if tool.starts_with("reqlix_") {
            arguments["project_root"] = json!(self.project);
            arguments["operation_description"] = json!("measuring");
        }
        let request =
            request_line(self.id, "tools/call", &json!({ "name": tool, "arguments": arguments }));
        let elapsed = self.exchange(&request)?;
        let mut result = into_result(serde_json::from_slice(&self.answer)?, self.id)?;
        Ok((elapsed, result["structuredContent"].take()))
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<Duration> {
        let clock = Instant::now();
        self.input.write_all(request)?;
        self.read_answer()?;
        Ok(clock.elapsed())
    }

    /// The ID of the server's process.
    pub(crate) fn process(&self) -> u32 {
        self.server.id()
    }

    /// Resident memory in MiB.
    pub(crate) fn mebibytes(&self) -> io::Result<f64> {
        process::mebibytes(self.server.id(), "VmRSS")
    }

    /// Processor time of the server since its start.
    pub(crate) fn processor_time(&self) -> io::Result<Duration> {
        process::processor_time(self.server.id())
    }

    /// Closes the input and waits for the server to end.
    pub(crate) fn end(self) -> io::Result<()> {
        let Self { mut server, input, .. } = self;
        drop(input);
        let status = server.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the server ended with {status}")))
    }

    /// Reads the next answer and skips notifications.
    fn read_answer(&mut self) -> io::Result<()> {
        loop {
            self.answer.clear();
            self.output.read_until(b'\n', &mut self.answer)?;
            if !self.answer.starts_with(br#"{"jsonrpc":"2.0","method":"#) {
                return Ok(());
            }
        }
    }
}

/// Runs `reqlore copy`. The row has its time and peak memory.
pub(crate) fn measure_copy(project: &Path, from: &str, to: &str) -> Result<Row> {
    let clock = Instant::now();
    let mut command = Command::new(server_program());
    command.args(["copy", "--from", from, "--to", to, "--root"]).arg(project);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut max_memory = 0.0_f64;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // The process may have ended in the meantime.
        let memory = process::mebibytes(child.id(), "VmHWM").unwrap_or_default();
        max_memory = max_memory.max(memory);
        std::thread::sleep(millis(20));
    };
    if !status.success() {
        return Err(format!("copy from {from} to {to} ended with {status}").into());
    }
    let to = to.split(':').next().unwrap_or(to);
    let label = format!("copy from {from} to {to}, {max_memory:.0} MiB");
    Ok(Row::new(label).single_time(clock.elapsed()))
}

fn request_line(id: u64, method: &str, params: &Value) -> Vec<u8> {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    format!("{request}\n").into_bytes()
}

fn into_result(mut answer: Value, id: u64) -> io::Result<Value> {
    if answer["id"] != id || !answer["result"].is_object() || answer["result"]["isError"] == true {
        return Err(io::Error::other(format!("request {id} was answered with {answer}")));
    }
    Ok(answer["result"].take())
}
