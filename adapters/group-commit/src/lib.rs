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
pub const MAX_GROUP_JOBS: usize = 64;

/// The writer's view of a database. After every error it must be ready for the next group.
pub trait GroupEngine: Send + 'static {
    /// The reads of a job, so that an engine can read for all jobs of a group at once.
    type ReadPlan: Default + Send + 'static;

    /// Begins a group.
    fn begin_group(&mut self, plans: &[&Self::ReadPlan]) -> StoreResult<()>;

    /// Adds jobs that arrived while the group began, for example while it waited for a lock.
    fn extend_group(&mut self, plans: &[&Self::ReadPlan]) {
        let _ = plans;
    }

    /// True if the group is large enough: its other jobs run in the next one.
    fn is_full(&self) -> bool {
        false
    }

    /// Makes the group durable. After an error no job of it is acknowledged. An engine that cannot
    /// undo the group must reject all later writes.
    fn finish_group(&mut self) -> StoreResult<GroupOutcome>;

    /// Undoes the current group after a panic.
    fn abort_group(&mut self);
}

/// The outcome of a group without an error of the whole group.
#[derive(Debug)]
pub enum GroupOutcome {
    Durable,
    /// Nothing was written, and the same jobs run again. Only for jobs of
    /// [`GroupWriter::run_repeatable`].
    Retry,
    /// Nothing was written because of this error, which one job may have caused: each job runs
    /// again in a group of its own. The error is that of a single job.
    RetryEachAlone(StoreError),
}

/// Runs an engine on its own thread. Dropping it writes all queued jobs and ends the thread.
#[derive(Debug)]
pub struct GroupWriter<E: GroupEngine> {
    queue: Option<Sender<Box<dyn WriteJob<E>>>>,
    thread: Option<JoinHandle<()>>,
}

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
        let mut work = Some(work);
        let once = move |engine: &mut E| match work.take() {
            Some(work) => work(engine),
            None => Err(StoreError::Internal("a write ran twice".to_owned())),
        };
        self.run_repeatable(E::ReadPlan::default(), once).await
    }

    /// Like [`Self::run`], for engines that repeat a group. Work may run several times. The result
    /// of the last attempt is returned.
    pub async fn run_repeatable<T: Send + 'static>(
        &self,
        plan: E::ReadPlan,
        work: impl FnMut(&mut E) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (sender, receiver) = oneshot::channel();
        let job = Box::new(QueuedJob { plan, work, outcome: None, sender });
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

impl<E: GroupEngine> Drop for GroupWriter<E> {
    fn drop(&mut self) {
        // Closes the channel, so the thread ends after the queued jobs.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported to the callers of its group.
            let _ = thread.join();
        }
    }
}

type JobGroup<E> = Vec<Box<dyn WriteJob<E>>>;

/// Work in the queue. The engine does not know the type of its result.
trait WriteJob<E: GroupEngine>: Send {
    fn plan(&self) -> &E::ReadPlan;
    fn run(&mut self, engine: &mut E);
    /// Sends the outcome to the caller. `group` is the outcome of the group.
    fn respond(self: Box<Self>, group: &StoreResult<()>);
}

struct QueuedJob<P, W, T> {
    plan: P,
    work: W,
    outcome: Option<StoreResult<T>>,
    sender: oneshot::Sender<StoreResult<T>>,
}

impl<E, W, T> WriteJob<E> for QueuedJob<E::ReadPlan, W, T>
where
    E: GroupEngine,
    W: FnMut(&mut E) -> StoreResult<T> + Send,
    T: Send,
{
    fn plan(&self) -> &E::ReadPlan {
        &self.plan
    }

    fn run(&mut self, engine: &mut E) {
        self.outcome = Some((self.work)(engine));
    }

    fn respond(self: Box<Self>, group: &StoreResult<()>) {
        // A refusal fails with its group: it may depend on changes of the group.
        let outcome = match (group, self.outcome) {
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => Err(StoreError::Internal("a write did not run".to_owned())),
            (Err(error), _) => Err(error.clone_for_group()),
        };
        // The caller may have stopped waiting.
        let _ = self.sender.send(outcome);
    }
}

