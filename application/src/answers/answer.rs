//! Answers of tools: one value, rendered as text for a model and as data for a program.
//!
//! A limit leaves out entries and sentences from the end. `dispatch` applies it to every tool.

use std::borrow::Cow;
use std::sync::Arc;

use reqlore_domain::bounded_types::BoundedInt;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{AnswerFormat, RenderedAnswer, ToolCall, ToolSpec};
use reqlore_domain::untrusted_text::{encode_json, encode_lines};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answers::shortened_text::text_borders;
use crate::writes::write_guard::{CallGuard, FieldValue};

/// A value that a tool answers with.
///
/// Implementations encode hidden characters of names, but not of stored texts.
pub(crate) trait Answer: Send {
    /// Number of entries, sentences or lines that a limit may leave out, from the end.
    fn part_count(&self) -> usize;

    /// The text with the first `parts` parts. It names what is left out and the call that returns
    /// it.
    fn text(&self, parts: usize) -> String;

    /// The data with the first `parts` parts.
    fn data(&self, parts: usize) -> Result<Value>;

    /// The data with all parts, without a copy if the answer keeps it.
    fn whole_data(&self) -> Result<Arc<Value>> {
        self.data(self.part_count()).map(Arc::new)
    }

    /// Visits [`Self::data`], possibly in several pieces.
    fn visit_data(&self, parts: usize, visit: &mut dyn FnMut(&Value)) -> Result<()> {
        visit(&self.data(parts)?);
        Ok(())
    }

    /// The position of notes in the text.
    fn note_style(&self) -> NoteStyle {
        NoteStyle::Lines
    }
}

/// The position of notes in the text of an answer. The data has them as `notes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteStyle {
    /// After a blank line, each on a line that begins with `Note: `.
    Lines,
    /// As `notes` of the JSON object that the text is.
    Json,
    /// A specification fixes the text.
    Hidden,
}

/// The answer of a tool with its notes, before it is rendered.
pub(crate) struct ToolAnswer {
    answer: Box<dyn Answer>,
    notes: Vec<String>,
    /// Values that the whole answer shows besides those in its data.
    shown: Vec<FieldValue>,
}

/// Maximum size of an answer in tokens; a token is four bytes of UTF-8.
type MaxTokens = BoundedInt<1, 262_144>;

pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// Fits the limit of all known clients: the tightest one cuts results of 8,000 characters,
/// including its own wrapper.
const DEFAULT_TOKENS: usize = 1_900;

/// Enough for the heading of an answer and its note on what is left out.
const MIN_TOKENS: usize = 100;

/// Maximum bytes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeLimit {
    Whole,
    /// The default. Programs, which ask for data, get whole pages instead.
    Text(usize),
    /// Of `max_tokens`, for text and data each.
    Requested(usize),
}

impl ToolAnswer {
    pub(crate) fn new(answer: impl Answer + 'static) -> Self {
        Self { answer: Box::new(answer), notes: Vec::new(), shown: Vec::new() }
    }

    pub(crate) fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            // Two checks may find the same problem.
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Adds values that the answer shows unless a limit cuts it.
    pub(crate) fn add_shown(&mut self, values: Vec<FieldValue>) {
        self.shown.extend(values);
    }

    /// Text and data, to be stored for retries in any format.
    pub(crate) fn render_stored(&self, limit: SizeLimit) -> Result<RenderedAnswer> {
        let text = self.render(AnswerFormat::Text, limit)?.text;
        Ok(RenderedAnswer { text, ..self.render(AnswerFormat::Both, limit)? })
    }

    pub(crate) fn render(&self, format: AnswerFormat, limit: SizeLimit) -> Result<RenderedAnswer> {
        self.render_shown(format, limit, None)
    }

    /// Renders the most parts that fit the limit. The write guard of the caller notes what they
    /// show.
    pub(crate) fn render_shown(
        &self,
        format: AnswerFormat,
        limit: SizeLimit,
        shown_to: Option<(&CallGuard, &ToolSpec)>,
    ) -> Result<RenderedAnswer> {
        let all = self.answer.part_count();
        let (max_text, max_data) = match (limit, format) {
            (SizeLimit::Text(bytes), AnswerFormat::Text) => (bytes, usize::MAX),
            (SizeLimit::Requested(bytes), _) => (bytes, bytes),
            (SizeLimit::Whole | SizeLimit::Text(_), _) => (usize::MAX, usize::MAX),
        };
        let mut text = self.text(all)?;
        let mut data = self.data(format, all)?;
        // Data that has no part to leave out must not cost the text.
        let is_too_large = |data: &Arc<Value>| max_data < usize::MAX && data_size(data) > max_data;
        let is_fixed = is_too_large(&data) && is_too_large(&self.data(format, 0)?);
        let mut shown = all;
        if text.len() > max_text || (is_too_large(&data) && !is_fixed) {
            // The size grows with each part, so the largest fitting number can be searched.
            let (mut fitting, mut too_many) = (0, all);
            while fitting + 1 < too_many {
                let parts = fitting.midpoint(too_many);
                let fits = self.text(parts)?.len() <= max_text
                    && (is_fixed || !is_too_large(&self.data(format, parts)?));
                if fits {
                    fitting = parts;
                } else {
                    too_many = parts;
                }
            }
            (text, data) = (self.text(fitting)?, self.data(format, fitting)?);
            shown = fitting;
            if text.len() > max_text {
                // The limit is smaller than the heading and the notes.
                let is_end = |position: &usize| text.is_char_boundary(*position);
                let end = (0..=max_text).rev().find(is_end).unwrap_or_default();
                text.truncate(end);
            }
        }
        if let Some((guard, spec)) = shown_to {
            let note = &mut |data: &Value| guard.note_answer(spec, format, data);
            match format {
                AnswerFormat::Text => self.answer.visit_data(shown, note)?,
                AnswerFormat::Both => note(&data),
            }
            if shown == all {
                guard.note_values(&self.shown);
            }
        }
        Ok(RenderedAnswer { text, data, written_at: None })
    }

