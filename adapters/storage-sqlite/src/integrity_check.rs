//! Checks the whole database in the background, once per start.
//!
//! The check reads every page. After a clean end it waits, so that short sessions never pay for it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use reqlore_sqlite_team::connection::BUSY_PAUSE;
use rusqlite::{ErrorCode, InterruptHandle};

use crate::connection::{ConnectionUse, Connector};

/// The delay after a clean end.
const CHECK_DELAY: Duration = Duration::from_secs(600);

/// A running check; dropping it ends it.
pub(crate) struct IntegrityCheck {
    stop: Option<Sender<()>>,
    interrupt: Arc<OnceLock<InterruptHandle>>,
    thread: Option<JoinHandle<()>>,
}

impl IntegrityCheck {
    pub(crate) fn start(
        connector: Connector,
        was_unclean: bool,
        damaged: Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let interrupt = Arc::new(OnceLock::new());
        let handle = Arc::clone(&interrupt);
        let thread = std::thread::Builder::new().name("sqlite-check".to_owned());
        let thread = thread.spawn(move || {
            let delay = if was_unclean { Duration::ZERO } else { CHECK_DELAY };
            if stopped.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                run_check(&connector, &handle, &stopped, &damaged);
            }
        })?;
        Ok(Self { stop: Some(stop), interrupt, thread: Some(thread) })
    }
}

impl fmt::Debug for IntegrityCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").finish_non_exhaustive()
    }
}

impl Drop for IntegrityCheck {
    fn drop(&mut self) {
        self.stop = None;
        let Some(thread) = self.thread.take() else { return };
        // An interrupt before the statement begins has no effect, so it is repeated.
        while !thread.is_finished() {
            if let Some(interrupt) = self.interrupt.get() {
                interrupt.interrupt();
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }
}

fn run_check(
    connector: &Connector,
    handle: &OnceLock<InterruptHandle>,
    stopped: &Receiver<()>,
    damaged: &AtomicBool,
) {
    let checked = connector.open(ConnectionUse::Read).and_then(|connection| {
        let _ = handle.set(connection.get_interrupt_handle());
        if stopped.try_recv() == Err(TryRecvError::Disconnected) {
            return Ok("ok".to_owned());
        }
        connection.query_one("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    let found = match checked {
        Ok(found) if found == "ok" => return,
        Ok(found) => found,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            error.to_string()
        }
        Err(error) => {
            tracing::debug!(%error, "the database was not checked");
            return;
        }
    };
    damaged.store(true, Ordering::Relaxed);
    tracing::error!(
        found,
        "the database is damaged: nothing is written to it any more, what can be read is read; get \
         it back from a backup with `reqlore restore`"
    );
}
