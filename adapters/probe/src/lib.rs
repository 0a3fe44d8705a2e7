//! Minimal MCP client for commands, over a child process or HTTP.
//!
//! Every operation has a time limit. Responses are untrusted, so callers have to clean them before
//! printing.

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::http::{StatusCode, Uri};
use ureq::{Agent, Proxy};

/// Path of the MCP endpoint of a server.
pub const ENDPOINT_PATH: &str = "/api/v1/mcp";
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// A list may have a thousand items with long titles.
const MAX_TOOL_RESPONSE_BYTES: usize = 32 << 20;
const MAX_STDERR_BYTES: u64 = 1 << 12;
const MAX_QUOTED_CHARS: usize = 200;
const MAX_PENDING_LINES: usize = 16;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time to read the rest of standard error after a process exits.
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// The `serverInfo` of an `initialize` response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    pub name: String,
    pub version: String,
    pub protocol: String,
}

/// The reason why there is no usable response, and the next step for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {next}")]
pub struct ProbeError {
    pub message: String,
    pub next: String,
}

impl ProbeError {
    fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { message: message.into(), next: next.into() }
    }
}

impl ServerInfo {
    fn from_response(response: &Value) -> Result<Self, ProbeError> {
        let result = &response["result"];
        let server = &result["serverInfo"];
        let texts = [&server["name"], &server["version"], &result["protocolVersion"]];
        if let [Some(name), Some(version), Some(protocol)] = texts.map(Value::as_str) {
            let [name, version, protocol] = [name, version, protocol].map(str::to_owned);
            return Ok(Self { name, version, protocol });
        }
        Err(match response["error"]["message"].as_str() {
            Some(error) => ProbeError::new(
                format!("answered with an error: {}", shorten(error)),
                "read the server's log",
            ),
            None => ProbeError::new(
                "does not answer as an MCP server",
                "check that this is the right server",
            ),
        })
    }
}

/// An MCP client of a child process; sends one request at a time. Dropping it kills the process.
#[derive(Debug)]
pub struct StdioClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Receiver<String>,
    timeout: Duration,
    deadline: Instant,
    last_id: u64,
}

