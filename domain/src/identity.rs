//! Who calls, and what they may do.
//!
//! Roles and tokens come with the team server; alone in a repository there is one local person.

/// What a tool needs and a caller has: writing includes reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
}

/// The one on whose behalf a call is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user's name, as creators and the audit show it.
    pub name: String,
    pub access: Access,
}

impl Caller {
    /// May this caller do what needs `access`?
    pub fn may(&self, access: Access) -> bool {
        self.access >= access
    }
}
