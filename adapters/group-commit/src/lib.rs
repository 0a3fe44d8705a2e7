//! One writer behind a queue: all commits that came while the last group was synced are the next
//! group, and share one sync.
//!
//! For databases, which all have one writer at a time and a sync that costs more than everything
//! else. Nobody waits for a group to fill: a lone commit is a group of one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use reqlore_domain::ports::documents::{
    Change, Commit, Committed, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use tokio::sync::oneshot;

/// At most so many commits share one sync.
pub const MOST: usize = 64;

/// A database as its one writer sees it. Whatever fails must leave it fit for the next group.
pub trait Engine: Send + 'static {
    /// Begins a group.
    fn begin(&mut self) -> StoreResult<()>;

    /// Reads, decides (with [`decided`]) and applies one commit. What fails undoes itself, and the
    /// rest of the group stands.
    fn apply(&mut self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed>;

    /// Makes the group durable. After an error nothing of it was acknowledged; an engine that can't
    /// undo it takes no more writes.
    fn end(&mut self) -> StoreResult<()>;

    /// Undoes the group that was begun, after a panic.
    fn abort(&mut self);
}

/// The queue's front. The thread behind it ends, with everything written, when this is dropped.
#[derive(Debug)]
pub struct Writer {
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct Job {
    project: ProjectKey,
    commit: Commit,
    answer: oneshot::Sender<StoreResult<Committed>>,
}

impl Writer {
    /// Starts the thread on which the engine works.
    pub fn start(name: &str, mut engine: impl Engine) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&mut engine, &jobs))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Commits; the answer comes when it is durable. Whoever stops waiting has committed all the
    /// same.
    pub async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        let (answer, answered) = oneshot::channel();
        let job = Job { project: project.clone(), commit, answer };
        let ended = || StoreError::Fault("the writer has ended; nothing was written".to_owned());
        self.queue.as_ref().ok_or_else(ended)?.send(job).map_err(|_| ended())?;
        let unknown = "the writer broke off; whether this was written is not known: read it again";
        answered.await.map_err(|_| StoreError::Fault(unknown.to_owned()))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told to those who waited.
            let _ = thread.join();
        }
    }
}

/// The decision of a commit. A panic in it is a fault of this commit alone.
pub fn decided(commit: &mut Commit, snapshot: &Snapshot) -> StoreResult<Vec<Change>> {
    let decided = catch_unwind(AssertUnwindSafe(|| commit.decided(snapshot)));
    decided.unwrap_or_else(|_| Err(StoreError::Fault("the decision panicked".to_owned())))
}

fn work(engine: &mut impl Engine, jobs: &Receiver<Job>) {
    while let Ok(first) = jobs.recv() {
        let group: Vec<Job> = std::iter::once(first).chain(jobs.try_iter()).take(MOST).collect();
        if catch_unwind(AssertUnwindSafe(|| run(engine, group))).is_err() {
            tracing::error!("the writer panicked; the commits that it was working on are undone");
            // Another panic here leaves the thread to end, and everybody is told so.
            engine.abort();
        }
    }
}

/// Those that wait are answered when all is durable; a panic drops their senders, which tells them.
fn run(engine: &mut impl Engine, group: Vec<Job>) {
    if let Err(error) = engine.begin() {
        for job in group {
            tell(job.answer, Err(error.again()));
        }
        return;
    }
    let applied: Vec<_> = group
        .into_iter()
        .map(|Job { project, commit, answer }| (answer, engine.apply(&project, commit)))
        .collect();
    let ended = engine.end();
    for (answer, outcome) in applied {
        let outcome = match &ended {
            Ok(()) => outcome,
            // Also who was refused: it was refused in view of what is not there.
            Err(error) => Err(error.again()),
        };
        tell(answer, outcome);
    }
}

fn tell(answer: oneshot::Sender<StoreResult<Committed>>, outcome: StoreResult<Committed>) {
    // Nobody may be waiting any more.
    let _ = answer.send(outcome);
}

#[cfg(test)]
mod tests;
