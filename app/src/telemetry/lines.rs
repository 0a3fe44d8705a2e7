//! An event as one line: its time, severity, module and message, the id of the call that it belongs
//! to, and the fields of the event and of the spans around it.
//!
//! Fields hold what clients sent. Whatever they say, no secret gets into a line (S5 5.3), a line
//! has one end, and a terminal gets no command.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use reqlore_domain::identity::redact;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::time::Timestamp;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::Format;

/// The field that names a call, in answers too (S5 5.2).
const ID: &str = "id";
const MESSAGE: &str = "message";
/// A text of a field is cut there. A backtrace has room.
const MOST: usize = 64 * 1024;

/// Writes each event as one line, its end included.
pub(super) struct Lines<W> {
    format: Format,
    is_coloured: bool,
    clock: Arc<dyn Clock>,
    write: W,
}

impl<W: Fn(&str)> Lines<W> {
    pub(super) fn new(format: Format, is_coloured: bool, clock: Arc<dyn Clock>, write: W) -> Self {
        Self { format, is_coloured, clock, write }
    }
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: Fn(&str) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let Some(span) = context.span(id) else { return };
        if let Some(known) = span.extensions_mut().get_mut::<Fields>() {
            known.0.extend(fields.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // The innermost says it best.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                for (key, value) in &outer.0 {
                    fields.0.entry(key).or_insert_with(|| value.clone());
                }
            }
        }
        let line = Line {
            time: milliseconds(self.clock.now()),
            level: *event.metadata().level(),
            target: event.metadata().target(),
            message: fields.0.shift_remove(MESSAGE),
            id: fields.0.shift_remove(ID),
            fields: fields.0,
        };
        let text = match self.format {
            Format::Text => line.text(self.is_coloured),
            Format::Json => line.json(),
        };
        (self.write)(&text);
    }
}

struct Line<'a> {
    time: String,
    level: Level,
    target: &'a str,
    message: Option<Value>,
    id: Option<Value>,
    fields: Map<String, Value>,
}

impl Line<'_> {
    fn text(self, is_coloured: bool) -> String {
        let Self { time, level, target, message, id, fields } = self;
        let mut text = if is_coloured {
            format!("{time} \x1b[{}m{level:>5}\x1b[0m {target}:", colour(level))
        } else {
            format!("{time} {level:>5} {target}:")
        };
        if let Some(message) = message {
            text.push(' ');
            escape(&mut text, &shown(&message), "");
        }
        let id = id.map(|id| (ID.to_owned(), id));
        for (key, value) in id.into_iter().chain(fields) {
            let value = shown(&value);
            // Writing to a string does not fail.
            let _ = write!(text, " {key}=");
            let is_plain = |letter: char| !letter.is_whitespace() && !"\"\\=".contains(letter);
            if !value.is_empty() && value.chars().all(is_plain) {
                escape(&mut text, &value, "");
            } else {
                text.push('"');
                escape(&mut text, &value, "\"\\");
                text.push('"');
            }
        }
        text.push('\n');
        text
    }

    fn json(self) -> String {
        let Self { time, level, target, message, id, fields } = self;
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), json!(time));
        line.insert("severity".to_owned(), json!(level.as_str()));
        line.insert("target".to_owned(), json!(target));
        line.extend(id.map(|id| (ID.to_owned(), id)));
        line.extend(message.map(|message| (MESSAGE.to_owned(), message)));
        if !fields.is_empty() {
            line.insert("fields".to_owned(), Value::Object(fields));
        }
        Value::Object(line).to_string() + "\n"
    }
}

/// The fields of an event or a span, with nothing in them that must not be told.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        let name = field.name();
        self.0.insert(name.strip_prefix("r#").unwrap_or(name).to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, clean(&format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, clean(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}

/// Cut last: half a secret might not be recognised as one.
fn clean(text: &str) -> String {
    let mut clean = redact(text).into_owned();
    if clean.len() > MOST {
        let end = (0..=MOST).rev().find(|end| clean.is_char_boundary(*end));
        clean.truncate(end.unwrap_or_default());
        clean.push('…');
    }
    clean
}

fn shown(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed)
}

/// What would end the line or command the terminal is spelled out, and these with a backslash.
fn escape(line: &mut String, text: &str, quoted: &str) {
    for letter in text.chars() {
        if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') {
            line.extend(letter.escape_default());
        } else {
            if quoted.contains(letter) {
                line.push('\\');
            }
            line.push(letter);
        }
    }
}

fn milliseconds(time: Timestamp) -> String {
    let seconds = time.rfc3339();
    let seconds = seconds.trim_end_matches('Z');
    format!("{seconds}.{:03}Z", time.nanoseconds() / 1_000_000)
}

fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}
