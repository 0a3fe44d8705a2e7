//! One writer behind a queue: the jobs that arrive during a sync are the next group and share one
//! sync.
//!
//! For databases, which have one writer at a time and a sync that costs more than everything else.
//! No job waits for a group to fill: a lone job is a group of one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use tokio::sync::oneshot;

/// The most jobs of a group.
const MAX_GROUP_JOBS: usize = 64;

/// A database as its one writer sees it. After every error it must be ready for the next group.
pub trait GroupEngine: Send + 'static {
    /// Begins a group.
    fn begin_group(&mut self) -> StoreResult<()>;

    /// Makes the group durable. After an error none of it was acknowledged; an engine that can't
    /// undo it takes no more writes.
    fn finish_group(&mut self) -> StoreResult<()>;

    /// Undoes the group that was begun, after a panic.
    fn abort_group(&mut self);
}

/// Runs an engine on a thread, which ends with everything written when this is dropped.
#[derive(Debug)]
pub struct GroupWriter<E> {
    queue: Option<Sender<WriteJob<E>>>,
    thread: Option<JoinHandle<()>>,
}

/// Works on the engine of a group, or gets the error if no group could begin.
type WriteJob<E> = Box<dyn FnOnce(StoreResult<&mut E>) -> JobAnswer + Send>;

/// Answers the caller of a job once it is known how the group ended.
type JobAnswer = Box<dyn FnOnce(&StoreResult<()>)>;

impl<E: GroupEngine> GroupWriter<E> {
    pub fn start(name: &str, mut engine: E) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run_writer(&mut engine, &jobs))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Does some work in a group and returns when it is durable. Work that fails must undo itself,
    /// and the rest of the group takes effect. Work is done even if its caller stops waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut E) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (sender, answered) = oneshot::channel();
        let job = move |engine: StoreResult<&mut E>| -> JobAnswer {
            let outcome = engine.and_then(work);
            Box::new(move |ended| {
                // Refusals fail too: they may rest on changes of the group.
                let outcome = match ended {
                    Ok(()) => outcome,
                    Err(error) => Err(error.clone_for_group()),
                };
                // The caller may be gone.
                let _ = sender.send(outcome);
            })
        };
        let ended = || StoreError::Internal("the writer has ended; nothing was written".to_owned());
        self.queue.as_ref().ok_or_else(ended)?.send(Box::new(job)).map_err(|_| ended())?;
        let unknown = "the writer broke off; whether this was written is not known: read it again";
        answered.await.map_err(|_| StoreError::Internal(unknown.to_owned()))?
    }
}

impl<E> Drop for GroupWriter<E> {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The callers of a group that panicked have got their errors.
            let _ = thread.join();
        }
    }
}

/// Turns a panic of a decision into an error of its commit, so that the writer goes on.
pub fn catch_panic<T, E: From<StoreError>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let done = catch_unwind(AssertUnwindSafe(act));
    done.unwrap_or_else(|_| Err(StoreError::Internal("the decision panicked".to_owned()).into()))
}

fn run_writer<E: GroupEngine>(engine: &mut E, jobs: &Receiver<WriteJob<E>>) {
    while let Ok(first) = jobs.recv() {
        let group: Vec<_> =
            std::iter::once(first).chain(jobs.try_iter()).take(MAX_GROUP_JOBS).collect();
        if catch_unwind(AssertUnwindSafe(|| run_group(engine, group))).is_err() {
            tracing::error!("the writer panicked; the commits that it was working on are undone");
            // Another panic ends the thread, and all callers get an error.
            engine.abort_group();
        }
    }
}

/// Answers all callers when the group is durable. A panic drops the answers, which is an error for
/// their callers.
fn run_group<E: GroupEngine>(engine: &mut E, group: Vec<WriteJob<E>>) {
    if let Err(error) = engine.begin_group() {
        for job in group {
            job(Err(error.clone_for_group()))(&Ok(()));
        }
        return;
    }
    let mut answers = Vec::new();
    for job in group {
        answers.push(job(Ok(&mut *engine)));
    }
    let ended = engine.finish_group();
    for answer in answers {
        answer(&ended);
    }
}

#[cfg(test)]
mod tests;
