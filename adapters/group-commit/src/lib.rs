//! Group commit: one writer thread with a queue; jobs that arrive during a sync share the next one.
//!
//! For databases with one writer at a time, where the sync costs more than everything else. No job
//! waits for a group to fill: a single job is a group of one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use tokio::sync::oneshot;

const MAX_GROUP_JOBS: usize = 64;

/// The write side of a database. After each error it must be ready for the next group.
pub trait Engine: Send + 'static {
    /// Begins a group.
    fn begin(&mut self) -> StoreResult<()>;

    /// Makes the group durable. After an error no job of the group is acknowledged. An engine that
    /// can't undo the group must reject all later writes.
    fn end(&mut self) -> StoreResult<()>;

    /// Undoes the current group after a panic.
    fn abort(&mut self);
}

/// Runs an engine on a thread. Dropping the writer waits until all queued jobs are done.
#[derive(Debug)]
pub struct Writer<E> {
    /// `None` only while the writer is dropped.
    queue: Option<Sender<QueuedJob<E>>>,
    thread: Option<JoinHandle<()>>,
}

/// Runs with the engine, or with the error if the group could not begin.
type QueuedJob<E> = Box<dyn FnOnce(StoreResult<&mut E>) -> Responder + Send>;

/// Sends the response to a job's caller. Gets the result of the group.
type Responder = Box<dyn FnOnce(&StoreResult<()>)>;

impl<E: Engine> Writer<E> {
    pub fn start(name: &str, mut engine: E) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let builder = std::thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || run_groups(&mut engine, &jobs))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Runs a job in a group and returns when the group is durable. A job that fails must undo its
    /// own changes; the other jobs take effect. A job runs even if its caller stops waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut E) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (sender, response) = oneshot::channel();
        let job = move |engine: StoreResult<&mut E>| -> Responder {
            let outcome = engine.and_then(work);
            Box::new(move |group_result| {
                // Failed jobs get the group's error too: they may have read changes of the group.
                let outcome = match group_result {
                    Ok(()) => outcome,
                    Err(error) => Err(error.clone_for_group()),
                };
                // The caller may have stopped waiting.
                let _ = sender.send(outcome);
            })
        };
        let Some(queue) = &self.queue else { return Err(writer_stopped()) };
        if queue.send(Box::new(job)).is_err() {
            return Err(writer_stopped());
        }
        match response.await {
            Ok(outcome) => outcome,
            Err(_) => Err(StoreError::Internal(
                "the writer stopped during the write; read the data again to see whether it was \
                 written"
                    .to_owned(),
            )),
        }
    }
}

fn writer_stopped() -> StoreError {
    StoreError::Internal("the writer has stopped; nothing was written".to_owned())
}

impl<E> Drop for Writer<E> {
    fn drop(&mut self) {
        // Closes the channel, which ends the thread after the last job.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // After a panic the callers have their errors already.
            let _ = thread.join();
        }
    }
}

/// Turns a panic of a commit's decision into an error, so that the writer continues.
pub fn catch_panic<T, E: From<StoreError>>(decide: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    match catch_unwind(AssertUnwindSafe(decide)) {
        Ok(outcome) => outcome,
        Err(_) => Err(StoreError::Internal("the decision panicked".to_owned()).into()),
    }
}

fn run_groups<E: Engine>(engine: &mut E, jobs: &Receiver<QueuedJob<E>>) {
    while let Ok(first) = jobs.recv() {
        let group: Vec<_> =
            std::iter::once(first).chain(jobs.try_iter()).take(MAX_GROUP_JOBS).collect();
        if catch_unwind(AssertUnwindSafe(|| run_group(engine, group))).is_err() {
            tracing::error!("the writer panicked; its current commits are rolled back");
            // A second panic here ends the thread, and all callers get an error.
            engine.abort();
        }
    }
}

/// Runs the jobs and responds to all callers when the group is durable. A panic drops the
/// responders, so the callers get an error.
fn run_group<E: Engine>(engine: &mut E, group: Vec<QueuedJob<E>>) {
    if let Err(error) = engine.begin() {
        for job in group {
            job(Err(error.clone_for_group()))(&Ok(()));
        }
        return;
    }
    let mut responders = Vec::new();
    for job in group {
        responders.push(job(Ok(&mut *engine)));
    }
    let group_result = engine.end();
    for respond in responders {
        respond(&group_result);
    }
}

#[cfg(test)]
mod tests;
