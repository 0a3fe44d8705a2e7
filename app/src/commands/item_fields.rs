//! The fields of the documents that commands write: their names, synonyms and tool arguments.

use std::io::{self, Read};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::find_by_name;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::records::answers::details::ItemView;
use reqlore_domain::records::custom_field::{CustomField, CustomType};
use reqlore_domain::records::fields::{FieldType, RecordField, fields_of};
use reqlore_domain::records::kinds::{KINDS, RecordKind, find_kind};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::values::is_built_in;
use serde_json::{Map, Value, json};

use super::tool_client::ToolClient;
use crate::exit::{CommandError, Result};

const MAX_INPUT_BYTES: u64 = 4 << 20;

/// A kind of document that commands can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WritableKind {
    Item(ItemKind),
    /// An entity, with the name of its kind.
    Entity(String),
    /// A requirement of a section.
    SectionRequirement,
}

impl WritableKind {
    /// Parses the kind of a new document, in singular or plural.
    pub(crate) fn parse_new(text: &str) -> Result<Self> {
        let Some(RecordKind { name, .. }) = find_kind(text) else {
            return Err(CommandError::usage_error(format!(
                "{:?} is not a kind; the kinds are {}",
                truncate_echo(text),
                KINDS.iter().map(RecordKind::short_name).collect::<Vec<_>>().join(", ")
            )));
        };
        let item = ItemKind::from_name(name).map(Self::Item);
        Ok(item.unwrap_or_else(|| Self::Entity((*name).to_owned())))
    }

    /// The row of the kind, or that of any entity; `None` for a requirement of a section.
    pub(crate) fn row(&self) -> Option<&'static RecordKind> {
        match self {
            Self::Item(kind) => Some(kind.row()),
            // All entities have the same fields and tools.
            Self::Entity(_) => Some(EntityKind::any_row()),
            Self::SectionRequirement => None,
        }
    }

    /// The name of the kind; empty for a requirement of a section.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Entity(kind) => kind,
            kind => kind.row().map_or("", |row| row.name),
        }
    }

    /// The name in sentences.
    pub(crate) fn noun(&self) -> String {
        match self {
            Self::Item(kind) => kind.row().words[0].to_owned(),
            Self::Entity(kind) => kind.replace('_', " "),
            Self::SectionRequirement => "section requirement".to_owned(),
        }
    }

    fn has_custom(&self, field: &CustomField) -> bool {
        match self {
            Self::Item(kind) => field.has_kind(kind.name(), false),
            Self::Entity(kind) => field.has_kind(kind, true),
            Self::SectionRequirement => false,
        }
    }

    fn editable_fields(&self) -> impl Iterator<Item = &'static RecordField> {
        let fields = self.row().into_iter().flat_map(fields_of);
        fields.filter(|field| match field.field_type {
            FieldType::Links => false,
            // Users order items, too.
            FieldType::Rank => true,
            _ => field.is_editable,
        })
    }

    /// The field of the Markdown text.
    pub(crate) fn text_field(&self) -> &'static str {
        let body = self.editable_fields().find(|field| field.field_type == FieldType::Body);
        body.map_or("text", |field| field.name)
    }

    /// The field that names the parent.
    pub(crate) fn parent_field(&self) -> Option<&'static str> {
        match self {
            Self::Item(kind) => kind.parent().map(ItemKind::name),
            _ => None,
        }
    }

    /// The field that the title of a new document sets.
    pub(crate) fn title_field(&self) -> &'static str {
        let title = self.editable_fields().find(|field| field.field_type == FieldType::Title);
        title.map_or(self.text_field(), |field| field.name)
    }

    /// The fields of a document of `get_item`, keyed by argument name.
    pub(crate) fn values_of(&self, item: &ItemView) -> Map<String, Value> {
        let record = json!(item);
        let mut values: Map<String, Value> = item.fields().clone().into_iter().collect();
        for RecordField { name, answer_key, .. } in self.editable_fields() {
            let value = match &record[answer_key] {
                Value::Null if *name == "tags" => json!([]),
                Value::Null => json!(""),
                value => value.clone(),
            };
            values.insert((*name).to_owned(), value);
        }
        values.insert(self.text_field().to_owned(), json!(item.text()));
        values
    }
}

/// A field of a form.
#[derive(Debug)]
pub(crate) struct FormField {
    pub(crate) name: String,
    /// Other names.
    synonyms: Vec<String>,
    pub(crate) is_list: bool,
    /// The only valid values, if there are any.
    pub(crate) choices: Vec<String>,
}

