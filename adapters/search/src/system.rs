//! Calls of the index that differ between operating systems.

/// The codes of an error without a free file descriptor.
#[cfg(unix)]
pub(crate) const OUT_OF_FILES: [i32; 2] =
    [rustix::io::Errno::MFILE.raw_os_error(), rustix::io::Errno::NFILE.raw_os_error()];
/// `ERROR_TOO_MANY_OPEN_FILES`.
#[cfg(windows)]
pub(crate) const OUT_OF_FILES: [i32; 1] = [4];

/// Lowers the priority of the calling thread, where a thread has its own.
pub(crate) fn lower_thread_priority() {
    /// The niceness of the thread; calls have 0.
    #[cfg(target_os = "linux")]
    const WORKER_NICE: i32 = 10;
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, WORKER_NICE) {
        tracing::debug!(%error, "search: the background thread keeps its normal priority");
    }
}
