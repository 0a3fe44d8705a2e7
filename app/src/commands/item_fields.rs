//! The fields of the documents that commands write: their names, synonyms and tool arguments.

use std::io::{self, Read};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::records::answers::details::ItemView;
use reqlore_domain::records::fields::{FieldType, RecordField, fields_of, find_field};
use reqlore_domain::records::kinds::{RecordKind, find_kind};
use serde_json::{Map, Value, json};

use crate::exit::CommandError;

const MAX_INPUT_BYTES: u64 = 4 << 20;

/// A kind of document that commands can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritableKind {
    Item(ItemKind),
    /// `None` for an entity of a kind that only its file defines.
    Entity(Option<EntityKind>),
    /// A requirement of a section.
    SectionRequirement,
}

impl WritableKind {
    /// Parses the kind of a new document, in singular or plural.
    pub(crate) fn parse_new(text: &str) -> Result<Self, CommandError> {
        let found = find_kind(text).map(|kind| kind.name);
        let item = found.and_then(ItemKind::from_name).map(Self::Item);
        let entity = || EntityKind::parse(found?).map(|kind| Self::Entity(Some(kind)));
        item.or_else(entity).ok_or_else(|| {
            CommandError::usage_error(format!(
                "{:?} is not a kind; the kinds are epic, story, requirement, criterion, {}",
                truncate_echo(text),
                EntityKind::ALL.map(EntityKind::name).join(", ")
            ))
        })
    }

    /// The row of the kind, or that of any entity; `None` for a requirement of a section.
    pub(crate) fn row(self) -> Option<&'static RecordKind> {
        match self {
            Self::Item(kind) => Some(kind.row()),
            Self::Entity(kind) => Some(kind.unwrap_or(EntityKind::Decision).row()),
            Self::SectionRequirement => None,
        }
    }

    /// The name in sentences.
    pub(crate) fn noun(self) -> String {
        match self {
            Self::Entity(None) => "entity",
            kind => kind.row().map_or("section requirement", |row| row.words[0]),
        }
        .to_owned()
    }

    fn editable_fields(self) -> impl Iterator<Item = &'static RecordField> {
        let fields = self.row().into_iter().flat_map(fields_of);
        fields.filter(|field| field.is_editable && field.field_type != FieldType::Links)
    }

    /// The fields of the editable form, except the text.
    pub(crate) fn fields(self) -> Vec<&'static str> {
        let fields = self.editable_fields().filter(|field| field.field_type != FieldType::Body);
        fields.map(|field| field.name).collect()
    }

    /// The field of the Markdown text.
    pub(crate) fn text_field(self) -> &'static str {
        match self {
            Self::Item(_) => "description",
            Self::Entity(_) => "body",
            Self::SectionRequirement => "text",
        }
    }

    /// The field that names the parent.
    pub(crate) fn parent_field(self) -> Option<&'static str> {
        match self {
            Self::Item(kind) => kind.parent().map(ItemKind::name),
            _ => None,
        }
    }

    /// The field that the title of a new document sets.
    pub(crate) fn title_field(self) -> &'static str {
        if self.fields().contains(&"title") { "title" } else { self.text_field() }
    }

    /// Finds a field by its name or a synonym, in any case.
    pub(crate) fn find_field(self, name: &str) -> Result<&'static str, String> {
        let found = match self.row() {
            Some(_) => {
                self.editable_fields().find(|field| field.is_called(name)).map(|field| field.name)
            }
            None => find_field(ItemKind::AcceptanceCriteria.row(), name)
                .filter(|field| field.field_type == FieldType::Body)
                .map(|_| self.text_field()),
        };
        let mut fields = self.fields();
        fields.push(self.text_field());
        found.ok_or_else(|| {
            let (shown, noun) = (truncate_echo(name), self.noun());
            format!("{shown:?} is not a field of this {noun}; it has {}", fields.join(", "))
        })
    }
}

/// The argument value of a field that was given as text. Tags are separated by commas, and `-` as
/// the Markdown text means standard input.
pub(crate) fn field_value(field: &str, text: &str) -> Result<Value, CommandError> {
    match (field, text) {
        ("tags", _) => Ok(json!(split_tags(text))),
        ("description" | "body" | "text", "-") => {
            // A text that reaches the limit is too long for every tool.
            let text = io::read_to_string(io::stdin().take(MAX_INPUT_BYTES)).map_err(|error| {
                CommandError::usage_error(format!("standard input: {error}; pass UTF-8 text"))
            })?;
            Ok(json!(text.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n'])))
        }
        _ => Ok(json!(text)),
    }
}

pub(crate) fn split_tags(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect()
}

/// The fields of an item of `get_item`, under the names of arguments.
pub(crate) fn record_fields(kind: WritableKind, item: &ItemView) -> Map<String, Value> {
    let mut fields = Map::new();
    let record = json!(item);
    for RecordField { name, answer_key, .. } in kind.editable_fields() {
        let value = match &record[answer_key] {
            Value::Null if *name == "tags" => json!([]),
            Value::Null => json!(""),
            value => value.clone(),
        };
        fields.insert((*name).to_owned(), value);
    }
    fields.insert(kind.text_field().to_owned(), json!(item.text()));
    fields
}