    fn text(&self, parts: usize) -> Result<String> {
        match self.answer.note_style() {
            NoteStyle::Json if !self.notes.is_empty() => {
                compact_json(&*self.data(AnswerFormat::Both, parts)?)
            }
            NoteStyle::Json | NoteStyle::Hidden => Ok(self.answer.text(parts)),
            NoteStyle::Lines => {
                let mut text = self.answer.text(parts);
                for (position, note) in self.notes.iter().enumerate() {
                    text.push_str(if position == 0 { "\n\nNote: " } else { "\nNote: " });
                    text.push_str(&encode_lines(note));
                }
                Ok(text)
            }
        }
    }

    fn data(&self, format: AnswerFormat, parts: usize) -> Result<Arc<Value>> {
        if format == AnswerFormat::Text {
            return Ok(Arc::default());
        }
        let mut data = if parts == self.answer.part_count() {
            self.answer.whole_data()?
        } else {
            Arc::new(self.answer.data(parts)?)
        };
        if !self.notes.is_empty()
            && let Value::Object(object) = Arc::make_mut(&mut data)
        {
            object.insert("notes".to_owned(), json!(self.notes));
        }
        Ok(data)
    }
}

/// Removes the data of a stored answer from a caller who did not ask for it.
pub(crate) fn in_format(answer: RenderedAnswer, format: AnswerFormat) -> RenderedAnswer {
    match format {
        AnswerFormat::Text => RenderedAnswer { data: Arc::default(), ..answer },
        AnswerFormat::Both => answer,
    }
}

fn data_size(data: &Value) -> usize {
    if data.is_null() { 0 } else { serde_json::to_string(data).map_or(0, |json| json.len()) }
}

/// The answer as a fixed text and its data. A limit cuts the text at a sentence or line. Cheap to
/// clone, so that an answer can be kept for several calls.
#[derive(Debug, Clone)]
pub(crate) struct TextAnswer {
    text: Arc<str>,
    data: Arc<Value>,
    style: NoteStyle,
    /// Ends of the sentences and lines of `text`.
    borders: Arc<[usize]>,
}

impl Answer for TextAnswer {
    fn part_count(&self) -> usize {
        self.borders.len()
    }

    fn text(&self, parts: usize) -> String {
        if parts >= self.borders.len() {
            return self.text.to_string();
        }
        let end = parts.checked_sub(1).map_or(0, |last| self.borders[last]);
        let shown = self.text[..end].trim_end();
        format!("{shown}\n\nNote: {}", cut_note(shown, &self.text))
    }

    fn data(&self, _: usize) -> Result<Value> {
        Ok(Value::clone(&self.data))
    }

    fn whole_data(&self) -> Result<Arc<Value>> {
        Ok(Arc::clone(&self.data))
    }

    fn visit_data(&self, parts: usize, visit: &mut dyn FnMut(&Value)) -> Result<()> {
        // The data of a cut text says more than the text.
        if parts >= self.borders.len() {
            visit(&self.data);
        }
        Ok(())
    }

    fn note_style(&self) -> NoteStyle {
        self.style
    }
}

/// Names what is left out of a text, and the size that returns all of it.
fn cut_note(shown: &str, all: &str) -> String {
    let advice = whole_advice(all.len());
    let (shown, count) = (shown.chars().count(), all.chars().count());
    format!("cut after {shown} of {count} characters; {advice}")
}

/// Names the limit that fits a text of this size.
pub(crate) fn whole_advice(bytes: usize) -> String {
    format!("pass max_tokens: {} for all", tokens_for(bytes))
}

fn tokens_for(bytes: usize) -> usize {
    // With room for the notes.
    bytes.div_ceil(BYTES_PER_TOKEN) + 200
}

/// The `max_tokens` for a whole answer, as text and as data.
pub(crate) fn tokens_for_all(answer: &impl Answer) -> usize {
    let all = answer.part_count();
    let data = answer.data(all).map_or(0, |data| data_size(&data));
    tokens_for(answer.text(all).len().max(data))
}

