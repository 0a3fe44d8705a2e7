//! The parts that all pages of an item share: the header, the tabs and the record.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use reqlore_domain::backlog::reference::scan_mentions;
use reqlore_domain::error::{ErrorKind, Result};
use reqlore_domain::records::answers::details::{ItemDetails, ItemView, ParentItem};
use serde_json::{Value, json};

use crate::form_fields::encode_component;
use crate::markdown::TextContext;
use crate::page::{PageFrame, PageSection, capitalize, new_page};
use crate::routes::files::image_url;
use crate::routes::item::answer::{child_kinds, is_part, link_count};
use crate::routes::item::form::fields::ContentKind;
use crate::session::PageSession;

/// Items of one text that are looked up.
const MAX_CHECKED_LINKS: usize = 50;

/// A tab of an item's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemTab {
    Text,
    Links,
    History,
    Raw,
}

/// The values of the heading of an item's pages: breadcrumb, title, actions and tabs.
pub(crate) struct ItemHeader {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) version: String,
    /// The items above, outermost first.
    pub(crate) parents: Vec<ParentItem>,
    pub(crate) tab: ItemTab,
    pub(crate) link_count: usize,
    pub(crate) is_editable: bool,
    pub(crate) is_entity: bool,
    /// The kinds of new children: name and words.
    pub(crate) child_kinds: Vec<(&'static str, &'static str)>,
}

impl ItemHeader {
    pub(crate) fn new(frame: &PageFrame, answer: &ItemDetails, tab: ItemTab) -> Self {
        let item = &answer.item;
        let is_editable = frame.can_write && !is_part(item);
        Self {
            id: item.id().to_owned(),
            kind: capitalize(&item.kind_words()),
            title: item.title().to_owned(),
            version: item.version().to_owned(),
            parents: answer.parents.clone(),
            tab,
            link_count: link_count(answer),
            is_editable,
            is_entity: item.item_kind().is_none() && !is_part(item),
            child_kinds: if is_editable { child_kinds(item) } else { Vec::new() },
        }
    }
}

impl ItemHeader {
    /// The heading of an item of which only the history is known.
    pub(crate) fn of_deleted(id: String, tab: ItemTab) -> Self {
        let kind = match ContentKind::of_id(&id) {
            ContentKind::Item(kind) => kind.noun(),
            ContentKind::Entity(_) => "Item",
        };
        Self {
            title: "Deleted".to_owned(),
            id,
            kind: kind.to_owned(),
            version: String::new(),
            parents: Vec::new(),
            tab,
            link_count: 0,
            is_editable: false,
            is_entity: false,
            child_kinds: Vec::new(),
        }
    }
}

/// The context of the text of a document, with a link for each ID.
fn project_text(session: &PageSession, id: &str) -> TextContext {
    let base = session.url("item/");
    TextContext {
        item_url: Arc::new(move |id| Some(format!("{base}{}", encode_component(id)))),
        image_url: image_url(session, id),
        has_buttons: false,
        anchors: RefCell::default(),
    }
}

/// As [`project_text`], without links to items that do not exist.
pub(crate) fn item_text(session: &PageSession, answer: &ItemDetails) -> TextContext {
    let links = answer.link_ends().into_iter().flat_map(|ends| ends.outgoing);
    let missing = links.filter(|link| link.title.is_none()).map(|link| link.id).collect();
    without_links(project_text(session, answer.item.id()), missing)
}

/// As [`item_text`], for a text whose links no answer lists: that of an entity, or one that is not
/// stored.
pub(crate) async fn checked_text(session: &PageSession, id: &str, text: &str) -> TextContext {
    let mentioned: BTreeSet<String> = scan_mentions(text).map(|(_, id)| id).collect();
    let mut missing = HashSet::new();
    for reference in mentioned.into_iter().take(MAX_CHECKED_LINKS) {
        let exists = json!({ "reference": reference, "show": ["id"] });
        let found = session.call_tool::<Value>("get_item", exists).await;
        if found.is_err_and(|error| error.kind == ErrorKind::NotFound) {
            missing.insert(reference);
        }
    }
    without_links(project_text(session, id), missing)
}

fn without_links(context: TextContext, missing: HashSet<String>) -> TextContext {
    let all = context.item_url;
    let item_url = Arc::new(move |id: &str| if missing.contains(id) { None } else { all(id) });
    TextContext { item_url, ..context }
}

/// Reads an item with the items above it.
pub(crate) async fn read_item(session: &PageSession, id: &str) -> Result<ItemDetails> {
    session.call_tool("get_item", json!({ "reference": id, "parents": true })).await
}

pub(crate) fn item_frame(session: &PageSession, item: &ItemView) -> PageFrame {
    let is_item = item.item_kind().is_some();
    let section = if is_item { PageSection::Board } else { PageSection::Knowledge };
    let frame = PageFrame::new(session, section, format!("{} {}", item.id(), item.title()));
    match child_kinds(item).first() {
        _ if is_part(item) => frame,
        Some((kind, _)) => frame.with_creation(new_page([("kind", *kind), ("parent", item.id())])),
        None => {
            let kind = item.item_kind().map_or(item.kind(), |kind| kind.name());
            let parent = item.parent().unwrap_or_default();
            frame.with_creation(new_page([("kind", kind), ("parent", parent)]))
        }
    }
}
