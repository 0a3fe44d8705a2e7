//! Plans the behavior of one failpoint of this thread.

use std::cell::{Cell, RefCell};
use std::io;

use super::FailPoint;

/// The planned behavior when a failpoint is hit for the n-th time, from 0.
pub(crate) enum Act {
    Abort,
    Fail,
    /// Runs during the commit, like another program that takes no locks.
    Run(Box<dyn FnOnce()>),
}

thread_local! {
    pub(crate) static EXCHANGES: Cell<bool> = const { Cell::new(true) };
    static PLAN: RefCell<Option<(FailPoint, usize, Act)>> = const { RefCell::new(None) };
}

pub(crate) fn plan(step: FailPoint, times: usize, act: Act) {
    PLAN.set(Some((step, times, act)));
}

pub(crate) fn clear_plan() {
    PLAN.take();
}

pub(crate) fn hit_failpoint(step: FailPoint) -> io::Result<()> {
    let is_due = PLAN.with_borrow_mut(|plan| match plan {
        Some((at, times, _)) if *at == step => {
            let is_due = *times == 0;
            *times = times.saturating_sub(1);
            is_due
        }
        _ => false,
    });
    let planned = if is_due { PLAN.take() } else { None };
    match planned {
        None => Ok(()),
        Some((.., Act::Abort)) => std::process::abort(),
        Some((.., Act::Fail)) => Err(io::Error::other("failpoint")),
        Some((.., Act::Run(act))) => {
            act();
            Ok(())
        }
    }
}
