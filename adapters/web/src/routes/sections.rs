//! The sections of requirements: the list, and each section as a document with forms in place.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use axum::routing::{get, post};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::records::answers::applied_changes::AppliedChanges;
use reqlore_domain::records::answers::details::ItemDetails;
use reqlore_domain::records::answers::sections::{DeletedRule, Instructions, SetRule};
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::sections::{Section, instructions};
use serde_json::{Map, Value, json};

use super::item::form::{FieldControl, FormField};
use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::encode_component;
use crate::markdown::{TextContext, render_markdown};
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, PageResult, public_message};
use crate::routes::item::frame::item_text;
use crate::routes::undo::with_notice;
use crate::session::PageSession;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/sections", get(list_sections))
        .route("/p/{project}/sections/{key}", get(show_section))
        .route("/p/{project}/sections/{key}/edit", get(show_form).post(save))
        .route("/p/{project}/sections/{key}/move", post(move_rule))
}

#[derive(Template)]
#[template(path = "sections.html")]
struct SectionList {
    frame: PageFrame,
    sections: Vec<ListedSection>,
    /// The key of a new section that the user typed, and its problem.
    typed: String,
    error: String,
}

struct ListedSection {
    title: String,
    key: String,
    /// The number of its rules; `None` for the sections after the first [`MAX_COUNTED`].
    count: Option<usize>,
}

/// More sections than people read in a list.
const MAX_COUNTED: usize = 100;

async fn list_sections(session: PageSession) -> PageResult {
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
    let mut listed = listed_sections(&session).await?;
    listed.sort();
    let mut sections = Vec::new();
    for (title, key) in listed {
        let mut count = None;
        if sections.len() < MAX_COUNTED {
            // AGENTS.md lists sections that do not exist yet.
            let section = read_section(&session, &key).await.ok();
            let rules = |found: ItemDetails| Section::parse(found.item.text()).requirements().len();
            count = Some(section.map_or(0, rules));
        }
        sections.push(ListedSection { title, key, count });
    }
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
    source: String,
    /// The reason why a rule was not moved.
    error: String,
    parts: Vec<SectionPart>,
    count: usize,
    can_move: bool,
    form: Option<RuleForm>,
}

/// A requirement of a section, or the text between two of them.
struct SectionPart {
    /// Empty for text between requirements.
    index: String,
    /// Sanitized.
    html: String,
    /// The indices of the rules above and below, with which it can be exchanged.
    neighbours: [Option<String>; 2],
}

/// The form of a rule in its section.
struct RuleForm {
    /// Of the part that it replaces if the rule is stored, or otherwise precedes.
    position: usize,
    is_stored: bool,
    /// The index of the rule that a new one precedes.
    before: String,
    fields: [FormField; 2],
    error: String,
    is_conflict: bool,
}

async fn read_section(session: &PageSession, key: &str) -> Result<ItemDetails, PageError> {
    let reference = format!("section:{key}");
    let answer = session.call_tool("get_item", json!({ "reference": reference })).await?;
    Ok(answer)
}

impl SectionPage {
    /// The page of a section, of which AGENTS.md may have only the title.
    async fn read(session: &PageSession, key: String) -> Result<Self, PageError> {
        let answer = match read_section(session, &key).await {
            Err(PageError::NotFound) => None,
            answer => Some(answer?),
        };
        let mut title = answer.as_ref().map_or("", |found| found.item.title()).to_owned();
        if title.is_empty() || title == key {
            // A section without a heading.
            let listed = listed_sections(session).await?;
            let found = listed.into_iter().find(|(_, listed)| *listed == key);
            title = found.map_or(title, |(listed, _)| listed);
        }
        let mut page = Self {
            frame: PageFrame::new(session, PageSection::Sections, &*title)
                .with_creation(format!("sections/{}/edit", encode_component(&key))),
            key,
            title,
            version: String::new(),
            diagnostic: String::new(),
            source: String::new(),
            error: String::new(),
            parts: Vec::new(),
            count: 0,
            can_move: session.has_tool("apply_changes"),
            form: None,
        };
        if let Some(answer) = answer {
            answer.item.version().clone_into(&mut page.version);
            answer.item.text().clone_into(&mut page.source);
            page.add_parts(answer.item.text(), &item_text(session, &answer));
            page.diagnostic = answer.diagnostic.unwrap_or_default();
        }
        Ok(page)
    }

