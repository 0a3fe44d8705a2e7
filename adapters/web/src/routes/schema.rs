//! The page of a project's custom fields and statuses, and the forms that change them.

mod edit;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::records::custom_field::{CustomField, CustomType};
use reqlore_domain::records::kinds::RecordKind;
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
use serde_json::{Value, json};

use super::item::form::{FieldControl, FormField};
use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::FormFields;
use crate::item_lists::BOARD_KINDS;
use crate::page::{PageFrame, PageSection, capitalize, render};
use crate::page_error::{PageError, public_message};
use crate::session::PageSession;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/schema", get(show_schema).post(change_schema))
}

#[derive(Template)]
#[template(path = "schema.html")]
struct SchemaPage {
    frame: PageFrame,
    statuses: Vec<KindStatuses>,
    /// The kinds that fields can have, with their words.
    kinds: Vec<(&'static str, String)>,
    text: [FormField; 1],
    /// An error that belongs to no line.
    error: String,
    is_conflict: bool,
    is_saved: bool,
    /// The form that was rejected.
    posted: FormFields,
}

/// The statuses of a kind of items or entities, in their order.
struct KindStatuses {
    kind: &'static str,
    words: String,
    statuses: Vec<(String, StatusCategory)>,
}

/// The options of a field with their words: where it is shown, and if it is required.
const OPTIONS: [(&str, &str); 5] = [
    ("column", "Column of the table"),
    ("card", "Card of the board"),
    ("filter", "Filter"),
    ("sort", "Sort the table"),
    ("required", "Required"),
];

impl SchemaPage {
    fn new(session: &PageSession) -> Self {
        let schema = &session.schema;
        let mut text = FormField {
            name: "text".into(),
            label: "Text".into(),
            hint: "TOML. A field or status that you remove stays in the documents that have it."
                .into(),
            control: FieldControl::Area,
            ..FormField::default()
        };
        text.fill(&schema.answer.text);
        let rows = ItemKind::ALL.iter().map(|kind| kind.row());
        let rows = rows.chain(EntityKind::ALL.iter().map(|kind| kind.row()));
        let mut kinds: Vec<_> = rows.map(|row| (row.name, plural(row))).collect();
        kinds.push(("entity", "All knowledge".to_owned()));
        Self {
            frame: PageFrame::new(session, PageSection::Schema, "Fields and statuses"),
            statuses: kind_statuses(&schema.records),
            kinds,
            text: [text],
            error: String::new(),
            is_conflict: false,
            is_saved: session.query.filled("saved").is_some(),
            posted: FormFields::default(),
        }
    }

    fn schema(&self) -> &RecordSchema {
        &self.frame.schema.records
    }

    /// The words of a field's kinds, separated by commas.
    fn kind_words(&self, field: &CustomField) -> String {
        let kinds = self.kinds.iter().filter(|(kind, _)| field.kinds.iter().any(|one| one == kind));
        kinds.map(|(_, words)| words.as_str()).collect::<Vec<_>>().join(", ")
    }
}

fn plural(row: &RecordKind) -> String {
    capitalize(row.words[1])
}

/// The statuses of the kinds with a board, and of the entities whose statuses the project lists.
fn kind_statuses(schema: &RecordSchema) -> Vec<KindStatuses> {
    let mut kinds = Vec::new();
    for kind in BOARD_KINDS {
        let statuses = schema.statuses(kind).iter();
        let statuses = statuses.map(|one| (one.name().to_owned(), schema.category(kind, *one)));
        let (words, statuses) = (plural(kind.row()), statuses.collect());
        kinds.push(KindStatuses { kind: kind.name(), words, statuses });
    }
    for kind in EntityKind::ALL {
        if let Some(statuses) = schema.entity_statuses(kind.name()) {
            let (words, statuses) = (plural(kind.row()), statuses.to_vec());
            kinds.push(KindStatuses { kind: kind.name(), words, statuses });
        }
    }
    kinds
}

async fn show_schema(session: PageSession) -> Result<Response, PageError> {
    render(&SchemaPage::new(&session.with_schema().await?))
}

/// Saves the text, or adds a field or a status to the stored one.
async fn change_schema(PostedForm { session, fields }: PostedForm) -> Result<Response, PageError> {
    let session = session.with_schema().await?;
    let mut version = session.schema.answer.version.as_str();
    let edited = match fields.text("action") {
        "add-field" => edit::add_field(&session.schema.answer.text, &fields),
        "add-status" => edit::add_status(&session.schema, &fields),
        _ => {
            version = fields.text("version");
            Ok(fields.text("text").to_owned())
        }
    };
    let mut page = SchemaPage { is_saved: false, ..SchemaPage::new(&session) };
    let [text] = &mut page.text;
    let mut status = StatusCode::UNPROCESSABLE_ENTITY;
    match edited {
        Ok(edited) => {
            let arguments = json!({ "text": edited, "if_version": version });
            let outcome = session.call_tool::<Value>("set_record_schema", arguments).await;
            let Err(error) = outcome else {
                return Ok(Redirect::to(&session.url("schema?saved=yes")).into_response());
            };
            match error.kind {
                ErrorKind::Conflict => {
                    (page.is_conflict, status) = (true, StatusCode::CONFLICT);
                    text.keep_stored(edited);
                }
                ErrorKind::InvalidArgument | ErrorKind::Refused => {
                    text.error = problem_lines(&edited);
                    if text.error.is_empty() {
                        page.error = public_message(&error).into_owned();
                    }
                    text.value = edited;
                }
                _ => return Err(error.into()),
            }
        }
        Err(problem) => page.error = problem,
    }
    page.posted = fields;
    Ok((status, render(&page)?).into_response())
}

/// The problems of a text, each on a line.
fn problem_lines(text: &str) -> String {
    let mut lines = Vec::new();
    for problem in RecordSchema::parse(text).diagnostics {
        lines.push(format!("Line {}: {}", problem.line.unwrap_or(1), problem.message));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
