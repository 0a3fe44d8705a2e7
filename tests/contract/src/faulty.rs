//! A layer of random faults around a database, in memory or real.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::database::{
    BegunTransaction, CommitOutcome, Database, RowSource, SessionError, WriteSession,
};
use reqlore_row_store::row::{RowChange, RowQuery, TableRow};
use reqlore_row_store::tables::Table;
use reqlore_storage_memory::database::WaitTurn;
use reqlore_storage_memory::seeded_random::SeededRandom;

/// How often faults happen.
#[derive(Debug, Clone, Copy)]
pub struct FaultPlan {
    /// Faults in 1,000 calls.
    pub rate: usize,
    /// Maximum number of faults in a row that a session has. More than the attempts of the store
    /// let groups fail.
    pub series: usize,
    /// True if also reads outside transactions fail, and errors that no attempt repeats happen.
    pub is_visible: bool,
}

impl FaultPlan {
    /// Faults that the store hides from its callers.
    pub const HIDDEN: Self = Self { rate: 80, series: 2, is_visible: false };
}

/// The database as one server sees it.
pub struct FaultyDatabase {
    inner: Arc<dyn Database>,
    faults: Arc<Faults>,
    /// Called before each call of a writer.
    pause: WaitTurn,
    /// True after the server was killed: it reaches the database no more.
    pub is_dead: Arc<AtomicBool>,
}

/// The faults of all servers.
struct Faults {
    state: Mutex<FaultState>,
}

struct FaultState {
    plan: FaultPlan,
    random: SeededRandom,
    /// A session that lost its client while it committed. Its transaction ends later.
    limbo: Option<Box<dyn WriteSession>>,
    /// The same in a database without locks, in which no transaction waits for it.
    late: Option<LateCommit>,
    /// True if the database has no locks: a commit fails if there was another one since it began.
    is_optimistic: bool,
    /// Number of commits.
    commits: u64,
    /// Writers that wait until their transactions begin.
    waiting: usize,
    /// Number of open transactions.
    open: usize,
    /// Number of transactions that find a read-only standby.
    standby: usize,
}

type TableChanges = Vec<(&'static Table, Vec<RowChange>)>;

/// The changes of a transaction, and the number of commits when it began.
struct LateCommit {
    changes: TableChanges,
    begun: u64,
}

impl std::fmt::Debug for FaultyDatabase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "FaultyDatabase({:?})", self.inner)
    }
}

impl FaultyDatabase {
    pub fn new(inner: Arc<dyn Database>, plan: FaultPlan, seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        let state = FaultState {
            plan,
            random,
            limbo: None,
            late: None,
            is_optimistic: seed.is_multiple_of(2),
            commits: 0,
            waiting: 0,
            open: 0,
            standby: 0,
        };
        let faults = Arc::new(Faults { state: Mutex::new(state) });
        Self { inner, faults, pause: Arc::new(std::thread::yield_now), is_dead: Arc::default() }
    }

    /// The same database for another server.
    #[must_use]
    pub fn for_server(&self, pause: WaitTurn) -> Self {
        let (inner, faults) = (Arc::clone(&self.inner), Arc::clone(&self.faults));
        Self { inner, faults, pause, is_dead: Arc::default() }
    }

    /// From now on there are no faults.
    pub fn end_faults(&self) {
        let mut state = self.faults.lock();
        state.end_unknown();
        state.late = None;
        state.plan = FaultPlan { rate: 0, ..state.plan };
        state.standby = 0;
    }

