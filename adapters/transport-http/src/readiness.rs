//! The state of the storage, for `/readyz`.

/// The state of a server's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// It does not respond.
    Unavailable,
    /// Some reads may succeed, but every write is refused.
    Damaged,
}
