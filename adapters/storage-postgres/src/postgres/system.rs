//! Rights of files that hold a secret, and sockets of this machine.

use std::fs::Metadata;

use tokio_postgres::config::Host;

/// Windows has none.
pub(crate) fn is_socket(host: &Host) -> bool {
    #[cfg(unix)]
    return matches!(host, Host::Unix(_));
    #[cfg(windows)]
    return !matches!(host, Host::Tcp(_));
}

/// The group may read a file of root, which is how containers mount secrets.
#[cfg(unix)]
pub(crate) fn is_readable_by_others(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    metadata.mode() & forbidden != 0
}

/// Unknown on Windows, where libpq does not check it either.
#[cfg(windows)]
pub(crate) fn is_readable_by_others(_: &Metadata) -> bool {
    false
}
