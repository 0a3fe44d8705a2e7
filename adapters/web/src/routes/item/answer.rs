//! The parts of an item's page that come from the answer of `get_item`.

use std::collections::HashMap;

use reqlore_domain::backlog::{ItemKind, Reference, RelationshipType, Status, inverse_relation};
use reqlore_domain::error::Result;
use reqlore_domain::records::answers::details::{ItemDetails, ItemView, LinkEnd};
use reqlore_domain::records::answers::lists::{ListPage, ProgressView};
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
use serde_json::json;

use crate::page::capitalize;
use crate::session::PageSession;

/// Links with the same relation and direction.
pub(crate) struct LinkGroup {
    pub(crate) relation: String,
    pub(crate) is_incoming: bool,
    pub(crate) links: Vec<LinkEnd>,
}

impl LinkGroup {
    /// The relation in words, such as "Depends on", or "Needed by" for an incoming one.
    pub(crate) fn label(&self) -> String {
        let words = if self.is_incoming {
            inverse_relation(&self.relation)
        } else {
            self.relation.as_str().into()
        };
        capitalize(&words.replace('_', " "))
    }

    pub(crate) fn is_relationship(&self) -> bool {
        let mut types = RelationshipType::SETTABLE.into_iter();
        !self.is_incoming && types.any(|known| known.name() == self.relation)
    }
}

/// All links by direction and relation, in the order of the tool.
pub(crate) fn link_groups(answer: &ItemDetails) -> Vec<LinkGroup> {
    let mut groups: Vec<LinkGroup> = Vec::new();
    let [related, linked] = answer.link_ends();
    let lists = [
        (false, related.outgoing),
        (false, linked.outgoing),
        (true, related.incoming),
        (true, linked.incoming),
    ];
    for (is_incoming, links) in lists {
        for link in links {
            let known = groups
                .iter_mut()
                .find(|group| group.is_incoming == is_incoming && group.relation == link.relation);
            if let Some(group) = known {
                group.links.push(link);
            } else {
                let relation = link.relation.clone();
                groups.push(LinkGroup { relation, is_incoming, links: vec![link] });
            }
        }
    }
    groups
}

/// The number of the item's children that are done, and of those that are not dropped.
pub(super) fn progress_of(answer: &ItemDetails, schema: &RecordSchema) -> (usize, usize) {
    let (mut done, mut total) = (0, 0);
    let counted = answer.item.item_kind().and_then(ItemKind::counted_child);
    let children = answer.children.as_deref().unwrap_or_default();
    for child in children {
        let status = child.status.as_deref().and_then(Status::parse);
        let kind = Reference::parse(&child.reference_id).map(|id| id.kind);
        let Some((status, kind)) = status.zip(kind.filter(|_| kind == counted)) else { continue };
        match schema.category(kind, status) {
            StatusCategory::Done => done += 1,
            StatusCategory::Dropped => continue,
            StatusCategory::Open | StatusCategory::Active => {}
        }
        total += 1;
    }
    (done, total)
}

/// The progress of the user stories of an epic, by their reference.
pub(super) async fn read_progress(
    session: &PageSession,
    epic: &str,
) -> Result<HashMap<String, ProgressView>> {
    let arguments = json!({ "kind": "user_story", "epic": epic, "limit": 1_000 });
    let list: ListPage = session.call_tool("list_items", arguments).await?;
    let mut progress = HashMap::new();
    for story in list.items {
        progress.extend(story.progress.map(|counts| (story.reference_id, counts)));
    }
    Ok(progress)
}

/// True for a section, one of its requirements, and a docset, which have other editors.
pub(crate) fn is_part(item: &ItemView) -> bool {
    ["section", "section_requirement", "docset"].contains(&item.kind())
}

pub(super) fn child_kinds(item: &ItemView) -> Vec<(&'static str, &'static str)> {
    let children = item.item_kind().map_or(&[][..], |kind| kind.row().children);
    children.iter().map(|child| (child.name(), child.row().words[0])).collect()
}

/// The number of incoming links that the tool left out.
pub(super) fn hidden_links(answer: &ItemDetails) -> usize {
    answer.link_ends().iter().map(|ends| ends.hidden).sum()
}

pub(super) fn link_count(answer: &ItemDetails) -> usize {
    let mut count = hidden_links(answer);
    for ends in answer.link_ends() {
        count += ends.outgoing.len() + ends.incoming.len();
    }
    count
}

pub(crate) fn short_version(version: &str) -> &str {
    version.get(..8).unwrap_or(version)
}
