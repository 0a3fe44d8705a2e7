//! Write-ahead intents of commits that replace files outside of the database: their audit rows and
//! idempotency records are stored first, then confirmed or rolled back.
//!
//! For a database with [`TEAM_TABLES`](crate::tables::TEAM_TABLES).

use reqlore_domain::audit_log::{AuditEvent, AuditRow, AuditTarget};
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::ports::archive::{ArchiveRecord, IdentityRecords};
use reqlore_domain::ports::audit::AuditLog as _;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::idempotency::IdempotencyStore as _;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::RowStore;
use crate::read::{read_all, read_one};
use crate::records::{RowReader, decode_record, encode_record};
use crate::row::{RowKey, RowQuery, TableRow};
use crate::tables::{IDEMPOTENCY, PENDING};
use crate::writer::{GroupWriterEngine, ReadPlan};

#[derive(Debug, Clone)]
pub struct PendingCommit {
    id: i64,
    pub project: ProjectKey,
    pub audit_number: Option<u64>,
    pub idempotency_key: Option<String>,
    /// The commit's files were restored, so their present content does not matter.
    pub is_rolled_back: bool,
}

impl PendingCommit {
    fn decode(row: &TableRow) -> StoreResult<Self> {
        let mut reader = RowReader::new(row, "a pending commit");
        Ok(Self {
            id: reader.integer()?,
            project: ProjectKey::new(reader.text()?),
            audit_number: reader.optional_integer()?.map(i64::cast_unsigned),
            idempotency_key: reader.optional_text()?.map(str::to_owned),
            is_rolled_back: reader.integer()? != 0,
        })
    }

    fn encode(&self) -> TableRow {
        TableRow::of(&[
            self.id.into(),
            self.project.as_str().into(),
            self.audit_number.map(u64::cast_signed).into(),
            self.idempotency_key.as_deref().into(),
            i64::from(self.is_rolled_back).into(),
        ])
    }

    fn key(&self) -> RowKey {
        TableRow::of(&[self.id.into()])
    }
}

fn decode_all(rows: &[TableRow]) -> StoreResult<Vec<PendingCommit>> {
    rows.iter().map(PendingCommit::decode).collect()
}

fn is_pending(commits: &[PendingCommit], key: &str) -> bool {
    commits.iter().any(|commit| commit.idempotency_key.as_deref() == Some(key))
}

fn all_pending() -> RowQuery {
    RowQuery::all(&PENDING).sorted_by(&["id"])
}

impl RowStore {
    /// Stores the audit row, the idempotency record and the intent of a commit. Rejects a key that
    /// any project used or is using.
    pub async fn prepare_commit(
        &self,
        project: &ProjectKey,
        event: Option<AuditEvent>,
        record: Option<(String, IdempotencyRecord)>,
        now: Timestamp,
    ) -> StoreResult<PendingCommit> {
        let project = project.clone();
        self.write(move |engine| {
            engine.prepare_commit(&project, event.as_ref(), record.as_ref(), now)
        })
        .await
    }

    /// The intents of all projects, in the order of their commits.
    pub async fn pending_commits(&self) -> StoreResult<Vec<PendingCommit>> {
        let rows = self.recorded(read_one(self, all_pending()).await)?;
        decode_all(&rows)
    }

