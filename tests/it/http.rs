//! A real HTTP server with its project and team, and a minimal HTTP/1.1 client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{reqlore, storage_argument};

pub(crate) const STORAGES: [&str; 4] = ["fs", "sqlite", "sled", "postgres"];
/// Time limit for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const UNLIMITED: &str = "[http.limits]\nrequests_per_second = 0\nfailed_logins_per_minute = 0\n\
                         look_ups_per_second = 0\n";

/// A default project on one storage, a second project `shop`, and the users of both.
pub(crate) struct TestTeam {
    scratch: TempDir,
    pub(crate) storage: &'static str,
    /// The value of `--storage`.
    pub(crate) storage_argument: String,
}

impl TestTeam {
    pub(crate) fn new(storage: &'static str) -> Self {
        Self::at(storage, storage_argument(storage))
    }

    /// A team in the PostgreSQL database of this URL, which has no password.
    pub(crate) fn on_postgres(url: String) -> Self {
        Self::at("postgres", url)
    }

    fn at(storage: &'static str, storage_argument: String) -> Self {
        let scratch = crate::client::project();
        for folder in ["root", "shop"] {
            std::fs::create_dir(scratch.path().join(folder)).unwrap();
        }
        let config = format!("{UNLIMITED}[projects.shop]\nroot = \"../shop\"\n");
        std::fs::write(scratch.path().join("root/reqlore.toml"), config).unwrap();
        Self { scratch, storage, storage_argument }
    }

    pub(crate) fn root(&self) -> std::path::PathBuf {
        self.scratch.path().join("root")
    }

    /// The folder that contains both projects and all their data.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = reqlore();
        command.arg("--root").arg(self.root()).args(["--storage", &self.storage_argument]);
        // `ixchel_sync` needs the cache after a restart.
        command.env("REQLORE_CACHE", self.folder().join("cache"));
        // Over HTTP the server reads only a file that the operator names.
        command.arg("--config").arg(self.root().join("reqlore.toml"));
        command
    }

    /// Runs a command that must succeed. Returns its standard output.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.command().args(line.split(' ')).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(line)).unwrap()
    }

    pub(crate) fn user(&self, name: &str, role: &str) {
        self.run(&format!("user add {name} --role {role}"));
    }

    /// Creates a token for this user.
    pub(crate) fn token(&self, user: &str, options: &str) -> String {
        let line = format!("token create --user {user} {options}");
        self.run(line.trim_end()).trim_end().to_owned()
    }

    /// Creates the administrator `ada` and returns a token.
    pub(crate) fn administrator(&self) -> String {
        self.user("ada", "administrator");
        self.token("ada", "")
    }

    pub(crate) fn serve(&self) -> Server {
        Server::start(self.command())
    }

    /// All audit rows, oldest first.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let listed = self.json("audit list --last 100000 --json");
        listed["rows"].as_array().unwrap().clone()
    }
}

/// The public ID of a token.
pub(crate) fn token_id(token: &str) -> &str {
    token.split('_').nth(2).unwrap()
}

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
    log_reader: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts this command as a server on a free port.
    pub(crate) fn start(mut command: Command) -> Self {
        command.args(["--listen", "127.0.0.1:0"]);
        Self::start_at(command)
    }

    /// Starts this command as a server on the address that the command sets.
    pub(crate) fn start_at(mut command: Command) -> Self {
        command.args(["--transport", "http", "--answers", "both"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut start = String::new();
        let address = loop {
            let line_start = start.len();
            let read = lines.read_line(&mut start).unwrap();
            assert!(read > 0, "the server did not start: {start}");
            let address_and_rest = start[line_start..].split_once(" at http://");
            if let Some((address, _)) =
                address_and_rest.and_then(|(_, address_and_rest)| address_and_rest.split_once('/'))
            {
                break address.parse().unwrap();
            }
        };
        let log = Arc::new(Mutex::new(start));
        let listener = std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in lines.lines().map_while(Result::ok) {
                    log.lock().unwrap().extend([&*line, "\n"]);
                }
            }
        });
        Self { child, address, log, log_reader: Some(listener) }
    }

    pub(crate) fn client(&self, token: &str) -> Client {
        Client::new(self.address, token)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the exit. Returns the status and all output.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        let status = self.child.wait().unwrap();
        self.log_reader.take().unwrap().join().unwrap();
        output += &self.log.lock().unwrap();
        (status, output)
    }

    /// Sends SIGTERM and asserts a successful exit. Returns all output.
    pub(crate) fn end(self) -> String {
        self.signal(rustix::process::Signal::TERM);
        let (status, output) = self.wait();
        assert!(status.success(), "{status}: {output}");
        output
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed test may leave its server running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status line and the headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The code of a JSON-RPC error; `None` for a result.
    pub(crate) fn code(&self) -> Option<i64> {
        self.json()["error"]["code"].as_i64()
    }
}