/// Runs repeatable work as a group of its own, on the caller's thread.
pub fn run_alone<E: GroupEngine, T>(
    engine: &mut E,
    plan: &E::ReadPlan,
    mut work: impl FnMut(&mut E) -> StoreResult<T>,
) -> StoreResult<T> {
    loop {
        engine.begin_group(&[plan])?;
        let mut outcome = None;
        let finished = catch_panic(|| {
            outcome = Some(work(engine));
            engine.finish_group()
        });
        match finished.inspect_err(|_: &StoreError| engine.abort_group())? {
            GroupOutcome::Durable => {}
            GroupOutcome::Retry => continue,
            GroupOutcome::RetryEachAlone(error) => return Err(error),
        }
        return outcome.unwrap_or_else(|| Err(StoreError::Internal("no outcome".to_owned())));
    }
}

/// Turns a panic of a decision into an error of its commit, so that the writer continues.
pub fn catch_panic<T, E: From<StoreError>>(decide: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    match catch_unwind(AssertUnwindSafe(decide)) {
        Ok(result) => result,
        Err(_) => Err(StoreError::Internal("the decision panicked".to_owned()).into()),
    }
}

fn run_writer<E: GroupEngine>(engine: &mut E, jobs: &Receiver<Box<dyn WriteJob<E>>>) {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        collect_jobs(&mut group, jobs);
        let run = || run_group(engine, group, Some(jobs));
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            tracing::error!("the writer panicked; its current group is rolled back");
            // A second panic ends the thread, and all later callers get an error.
            engine.abort_group();
        }
    }
}

/// Adds jobs that are queued already: waiting for more would delay the first.
fn collect_jobs<E: GroupEngine>(group: &mut JobGroup<E>, jobs: &Receiver<Box<dyn WriteJob<E>>>) {
    while group.len() < MAX_GROUP_JOBS
        && let Ok(job) = jobs.try_recv()
    {
        group.push(job);
    }
}

/// Answers all callers after the group is durable. A panic drops the jobs, and each caller gets
/// an error.
fn run_group<E: GroupEngine>(
    engine: &mut E,
    mut group: JobGroup<E>,
    jobs: Option<&Receiver<Box<dyn WriteJob<E>>>>,
) {
    while !group.is_empty() {
        let (attempt, count) = attempt_group(engine, &mut group, jobs);
        let rest = match attempt {
            Ok(GroupOutcome::Retry) => continue,
            _ => group.split_off(count),
        };
        match attempt {
            Ok(GroupOutcome::RetryEachAlone(_)) if count > 1 => {
                for job in group {
                    run_group(engine, vec![job], None);
                }
            }
            Ok(GroupOutcome::RetryEachAlone(error)) | Err(error) => respond(group, &Err(error)),
            Ok(GroupOutcome::Durable | GroupOutcome::Retry) => respond(group, &Ok(())),
        }
        group = rest;
    }
}

fn respond<E: GroupEngine>(group: JobGroup<E>, outcome: &StoreResult<()>) {
    for job in group {
        job.respond(outcome);
    }
}

/// Runs jobs until the engine is full. Returns the outcome and the number of jobs that have it.
fn attempt_group<E: GroupEngine>(
    engine: &mut E,
    group: &mut JobGroup<E>,
    jobs: Option<&Receiver<Box<dyn WriteJob<E>>>>,
) -> (StoreResult<GroupOutcome>, usize) {
    if let Err(error) = engine.begin_group(&plans_of(group)) {
        return (Err(error), group.len());
    }
    let begun = group.len();
    if let Some(jobs) = jobs {
        collect_jobs(group, jobs);
    }
    if group.len() > begun {
        engine.extend_group(&plans_of(&group[begun..]));
    }
    let mut count = 0;
    while count < group.len() && (count == 0 || !engine.is_full()) {
        group[count].run(engine);
        count += 1;
    }
    (engine.finish_group(), count)
}

fn plans_of<E: GroupEngine>(group: &[Box<dyn WriteJob<E>>]) -> Vec<&E::ReadPlan> {
    group.iter().map(|job| job.plan()).collect()
}

#[cfg(test)]
mod tests;
