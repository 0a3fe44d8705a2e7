//! A document with its states before and after the change that `undo` takes back.

use std::borrow::Cow;
use std::collections::BTreeSet;

use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::history::{HistoryEntry, HistoryQuery, RecentChange};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::history::VersionRecord;
use reqlore_domain::records::tombstone::{RecordRef, tombstone_text};
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_id;

use super::FIRST_PAGE;
use crate::documents::document_text;
use crate::ports::ApplicationPorts;
use crate::record_schemas::operations::CREATE_REASON;

/// The documents that a commit restores to their state before a change.
pub(super) struct Restoration {
    pub(super) project: ProjectKey,
    /// The change to undo; `None` to restore a version.
    pub(super) undone: Option<HistoryEntry>,
    pub(super) documents: Vec<ChangedDocument>,
    pub(super) note: Option<String>,
}

/// A document and its states before and after the change to undo.
pub(super) struct ChangedDocument {
    pub(super) id: DocumentId,
    /// The ID as answers print it.
    pub(super) name: String,
    pub(super) before: Option<Document>,
    pub(super) after: Option<Document>,
    /// The history has no entry before the change.
    pub(super) is_first: bool,
    /// The reason why the document cannot be restored.
    pub(super) problem: Option<Error>,
}

impl ChangedDocument {
    pub(super) fn new(id: DocumentId, before: Option<Document>, after: Option<Document>) -> Self {
        let meta = before.as_ref().or(after.as_ref()).map(metadata);
        let name = meta.map_or_else(|| id.to_string(), |meta| document_names(&meta).swap_remove(0));
        Self { id, name, before, after, is_first: false, problem: None }
    }

    pub(super) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Reads the states around a change. `newest` is the last known change of the document.
    pub(super) async fn read(
        ports: &ApplicationPorts,
        project: &ProjectKey,
        RecentChange { id, entry: change }: &RecentChange,
        (newest, commit): (&HistoryEntry, &[RecentChange]),
    ) -> Result<Self> {
        let is_newest = newest.is_of_commit(change);
        let query = HistoryQuery { after: None, limit: if is_newest { 2 } else { FIRST_PAGE } };
        let entries = ports.history.history(project, id, &query).await?.entries;
        // The history lists a Git commit in place of the last change that it contains.
        let is_git = |entry: &HistoryEntry| {
            let is_later = entry.at.seconds() >= change.at.seconds();
            entry.origin.tool.is_none() && entry.version == change.version && is_later
        };
        let position = entries.iter().position(|entry| entry.is_of_commit(change));
        let position = position.or_else(|| entries.iter().rposition(is_git));
        let position = position.unwrap_or(entries.len());
        let (mut states, mut problem) = ([None, None], None);
        for (state, entry) in states.iter_mut().zip(&entries[position..]) {
            match read_text(ports, project, id, entry).await {
                Ok(text) => *state = text,
                Err(error) => problem = Some(error),
            }
        }
        let [after, before] = states;
        let is_first = entries.len() == position + 1;
        let changed = Self { is_first, ..Self::new(id.clone(), before, after) };
        // An undone change in between makes no difference.
        let is_same = entries.first().is_some_and(|newest| newest.version == change.version);
        if (position > 0 || !is_newest) && !is_same {
            let newer = entries.first().filter(|_| position > 0).unwrap_or(newest);
            problem = Some(newer_change_error(&changed.name, Some(newer)));
        } else if is_first && !changed.is_created(change, commit) {
            problem = Some(unknown_version_error(&changed.name));
        }
        Ok(Self { problem, ..changed })
    }

    /// True if the change created the document: its earlier versions may also be unknown.
    fn is_created(&self, change: &HistoryEntry, commit: &[RecentChange]) -> bool {
        match self.id.kind {
            DocumentKind::Deleted => true,
            DocumentKind::Schema => change.origin.reason.as_deref() == Some(CREATE_REASON),
            // The list of sections names a new one.
            DocumentKind::Section => commit.iter().any(|recent| is_list(&recent.id)),
            _ => {
                let time = format!("\ncreated_at: {}\n", change.at.to_rfc3339());
                let text = self.after.as_ref().and_then(|document| document.text().ok());
                change.origin.tool.is_some() && text.is_some_and(|text| text.contains(&time))
            }
        }
    }