/// A client with a token. It reuses its connection.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    /// Sent with each request.
    pub(crate) headers: Vec<(String, String)>,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        let headers = vec![("Authorization".to_owned(), format!("Bearer {token}"))];
        Self { address, headers, stream: None }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the headers of an MCP client, so that tool errors are returned as results.
    pub(crate) fn into_mcp_client(self) -> Self {
        self.with("Accept", "application/json, text/event-stream")
    }

    /// Sends a request without waiting for its answer.
    pub(crate) fn send(&mut self, line: &str, body: &str) -> std::io::Result<()> {
        self.send_with(line, &[], body)
    }

    pub(crate) fn send_with(
        &mut self,
        line: &str,
        extra_headers: &[(&str, String)],
        body: &str,
    ) -> std::io::Result<()> {
        let mut request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n");
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in headers.chain(extra_headers.iter().map(|(name, value)| (*name, value)))
        {
            request.extend([name, ": ", value, "\r\n"]);
        }
        if !body.is_empty() {
            request.extend(["Content-Type: application/json\r\n"]);
            request.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
        }
        request.extend(["\r\n", body]);
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.set_nodelay(true)?;
            self.stream = Some(BufReader::new(stream));
        }
        self.stream.as_mut().unwrap().get_mut().write_all(request.as_bytes())
    }

    /// Reads the next answer. Drops the connection after an error.
    pub(crate) fn receive(&mut self) -> std::io::Result<Answer> {
        let not_connected = || Err(std::io::ErrorKind::NotConnected.into());
        let answer = self.stream.as_mut().map_or_else(not_connected, read_answer);
        let closes = |answer: &Answer| answer.head.contains("connection: close");
        if answer.as_ref().map_or(true, closes) {
            self.stream = None;
        }
        answer
    }

    /// Reads the next message of a stream of events.
    pub(crate) fn next_event(&mut self) -> Value {
        let stream = self.stream.as_mut().unwrap();
        loop {
            let mut line = String::new();
            assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
            if let Some(message) = line.strip_prefix("data:").filter(|data| data.contains('{')) {
                return serde_json::from_str(message).unwrap();
            }
        }
    }

    pub(crate) fn ask(&mut self, line: &str, body: &str) -> Answer {
        // The server may have closed the idle connection; retry once.
        let is_reused = self.stream.is_some();
        let result = self.send(line, body).and_then(|()| self.receive());
        match result {
            Err(_) if is_reused => {
                self.stream = None;
                self.send(line, body).unwrap();
                self.receive().unwrap()
            }
            result => result.unwrap(),
        }
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "")
    }

    pub(crate) fn post(&mut self, message: &Value) -> Answer {
        self.ask(POST, &message.to_string())
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Answer {
        let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        message["params"] = params;
        self.post(&message)
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        let mut params = json!({ "name": tool });
        params["arguments"] = arguments;
        self.request("tools/call", params)
    }

    /// Calls a tool that must succeed. Returns its structured content.
    pub(crate) fn data(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        let mut json = answer.json();
        assert!(answer.status == 200 && json["result"]["isError"] != true, "{tool}: {answer:?}");
        json["result"]["structuredContent"].take()
    }
}

pub(crate) const POST: &str = "POST /api/v1/mcp";

fn read_answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<Answer> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(std::io::ErrorKind::InvalidData)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or_default()];
    stream.read_exact(&mut body)?;
    let body = String::from_utf8(body).map_err(|_| std::io::ErrorKind::InvalidData)?;
    Ok(Answer { status, head, body })
}

/// Polls a condition for at most five seconds.
pub(crate) fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !is_met() {
        assert!(Instant::now() < deadline, "{condition}: not within 5 seconds");
        std::thread::yield_now();
    }
}
