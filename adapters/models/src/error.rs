//! Errors of installing a model, with advice for the user.

use std::io;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name}: unknown model; known are {known}")]
    Unknown { name: String, known: String },

    #[error("{name}: another process is installing it; wait until it has finished")]
    Busy { name: String },

    #[error("{subject}: it has no {file}; pass a folder, a zip or a wheel with {files}")]
    Missing { subject: String, file: String, files: String },

    #[error(
        "{file}: wrong SHA-256 {actual}, expected {expected}; nothing was installed; try another \
         source"
    )]
    WrongHash { file: String, expected: String, actual: String },

    #[error(
        "{address}: the server returned status {status}; check the address or try another source"
    )]
    Status { address: String, status: u16 },

    #[error(
        "{address}: cannot connect ({why}); check the network or HTTPS_PROXY, or install from a \
         folder, a zip or a wheel"
    )]
    Unreachable { address: String, why: String },

    #[error("{file}: the connection was lost after {done} bytes ({why}); run it again to resume")]
    Cut { file: String, done: u64, why: String },

    #[error(
        "{address}: more than {max_bytes} bytes, so it is not this model; nothing was installed"
    )]
    TooLarge { address: String, max_bytes: u64 },

    #[error("{subject}: not a valid zip or wheel ({why}); try another source")]
    Archive { subject: String, why: String },

    #[error("{path}: cannot be {act} ({source}); check the folder's permissions and free space")]
    Io { path: String, act: &'static str, source: io::Error },
}

impl Error {
    /// Returns a function for `map_err`. `act` is a participle, such as `written`.
    pub(crate) fn io(path: &Path, act: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, act, source }
    }
}
