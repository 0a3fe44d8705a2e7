//! The menu of one field, for an item or for several, and the change of several items in one
//! commit.

use std::borrow::Cow;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::get;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::applied_changes::AppliedChanges;
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::{FormFields, accepts_json, split_list};
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, PageResult, error_status, public_message};
use crate::project_schema::ProjectSchema;
use crate::routes::item::answer::is_part;
use crate::routes::item::form::{ContentKind, FieldControl, FormField, item_url, require_write};
use crate::routes::item::frame::read_item;
use crate::routes::undo::show_change;
use crate::session::{PageSession, local_target};

/// As many as `apply_changes` accepts.
const MAX_ITEMS: usize = 100;
/// Changes of several items that are no field of a form, with their labels.
const ADD_TAGS: &str = "add-tags";
const REMOVE_TAGS: &str = "remove-tags";
const DELETION: &str = "delete";
const LABELS: [(&str, &str); 3] =
    [(ADD_TAGS, "Add tags"), (REMOVE_TAGS, "Remove tags"), (DELETION, "Delete")];

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/field", get(show_field).post(change_items))
}

#[derive(Template)]
#[template(path = "field.html")]
struct FieldPage {
    frame: PageFrame,
    heading: String,
    action: String,
    hidden: Vec<(String, String)>,
    /// The ID or the kind of an item, whose statuses the field has.
    record: String,
    field: FormField,
    error: String,
}

impl FieldPage {
    fn new(session: &PageSession, subject: &str, field: FormField) -> Self {
        let heading = format!("{subject}: {}", field.label);
        Self {
            frame: PageFrame::new(session, PageSection::Board, heading.clone()),
            heading,
            action: session.url("field"),
            hidden: Vec::new(),
            record: String::new(),
            field: FormField { has_focus: true, ..field },
            error: String::new(),
        }
    }

    /// The first choice that changes the value.
    fn focused_choice(&self) -> usize {
        let FieldControl::Choice(options) = &self.field.control else { return 0 };
        options.iter().position(|(value, _)| *value != self.field.value).unwrap_or_default()
    }
}

/// The changes that lists offer for the selected items: name and label. `kind` is empty if their
/// kinds differ.
pub(crate) fn bulk_changes(schema: &ProjectSchema, kind: &str) -> Vec<(String, String)> {
    let kind = ContentKind::Item(ItemKind::from_name(kind).unwrap_or(ItemKind::Epic));
    let mut changes = Vec::new();
    for field in kind.fields(kind.name(), &schema.records) {
        let is_choice = matches!(field.control, FieldControl::Choice(_));
        if is_choice || field.has_one_pick() {
            changes.push((field.name.into_owned(), field.label.into_owned()));
        }
    }
    changes.extend(LABELS.map(|(name, label)| (name.to_owned(), label.to_owned())));
    changes
}

async fn show_field(session: PageSession) -> PageResult {
    require_write(&session)?;
    let session = session.with_schema().await?;
    match session.query.filled("item") {
        Some(id) if !id.contains(' ') => render(&item_page(&session, id).await?),
        _ => render(&bulk_page(&session, &session.query)?),
    }
}

/// The form of one item, which the route of its whole form handles.
async fn item_page(session: &PageSession, id: &str) -> Result<FieldPage, PageError> {
    let answer = read_item(session, id).await?;
    let name = session.query.text("name");
    let fields = FormField::of_document(&answer, &session.schema.records);
    let field = fields.into_iter().find(|field| field.name == name && !is_part(&answer.item));
    let (item, field) = (&answer.item, field.ok_or(PageError::NotFound)?);
    let record = if item.kind().is_empty() { item.id() } else { item.kind() };
    Ok(FieldPage {
        action: format!("{}/edit", item_url(session, item.id())),
        hidden: vec![("version".to_owned(), item.version().to_owned())],
        record: record.to_owned(),
        ..FieldPage::new(session, item.id(), field)
    })
}

fn bulk_page(session: &PageSession, fields: &FormFields) -> Result<FieldPage> {
    let items = selected_items(fields)?;
    let field = common_field(&items, fields.text("name"), session)?;
    let hidden = fields.pairs().filter(|(name, _)| ["name", "item", "next"].contains(name));
    Ok(FieldPage {
        hidden: hidden.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        record: items.first().map(|item| item.0.to_owned()).unwrap_or_default(),
        ..FieldPage::new(session, &count_items(items.len()), field)
    })
}

fn count_items(count: usize) -> String {
    format!("{count} {}", if count == 1 { "item" } else { "items" })
}

