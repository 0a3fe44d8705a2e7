//! Properties of standard output that only Linux offers.

#[cfg(target_os = "linux")]
use tokio::{io::Interest, net::unix::pipe};

/// Enlarges the pipe, so that a large response needs one write instead of steps of 64 KiB that each
/// wait for the client.
pub(crate) fn enlarge_output_pipe() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::pipe::fcntl_setpipe_size(std::io::stdout(), 1024 * 1024) {
        tracing::debug!(%error, "enlarging the pipe of standard output failed");
    }
}

/// Resolves when the client closes its end, also while nothing is being written. Never resolves on
/// systems that do not report it; there the next write fails.
pub(crate) async fn client_closed() {
    #[cfg(target_os = "linux")]
    if let Ok(output) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1")
        && output.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
