//! Group commit for databases with one writer: jobs that arrive during a sync share the next one.
//!
//! A sync costs more than all other work. No job waits for a group to fill: a single job is a group
//! of one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use tokio::sync::oneshot;

/// Maximum number of jobs in a group.
const MAX_GROUP_JOBS: usize = 64;

/// The writer's view of a database. After every error it must be ready for the next group.
pub trait GroupEngine: Send + 'static {
    /// Begins a group.
    fn begin_group(&mut self) -> StoreResult<()>;

    /// Makes the group durable. After an error no job of it is acknowledged. An engine that cannot
    /// undo the group must reject all later writes.
    fn finish_group(&mut self) -> StoreResult<()>;

    /// Undoes the current group after a panic.
    fn abort_group(&mut self);
}

/// Runs an engine on its own thread. Dropping it writes all queued jobs and ends the thread.
#[derive(Debug)]
pub struct GroupWriter<E> {
    queue: Option<Sender<WriteJob<E>>>,
    thread: Option<JoinHandle<()>>,
}

/// Runs on the engine of a group, or receives the error of a group that could not begin.
type WriteJob<E> = Box<dyn FnOnce(StoreResult<&mut E>) -> JobAnswer + Send>;

/// Sends the outcome to the caller of a job. Its argument is the outcome of the group.
type JobAnswer = Box<dyn FnOnce(&StoreResult<()>)>;

impl<E: GroupEngine> GroupWriter<E> {
    pub fn start(name: &str, mut engine: E) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run_writer(&mut engine, &jobs))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Runs work in a group and returns when the group is durable. Work that fails must undo
    /// itself; the other jobs of the group take effect. Work runs even if its caller stops waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut E) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (sender, receiver) = oneshot::channel();
        let job: WriteJob<E> = Box::new(move |engine| {
            let outcome = engine.and_then(work);
            Box::new(move |group| {
                // A refusal fails with its group: it may depend on changes of the group.
                let outcome = match group {
                    Ok(()) => outcome,
                    Err(error) => Err(error.clone_for_group()),
                };
                // The caller may have stopped waiting.
                let _ = sender.send(outcome);
            })
        });
        let is_queued = match &self.queue {
            Some(queue) => queue.send(job).is_ok(),
            None => false,
        };
        if !is_queued {
            let message = "the writer has ended; nothing was written";
            return Err(StoreError::Internal(message.to_owned()));
        }
        let Ok(outcome) = receiver.await else {
            let message = "the writer panicked; read the documents to see whether it wrote them";
            return Err(StoreError::Internal(message.to_owned()));
        };
        outcome
    }
}

impl<E> Drop for GroupWriter<E> {
    fn drop(&mut self) {
        // Closes the channel, so the thread ends after the queued jobs.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported to the callers of its group.
            let _ = thread.join();
        }
    }
}

/// Turns a panic of a decision into an error of its commit, so that the writer continues.
pub fn catch_panic<T, E: From<StoreError>>(decide: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    match catch_unwind(AssertUnwindSafe(decide)) {
        Ok(result) => result,
        Err(_) => Err(StoreError::Internal("the decision panicked".to_owned()).into()),
    }
}

fn run_writer<E: GroupEngine>(engine: &mut E, jobs: &Receiver<WriteJob<E>>) {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        // Only jobs that are queued already: waiting for more would delay the first.
        while group.len() < MAX_GROUP_JOBS
            && let Ok(job) = jobs.try_recv()
        {
            group.push(job);
        }
        if catch_unwind(AssertUnwindSafe(|| run_group(engine, group))).is_err() {
            tracing::error!("the writer panicked; its current group is rolled back");
            // A second panic ends the thread, and all later callers get an error.
            engine.abort_group();
        }
    }
}

/// Answers all callers after the group is durable. A panic drops the answers, and each caller gets
/// an error.
fn run_group<E: GroupEngine>(engine: &mut E, group: Vec<WriteJob<E>>) {
    if let Err(error) = engine.begin_group() {
        for job in group {
            // The job itself has the error, which the group's outcome must not replace.
            job(Err(error.clone_for_group()))(&Ok(()));
        }
        return;
    }
    let mut answers = Vec::new();
    for job in group {
        answers.push(job(Ok(&mut *engine)));
    }
    let outcome = engine.finish_group();
    for answer in answers {
        answer(&outcome);
    }
}

#[cfg(test)]
mod tests;
