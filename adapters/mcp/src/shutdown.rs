//! Shutdown of a transport by signals: the first one drains it, the second one ends it at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Two stages of a shutdown.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Accept no more requests, respond to the accepted ones, then end.
    pub finish: CancellationToken,
    /// End at once.
    pub abort: CancellationToken,
}

impl Shutdown {
    /// Replaces the default effect of SIGTERM, SIGINT and SIGHUP. Must run inside a Tokio runtime.
    /// With `ends_on_hangup` a closed terminal ends the server; otherwise SIGHUP is ignored.
    pub fn on_signals(ends_on_hangup: bool) -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let shutdown = Self::default();
        let stages = [shutdown.finish.clone(), shutdown.abort.clone()];
        tokio::spawn(async move {
            for stage in stages {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => break,
                        _ = interrupt.recv() => break,
                        _ = hang_up.recv() => if ends_on_hangup { break },
                    }
                }
                stage.cancel();
            }
        });
        Ok(shutdown)
    }
}
