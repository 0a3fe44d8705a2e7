//! Forms that create, edit and delete items and entities.

pub(super) mod fields;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::records::answers::applied_changes::AppliedChanges;
use reqlore_domain::records::answers::details::ItemDetails;
use reqlore_domain::records::answers::history::HistoryAnswer;
use reqlore_domain::timestamp::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub(crate) use fields::{ContentKind, FieldControl, FormField, custom_name};

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::{FormFields, accepts_json, encode_component, value_text};
use crate::markdown::render_markdown;
use crate::page::{PageFrame, PageSection, new_page, render};
use crate::page_error::{PageError, PageResult, public_message};
use crate::routes::item::answer::is_part;
use crate::routes::item::frame::{ItemHeader, checked_text, item_frame, item_text, read_item};
use crate::routes::undo::{query_without_notice, show_change, with_notice};
use crate::session::{PageSession, local_target};

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/new", get(show_new).post(create))
        .route("/p/{project}/item/{id}/edit", get(show_edit).post(save))
        .route("/p/{project}/item/{id}/delete", get(show_delete).post(delete))
}

#[derive(Template)]
#[template(path = "item_form.html")]
struct FormPage {
    frame: PageFrame,
    heading: String,
    /// Empty for a new item.
    id: String,
    /// The kind of a new item.
    kind: &'static str,
    fields: Vec<FormField>,
    /// The version that the fields were read from.
    version: String,
    /// The text as the page of the item will show it, sanitized.
    preview: Option<String>,
    /// An error that belongs to no field.
    error: String,
    /// True if the item changed after the form was read.
    is_conflict: bool,
    cancel_url: String,
    /// The kinds to choose from: true for the current one, its name, and the URL of its form.
    kinds: Vec<(bool, &'static str, String)>,
    /// The templates to choose from: true for the current one, its name, and the URL of its form.
    templates: Vec<(bool, String, String)>,
    /// The URL of the form for a new item, with the same fields filled in.
    new_page: String,
    /// The page after the change; empty for that of the item.
    next: String,
}

impl FormPage {
    fn of_item(session: &PageSession, answer: &ItemDetails) -> Self {
        let item = &answer.item;
        Self {
            frame: item_frame(session, item),
            heading: format!("Edit {}", item.id()),
            id: item.id().to_owned(),
            kind: "",
            fields: FormField::of_document(answer, &session.schema.records),
            version: item.version().to_owned(),
            preview: None,
            error: String::new(),
            is_conflict: false,
            cancel_url: item_url(session, item.id()),
            kinds: Vec::new(),
            templates: Vec::new(),
            new_page: String::new(),
            next: String::new(),
        }
    }

    /// The form of a new item. Its fields have the values of a template, then those of its URL.
    async fn of_new(session: &PageSession, kind: ContentKind) -> Self {
        let new_query = query_without_notice(&session.query);
        let query = FormFields::parse(new_query.as_bytes());
        let chosen = query.text("template");
        let templates = session.templates(kind.name()).await;
        let template = templates.iter().find(|template| template.name == chosen);
        let parent = query.text("parent");
        let mut fields = kind.fields(kind.name(), &session.schema.records);
        for (index, field) in fields.iter_mut().enumerate() {
            field.has_focus = index == 0;
            let is_parent = field.name == kind.parent_name();
            let given = query.filled(if is_parent { "parent" } else { &field.name });
            let value = template.and_then(|template| template.values.get(field.value_name()));
            if let Some(value) = given.map(str::to_owned).or_else(|| value.map(value_text)) {
                field.value = value;
            }
        }
        let mut kinds = Vec::new();
        for other in kind.alternatives() {
            let parent = if other.parent_name() == kind.parent_name() { parent } else { "" };
            let page = new_page([("kind", other.name()), ("parent", parent)]);
            kinds.push((other == kind, other.row().words[0], page));
        }
        let mut names: Vec<&str> = templates.iter().map(|template| &*template.name).collect();
        names.retain(|name| !name.is_empty());
        let mut choices = Vec::new();
        if !names.is_empty() {
            names.insert(0, "");
        }
        for name in names {
            let words = if name.is_empty() { "Default" } else { name };
            let page = format!("new?{}", query.with("template", name));
            choices.push((name == chosen, words.to_owned(), page));
        }
        let section = match kind {
            ContentKind::Item(_) => PageSection::Board,
            ContentKind::Entity(_) => PageSection::Knowledge,
        };
        let heading = format!("New {}", kind.row().words[0]);
        let cancel_url = match (parent, section) {
            ("", PageSection::Knowledge) => session.url("knowledge"),
            ("", _) => session.url("board"),
            (parent, _) => item_url(session, parent),
        };
        Self {
            frame: PageFrame::new(session, section, heading.clone()),
            heading,
            id: String::new(),
            kind: kind.name(),
            fields,
            version: String::new(),
            preview: None,
            error: String::new(),
            is_conflict: false,
            cancel_url,
            kinds,
            templates: choices,
            new_page: format!("new?{new_query}"),
            next: String::new(),
        }
    }

