//! Log of the connections of one store: one line when the database is lost, one when it is back.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::errors::DatabaseError;

/// Minimum interval between warnings, so that intermittent failures do not flood the log.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct ConnectionLog {
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    /// The host of the last connection. `None` before the first one.
    address: Option<String>,
    /// True after a warning, until the next connection.
    is_lost: bool,
    last_warning: Option<Instant>,
}

impl ConnectionLog {
    pub(crate) fn connected(&self, address: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = state.address.as_deref().is_some_and(|earlier| earlier != address);
        if state.is_lost || is_other {
            info!(address, "connected to the database");
        }
        state.is_lost = false;
        if state.address.is_none() || is_other {
            state.address = Some(address.to_owned());
        }
    }

    /// Before the first connection, the caller reports the error.
    pub(crate) fn failed(&self, error: &DatabaseError) {
        let is_first = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.address.is_none()
        };
        if is_first {
            debug!(reason = error.operator_text(), "no connection to the database");
        } else {
            self.warn(error);
        }
    }

    pub(crate) fn warn(&self, error: &DatabaseError) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = state.last_warning.is_some_and(|at| at.elapsed() < WARNING_INTERVAL);
        if state.is_lost || is_recent {
            debug!(reason = error.operator_text(), "no connection to the database");
            return;
        }
        warn!(reason = error.operator_text(), "no connection to the database; trying again");
        state.is_lost = true;
        state.last_warning = Some(Instant::now());
    }
}
