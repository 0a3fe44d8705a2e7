//! Reads one document, and changes documents: one commit, decided inside the storage on the newest
//! state.

use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{
    CommitRequest, CommitResult, DocumentChange, DocumentRepository, ReadSet, Snapshot, StoreResult,
};
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;

use crate::{ApplicationPorts, ToolContext};

/// One document, if it is there.
pub(crate) async fn get_one(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
    id: &DocumentId,
) -> StoreResult<Option<Document>> {
    let found = documents.get(project, std::slice::from_ref(id)).await?;
    Ok(found.into_iter().next().flatten())
}

/// The write context of a call: all its commits have its name and one time.
pub(crate) fn act(
    context: &ToolContext,
    call: &ToolCall,
    spec: &ToolSpec,
    reason: impl Into<String>,
) -> WriteContext {
    WriteContext {
        caller: call.caller.clone(),
        tool: spec.name,
        reason: reason.into(),
        correlation_id: call.correlation_id.clone(),
        at: context.ports.clock.now(),
        audited: context.audit.clone(),
        idempotency_key: context.idempotency_key.clone(),
    }
}

/// Commits the changes that `decide` returns, and returns its other result.
///
/// `decide` is a pure function. It runs again if the documents changed in between; the last run is
/// valid.
pub(crate) async fn edit<T: Send + 'static>(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    reads: ReadSet,
    act: WriteContext,
    mut decide: impl FnMut(&Snapshot) -> Result<(Vec<DocumentChange>, T)> + Send + 'static,
) -> Result<(T, CommitResult)> {
    let outcome: Arc<Mutex<Option<(T, String)>>> = Arc::default();
    let decided = Arc::clone(&outcome);
    let commit = CommitRequest {
        reads,
        decide: Box::new(move |snapshot| {
            let (changes, found) = decide(snapshot)?;
            let decision = (found, list_changed(&changes));
            *decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(decision);
            Ok(changes)
        }),
        context: act.clone(),
    };
    let committed = ports.documents.commit(project, commit).await?;
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((found, changed)) = outcome else {
        return Err(Error::new(ErrorKind::Internal, "The storage committed without a decision."));
    };
    if !committed.versions.is_empty() {
        let WriteContext { caller, reason, audited, .. } = &act;
        if let Some(audited) = audited {
            audited.mark_written();
        }
        tracing::info!(caller = &*caller.name, %project, changed, reason, "committed");
    }
    Ok((found, committed))
}

/// The first documents of these changes, for the log.
fn list_changed(changes: &[DocumentChange]) -> String {
    const MAX_NAMED: usize = 8;
    let ids: Vec<String> = changes.iter().take(MAX_NAMED).map(|c| c.id().to_string()).collect();
    match changes.len().saturating_sub(MAX_NAMED) {
        0 => ids.join(", "),
        more => format!("{} and {more} more", ids.join(", ")),
    }
}