    /// Keeps the page that the form names as the next one.
    fn with_next(mut self, session: &PageSession, fields: &FormFields) -> Self {
        if let Some(next) = fields.filled("next") {
            local_target(&session.config, next).clone_into(&mut self.next);
            self.cancel_url.clone_from(&self.next);
        }
        self
    }

    /// Shows the text as the page of the item will, and saves nothing.
    async fn show_preview(mut self, session: &PageSession, id: &str) -> PageResult {
        if let Some(field) = self.fields.iter().find(|field| field.is_body()) {
            let context = checked_text(session, id, &field.value).await;
            self.preview = Some(render_markdown(&field.value, 2, &context));
        }
        render(&self)
    }

    fn has_errors(&self) -> bool {
        !self.error.is_empty() || self.fields.iter().any(|field| !field.error.is_empty())
    }

    /// Shows the error of a tool at its field, with the status of a rejected form.
    fn reject(mut self, error: Error) -> PageResult {
        if !matches!(error.kind, ErrorKind::InvalidArgument | ErrorKind::Refused) {
            // A parent that does not exist is an error of its field.
            let names_field = error.kind == ErrorKind::NotFound && error.field.is_some();
            if !names_field {
                return Err(error.into());
            }
        }
        let message = public_message(&error).into_owned();
        let named = error.field.as_deref().unwrap_or_default();
        match self.fields.iter_mut().find(|field| field.is_named(named)) {
            Some(field) => field.error = message,
            None => self.error = message,
        }
        Ok((StatusCode::UNPROCESSABLE_ENTITY, render(&self)?).into_response())
    }
}

pub(crate) fn item_url(session: &PageSession, id: &str) -> String {
    session.url(&format!("item/{}", encode_component(id)))
}

/// The page that a form names as the next one, or else that of the item.
fn next_page(session: &PageSession, id: &str, posted: &FormFields) -> String {
    let page = posted.filled("next").map(|next| local_target(&session.config, next).to_owned());
    page.unwrap_or_else(|| item_url(session, id))
}

/// Answers like a page that does not exist, because the caller may not see the form.
pub(crate) fn require_write(session: &PageSession) -> Result<(), PageError> {
    if session.can_write() { Ok(()) } else { Err(PageError::NotFound) }
}

/// Calls a tool that writes. Its parent may be named by its title.
async fn write_with_parent<Answer: DeserializeOwned>(
    session: &PageSession,
    kind: ContentKind,
    tool: &str,
    mut arguments: Map<String, Value>,
) -> Result<(Answer, Option<Timestamp>), Error> {
    let parent = kind.row().parent.and_then(|kind| Some((kind, arguments.get_mut(kind.name())?)));
    if let Some((kind, value)) = parent {
        let name = value.as_str().unwrap_or_default();
        *value = json!(session.find_id(kind, kind.name(), name).await?);
    }
    session.change(tool, arguments.into()).await
}

async fn show_edit(session: PageSession, Path((_, id)): Path<(String, String)>) -> PageResult {
    require_write(&session)?;
    let session = session.with_schema().await?;
    let answer = read_item(&session, &id).await?;
    if is_part(&answer.item) {
        return Ok(Redirect::to(&item_url(&session, &id)).into_response());
    }
    let mut page = FormPage::of_item(&session, &answer).with_next(&session, &session.query);
    let parent_name = ContentKind::of_id(&id).parent_name();
    let parent_field = page.fields.iter_mut().find(|field| field.name == parent_name);
    if let (Some(field), Some(parent)) = (parent_field, answer.parents.last()) {
        field.hint = parent.title.clone().into();
    }
    render(&page)
}

async fn save(
    headers: HeaderMap,
    Path((_, id)): Path<(String, String)>,
    PostedForm { session, fields: posted }: PostedForm,
) -> PageResult {
    let session = session.with_schema().await?;
    let kind = ContentKind::of_id(&id);
    let answer = read_item(&session, &id).await?;
    if posted.filled("preview").is_some() {
        let mut page = FormPage::of_item(&session, &answer).with_next(&session, &posted);
        page.fields.iter_mut().for_each(|field| field.read(&posted));
        posted.text("version").clone_into(&mut page.version);
        return page.show_preview(&session, &id).await;
    }
    let mut arguments = Map::new();
    for field in FormPage::of_item(&session, &answer).fields {
        let typed = field.typed(&posted);
        if typed.is_changed() {
            typed.add_argument(&mut arguments);
        }
    }
    let next = next_page(&session, &id, &posted);
    if arguments.is_empty() {
        return Ok(show_change(&headers, &next, "same", &id, None));
    }
    if let Some(links) = arguments.get_mut("links") {
        fields::clear_missing_relations(links, &answer);
    }
    arguments.insert(kind.id_argument().to_owned(), json!(id));
    arguments.insert("if_version".to_owned(), json!(posted.filled("version")));
    let tool = kind.row().update_tool;
    let mut error = match write_with_parent::<Value>(&session, kind, tool, arguments).await {
        Ok((_, change)) => return Ok(show_change(&headers, &next, "saved", &id, change)),
        Err(error) => error,
    };
    let is_conflict = error.kind == ErrorKind::Conflict;
    if accepts_json(&headers) {
        if is_conflict {
            error.message = format!("{id} changed while you edited it. Nothing was saved.");
        }
        return Err(PageError::Failed(Box::new(error)));
    }
    if !is_conflict && (error.kind == ErrorKind::NotFound && error.field.is_none()) {
        return Err(error.into());
    }
    let page = FormPage::of_item(&session, &read_item(&session, &id).await?);
    let mut page = page.with_next(&session, &posted);
    for field in &mut page.fields {
        let typed = field.typed(&posted);
        if is_conflict { field.merge(typed) } else { *field = typed }
    }
    if is_conflict {
        page.is_conflict = true;
        return Ok((StatusCode::CONFLICT, render(&page)?).into_response());
    }
    posted.text("version").clone_into(&mut page.version);
    page.reject(error)
}

#[derive(Template)]
#[template(path = "new.html")]
struct KindChoice {
    frame: PageFrame,
    items: [ItemKind; 4],
    entities: Vec<EntityKind>,
}

async fn show_new(session: PageSession) -> PageResult {
    require_write(&session)?;
    let session = session.with_schema().await?;
    match ContentKind::parse(session.query.text("kind")) {
        Some(kind) => {
            let page = FormPage::of_new(&session, kind).await;
            render(&page.with_next(&session, &session.query))
        }
        None => render(&KindChoice {
            frame: PageFrame::new(&session, PageSection::Board, "New"),
            items: ItemKind::ALL,
            entities: EntityKind::all(),
        }),
    }
}

#[derive(Deserialize)]
struct CreatedItem {
    #[serde(alias = "id")]
    reference_id: String,
}

async fn create(PostedForm { session, fields: posted }: PostedForm) -> PageResult {
    let Some(kind) = ContentKind::parse(posted.text("kind")) else {
        return Err(PageError::NotFound);
    };
    let session = session.with_schema().await?;
    let page = FormPage::of_new(&session, kind).await;
    let mut page = page.with_next(&session, &posted);
    let mut arguments = Map::new();
    for field in &mut page.fields {
        field.read(&posted);
        if !field.value.trim().is_empty() {
            field.add_argument(&mut arguments);
        }
    }
    if posted.filled("preview").is_some() {
        return page.show_preview(&session, kind.name()).await;
    }
    if let ContentKind::Entity(Some(entity)) = kind {
        arguments.insert("kind".to_owned(), json!(entity.name()));
    }
    for field in &mut page.fields {
        // The tool would name only the first one.
        if field.is_required && field.value.trim().is_empty() {
            field.error = format!("{}: it is empty; enter it", field.label);
        }
    }
    if page.has_errors() {
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, render(&page)?).into_response());
    }
    match write_with_parent::<CreatedItem>(&session, kind, kind.row().create_tool, arguments).await
    {
        Ok((CreatedItem { reference_id: id }, change)) if posted.filled("another").is_some() => {
            let target = session.url(&new_page([
                ("kind", kind.name()),
                ("parent", posted.text(kind.parent_name())),
                ("template", session.query.text("template")),
            ]));
            Ok(Redirect::to(&with_notice(&target, "created", &id, change)).into_response())
        }
        Ok((CreatedItem { reference_id: id }, change)) => {
            let target = with_notice(&next_page(&session, &id, &posted), "created", &id, change);
            Ok(Redirect::to(&target).into_response())
        }
        Err(error) => page.reject(error),
    }
}

