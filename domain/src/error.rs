//! The one error that callers see: what is wrong, and what to do next.
//!
//! `message` is for the caller, names the field and the way out, and never holds an absolute path
//! or a secret. `source` is for the log alone.

use std::backtrace::Backtrace;
use std::fmt;

/// What went wrong, in the few kinds that a caller can react to differently.
///
/// How each kind looks on the wire is one table in the protocol adapter (rulings 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// An argument is missing, unknown, of the wrong type or outside its bounds (S1 P.2).
    InvalidArgument,
    /// No tool of that name.
    UnknownTool,
    /// What was named is not there.
    NotFound,
    /// The document is not at the version the caller expected; nothing was changed.
    Conflict,
    /// The change would break a rule of the product; nothing was changed.
    Refused,
    /// The caller may not do this.
    Forbidden,
    /// Somebody else holds what is needed; nothing was changed, and trying again may work.
    Busy,
    /// The storage can't be read or written just now (permissions, space, read-only).
    Unavailable,
    /// The caller took the call back; what was done until then stays.
    Cancelled,
    /// Stored content is there and can't be used as it is (not text, too large).
    Unreadable,
    /// A fault of ours. The caller gets a correlation id, the log gets the rest.
    Internal,
}

impl ErrorKind {
    /// For programs and the audit.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::UnknownTool => "unknown_tool",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "storage_unavailable",
            Self::Unreadable => "unreadable",
            Self::Internal => "internal",
        }
    }
}

/// A failed call, in the caller's words.
#[derive(Debug)]
pub struct Error {
    pub kind: ErrorKind,
    /// A sentence for the caller: what is wrong and the way out.
    pub message: String,
    /// The argument that is to blame, where it is one.
    pub field: Option<String>,
    /// What the message is about: a section, an index, a reference.
    pub reference: Option<String>,
    /// What to do next, where the message's wording is fixed by a specification.
    pub hint: Option<String>,
    /// For the log alone.
    cause: Option<Box<Cause>>,
}

/// Behind one pointer: most errors have none, and all of them are handed around.
#[derive(Debug, Default)]
struct Cause {
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// Where a fault of ours was found.
    backtrace: Option<Backtrace>,
}

impl Error {
    /// An [`ErrorKind::Internal`] remembers from where it was called (S5 5.7).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let is_ours = kind == ErrorKind::Internal;
        Self {
            kind,
            message: message.into(),
            field: None,
            reference: None,
            hint: None,
            cause: is_ours.then(|| Box::new(Cause::found_here())),
        }
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

    /// From where a fault of ours was reported. For the log alone.
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.cause.as_ref()?.backtrace.as_ref()
    }
}

impl Cause {
    fn found_here() -> Self {
        // Addresses alone: names are looked up by whoever prints it.
        Self { source: None, backtrace: Some(Backtrace::force_capture()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.cause.as_ref()?.source.as_ref()?;
        Some(&**source)
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    fn faulty() -> Error {
        Error::new(ErrorKind::Internal, "a fault")
    }

    // S5: 5.7
    #[test]
    fn a_fault_of_ours_remembers_where_it_was_found_and_nothing_else_does() {
        let trace = faulty().backtrace().unwrap().to_string();
        assert!(trace.contains("faulty"), "{trace}");
        for kind in [ErrorKind::Conflict, ErrorKind::Unavailable, ErrorKind::NotFound] {
            assert!(Error::new(kind, "no").backtrace().is_none());
        }
    }
}
