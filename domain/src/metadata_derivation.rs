//! Derives the metadata of a document from its bytes.

use std::sync::Arc;

use crate::backlog::{ItemKind, ItemMeta, Reference};
use crate::diagnostic::Diagnostic;
use crate::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use crate::knowledge::Entity;
use crate::records::schema::RecordSchema;
use crate::sections;
use crate::sections::mentions::find_mention_sources;
use crate::timestamp::Timestamp;
use crate::unresolved_merge::find_unresolved_merge;

impl DocumentMeta {
    /// Derives metadata. Never fails: the metadata of an unreadable document has a diagnostic.
    /// `modified` replaces times that are missing in the document.
    pub fn from_document(document: &Document, modified: Timestamp) -> Self {
        let Document { id, version, .. } = document;
        let text = match document.text() {
            Ok(text) => text,
            Err(reason) => return Self::placeholder(id.clone(), *version, modified, reason),
        };
        let mut meta = Self::empty(id.clone(), *version);
        match id.kind {
            DocumentKind::Entity => {
                let (entity, diagnostic) = Entity::parse(&id.name, text);
                meta.entity = Some(Arc::new(entity));
                meta.diagnostic = diagnostic;
            }
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                if let Some(kind) = item_kind(id) {
                    let (item, diagnostic) = ItemMeta::parse(kind, &id.name, text, modified);
                    meta.item = Some(Arc::new(item));
                    meta.diagnostic = diagnostic;
                } else if let Some(name) = id.deleted_entity() {
                    let (entity, diagnostic) = Entity::parse(name, text);
                    // A deleted document links to nothing.
                    meta.entity = Some(Arc::new(Entity { links: Vec::new(), ..entity }));
                    meta.diagnostic = diagnostic;
                } else {
                    let message = "the name of this tombstone is not a reference; remove the file";
                    meta.diagnostic = Some(Diagnostic::new(None, message));
                }
            }
            DocumentKind::Docsets | DocumentKind::Template => {}
            DocumentKind::Schema => {
                meta.diagnostic = RecordSchema::parse(text).diagnostics.into_iter().next();
            }
            DocumentKind::Instructions => {
                meta.title = sections::first_heading(text).map(str::to_owned);
            }
            DocumentKind::Section => {
                meta.title = sections::first_heading(text).map(str::to_owned);
                meta.mentions = find_mention_sources(text);
            }
        }
        // Explains the other problems.
        meta.diagnostic = find_unresolved_merge(text).or(meta.diagnostic);
        meta
    }

    /// The metadata of an unreadable document.
    pub fn placeholder(
        id: DocumentId,
        version: Version,
        modified: Timestamp,
        reason: String,
    ) -> Self {
        let mut meta = Self::empty(id, version);
        if meta.id.kind == DocumentKind::Entity {
            meta.entity = Some(Arc::new(Entity::placeholder(&meta.id.name)));
        }
        if let Some(kind) = item_kind(&meta.id) {
            meta.item = Some(Arc::new(ItemMeta::placeholder(kind, &meta.id.name, modified)));
        }
        meta.diagnostic = Some(Diagnostic::new(None, reason));
        meta
    }

    fn empty(id: DocumentId, version: Version) -> Self {
        Self {
            id,
            title: None,
            version,
            entity: None,
            item: None,
            mentions: Vec::new(),
            diagnostic: None,
        }
    }
}

/// The kind of an item or a tombstone.
fn item_kind(id: &DocumentId) -> Option<ItemKind> {
    match id.kind {
        DocumentKind::Item(kind) => Some(kind),
        DocumentKind::Deleted => Reference::from_document(id).map(|reference| reference.kind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn metadata_of_an_unreadable_document_has_a_diagnostic() {
        let meta = DocumentMeta::from_document(
            &Document::new(DocumentId::section("x"), Bytes::from_static(b"\xff\xfe")),
            Timestamp::default(),
        );
        assert!(meta.diagnostic.is_some_and(|diagnostic| diagnostic.message.contains("UTF-8")));
    }
}
