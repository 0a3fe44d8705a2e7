//! The links that the deletions of a commit remove from documents that stay.
//!
//! They are collected, so that each document is edited once: a commit that deletes 100 entities
//! with links to each other would otherwise edit 10,000 times while other writers wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::records::edit::{self, ItemEdit};
use reqlore_domain::timestamp::Timestamp;

use crate::backlog::item_lookup;
use crate::backlog::item_lookup::apply_edit;
use crate::documents::document_text;

/// The links to remove, by the document that has them.
#[derive(Default)]
pub(crate) struct PendingUnlinks(BTreeMap<DocumentId, TargetNames>);

/// The targets of the links to remove from one document.
pub(crate) struct TargetNames {
    /// The document's metadata when the change was planned; it has the times of a file.
    source: Arc<DocumentMeta>,
    /// Ids, names and references.
    names: Vec<String>,
    at: Timestamp,
}

impl PendingUnlinks {
    /// Adds links to these names. Returns the names whose links are not collected yet.
    pub(crate) fn add(
        &mut self,
        source: &Arc<DocumentMeta>,
        names: &[String],
        at: Timestamp,
    ) -> Vec<String> {
        let pending = self.0.entry(source.id.clone());
        let pending = pending.or_insert_with(|| {
            let source = Arc::clone(source);
            TargetNames { source, names: Vec::new(), at }
        });
        let mut added = names.to_vec();
        added.retain(|name| !pending.names.contains(name));
        pending.names.extend_from_slice(&added);
        added
    }

    pub(crate) fn remove(&mut self, source: &DocumentId) -> Option<TargetNames> {
        self.0.remove(source)
    }

    /// The documents whose links are still to be removed.
    pub(crate) fn sources(&self) -> Vec<DocumentId> {
        self.0.keys().cloned().collect()
    }
}

impl TargetNames {
    /// Removes the links from a document; `None` if it has none of them.
    pub(crate) fn unlink(&self, document: &Document) -> Result<Option<Document>> {
        let text = document_text(document)?;
        if let DocumentKind::Item(_) = document.id.kind {
            let item = item_lookup::parse_item(&self.source, document, text);
            let mut relationships = item.relationships.clone();
            relationships.retain(|link| !self.contains(link.target));
            let item_edit = ItemEdit { relationships: Some(relationships), ..ItemEdit::default() };
            return apply_edit(&item, document, &item_edit, self.at);
        }
        let (entity, _) = Entity::parse(&document.id.name, text);
        let edit = edit::unlink_edit(&entity, &self.names);
        let edited = edit::edit_entity(&entity, text, &edit, self.at).map_err(|problem| {
            let message = format!("{}: {problem}. Nothing was deleted.", document.id);
            Error::new(ErrorKind::Refused, message).reference(&*entity.id)
        })?;
        Ok(edited.map(|edited| Document::new(document.id.clone(), edited.into())))
    }

    fn contains(&self, reference: Reference) -> bool {
        let name = reference.to_string();
        self.names.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_several_targets_are_removed_in_one_edit() {
        let text = "---\nid: idea-aaaaaa\nrelated: [dec-1d2c8f, dec-2d2c8f, dec-3d2c8f]\n---\n";
        let document = Document::new(DocumentId::entity("ideas/idea-aaaaaa"), text.into());
        let source = Arc::new(DocumentMeta::from_document(&document, Timestamp::default()));
        let mut pending = PendingUnlinks::default();
        let mut add = |name: &str| pending.add(&source, &[name.to_owned()], Timestamp::default());
        assert_eq!(add("dec-1d2c8f"), ["dec-1d2c8f"]);
        assert_eq!(add("dec-3d2c8f"), ["dec-3d2c8f"]);
        assert_eq!(add("dec-1d2c8f"), Vec::<String>::new());
        assert_eq!(pending.sources(), vec![document.id.clone()]);
        let names = pending.remove(&document.id).unwrap();
        let edited = names.unlink(&document).unwrap().unwrap();
        assert!(edited.text().unwrap().contains("related: [dec-2d2c8f]\n"), "{edited:?}");
        assert!(pending.remove(&document.id).is_none());
    }
}
