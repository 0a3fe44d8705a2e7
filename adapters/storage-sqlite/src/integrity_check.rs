//! Background integrity check of the whole database, once per start.
//!
//! The check reads every page. After a clean shutdown it is delayed, so that short sessions do not
//! run it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use reqlore_sqlite_team::connection::BUSY_PAUSE;
use reqlore_sqlite_team::error::RESTORE_HINT;
use rusqlite::{ErrorCode, InterruptHandle};

use crate::connection::{ConnectionUse, Connector};

/// Delay after a clean shutdown.
const CHECK_DELAY: Duration = Duration::from_secs(600);

/// A running check. Dropping it stops the check.
pub(crate) struct IntegrityCheck {
    stop: Option<Sender<()>>,
    interrupt: Arc<OnceLock<InterruptHandle>>,
    thread: Option<JoinHandle<()>>,
}

impl IntegrityCheck {
    pub(crate) fn start(
        connector: Connector,
        was_unclean: bool,
        is_damaged: Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let interrupt = Arc::new(OnceLock::new());
        let handle = Arc::clone(&interrupt);
        let thread = std::thread::Builder::new().name("sqlite-check".to_owned());
        let thread = thread.spawn(move || {
            // A crash may have damaged the file, so its check does not wait.
            let delay = if was_unclean { Duration::ZERO } else { CHECK_DELAY };
            if stopped.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                run_check(&connector, &handle, &stopped, &is_damaged);
            }
        })?;
        Ok(Self { stop: Some(stop), interrupt, thread: Some(thread) })
    }
}

impl fmt::Debug for IntegrityCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntegrityCheck").finish_non_exhaustive()
    }
}

impl Drop for IntegrityCheck {
    fn drop(&mut self) {
        // Dropping the sender ends a check that still waits.
        self.stop = None;
        let Some(thread) = self.thread.take() else { return };
        // An interrupt before the start of the statement has no effect, so it is repeated.
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
    is_damaged: &AtomicBool,
) {
    let damage = match find_damage(connector, handle, stopped) {
        Ok(None) => return,
        Ok(Some(damage)) => damage,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            error.to_string()
        }
        // Also an interrupted check.
        Err(error) => {
            tracing::debug!(%error, "the database was not checked");
            return;
        }
    };
    is_damaged.store(true, Ordering::Relaxed);
    tracing::error!(damage, "the database is damaged, so writes are disabled; {RESTORE_HINT}");
}

/// Returns the first damage, or `None` if there is none or the check was stopped.
fn find_damage(
    connector: &Connector,
    handle: &OnceLock<InterruptHandle>,
    stopped: &Receiver<()>,
) -> rusqlite::Result<Option<String>> {
    let connection = connector.open(ConnectionUse::Read)?;
    let _ = handle.set(connection.get_interrupt_handle());
    // A stop before the handle was set could not interrupt the statement.
    if stopped.try_recv() == Err(TryRecvError::Disconnected) {
        return Ok(None);
    }
    // One damage is enough to disable writes, so the check ends at the first.
    let result: String = connection.query_one("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(if result == "ok" { None } else { Some(result) })
}