/// The IDs of the selected items, and the version that the list has shown.
fn selected_items(fields: &FormFields) -> Result<Vec<(&str, &str)>> {
    let items: Vec<_> = fields.all("item").filter_map(|item| item.split_once(' ')).collect();
    match items.len() {
        0 => Err(invalid("item: none is selected; select at least one".to_owned())),
        1..=MAX_ITEMS => Ok(items),
        count => Err(invalid(format!(
            "item: {count} are selected; select at most {MAX_ITEMS} for one change"
        ))),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// The field that all items have, without a value, and with the choices of all.
fn common_field(items: &[(&str, &str)], name: &str, session: &PageSession) -> Result<FormField> {
    let label = LABELS.iter().find(|(known, _)| *known == name).map(|(_, label)| (*label).into());
    if let (DELETION, Some(label)) = (name, &label) {
        let words = format!("Delete {}", count_items(items.len()));
        let control = FieldControl::Choice(vec![("yes".to_owned(), words)]);
        let (name, label) = (DELETION.into(), Cow::clone(label));
        return Ok(FormField { name, label, control, ..FormField::default() });
    }
    let argument = if label.is_some() { "tags" } else { name };
    let mut common: Option<FormField> = None;
    for (id, _) in items {
        let kind = ContentKind::of_id(id);
        let mut fields = kind.fields(kind.name(), &session.schema.records).into_iter();
        let Some(mut field) = fields.find(|field| field.name == argument) else {
            return Err(invalid(format!("{name}: {id} has no such field; select other items")));
        };
        if let Some(FormField { control: FieldControl::Choice(known), .. }) = &common
            && let FieldControl::Choice(options) = &mut field.control
        {
            options.retain(|option| known.contains(option));
        }
        common = Some(field);
    }
    let mut field = common.unwrap_or_default();
    field.value.clear();
    field.label = label.unwrap_or(field.label);
    Ok(field)
}

async fn change_items(
    headers: HeaderMap,
    PostedForm { session, fields: posted }: PostedForm,
) -> PageResult {
    let session = session.with_schema().await?;
    let next = local_target(&session.config, posted.text("next"));
    let items = selected_items(&posted)?;
    let mut error = match apply(&session, &items, &posted).await {
        Ok(None) => return Ok(show_change(&headers, next, "same", "", None)),
        Ok(change) => {
            let verb = if posted.text("name") == DELETION { "deleted" } else { "saved" };
            return Ok(show_change(&headers, next, verb, &count_items(items.len()), change));
        }
        Err(error) => error,
    };
    if error.kind == ErrorKind::Conflict {
        let item = error.reference.as_deref().unwrap_or("More than one item");
        error.message = format!("{item} was changed in the meantime. Nothing was saved.");
    }
    if accepts_json(&headers) {
        return Err(PageError::Failed(Box::new(error)));
    }
    let mut page = bulk_page(&session, &posted)?;
    page.error = public_message(&error).into_owned();
    page.field.read(&posted);
    Ok((error_status(error.kind).0, render(&page)?).into_response())
}

/// Changes all items or none. Returns the time of the change; `None` if there is nothing to change.
async fn apply(
    session: &PageSession,
    items: &[(&str, &str)],
    posted: &FormFields,
) -> Result<Option<Timestamp>> {
    let name = posted.text("name");
    let mut field = common_field(items, name, session)?;
    field.read(posted);
    if let Some(parent) = ItemKind::from_name(&field.name) {
        field.value = session.find_id(parent, parent.name(), &field.value).await?;
    }
    let mut changes = Vec::new();
    for (id, version) in items {
        let operation = if name == DELETION { "delete" } else { "update" };
        let mut change = Map::from_iter([(operation.to_owned(), json!(id))]);
        match name {
            DELETION => {}
            ADD_TAGS | REMOVE_TAGS => {
                let item = read_item(session, id).await?.item;
                let mut tags = item.tags().to_vec();
                for tag in split_list(&field.value) {
                    match (name, tags.iter().position(|known| *known == tag)) {
                        (ADD_TAGS, None) => tags.push(tag),
                        (REMOVE_TAGS, Some(index)) => _ = tags.remove(index),
                        _ => {}
                    }
                }
                if tags == item.tags() {
                    continue;
                }
                change.insert("tags".to_owned(), json!(tags));
            }
            _ => field.add_argument(&mut change),
        }
        change.insert("if_version".to_owned(), json!(version));
        changes.push(Value::Object(change));
    }
    if name == DELETION {
        // Lists show children after their parents, which must not have any.
        changes.reverse();
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let (_, change) =
        session.change::<AppliedChanges>("apply_changes", json!({ "changes": changes })).await?;
    Ok(change)
}

#[cfg(test)]
mod tests;
