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
use crate::meaning;
use crate::project::Project;
use crate::projects::{Projects, lock};

/// Changes are saved after this time without a change ...
const QUIET: Duration = Duration::from_secs(2);
/// ... or after this time in any case.
const MAX_UNSAVED: Duration = Duration::from_secs(30);
/// Maximum wait for a moment without calls.
const MAX_YIELD: Duration = Duration::from_secs(1);
/// The lower priority of this thread.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// The state that calls and the thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    projects: Projects,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of running calls.
    calls: usize,
    /// Texts may be pending.
    work: bool,
    /// Times of the first and the last unsaved change.
    unsaved: Option<(Instant, Instant)>,
    stop: bool,
}

enum Turn {
    Read,
    Save,
    Stop,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Self { projects: Projects::new(config), state, wake }
    }

    pub(crate) fn opened(&self, key: &ProjectKey) -> Option<Arc<Mutex<Project>>> {
        self.projects.opened(key)
    }

    /// The project; opening it reads its folder.
    pub(crate) fn project(&self, key: &ProjectKey) -> Result<Arc<Mutex<Project>>> {
        if let Some(project) = self.opened(key) {
            return Ok(project);
        }
        let project = self.projects.open(key)?;
        lock(&self.state).work = true;
        self.wake.notify_all();
        Ok(project)
    }

    /// A call runs until the result is dropped.
    pub(crate) fn call(&self) -> Call<'_> {
        lock(&self.state).calls += 1;
        Call(self)
    }

    /// Records a change, to embed and to save.
    pub(crate) fn changed(&self) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.work = true;
        state.unsaved = Some((state.unsaved.map_or(now, |(first, _)| first), now));
        drop(state);
        self.wake.notify_all();
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).stop = true;
        self.wake.notify_all();
    }

    /// Waits for work and for a moment without calls.
    fn turn(&self) -> Turn {
        let mut state = lock(&self.state);
        let mut busy_since = None;
        loop {
            if state.stop {
                return Turn::Stop;
            }
            let now = Instant::now();
            let may =
                state.calls == 0 || now.duration_since(*busy_since.get_or_insert(now)) >= MAX_YIELD;
            let due = state.unsaved.map(|(first, last)| (first + MAX_UNSAVED).min(last + QUIET));
            let rest = due.map(|due| due.saturating_duration_since(now));
            if may && rest.is_some_and(|rest| rest.is_zero()) {
                state.unsaved = None;
                return Turn::Save;
            }
            if may && state.work {
                state.work = false;
                return Turn::Read;
            }
            if state.calls == 0 {
                busy_since = None;
            }
            let idle = rest.filter(|rest| !rest.is_zero()).unwrap_or(MAX_UNSAVED);
            let until = if state.calls == 0 { idle } else { MAX_YIELD };
            let waited = self.wake.wait_timeout(state, until);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Embeds one batch of one project.
    fn read(&self) {
        for project in self.projects.all() {
            let Some(batch) = lock(&project).next_batch() else { continue };
            let texts: Vec<&str> = batch.texts.iter().map(|text| &**text).collect();
            let result = meaning::embed(&*batch.embedder, TextRole::Passage, &texts);
            lock(&project).take_batch(&batch, result);
            self.changed();
            return;
        }
    }

    fn save(&self) {
        for project in self.projects.all() {
            lock(&project).save();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Shared);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).calls -= 1;
        self.0.wake.notify_all();
    }
}

/// Starts the thread. Without it the index works and saves on drop only.
pub(crate) fn start(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name("search".to_owned()).spawn(move || run(&shared));
    thread.inspect_err(|error| tracing::error!(%error, "the search index has no thread")).ok()
}

fn run(shared: &Shared) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "reading in the background at full priority");
    }
    loop {
        match shared.turn() {
            Turn::Read => shared.read(),
            Turn::Save => shared.save(),
            Turn::Stop => return shared.save(),
        }
    }
}
