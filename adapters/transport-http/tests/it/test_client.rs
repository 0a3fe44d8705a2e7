//! Client that sends exact bytes and parses the responses.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Clone)]
pub(crate) struct TestRequest {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl TestRequest {
    /// A JSON call without a token.
    pub(crate) fn post(body: impl Into<Vec<u8>>) -> Self {
        let line = "POST /api/v1/mcp HTTP/1.1".to_owned();
        let request = Self { line, headers: Vec::new(), body: body.into() };
        request.header("Host", "127.0.0.1").header("Content-Type", "application/json")
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::post("").line(&format!("GET {path} HTTP/1.1")).without("Content-Type")
    }

    /// Replaces the request line.
    pub(crate) fn line(mut self, line: &str) -> Self {
        line.clone_into(&mut self.line);
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Adds one more header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    /// Replaces a header.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).header(name, value)
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend(&self.body);
        bytes
    }

    /// Everything before the body.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        let has_length =
            |(name, _): &(String, String)| name == "Content-Length" || name == "Transfer-Encoding";
        if !self.headers.iter().any(has_length) && !self.body.is_empty() {
            head.extend(["Content-Length: ", &self.body.len().to_string(), "\r\n"]);
        }
        head += "\r\n";
        head.into_bytes()
    }
}

#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl TestResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The data of a tool's result.
    pub(crate) fn data(&self) -> Value {
        self.json()["result"]["structuredContent"].take()
    }

    /// The status and the code of the JSON-RPC error, which every rejected request has.
    pub(crate) fn error_code(&self) -> (u16, i64) {
        let json = self.json();
        assert_eq!(json["jsonrpc"], "2.0", "{json}");
        let code = json["error"]["code"].as_i64();
        (self.status, code.unwrap_or_else(|| panic!("no error: {json}")))
    }

    /// The correlation id of an internal error, which is the request's id.
    pub(crate) fn correlation_id(&self) -> &str {
        let id = self.header("x-request-id").unwrap();
        assert_eq!(self.json()["error"]["data"]["correlation_id"], *id, "{self:?}");
        id
    }
}

pub(crate) struct TestConnection {
    stream: TcpStream,
    /// Bytes that were read and not parsed yet.
    rest: Vec<u8>,
}

impl TestConnection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), rest: Vec::new() }
    }

    /// Ignores the error of a closed connection.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    pub(crate) async fn request(&mut self, request: &TestRequest) -> TestResponse {
        self.write(&request.bytes()).await;
        self.read_response().await.expect("an response")
    }

    /// Reads a response; `None` if the connection was closed before it.
    pub(crate) async fn read_response(&mut self) -> Option<TestResponse> {
        let (status, headers) = self.read_head().await?;
        let mut response = TestResponse { status, headers, body: String::new() };
        if response.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.read_chunk().await {
                response.body += &chunk;
            }
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().unwrap();
            while self.rest.len() < length {
                self.read_more().await?;
            }
            let body: Vec<u8> = self.rest.drain(..length).collect();
            response.body = String::from_utf8(body).unwrap();
        }
        Some(response)
    }

    /// Reads the status and the headers of the next response.
    pub(crate) async fn read_head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let head = self.read_until(b"\r\n\r\n").await?;
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        Some((status, headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// Reads the next part of a streamed response; `None` at its end.
    pub(crate) async fn read_chunk(&mut self) -> Option<String> {
        let size = self.read_until(b"\r\n").await?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        while self.rest.len() < size + 2 {
            self.read_more().await?;
        }
        let chunk: Vec<u8> = self.rest.drain(..size + 2).take(size).collect();
        (size > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    /// False if the server has closed the connection.
    pub(crate) async fn is_open(&mut self) -> bool {
        let mut byte = [0];
        tokio::select! {
            biased;
            read = self.stream.read(&mut byte) => read.is_ok_and(|count| count > 0),
            () = tokio::task::yield_now() => true,
        }
    }

    /// Waits until the server closes the connection. Returns the number of bytes received.
    pub(crate) async fn wait_until_closed(&mut self) -> usize {
        let mut count = self.rest.len();
        self.rest.clear();
        while self.read_more().await.is_some() {
            count += self.rest.len();
            self.rest.clear();
        }
        count
    }

    /// Reads until more than this many bytes were received, or the server closes the connection.
    pub(crate) async fn receive(&mut self, count: usize) -> usize {
        while self.rest.len() <= count && self.read_more().await.is_some() {}
        self.rest.len()
    }

    async fn read_until(&mut self, end: &[u8]) -> Option<String> {
        loop {
            let found = self.rest.windows(end.len()).position(|part| part == end);
            if let Some(found) = found {
                let text: Vec<u8> = self.rest.drain(..found + end.len()).collect();
                return Some(String::from_utf8(text).unwrap());
            }
            self.read_more().await?;
        }
    }

    /// Reads more bytes; `None` at the end.
    async fn read_more(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.rest).await;
        read.ok().filter(|count| *count > 0).map(|_| ())
    }
}

/// Sends these bytes on a new connection.
pub(crate) async fn send(address: SocketAddr, bytes: &[u8]) -> Option<TestResponse> {
    let mut connection = TestConnection::open(address).await;
    connection.write(bytes).await;
    connection.read_response().await
}
