//! The custom fields and statuses of a page's project.

use reqlore_domain::records::answers::record_schema::RecordSchemaAnswer;
use reqlore_domain::records::custom_field::{CustomField, CustomType};
use reqlore_domain::records::ended::is_ended;
use reqlore_domain::records::kinds::find_kind;
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
use serde_json::Value;

use crate::form_fields::{FormFields, encode_query};

/// The record schema as `get_record_schema` returns it. Default: no fields and statuses.
#[derive(Debug, Default)]
pub(crate) struct ProjectSchema {
    pub(crate) records: RecordSchema,
    pub(crate) answer: RecordSchemaAnswer,
}

impl ProjectSchema {
    /// The name of each view, and its filters as a query of a URL.
    pub(crate) fn views(&self) -> impl Iterator<Item = (&str, String)> {
        self.records.views.iter().map(|view| {
            let query = FormFields::parse(view.query.as_bytes());
            (&*view.name, encode_query(query.pairs()))
        })
    }

    /// The CSS class and icon of a status, one of five in `style.css`. `record` is the ID or the
    /// kind of its record.
    pub(crate) fn status_tone(&self, record: &str, status: &str) -> &'static str {
        let word = record.split('-').next().unwrap_or_default();
        let kind = find_kind(word).map_or(word, |kind| kind.name);
        let name_tone = name_tone(status);
        match self.records.named_category(kind, status) {
            None => name_tone,
            Some(StatusCategory::Open) if name_tone == "draft" => name_tone,
            Some(StatusCategory::Open) => "backlog",
            Some(StatusCategory::Active) => "progress",
            Some(StatusCategory::Done) => "done",
            Some(StatusCategory::Dropped) => "off",
        }
    }
}

/// The tone of a status that the project does not list.
fn name_tone(status: &str) -> &'static str {
    if is_ended(status) {
        return "off";
    }
    match status.to_ascii_lowercase().as_str() {
        "draft" | "proposed" => "draft",
        "in progress" => "progress",
        "done" | "active" | "met" | "accepted" | "implemented" | "closed" | "resolved" => "done",
        _ => "backlog",
    }
}

/// True for a value that is safe as a link target.
pub(crate) fn is_link(field: &CustomField, value: &Value) -> bool {
    field.field_type == CustomType::Url && field.parse(value).is_ok()
}
