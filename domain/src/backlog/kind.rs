//! The four kinds of items, and what each has and what not.

use serde::{Deserialize, Serialize};

use super::values::Status;

/// A kind of item (rulings 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ItemKind {
    Epic,
    UserStory,
    Requirement,
    AcceptanceCriteria,
}

impl ItemKind {
    pub const ALL: [Self; 4] =
        [Self::Epic, Self::UserStory, Self::Requirement, Self::AcceptanceCriteria];

    /// What references begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Epic => "EP",
            Self::UserStory => "US",
            Self::Requirement => "REQ",
            Self::AcceptanceCriteria => "AC",
        }
    }

    /// What arguments, keys and answers call it; never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epic => "epic",
            Self::UserStory => "user_story",
            Self::Requirement => "requirement",
            Self::AcceptanceCriteria => "acceptance_criteria",
        }
    }

    /// What sentences call it (S2 1.2).
    pub fn noun(self) -> &'static str {
        match self {
            Self::Epic => "Epic",
            Self::UserStory => "User story",
            Self::Requirement => "Requirement",
            Self::AcceptanceCriteria => "Acceptance criteria",
        }
    }

    /// What it belongs to; its [`ItemKind::name`] is the key under which a file names the parent.
    pub fn parent(self) -> Option<Self> {
        match self {
            Self::Epic => None,
            Self::UserStory => Some(Self::Epic),
            Self::Requirement | Self::AcceptanceCriteria => Some(Self::UserStory),
        }
    }

    /// The states that it can be in, a new one's first; criteria have none.
    pub fn statuses(self) -> &'static [Status] {
        match self {
            Self::Epic | Self::UserStory => &Status::OF_WORK,
            Self::Requirement => &Status::OF_REQUIREMENTS,
            Self::AcceptanceCriteria => &[],
        }
    }

    /// Does it have a priority? Criteria have none.
    pub fn has_priority(self) -> bool {
        self != Self::AcceptanceCriteria
    }
}
