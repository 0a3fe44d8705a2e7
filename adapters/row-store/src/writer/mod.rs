//! The writer: commits that wait share one transaction.
//!
//! The first statement of each transaction takes the row that all writers of all servers share, so
//! a decision reads the newest state. Decisions are pure: after a conflict or a lost connection the
//! whole group is decided again.

mod commit;
pub(crate) mod history;
mod lists;
mod team;
mod transaction;

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqlore_domain::ports::documents::{CommitRequest, StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::{GroupEngine, GroupOutcome};

use crate::counters::{WriterCounters, count};
use crate::damage::KnownDamage;
use crate::database::{CommitOutcome, GroupId, SessionError, WriteSession};
use crate::error::{busy, unavailable};
use crate::records::body_keys;
use crate::records::{RowReader, StoreRow, document_key, project_key};
use crate::row::{RowAddress, RowKey, RowQuery, TableRow};
use crate::tables::{BODIES, DOCUMENTS, IDEMPOTENCY, ITEM_COUNTS, PROJECTS, SEQUENCES};
use crate::tables::{SERVER_GROUPS, STORE};
use transaction::{GroupTransaction, key_queries};

/// Maximum time for the attempts of a group. A failover takes a few seconds.
const MAX_RETRY_TIME: Duration = Duration::from_secs(10);
/// The pause before the first retry. It doubles with each one.
const MIN_BACKOFF: Duration = Duration::from_millis(2);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// The first reads of a job.
#[derive(Debug, Default)]
pub(crate) struct ReadPlan {
    /// Rows by their keys, or by beginnings of keys.
    rows: Vec<RowAddress>,
    is_import: bool,
    /// The job runs in a transaction of its own, which is not synced.
    is_unsynced: bool,
}

impl ReadPlan {
    /// For an import, which writes while the database is incomplete.
    pub(crate) fn of_import() -> Self {
        Self { is_import: true, ..Self::default() }
    }

    pub(crate) fn unsynced(self) -> Self {
        Self { is_unsynced: true, ..self }
    }

    pub(crate) fn of_commit(project: &ProjectKey, commit: &CommitRequest) -> Self {
        let (reads, project_key) = (&commit.read_set, project_key(project));
        let mut rows: Vec<RowAddress> = Vec::new();
        for id in &reads.documents {
            let key = document_key(project, id);
            // Only the first part: the sizes of the texts are not known yet.
            rows.extend(body_keys(&key, 1).map(|key| (&BODIES as _, key)));
            rows.push((&DOCUMENTS, key));
        }
        for kind in &reads.sequences {
            rows.push((&SEQUENCES, project_key.with(&[kind.name().into()])));
        }
        if let Some(key) = &commit.context.idempotency_key {
            rows.push((&IDEMPOTENCY, TableRow::of(&[(&key.key).into()])));
        }
        rows.push((&PROJECTS, project_key.clone()));
        rows.push((&ITEM_COUNTS, project_key.with(&["".into(), "".into()])));
        Self { rows, ..Self::default() }
    }
}

/// Exponential backoff with jitter.
#[derive(Debug)]
struct RetryBackoff {
    begin: Instant,
    /// The sum of the pauses. A database that refuses connections answers in no time.
    waited: Duration,
    pause: Duration,
}

impl RetryBackoff {
    fn begin() -> Self {
        Self { begin: Instant::now(), waited: Duration::ZERO, pause: MIN_BACKOFF }
    }

    fn is_over(&self) -> bool {
        self.begin.elapsed().max(self.waited) > MAX_RETRY_TIME
    }

    fn next_backoff(&mut self) -> Duration {
        let pause = self.pause;
        self.waited += pause;
        self.pause = (pause * 2).min(MAX_BACKOFF);
        with_jitter(pause)
    }
}

/// The engine of the writer.
#[derive(Debug)]
pub(crate) struct GroupWriterEngine {
    pub(crate) transaction: GroupTransaction,
    /// Random ID of this server.
    server: [u8; 16],
    /// Random ID of this writer. A new one after a lost connection, because a standby that took
    /// over may lack the newest commits.
    pub(crate) writer_id: u64,
    /// See [`Database::is_remote`](crate::database::Database::is_remote).
    pub(crate) is_remote: bool,
    /// The current group is not synced.
    is_unsynced: bool,
    /// Jobs of the current group.
    job_count: u64,
    /// The newest time of a change by this writer.
    last_time: Timestamp,
    /// The backoff of the current group, after its first attempt.
    backoff: Option<RetryBackoff>,
    /// The last group failed because the database could not be reached.
    is_down: bool,
    pub(crate) counters: Arc<WriterCounters>,
    damage: Arc<KnownDamage>,
}

impl GroupWriterEngine {
    pub(crate) fn new(
        session: Box<dyn WriteSession>,
        damage: Arc<KnownDamage>,
    ) -> StoreResult<Self> {
        Ok(Self {
            transaction: GroupTransaction::new(session),
            server: random()?,
            writer_id: u64::from_be_bytes(random()?),
            is_remote: false,
            is_unsynced: false,
            job_count: 0,
            last_time: Timestamp::default(),
            backoff: None,
            is_down: false,
            counters: Arc::default(),
            damage,
        })
    }

    /// Runs a job of the current group. A job that fails changes nothing.
    pub(crate) fn run_job<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.job_count += 1;
        self.transaction.begin_job();
        let outcome = work(self);
        self.transaction.end_job(&outcome);
        outcome
    }

    pub(crate) fn store_row(&mut self) -> StoreResult<StoreRow> {
        StoreRow::decode(self.transaction.row(&STORE, &StoreRow::key())?.as_slice())
    }

    fn begin_transaction(&mut self, queries: Vec<RowQuery>) -> Result<(), SessionError> {
        self.transaction.session.set_sync(!self.is_unsynced);
        if self.transaction.begin(queries)? {
            let id = random().map_err(SessionError::Failed)?;
            self.writer_id = u64::from_be_bytes(id);
        }
        Ok(())
    }

    /// Waits before the group is retried. Fails if that does not help, and after
    /// [`MAX_RETRY_TIME`].
    fn back_off(&mut self, error: SessionError) -> StoreResult<()> {
        let (reason, is_connected) = match error {
            SessionError::Conflict(reason) => (reason, true),
            SessionError::Disconnected(reason) => (reason, false),
            SessionError::Failed(error) => {
                self.backoff = None;
                return Err(error);
            }
        };
        count(&self.counters.retries, 1);
        let mut backoff = self.backoff.take().unwrap_or_else(RetryBackoff::begin);
        // While the database is down, callers should not wait for each group.
        if backoff.is_over() || (self.is_down && !is_connected) {
            self.is_down = !is_connected;
            // Some problems say it already.
            let problem = reason.trim_end_matches(", so nothing was written");
            let message = format!("{problem}, so nothing was written; try again later");
            return Err(if is_connected { busy(&message) } else { unavailable(message) });
        }
        tracing::debug!(reason, "a group of commits is repeated");
        self.transaction.session.wait(backoff.next_backoff());
        self.backoff = Some(backoff);
        Ok(())
    }

    fn retry(&mut self, error: SessionError) -> StoreResult<GroupOutcome> {
        self.transaction.roll_back();
        self.back_off(error)?;
        Ok(GroupOutcome::Retry)
    }

    /// Returns true if a group was committed although its commit failed.
    fn resolve(&mut self, group: GroupId, reason: &str) -> StoreResult<bool> {
        count(&self.counters.unknown_outcomes, 1);
        tracing::warn!(reason, "no usable answer to a commit; asking for its outcome");
        let mut backoff = RetryBackoff::begin();
        loop {
            match self.read_last_group() {
                Ok(last_group) => return Ok(last_group == Some(group)),
                Err(error) if backoff.is_over() => {
                    (self.is_down, self.backoff) = (true, None);
                    // The error may say that nothing was written. That is true of this query only.
                    tracing::error!(reason = %error, "could not determine the outcome of a commit");
                    return Err(unavailable(
                        "it is unknown whether the change was written, because the commit was not \
                         answered; read the items again, or repeat the call with the same \
                         idempotency key",
                    ));
                }
                Err(_) => self.transaction.session.wait(backoff.next_backoff()),
            }
        }
    }

    /// Reads the last group of this server in a transaction that writes, and commits it. The commit
    /// waits until a standby has everything that was read. In a database without locks, it makes
    /// the lost transaction fail if that has not ended yet.
    fn read_last_group(&mut self) -> StoreResult<Option<GroupId>> {
        let query = RowQuery::keys(&SERVER_GROUPS, vec![self.server_key()]);
        let last_group = self
            .begin_transaction(vec![query])
            .map_err(|error| error.to_store_error())
            .and_then(|()| self.last_group());
        let outcome = match &last_group {
            Ok(_) => self.transaction.commit(),
            Err(_) => CommitOutcome::Committed,
        };
        self.transaction.roll_back();
        match outcome {
            CommitOutcome::Committed => last_group,
            CommitOutcome::NotWritten(error) => Err(error.to_store_error()),
            CommitOutcome::Unknown(reason) => Err(StoreError::Busy { reason }),
        }
    }

    /// The rows that the jobs of a group need, usually.
    fn planned_rows(&self, plans: &[&ReadPlan]) -> Vec<RowAddress> {
        // A local database reads the rows that are needed one by one.
        let plans = if self.is_remote { plans } else { &[] };
        plans.iter().flat_map(|plan| plan.rows.iter().cloned()).collect()
    }

    fn server_key(&self) -> RowKey {
        TableRow::of(&[self.server[..].into()])
    }

    fn last_group(&mut self) -> StoreResult<Option<GroupId>> {
        let row = self.transaction.row(&SERVER_GROUPS, &self.server_key())?;
        row.map(|row| RowReader::new(&row, "a group").after(1).binary()).transpose()
    }
}

