//! What a request costs at least: a handler of axum that reads the body and answers with bytes that
//! are there already, on a runtime like the server's.

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

use crate::Result;
use crate::server::Question;

/// Makes this program the handler.
pub(crate) const FLAG: &str = "--bare";

/// Answers with these in turn, until somebody ends it.
pub(crate) fn serve(answers: &Path) -> Result<()> {
    let answers: Vec<String> = serde_json::from_slice(&std::fs::read(answers)?)?;
    let answers: Arc<[Bytes]> = answers.into_iter().map(Bytes::from).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let answer = move |_: Bytes| {
        let number = next.fetch_add(1, Ordering::Relaxed) % answers.len();
        let body = answers[number].clone();
        async move { ([(CONTENT_TYPE, "application/json")], body) }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        Ok(axum::serve(listener, Router::new().route("/api/v1/mcp", post(answer))).await?)
    })
}

/// The handler in a process of its own, until this is dropped.
#[derive(Debug)]
pub(crate) struct Bare {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Bare {
    pub(crate) fn start(questions: &[Question]) -> Result<Self> {
        let file = tempfile::NamedTempFile::new()?;
        let texts = questions.iter().map(|question| String::from_utf8_lossy(&question.answer));
        serde_json::to_writer(file.as_file(), &texts.collect::<Vec<_>>())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(FLAG).arg(file.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().parse();
        Ok(Self { process, address: address.map_err(|_| "the bare handler did not start")? })
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
