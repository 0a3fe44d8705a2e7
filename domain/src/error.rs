//! The error of a call: the problem and the fix.
//!
//! `message` is for the caller and never contains an absolute path or a secret. `source` is only
//! logged.

use std::backtrace::Backtrace;
use std::fmt;

use crate::bounded_types::named_enum;

named_enum! {
    /// The kind of an error. Its name is stable: clients and the audit log use it. The protocol
    /// adapter maps it to a code.
    ErrorKind {
        /// An argument is missing, unknown, of the wrong type or outside its bounds.
        InvalidArgument = "invalid_argument",
        UnknownTool = "unknown_tool",
        NotFound = "not_found",
        /// The document is not at the version the caller expected; nothing was changed.
        Conflict = "conflict",
        /// The change would break a rule of the product; nothing was changed.
        Refused = "refused",
        Forbidden = "forbidden",
        /// A resource is in use; nothing was changed, and a retry may work.
        Busy = "busy",
        /// The storage can't be read or written (permissions, space, read-only).
        Unavailable = "storage_unavailable",
        /// The caller cancelled the call; committed changes stay.
        Cancelled = "cancelled",
        /// Stored content is invalid (not text, too large).
        Unreadable = "unreadable",
        /// A bug. The caller gets a correlation id; only the log has the details.
        Internal = "internal",
    }
}

/// The error of a call.
#[derive(Debug)]
pub struct Error {
    pub kind: ErrorKind,
    /// The problem and the fix, in sentences.
    pub message: String,
    /// The invalid argument.
    pub field: Option<String>,
    /// The section, index or reference that the message concerns.
    pub reference: Option<String>,
    /// The fix, if the text of `message` is specified.
    pub hint: Option<String>,
    /// Only logged.
    cause: Option<Box<ErrorCause>>,
}

/// Boxed, because most errors have no cause and errors are moved often.
#[derive(Debug, Default)]
struct ErrorCause {
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    backtrace: Option<Backtrace>,
}

impl Error {
    /// Creates an error. An [`ErrorKind::Internal`] captures a backtrace.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let mut cause = None;
        if kind == ErrorKind::Internal {
            // Captures addresses only; printing resolves the symbols.
            let backtrace = Some(Backtrace::force_capture());
            cause = Some(Box::new(ErrorCause { source: None, backtrace }));
        }
        Self { kind, message: message.into(), field: None, reference: None, hint: None, cause }
    }

    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    #[must_use]
    pub fn reference(mut self, reference: impl Into<String>) -> Self {
        self.reference = Some(reference.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause.get_or_insert_default().source = Some(Box::new(source));
        self
    }

    /// The backtrace of an internal error, only logged.
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.cause.as_ref()?.backtrace.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Dereferenced twice: the trait object, not its box, is the source.
        let source = self.cause.as_ref()?.source.as_ref()?;
        Some(&**source)
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    fn fail_internally() -> Error {
        Error::new(ErrorKind::Internal, "a bug")
    }

    // S5: 5.7
    #[test]
    fn only_an_internal_error_captures_a_backtrace() {
        let backtrace = fail_internally().backtrace().unwrap().to_string();
        assert!(backtrace.contains("fail_internally"), "{backtrace}");
        for kind in [ErrorKind::Conflict, ErrorKind::Unavailable, ErrorKind::NotFound] {
            assert!(Error::new(kind, "no").backtrace().is_none());
        }
    }
}
