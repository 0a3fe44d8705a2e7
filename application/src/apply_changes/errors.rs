//! The errors of all entries of a call, as one error.

use std::collections::BTreeSet;

use reqlore_domain::error::{Error, ErrorKind};
use serde_json::Value;

use super::entry::{Operation, describe, local_name, own_item_error};
use crate::addresses::right_tool;
use crate::tools::tool::ToolRequest;
use crate::writes::local_names::LocalNames;

/// Within the limit of all clients.
const MAX_MESSAGE_BYTES: usize = 7_000;
/// Maximum errors in one message, and characters of each if there are several.
const MAX_ERRORS: usize = 20;
const MAX_ERROR_CHARS: usize = 600;

/// The errors of a call, by the position of their entry.
pub(super) struct EntryErrors<'a> {
    entries: &'a [Value],
    operations: Vec<Option<Operation>>,
    errors: Vec<(usize, Error)>,
    /// Names of entries whose kind is unknown.
    unknown_names: BTreeSet<String>,
}

impl<'a> EntryErrors<'a> {
    pub(super) fn new(entries: &'a [Value]) -> Self {
        let operations = vec![None; entries.len()];
        Self { entries, operations, errors: Vec::new(), unknown_names: BTreeSet::new() }
    }

    pub(super) fn set_operation(&mut self, position: usize, operation: Operation) {
        self.operations[position] = Some(operation);
    }

    pub(super) fn push(&mut self, position: usize, error: Error) {
        self.errors.push((position, error));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Remembers the name of an invalid entry.
    pub(super) fn add_unknown_name(&mut self, entry: &Value) {
        self.unknown_names.extend(local_name(entry).map(|name| format!("${name}")));
    }

    /// True for an entry that cannot be decoded, because it uses the name of an invalid one.
    pub(super) fn uses_unknown_name(&self, entry: &Value) -> bool {
        if self.unknown_names.is_empty() {
            return false;
        }
        match entry {
            Value::String(text) => self.unknown_names.contains(text.trim()),
            Value::Array(values) => values.iter().any(|value| self.uses_unknown_name(value)),
            Value::Object(values) => values.values().any(|value| self.uses_unknown_name(value)),
            _ => false,
        }
    }

    /// Returns one error with the first path and the messages of all.
    pub(super) async fn merge(self, request: &ToolRequest<'_>, names: &LocalNames) -> Error {
        let ToolRequest { context, spec, call } = request;
        let Self { entries, operations, mut errors, .. } = self;
        errors.sort_by_key(|(position, _)| *position);
        let count = errors.len();
        let mut labelled = Vec::new();
        for (position, error) in errors.into_iter().take(MAX_ERRORS) {
            let mut error = label(position, &entries[position], operations[position], error);
            error = name_own_item(error, position, names);
            // The service does it for a single error.
            if count > 1 {
                error = right_tool::name_right_tool(context, &call.caller, spec, error).await;
            }
            labelled.push(error);
        }
        let mut lines: Vec<String> = Vec::new();
        let mut size = 0;
        for error in &labelled {
            let line = describe_error(error);
            size += line.len();
            if size > MAX_MESSAGE_BYTES {
                break;
            }
            lines.push(line);
        }
        let shown = lines.len();
        let mut labelled = labelled.into_iter();
        let Some(mut first) = labelled.next() else {
            return Error::new(ErrorKind::Internal, "A call failed without an error.");
        };
        if count == 1 {
            return first;
        }
        let mut message =
            format!("{count} entries have errors; nothing was written.\n{}", lines.join("\n"));
        if count > shown {
            message = format!("{message}\nand {} more", count - shown);
        }
        first.message = message;
        // Of one entry only.
        (first.reference, first.hint) = (None, None);
        first
    }
}

/// Adds the entry to its error. The message counts from 1, the path from 0.
fn label(position: usize, entry: &Value, operation: Option<Operation>, mut error: Error) -> Error {
    let entry = describe(entry);
    let entry = if entry.is_empty() { entry } else { format!(" ({entry})") };
    error.message = format!("Entry {}{entry}: {}", position + 1, error.message);
    let mut path = format!("changes[{position}]");
    if let Some(field) = &error.field {
        let key = operation.map_or_else(|| field.clone(), |operation| operation.entry_key(field));
        path = format!("{path}.{key}");
    }
    error.field(path)
}

/// Names the entry that a text without `$` means.
fn name_own_item(mut error: Error, position: usize, names: &LocalNames) -> Error {
    let Some(name) = error.reference.clone() else { return error };
    let Some(entry) = names.entry_of(&name) else { return error };
    // An ID that exists has another error.
    if !matches!(error.kind, ErrorKind::InvalidArgument | ErrorKind::NotFound) {
        return error;
    }
    let field = error.field.clone().unwrap_or_default();
    let key = field.rsplit('.').next().unwrap_or_default();
    let sentence = if matches!(key, "update" | "delete") {
        own_item_error(&name, key).message
    } else if entry < position {
        format!("{name:?} is the name of entry {}; send \"${name}\"", entry + 1)
    } else {
        format!("{name:?} is the name of entry {}, which comes later; move it up", entry + 1)
    };
    error.message = format!("{}. {sentence}", error.message.trim_end_matches('.'));
    error.hint = Some(sentence);
    error
}

/// The message with its hint, on one line and of limited length.
fn describe_error(error: &Error) -> String {
    let mut message = error.message.clone();
    if let Some(hint) = &error.hint
        && !message.contains(hint)
    {
        message = format!("{message}; {hint}");
    }
    if let Some((end, _)) = message.char_indices().nth(MAX_ERROR_CHARS) {
        message = format!("{}…", &message[..end]);
    }
    message
}
