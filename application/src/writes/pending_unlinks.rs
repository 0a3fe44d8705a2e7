//! The links that the deletions of a commit remove from documents that stay.
//!
//! They are collected, so that each document is edited once: a commit that deletes 100 entities
//! with links to each other would otherwise edit 10,000 times while other writers wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::records::edit::unlink_edit;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::timestamp::Timestamp;

use crate::writes::stored_record::StoredRecord;

/// The links to remove, by the document that has them.
#[derive(Default)]
pub(crate) struct PendingUnlinks(BTreeMap<DocumentId, TargetNames>);

/// The targets of the links to remove from one document.
pub(crate) struct TargetNames {
    /// The document's metadata when the change was planned; it has the times of a file.
    source: Arc<DocumentMeta>,
    /// Ids, names and references.
    names: Vec<String>,
    schema: Arc<RecordSchema>,
    at: Timestamp,
}

impl PendingUnlinks {
    /// Adds links to these names. Returns the names whose links are not collected yet.
    pub(crate) fn add(
        &mut self,
        source: &Arc<DocumentMeta>,
        names: &[String],
        schema: &Arc<RecordSchema>,
        at: Timestamp,
    ) -> Vec<String> {
        let pending = self.0.entry(source.id.clone());
        let pending = pending.or_insert_with(|| {
            let (source, schema) = (Arc::clone(source), Arc::clone(schema));
            TargetNames { source, names: Vec::new(), schema, at }
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
        let record = StoredRecord::parse(&self.source, document)?;
        let mut edit = unlink_edit(record.as_ref(), &self.names);
        // The values of custom fields are not links.
        edit.links.retain(|link| self.schema.field(&link.relation).is_none());
        record.edit(document, &edit, self.at)
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
        let (schema, at) = (Arc::default(), Timestamp::default());
        let mut add = |name: &str| pending.add(&source, &[name.to_owned()], &schema, at);
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
