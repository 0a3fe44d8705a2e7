//! The answers of `get_item` and `get_history`.

use std::collections::HashMap;

use reqlore_domain::backlog::{ItemKind, Reference, RelationshipType, Status, inverse_relation};
use reqlore_domain::error::Result;
use serde::Deserialize;
use serde_json::json;

use crate::item_lists::{ChildProgress, ItemPage};
use crate::session::PageSession;

#[derive(Deserialize)]
pub(crate) struct ItemAnswer {
    pub(crate) item: ItemRecord,
    #[serde(default)]
    pub(crate) children: Vec<ChildItem>,
    #[serde(default)]
    pub(crate) relationships: LinkList,
    pub(crate) links: LinkList,
    pub(crate) fault: Option<String>,
    #[serde(default)]
    pub(crate) also: Vec<String>,
}

/// An item, an entity, or a part of another document.
#[derive(Clone, Deserialize)]
pub(crate) struct ItemRecord {
    #[serde(alias = "id")]
    pub(crate) reference_id: String,
    /// Empty for items.
    #[serde(default)]
    pub(crate) kind: String,
    pub(crate) title: String,
    #[serde(alias = "text")]
    pub(crate) description: String,
    pub(crate) version: String,
    pub(crate) status: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) type_name: Option<String>,
    pub(crate) epic: Option<String>,
    pub(crate) user_story: Option<String>,
    pub(crate) creator_username: Option<String>,
    pub(crate) assignee_username: Option<String>,
    pub(crate) created_at: Option<String>,
    pub(crate) updated_at: Option<String>,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct ChildItem {
    pub(crate) reference_id: String,
    pub(crate) title: String,
    pub(crate) status: Option<String>,
    pub(crate) progress: Option<ChildProgress>,
}

#[derive(Default, Deserialize)]
pub(crate) struct LinkList {
    pub(crate) outgoing: Vec<LinkEnd>,
    pub(crate) incoming: Vec<LinkEnd>,
    #[serde(default)]
    pub(crate) incoming_total: usize,
}

#[derive(Clone, Deserialize)]
#[serde(from = "LinkRecord")]
pub(crate) struct LinkEnd {
    pub(crate) relation: String,
    pub(crate) id: String,
    /// Absent if the target is missing.
    pub(crate) title: Option<String>,
    pub(crate) status: Option<String>,
}

/// A link, or a relationship, whose relation is its `type`.
#[derive(Deserialize)]
struct LinkRecord {
    relation: Option<String>,
    #[serde(rename = "type")]
    link_type: Option<String>,
    #[serde(alias = "reference_id")]
    id: String,
    title: Option<String>,
    status: Option<String>,
}

impl From<LinkRecord> for LinkEnd {
    fn from(record: LinkRecord) -> Self {
        let LinkRecord { relation, link_type, id, title, status } = record;
        Self { relation: relation.or(link_type).unwrap_or_default(), id, title, status }
    }
}

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
        let mut types = RelationshipType::ALL.into_iter();
        !self.is_incoming && types.any(|known| known.name() == self.relation)
    }
}

impl ItemAnswer {
    /// All links by direction and relation, in the order of the tool.
    pub(crate) fn link_groups(&self) -> Vec<LinkGroup> {
        let mut groups: Vec<LinkGroup> = Vec::new();
        let lists = [
            (false, &self.relationships.outgoing),
            (false, &self.links.outgoing),
            (true, &self.relationships.incoming),
            (true, &self.links.incoming),
        ];
        for (is_incoming, links) in lists {
            for link in links {
                let known = groups.iter_mut().find(|group| {
                    group.is_incoming == is_incoming && group.relation == link.relation
                });
                match known {
                    Some(group) => group.links.push(link.clone()),
                    None => groups.push(LinkGroup {
                        relation: link.relation.clone(),
                        is_incoming,
                        links: vec![link.clone()],
                    }),
                }
            }
        }
        groups
    }

    pub(crate) fn link_count(&self) -> usize {
        let (one, other) = (&self.relationships, &self.links);
        let outgoing = one.outgoing.len() + other.outgoing.len();
        outgoing + one.incoming_total.max(one.incoming.len()) + other.incoming_total
    }

    /// The number of incoming links that the tool left out.
    pub(crate) fn hidden_links(&self) -> usize {
        let mut hidden = 0;
        for list in [&self.relationships, &self.links] {
            hidden += list.incoming_total.saturating_sub(list.incoming.len());
        }
        hidden
    }

    /// The number of children that are done or active, and of all that are
    /// neither cancelled nor obsolete.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let (mut done, mut total) = (0, 0);
        for child in &self.children {
            let Some(status) = &child.status else { continue };
            match Status::ALL.into_iter().find(|known| known.name() == status) {
                Some(Status::Done | Status::Active) => done += 1,
                Some(Status::Cancelled | Status::Obsolete) => continue,
                _ => {}
            }
            total += 1;
        }
        (done, total)
    }

    /// Adds the progress of the user stories of an epic.
    pub(super) async fn read_progress(&mut self, session: &PageSession) -> Result<()> {
        let epic = &self.item.reference_id;
        let arguments = json!({ "kind": "user_story", "epic": epic, "limit": 1_000 });
        let list: ItemPage = session.call_tool("list_items", arguments).await?;
        let mut progress = HashMap::new();
        for story in list.items {
            progress.insert(story.reference_id, story.progress);
        }
        for child in &mut self.children {
            child.progress = progress.remove(&child.reference_id).flatten();
        }
        Ok(())
    }
}

impl ItemRecord {
    pub(crate) fn backlog_kind(&self) -> Option<ItemKind> {
        let is_item = self.kind.is_empty();
        Reference::parse(&self.reference_id).map(|found| found.kind).filter(|_| is_item)
    }

    /// The kind in words, such as "User story".
    pub(crate) fn kind_words(&self) -> String {
        match self.backlog_kind() {
            Some(ItemKind::AcceptanceCriteria) => "Acceptance criterion".to_owned(),
            Some(kind) => kind.noun().to_owned(),
            None if self.kind.is_empty() => "Item".to_owned(),
            None => capitalize(&self.kind.replace('_', " ")),
        }
    }

    /// True for a section, one of its requirements, and a docset, which have other editors.
    pub(crate) fn is_part(&self) -> bool {
        ["section", "section_requirement", "docset"].contains(&self.kind.as_str())
    }

    pub(crate) fn parent(&self) -> Option<&str> {
        self.epic.as_deref().or(self.user_story.as_deref())
    }

    pub(crate) fn short_version(&self) -> &str {
        super::short_version(&self.version)
    }

    pub(super) fn child_kinds(&self) -> Vec<(&'static str, &'static str)> {
        match self.backlog_kind() {
            Some(ItemKind::Epic) => vec![("user_story", "user story")],
            Some(ItemKind::UserStory) => vec![
                ("requirement", "requirement"),
                ("acceptance_criteria", "acceptance criterion"),
            ],
            _ => Vec::new(),
        }
    }
}

impl ChildItem {
    pub(crate) fn is_criterion(&self) -> bool {
        self.reference_id.starts_with("AC-")
    }
}

#[derive(Deserialize)]
pub(crate) struct HistoryAnswer {
    #[serde(default)]
    pub(crate) versions: Vec<VersionRecord>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct VersionRecord {
    /// Absent for a deletion.
    pub(crate) version: Option<String>,
    pub(crate) at: String,
    pub(crate) user: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) purged: bool,
}

pub(crate) fn capitalize(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
