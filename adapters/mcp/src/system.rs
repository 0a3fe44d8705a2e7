//! Signals of the operating system that stop a server.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows;

#[cfg(unix)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

#[cfg(unix)]
impl StopSignals {
    pub(crate) fn register() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves at the next signal. SIGHUP counts only with `ends_on_hangup`.
    pub(crate) async fn next(&mut self, ends_on_hangup: bool) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hang_up.recv() => if ends_on_hangup { break },
            }
        }
    }
}

#[cfg(windows)]
pub(crate) struct StopSignals {
    interrupt: windows::CtrlC,
    break_key: windows::CtrlBreak,
    close: windows::CtrlClose,
    log_off: windows::CtrlLogoff,
    shut_down: windows::CtrlShutdown,
}

#[cfg(windows)]
impl StopSignals {
    pub(crate) fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: windows::ctrl_c()?,
            break_key: windows::ctrl_break()?,
            close: windows::ctrl_close()?,
            log_off: windows::ctrl_logoff()?,
            shut_down: windows::ctrl_shutdown()?,
        })
    }

    /// Resolves at the next signal. Windows ends the process soon after a console is closed, so
    /// that signal always counts. A service receives the log-off of any user, which counts only
    /// with `ends_on_hangup`.
    pub(crate) async fn next(&mut self, ends_on_hangup: bool) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => break,
                _ = self.break_key.recv() => break,
                _ = self.close.recv() => break,
                _ = self.log_off.recv() => if ends_on_hangup { break },
                _ = self.shut_down.recv() => break,
            }
        }
    }
}
