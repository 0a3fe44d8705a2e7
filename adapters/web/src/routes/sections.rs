//! The sections of requirements: list, page, and the form of one requirement.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::records::answers::details::ItemDetails;
use reqlore_domain::records::answers::sections::Instructions;
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::sections::{Section, instructions};
use serde_json::{Map, Value, json};

use super::item::form::{FieldControl, FormField};
use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::encode_component;
use crate::markdown::{TextContext, render_markdown};
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, public_message};
use crate::routes::item::frame::item_text;
use crate::routes::undo::with_notice;
use crate::session::PageSession;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/sections", get(list_sections))
        .route("/p/{project}/sections/{key}", get(show_section))
        .route("/p/{project}/sections/{key}/edit", get(show_form).post(save))
}

#[derive(Template)]
#[template(path = "sections.html")]
struct SectionList {
    frame: PageFrame,
    /// Titles and keys.
    sections: Vec<(String, String)>,
    /// The key of a new section that the user typed, and its problem.
    typed: String,
    error: String,
}

async fn list_sections(session: PageSession) -> Result<Response, PageError> {
    let typed = session.query.filled("new").unwrap_or_default();
    let mut error = String::new();
    if !typed.is_empty() {
        let Err(problem) = check_new_key(typed) else {
            // A new section has a form of its own address.
            let url = section_url(&session, typed);
            return Ok(Redirect::to(&format!("{url}/edit")).into_response());
        };
        error = format!("Key: {problem}");
    }
    let mut sections = listed_sections(&session).await?;
    sections.sort();
    let (typed, has_error) = (typed.to_owned(), !error.is_empty());
    let frame = PageFrame::new(&session, PageSection::Sections, "Sections");
    let page = render(&SectionList { frame, sections, typed, error })?;
    let status = if has_error { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok((status, page).into_response())
}

/// The titles and keys of the sections in AGENTS.md. In a new project the sections do not exist.
async fn listed_sections(session: &PageSession) -> Result<Vec<(String, String)>, PageError> {
    let arguments = tool_arguments(session, "list the sections on a page");
    let agents: Instructions =
        session.read_tool("reqlix_get_instructions", arguments.into()).await?;
    let mut sections = Vec::new();
    for (key, title) in instructions::listed(&agents.text) {
        sections.push((title, key));
    }
    Ok(sections)
}

/// The arguments that all tools of sections have.
fn tool_arguments(session: &PageSession, purpose: &str) -> Map<String, Value> {
    let mut arguments = Map::new();
    arguments.insert("project_root".to_owned(), json!(session.project.as_str()));
    arguments.insert("operation_description".to_owned(), json!(purpose));
    arguments
}

fn section_url(session: &PageSession, key: &str) -> String {
    session.url(&format!("sections/{}", encode_component(key)))
}

#[derive(Template)]
#[template(path = "section.html")]
struct SectionPage {
    frame: PageFrame,
    key: String,
    title: String,
    /// Empty for a section that is only in the list of AGENTS.md.
    version: String,
    diagnostic: String,
    parts: Vec<SectionPart>,
    /// The index of the last requirement, after which a new one is added.
    count: usize,
}

/// A requirement of a section, or the text between two of them.
struct SectionPart {
    /// Empty for text between requirements.
    index: String,
    /// Sanitized.
    html: String,
}

async fn read_section(session: &PageSession, key: &str) -> Result<ItemDetails, PageError> {
    let reference = format!("section:{key}");
    let answer = session.call_tool("get_item", json!({ "reference": reference })).await?;
    Ok(answer)
}

/// Pushes the text between two requirements, such as headings.
fn push_between(parts: &mut Vec<SectionPart>, text: &str, context: &TextContext) {
    if !text.trim().is_empty() {
        let html = render_markdown(text, 2, context);
        parts.push(SectionPart { index: String::new(), html });
    }
}

async fn show_section(
    session: PageSession,
    Path((_, key)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let frame = |title: &str| {
        PageFrame::new(&session, PageSection::Sections, title)
            .with_creation(format!("sections/{}/edit", encode_component(&key)))
    };
    let answer = match read_section(&session, &key).await {
        Err(PageError::NotFound) => {
            let mut listed = listed_sections(&session).await?.into_iter();
            let found = listed.find(|(_, listed)| *listed == key).ok_or(PageError::NotFound)?;
            let (frame, title) = (frame(&found.0), found.0);
            return render(&SectionPage {
                frame,
                key,
                title,
                version: String::new(),
                diagnostic: String::new(),
                parts: Vec::new(),
                count: 0,
            });
        }
        answer => answer?,
    };
    let source = answer.item.text();
    let context = item_text(&session, &answer);
    let section = Section::parse(source);
    let mut parts = Vec::new();
    let mut end = 0;
    for requirement in section.requirements() {
        let stored = section.stored_text(requirement);
        // Requirements are in the order of the text.
        let Some(start) = source[end..].find(stored).map(|at| end + at) else { continue };
        push_between(&mut parts, &source[end..start], &context);
        end = start + stored.len();
        let html = render_markdown(&section.text(requirement), 3, &context);
        parts.push(SectionPart { index: requirement.index.to_owned(), html });
    }
    push_between(&mut parts, &source[end..], &context);
    render(&SectionPage {
        frame: frame(answer.item.title()),
        count: section.requirements().len(),
        title: answer.item.title().to_owned(),
        version: answer.item.version().to_owned(),
        diagnostic: answer.diagnostic.unwrap_or_default(),
        parts,
        key,
    })
}

#[derive(Template)]
#[template(path = "section_form.html")]
struct SectionForm {
    frame: PageFrame,
    key: String,
    /// True for a requirement that exists.
    is_stored: bool,
    fields: [FormField; 2],
    version: String,
    error: String,
    is_conflict: bool,
}

impl SectionForm {
    /// The form of a requirement; `index` is empty for a new one.
    async fn read(session: &PageSession, key: String, index: &str) -> Result<Self, PageError> {
        let answer = match read_section(session, &key).await {
            Ok(answer) => Some(answer.item),
            Err(PageError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let source = answer.as_ref().map_or("", |item| item.text());
        let section = Section::parse(source);
        let found = section.find(index).map(|requirement| section.text(requirement));
        let mut fields = form_fields();
        index.clone_into(&mut fields[0].value);
        if let Some(text) = &found {
            fields[0].fill(index);
            fields[1].fill(text);
        }
        Ok(Self {
            frame: PageFrame::new(session, PageSection::Sections, format!("Edit {key}")),
            is_stored: found.is_some(),
            fields,
            version: answer.as_ref().map(|item| item.version().to_owned()).unwrap_or_default(),
            error: String::new(),
            is_conflict: false,
            key,
        })
    }
}

fn form_fields() -> [FormField; 2] {
    let index = FormField {
        name: "index".into(),
        label: "Index".into(),
        hint: "Such as 1 or 2.1. A new index adds a rule.".into(),
        is_required: true,
        ..FormField::default()
    };
    let text = FormField {
        name: "text".into(),
        label: "Text".into(),
        hint: "Markdown. What the product must do, and why.".into(),
        control: FieldControl::Area,
        ..index.clone()
    };
    [index, text]
}

async fn show_form(
    session: PageSession,
    Path((_, key)): Path<(String, String)>,
) -> Result<Response, PageError> {
    if !session.can_write() {
        return Err(PageError::NotFound);
    }
    let index = session.query.text("index").to_owned();
    let form = SectionForm::read(&session, key, &index).await?;
    // Report an invalid key before the user types the text.
    if form.version.is_empty() && check_new_key(&form.key).is_err() {
        let list = session.url("sections");
        let key = encode_component(&form.key);
        return Ok(Redirect::to(&format!("{list}?new={key}")).into_response());
    }
    render(&form)
}

/// Checks the key of a section that does not exist.
fn check_new_key(key: &str) -> Result<(), String> {
    SectionKey::try_from(key.to_owned())?.check_new()
}

/// Saves a requirement, or deletes it if the form has the field `delete`.
async fn save(
    Path((_, key)): Path<(String, String)>,
    PostedForm { session, fields }: PostedForm,
) -> Result<Response, PageError> {
    let mut posted = form_fields();
    for field in &mut posted {
        field.read(&fields);
    }
    let url = section_url(&session, &key);
    let is_deletion = fields.filled("delete").is_some();
    if !is_deletion && posted.iter().all(|field| !field.base.is_empty() && !field.is_changed()) {
        return Ok(Redirect::to(&with_notice(&url, "same", &key, None)).into_response());
    }
    let (index, text) = (fields.text("index").trim(), fields.text("text"));
    let mut arguments = tool_arguments(&session, "edit a rule on a page");
    arguments.insert("section".to_owned(), json!(key));
    arguments.insert("index".to_owned(), json!(index));
    arguments.insert("if_version".to_owned(), json!(fields.filled("version")));
    let tool = if is_deletion {
        "reqlix_delete_requirements"
    } else {
        arguments.insert("text".to_owned(), json!(text));
        "reqlix_set_requirements"
    };
    let error = match session.change::<Value>(tool, arguments.into()).await {
        Ok((_, change)) => {
            let verb = if is_deletion { "deleted" } else { "saved" };
            let target = with_notice(&url, verb, &format!("{key}:{index}"), change);
            return Ok(Redirect::to(&target).into_response());
        }
        Err(error) => error,
    };
    let status = match error.kind {
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::InvalidArgument | ErrorKind::Refused => StatusCode::UNPROCESSABLE_ENTITY,
        _ => return Err(error.into()),
    };
    let mut form = SectionForm::read(&session, key, index).await?;
    form.reject(&error, text, fields.text("version"));
    Ok((status, render(&form)?).into_response())
}

impl SectionForm {
    fn reject(&mut self, error: &Error, text: &str, version: &str) {
        self.is_conflict = error.kind == ErrorKind::Conflict;
        if self.is_conflict {
            if self.fields[1].value != text {
                self.fields[1].keep_stored(text.to_owned());
            }
            return;
        }
        text.clone_into(&mut self.fields[1].value);
        // The form was read with this one.
        version.clone_into(&mut self.version);
        let message = public_message(error).into_owned();
        let named = error.field.as_deref().unwrap_or_default();
        match self.fields.iter_mut().find(|field| field.name == named) {
            Some(field) => field.error = message,
            None => self.error = message,
        }
    }
}

#[cfg(test)]
mod tests;
