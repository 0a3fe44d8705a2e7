//! The background thread of all projects: embeds pending texts, saves and merges changes, verifies
//! and closes indexes.
//!
//! It yields to calls: it starts a small step only when no call runs, so a call waits for at most
//! one step. It holds no project's lock while it waits for the disk.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use reqlore_domain::error::{Error, Result};
use reqlore_domain::ports::embedder::TextRole;
use reqlore_domain::ports::search::IndexStatus;
use reqlore_domain::project_key::ProjectKey;

use crate::config::SearchConfig;
use crate::index_cost::IndexCost;
use crate::lock::lock;
use crate::project_cache::{ProjectCache, SharedProject};
use crate::semantic;
use crate::system::lower_thread_priority;

/// A project's changes are saved after this time without another change ...
const SAVE_DELAY: Duration = Duration::from_secs(2);
/// ... or after this time in any case.
const MAX_SAVE_DELAY: Duration = Duration::from_secs(30);
/// Maximum time that running calls delay the background work.
const MAX_YIELD: Duration = Duration::from_secs(1);

/// The state that calls and the background thread share.
pub(crate) struct SharedState {
    projects: ProjectCache,
    state: Mutex<WorkerState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct WorkerState {
    running_calls: usize,
    /// Projects that may have texts without a vector.
    with_texts: HashSet<ProjectKey>,
    /// Times of the first and of the last unsaved change.
    unsaved: HashMap<ProjectKey, (Instant, Instant)>,
    /// All projects that this process has opened.
    opened: HashSet<ProjectKey>,
    /// Projects whose committed files were not read since they were opened.
    unverified: HashSet<ProjectKey>,
    /// Projects that may have segments to merge.
    unmerged: HashSet<ProjectKey>,
    merge: MergeState,
    /// True after an index was opened, until no index exceeds the budget.
    may_exceed: bool,
    is_stopping: bool,
}

/// The merge of one project at a time.
#[derive(Debug, Default, PartialEq)]
enum MergeState {
    #[default]
    Idle,
    Running,
    /// It has ended, or another merge may start.
    Woken,
}

#[derive(Debug, PartialEq)]
enum WorkerTask {
    CloseExcess,
    EmbedBatch(ProjectKey),
    Save(ProjectKey),
    Verify(ProjectKey),
    BeginMerge(ProjectKey),
    ContinueMerge,
    Stop,
}

impl WorkerState {
    /// Returns the next task, or the time after which there may be one.
    fn next_task(
        &mut self,
        may_work: bool,
        now: Instant,
    ) -> std::result::Result<WorkerTask, Duration> {
        if self.is_stopping {
            return Ok(WorkerTask::Stop);
        }
        // First, even during calls: otherwise a call would have to close an index itself.
        if self.may_exceed {
            self.may_exceed = false;
            return Ok(WorkerTask::CloseExcess);
        }
        let mut timeout = MAX_SAVE_DELAY;
        let mut due_project = None;
        for (key, (first, last)) in &self.unsaved {
            // A steady stream of changes would otherwise postpone the save forever.
            let due = (*first + MAX_SAVE_DELAY).min(*last + SAVE_DELAY);
            let remaining = due.saturating_duration_since(now);
            if remaining.is_zero() {
                due_project = Some(key.clone());
            } else {
                timeout = timeout.min(remaining);
            }
        }
        if !may_work {
            // Tasks wait for calls; a timeout of zero would spin.
            return Err(timeout.min(MAX_YIELD));
        }
        if let Some(key) = due_project {
            self.unsaved.remove(&key);
            return Ok(WorkerTask::Save(key));
        }
        if self.merge == MergeState::Woken {
            self.merge = MergeState::Running;
            return Ok(WorkerTask::ContinueMerge);
        }
        if let Some(key) = take_any(&mut self.unverified) {
            return Ok(WorkerTask::Verify(key));
        }
        if self.merge == MergeState::Idle
            && let Some(key) = take_any(&mut self.unmerged)
        {
            self.merge = MergeState::Running;
            return Ok(WorkerTask::BeginMerge(key));
        }
        // Listed again after each batch, until the project has no pending text.
        if let Some(key) = take_any(&mut self.with_texts) {
            return Ok(WorkerTask::EmbedBatch(key));
        }
        Err(timeout)
    }
}

fn take_any(keys: &mut HashSet<ProjectKey>) -> Option<ProjectKey> {
    let key = keys.iter().next().cloned()?;
    keys.take(&key)
}

/// Wakes the thread when a merge is complete.
impl Wake for SharedState {
    fn wake(self: Arc<Self>) {
        lock(&self.state).merge = MergeState::Woken;
        self.wake.notify_all();
    }
}

impl SharedState {
    pub(crate) fn new(config: SearchConfig) -> Self {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Self { projects: ProjectCache::new(config), state, wake }
    }

