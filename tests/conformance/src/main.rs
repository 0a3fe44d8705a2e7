//! Serves the fixtures of the official conformance suite on the product's HTTP transport.
//!
//! The suite requires tools, resources and prompts with fixed names. This program tests everything
//! between a socket and a handler with them. It accepts any well-formed token. The first line on
//! stderr is the address and such a token.

mod fixtures;
mod handler;
mod rounds;
mod tools;

use std::error::Error;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::identity::{Access, Caller, PresentedToken};
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_transport_http::{HttpConfig, HttpLimits, HttpTransport, PATH, Readiness};

use handler::Handler;

/// Accepts every well-formed token.
struct AcceptAny;

#[async_trait]
impl Authenticator for AcceptAny {
    async fn authenticate(&self, _: Credentials<'_>) -> Result<Arc<Caller>, AuthenticationError> {
        Ok(Arc::new(Caller::local("anybody", Access::Write)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let handler = Handler::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let http = HttpTransport::bind(HttpConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            behind_proxy: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            limits: HttpLimits { request_rate: None, ..HttpLimits::default() },
            answers: reqlore_domain::ports::service::AnswerFormat::Both,
            authenticator: Arc::new(AcceptAny),
            readiness: Arc::new(|| Readiness::Ready),
            render_metrics: Arc::new(String::new),
            counters: Arc::default(),
            pages: None,
        })?;
        let token = PresentedToken::new("Conformance1", &"x".repeat(32))
            .ok_or(io::ErrorKind::InvalidData)?;
        eprintln!("http://{}{PATH} {}", http.local_address()?, token.reveal());
        http.serve_handler(handler).await
    })?;
    Ok(())
}
