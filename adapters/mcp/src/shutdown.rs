//! Shutdown of a transport by signals: the first one drains it, the second one ends it at once.

use std::io;

use tokio_util::sync::CancellationToken;

use crate::system::StopSignals;

/// Two stages of a shutdown.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Accept no more requests, respond to the accepted ones, then end.
    pub finish: CancellationToken,
    /// End at once.
    pub abort: CancellationToken,
}

impl Shutdown {
    /// Replaces the default effect of SIGTERM, SIGINT and SIGHUP; on Windows of Ctrl-C, Ctrl-Break
    /// and the end of the console, the session or the system. Must run inside a Tokio runtime.
    /// With `ends_on_hangup` a closed terminal ends the server; otherwise SIGHUP is ignored.
    pub fn on_signals(ends_on_hangup: bool) -> io::Result<Self> {
        // Registered before the task starts, so that no signal is missed.
        let mut signals = StopSignals::register()?;
        let shutdown = Self::default();
        let stages = [shutdown.finish.clone(), shutdown.abort.clone()];
        tokio::spawn(async move {
            for stage in stages {
                signals.next(ends_on_hangup).await;
                stage.cancel();
            }
        });
        Ok(shutdown)
    }
}
