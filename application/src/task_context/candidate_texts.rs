//! The texts of the candidates for a context.

use std::collections::HashMap;
use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::front_matter;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::Section;
use reqlore_domain::sections::mentions::requirement_title;
use reqlore_domain::task_context::{ContextEntry, EntryReason};

use crate::addresses::links::LinkNode;
use crate::context::ToolContext;
use crate::documents::{MAX_READ_DOCUMENTS, document_text, get_one};

/// A candidate whose text is not read yet.
pub(super) struct Candidate {
    pub(super) entry: ContextEntry,
    pub(super) document: DocumentId,
    /// Of one rule of a section.
    pub(super) index: Option<String>,
    pub(super) meta: Option<Arc<DocumentMeta>>,
}

impl Candidate {
    pub(super) fn of_node(node: &LinkNode, reason: EntryReason, relation: Option<String>) -> Self {
        Self {
            entry: ContextEntry { relation, ..ContextEntry::new(node.label(), reason) },
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

    fn take_text(&mut self, document: &Document, max_bytes: usize) {
        let Ok(text) = body_text(document, self.index.as_deref()) else { return };
        self.entry.version = document.version.to_string();
        if self.meta.is_none() && self.index.is_none() && document.id.kind == DocumentKind::Section
        {
            // A search finds the rules as entries of their own.
            self.entry.set_text(&Section::parse(&text).outside_text(), max_bytes);
            self.entry.is_partial = true;
            return;
        }
        self.entry.set_text(&text, max_bytes);
        if self.index.is_some() {
            self.entry.label.title = Some(requirement_title(&text));
        }
    }
}

/// The text of a document without front matter, or that of one rule of a section.
pub(crate) fn body_text(document: &Document, index: Option<&str>) -> Result<String> {
    let text = document_text(document)?;
    let Some(index) = index else { return Ok(front_matter::body(text).to_owned()) };
    let section = Section::parse(text);
    let rule = section.find(index).ok_or_else(|| removed_error(&document.id))?;
    Ok(section.text(rule))
}

/// For a document that was removed during the call.
pub(crate) fn removed_error(id: &DocumentId) -> Error {
    Error::new(ErrorKind::NotFound, format!("{id}: it was just removed; try again"))
}

/// Reads the texts in their order, until they exceed `max_bytes` together. The others stay without
/// text, as does a document that cannot be read. Leaves out a document that does not exist.
pub(super) async fn read_texts(
    context: &ToolContext,
    project: &ProjectKey,
    candidates: Vec<Candidate>,
    max_bytes: usize,
) -> Vec<ContextEntry> {
    let documents = &*context.ports.documents;
    let (mut entries, mut bytes) = (Vec::with_capacity(candidates.len()), 0);
    let mut candidates = candidates.into_iter();
    while candidates.len() > 0 {
        let mut chunk: Vec<_> = candidates.by_ref().take(MAX_READ_DOCUMENTS).collect();
        let mut ids = Vec::new();
        for candidate in chunk.iter_mut().filter(|_| bytes <= max_bytes) {
            if !candidate.take_known_text(max_bytes) && !ids.contains(&candidate.document) {
                ids.push(candidate.document.clone());
            }
        }
        let mut read = HashMap::new();
        if let Ok(found) = documents.get(project, &ids).await {
            read.extend(ids.into_iter().zip(found.into_iter().map(Ok)));
        } else {
            // One of them is unreadable.
            for id in ids {
                let found = get_one(documents, project, &id).await;
                read.insert(id, found);
            }
        }
        for mut candidate in chunk {
            match read.get(&candidate.document) {
                Some(Ok(None)) => continue,
                Some(Ok(Some(document))) => candidate.take_text(document, max_bytes),
                Some(Err(_)) | None => {}
            }
            bytes += candidate.entry.text.len();
            entries.push(candidate.entry);
        }
    }
    entries
}
