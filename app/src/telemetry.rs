//! Log lines on stderr, one per event; standard output belongs to the protocol.
//!
//! Fields contain text of clients: `clean` removes secrets from each, and neither format lets one
//! end a line or command a terminal. A panic is logged as an event too.

#[cfg(feature = "otel")]
mod otel;
#[cfg(test)]
mod tests;

use std::backtrace::Backtrace;
use std::fmt::{self, Debug};
use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use reqlore_domain::identity::redact;
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

use crate::exit::CommandError;

/// rmcp logs every message; only its errors matter unless the setting names it.
const RMCP_LEVEL: (&str, LevelFilter) = ("rmcp", LevelFilter::ERROR);
/// Room for a backtrace.
const MAX_FIELD_BYTES: usize = 64 * 1024;

/// The setting `log_format`; formats the fields of events and spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One object a line.
    Json,
}

/// Exports the last spans when it is dropped.
#[must_use]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    _exporter: Option<otel::SpanExport>,
}

/// Starts logging, also of panics. Call it once per process.
pub(crate) fn start(filter: &str, format: LogFormat) -> Result<Telemetry, CommandError> {
    let lines = log_lines(format, std::io::stderr().is_terminal(), std::io::stderr);
    let registry = tracing_subscriber::registry().with(lines.with_filter(targets(filter)?));
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

pub(crate) fn targets(filter: &str) -> Result<Targets, CommandError> {
    // `Targets` reads a misspelt level as the name of a module.
    let is_known = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    let parsed = filter.split(',').all(is_known).then(|| filter.parse::<Targets>().ok()).flatten();
    let mut targets = parsed.ok_or_else(|| {
        CommandError::usage(format!(
            "log: {filter:?} is not a level; use error, warn, info, debug, trace or off"
        ))
    })?;
    if !filter.contains(RMCP_LEVEL.0) {
        let level = targets.default_level().unwrap_or(LevelFilter::OFF);
        targets = targets.with_target(RMCP_LEVEL.0, RMCP_LEVEL.1.min(level));
    }
    Ok(targets)
}

fn log_lines<S, W>(
    format: LogFormat,
    is_colored: bool,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().fmt_fields(format).with_writer(writer);
    match format {
        LogFormat::Text => layer.with_ansi(is_colored).boxed(),
        LogFormat::Json => layer.with_ansi(false).event_format(JsonEvent).boxed(),
    }
}

/// Runs in the span of the panicking call, so the line has the call's id. The default hook is
/// replaced because the message may contain a secret.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(
        thread = thread.name(),
        location = panic.location().map(tracing::field::display),
        backtrace = %Backtrace::force_capture(),
        "panic: {}",
        text.unwrap_or("no message"),
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
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let is_message = name == "message";
            let is_plain = |c: char| !c.is_whitespace() && !"\"\\=".contains(c);
            let is_quoted = !is_message && (text.is_empty() || !text.chars().all(is_plain));
            let (quote, escaped) = if is_quoted { ("\"", "\"\\") } else { ("", "") };
            let name = if is_message { String::new() } else { name + "=" };
            write!(writer, "{separator}{name}{quote}{}{quote}", one_line(&text, escaped))?;
            separator = " ";
        }
        Ok(())
    }
}

/// Escapes what ends a line or commands a terminal, and the characters of `escaped`.
fn one_line(text: &str, escaped: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            line.extend(c.escape_default());
        } else {
            line.extend(escaped.contains(c).then_some('\\'));
            line.push(c);
        }
    }
    line
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
        // A field of an inner span hides that of an outer one.
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(outer) = extensions.get::<FormattedFields<LogFormat>>() else { continue };
            let mut of_span = Map::new();
            // Fields that were recorded later follow as an object of their own.
            for later in serde_json::Deserializer::from_str(outer).into_iter::<Map<_, _>>() {
                of_span.extend(later.map_err(|_| fmt::Error)?);
            }
            for (name, value) in of_span {
                fields.entry(name).or_insert(value);
            }
        }
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let metadata = event.metadata();
        let mut line = json!({
            "timestamp": time, "severity": metadata.level().as_str(), "target": metadata.target(),
        });
        for name in ["id", "message"] {
            if let Some(value) = fields.shift_remove(name) {
                line[name] = value;
            }
        }
        if !fields.is_empty() {
            line["fields"] = Value::Object(fields);
        }
        writeln!(writer, "{line}")
    }
}

/// Fields of an event or a span, without secrets.
#[derive(Default)]
struct RedactedFields(Map<String, Value>);

impl RedactedFields {
    fn insert_field(&mut self, field: &Field, value: impl Into<Value>) {
        let name = field.name();
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
    let mut clean = redact(text).into_owned();
    // After `redact`, which may not recognise half of a secret.
    if clean.len() > MAX_FIELD_BYTES {
        let end = (0..=MAX_FIELD_BYTES).rev().find(|end| clean.is_char_boundary(*end));
        clean.truncate(end.unwrap_or_default());
        clean.push('…');
    }
    clean
}
