//! One writer behind a queue: all that came while the last group was synced are the next
//! group, and share one sync.
//!
//! For databases, which all have one writer at a time and a sync that costs more than everything
//! else. Nobody waits for a group to fill: a lone job is a group of one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use reqlore_domain::ports::documents::{Commit, Decision, Snapshot, StoreError, StoreResult};
use reqlore_domain::project::ProjectKey;
use tokio::sync::oneshot;

/// At most so many jobs share one sync.
pub const MOST: usize = 64;

/// A database as its one writer sees it. Whatever fails must leave it fit for the next group.
pub trait Engine: Send + 'static {
    /// Begins a group.
    fn begin(&mut self) -> StoreResult<()>;

    /// Makes the group durable. After an error nothing of it was acknowledged; an engine that can't
    /// undo it takes no more writes.
    fn end(&mut self) -> StoreResult<()>;

    /// Undoes the group that was begun, after a panic.
    fn abort(&mut self);
}

/// The queue's front. The thread behind it ends, with everything written, when this is dropped.
#[derive(Debug)]
pub struct Writer<E> {
    queue: Option<Sender<Box<dyn Job<E>>>>,
    thread: Option<JoinHandle<()>>,
}

/// Something to do in a group, and somebody who waits for it.
trait Job<E>: Send {
    /// Does it. What comes back tells who waits, as soon as it is known how the group ended.
    fn run(self: Box<Self>, engine: &mut E) -> Answer;

    /// There is no group.
    fn refuse(self: Box<Self>, error: &StoreError);
}

type Answer = Box<dyn FnOnce(&StoreResult<()>)>;

struct Waiting<F, T> {
    work: F,
    answer: oneshot::Sender<StoreResult<T>>,
}

impl<E, T, F> Job<E> for Waiting<F, T>
where
    T: Send + 'static,
    F: FnOnce(&mut E) -> StoreResult<T> + Send,
{
    fn run(self: Box<Self>, engine: &mut E) -> Answer {
        let Self { work, answer } = *self;
        let outcome = work(engine);
        Box::new(move |ended| {
            let outcome = match ended {
                Ok(()) => outcome,
                // Also who was refused: it was refused in view of what is not there.
                Err(error) => Err(error.clone_for_group()),
            };
            tell(answer, outcome);
        })
    }

    fn refuse(self: Box<Self>, error: &StoreError) {
        tell(self.answer, Err(error.clone_for_group()));
    }
}

impl<E: Engine> Writer<E> {
    /// Starts the thread on which the engine works.
    pub fn start(name: &str, mut engine: E) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&mut engine, &jobs))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Does some work in a group; the answer comes when it is durable. What fails must undo itself,
    /// and the rest of the group stands. Whoever stops waiting has it done all the same.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut E) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(Waiting { work, answer });
        let ended = || StoreError::Internal("the writer has ended; nothing was written".to_owned());
        self.queue.as_ref().ok_or_else(ended)?.send(job).map_err(|_| ended())?;
        let unknown = "the writer broke off; whether this was written is not known: read it again";
        answered.await.map_err(|_| StoreError::Internal(unknown.to_owned()))?
    }
}

impl<E> Drop for Writer<E> {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told to those who waited.
            let _ = thread.join();
        }
    }
}

/// The decision of a commit. A panic in it is a fault of this commit alone.
pub fn decide(
    commit: &mut Commit,
    project: &ProjectKey,
    snapshot: &Snapshot,
) -> StoreResult<Decision> {
    catch_panic(|| commit.decide(project, snapshot))
}

/// Turns a panic into an error, so that the writer goes on.
pub fn catch_panic<T, E: From<StoreError>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let done = catch_unwind(AssertUnwindSafe(act));
    done.unwrap_or_else(|_| Err(StoreError::Internal("the decision panicked".to_owned()).into()))
}

fn work<E: Engine>(engine: &mut E, jobs: &Receiver<Box<dyn Job<E>>>) {
    while let Ok(first) = jobs.recv() {
        let group: Vec<_> = std::iter::once(first).chain(jobs.try_iter()).take(MOST).collect();
        if catch_unwind(AssertUnwindSafe(|| run(engine, group))).is_err() {
            tracing::error!("the writer panicked; the commits that it was working on are undone");
            // Another panic here leaves the thread to end, and everybody is told so.
            engine.abort();
        }
    }
}

/// Those that wait are answered when all is durable; a panic drops their senders, which tells them.
fn run<E: Engine>(engine: &mut E, group: Vec<Box<dyn Job<E>>>) {
    if let Err(error) = engine.begin() {
        for job in group {
            job.refuse(&error);
        }
        return;
    }
    let answers: Vec<Answer> = group.into_iter().map(|job| job.run(engine)).collect();
    let ended = engine.end();
    for answer in answers {
        answer(&ended);
    }
}

fn tell<T>(answer: oneshot::Sender<StoreResult<T>>, outcome: StoreResult<T>) {
    // Nobody may be waiting any more.
    let _ = answer.send(outcome);
}

#[cfg(test)]
mod tests;
