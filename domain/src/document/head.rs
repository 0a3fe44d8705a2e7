//! Heads: what lists need of a document, made of its bytes.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Document, DocumentId, Kind, Version};
use crate::backlog::{Item, ItemKind, Reference};
use crate::fault::Fault;
use crate::knowledge::Entity;
use crate::sections;
use crate::time::Timestamp;

/// What lists need of a document, derived from its bytes by [`DocumentMeta::of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentMeta {
    pub id: DocumentId,
    /// The first heading, where there is one; an entity has a title of its own.
    pub title: Option<String>,
    pub version: Version,
    /// What an entity of the knowledge graph says of itself; `None` for other kinds.
    pub entity: Option<Arc<Entity>>,
    /// What an item of the backlog, or its tombstone, says of itself; `None` for other kinds.
    pub item: Option<Arc<Item>>,
    /// Why the content can't be used, or not all of it. The document is listed all the same and
    /// harms nobody.
    pub fault: Option<Fault>,
}

impl DocumentMeta {
    /// Grows with every change of what [`DocumentMeta::of`] makes of the same bytes. A storage that keeps
    /// heads makes them anew when theirs were made by another one.
    pub const FORMAT: u32 = 2;

    /// What the document is called by others, beside its name: an entity's id, an item's
    /// reference. Nothing keeps two documents from claiming the same.
    pub fn reference(&self) -> Option<Cow<'_, str>> {
        match (&self.entity, &self.item) {
            (Some(entity), _) => Some(Cow::Borrowed(&entity.id)),
            (_, Some(item)) => item.reference.map(|reference| Cow::Owned(reference.to_string())),
            _ => None,
        }
    }

    /// Where the document leads: relation and target, references in their one spelling.
    pub fn links(&self) -> Vec<(&str, Cow<'_, str>)> {
        if let Some(entity) = &self.entity {
            let links = entity.links.iter();
            let target = |target: &'_ str| Reference::parse(target).map(|found| found.to_string());
            let links = links.map(|link| {
                let spelled = target(&link.target).map_or(Cow::Borrowed(&*link.target), Cow::Owned);
                (link.relation.as_str(), spelled)
            });
            return links.collect();
        }
        let links = self.item.iter().flat_map(|item| item.links());
        links.map(|(relation, target)| (relation, Cow::Owned(target))).collect()
    }

    /// Never fails: an unreadable document has a head with a fault. `modified` is when the bytes
    /// were last changed, for what does not say it itself.
    pub fn of(document: &Document, modified: Timestamp) -> Self {
        let Document { id, version, .. } = document;
        let text = match document.text() {
            Ok(text) => text,
            Err(reason) => return Self::unread(id.clone(), *version, modified, reason),
        };
        let empty = Self::empty(id.clone(), *version);
        match id.kind {
            Kind::Entity => {
                let (entity, fault) = Entity::read(&id.name, text);
                Self { entity: Some(Arc::new(entity)), fault, ..empty }
            }
            Kind::Item(_) | Kind::Deleted => match item_kind(id) {
                Some(kind) => {
                    let (item, fault) = Item::read(kind, &id.name, text, modified);
                    Self { item: Some(Arc::new(item)), fault, ..empty }
                }
                None => Self { fault: Some(no_tombstone()), ..empty },
            },
            Kind::Docsets => empty,
            Kind::Instructions | Kind::Section => {
                Self { title: sections::title(text).map(str::to_owned), ..empty }
            }
        }
    }

    /// The head of a document whose text can't be had.
    pub fn unread(id: DocumentId, version: Version, modified: Timestamp, reason: String) -> Self {
        let entity = (id.kind == Kind::Entity).then(|| Arc::new(Entity::unread(&id.name)));
        let item = item_kind(&id).map(|kind| Arc::new(Item::unread(kind, &id.name, modified)));
        let fault = Some(Fault { line: None, reason });
        Self { entity, item, fault, ..Self::empty(id, version) }
    }

    fn empty(id: DocumentId, version: Version) -> Self {
        Self { id, title: None, version, entity: None, item: None, fault: None }
    }
}

/// A tombstone's name tells what the item was.
fn item_kind(id: &DocumentId) -> Option<ItemKind> {
    match id.kind {
        Kind::Item(kind) => Some(kind),
        Kind::Deleted => Reference::of(id).map(|reference| reference.kind),
        _ => None,
    }
}

fn no_tombstone() -> Fault {
    let reason = "the file's name gives no reference, so it is nobody's tombstone; remove it";
    Fault { line: None, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn an_unreadable_document_has_a_head_with_a_fault() {
        let head = DocumentMeta::of(
            &Document::new(DocumentId::section("x"), Bytes::from_static(b"\xff\xfe")),
            Timestamp::default(),
        );
        assert!(head.fault.is_some_and(|fault| fault.reason.contains("UTF-8")));
    }
}
