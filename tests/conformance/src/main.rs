//! Serves what the official conformance suite asks for, on the product's own transport.
//!
//! The suite wants tools, resources and prompts of fixed names, which no product has. With them on
//! the same accept loop, door and edge it judges everything between a socket and a handler. Any
//! token of good form gets in. The first line of stderr tells the address, and such a token.

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
use reqlore_transport_http::{Config, Http, Limits, PATH};

use handler::Handler;

/// Lets everybody in who shows anything like a token.
struct Everybody;

#[async_trait]
impl Authenticator for Everybody {
    async fn authenticate(&self, _: Credentials<'_>) -> Result<Arc<Caller>, AuthenticationError> {
        Ok(Arc::new(Caller::local("anybody", Access::Write)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let handler = Handler::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let http = Http::bind(Config {
            listen: ([127, 0, 0, 1], 0).into(),
            behind_proxy: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            limits: Limits { requests: None, ..Limits::default() },
            authenticator: Arc::new(Everybody),
            ready: Arc::new(|| true),
            metrics: Arc::new(String::new),
            counters: Arc::default(),
        })?;
        let token = PresentedToken::new("Conformance1", &"x".repeat(32))
            .ok_or(io::ErrorKind::InvalidData)?;
        eprintln!("http://{}{PATH} {}", http.address()?, token.reveal());
        http.serve_handler(handler).await
    })?;
    Ok(())
}
