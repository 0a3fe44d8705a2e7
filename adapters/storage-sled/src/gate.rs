//! Who may look and who may write: many look, one writes, never both.
//!
//! The trap: a copy of everything may last for minutes. It holds the writer off, but a writer that
//! waits for it must not keep others from looking; one that waits for a short look must, or it
//! would never get in.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    /// How long the writer waits to get in.
    patience: Duration,
}

#[derive(Debug, Default)]
struct State {
    looks: usize,
    copies: usize,
    writing: bool,
    writer_waits: bool,
}

impl State {
    fn may_look(&self) -> bool {
        !self.writing && (self.copies > 0 || !self.writer_waits)
    }
}

/// Nothing is written while this lives.
#[derive(Debug)]
pub(crate) struct Looking {
    gate: Arc<Gate>,
    copying: bool,
}

impl Gate {
    pub(crate) fn new(patience: Duration) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { state, changed, patience })
    }

    /// Looks at once, or not at all.
    pub(crate) fn try_look(self: &Arc<Self>) -> Option<Looking> {
        let mut state = self.state();
        state.may_look().then(|| {
            state.looks += 1;
            Looking { gate: Arc::clone(self), copying: false }
        })
    }

    pub(crate) fn look(self: &Arc<Self>) -> Looking {
        let state = self.state();
        let wait = self.changed.wait_while(state, |state| !state.may_look());
        wait.unwrap_or_else(PoisonError::into_inner).looks += 1;
        Looking { gate: Arc::clone(self), copying: false }
    }

    /// A look that may last.
    pub(crate) fn copy(self: &Arc<Self>) -> Looking {
        let state = self.state();
        let wait = self.changed.wait_while(state, |state| state.writing);
        wait.unwrap_or_else(PoisonError::into_inner).copies += 1;
        Looking { gate: Arc::clone(self), copying: true }
    }

    /// Begins to write; false when the others took too long.
    #[must_use]
    pub(crate) fn write(&self) -> bool {
        let mut state = self.state();
        state.writer_waits = true;
        let busy = |state: &mut State| state.looks + state.copies > 0;
        let wait = self.changed.wait_timeout_while(state, self.patience, busy);
        let (mut state, waited) = wait.unwrap_or_else(PoisonError::into_inner);
        state.writer_waits = false;
        state.writing = !waited.timed_out();
        if waited.timed_out() {
            self.changed.notify_all();
        }
        state.writing
    }

    pub(crate) fn written(&self) {
        self.state().writing = false;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if self.copying {
            state.copies -= 1;
        } else {
            state.looks -= 1;
        }
        let wake = state.writer_waits;
        drop(state);
        if wake {
            self.gate.changed.notify_all();
        }
    }
}
