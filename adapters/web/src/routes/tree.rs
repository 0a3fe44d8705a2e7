//! The tree: epics with their user stories and requirements.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::routing::get;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use serde_json::{Map, Value, json};

use crate::config::WebConfig;
use crate::item_lists::FirstItem;
use crate::page::{PageFrame, PageSection, new_page, render};
use crate::page_error::{PageError, PageResult};
use crate::session::PageSession;

const EPIC_LIMIT: usize = 50;
/// A project with more stories or requirements shows those of one epic at a time.
const CHILD_LIMIT: usize = 500;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/tree", get(show_tree))
}

#[derive(Template)]
#[template(path = "tree.html")]
struct TreePage<'a> {
    frame: PageFrame,
    total: usize,
    first: Option<FirstItem>,
    epics: Vec<ListedItem>,
    /// Stories by epic and requirements by story; those without a parent under an empty text.
    children: BTreeMap<String, Vec<ListedItem>>,
    /// The epic whose children are shown; `None` if all are.
    open: Option<&'a str>,
    /// True if the open epic has more children than the page.
    is_cut: bool,
    /// The query of the next epics; empty if there are none.
    next: String,
}

impl TreePage<'_> {
    fn children_of(&self, parent: &str) -> &[ListedItem] {
        self.children.get(parent).map_or(&[], Vec::as_slice)
    }

    /// True if the children of the epic are on the page.
    fn is_loaded(&self, epic: &str) -> bool {
        self.open.is_none_or(|open| open == epic)
    }

    fn is_open(&self, epic: &str) -> bool {
        self.open == Some(epic) || self.epics.len() <= 3
    }
}

async fn show_tree(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    let query = &session.query;
    let mut additions = vec![("limit", json!(EPIC_LIMIT))];
    additions.extend(query.filled("cursor").map(|cursor| ("cursor", json!(cursor))));
    let page = session.list_items(of_kind(ItemKind::Epic), &additions).await?;
    let mut open = query.filled("epic");
    let kinds = [ItemKind::UserStory, ItemKind::Requirement];
    for kind in kinds {
        if open.is_none() && list_children(&session, kind, None, 1).await?.total > CHILD_LIMIT {
            // Too many for one page.
            open = Some("");
        }
    }
    let (mut is_cut, mut children) = (false, BTreeMap::<String, Vec<ListedItem>>::new());
    for kind in kinds.into_iter().filter(|_| open != Some("")) {
        let page = list_children(&session, kind, open, CHILD_LIMIT).await?;
        is_cut |= page.next_cursor.is_some();
        for item in page.items {
            children.entry(item.parent.clone().unwrap_or_default()).or_default().push(item);
        }
    }
    let mut frame = PageFrame::new(&session, PageSection::Tree, "Tree");
    if let Some(epic) = query.filled("epic") {
        let story = ItemKind::UserStory.name();
        frame = frame.with_creation(new_page([("kind", story), ("parent", epic)]));
    }
    render(&TreePage {
        frame,
        first: Some(session.first_item(ItemKind::Epic).await?),
        total: page.total,
        next: page.next_cursor.map(|cursor| query.with("cursor", &cursor)).unwrap_or_default(),
        epics: page.items,
        children,
        open,
        is_cut,
    })
}

async fn list_children(
    session: &PageSession,
    kind: ItemKind,
    epic: Option<&str>,
    limit: usize,
) -> Result<ListPage, PageError> {
    let mut additions = vec![("limit", json!(limit))];
    additions.extend(epic.map(|epic| ("epic", json!(epic))));
    Ok(session.list_items(of_kind(kind), &additions).await?)
}

fn of_kind(kind: ItemKind) -> Map<String, Value> {
    Map::from_iter([("kind".to_owned(), json!(kind.name()))])
}
