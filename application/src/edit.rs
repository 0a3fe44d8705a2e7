//! Changing documents: one commit, decided inside the storage on the newest state.

use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Act, Change, Commit, Committed, Reads, Snapshot};
use reqlore_domain::project::ProjectKey;

use crate::Ports;

/// Commits what `decide` answers, and gives back what it found out beside the changes.
///
/// `decide` is a pure function and may run again when the documents changed meanwhile; the last
/// run counts.
pub(crate) async fn edit<T: Send + 'static>(
    ports: &Ports,
    project: &ProjectKey,
    reads: Reads,
    act: Act,
    mut decide: impl FnMut(&Snapshot) -> Result<(Vec<Change>, T)> + Send + 'static,
) -> Result<(T, Committed)> {
    let outcome = Arc::new(Mutex::new(None));
    let decided = Arc::clone(&outcome);
    let commit = Commit {
        reads,
        decide: Box::new(move |snapshot| {
            let (changes, found) = decide(snapshot)?;
            *decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            Ok(changes)
        }),
        act: act.clone(),
    };
    let committed = ports.documents.commit(project, commit).await?;
    if !committed.versions.is_empty() {
        tracing::info!(
            caller = act.caller.name,
            project = %project,
            changes = committed.versions.len(),
            reason = act.reason,
            "committed"
        );
    }
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    match outcome {
        Some(found) => Ok((found, committed)),
        None => Err(Error::new(ErrorKind::Internal, "The storage committed without a decision.")),
    }
}