impl GroupEngine for GroupWriterEngine {
    type ReadPlan = ReadPlan;

    fn begin_group(&mut self, plans: &[&ReadPlan]) -> StoreResult<()> {
        if let Some(error) = self.damage.write_error() {
            return Err(error);
        }
        count(&self.counters.groups, 1);
        self.job_count = 0;
        self.is_unsynced = plans.first().is_some_and(|plan| plan.is_unsynced);
        let mut rows = self.planned_rows(plans);
        rows.push((&STORE, StoreRow::key()));
        let queries = key_queries(rows);
        while let Err(error) = self.begin_transaction(queries.clone()) {
            self.back_off(error)?;
        }
        if plans.iter().all(|plan| plan.is_import) {
            return Ok(());
        }
        let usable = self.store_row().and_then(|row| row.check_usable());
        usable.inspect_err(|_| self.transaction.roll_back())
    }

    fn extend_group(&mut self, plans: &[&ReadPlan]) {
        // An error fails the group, which reports it.
        let _ = self.transaction.load(self.planned_rows(plans));
    }

    fn is_full(&self) -> bool {
        self.is_unsynced || self.transaction.is_full()
    }

    fn finish_group(&mut self) -> StoreResult<GroupOutcome> {
        count(&self.counters.jobs, self.job_count);
        let group: GroupId = random()?;
        let outcome = match self.transaction.failure.take() {
            Some(error) => CommitOutcome::NotWritten(error),
            None if self.transaction.has_changes() => {
                if self.is_remote {
                    let row = self.server_key().with(&[group[..].into(), self.last_time.0.into()]);
                    self.transaction.put(&SERVER_GROUPS, row);
                }
                self.transaction.commit()
            }
            None => {
                self.transaction.roll_back();
                CommitOutcome::Committed
            }
        };
        let end = match outcome {
            CommitOutcome::Committed => GroupOutcome::Durable,
            CommitOutcome::NotWritten(SessionError::Failed(error)) => {
                self.transaction.roll_back();
                // No single job causes these.
                if matches!(error, StoreError::Unavailable { .. } | StoreError::Busy { .. }) {
                    self.backoff = None;
                    return Err(error);
                }
                GroupOutcome::RetryEachAlone(error)
            }
            CommitOutcome::Unknown(reason) if self.resolve(group, &reason)? => {
                GroupOutcome::Durable
            }
            CommitOutcome::Unknown(reason) => {
                return self.retry(SessionError::Disconnected(reason));
            }
            CommitOutcome::NotWritten(error) => return self.retry(error),
        };
        self.backoff = None;
        self.is_down = false;
        Ok(end)
    }

    fn abort_group(&mut self) {
        self.transaction.roll_back();
        self.backoff = None;
    }
}

pub(crate) fn random<const N: usize>() -> StoreResult<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(StoreError::Internal(format!("no random numbers: {error}"))),
    }
}

/// Between half of a pause and the whole, so that servers do not repeat at the same time.
fn with_jitter(pause: Duration) -> Duration {
    let part = random::<1>().map_or(u8::MAX, |[byte]| byte);
    pause / 2 + (pause / 2) * u32::from(part) / u32::from(u8::MAX)
}
