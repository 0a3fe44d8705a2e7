//! Logs go to stderr: standard output belongs to the protocol.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::Failure;

/// rmcp tells about every message; only its errors are of interest unless somebody asks.
const QUIET: (&str, LevelFilter) = ("rmcp", LevelFilter::ERROR);

pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    // `Targets` would take a misspelt level for the name of a module.
    let is_known = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    let parsed = filter.split(',').all(is_known).then(|| filter.parse::<Targets>().ok()).flatten();
    let mut targets = parsed.ok_or_else(|| {
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