/// An answer with a text and data. Hidden characters in the text are encoded.
///
/// The caller encodes names that may contain line ends, with `encode_line`.
pub(crate) fn text_answer(text: String, data: &impl Serialize) -> Result<ToolAnswer> {
    let text = match encode_lines(&text) {
        Cow::Owned(encoded) => encoded,
        Cow::Borrowed(_) => text,
    };
    body_answer(text, data)
}

/// An answer whose text contains text of documents, unchanged. The caller encodes everything else.
pub(crate) fn body_answer(text: String, data: &impl Serialize) -> Result<ToolAnswer> {
    fixed_answer(text, data, NoteStyle::Lines).map(ToolAnswer::new)
}

/// An answer whose text is its data as JSON.
pub(crate) fn json_answer(data: &impl Serialize) -> Result<ToolAnswer> {
    fixed_answer(compact_json(data)?, data, NoteStyle::Json).map(ToolAnswer::new)
}

pub(crate) fn fixed_answer(
    text: String,
    data: &impl Serialize,
    style: NoteStyle,
) -> Result<TextAnswer> {
    let data = serde_json::to_value(data).map_err(serialization_error)?.into();
    let borders = text_borders(&text).into();
    Ok(TextAnswer { text: text.into(), data, style, borders })
}

/// JSON on one line, with hidden characters escaped.
pub(crate) fn compact_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map(encode_json).map_err(serialization_error)
}

pub(crate) fn serialization_error(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, "The answer could not be serialized.").caused_by(error)
}

/// Takes `max_tokens` out of the arguments of a tool that has it.
pub(crate) fn take_size_limit(call: &mut ToolCall, spec: &ToolSpec) -> Result<SizeLimit> {
    // A tool with bounds of its own limits its answer itself.
    let argument = spec.input_schema["properties"].get(MAX_TOKENS);
    let is_limited = argument.is_some_and(|argument| argument.get("maximum").is_none());
    let given = if is_limited { call.arguments.remove(MAX_TOKENS) } else { None };
    match given {
        None | Some(Value::Null) if spec.is_whole => Ok(SizeLimit::Whole),
        None | Some(Value::Null) => Ok(SizeLimit::Text(DEFAULT_TOKENS * BYTES_PER_TOKEN)),
        Some(value) => match MaxTokens::deserialize(&value) {
            Ok(tokens) => Ok(SizeLimit::Requested(tokens.get().max(MIN_TOKENS) * BYTES_PER_TOKEN)),
            Err(reason) => {
                let message = format!("Invalid arguments. {MAX_TOKENS}: {reason}.");
                Err(Error::new(ErrorKind::InvalidArgument, message).field(MAX_TOKENS))
            }
        },
    }
}

/// The argument that limits the size of an answer.
pub(crate) const MAX_TOKENS: &str = "max_tokens";

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(text: &str) -> ToolAnswer {
        text_answer(text.to_owned(), &json!({ "text": text })).unwrap()
    }

    #[test]
    fn limited_answer_ends_at_a_sentence_and_names_the_rest() {
        let text = "One sentence. ".repeat(700);
        let answer = fixed(&text).render(AnswerFormat::Text, SizeLimit::Text(400)).unwrap();
        assert!(answer.text.len() <= 400, "{}", answer.text.len());
        assert!(answer.text.contains("One sentence.\n\nNote: cut after "), "{}", answer.text);
        assert!(answer.text.ends_with("of 9800 characters; pass max_tokens: 2650 for all"));
        assert_eq!(*answer.data, Value::Null);
    }

    #[test]
    fn limit_applies_to_data_only_on_request() {
        let text = "Word. ".repeat(100);
        let whole = fixed(&text).render(AnswerFormat::Both, SizeLimit::Text(50)).unwrap();
        assert_eq!((&*whole.text, &whole.data["text"]), (&*text, &json!(text)));
        let both = fixed(&text).render(AnswerFormat::Both, SizeLimit::Requested(300)).unwrap();
        assert!(both.text.contains("Word.\n\nNote: cut after "), "{}", both.text);
        for max in [0, 1, 7, 100] {
            let cut = fixed(&"é".repeat(60));
            let cut = cut.render(AnswerFormat::Text, SizeLimit::Requested(max)).unwrap();
            assert!(cut.text.len() <= max);
        }
    }

    #[test]
    fn notes_follow_the_text_after_a_blank_line() {
        let mut answer = fixed("Body.");
        answer.add_notes(["one".to_owned(), "two".to_owned()]);
        let rendered = answer.render(AnswerFormat::Both, SizeLimit::Whole).unwrap();
        assert_eq!(rendered.text, "Body.\n\nNote: one\nNote: two");
        assert_eq!(rendered.data["notes"], json!(["one", "two"]));
        let mut answer = json_answer(&json!({ "total": 0 })).unwrap();
        answer.add_notes(["empty".to_owned()]);
        let rendered = answer.render(AnswerFormat::Text, SizeLimit::Whole).unwrap();
        assert_eq!(rendered.text, r#"{"total":0,"notes":["empty"]}"#);
    }
}