    /// Delays a read, or fails it.
    async fn disturb(&self) -> StoreResult<()> {
        let (mut delay, is_failure) = {
            let mut state = self.faults.lock();
            if state.random.per_mille(300) {
                state.end_unknown();
            }
            let FaultPlan { rate, is_visible, .. } = state.plan;
            let is_failure = state.random.per_mille(rate) && is_visible;
            (state.random.within(0..3), is_failure)
        };
        std::future::poll_fn(|context| {
            if delay == 0 {
                return Poll::Ready(());
            }
            delay -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        if is_failure || self.is_dead.load(Ordering::Relaxed) {
            return Err(unreachable_database());
        }
        Ok(())
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap()
    }
}

impl FaultState {
    fn end_unknown(&mut self) {
        if let Some(mut session) = self.limbo.take() {
            if self.random.per_mille(500) {
                session.roll_back();
            } else {
                session.commit();
            }
        }
    }

    /// Sometimes commits the late transaction. No other one may be open.
    fn end_late(&mut self, database: &dyn Database) {
        if self.random.per_mille(600) {
            return;
        }
        let Some(LateCommit { changes, begun }) = self.late.take() else { return };
        if begun == self.commits {
            let mut session = database.open_session();
            session.begin(&[]).unwrap();
            session.write(changes).unwrap();
            assert!(matches!(session.commit(), CommitOutcome::Committed));
            self.commits += 1;
        }
    }
}

fn unreachable_database() -> StoreError {
    let reason = "the database is not reachable; nothing was written".to_owned();
    StoreError::Unavailable { subject: "the database".to_owned(), reason, source: None }
}

#[async_trait]
impl RowSource for FaultyDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        self.disturb().await?;
        let rows = self.inner.read(queries).await;
        // The answer may be old when it arrives.
        self.disturb().await?;
        rows
    }
}

#[async_trait]
impl Database for FaultyDatabase {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        self.disturb().await?;
        self.inner.begin_snapshot().await
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        Box::new(FaultySession {
            database: Self {
                is_dead: Arc::clone(&self.is_dead),
                ..self.for_server(Arc::clone(&self.pause))
            },
            inner: self.inner.open_session(),
            series: 0,
            was_interrupted: false,
            changes: Vec::new(),
            begun: 0,
            is_open: false,
        })
    }
}

struct FaultySession {
    database: FaultyDatabase,
    inner: Box<dyn WriteSession>,
    /// Number of faults since the last commit.
    series: usize,
    was_interrupted: bool,
    /// The changes of the transaction.
    changes: TableChanges,
    /// Number of commits when the transaction began.
    begun: u64,
    is_open: bool,
}

impl FaultySession {
    /// Counts the end of the transaction.
    fn end(&mut self) {
        self.database.faults.lock().open -= usize::from(std::mem::take(&mut self.is_open));
    }

    /// Returns true for a fault. A dead server has no others.
    fn draw(&mut self) -> bool {
        (self.database.pause)();
        let plan = self.database.faults.lock().plan;
        let is_fault = self.series < plan.series && self.chance(plan.rate);
        self.series += usize::from(is_fault);
        is_fault
    }

    fn chance(&mut self, rate: usize) -> bool {
        self.database.faults.lock().random.per_mille(rate)
    }

    /// Ends the connection, as a killed server or a lost network does.
    fn disconnect(&mut self) {
        self.end();
        self.inner = self.database.inner.open_session();
        self.was_interrupted = true;
    }

    fn check_alive(&mut self) -> Result<(), SessionError> {
        if self.database.is_dead.load(Ordering::Relaxed) {
            self.disconnect();
            return Err(SessionError::Failed(unreachable_database()));
        }
        Ok(())
    }

    /// A fault before the commit.
    fn fail(&mut self) -> SessionError {
        if self.database.faults.lock().plan.is_visible && self.chance(100) {
            return SessionError::Failed(unreachable_database());
        }
        if self.chance(500) {
            return conflict();
        }
        self.disconnect();
        SessionError::Disconnected("08006: the connection was lost".to_owned())
    }

    /// Runs a call, which fails before or after it takes effect.
    fn disturb<T>(
        &mut self,
        call: impl FnOnce(&mut dyn WriteSession) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let is_fault = self.draw();
        self.check_alive()?;
        if is_fault && self.chance(500) {
            return Err(self.fail());
        }
        let result = call(&mut *self.inner);
        if is_fault && result.is_ok() {
            return Err(self.fail());
        }
        result
    }

