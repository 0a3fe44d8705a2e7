//! Transactions on documents: `edit` commits changes that a pure function decides.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{
    CommitRequest, CommitResult, DocumentChange, ReadSet, Snapshot,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::unresolved_merge::find_unresolved_merge;

use crate::answers::shortened_text::shorten_current;
use crate::documents::document_text;
use crate::ports::ApplicationPorts;

/// Commits the changes that `decide` returns, and returns its second value.
///
/// `decide` must be pure: the storage runs it again if a document of `reads` changes before the
/// commit. The result of the last run is returned.
pub(crate) async fn commit_decision<T: Send + 'static>(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    reads: ReadSet,
    act: WriteContext,
    mut decide: impl FnMut(&Snapshot) -> Result<(Vec<DocumentChange>, T)> + Send + 'static,
) -> Result<(T, CommitResult)> {
    // The storage owns `decide`, so the result leaves it through a shared slot.
    let result_slot: Arc<Mutex<Option<(T, String)>>> = Arc::default();
    let (written_slot, caller) = (Arc::clone(&result_slot), Arc::clone(&act.caller));
    let commit = CommitRequest {
        read_set: reads,
        decide: Box::new(move |snapshot| {
            let (changes, result) = decide(snapshot)?;
            check_merged(snapshot, &changes)?;
            check_schema_rights(&caller, &changes)?;
            let result = (result, list_changed(&changes));
            *written_slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            Ok(changes)
        }),
        context: act.clone(),
    };
    let committed = ports.documents.commit(project, commit).await?;
    let result = result_slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((result, changed)) = result else {
        return Err(Error::new(ErrorKind::Internal, "The storage committed without a decision."));
    };
    // A decision without changes commits nothing.
    if !committed.versions.is_empty() {
        let WriteContext { caller, reason, audited, .. } = &act;
        if let Some(audited) = audited {
            audited.mark_written();
        }
        tracing::info!(caller = &*caller.name, %project, changed, reason, "committed");
    }
    Ok((result, committed))
}

/// Fails if a caller who is not an administrator changes the record schema with any tool.
fn check_schema_rights(caller: &Caller, changes: &[DocumentChange]) -> Result<()> {
    let is_schema = |change: &DocumentChange| change.id().kind == DocumentKind::Schema;
    if caller.is_administrator() || !changes.iter().any(is_schema) {
        return Ok(());
    }
    let message = format!(
        "{}: only administrators with write access to all projects may change it; ask one of them",
        DocumentId::schema()
    );
    Err(Error::new(ErrorKind::Forbidden, message))
}

/// Fails if a text to be written, or a document to be deleted, has an unresolved merge.
pub(crate) fn check_merged(snapshot: &Snapshot, changes: &[DocumentChange]) -> Result<()> {
    // First: the tombstone has the same text, under a name that the author does not know.
    for document in snapshot.documents.iter().flatten() {
        if changes.contains(&DocumentChange::Delete { id: document.id.clone() }) {
            check_text_merged(&document.id, document.text().unwrap_or_default())?;
        }
    }
    for change in changes {
        if let DocumentChange::Put { document } = change {
            check_text_merged(&document.id, document.text().unwrap_or_default())?;
        }
    }
    Ok(())
}

pub(crate) fn check_text_merged(id: &DocumentId, text: &str) -> Result<()> {
    let Some(Diagnostic { line, message, .. }) = find_unresolved_merge(text) else { return Ok(()) };
    let line = line.unwrap_or(1);
    let message = format!("{id}, line {line}: {message}. Nothing was written.");
    Err(Error::new(ErrorKind::Refused, message).reference(id.to_string()))
}

/// Returns a conflict with the current text if the document is not at the expected version.
pub(crate) fn check_version(
    expected: Option<VersionPrefix>,
    document: &Document,
    reference: impl Display,
) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    if expected.matches(document.version) {
        return Ok(());
    }
    let message = format!(
        "Conflict: {reference} changed since version {expected}; it is now at version {}. Nothing \
         was changed. Current text:\n{}",
        document.version,
        // So that the client can merge a usual text without another read.
        shorten_current(document_text(document)?)
    );
    let error = Error::new(ErrorKind::Conflict, message).field("if_version");
    Err(error.reference(reference.to_string()))
}

/// Names the first changed documents for the log.
fn list_changed(changes: &[DocumentChange]) -> String {
    // An import may change thousands of documents.
    const MAX_NAMED: usize = 8;
    let mut ids = Vec::new();
    for change in changes.iter().take(MAX_NAMED) {
        ids.push(change.id().to_string());
    }
    match changes.len().saturating_sub(MAX_NAMED) {
        0 => ids.join(", "),
        more => format!("{} and {more} more", ids.join(", ")),
    }
}
