//! Baselines: an axum handler that returns stored bytes, and rmcp's service with a constant tool.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use axum::serve::ListenerExt;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};

use crate::harness::Result;
use crate::server::RecordedCall;

/// Flag that runs this program as the bare handler.
pub(crate) const FLAG: &str = "--bare";

/// Flag that runs this program as rmcp's service.
pub(crate) const RMCP_FLAG: &str = "--bare-rmcp";

/// Returns the stored answers in turn until the process is killed.
pub(crate) fn serve(answers: &Path) -> Result<()> {
    let answers: Vec<String> = serde_json::from_slice(&std::fs::read(answers)?)?;
    let answers: Arc<[Bytes]> = answers.into_iter().map(Bytes::from).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let answer = move |_: Bytes| {
        let number = next.fetch_add(1, Ordering::Relaxed) % answers.len();
        let body = answers[number].clone();
        async move { ([(CONTENT_TYPE, "application/json")], body) }
    };
    listen(Router::new().route("/api/v1/mcp", post(answer)))
}

/// Returns the first stored result for every call, through rmcp.
pub(crate) fn serve_rmcp(answers: &Path) -> Result<()> {
    let answers: Vec<String> = serde_json::from_slice(&std::fs::read(answers)?)?;
    let answer = answers.first().ok_or("no answer")?;
    let mut answer: serde_json::Value = serde_json::from_str(answer)?;
    let tool = ConstantTool(serde_json::from_value(answer["result"].take())?);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(tool.clone()), sessions, config);
    listen(Router::new().route_service("/api/v1/mcp", service))
}

#[derive(Clone)]
struct ConstantTool(CallToolResult);

impl ServerHandler for ConstantTool {
    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        Ok(self.0.clone().into())
    }
}

fn listen(router: Router) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        Ok(axum::serve(listener, router).await?)
    })
}

/// A baseline in its own process. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Baseline {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Baseline {
    pub(crate) fn start(flag: &str, questions: &[RecordedCall]) -> Result<Self> {
        let file = tempfile::NamedTempFile::new()?;
        let texts = questions.iter().map(|question| String::from_utf8_lossy(&question.answer));
        serde_json::to_writer(file.as_file(), &texts.collect::<Vec<_>>())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(flag).arg(file.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().parse();
        Ok(Self { process, address: address.map_err(|_| "the baseline did not start")? })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
