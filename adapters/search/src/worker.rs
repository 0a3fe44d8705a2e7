//! The background thread of all projects: embeds pending texts and saves changes.
//!
//! It yields to calls: it starts a small batch only when no call runs, so a call waits for at most
//! one batch.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use reqlore_domain::error::Result;
use reqlore_domain::ports::embedder::TextRole;
use reqlore_domain::project_key::ProjectKey;

use crate::SearchConfig;
use crate::project_cache::{ProjectCache, lock};
use crate::project_index::ProjectIndex;
use crate::semantic;

/// Changes are saved after this time without another change ...
const SAVE_DELAY: Duration = Duration::from_secs(2);
/// ... or after this time in any case.
const MAX_SAVE_DELAY: Duration = Duration::from_secs(30);
/// Maximum time that running calls delay the background work.
const MAX_YIELD: Duration = Duration::from_secs(1);
/// The niceness of the thread; calls have 0.
#[cfg(target_os = "linux")]
const WORKER_NICE: i32 = 10;

/// The state that calls and the background thread share.
#[derive(Debug)]
pub(crate) struct SharedState {
    projects: ProjectCache,
    state: Mutex<WorkerState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct WorkerState {
    running_calls: usize,
    /// True if texts may wait for their embedding.
    has_pending_texts: bool,
    /// Times of the first and of the last unsaved change.
    unsaved_times: Option<(Instant, Instant)>,
    is_stopping: bool,
}

enum WorkerTask {
    EmbedBatch,
    Save,
    Stop,
}

impl SharedState {
    pub(crate) fn new(config: SearchConfig) -> Self {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Self { projects: ProjectCache::new(config), state, wake }
    }

    pub(crate) fn cached_project(&self, key: &ProjectKey) -> Option<Arc<Mutex<ProjectIndex>>> {
        self.projects.get(key)
    }

    /// Returns the project. Opening it reads its cache directory.
    pub(crate) fn project(&self, key: &ProjectKey) -> Result<Arc<Mutex<ProjectIndex>>> {
        if let Some(project) = self.cached_project(key) {
            return Ok(project);
        }
        let project = self.projects.get_or_open(key)?;
        // The loaded index may have texts without a vector.
        lock(&self.state).has_pending_texts = true;
        self.wake.notify_all();
        Ok(project)
    }

    /// The call ends when the guard is dropped.
    pub(crate) fn begin_call(&self) -> CallGuard<'_> {
        lock(&self.state).running_calls += 1;
        CallGuard(self)
    }

    /// Schedules the embedding and the saving of a change.
    pub(crate) fn record_change(&self) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.has_pending_texts = true;
        let first = match state.unsaved_times {
            Some((first, _)) => first,
            None => now,
        };
        state.unsaved_times = Some((first, now));
        // Unlocked first, so that the thread does not wake only to wait for the lock.
        drop(state);
        self.wake.notify_all();
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).is_stopping = true;
        self.wake.notify_all();
    }

    /// Waits until there is a task and calls allow it.
    fn next_task(&self) -> WorkerTask {
        let mut state = lock(&self.state);
        let mut busy_since = None;
        loop {
            if state.is_stopping {
                return WorkerTask::Stop;
            }
            let now = Instant::now();
            let is_idle = state.running_calls == 0;
            if is_idle {
                busy_since = None;
            }
            // A steady stream of calls must not postpone the work forever.
            let may_work =
                is_idle || now.duration_since(*busy_since.get_or_insert(now)) >= MAX_YIELD;
            let mut timeout = MAX_SAVE_DELAY;
            if let Some((first, last)) = state.unsaved_times {
                // A steady stream of changes would otherwise postpone the save forever.
                let due = (first + MAX_SAVE_DELAY).min(last + SAVE_DELAY);
                let remaining = due.saturating_duration_since(now);
                if may_work && remaining.is_zero() {
                    state.unsaved_times = None;
                    return WorkerTask::Save;
                }
                // A save that is due waits for calls; a timeout of zero would spin.
                if !remaining.is_zero() {
                    timeout = remaining;
                }
            }
            if may_work && state.has_pending_texts {
                // Set again after each batch, until no project has a pending text.
                state.has_pending_texts = false;
                return WorkerTask::EmbedBatch;
            }
            if !is_idle {
                timeout = MAX_YIELD;
            }
            let waited = self.wake.wait_timeout(state, timeout);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Embeds one batch of one project.
    fn embed_batch(&self) {
        for project in self.projects.open_projects() {
            let Some(batch) = lock(&project).next_batch() else { continue };
            let texts: Vec<&str> = batch.texts.iter().map(|text| &**text).collect();
            // Without the lock, so that calls do not wait for a slow model.
            let result = semantic::embed_texts(&*batch.embedder, TextRole::Passage, &texts);
            lock(&project).store_batch(&batch, result);
            // The vectors must be saved too, and further batches may be pending.
            self.record_change();
            return;
        }
    }

    fn save_all(&self) {
        for project in self.projects.open_projects() {
            lock(&project).save();
        }
    }
}

#[derive(Debug)]
pub(crate) struct CallGuard<'a>(&'a SharedState);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).running_calls -= 1;
        // The thread may be waiting until no call runs.
        self.0.wake.notify_all();
    }
}

/// Starts the thread. `None` if that fails; then no text is embedded in the background, and changes
/// are saved only when the index is dropped.
pub(crate) fn start_thread(shared: &Arc<SharedState>) -> Option<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let builder = thread::Builder::new().name("search".to_owned());
    match builder.spawn(move || run_tasks(&shared)) {
        Ok(thread) => Some(thread),
        Err(error) => {
            tracing::error!(%error, "search: no background thread; changes are saved at shutdown");
            None
        }
    }
}

fn run_tasks(shared: &SharedState) {
    // Embedding takes minutes of processor time and is never urgent.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, WORKER_NICE) {
        tracing::debug!(%error, "search: the background thread keeps its normal priority");
    }
    loop {
        match shared.next_task() {
            WorkerTask::EmbedBatch => shared.embed_batch(),
            WorkerTask::Save => shared.save_all(),
            WorkerTask::Stop => return shared.save_all(),
        }
    }
}