    /// The URL of the section, or of a form below it.
    fn url(&self, form: &str) -> String {
        let slash = if form.is_empty() { "" } else { "/" };
        self.frame.url(&format!("sections/{}{slash}{form}", encode_component(&self.key)))
    }

    fn form_at(&self, position: usize) -> Option<&RuleForm> {
        self.form.as_ref().filter(|form| form.position == position)
    }

    fn is_replaced(&self, position: usize) -> bool {
        self.form_at(position).is_some_and(|form| form.is_stored)
    }

    fn add_parts(&mut self, source: &str, context: &TextContext) {
        let section = Section::parse(source);
        let rules = section.requirements();
        self.count = rules.len();
        // An index that occurs twice names only its first rule.
        let unique = |position: usize| {
            let index = rules.get(position)?.index;
            let is_unique = rules.iter().filter(|rule| rule.index == index).count() == 1;
            is_unique.then(|| index.to_owned())
        };
        let mut end = 0;
        for (position, rule) in rules.iter().enumerate() {
            let stored = section.stored_text(rule);
            // Requirements are in the order of the text.
            let Some(start) = source[end..].find(stored).map(|at| end + at) else { continue };
            self.push_between(&source[end..start], context);
            end = start + stored.len();
            let mut neighbours = [None, None];
            if unique(position).is_some() {
                neighbours = [position.checked_sub(1).and_then(unique), unique(position + 1)];
            }
            let html = render_markdown(&section.text(rule), 3, context);
            self.parts.push(SectionPart { index: rule.index.to_owned(), html, neighbours });
        }
        self.push_between(&source[end..], context);
    }

    /// Adds the text between two requirements, such as headings.
    fn push_between(&mut self, text: &str, context: &TextContext) {
        if !text.trim().is_empty() {
            let html = render_markdown(text, 2, context);
            self.parts.push(SectionPart { index: String::new(), html, neighbours: [None, None] });
        }
    }

    /// Opens the form of a rule, or that of a new one at the end or before another.
    fn open_form(&mut self, index: &str, before: &str) {
        if self.title.is_empty() {
            // A new section.
            self.title.clone_from(&self.key);
            self.frame.title.clone_from(&self.key);
        }
        let section = Section::parse(&self.source);
        let stored = section.find(index).map(|rule| (rule.index, section.text(rule)));
        let is_stored = stored.is_some();
        let mut fields = form_fields(is_stored);
        index.clone_into(&mut fields[0].value);
        if let Some((_, text)) = &stored {
            fields[0].fill(index);
            fields[1].fill(text);
        }
        let place = stored.map(|(index, _)| index).or(section.find(before).map(|rule| rule.index));
        let position = self.parts.iter().position(|part| Some(&*part.index) == place);
        self.form = Some(RuleForm {
            position: position.unwrap_or(self.parts.len()),
            is_stored,
            before: before.to_owned(),
            fields,
            error: String::new(),
            is_conflict: false,
        });
    }
}

async fn show_section(session: PageSession, Path((_, key)): Path<(String, String)>) -> PageResult {
    let page = SectionPage::read(&session, key).await?;
    if page.title.is_empty() {
        return Err(PageError::NotFound);
    }
    render(&page)
}

fn form_fields(is_stored: bool) -> [FormField; 2] {
    let index = FormField {
        name: "index".into(),
        label: "Index".into(),
        hint: if is_stored {
            "Such as 1 or 2.1. A new index adds a rule.".into()
        } else {
            "Such as 2.1. Without an index, the rule gets the next number.".into()
        },
        is_required: is_stored,
        ..FormField::default()
    };
    let text = FormField {
        name: "text".into(),
        label: "Text".into(),
        hint: "Markdown. What the product must do, and why.".into(),
        control: FieldControl::Area,
        is_required: true,
        has_focus: true,
        ..FormField::default()
    };
    [index, text]
}

async fn show_form(session: PageSession, Path((_, key)): Path<(String, String)>) -> PageResult {
    if !session.can_write() {
        return Err(PageError::NotFound);
    }
    let mut page = SectionPage::read(&session, key).await?;
    // Report an invalid key before the user types the text.
    if page.version.is_empty() && check_new_key(&page.key).is_err() {
        let list = session.url("sections");
        let key = encode_component(&page.key);
        return Ok(Redirect::to(&format!("{list}?new={key}")).into_response());
    }
    page.open_form(session.query.text("index"), session.query.text("before"));
    render(&page)
}

