//! The tab of an item's links, with the form that relates requirements and stories.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use reqlore_domain::backlog::{ItemKind, Reference, RelationshipType};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::records::fields::relationship_types;
use serde_json::{Value, json};

use crate::csrf::PostedForm;
use crate::form_fields::encode_component;
use crate::page::{PageFrame, render};
use crate::page_error::{PageError, PageResult, public_message};
use crate::routes::item::answer::{LinkGroup, hidden_links, link_groups};
use crate::routes::item::frame::{ItemHeader, ItemTab, item_frame, read_item};
use crate::routes::undo::with_notice;
use crate::session::PageSession;

#[derive(Template)]
#[template(path = "item_links.html")]
struct LinksPage {
    frame: PageFrame,
    header: ItemHeader,
    groups: Vec<LinkGroup>,
    hidden_links: usize,
    /// The kind of both ends of a relationship that the form adds.
    kind: ItemKind,
    is_relatable: bool,
    types: Vec<RelationshipType>,
    /// The typed values after an error.
    relation: String,
    target: String,
    error: String,
}

pub(super) async fn show_links(
    session: PageSession,
    Path((_, id)): Path<(String, String)>,
) -> PageResult {
    render(&links_page(&session.with_schema().await?, &id).await?)
}

async fn links_page(session: &PageSession, id: &str) -> Result<LinksPage, PageError> {
    let answer = read_item(session, id).await?;
    let frame = item_frame(session, &answer.item);
    let kind = answer.item.item_kind().unwrap_or(ItemKind::Epic);
    let types = relationship_types(kind);
    Ok(LinksPage {
        kind,
        is_relatable: !types.is_empty() && frame.can_write,
        header: ItemHeader::new(&frame, &answer, ItemTab::Links),
        groups: link_groups(&answer),
        hidden_links: hidden_links(&answer),
        types,
        relation: String::new(),
        target: String::new(),
        error: String::new(),
        frame,
    })
}

/// Adds a relationship, or removes it if the form has the field `remove`.
pub(super) async fn change_links(
    Path((_, id)): Path<(String, String)>,
    PostedForm { session, fields }: PostedForm,
) -> PageResult {
    let is_removal = fields.filled("remove").is_some();
    let tool = if is_removal { "delete_relationship" } else { "create_relationship" };
    let (relation, target) = (fields.text("type"), fields.text("target").trim());
    let kind = Reference::parse(&id).map_or(ItemKind::Requirement, |reference| reference.kind);
    let outcome = match session.find_id(kind, "target", target).await {
        Ok(target) => {
            let arguments = json!({ "source": id, "type": relation, "target": target });
            session.change::<Value>(tool, arguments).await
        }
        Err(error) => Err(error),
    };
    match outcome {
        Ok((_, change)) => {
            let page = session.url(&format!("item/{}/links", encode_component(&id)));
            Ok(Redirect::to(&with_notice(&page, "saved", &id, change)).into_response())
        }
        Err(error)
            if matches!(error.kind, ErrorKind::InvalidArgument | ErrorKind::Refused)
                // The target, not the page's item.
                || (error.kind == ErrorKind::NotFound && !is_removal) =>
        {
            let mut page = links_page(&session.with_schema().await?, &id).await?;
            page.error = public_message(&error).into_owned();
            relation.clone_into(&mut page.relation);
            target.clone_into(&mut page.target);
            Ok((StatusCode::UNPROCESSABLE_ENTITY, render(&page)?).into_response())
        }
        Err(error) => Err(error.into()),
    }
}