    pub(crate) fn erase(&self, key: &ProjectKey) -> io::Result<()> {
        self.projects.erase(key)
    }

    pub(crate) fn status(&self) -> IndexStatus {
        self.projects.status()
    }

    pub(crate) fn cached_project(&self, key: &ProjectKey) -> Option<SharedProject> {
        self.projects.get(key)
    }

    /// Returns the project. Opening it reads its cache directory.
    pub(crate) fn project(&self, key: &ProjectKey) -> Result<SharedProject> {
        if let Some(project) = self.cached_project(key) {
            return Ok(project);
        }
        let (project, is_opened) = self.projects.get_or_open(key)?;
        let mut state = lock(&self.state);
        if is_opened {
            // The loaded index may have texts without a vector.
            state.with_texts.insert(key.clone());
            // Files are usually damaged while no server runs, so each process verifies them once.
            if state.opened.insert(key.clone()) {
                state.unverified.insert(key.clone());
            }
        }
        state.may_exceed = true;
        drop(state);
        self.wake.notify_all();
        Ok(project)
    }

    pub(crate) fn record_cost(&self, key: &ProjectKey, cost: IndexCost) {
        self.projects.update_cost(key, cost);
    }

    /// Schedules the embedding of texts without a vector.
    pub(crate) fn record_pending(&self, key: &ProjectKey) {
        lock(&self.state).with_texts.insert(key.clone());
        self.wake.notify_all();
    }

    /// The call ends when the guard is dropped.
    pub(crate) fn begin_call(&self) -> CallGuard<'_> {
        lock(&self.state).running_calls += 1;
        CallGuard(self)
    }

    /// Schedules the embedding and the saving of a change.
    pub(crate) fn record_change(&self, key: &ProjectKey) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.with_texts.insert(key.clone());
        state.unsaved.entry(key.clone()).or_insert((now, now)).1 = now;
        // Unlocked first, so that the thread does not wake only to wait for the lock.
        drop(state);
        self.wake.notify_all();
    }

    /// Schedules the saving of a completed build at once, because other processes wait for it.
    pub(crate) fn record_complete(&self, key: &ProjectKey) {
        if let Some((first, _)) = lock(&self.state).unsaved.get_mut(key) {
            *first = first.checked_sub(MAX_SAVE_DELAY).unwrap_or(*first);
        }
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
            let now = Instant::now();
            let is_idle = state.running_calls == 0;
            if is_idle {
                busy_since = None;
            }
            // A steady stream of calls must not postpone the work forever.
            let may_work =
                is_idle || now.duration_since(*busy_since.get_or_insert(now)) >= MAX_YIELD;
            let timeout = match state.next_task(may_work, now) {
                Ok(task) => return task,
                Err(timeout) => timeout,
            };
            let waited = self.wake.wait_timeout(state, timeout);
            let (woken, result) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            // A replaced index aborts its merge and does not wake the thread.
            if result.timed_out() && state.merge == MergeState::Running {
                state.merge = MergeState::Woken;
            }
        }
    }

    /// Embeds one batch of texts of the project.
    fn embed_batch(&self, key: &ProjectKey) {
        let Some(project) = self.projects.peek(key) else { return };
        let batch = lock(&project).next_batch();
        let Some(batch) = batch.unwrap_or_else(|error| warn_unfinished(&error)) else { return };
        let texts: Vec<&str> = batch.texts.iter().map(String::as_str).collect();
        // Without the lock, so that calls do not wait for a slow model.
        let result = semantic::embed_texts(&*batch.embedder, TextRole::Passage, &texts);
        lock(&project).store_batch(&batch, result);
        // The vectors must be saved too, and further batches may be pending.
        self.record_change(key);
    }

    /// Closes indexes one at a time, because each must be saved first.
    fn close_excess(&self) {
        if let Some((key, project)) = self.projects.take_excess() {
            lock(&self.state).may_exceed = true;
            self.save(&key, &project);
            drop(project);
            self.projects.finish_close(&key);
        }
    }

    fn save(&self, key: &ProjectKey, project: &SharedProject) {
        lock(&self.state).unsaved.remove(key);
        let mut index = lock(project);
        index.flush().unwrap_or_else(|error| warn_unfinished(&error));
        index.update_size();
        let (folder, cost) = (index.folder(), index.cost());
        drop(index);
        self.projects.update_cost(key, cost);
        // Without the project's lock, because a sync takes long.
        if let Some((folder, is_complete)) = folder {
            if let Err(error) = folder.mark_clean(is_complete) {
                let message = "search index: cannot be synced; the next start verifies it";
                tracing::info!(%error, message);
            }
            if is_complete {
                folder.unlock_build();
            }
        }
    }

    /// Reads the files of an index that was opened without a verification.
    fn verify(&self, key: &ProjectKey) {
        let Some(project) = self.projects.peek(key) else {
            // Closed meanwhile; the next opening verifies it.
            lock(&self.state).opened.remove(key);
            return;
        };
        let mut index = lock(&project);
        let files = index.files().unwrap_or_else(|error| warn_unfinished(&error));
        let folder = index.folder();
        drop(index);
        let Some((folder, _)) = folder else { return };
        for file in files {
            if lock(&self.state).is_stopping {
                return;
            }
            let Err(error) = folder.verify_file(&file) else { continue };
            lock(&project).replace_index(&error).unwrap_or_else(|error| warn_unfinished(&error));
            return;
        }
    }

    /// Starts or continues a merge. Returns the project while more merges may follow.
    fn merge(
        self: &Arc<Self>,
        merging: Option<(ProjectKey, SharedProject)>,
    ) -> Option<(ProjectKey, SharedProject)> {
        if let Some((key, project)) = merging {
            let waker = Waker::from(Arc::clone(self));
            let step = lock(&project).merge_step(&waker);
            if step.unwrap_or_else(|error| warn_unfinished(&error)) {
                return Some((key, project));
            }
            self.save(&key, &project);
            drop(project);
            self.projects.finish_close(&key);
        }
        lock(&self.state).merge = MergeState::Idle;
        None
    }

    fn record_saved(&self, key: ProjectKey) {
        let mut state = lock(&self.state);
        state.with_texts.insert(key.clone());
        state.unmerged.insert(key);
    }

    fn save_all(&self) {
        for (key, project) in self.projects.open_projects() {
            self.save(&key, &project);
        }
    }
}

