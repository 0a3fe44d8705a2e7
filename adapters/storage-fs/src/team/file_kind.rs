//! What a private file is: the word by which it calls itself, and how long it may be.

/// Written into each file's first bytes, so that one is never taken for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Users and tokens.
    Identity,
    /// When tokens were used last.
    Uses,
    /// A part of the audit.
    Audit,
    /// A key of a write, with its answer.
    Key,
    /// A note of a change that may not have come.
    Pending,
}

impl FileKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Uses => "uses",
            Self::Audit => "audit",
            Self::Key => "key",
            Self::Pending => "pending",
        }
    }

    /// No longer one is read, in bytes.
    pub(super) fn most(self) -> u64 {
        match self {
            Self::Pending => 4 * 1024,
            // An answer may be in it.
            Self::Key => 32 * 1024 * 1024,
            Self::Identity | Self::Uses | Self::Audit => 512 * 1024 * 1024,
        }
    }
}
