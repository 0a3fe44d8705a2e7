//! The background thread of all projects, which embeds pending texts and saves.
//!
//! It yields to calls: before each small batch it waits until no call runs, so a call waits for one
//! batch at most.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use reqlore_domain::error::Result;
use reqlore_domain::ports::embedder::TextRole;
use reqlore_domain::project_key::ProjectKey;

use crate::Config;
use crate::project_cache::{ProjectCache, lock};
use crate::project_index::ProjectIndex;
use crate::semantic;

/// Changes are saved after this time without a change ...
const SAVE_DELAY: Duration = Duration::from_secs(2);
/// ... or after this time in any case.
const MAX_SAVE_DELAY: Duration = Duration::from_secs(30);
/// Maximum wait for a moment without calls.
const MAX_YIELD: Duration = Duration::from_secs(1);
/// The lower priority of this thread.
#[cfg(target_os = "linux")]
const WORKER_NICE: i32 = 10;

/// The state that calls and the thread share.
#[derive(Debug)]
pub(crate) struct SharedState {
    projects: ProjectCache,
    state: Mutex<WorkerState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct WorkerState {
    /// Number of running calls.
    running_calls: usize,
    /// Texts may be pending.
    has_pending_texts: bool,
    /// Times of the first and the last unsaved change.
    unsaved_since: Option<(Instant, Instant)>,
    is_stopping: bool,
}

enum WorkerTask {
    EmbedBatch,
    Save,
    Stop,
}

impl SharedState {
    pub(crate) fn new(config: Config) -> Self {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Self { projects: ProjectCache::new(config), state, wake }
    }

    pub(crate) fn open_project(&self, key: &ProjectKey) -> Option<Arc<Mutex<ProjectIndex>>> {
        self.projects.get(key)
    }

    /// The project; opening it reads its folder.
    pub(crate) fn project(&self, key: &ProjectKey) -> Result<Arc<Mutex<ProjectIndex>>> {
        if let Some(project) = self.open_project(key) {
            return Ok(project);
        }
        let project = self.projects.get_or_open(key)?;
        lock(&self.state).has_pending_texts = true;
        self.wake.notify_all();
        Ok(project)
    }

    /// A call runs until the result is dropped.
    pub(crate) fn begin_call(&self) -> CallGuard<'_> {
        lock(&self.state).running_calls += 1;
        CallGuard(self)
    }

    /// Records a change, to embed and to save.
    pub(crate) fn record_change(&self) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.has_pending_texts = true;
        state.unsaved_since = Some((state.unsaved_since.map_or(now, |(first, _)| first), now));
        drop(state);
        self.wake.notify_all();
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).is_stopping = true;
        self.wake.notify_all();
    }

    /// Waits for work and for a moment without calls.
    fn next_task(&self) -> WorkerTask {
        let mut state = lock(&self.state);
        let mut busy_since = None;
        loop {
            if state.is_stopping {
                return WorkerTask::Stop;
            }
            let now = Instant::now();
            let may = state.running_calls == 0
                || now.duration_since(*busy_since.get_or_insert(now)) >= MAX_YIELD;
            let due = state
                .unsaved_since
                .map(|(first, last)| (first + MAX_SAVE_DELAY).min(last + SAVE_DELAY));
            let rest = due.map(|due| due.saturating_duration_since(now));
            if may && rest.is_some_and(|rest| rest.is_zero()) {
                state.unsaved_since = None;
                return WorkerTask::Save;
            }
            if may && state.has_pending_texts {
                state.has_pending_texts = false;
                return WorkerTask::EmbedBatch;
            }
            if state.running_calls == 0 {
                busy_since = None;
            }
            let idle = rest.filter(|rest| !rest.is_zero()).unwrap_or(MAX_SAVE_DELAY);
            let until = if state.running_calls == 0 { idle } else { MAX_YIELD };
            let waited = self.wake.wait_timeout(state, until);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Embeds one batch of one project.
    fn embed_batch(&self) {
        for project in self.projects.open_projects() {
            let Some(batch) = lock(&project).next_batch() else { continue };
            let texts: Vec<&str> = batch.texts.iter().map(|text| &**text).collect();
            let result = semantic::embed_texts(&*batch.embedder, TextRole::Passage, &texts);
            lock(&project).store_batch(&batch, result);
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
        self.0.wake.notify_all();
    }
}

/// Starts the thread. Without it the index works and saves on drop only.
pub(crate) fn start_thread(shared: &Arc<SharedState>) -> Option<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name("search".to_owned()).spawn(move || run_tasks(&shared));
    thread.inspect_err(|error| tracing::error!(%error, "the search index has no thread")).ok()
}

fn run_tasks(shared: &SharedState) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, WORKER_NICE) {
        tracing::debug!(%error, "reading in the background at full priority");
    }
    loop {
        match shared.next_task() {
            WorkerTask::EmbedBatch => shared.embed_batch(),
            WorkerTask::Save => shared.save_all(),
            WorkerTask::Stop => return shared.save_all(),
        }
    }
}
