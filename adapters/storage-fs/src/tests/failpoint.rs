//! Plans the behavior of one failpoint of this thread.

use std::cell::{Cell, RefCell};
use std::io;

use super::FailPoint;

/// The planned behavior when a failpoint is hit for the n-th time, from 0.
pub(crate) enum Act {
    Abort,
    Fail,
    /// Fails, and fails again at this failpoint.
    FailAgainAt(FailPoint),
    /// Runs during the commit, like another program that takes no locks.
    Run(Box<dyn FnOnce()>),
}

thread_local! {
    pub(crate) static EXCHANGES: Cell<bool> = const { Cell::new(true) };
    /// Each look at a file returns another inode number, as on some FUSE, overlay and 9p mounts.
    pub(crate) static UNSTABLE_INODES: Cell<bool> = const { Cell::new(false) };
    static LOOKS: Cell<u64> = const { Cell::new(0) };
    static PLAN: RefCell<Option<(FailPoint, usize, Act)>> = const { RefCell::new(None) };
}

pub(crate) fn see_inode(inode: u64) -> u64 {
    if !UNSTABLE_INODES.get() {
        return inode;
    }
    LOOKS.set(LOOKS.get() + 1);
    LOOKS.get()
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
        Some((.., Act::FailAgainAt(next))) => {
            plan(next, 0, Act::Fail);
            Err(io::Error::other("failpoint"))
        }
        Some((.., Act::Run(act))) => {
            act();
            Ok(())
        }
    }
}
