//! The texts of the candidates for a context.

use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::front_matter;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::document_label::{DocumentLabel, SECTION_REQUIREMENT};
use reqlore_domain::sections::Section;
use reqlore_domain::sections::mentions::requirement_title;
use reqlore_domain::task_context::{ContextEntry, EntryReason};

use crate::addresses::links::LinkNode;
use crate::context::ToolContext;
use crate::documents::{MAX_READ_DOCUMENTS, get_one};

/// A candidate whose text is not read yet.
pub(super) struct Candidate {
    pub(super) entry: ContextEntry,
    pub(super) document: DocumentId,
    /// Of one rule of a section.
    pub(super) index: Option<String>,
    /// `None` for a section that a search found.
    pub(super) meta: Option<Arc<DocumentMeta>>,
}

impl Candidate {
    pub(super) fn of_node(node: &LinkNode, reason: EntryReason, relation: Option<String>) -> Self {
        Self {
            entry: unread_entry(node.label(), reason, relation),
            document: node.meta.id.clone(),
            index: node.part.as_ref().map(|part| part.index.clone()),
            meta: Some(Arc::clone(&node.meta)),
        }
    }

    /// Sets the text from the metadata, which holds short descriptions of items.
    fn take_known_text(&mut self, max_bytes: usize) -> bool {
        let Some(meta) = &self.meta else { return false };
        let item = meta.item.as_ref().and_then(|item| item.description.as_deref());
        let Some(description) = item else { return false };
        self.entry.version = meta.version.to_string();
        self.entry.set_text(description, max_bytes);
        true
    }

    /// Returns false if the document no longer has the text.
    fn take_text(&mut self, document: &Document, max_bytes: usize) -> bool {
        let Ok(text) = document.text() else { return false };
        self.entry.version = document.version.to_string();
        let Some(index) = &self.index else {
            if self.meta.is_some() {
                self.entry.set_text(front_matter::body(text), max_bytes);
            } else {
                // The index has the text of a section outside of its rules as one item.
                self.entry.set_text(&Section::parse(text).outside_text(), max_bytes);
                self.entry.is_partial = true;
            }
            return true;
        };
        let section = Section::parse(text);
        let Some(rule) = section.find(index) else { return false };
        self.entry.set_text(&section.text(rule), max_bytes);
        self.entry.label.title = Some(requirement_title(&self.entry.text));
        true
    }
}

/// An entry of which only the label is known.
pub(super) fn unread_entry(
    label: DocumentLabel,
    reason: EntryReason,
    relation: Option<String>,
) -> ContextEntry {
    let (version, text) = (String::new(), String::new());
    ContextEntry { label, reason, relation, version, text, is_partial: true }
}

/// The entry of one rule.
pub(super) fn rule_entry(
    id: String,
    text: &str,
    reason: EntryReason,
    document: &Document,
    max_bytes: usize,
) -> ContextEntry {
    let (kind, title) = (SECTION_REQUIREMENT.to_owned(), Some(requirement_title(text)));
    let label = DocumentLabel { id, kind, title, ..DocumentLabel::default() };
    let version = document.version.to_string();
    let mut entry = ContextEntry { version, ..unread_entry(label, reason, None) };
    entry.set_text(text, max_bytes);
    entry
}

/// Reads the texts in their order, until they exceed `max_bytes` together. Returns the entries and
/// the number of those whose texts were read. A document that cannot be read has no text.
pub(super) async fn read_texts(
    context: &ToolContext,
    project: &ProjectKey,
    mut candidates: Vec<Candidate>,
    max_bytes: usize,
) -> (Vec<ContextEntry>, usize) {
    let (mut read, mut bytes) = (0, 0);
    for chunk in candidates.chunks_mut(MAX_READ_DOCUMENTS) {
        if bytes > max_bytes {
            break;
        }
        let mut unknown = Vec::new();
        for candidate in chunk.iter_mut() {
            if !candidate.take_known_text(max_bytes) {
                unknown.push(candidate);
            }
        }
        let mut ids: Vec<DocumentId> = unknown.iter().map(|one| one.document.clone()).collect();
        ids.sort();
        ids.dedup();
        let documents = read_documents(context, project, &ids).await;
        for candidate in unknown {
            let document = documents.iter().flatten().find(|one| one.id == candidate.document);
            if document.is_none_or(|document| !candidate.take_text(document, max_bytes)) {
                candidate.entry.is_partial = true;
            }
        }
        read += chunk.len();
        bytes += chunk.iter().map(|candidate| candidate.entry.text.len()).sum::<usize>();
    }
    (candidates.into_iter().map(|candidate| candidate.entry).collect(), read)
}

/// Reads documents. An unreadable one does not affect the rest.
async fn read_documents(
    context: &ToolContext,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Vec<Option<Document>> {
    let documents = &*context.ports.documents;
    if ids.is_empty() {
        return Vec::new();
    }
    if let Ok(found) = documents.get(project, ids).await {
        return found;
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.push(get_one(documents, project, id).await.ok().flatten());
    }
    found
}