#[derive(Template)]
#[template(path = "item_delete.html")]
struct DeletePage {
    frame: PageFrame,
    header: ItemHeader,
    /// Sanitized; names all items that the deletion changes.
    effects: String,
    has_history: bool,
}

async fn show_delete(session: PageSession, Path((_, id)): Path<(String, String)>) -> PageResult {
    require_write(&session)?;
    let answer = read_item(&session, &id).await?;
    let frame = item_frame(&session, &answer.item);
    let context = item_text(&session, &answer);
    let header = ItemHeader::new(&frame, &answer, crate::routes::item::frame::ItemTab::Text);
    let change = json!({ "delete": id, "cascade": true });
    let arguments = json!({ "changes": [change], "dry_run": true });
    let planned: AppliedChanges = session.call_tool("apply_changes", arguments).await?;
    let effects = planned.effect_lines().join("\n\n");
    let effects = render_markdown(&effects, 2, &context);
    let history: Result<HistoryAnswer, Error> =
        session.call_tool("get_history", json!({ "reference": id, "limit": 1 })).await;
    let has_history = history.is_ok_and(|history| !history.versions.is_empty());
    render(&DeletePage { frame, header, effects, has_history })
}

async fn delete(
    Path((_, id)): Path<(String, String)>,
    PostedForm { session, fields }: PostedForm,
) -> PageResult {
    // Without effects on the page, new children must not be deleted.
    let arguments = json!({
        "reference": id,
        "cascade": fields.filled("cascade").is_some(),
        "if_version": fields.filled("version"),
    });
    let (_, change) = session.change::<Value>("delete_item", arguments).await?;
    let page = match Reference::parse(&id).map(|reference| reference.kind) {
        Some(kind) if !kind.statuses().is_empty() => format!("board?kind={}", kind.name()),
        Some(_) => "board".to_owned(),
        None => "knowledge".to_owned(),
    };
    let target = with_notice(&session.url(&page), "deleted", &id, change);
    Ok(Redirect::to(&target).into_response())
}

#[cfg(test)]
mod tests;