/// The fields that users can set in documents of one kind, including custom fields.
#[derive(Debug)]
pub(crate) struct DocumentForm {
    pub(crate) kind: WritableKind,
    /// The Markdown text is last.
    pub(crate) fields: Vec<FormField>,
}

impl DocumentForm {
    /// Reads the project's fields and statuses of the kind.
    pub(crate) fn read(kind: WritableKind, client: &ToolClient) -> error::Result<Self> {
        let schema = client.record_schema()?;
        Ok(Self::new(kind, &schema))
    }

    pub(crate) fn new(kind: WritableKind, schema: &RecordSchema) -> Self {
        let mut fields = Vec::new();
        for field in kind.editable_fields().filter(|field| field.field_type != FieldType::Body) {
            fields.push(FormField::of_record(field, schema.choices(kind.name(), field)));
        }
        let custom = schema.fields.iter().filter(|field| kind.has_custom(field));
        fields.extend(custom.map(|field| FormField {
            name: field.name.clone(),
            synonyms: vec![field.label.clone()],
            is_list: field.field_type == CustomType::Tags,
            choices: field.choices.clone(),
        }));
        // A rule of a section has only a text, like a criterion.
        let row = kind.row().unwrap_or(ItemKind::AcceptanceCriteria.row());
        let body = fields_of(row).find(|field| field.field_type == FieldType::Body);
        fields.extend(body.map(|body| FormField {
            name: kind.text_field().to_owned(),
            ..FormField::of_record(body, Vec::new())
        }));
        Self { kind, fields }
    }

    /// Finds a field by its name or a synonym, in any spelling. A label of the project hides no
    /// other field.
    pub(crate) fn find_field(&self, name: &str) -> Result<&FormField, String> {
        let find = |fits: &dyn Fn(&FormField) -> bool| self.fields.iter().find(|field| fits(field));
        let found = find(&|field| field.name == name)
            .or_else(|| find(&|field| is_built_in(&field.name) && field.is_called(name)))
            .or_else(|| find(&|field| field.is_called(name)));
        found.ok_or_else(|| {
            let names: Vec<&str> = self.fields.iter().map(|field| &*field.name).collect();
            let (shown, noun) = (truncate_echo(name), self.kind.noun());
            format!("{shown:?} is not a field of this {noun}; it has {}", names.join(", "))
        })
    }

    /// Parses fields given as text into argument values, keyed by name.
    pub(crate) fn parse_values<'t>(
        &self,
        given: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<Map<String, Value>> {
        let mut values = Map::new();
        for (name, text) in given {
            let field = self.find_field(name).map_err(CommandError::usage_error)?;
            let value = match text {
                _ if field.is_list => json!(split_tags(text)),
                "-" if field.name == self.kind.text_field() => json!(read_stdin()?),
                _ => json!(text),
            };
            if values.insert(field.name.clone(), value).is_some() {
                let message = format!("{} is given twice; remove one", field.name);
                return Err(CommandError::usage_error(message));
            }
        }
        Ok(values)
    }
}

impl FormField {
    fn of_record(field: &RecordField, choices: Vec<String>) -> Self {
        Self {
            name: field.name.to_owned(),
            synonyms: field.synonyms.iter().map(|name| (*name).to_owned()).collect(),
            is_list: field.field_type == FieldType::Tags,
            choices,
        }
    }

    pub(crate) fn is_called(&self, word: &str) -> bool {
        let names: Vec<&str> =
            self.synonyms.iter().chain([&self.name]).map(|name| &**name).collect();
        find_by_name(&names, |name| name, word).is_some()
    }
}

fn read_stdin() -> Result<String> {
    // A text that reaches the limit is too long for every tool.
    let text = io::read_to_string(io::stdin().take(MAX_INPUT_BYTES)).map_err(|error| {
        CommandError::usage_error(format!("standard input: {error}; pass UTF-8 text"))
    })?;
    Ok(text.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']).to_owned())
}

pub(crate) fn split_tags(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect()
}

/// Parses an argument such as `risk=High`.
pub(crate) fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("expected FIELD=VALUE, such as status=done".to_owned()),
    }
}

/// Borrows the names and texts of [`parse_assignment`].
pub(crate) fn assignment_pairs(fields: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    fields.iter().map(|(name, text)| (&**name, &**text))
}
