//! Write-ahead intents: the audit row and the idempotency record of a commit are stored before its
//! files change, then confirmed or rolled back.
//!
//! A process that dies in between leaves the intent. The next holder of the project's lock compares
//! the documents: if all still have their old versions, it rolls the commit back.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqlore_domain::audit_log::{AuditEvent, AuditTarget};
use reqlore_domain::document::{BACKLOG_FOLDER, DocumentId, DocumentKind};
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_local_state::error::not_written;
use reqlore_local_state::team_file::DISPLAY_PATH;
use reqlore_row_store::pending::PendingCommit;
use reqlore_storage_sqlite::team::TeamDatabase;

use crate::failpoint::{FailPoint, hit_failpoint};
use crate::layout::ProjectTree;
use crate::stage_and_swap::LoadedDocument;
use crate::store_inner::StoreInner;
use crate::team::handle::call_team;

/// A commit's audit event and idempotency record, and their intent once it is stored.
pub(crate) struct AuditedCommit<'a> {
    pub(crate) store: &'a StoreInner,
    pub(crate) project: &'a ProjectKey,
    pub(crate) event: Option<AuditEvent>,
    pub(crate) record: Option<(String, IdempotencyRecord)>,
    pub(crate) time: Timestamp,
    pub(crate) intent: Option<(Arc<TeamDatabase>, PendingCommit)>,
}

impl AuditedCommit<'_> {
    /// Stores the audit row, the idempotency record and the intent, durably.
    pub(crate) fn prepare(&mut self) -> StoreResult<()> {
        if self.event.is_none() && self.record.is_none() {
            return Ok(());
        }
        let team = self.store.team_to_write()?;
        let (event, record) = (self.event.take(), self.record.take());
        let intent = call_team(&team.store, async |team| {
            team.prepare_commit(self.project, event, record, self.time).await
        })?;
        self.intent = Some((team, intent));
        failpoint(FailPoint::Prepared)
    }

    /// Deletes the intent after the files changed. If this fails, the next writer confirms it,
    /// because it finds the new documents.
    pub(crate) fn confirm(self) {
        let Some((team, intent)) = self.intent else { return };
        let confirmed = confirm(&team, &intent);
        if let Err(error) = confirmed.and_then(|()| failpoint(FailPoint::Confirmed)) {
            tracing::warn!(%error, "the intent of a finished commit was not deleted");
        }
    }

    /// Rolls back the row and the record after the files were put back. If this fails, the next
    /// writer does it.
    pub(crate) fn roll_back(self) -> StoreResult<()> {
        let Some((team, intent)) = self.intent else { return Ok(()) };
        // Recovery can't rely on the documents alone: an editor may have changed one since.
        let marked = call_team(&team.store, async |team| team.mark_rolled_back(&intent).await);
        let rolled_back = marked.and_then(|()| roll_back(&team, &intent, self.time));
        if let Err(error) = &rolled_back {
            tracing::error!(%error, "the audit row of a failed commit is not rolled back yet");
        }
        rolled_back
    }
}

fn failpoint(step: FailPoint) -> StoreResult<()> {
    hit_failpoint(step).map_err(|error| not_written(DISPLAY_PATH, "write it", error))
}

/// Unsynced: a power cut only repeats the comparison of documents.
fn confirm(team: &TeamDatabase, intent: &PendingCommit) -> StoreResult<()> {
    call_team(&team.store, async |team| team.confirm_commit(intent).await)
}

fn roll_back(team: &TeamDatabase, intent: &PendingCommit, time: Timestamp) -> StoreResult<()> {
    failpoint(FailPoint::RollingBack)?;
    call_team(&team.store, async |team| team.roll_back_commit(intent, time).await)?;
    failpoint(FailPoint::RolledBack)
}