    /// Returns true if the late transaction was committed first, so that this one is undone.
    fn ends_after_late_commit(&mut self) -> bool {
        let faults = Arc::clone(&self.database.faults);
        if faults.lock().late.is_none() || !self.chance(300) {
            return false;
        }
        self.roll_back();
        faults.lock().end_late(&*self.database.inner);
        true
    }

    /// Loses the connection during the commit.
    fn lose_outcome(&mut self) -> CommitOutcome {
        let message = "08006: the connection was lost at the commit".to_owned();
        let faults = Arc::clone(&self.database.faults);
        let mut state = faults.lock();
        match state.random.within(0..3) {
            0 => self.inner.roll_back(),
            // No writer waits for it, so that the next one can end it.
            1 if state.is_optimistic => {
                self.inner.roll_back();
                let changes = std::mem::take(&mut self.changes);
                state.late = Some(LateCommit { changes, begun: self.begun });
            }
            1 if state.waiting == 0 => {
                let session = self.database.inner.open_session();
                state.limbo = Some(std::mem::replace(&mut self.inner, session));
            }
            _ => match self.inner.commit() {
                CommitOutcome::Committed => state.commits += 1,
                other => return other,
            },
        }
        drop(state);
        self.disconnect();
        CommitOutcome::Unknown(message)
    }
}

fn conflict() -> SessionError {
    SessionError::Conflict("40001: could not serialize access".to_owned())
}

impl Drop for FaultySession {
    fn drop(&mut self) {
        self.end();
    }
}

impl WriteSession for FaultySession {
    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError> {
        let faults = Arc::clone(&self.database.faults);
        let database = Arc::clone(&self.database.inner);
        self.changes.clear();
        let (mut is_open, mut commits) = (false, 0);
        let begun = self.disturb(|inner| {
            {
                let mut state = faults.lock();
                state.end_unknown();
                if state.waiting + state.open == 0 {
                    state.end_late(&*database);
                }
                if state.standby > 0 {
                    state.standby -= 1;
                    let message = "25006: cannot execute UPDATE in a read-only transaction";
                    return Err(SessionError::Disconnected(message.to_owned()));
                }
                let FaultPlan { rate, is_visible, .. } = state.plan;
                if is_visible && state.random.per_mille(rate / 10) {
                    // Sometimes for longer than the store repeats a group.
                    state.standby = state.random.within(1..80);
                }
                state.waiting += 1;
            }
            let begun = inner.begin(queries);
            let mut state = faults.lock();
            state.waiting -= 1;
            is_open = begun.is_ok();
            state.open += usize::from(is_open);
            commits = state.commits;
            begun
        });
        (self.is_open, self.begun) = (is_open, commits);
        let mut begun = begun.inspect_err(|_| self.roll_back())?;
        begun.was_interrupted |= std::mem::take(&mut self.was_interrupted);
        Ok(begun)
    }

    fn read(&mut self, queries: &[RowQuery]) -> Result<Vec<Vec<TableRow>>, SessionError> {
        self.disturb(|inner| inner.read(queries))
    }

    fn write(
        &mut self,
        changes: Vec<(&'static Table, Vec<RowChange>)>,
    ) -> Result<(), SessionError> {
        self.changes.extend(changes.iter().cloned());
        self.disturb(|inner| inner.write(changes))
    }

    fn commit(&mut self) -> CommitOutcome {
        let is_fault = self.draw();
        if let Err(error) = self.check_alive() {
            return CommitOutcome::NotWritten(error);
        }
        if self.ends_after_late_commit() {
            return CommitOutcome::NotWritten(conflict());
        }
        if is_fault && self.chance(600) {
            return self.lose_outcome();
        }
        if is_fault {
            self.roll_back();
            return CommitOutcome::NotWritten(self.fail());
        }
        let outcome = self.inner.commit();
        self.end();
        self.database.faults.lock().commits += 1;
        self.series = 0;
        outcome
    }

    fn roll_back(&mut self) {
        self.inner.roll_back();
        self.end();
    }

    fn wait(&mut self, _: Duration) {
        (self.database.pause)();
    }
}
