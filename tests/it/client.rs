//! The real binary at the other end of real pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_reqlore");
pub(crate) const DIRECTORY: &str = "docs/development/requirements";

/// The binary, without the variables of this process that it would read.
pub(crate) fn reqlore() -> Command {
    let mut command = Command::new(BINARY);
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("REQLORE_CACHE", "off")
        .env("GIT_AUTHOR_NAME", "tester");
    command.stdin(Stdio::null());
    command
}

/// A server on a project of its own.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
    root: PathBuf,
}

/// A new, empty project.
pub(crate) fn project() -> TempDir {
    tempfile::tempdir().unwrap()
}

impl Server {
    pub(crate) fn start(root: &Path) -> Self {
        Self::start_with(root, &[])
    }

    pub(crate) fn start_with(root: &Path, arguments: &[&str]) -> Self {
        let mut command = reqlore();
        command.arg("--root").arg(root).args(arguments);
        Self::start_as(command, root)
    }

    /// With variables of its environment.
    pub(crate) fn start_in(root: &Path, variables: &[(&str, &Path)]) -> Self {
        let mut command = reqlore();
        command.arg("--root").arg(root).envs(variables.iter().copied());
        Self::start_as(command, root)
    }

    /// A server started by this command, for a project at `root`.
    pub(crate) fn start_as(mut command: Command, root: &Path) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, root: root.to_owned() }
    }

    pub(crate) fn send(&mut self, line: impl AsRef<[u8]>) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_ref()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// The next line as it came; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn answer(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        self.send(request.to_string());
        self.answer()
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.ask(&request(1, method, params))
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let request = call(0, tool, &self.root, arguments);
        self.ask(&request)
    }

    /// The data of a tool's answer, which must not be an error.
    #[track_caller]
    pub(crate) fn data(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.call(tool, arguments);
        assert_ne!(answer["result"]["isError"], true, "{tool}: {answer}");
        answer["result"]["structuredContent"].take()
    }

    /// Ends the input, and gives what was still answered and how the process ended.
    pub(crate) fn end(mut self) -> (Vec<Value>, ExitStatus) {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let answers = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (answers, self.child.wait().unwrap())
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that a failed test left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": id.into(), "method": method });
    request["params"] = params;
    request
}

/// A `tools/call`, with the arguments that every tool on sections requires.
pub(crate) fn call(id: impl Into<Value>, tool: &str, root: &Path, mut arguments: Value) -> Value {
    if tool.starts_with("reqlix_") {
        let all = arguments.as_object_mut().unwrap();
        all.entry("project_root").or_insert_with(|| json!(root));
        all.entry("operation_description").or_insert_with(|| json!("testing"));
    }
    let mut params = json!({ "name": tool });
    params["arguments"] = arguments;
    request(id, "tools/call", params)
}

/// The first text block of a tool's answer.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

pub(crate) fn set(index: impl std::fmt::Display, text: &str) -> Value {
    json!({ "section": "general", "index": index.to_string(), "text": text })
}

/// A file of the project's requirements directory; `None` when it is not there.
pub(crate) fn file(root: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(root.join(DIRECTORY).join(name)).ok()
}
