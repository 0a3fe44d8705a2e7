//! Logs go to stderr: standard output belongs to the protocol.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::Failure;

/// rmcp tells about every message; only its errors are of interest unless somebody asks.
const QUIET: (&str, LevelFilter) = ("rmcp", LevelFilter::ERROR);

pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    let mut targets: Targets = filter.parse().map_err(|_| {
        Failure::usage(format!(
            "log: {filter:?} is no level; use error, warn, info, debug, trace or off"
        ))
    })?;
    if !filter.contains(QUIET.0) {
        let level = targets.default_level().unwrap_or(LevelFilter::OFF);
        targets = targets.with_target(QUIET.0, QUIET.1.min(level));
    }
    let stderr = std::io::stderr;
    let lines =
        tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal());
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
    Ok(())
}
