//! Commits that are audited or happen once: the row, the record and an intent are on disk before
//! the files change.
//!
//! A process that dies in between leaves the intent. The next owner of the project's lock compares
//! the documents: if all still have their old versions, the commit is rolled back.

use std::sync::Arc;

use reqlore_domain::audit_log::{AuditEvent, AuditTarget};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::IdempotencyRecord;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_local_state::team_file::DISPLAY_PATH;
use reqlore_sqlite_team::pending::{self, PendingCommit};
use reqlore_sqlite_team::team_database::TeamDatabase;

use crate::error::not_written;
use crate::failpoint::{FailPoint, hit_failpoint};
use crate::layout::ProjectTree;
use crate::lock::ProjectLock;
use crate::stage_and_swap::LoadedDocument;
use crate::store_inner::StoreInner;

/// The parts of a commit besides its documents.
pub(crate) struct AuditedCommit<'a> {
    pub(crate) store: &'a StoreInner,
    pub(crate) project: &'a ProjectKey,
    pub(crate) event: Option<AuditEvent>,
    pub(crate) record: Option<(String, IdempotencyRecord)>,
    pub(crate) at: Timestamp,
    pub(crate) intent: Option<(Arc<TeamDatabase>, PendingCommit)>,
}

impl AuditedCommit<'_> {
    /// Stores the row, the record and the intent, durably.
    pub(crate) fn prepare(&mut self, lock: &ProjectLock) -> StoreResult<()> {
        if self.event.is_none() && self.record.is_none() {
            return Ok(());
        }
        let held = self.project.is_default().then_some(lock);
        let Some(team) = self.store.team_to_write(true, held)? else { return Ok(()) };
        let (event, record) = (self.event.take(), self.record.take());
        let intent = team.write(|connection| {
            pending::prepare(connection, self.project, event, record.as_ref(), self.at)
        })?;
        self.intent = Some((team, intent));
        failpoint(FailPoint::Prepared)
    }

    /// The files were replaced. If this fails, the next writer finds out by the documents.
    pub(crate) fn confirm(self) {
        let Some((team, intent)) = self.intent else { return };
        let confirmed = team.write_unsynced(|connection| pending::confirm(connection, &intent));
        if let Err(error) = confirmed.and_then(|()| failpoint(FailPoint::Confirmed)) {
            tracing::warn!(%error, "an intent of the audit was not deleted");
        }
    }

    /// The files were put back. If this fails, the next writer rolls back before it writes.
    pub(crate) fn roll_back(self) -> StoreResult<()> {
        let Some((team, intent)) = self.intent else { return Ok(()) };
        // The documents can't tell it any more: an editor may have saved.
        let marked = team.write_unsynced(|connection| pending::mark_withdrawn(connection, &intent));
        let done = marked.and_then(|()| roll_back(&team, &intent, self.at));
        done.inspect_err(|error| {
            tracing::error!(%error, "the audit row of a failed change is not taken back yet");
        })
    }
}

fn failpoint(step: FailPoint) -> StoreResult<()> {
    hit_failpoint(step).map_err(|error| not_written(DISPLAY_PATH, "write it", error))
}

fn roll_back(team: &TeamDatabase, intent: &PendingCommit, at: Timestamp) -> StoreResult<()> {
    failpoint(FailPoint::RollingBack)?;
    team.write(|connection| pending::roll_back(connection, intent, at))?;
    failpoint(FailPoint::RolledBack)
}

/// Decides the intents of a project, under its lock. Callers that write no audit row and no key
/// (`needed`) are not stopped by team data that can't be used.
pub(crate) fn recover(
    store: &StoreInner,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    at: Timestamp,
    (needed, lock): (bool, &ProjectLock),
) -> StoreResult<()> {
    let held = project.is_default().then_some(lock);
    let recovered = || match store.team_to_write(false, held)? {
        Some(team) => recover_project(&team, project, tree, at),
        None => Ok(()),
    };
    recovered().or_else(|error| {
        if needed {
            return Err(error);
        }
        tracing::warn!(%error, "an interrupted commit stays open in the audit");
        Ok(())
    })
}

fn recover_project(
    team: &TeamDatabase,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    at: Timestamp,
) -> StoreResult<()> {
    for intent in team.read(|connection| pending::of_project(connection, project))? {
        let targets = team.read(|connection| pending::targets(connection, &intent))?;
        if !intent.withdrawn && was_applied(tree, &targets)? {
            team.write_unsynced(|connection| pending::confirm(connection, &intent))?;
        } else {
            roll_back(team, &intent, at)?;
        }
    }
    Ok(())
}

/// Decides the intents of all projects whose lock is free; the others are decided by its owner.
pub(crate) fn recover_all(store: &StoreInner, at: Timestamp) -> StoreResult<()> {
    let Some(team) = store.team_to_recover()? else { return Ok(()) };
    for project in team.read(pending::projects)? {
        let recovered = || -> StoreResult<()> {
            let lock = store.locks.try_lock(&project, store.project_path(&project))?;
            let Some(lock) = lock else { return Ok(()) };
            recover_project(&team, &project, &ProjectTree::new(&lock.root, &store.layout), at)
        };
        // One project does not stop the others.
        if let Err(error) = recovered() {
            tracing::warn!(%project, %error, "an interrupted commit stays open in the audit");
        }
    }
    Ok(())
}

/// True if any of the changed documents no longer has its old version.
fn was_applied(tree: &ProjectTree<'_>, targets: &[AuditTarget]) -> StoreResult<bool> {
    let mut changed = targets.iter().filter(|target| target.is_changed()).peekable();
    if changed.peek().is_none() {
        return Ok(true);
    }
    for target in changed {
        let Some(id) = target_document(&target.name) else { return Ok(true) };
        if LoadedDocument::read(tree, &id)?.map(|found| found.document.version) != target.before {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The document that a target names.
fn target_document(name: &str) -> Option<DocumentId> {
    let stem = name.rsplit_once('/').map_or(name, |(_, file)| file);
    let stem = stem.strip_suffix(".md").unwrap_or(stem);
    let entity = name.strip_prefix(".ixchel/").and_then(|path| path.strip_suffix(".md"));
    let section = name.strip_prefix("section ");
    let candidates = DocumentKind::ALL.into_iter().filter_map(|kind| match kind {
        DocumentKind::Instructions => Some(DocumentId::instructions()),
        DocumentKind::Docsets => Some(DocumentId::docsets()),
        DocumentKind::Section => section.map(DocumentId::section),
        DocumentKind::Entity => entity.map(DocumentId::entity),
        DocumentKind::Item(_) | DocumentKind::Deleted => {
            Some(DocumentId { kind, name: stem.to_owned() })
        }
    });
    candidates.into_iter().find(|id| id.to_string() == name)
}