impl StdioClient {
    /// Starts the process. `timeout` limits each response and the exit.
    pub fn start(mut command: Command, timeout: Duration) -> Result<Self, ProbeError> {
        let deadline = Instant::now() + timeout;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            ProbeError::new(
                format!("could not be started: {error}"),
                "check that the program exists and is executable",
            )
        })?;
        let stdin = child.stdin.take();
        // Bounded, because a server may write without end.
        let (line_sender, lines) = sync_channel(MAX_PENDING_LINES);
        let (error_sender, errors) = channel();
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            // Threads, because a read from a pipe has no time limit.
            thread::spawn(move || read_lines(stdout, &line_sender));
            thread::spawn(move || drop(error_sender.send(read_errors(stderr))));
        }
        Ok(Self { child, stdin, lines, errors, timeout, deadline, last_id: 0 })
    }

    pub fn initialize(&mut self) -> Result<ServerInfo, ProbeError> {
        ServerInfo::from_response(&self.request("initialize", &initialize_params())?)
    }

    /// Returns the whole response. Skips notifications and requests of the server.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, ProbeError> {
        self.last_id += 1;
        let line = format!("{}\n", json_rpc_request(self.last_id, method, params));
        if let Some(stdin) = &mut self.stdin {
            // If the server exited, the error below includes its standard error.
            let _ = stdin.write_all(line.as_bytes());
        }
        while let Some(line) = self.read_line() {
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            // A request of the server may have the same ID.
            if message["id"] == self.last_id && message.get("method").is_none() {
                // The next request gets the whole time limit.
                self.deadline = Instant::now() + self.timeout;
                return Ok(message);
            }
        }
        let mut message = match self.wait_for_exit() {
            Some(status) => format!("exited before it answered ({status})"),
            None => format!("did not answer within {:?}", self.timeout),
        };
        let errors = self.stderr_text();
        if !errors.is_empty() {
            message = format!("{message}; stderr: {errors}");
        }
        Err(ProbeError::new(message, "run the command in a terminal to see its error"))
    }

    /// Closes the input and waits until the server has answered all requests and exits.
    pub fn end(mut self) -> Result<ExitStatus, ProbeError> {
        self.wait_for_exit().ok_or_else(|| {
            let message = format!("did not exit within {:?} after its input ended", self.timeout);
            ProbeError::new(message, "stop the process")
        })
    }

    /// `None` at the end of the output, and at the deadline.
    fn read_line(&self) -> Option<Vec<u8>> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(remaining).ok()
    }

    /// Closes standard input and waits. `None` if the process was killed at the deadline.
    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        while let Ok(ended) = self.child.try_wait() {
            if ended.is_some() {
                return ended;
            }
            if Instant::now() >= self.deadline {
                break;
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.kill();
        None
    }

    fn stderr_text(&self) -> String {
        self.errors.recv_timeout(STDERR_TIMEOUT).unwrap_or_default()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        // Without `wait`, the process would stay as a zombie.
        let _ = self.child.wait();
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends each line. Cuts a line that is too long, and stops after it.
fn read_lines(stdout: ChildStdout, sender: &SyncSender<Vec<u8>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = stdout.by_ref().take(MAX_RESPONSE_BYTES as u64).read_until(b'\n', &mut line);
        let is_last = read.is_err() || !line.ends_with(b"\n");
        // The receiver is gone when the client is dropped.
        if line.is_empty() || sender.send(line).is_err() || is_last {
            return;
        }
    }
}

fn read_errors(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = stderr.by_ref().take(MAX_STDERR_BYTES).read_to_end(&mut bytes);
    // The rest is read too, or the process would block on a full pipe.
    let _ = io::copy(&mut stderr, &mut io::sink());
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    shorten(&lines.join(" | "))
}

/// Sends `initialize` to the HTTP server at `url`.
pub fn http_server_info(
    url: &str,
    token: Option<&str>,
    timeout: Duration,
) -> Result<ServerInfo, ProbeError> {
    let client = HttpClient::new(url, token, timeout);
    let params = initialize_params();
    let (status, body) = client.post("initialize", &params, MAX_RESPONSE_BYTES)?;
    if !status.is_success() {
        return Err(status_error(status.as_u16(), token.is_some()));
    }
    ServerInfo::from_response(&parse_body(&body))
}

/// An MCP client of an HTTP server. Sends no handshake, which Reqlore does not need.
///
/// Follows no redirect, and uses no proxy for this machine, because both could leak the token.
pub struct HttpClient {
    agent: Agent,
    url: String,
    token: Option<String>,
    project: Option<String>,
    timeout: Duration,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token and the URL may be secret.
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    /// `timeout` limits each request.
    pub fn new(url: &str, token: Option<&str>, timeout: Duration) -> Self {
        // A proxy would see the token of a local server.
        let proxy = if is_loopback(url) { None } else { Proxy::try_from_env() };
        let agent = Agent::config_builder()
            .timeout_global(Some(timeout))
            // Another host must not get the token.
            .max_redirects(0)
            // The status selects the next step.
            .http_status_as_error(false)
            .proxy(proxy)
            .build();
        Self {
            agent: agent.into(),
            url: url.to_owned(),
            token: token.map(str::to_owned),
            project: None,
            timeout,
        }
    }

    /// Selects a project of the server by its key.
    #[must_use]
    pub fn with_project(mut self, key: &str) -> Self {
        self.project = Some(key.to_owned());
        self
    }

    /// Calls a tool for its text and its data. Returns the whole JSON-RPC response, which is at most
    /// 32 MiB and may be an error of the server.
    pub fn call_tool(&self, name: &str, arguments: &Value) -> Result<Value, ProbeError> {
        let meta = json!({ "reqlore/answers": "both" });
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        let (status, body) = self.post("tools/call", &params, MAX_TOOL_RESPONSE_BYTES)?;
        let response = parse_body(&body);
        // The server explains a forbidden call or an unknown project better than its status does.
        let is_explained = response["error"]["message"].is_string() && status != 401;
        if !status.is_success() && !is_explained {
            return Err(status_error(status.as_u16(), self.token.is_some()));
        }
        if response.get("result").is_none() && !is_explained {
            return Err(ProbeError::new(
                "does not answer as an MCP server",
                "check that this is the right server",
            ));
        }
        Ok(response)
    }

    /// Returns the status and the body. Errors do not quote the body, which may repeat the token.
    fn post(
        &self,
        method: &str,
        params: &Value,
        max_bytes: usize,
    ) -> Result<(StatusCode, String), ProbeError> {
        let mut post = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        if let Some(token) = &self.token {
            post = post.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(project) = &self.project {
            post = post.header("Reqlore-Project", project);
        }
        let body = json_rpc_request(1, method, params).to_string();
        let mut response =
            post.send(body).map_err(|error| transport_error(&error, self.timeout))?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(max_bytes as u64).read_to_string();
        match body {
            Ok(body) => Ok((status, body)),
            // The status is the better explanation.
            Err(_) if !status.is_success() => Ok((status, String::new())),
            Err(error) => Err(transport_error(&error, self.timeout)),
        }
    }
}

/// The MCP endpoint at the address of a server. A path that does not end with `mcp` is a proxy's
/// prefix.
pub fn endpoint_url(address: &str) -> String {
    let (address, query) = address.split_at(address.find('?').unwrap_or(address.len()));
    let address = address.trim_end_matches('/');
    // A host may be called `mcp`.
    let is_complete = address.ends_with("/mcp") && address.matches('/').count() > 2;
    format!("{address}{}{query}", if is_complete { "" } else { ENDPOINT_PATH })
}

/// True if the host is this machine, without a name lookup.
pub fn is_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    // RFC 6761 reserves this name only.
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    // An IPv6 address has brackets in a URL.
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

pub fn is_encrypted(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"))
}

/// The JSON-RPC response in a JSON body or an event stream.
fn parse_body(body: &str) -> Value {
    if let Ok(message) = serde_json::from_str(body) {
        return message;
    }
    for line in body.lines() {
        let Some(data) = line.strip_prefix("data:") else { continue };
        if let Ok(message) = serde_json::from_str::<Value>(data)
            && message["id"] == 1
        {
            return message;
        }
    }
    Value::Null
}

fn status_error(status: u16, has_token: bool) -> ProbeError {
    let (reason, next) = match status {
        401 if has_token => (
            "the token is not valid",
            "it may be revoked, expired or for another server; `reqlore token list` on the server \
             shows the valid tokens, `reqlore token create` creates one",
        ),
        401 => ("it needs a token", "configure a token from `reqlore token create` in the client"),
        403 => (
            "it rejects this host name or origin",
            "use a name from its settings http.hosts and http.origins, or add this one",
        ),
        404 => ("no MCP server at this path", "the path of Reqlore is /api/v1/mcp"),
        300..=399 => ("it redirects", "put the target of the redirect into the configuration"),
        429 => ("too many requests", "wait a minute and try again"),
        500.. => ("it failed", "read the log of the server or of its proxy"),
        _ => ("it rejects the request", "check that an MCP server is at this address"),
    };
    ProbeError::new(format!("answered with status {status}: {reason}"), next)
}

fn transport_error(error: &ureq::Error, timeout: Duration) -> ProbeError {
    match error {
        ureq::Error::Io(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            ProbeError::new(
                "does not listen (connection refused)",
                "start the server with `reqlore --transport http`, or correct the port",
            )
        }
        ureq::Error::Timeout(_) => ProbeError::new(
            format!("did not answer within {timeout:?}"),
            "check the server, and that no firewall blocks the connection",
        ),
        ureq::Error::BodyExceedsLimit(_) => ProbeError::new(
            "sent a response that is too large",
            "check that an MCP server is at this address",
        ),
        other => ProbeError::new(
            format!("can't be reached: {}", shorten(&other.to_string())),
            "check the address (https://HOST/api/v1/mcp), the network and the certificate",
        ),
    }
}

fn initialize_params() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "reqlore", "version": env!("CARGO_PKG_VERSION") }
    })
}

fn json_rpc_request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn shorten(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