    /// True if the document, which is no tombstone, is deleted again.
    pub(super) fn is_deleted(&self) -> bool {
        self.before.is_none() && self.id.kind != DocumentKind::Deleted
    }
}

/// The text after a change; `None` after a deletion.
pub(super) async fn read_text(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    id: &DocumentId,
    entry: &HistoryEntry,
) -> Result<Option<Document>> {
    let Some(version) = entry.version else { return Ok(None) };
    let found = ports.history.document_at(project, id, version).await?;
    if found.is_some() {
        return Ok(found);
    }
    let message = format!(
        "{id}: version {version} was erased or is no longer in the history; `reqlore restore-item` \
         restores another one"
    );
    Err(Error::new(ErrorKind::Refused, message).reference(id.to_string()))
}

pub(super) fn is_list(id: &DocumentId) -> bool {
    id.kind == DocumentKind::Instructions
}

pub(super) fn version_of(document: Option<&Document>) -> Option<Version> {
    document.map(|document| document.version)
}

pub(super) fn metadata(document: &Document) -> DocumentMeta {
    DocumentMeta::from_document(document, Timestamp::default())
}

/// The names that links use, the ID first.
pub(super) fn document_names(meta: &DocumentMeta) -> Vec<String> {
    let reference = meta.reference().map(Into::into);
    reference.into_iter().chain([meta.id.name.clone()]).collect()
}

/// The tombstone of an item or entity; `None` for other documents.
pub(super) fn tombstone_of(document: &Document, write: &WriteContext) -> Result<Option<Document>> {
    let (at, by) = (write.at.whole_seconds(), &*write.caller.name);
    let (meta, text) = (metadata(document), document_text(document)?);
    let body = RecordRef::of_meta(&meta).map(|record| tombstone_text(record, text, at, by));
    Ok(body.map(|body| Document::new(document.id.tombstone(), body.into())))
}

/// Keeps the first document, and those that its deletion or restoration took along: children,
/// documents that lost or regained links, tombstones, and the list of sections.
pub(super) fn keep_related(changes: &mut Vec<ChangedDocument>) {
    let Some(root) = changes.first() else { return };
    let (root, is_deletion) = (root.id.clone(), root.after.is_none());
    let mut related = BTreeSet::from([DocumentId::instructions()]);
    let mut names = BTreeSet::new();
    let mut count = usize::MAX;
    // Again for children that are in front of their parents.
    while count != related.len() {
        count = related.len();
        for changed in &*changes {
            let mut states =
                [&changed.before, &changed.after].map(|state| state.as_ref().map(metadata));
            if !is_deletion {
                states.reverse();
            }
            // The deleted documents exist in the first state only.
            let [Some(with), without] = states else { continue };
            let kept = without.as_ref().map(DocumentMeta::links).unwrap_or_default();
            let parent = with.item.as_ref().and_then(|item| item.parent);
            let is_lost = |(_, target): &(_, Cow<'_, str>)| {
                let is_parent = parent.is_some_and(|parent| *target == parent.to_string());
                names.contains(&**target)
                    && (is_parent || without.is_some())
                    && kept.iter().all(|(_, kept)| kept != target)
            };
            if (changed.id == root || with.links().iter().any(is_lost))
                && related.insert(changed.id.clone())
                && without.is_none()
            {
                names.extend(document_names(&with));
                related.insert(changed.id.tombstone());
            }
        }
    }
    changes.retain(|changed| related.contains(&changed.id));
}

pub(super) fn unknown_version_error(name: &str) -> Error {
    let message = format!("{}: it has no earlier version to restore", encode_id(name));
    Error::new(ErrorKind::Refused, message).reference(name)
}

pub(super) fn newer_change_error(name: &str, newer: Option<&HistoryEntry>) -> Error {
    let change = newer.map(|newer| VersionRecord::from(newer).line(|_| true)).unwrap_or_default();
    let message = format!("Not undone: {} was changed later: {change}", encode_id(name));
    Error::new(ErrorKind::Conflict, message).reference(name)
}
