//! `reqlore serve`: answers until the client or the operator ends it.

use std::io::IsTerminal;
use std::sync::Arc;

use crate::config::Config;
use crate::{Failure, OK, wire};

pub(crate) fn run(config: &Config) -> Result<u8, Failure> {
    let application = Arc::new(wire::application(config)?);
    let transport = wire::transport(config);
    if std::io::stdin().is_terminal() {
        explain(config);
    }
    let runtime = wire::runtime()?;
    let served = runtime.block_on(transport.serve(application));
    // A read of standard input may still block a thread; nothing accepted is left to wait for.
    runtime.shutdown_background();
    served
        .map(|()| OK)
        .map_err(|error| Failure::refused(format!("standard input and output: {error}")))
}

/// For the person who started it by hand.
fn explain(config: &Config) {
    eprintln!(
        "reqlore serves {} and waits for an MCP client on standard input (end with Ctrl-D).\n\
         It is meant to be started by an AI assistant; its configuration for that is\n\
         {}\n\
         To see what it does: reqlore demo",
        config.root.display(),
        super::demo::SNIPPET,
    );
}
