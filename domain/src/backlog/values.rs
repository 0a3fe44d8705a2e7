//! The closed lists of words that items are described with (rulings 3).

use serde::{Deserialize, Serialize};

/// The state of an item. Which ones a kind has is [`super::ItemKind::statuses`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    Backlog,
    Draft,
    InProgress,
    Done,
    Cancelled,
    Active,
    Obsolete,
}

impl Status {
    /// Of epics and user stories, a new one's first.
    pub const OF_WORK: [Self; 5] =
        [Self::Backlog, Self::Draft, Self::InProgress, Self::Done, Self::Cancelled];
    /// Of requirements, a new one's first.
    pub const OF_REQUIREMENTS: [Self; 3] = [Self::Draft, Self::Active, Self::Obsolete];

    pub fn name(self) -> &'static str {
        match self {
            Self::Backlog => "Backlog",
            Self::Draft => "Draft",
            Self::InProgress => "In Progress",
            Self::Done => "Done",
            Self::Cancelled => "Cancelled",
            Self::Active => "Active",
            Self::Obsolete => "Obsolete",
        }
    }
}

/// How urgent an item is: 1 Critical, 2 High, 3 Medium, 4 Low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Priority(u8);

impl Priority {
    /// Of an item of which nobody said it.
    pub const DEFAULT: Self = Self(3);

    /// `None` for anything but 1 to 4.
    pub fn new(number: usize) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| (1..=4).contains(number)).map(Self)
    }

    /// Reads a number or a name.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [1, 2, 3, 4].map(Self);
        let number = text.parse().ok().and_then(Self::new);
        number.or_else(|| by_name(&all, Self::name, text))
    }

    pub fn number(self) -> u8 {
        self.0
    }

    pub fn name(self) -> &'static str {
        ["Critical", "High", "Medium", "Low"][usize::from(self.0 - 1)]
    }
}

/// What a requirement is about (S2 1.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequirementType {
    Functional,
    NonFunctional,
    BusinessRule,
    Interface,
    Data,
}

impl RequirementType {
    pub const ALL: [Self; 5] =
        [Self::Functional, Self::NonFunctional, Self::BusinessRule, Self::Interface, Self::Data];

    pub fn name(self) -> &'static str {
        match self {
            Self::Functional => "Functional",
            Self::NonFunctional => "Non-Functional",
            Self::BusinessRule => "Business Rule",
            Self::Interface => "Interface",
            Self::Data => "Data",
        }
    }

    /// For people who choose one.
    pub fn description(self) -> &'static str {
        match self {
            Self::Functional => "What the system does: a behaviour that a user can see",
            Self::NonFunctional => {
                "How well the system does it: speed, safety, availability, ease of use"
            }
            Self::BusinessRule => "A policy of the business that holds whatever the system is",
            Self::Interface => "How the system meets people, devices and other systems",
            Self::Data => "What is kept, in which form, how long and how well guarded",
        }
    }
}

/// How one requirement relates to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RelationshipType {
    DependsOn,
    Blocks,
    RelatesTo,
    ConflictsWith,
    DerivesFrom,
}

impl RelationshipType {
    pub const ALL: [Self; 5] =
        [Self::DependsOn, Self::Blocks, Self::RelatesTo, Self::ConflictsWith, Self::DerivesFrom];

    /// The argument's word, and the key of the source's file.
    pub fn name(self) -> &'static str {
        match self {
            Self::DependsOn => "depends_on",
            Self::Blocks => "blocks",
            Self::RelatesTo => "relates_to",
            Self::ConflictsWith => "conflicts_with",
            Self::DerivesFrom => "derives_from",
        }
    }

    /// Does it say the same from both ends?
    pub fn is_mutual(self) -> bool {
        matches!(self, Self::RelatesTo | Self::ConflictsWith)
    }

    /// For people who choose one.
    pub fn description(self) -> &'static str {
        match self {
            Self::DependsOn => "The source can't be met before the target is",
            Self::Blocks => "As long as the source is open, the target can't go on",
            Self::RelatesTo => "Whoever changes one should look at the other",
            Self::ConflictsWith => "Both can't be met as they stand",
            Self::DerivesFrom => "The source spells out a part of the target",
        }
    }
}

/// The value of this name, whatever its case and with any of ` `, `-` and `_` between words.
pub fn by_name<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, given: &str) -> Option<T> {
    let plain = |text: &str| -> String {
        let letters = text.chars().filter(|c| !matches!(c, ' ' | '-' | '_'));
        letters.flat_map(char::to_lowercase).collect()
    };
    let given = plain(given);
    all.iter().copied().find(|value| plain(name(*value)) == given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_names_in_many_ways() {
        for given in ["In Progress", "in progress", "in_progress", "IN-PROGRESS"] {
            let found = by_name(&Status::OF_WORK, Status::name, given);
            assert_eq!(found, Some(Status::InProgress), "{given}");
        }
        assert_eq!(by_name(&Status::OF_REQUIREMENTS, Status::name, "Done"), None);
        let types = by_name(&RequirementType::ALL, RequirementType::name, "non functional");
        assert_eq!(types, Some(RequirementType::NonFunctional));
    }

    #[test]
    fn a_priority_is_one_to_four() {
        assert_eq!(Priority::new(1).map(Priority::name), Some("Critical"));
        assert_eq!(Priority::new(4).map(Priority::name), Some("Low"));
        assert_eq!((Priority::new(0), Priority::new(5), Priority::new(257)), (None, None, None));
    }
}