/// Checks the key of a section that does not exist.
fn check_new_key(key: &str) -> Result<(), String> {
    SectionKey::try_from(key.to_owned())?.check_new()
}

/// Saves a requirement, or deletes it if the form has the field `delete`.
async fn save(
    Path((_, key)): Path<(String, String)>,
    PostedForm { session, fields }: PostedForm,
) -> PageResult {
    let mut posted = form_fields(true);
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
    arguments.insert("index".to_owned(), json!(if index.is_empty() { "new" } else { index }));
    arguments.insert("if_version".to_owned(), json!(fields.filled("version")));
    let outcome = if is_deletion {
        let deleted = session.change("reqlix_delete_requirements", arguments.into()).await;
        deleted.map(|(rule, change): (DeletedRule, _)| ("deleted", rule.index, change))
    } else {
        arguments.insert("text".to_owned(), json!(text));
        if let (true, Some(before)) = (index.is_empty(), fields.filled("before")) {
            arguments.insert("before".to_owned(), json!(before));
        }
        let set = session.change("reqlix_set_requirements", arguments.into()).await;
        set.map(|(rule, change): (SetRule, _)| ("saved", rule.index, change))
    };
    let error = match outcome {
        Ok((verb, index, change)) => {
            let url = if is_deletion { url } else { format!("{url}#rule-{index}") };
            let target = with_notice(&url, verb, &format!("{key}:{index}"), change);
            return Ok(Redirect::to(&target).into_response());
        }
        Err(error) => error,
    };
    let (status, error) = form_error_status(error)?;
    let mut page = SectionPage::read(&session, key).await?;
    page.open_form(index, fields.text("before"));
    if let Some(form) = &mut page.form {
        form.reject(&error, text);
        if !form.is_conflict {
            // The form was read with this one.
            fields.text("version").clone_into(&mut page.version);
        }
    }
    Ok((status, render(&page)?).into_response())
}

/// The status of the page that shows an error which its user can correct.
fn form_error_status(error: Error) -> Result<(StatusCode, Error), PageError> {
    match error.kind {
        ErrorKind::Conflict => Ok((StatusCode::CONFLICT, error)),
        ErrorKind::InvalidArgument | ErrorKind::Refused | ErrorKind::NotFound => {
            Ok((StatusCode::UNPROCESSABLE_ENTITY, error))
        }
        _ => Err(error.into()),
    }
}

/// Exchanges the texts of two neighbouring rules, so that only their numbers change.
async fn move_rule(
    Path((_, key)): Path<(String, String)>,
    PostedForm { session, fields }: PostedForm,
) -> PageResult {
    let (from, to) = (fields.text("index"), fields.text("to"));
    let mut page = SectionPage::read(&session, key).await?;
    let section = Section::parse(&page.source);
    let (Some(rule), Some(other)) = (section.find(from), section.find(to)) else {
        return Err(PageError::NotFound);
    };
    let entry = |index: &str, text: String| {
        json!({
            "update": format!("section:{}:{index}", page.key),
            "text": text,
            "if_version": fields.text("version"),
        })
    };
    let changes = [entry(to, section.text(rule)), entry(from, section.text(other))];
    let arguments = json!({ "changes": changes });
    let error = match session.change::<AppliedChanges>("apply_changes", arguments).await {
        Ok((_, change)) => {
            let url = format!("{}#rule-{to}", section_url(&session, &page.key));
            let target = with_notice(&url, "moved", &format!("{}:{to}", page.key), change);
            return Ok(Redirect::to(&target).into_response());
        }
        Err(error) => error,
    };
    let (status, error) = form_error_status(error)?;
    page.error = public_message(&error).into_owned();
    Ok((status, render(&page)?).into_response())
}

impl RuleForm {
    fn reject(&mut self, error: &Error, text: &str) {
        self.is_conflict = error.kind == ErrorKind::Conflict;
        if self.is_conflict {
            if self.fields[1].value != text {
                self.fields[1].keep_stored(text.to_owned());
            }
            return;
        }
        text.clone_into(&mut self.fields[1].value);
        let message = public_message(error).into_owned();
        let named = error.field.as_deref().unwrap_or_default();
        match self.fields.iter_mut().find(|field| field.name == named) {
            Some(field) => field.error = message,
            None => self.error = message,
        }
    }

    fn has_error(&self) -> bool {
        self.is_conflict
            || !self.error.is_empty()
            || self.fields.iter().any(|field| !field.error.is_empty())
    }
}

#[cfg(test)]
mod tests;
