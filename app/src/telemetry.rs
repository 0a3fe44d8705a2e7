//! Logs one line per event on stderr; standard output belongs to the protocol.
//!
//! Fields contain text from clients. Secrets in it are redacted, and both formats escape control
//! characters, so that a field can neither end a line nor control a terminal.

#[cfg(feature = "otel")]
mod otel;
#[cfg(test)]
mod tests;

use std::backtrace::Backtrace;
use std::fmt::{self, Debug};
use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use reqlore_domain::identity::redact_secrets;
use reqlore_domain::untrusted_text::encode_line;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::console::{encode_console, encode_console_json};
use crate::exit::{CommandError, Result};

/// Target and level of rmcp, which logs every message, unless the setting names the target.
const RMCP_LEVEL: (&str, LevelFilter) = ("rmcp", LevelFilter::ERROR);
/// Enough for a backtrace.
const MAX_FIELD_BYTES: usize = 64 * 1024;

/// Value of the setting `log_format`; formats the fields of events and spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One object per line.
    Json,
}

/// Exports the last spans on drop.
#[must_use]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    _exporter: Option<otel::SpanExport>,
}

/// Starts logging of events and panics. Must be called at most once per process.
pub(crate) fn start_logging(filter: &str, format: LogFormat) -> Result<Telemetry> {
    let targets = parse_targets(filter)?;
    let is_colored = std::io::stderr().is_terminal();
    let lines = log_lines(format, is_colored, shows_modules(&targets), std::io::stderr);
    let registry = tracing_subscriber::registry().with(lines.with_filter(targets));
    #[cfg(feature = "otel")]
    let exporter = otel::SpanExport::from_environment()?;
    #[cfg(feature = "otel")]
    let registry = registry.with(exporter.as_ref().map(otel::SpanExport::tracing_layer));
    registry.init();
    // After `init`: an earlier event would be lost.
    std::panic::set_hook(Box::new(log_panic));
    Ok(Telemetry {
        #[cfg(feature = "otel")]
        _exporter: exporter,
    })
}

/// Parses the setting `log`: a level, and optionally `target=level` pairs.
pub(crate) fn parse_targets(filter: &str) -> Result<Targets> {
    let mut is_valid = true;
    for part in filter.split(',') {
        // `Targets` itself would accept a misspelt level as the name of a module.
        is_valid &= part.contains('=') || part.parse::<LevelFilter>().is_ok();
    }
    let mut targets = match filter.parse::<Targets>() {
        Ok(targets) if is_valid => targets,
        _ => {
            return Err(CommandError::usage_error(format!(
                "log: {filter:?} is not a level; use error, warn, info, debug, trace or off"
            )));
        }
    };
    if !filter.contains(RMCP_LEVEL.0) {
        let level = targets.default_level().unwrap_or(LevelFilter::OFF);
        targets = targets.with_target(RMCP_LEVEL.0, RMCP_LEVEL.1.min(level));
    }
    Ok(targets)
}

/// Module paths help only developers, who raise a level.
fn shows_modules(targets: &Targets) -> bool {
    let is_detailed = |level: LevelFilter| level >= LevelFilter::DEBUG;
    targets.default_level().is_some_and(is_detailed)
        || targets.iter().any(|(_, level)| is_detailed(level))
}

fn log_lines<S, W>(
    format: LogFormat,
    is_colored: bool,
    shows_modules: bool,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().fmt_fields(format).with_writer(writer);
    match format {
        LogFormat::Text => layer.with_ansi(is_colored).with_target(shows_modules).boxed(),
        LogFormat::Json => layer.with_ansi(false).event_format(JsonEvent).boxed(),
    }
}

/// Panic hook. It runs in the span of the panicking call, so the line has the id of the call. The
/// default hook is replaced because it would print secrets in the message.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let payload = panic.payload();
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text.as_str(),
        (None, None) => "no message",
    };
    tracing::error!(
        thread = thread.name(),
        location = panic.location().map(tracing::field::display),
        backtrace = %Backtrace::force_capture(),
        "panic: {message}",
    );
}

impl<'writer> FormatFields<'writer> for LogFormat {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut record = RedactedFields::default();
        fields.record(&mut record);
        if *self == Self::Json {
            return write!(writer, "{}", Value::Object(record.0));
        }
        let mut separator = "";
        for (name, value) in record.0 {
            let text = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            write!(writer, "{separator}")?;
            separator = " ";
            // The message needs no quotes, because it is always the first field.
            if name == "message" {
                write!(writer, "{}", escape_line(&text, ""))?;
            } else if needs_quotes(&text) {
                write!(writer, "{name}=\"{}\"", escape_line(&text, "\"\\"))?;
            } else {
                write!(writer, "{name}={}", escape_line(&text, ""))?;
            }
        }
        Ok(())
    }
}

fn needs_quotes(text: &str) -> bool {
    text.is_empty() || text.contains(|c: char| c.is_whitespace() || "\"\\=".contains(c))
}

/// A field on one line, with a backslash before the characters of `also_escaped`.
fn escape_line(text: &str, also_escaped: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if also_escaped.contains(c) {
            line.push('\\');
        }
        line.push(c);
    }
    encode_console(&encode_line(&line))
}

struct JsonEvent;

impl<S> FormatEvent<S, LogFormat> for JsonEvent
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, LogFormat>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = RedactedFields::default();
        event.record(&mut fields);
        let mut fields = fields.0;
        // The field of an inner span hides a field of an outer span with the same name.
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(outer) = extensions.get::<FormattedFields<LogFormat>>() else { continue };
            let mut span_fields = Map::new();
            // Fields that were recorded later follow as separate objects.
            for object in serde_json::Deserializer::from_str(outer).into_iter::<Map<_, _>>() {
                span_fields.extend(object.map_err(|_| fmt::Error)?);
            }
            for (name, value) in span_fields {
                fields.entry(name).or_insert(value);
            }
        }
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let metadata = event.metadata();
        let mut line = json!({
            "timestamp": time, "severity": metadata.level().as_str(), "target": metadata.target(),
        });
        // Log collectors search these two, so they are not nested.
        for name in ["id", "message"] {
            if let Some(value) = fields.shift_remove(name) {
                line[name] = value;
            }
        }
        if !fields.is_empty() {
            line["fields"] = Value::Object(fields);
        }
        writeln!(writer, "{}", encode_console_json(line.to_string()))
    }
}

/// Fields of an event or a span, with redacted secrets.
#[derive(Default)]
struct RedactedFields(Map<String, Value>);

impl RedactedFields {
    fn insert_field(&mut self, field: &Field, value: impl Into<Value>) {
        let name = field.name();
        // A field that is named like a Rust keyword, such as `r#type`.
        self.0.insert(name.strip_prefix("r#").unwrap_or(name).to_owned(), value.into());
    }
}

impl Visit for RedactedFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert_field(field, redact_and_cut(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert_field(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert_field(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert_field(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert_field(field, value);
    }
}

fn redact_and_cut(text: &str) -> String {
    let mut redacted = redact_secrets(text).into_owned();
    // Cut after redaction, because half of a secret may not be recognised.
    if redacted.len() > MAX_FIELD_BYTES {
        let mut end = MAX_FIELD_BYTES;
        while !redacted.is_char_boundary(end) {
            end -= 1;
        }
        redacted.truncate(end);
        redacted.push('…');
    }
    redacted
}