fn warn_unfinished<T: Default>(error: &Error) -> T {
    tracing::warn!(%error, "search index: background work failed");
    T::default()
}

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

fn run_tasks(shared: &Arc<SharedState>) {
    // Embedding takes minutes of processor time and is never urgent.
    lower_thread_priority();
    // Keeps its project open until the merge ends.
    let mut merging = None;
    loop {
        match shared.next_task() {
            WorkerTask::CloseExcess => shared.close_excess(),
            WorkerTask::EmbedBatch(key) => shared.embed_batch(&key),
            WorkerTask::Save(key) => {
                if let Some(project) = shared.projects.peek(&key) {
                    shared.save(&key, &project);
                    // The changes are visible now, but their texts may have no vectors yet.
                    shared.record_saved(key);
                }
            }
            WorkerTask::Verify(key) => shared.verify(&key),
            WorkerTask::BeginMerge(key) => {
                let project = shared.projects.peek(&key);
                merging = shared.merge(project.map(|project| (key, project)));
            }
            WorkerTask::ContinueMerge => merging = shared.merge(merging.take()),
            WorkerTask::Stop => return shared.save_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ProjectKey {
        ProjectKey::new(format!("p-{number}"))
    }

    #[test]
    fn project_with_steady_changes_does_not_delay_others() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut state = WorkerState::default();
        state.unsaved.insert(key(0), (start, after(3)));
        state.unsaved.insert(key(1), (start, after(1)));
        assert_eq!(state.next_task(true, after(2)), Err(Duration::from_secs(1)));
        assert_eq!(state.next_task(true, after(3)), Ok(WorkerTask::Save(key(1))));
        assert_eq!(state.next_task(true, after(3)), Err(SAVE_DELAY));
        state.unsaved.insert(key(0), (start, after(30)));
        assert_eq!(state.next_task(true, after(30)), Ok(WorkerTask::Save(key(0))));
        assert_eq!(state.next_task(true, after(31)), Err(MAX_SAVE_DELAY));
    }

    #[test]
    fn running_calls_delay_all_tasks_but_closing() {
        let now = Instant::now();
        let mut state = WorkerState { may_exceed: true, ..WorkerState::default() };
        state.with_texts.insert(key(0));
        assert_eq!(state.next_task(false, now), Ok(WorkerTask::CloseExcess));
        assert_eq!(state.next_task(false, now), Err(MAX_YIELD));
        assert_eq!(state.next_task(true, now), Ok(WorkerTask::EmbedBatch(key(0))));
        state.is_stopping = true;
        assert_eq!(state.next_task(false, now), Ok(WorkerTask::Stop));
    }
}
