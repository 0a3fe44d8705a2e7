//! A client that talks to the real binary over pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use reqlore_test_postgres::TestDatabase;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_reqlore");
pub(crate) const ANSWERS_VARIABLE: &str = "REQLORE_ANSWERS";
pub(crate) const DIRECTORY: &str = "docs/development/requirements";

/// A command for the binary with a clean environment.
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

/// A running server and the pipes to it.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
    root: PathBuf,
    /// The last note that named the project's folder. Answers are read without it.
    pub(crate) folder: Option<String>,
}

/// The value of `--storage` for a new project: for `postgres` the URL of a new database with empty
/// tables, which lives as long as the process of the test.
pub(crate) fn storage_argument(storage: &str) -> String {
    if storage != "postgres" {
        return storage.to_owned();
    }
    let database = TestDatabase::new();
    let url = database.command_url();
    drop(crate::transcripts::open_postgres(&url));
    // The next test drops it.
    std::mem::forget(database);
    url
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

    /// Starts a server with additional environment variables.
    pub(crate) fn start_in(root: &Path, variables: &[(&str, &Path)]) -> Self {
        let mut command = reqlore();
        command.arg("--root").arg(root).envs(variables.iter().copied());
        Self::start_as(command, root)
    }

    /// Starts a server with this command, for a project at `root`.
    pub(crate) fn start_as(mut command: Command, root: &Path) -> Self {
        // Most tests check data, which a model does not get by default.
        if command.get_envs().all(|(name, _)| name != ANSWERS_VARIABLE) {
            command.env(ANSWERS_VARIABLE, "both");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, root: root.to_owned(), folder: None }
    }

    pub(crate) fn send(&mut self, line: impl AsRef<[u8]>) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_ref()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Reads the next line unchanged. Empty at the end of output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn answer(&mut self) -> Value {
        let line = self.line();
        let parsed = serde_json::from_str(&line);
        let mut answer = parsed.unwrap_or_else(|error| panic!("{error}: {line:?}"));
        self.folder = take_folder_note(&mut answer).or(self.folder.take());
        answer
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
        self.send(request.to_string());
        loop {
            let message = self.answer();
            // A notification, for example of changed resources, may come first.
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Calls a tool, asserts success and returns its structured content.
    #[track_caller]
    pub(crate) fn data(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.call(tool, arguments);
        assert_ne!(answer["result"]["isError"], true, "{tool}: {answer}");
        answer["result"]["structuredContent"].take()
    }

    /// Closes the input. Returns the remaining messages and the exit status.
    pub(crate) fn end(mut self) -> (Vec<Value>, ExitStatus) {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let mut answers: Vec<Value> =
            rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for answer in &mut answers {
            take_folder_note(answer);
        }
        (answers, self.child.wait().unwrap())
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed test may leave its server running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes the note that names the project's folder, which differs in each run.
pub(crate) fn take_folder_note(answer: &mut Value) -> Option<String> {
    const BEGIN: &str = "Project folder: ";
    if let Some(Value::Object(data)) = answer.pointer_mut("/result/structuredContent")
        && let Some(Value::Array(notes)) = data.get_mut("notes")
    {
        notes.retain(|note| !note.as_str().unwrap().starts_with(BEGIN));
        if notes.is_empty() {
            data.remove("notes");
        }
    }
    let text = answer.pointer_mut("/result/content/0/text")?;
    let shown = text.as_str()?;
    let (before, folder) = shown.split_once(&format!("\nNote: {BEGIN}"))?;
    let folder = folder.strip_suffix('.').unwrap_or(folder).to_owned();
    *text = before.strip_suffix('\n').unwrap_or(before).into();
    Some(folder)
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": id.into(), "method": method });
    request["params"] = params;
    request
}

/// A `tools/call` request. Adds the arguments that every section tool requires.
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

/// The text of a file in the requirements directory, or `None` if it does not exist.
pub(crate) fn section_file(root: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(root.join(DIRECTORY).join(name)).ok()
}
