//! The answers of the operations on the record schema of a project.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::records::custom_field::{CustomField, FieldView};
use crate::records::kinds::{IdSource, KINDS, RecordKind};
use crate::records::schema::RecordSchema;

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecordSchemaAnswer {
    pub project: String,
    /// The document; empty if it does not exist or is not text.
    pub text: String,
    /// Empty if the document does not exist.
    pub version: String,
    /// All kinds of items, then those of entities that tools create.
    pub kinds: Vec<KindSchema>,
    /// The invalid entries of the document.
    pub diagnostics: Vec<SchemaDiagnostic>,
    /// True if the caller may change the document.
    pub can_edit: bool,
    /// The users that records may name, if they were asked for; null if records may name anyone.
    pub users: Option<Vec<String>>,
}

/// The statuses and fields of a kind in the project.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KindSchema {
    pub kind: String,
    /// The name at the start of a sentence.
    pub label: String,
    /// Singular and plural in sentences.
    pub words: [String; 2],
    /// In the order of work. Empty if records of the kind have any status or none.
    pub statuses: Vec<KindStatus>,
    pub fields: Vec<FieldSchema>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KindStatus {
    pub name: String,
    /// open, active, done or dropped.
    pub category: String,
}

/// A custom field.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FieldSchema {
    pub name: String,
    pub label: String,
    /// text, number, date, choice, user, tags or url.
    #[serde(rename = "type")]
    pub field_type: String,
    /// The values of a choice; empty for other types.
    pub choices: Vec<String>,
    pub is_required: bool,
    /// A subset of column, card, filter and sort.
    pub views: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SchemaDiagnostic {
    /// 1-based; null if the problem concerns the whole document.
    pub line: Option<usize>,
    pub message: String,
}

/// The answer to a change of the record schema.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecordSchemaChange {
    pub project: String,
    pub version: String,
    /// Values that records keep and the new schema lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

impl RecordSchemaAnswer {
    /// Without a document, the project has only the built-in kinds.
    pub fn new(
        project: String,
        document: Option<&Document>,
        schema: &RecordSchema,
        can_edit: bool,
    ) -> Self {
        let text = document.and_then(|document| document.text().ok()).unwrap_or_default();
        let diagnostics = schema
            .diagnostics
            .iter()
            .map(|one| SchemaDiagnostic { line: one.line, message: one.message.clone() });
        Self {
            project,
            text: text.to_owned(),
            version: document.map(|document| document.version.to_string()).unwrap_or_default(),
            diagnostics: diagnostics.collect(),
            kinds: KINDS.iter().map(|kind| KindSchema::new(kind, schema)).collect(),
            can_edit,
            users: None,
        }
    }
}

impl KindSchema {
    fn new(row: &RecordKind, schema: &RecordSchema) -> Self {
        let is_entity = row.id_source == IdSource::FrontMatter;
        let statuses = schema.statuses_of(row.name).into_iter();
        let statuses = statuses
            .map(|(name, category)| KindStatus { name, category: category.name().to_owned() });
        let fields = schema.own_fields().filter(|field| field.has_kind(row.name, is_entity));
        Self {
            kind: row.name.to_owned(),
            label: row.noun.to_owned(),
            words: row.words.map(str::to_owned),
            statuses: statuses.collect(),
            fields: fields.map(FieldSchema::from).collect(),
        }
    }
}

impl From<&CustomField> for FieldSchema {
    fn from(field: &CustomField) -> Self {
        let views = field.views.iter().copied().map(FieldView::name);
        Self {
            name: field.name.clone(),
            label: field.label.clone(),
            field_type: field.field_type.name().to_owned(),
            choices: field.choices.clone(),
            is_required: field.is_required,
            views: views.map(str::to_owned).collect(),
        }
    }
}