/// Decides the intents of a project under its lock. Errors are returned only if `is_recorded`:
/// other commits don't depend on the team data.
pub(crate) fn recover(
    store: &StoreInner,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    time: Timestamp,
    is_recorded: bool,
) -> StoreResult<()> {
    let recovered = store.team_to_read().and_then(|team| match team {
        Some(team) => recover_project(&team, project, tree, time),
        None => Ok(()),
    });
    match recovered {
        Err(error) if !is_recorded => {
            tracing::warn!(%error, "the audit could not recover an interrupted commit");
            Ok(())
        }
        recovered => recovered,
    }
}

fn recover_project(
    team: &TeamDatabase,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    time: Timestamp,
) -> StoreResult<()> {
    for intent in call_team(&team.store, async |team| team.pending_commits().await)? {
        if intent.project != *project {
            continue;
        }
        let targets = call_team(&team.store, async |team| team.commit_targets(&intent).await)?;
        // A withdrawn intent is rolled back without comparing documents.
        if !intent.is_rolled_back && was_applied(tree, &targets)? {
            confirm(team, &intent)?;
        } else {
            roll_back(team, &intent, time)?;
        }
    }
    Ok(())
}

/// Confirms or rolls back the intents of all projects whose lock is free. The holder of a lock
/// recovers its own project.
pub(crate) fn recover_all(store: &StoreInner, time: Timestamp) -> StoreResult<()> {
    let Some(team) = store.team_to_recover()? else { return Ok(()) };
    let intents = call_team(&team.store, async |team| team.pending_commits().await)?;
    let projects: BTreeSet<_> = intents.into_iter().map(|intent| intent.project).collect();
    for project in projects {
        // An error of one project does not stop the recovery of the rest.
        if let Err(error) = try_recover_project(store, &team, &project, time) {
            tracing::warn!(%project, %error, "the audit could not recover an interrupted commit");
        }
    }
    Ok(())
}

fn try_recover_project(
    store: &StoreInner,
    team: &TeamDatabase,
    project: &ProjectKey,
    time: Timestamp,
) -> StoreResult<()> {
    let lock = store.locks.try_lock(project, store.project_path(project))?;
    let Some(lock) = lock else { return Ok(()) };
    recover_project(team, project, &ProjectTree::new(&lock.root, &store.layout), time)
}

/// True if any of the changed documents no longer has its old version.
fn was_applied(tree: &ProjectTree<'_>, targets: &[AuditTarget]) -> StoreResult<bool> {
    let mut has_changes = false;
    for target in targets {
        if !target.is_changed() {
            continue;
        }
        has_changes = true;
        let Some(id) = target_document(&target.name) else { return Ok(true) };
        let loaded = LoadedDocument::read(tree, &id)?;
        if loaded.map(|loaded| loaded.document.version) != target.before {
            return Ok(true);
        }
    }
    // Without changed documents nothing was left to apply.
    Ok(!has_changes)
}

/// Returns the document that an audit target names.
pub(crate) fn target_document(name: &str) -> Option<DocumentId> {
    let in_backlog =
        name.strip_prefix(BACKLOG_FOLDER).and_then(|path| path.strip_prefix('/')?.split_once('/'));
    let item = in_backlog.and_then(|(_, path)| path.strip_suffix(".md"));
    let entity = name.strip_prefix(".ixchel/").and_then(|path| path.strip_suffix(".md"));
    let section = name.strip_prefix("section ");
    for kind in DocumentKind::ALL {
        let id = match kind {
            DocumentKind::Instructions => Some(DocumentId::instructions()),
            DocumentKind::Docsets => Some(DocumentId::docsets()),
            DocumentKind::Schema | DocumentKind::Template => DocumentId::from_settings_path(name),
            DocumentKind::Section => section.map(DocumentId::section),
            DocumentKind::Entity => entity.map(DocumentId::entity),
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                item.map(|name| DocumentId { kind, name: name.to_owned() })
            }
        };
        if let Some(id) = id
            && id.to_string() == name
        {
            return Some(id);
        }
    }
    None
}
