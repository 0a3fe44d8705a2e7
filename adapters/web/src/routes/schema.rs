//! The page of a project's custom fields and statuses, and the forms that change them.

mod edit;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::records::custom_field::CustomType;
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
use serde_json::{Value, json};

use super::item::form::{FieldControl, FormField};
use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::FormFields;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageResult, public_message};
use crate::routes::undo::with_notice;
use crate::session::{PageSession, local_target};

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/schema", get(show_schema).post(change_schema))
}

#[derive(Template)]
#[template(path = "schema.html")]
struct SchemaPage {
    frame: PageFrame,
    text: [FormField; 1],
    /// An error that belongs to no line.
    error: String,
    is_conflict: bool,
    /// The form that was rejected.
    posted: FormFields,
}

impl SchemaPage {
    fn new(session: &PageSession) -> Self {
        let mut text = FormField {
            name: "text".into(),
            label: "Text".into(),
            hint: "TOML. A field or status that you remove stays in the documents that have it."
                .into(),
            control: FieldControl::Area,
            ..FormField::default()
        };
        text.fill(&session.schema.answer.text);
        Self {
            frame: PageFrame::new(session, PageSection::Schema, "Fields and statuses"),
            text: [text],
            error: String::new(),
            is_conflict: false,
            posted: FormFields::default(),
        }
    }
}

async fn show_schema(session: PageSession) -> PageResult {
    render(&SchemaPage::new(&session.with_schema().await?))
}

/// Saves the text, or adds a field, a status or a view to the stored one.
async fn change_schema(PostedForm { session, fields }: PostedForm) -> PageResult {
    let session = session.with_schema().await?;
    let mut version = session.schema.answer.version.as_str();
    let edited = match fields.text("action") {
        "add-field" => edit::add_field(&session.schema.answer.text, &fields),
        "add-status" => edit::add_status(&session.schema, &fields),
        "set-view" => edit::set_view(&session.schema.answer.text, &fields),
        _ => {
            version = fields.text("version");
            Ok(fields.text("text").to_owned())
        }
    };
    let mut page = SchemaPage::new(&session);
    let [text] = &mut page.text;
    let mut status = StatusCode::UNPROCESSABLE_ENTITY;
    match edited {
        Ok(edited) => {
            let arguments = json!({ "text": edited, "if_version": version });
            let error = match session.change::<Value>("set_record_schema", arguments).await {
                Ok((_, change)) => {
                    let (page, name) = (session.url("schema"), DocumentId::schema().to_string());
                    let next = fields.filled("next");
                    let url = next.map_or(&*page, |next| local_target(&session.config, next));
                    let target = with_notice(url, "saved", &name, change);
                    return Ok(Redirect::to(&target).into_response());
                }
                Err(error) => error,
            };
            match error.kind {
                ErrorKind::Conflict => {
                    (page.is_conflict, status) = (true, StatusCode::CONFLICT);
                    text.keep_stored(edited);
                }
                ErrorKind::InvalidArgument | ErrorKind::Refused => {
                    let problems = RecordSchema::parse(&edited).diagnostics;
                    let lines = problems
                        .iter()
                        .map(|one| format!("Line {}: {}", one.line.unwrap_or(1), one.message));
                    text.error = lines.collect::<Vec<_>>().join("\n");
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

#[cfg(test)]
mod tests;
