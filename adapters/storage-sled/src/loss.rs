//! Detects that a database lost commits, and accepts the loss on request.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::ports::accepted_loss::{AcceptedLoss, KnownReferences, nothing_to_accept};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_durable_fs::commit_counter::{CommitCounter, DatabaseId};

use crate::SledConfig;
use crate::database::{KEYS, META, SledDatabase, TreeBatch};
use crate::error::{PUT_BACK_HINT, database_unavailable, folder_refused, from_sled};
use crate::files::{DB, FolderState};
use crate::open::{DATABASE_ID_KEY, OpenedDatabase, name_folder, open_unchecked};
use crate::records::{ProjectRow, encode};
use crate::write::put_project;

/// Why a database may lack commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitLoss {
    /// The commit counter is missing or damaged.
    MissingCounter,
    /// The commit counter belongs to another database.
    ForeignCounter,
    OlderDatabase {
        commits: u64,
        acknowledged: u64,
    },
}

impl fmt::Display for CommitLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingCounter => {
                write!(f, "its file acknowledged is missing or damaged, so commits may be missing")
            }
            Self::ForeignCounter => {
                write!(f, "its file acknowledged belongs to another database")
            }
            Self::OlderDatabase { commits, acknowledged } => {
                write!(f, "it lacks changes that were acknowledged ({commits} of {acknowledged})")
            }
        }
    }
}

impl CommitLoss {
    pub(crate) fn into_error(self, folder: &Path) -> StoreError {
        let reason = format!(
            "{self}; {PUT_BACK_HINT}, or accept the loss with `reqlore check --accept-loss`"
        );
        folder_refused(folder, &reason)
    }
}

impl SledDatabase {
    /// Compares the database with its commit counter.
    pub(crate) fn find_loss(&self, state: FolderState) -> Option<CommitLoss> {
        let Some(counter) = state.counter else {
            return (!state.is_unfinished).then_some(CommitLoss::MissingCounter);
        };
        if counter.database_id != self.database_id {
            return Some(CommitLoss::ForeignCounter);
        }
        let commits = self.commits.load(Ordering::Relaxed);
        let acknowledged = counter.commits;
        let is_older = commits < acknowledged;
        is_older.then_some(CommitLoss::OlderDatabase { commits, acknowledged })
    }

    /// Raises the sequences above every known reference, appends an audit row and gives the
    /// database a new ID, in one transaction.
    fn accept(
        self: &Arc<Self>,
        loss: CommitLoss,
        state: FolderState,
        context: WriteContext,
    ) -> StoreResult<AcceptedLoss> {
        let known = self.known_references(state)?;
        let mut accepted = AcceptedLoss { loss: loss.to_string(), raised: Vec::new() };
        let mut rows: BTreeMap<ProjectKey, ProjectRow> =
            self.list_projects()?.into_iter().collect();
        let mut last_id = rows.values().map(|row| row.id).max().unwrap_or_default();
        let mut batch = TreeBatch::default();
        for mark in known.into_high_water_marks() {
            let row = rows.entry(mark.project.clone()).or_default();
            if row.high_water_mark(mark.kind) >= Some(mark.number) {
                continue;
            }
            if row.id == 0 {
                // All documents of the project were lost.
                last_id += 1;
                row.id = last_id;
            }
            row.revision += 1;
            row.raise_high_water_mark(mark.kind, mark.number);
            put_project(&mut batch, &mark.project, row);
            accepted.raised.push(mark);
        }
        self.append_event(&mut batch, accepted.audit_event(context))?;
        // The history of this database differs from that of every copy from now on.
        let database_id = DatabaseId::random().map_err(unavailable)?;
        batch.put(META, DATABASE_ID_KEY, encode(DATABASE_ID_KEY, &database_id.0));
        let acknowledged = state.counter.map_or(0, |counter| counter.commits);
        // Higher than the old counter, so that the new slot of the file is the newest one.
        self.commits.fetch_max(acknowledged, Ordering::Relaxed);
        self.write_batch(batch)?;
        self.make_durable()?;
        // After a crash before this line the counter has the old ID, and the loss must be accepted
        // again.
        let commits = self.commits.load(Ordering::Relaxed);
        self.write_counter(CommitCounter { database_id, commits }).map_err(unavailable)?;
        self.file.counter.sync().map_err(unavailable)?;
        Ok(accepted)
    }

    /// Collects the references in all records, in idempotency records and in the counter.
    fn known_references(self: &Arc<Self>, state: FolderState) -> StoreResult<KnownReferences> {
        let mut known = KnownReferences::default();
        for record in self.archive_records()? {
            known.add_record(&record?);
        }
        for key in self.tree(KEYS).iter().keys() {
            let key = key.map_err(from_sled)?;
            let value = self.long_value(KEYS, &key)?.unwrap_or_default();
            known.add_text(None, &String::from_utf8_lossy(&value));
        }
        if let Some(counter) = state.counter {
            for (kind, number) in ItemKind::ALL.into_iter().zip(counter.numbers) {
                known.add_unscoped(Reference { kind, number });
            }
        }
        Ok(known)
    }
}

fn unavailable(error: std::io::Error) -> StoreError {
    database_unavailable("the disk failed", Some(error))
}

/// Accepts that the database lost commits.
pub(crate) fn accept_loss(config: &SledConfig, context: WriteContext) -> StoreResult<AcceptedLoss> {
    let folder = &config.folder;
    if !std::fs::metadata(folder.join(DB)).is_ok_and(|db| db.len() > 0) {
        let reason = format!("has no file db, so the loss cannot be accepted; {PUT_BACK_HINT}");
        return Err(folder_refused(folder, &reason));
    }
    let OpenedDatabase { database, state, loss, .. } =
        open_unchecked(folder, Box::new(std::fs::File::sync_all), true)?;
    let Some(loss) = loss else { return Err(nothing_to_accept(&folder.display().to_string())) };
    let accepted = Arc::new(database).accept(loss, state, context);
    accepted.map_err(|error| name_folder(folder, error))
}
