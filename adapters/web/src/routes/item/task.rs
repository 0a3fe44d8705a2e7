//! Checks and clears the boxes of the task lists in a text.

use axum::extract::Path;
use axum::http::HeaderMap;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::records::fields::{FieldType, fields_of};
use serde_json::{Map, Value, json};

use crate::csrf::PostedForm;
use crate::markdown::toggle_task;
use crate::page_error::PageResult;
use crate::routes::item::form::{ContentKind, item_url};
use crate::routes::item::frame::read_item;
use crate::routes::undo::show_change;

/// Toggles the box with the number `task` in the text of a version.
pub(super) async fn toggle_box(
    headers: HeaderMap,
    Path((_, id)): Path<(String, String)>,
    PostedForm { session, fields }: PostedForm,
) -> PageResult {
    let item = read_item(&session, &id).await?.item;
    let version = fields.text("version");
    // The number names another task in another text.
    let task = fields.text("task").parse().ok().filter(|_| item.version() == version);
    let text = task.and_then(|task| toggle_task(item.text(), task)).ok_or_else(|| {
        let message = format!("{id} was changed in the meantime; reload the page and try again");
        Error::new(ErrorKind::Conflict, message)
    })?;
    let kind = ContentKind::of_id(&id);
    let mut arguments = Map::new();
    for field in fields_of(kind.row()).filter(|field| field.field_type == FieldType::Body) {
        arguments.insert(field.name.to_owned(), json!(text));
    }
    arguments.insert(kind.id_argument().to_owned(), json!(id));
    arguments.insert("if_version".to_owned(), json!(version));
    let tool = kind.row().update_tool;
    let (_, change) = session.change::<Value>(tool, arguments.into()).await?;
    Ok(show_change(&headers, &item_url(&session, &id), "saved", &id, change))
}
