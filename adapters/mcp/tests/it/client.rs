//! Client of either protocol era that writes and reads single lines.

use std::sync::Arc;

use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::test_support::StubService;
use reqlore_mcp::server::{ConnectionService, McpServer};
use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion};
use rmcp::service::{RunningService, serve_directly};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

pub(crate) struct Client {
    era: Era,
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    pub(crate) server: McpServer,
    pub(crate) running: RunningService<RoleServer, ConnectionService>,
    id: i64,
}

impl Client {
    pub(crate) fn new(era: Era, stub: &Arc<StubService>) -> Self {
        let caller = Caller::local("me", Access::Write);
        let server = McpServer::new(stub.clone(), caller);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let client = Implementation::new("unknown", "0");
        let peer = InitializeRequestParams::new(ClientCapabilities::default(), client)
            .with_protocol_version(ProtocolVersion::V_2025_03_26);
        let running =
            serve_directly(ConnectionService(server.clone()), tokio::io::split(theirs), Some(peer));
        let (read, write) = tokio::io::split(ours);
        Self { era, read: BufReader::new(read), write, server, running, id: 0 }
    }

    /// Sends a request without waiting for its response. Returns its id.
    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> i64 {
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        self.id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn read_line(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_default()
    }

    /// Sends a request. Its response must be the next line.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let response = self.read_line().await;
        assert_eq!(response["id"], id, "{response}");
        response
    }

    pub(crate) async fn result(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params).await;
        assert_eq!(response.get("error"), None);
        response["result"].take()
    }

    pub(crate) async fn error(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params).await;
        assert_eq!(response.get("result"), None);
        response["error"].take()
    }

    /// Asserts that no notification is pending: the next line is the response to this request.
    pub(crate) async fn assert_silent(&mut self) {
        // Longer than several poll intervals.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        self.result("tools/list", json!({})).await;
    }
}