    /// Returns the record of a key, unless its commit is pending.
    pub async fn confirmed_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let record = RowQuery::keys(&IDEMPOTENCY, vec![TableRow::of(&[key.into()])]);
        let results = read_all(self, vec![all_pending(), record]).await;
        let results = self.recorded(results)?;
        let Some(row) = results[1].first() else { return Ok(None) };
        let is_confirmed = !is_pending(&decode_all(&results[0])?, key);
        is_confirmed.then(|| decode_record(row)).transpose()
    }

    /// Returns the documents of a commit, from its audit row or else its idempotency record.
    pub async fn commit_targets(&self, commit: &PendingCommit) -> StoreResult<Vec<AuditTarget>> {
        if let Some(number) = commit.audit_number
            // A pruned row is missing, and the query then returns the next one.
            && let Some(row) = self.rows(number, 1).await?.first()
            && row.number == number
            && let Some(event) = row.parse_event()
        {
            return Ok(event.targets);
        }
        let Some(key) = &commit.idempotency_key else { return Ok(Vec::new()) };
        Ok(self.find_record(key).await?.map(|record| record.targets).unwrap_or_default())
    }

    /// Deletes the intent of a commit whose files were replaced. Not synced.
    pub async fn confirm_commit(&self, commit: &PendingCommit) -> StoreResult<()> {
        let key = commit.key();
        self.run(ReadPlan::default().unsynced(), move |engine| {
            engine.transaction.delete(&PENDING, key.clone());
            Ok(())
        })
        .await
    }

    /// Marks an intent as rolled back, unless it was decided before. Not synced.
    pub async fn mark_rolled_back(&self, commit: &PendingCommit) -> StoreResult<()> {
        let commit = PendingCommit { is_rolled_back: true, ..commit.clone() };
        self.run(ReadPlan::default().unsynced(), move |engine| {
            if engine.transaction.row(&PENDING, &commit.key())?.is_some() {
                engine.transaction.put(&PENDING, commit.encode());
            }
            Ok(())
        })
        .await
    }

    /// Releases the key, appends the `audit/unconfirmed` row and deletes the intent.
    pub async fn roll_back_commit(
        &self,
        commit: &PendingCommit,
        now: Timestamp,
    ) -> StoreResult<()> {
        let commit = commit.clone();
        self.write(move |engine| engine.roll_back_commit(&commit, now)).await
    }

    /// Appends the audit row of a purge and erases the stored answers, which may quote the text.
    pub async fn record_purge(&self, event: Option<AuditEvent>) -> StoreResult<()> {
        self.write(move |engine| {
            engine.append_events(event.clone())?;
            engine.erase_responses()
        })
        .await
    }

    /// Inserts users, tokens and audit rows of an archive. False if the rows do not continue the
    /// audit log.
    pub async fn import_team(
        &self,
        identities: IdentityRecords,
        rows: Vec<AuditRow>,
    ) -> StoreResult<bool> {
        let first = rows.first().map(|row| row.number);
        let mut records: Vec<_> = identities.into_records().collect();
        let has_identities = !records.is_empty();
        records.extend(rows.into_iter().map(ArchiveRecord::AuditRow));
        self.write(move |engine| {
            let newest = engine.store_row()?.newest_audit.number;
            if newest > 0 && first.is_some_and(|first| first != newest + 1) {
                return Ok(false);
            }
            engine.put_records(&records)?;
            if has_identities {
                engine.renew_epoch()?;
            }
            Ok(true)
        })
        .await
    }
}

impl GroupWriterEngine {
    fn prepare_commit(
        &mut self,
        project: &ProjectKey,
        event: Option<&AuditEvent>,
        record: Option<&(String, IdempotencyRecord)>,
        now: Timestamp,
    ) -> StoreResult<PendingCommit> {
        let pending = decode_all(&self.transaction.select_one(all_pending())?)?;
        if let Some((key, record)) = record {
            // The pending commit may still be rolled back, so its record is not valid yet.
            if is_pending(&pending, key) {
                let reason = "Another call with the same idempotency key is running; try again in \
                              a moment. Nothing was written.";
                return Err(StoreError::Busy { reason: reason.to_owned() });
            }
            self.check_unused(key, now)?;
            self.transaction.put(&IDEMPOTENCY, encode_record(key, record)?);
        }
        let mut audit_number = None;
        if let Some(event) = event {
            self.append_events([event.clone()])?;
            audit_number = Some(self.store_row()?.newest_audit.number);
        }
        let commit = PendingCommit {
            id: pending.last().map_or(1, |last| last.id + 1),
            project: project.clone(),
            audit_number,
            idempotency_key: record.map(|(key, _)| key.clone()),
            is_rolled_back: false,
        };
        self.transaction.put(&PENDING, commit.encode());
        Ok(commit)
    }

    fn roll_back_commit(&mut self, commit: &PendingCommit, now: Timestamp) -> StoreResult<()> {
        // Another process may have recovered this commit.
        if self.transaction.row(&PENDING, &commit.key())?.is_none() {
            return Ok(());
        }
        self.transaction.delete(&PENDING, commit.key());
        if let Some(key) = &commit.idempotency_key {
            let key = TableRow::of(&[key.into()]);
            // A table with indexes needs the row before the deletion.
            self.transaction.row(&IDEMPOTENCY, &key)?;
            self.transaction.delete(&IDEMPOTENCY, key);
        }
        // Rows form a chain, so none is removed; a later row declares it as unconfirmed.
        let event = commit.audit_number.map(|number| AuditEvent::unconfirmed(number, now));
        self.append_events(event)
    }
}
