//! How an operator ends a transport: the first signal drains it, the second ends it at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two stages of an end.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Take no more requests, answer the accepted ones, then end.
    pub finish: CancellationToken,
    /// End at once.
    pub abort: CancellationToken,
}

impl Shutdown {
    /// Replaces the signals' default effect on the process. Needs a runtime. A closed terminal ends
    /// a server for one client (`hang_up_ends`), but not a server for many.
    pub fn on_signals(hang_up_ends: bool) -> io::Result<Self> {
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
                        _ = hang_up.recv() => if hang_up_ends { break },
                    }
                }
                stage.cancel();
            }
        });
        Ok(shutdown)
    }
}
