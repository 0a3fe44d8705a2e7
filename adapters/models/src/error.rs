//! What can go wrong with a model, as sentences that say what to do next.

use std::io;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no model is called {name}; known are {known}")]
    Unknown { name: String, known: String },

    #[error("{name} is being installed by another process; wait until it has ended")]
    Busy { name: String },

    #[error("{place} has no {file}; give a folder, a zip or a wheel that holds {files}")]
    Missing { place: String, file: String, files: String },

    #[error(
        "{file} is not the file that is known: its SHA-256 is {actual}, expected was {expected}. \
         It was removed and nothing was installed; try another source"
    )]
    WrongHash { file: String, expected: String, actual: String },

    #[error("{address} answered with status {status}; check the address, or try another source")]
    Status { address: String, status: u16 },

    #[error(
        "{address} can't be reached ({why}); check the connection or HTTPS_PROXY, or install from \
         a folder, a zip or a wheel"
    )]
    Unreachable { address: String, why: String },

    #[error("the connection was cut after {done} bytes of {file} ({why}); run it again to resume")]
    Cut { file: String, done: u64, why: String },

    #[error("{address} sends more than {most} bytes, so it is not this model; nothing was kept")]
    TooLarge { address: String, most: u64 },

    #[error("{place} can't be read as a zip or a wheel ({why}); try another source")]
    Archive { place: String, why: String },

    #[error("{path} can't be {act} ({source}); see to its folder's permissions and free space")]
    Io { path: String, act: &'static str, source: io::Error },
}

impl Error {
    /// For `map_err`: what was being done to `path` when the system refused.
    pub(crate) fn io(path: &Path, act: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, act, source }
    }
}
