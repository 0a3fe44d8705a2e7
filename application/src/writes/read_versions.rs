//! The versions of the documents that a dry run read, to apply its plan only to the same state.

use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::Snapshot;
use reqlore_domain::sections::instructions::SectionTitles;

/// The state that a decision read. Missing documents are left out: one that exists later differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadVersions {
    documents: BTreeMap<DocumentId, Version>,
    section_titles: SectionTitles,
}

const MAX_LISTED: usize = 10;

impl ReadVersions {
    pub(crate) fn of_snapshot(snapshot: &Snapshot) -> Self {
        let mut documents = BTreeMap::new();
        for document in snapshot.documents.iter().flatten() {
            documents.insert(document.id.clone(), document.version);
        }
        for meta in snapshot.backlinks.iter().flatten() {
            documents.insert(meta.id.clone(), meta.version);
        }
        Self { documents, section_titles: snapshot.titles.clone() }
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        /// Of an ID, its version and a node of the map.
        const ENTRY_BYTES: usize = 64;
        let documents = self.documents.keys().map(|id| id.name.len() + ENTRY_BYTES);
        let titles = self
            .section_titles
            .iter()
            .map(|(key, title)| key.len() + title.as_ref().map_or(0, String::len) + ENTRY_BYTES);
        documents.chain(titles).sum()
    }

    /// Returns a conflict that names the changed documents.
    pub(crate) fn check_unchanged(&self, current: &Self) -> Result<()> {
        if self == current {
            return Ok(());
        }
        let mut ids: BTreeSet<&DocumentId> = self.documents.keys().collect();
        ids.extend(current.documents.keys());
        ids.retain(|id| self.documents.get(id) != current.documents.get(id));
        let mut changed = Vec::with_capacity(ids.len());
        for id in ids {
            let reference = Reference::from_document(id).map(|reference| reference.to_string());
            changed.push(reference.unwrap_or_else(|| id.to_string()));
        }
        if self.section_titles != current.section_titles {
            changed.push("the list of sections".to_owned());
        }
        let count = changed.len();
        changed.truncate(MAX_LISTED);
        if count > MAX_LISTED {
            changed.push(format!("{} more", count - MAX_LISTED));
        }
        let message = format!(
            "plan: changed since the dry run: {}; nothing was written, send the changes again",
            changed.join(", ")
        );
        Err(Error::new(ErrorKind::Conflict, message).field("plan"))
    }
}
