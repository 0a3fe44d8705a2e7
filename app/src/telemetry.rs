//! Logs go to stderr, one line each: standard output belongs to the protocol.
//!
//! Everything that a line says goes through [`lines`], which hides secrets and line ends; a panic
//! is a line like any other. No formatter of a library is used, because none of them does that.

mod lines;
#[cfg(feature = "otel")]
mod otel;
mod panics;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::str::FromStr;
use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::clock::SystemClock;
use crate::exit::CommandError;
use lines::Lines;

/// rmcp tells about every message; only its errors are of interest unless somebody asks.
const QUIET: (&str, LevelFilter) = ("rmcp", LevelFilter::ERROR);

/// How a line is written (the setting `log_format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// An object a line, for programs.
    Json,
}

impl FromStr for Format {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(()),
        }
    }
}

/// Keep it until the end: what is still to be exported goes out when it is dropped.
#[must_use]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    _exporter: Option<otel::Exporter>,
}

/// Logs from here on, and turns panics into log lines. Once in a process.
pub(crate) fn start(filter: &str, format: Format) -> Result<Telemetry, CommandError> {
    let targets = targets(filter)?;
    let write = |line: &str| {
        // Nobody is left to tell when even this can't be written.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    };
    let is_coloured = format == Format::Text && std::io::stderr().is_terminal();
    let lines = Lines::new(format, is_coloured, Arc::new(SystemClock), write);
    let registry = tracing_subscriber::registry().with(lines.with_filter(targets));
    #[cfg(feature = "otel")]
    let exporter = otel::Exporter::start()?;
    #[cfg(feature = "otel")]
    let registry = registry.with(exporter.as_ref().map(otel::Exporter::layer));
    registry.init();
    // Only now: before, nobody would hear of an event.
    panics::report_as_events();
    Ok(Telemetry {
        #[cfg(feature = "otel")]
        _exporter: exporter,
    })
}

pub(crate) fn targets(filter: &str) -> Result<Targets, CommandError> {
    // `Targets` would take a misspelt level for the name of a module.
    let is_known = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    let parsed = filter.split(',').all(is_known).then(|| filter.parse::<Targets>().ok()).flatten();
    let mut targets = parsed.ok_or_else(|| {
        CommandError::usage(format!(
            "log: {filter:?} is no level; use error, warn, info, debug, trace or off"
        ))
    })?;
    if !filter.contains(QUIET.0) {
        let level = targets.default_level().unwrap_or(LevelFilter::OFF);
        targets = targets.with_target(QUIET.0, QUIET.1.min(level));
    }
    Ok(targets)
}
