//! Exit codes, and the error that ends a command.

use std::fmt;

use reqlore_domain::error::{Error, ErrorKind};

/// The command succeeded.
pub(crate) const EXIT_OK: u8 = 0;
/// An operation failed, or a check found problems.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line or a setting is invalid.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Ends a command: `message` is printed on stderr unless it is empty, `code` becomes the exit code.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) code: u8,
    pub(crate) message: String,
}

/// The result of a command, or of a part of it.
pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

impl CommandError {
    pub(crate) fn usage_error(message: impl Into<String>) -> Self {
        Self { code: EXIT_USAGE, message: message.into() }
    }

    pub(crate) fn failure(message: impl fmt::Display) -> Self {
        Self { code: EXIT_FAILED, message: message.to_string() }
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        match error.kind {
            // The argument came from the command line.
            ErrorKind::InvalidArgument => Self::usage_error(error.message),
            _ => Self::failure(error.message),
        }
    }
}
