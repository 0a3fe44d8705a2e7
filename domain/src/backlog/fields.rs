//! The fields of items: enumerations, and text with its limits.

use serde::{Deserialize, Serialize};

use crate::bounded_types::{check_length, check_text, inline_schema, named_enum, string_type};

named_enum! {
    /// The state of an item. Which ones a kind has is [`super::ItemKind::statuses`].
    #[derive(Hash, Serialize, Deserialize)]
    Status {
        Backlog = "Backlog",
        Draft = "Draft",
        InProgress = "In Progress",
        Done = "Done",
        Cancelled = "Cancelled",
        Active = "Active",
        Obsolete = "Obsolete",
    }
}

impl Status {
    /// Of epics and user stories, a new one's first.
    pub const OF_WORK: [Self; 5] =
        [Self::Backlog, Self::Draft, Self::InProgress, Self::Done, Self::Cancelled];
    /// Of requirements, a new one's first.
    pub const OF_REQUIREMENTS: [Self; 3] = [Self::Draft, Self::Active, Self::Obsolete];
}

/// How urgent an item is: 1 Critical, 2 High, 3 Medium, 4 Low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Priority(u8);

impl Priority {
    /// The default.
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

named_enum! {
    /// The subject of a requirement.
    #[derive(Hash, Serialize, Deserialize)]
    RequirementType {
        Functional = "Functional",
        NonFunctional = "Non-Functional",
        BusinessRule = "Business Rule",
        Interface = "Interface",
        Data = "Data",
    }
}

impl RequirementType {
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

named_enum! {
    /// The relation of one requirement to another. Its name is the argument's value, and the key in
    /// the source's file.
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    RelationshipType {
        DependsOn = "depends_on",
        Blocks = "blocks",
        RelatesTo = "relates_to",
        ConflictsWith = "conflicts_with",
        DerivesFrom = "derives_from",
    }
}

impl RelationshipType {
    /// True if it holds in both directions.
    pub fn is_mutual(self) -> bool {
        matches!(self, Self::RelatesTo | Self::ConflictsWith)
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::DependsOn => "The source can't be met before the target is",
            Self::Blocks => "As long as the source is open, the target can't go on",
            Self::RelatesTo => "A change to one may affect the other",
            Self::ConflictsWith => "Both can't be met as they are",
            Self::DerivesFrom => "The source spells out a part of the target",
        }
    }
}

/// The value of this name, in any case and with any of ` `, `-` and `_` between words.
pub fn by_name<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, given: &str) -> Option<T> {
    let plain = |text: &str| -> String {
        let letters = text.chars().filter(|c| !matches!(c, ' ' | '-' | '_'));
        letters.flat_map(char::to_lowercase).collect()
    };
    let given = plain(given);
    all.iter().copied().find(|value| plain(name(*value)) == given)
}

const MAX_TAGS: usize = 50;
const MAX_TITLE: usize = 500;
const MAX_NAME: usize = 100;
/// In characters.
pub const MAX_DESCRIPTION: usize = 50_000;

string_type!(
    /// A title: 1 to 500 characters on one line, not blank.
    Title,
    |text| parse_line(text, MAX_TITLE),
    { "type": "string", "maxLength": MAX_TITLE, "pattern": r"\S" }
);

string_type!(
    /// A user's name, or an empty text for no user: at most 100 characters on one line.
    Assignee,
    parse_assignee,
    { "type": "string", "maxLength": MAX_NAME }
);

string_type!(
    /// A tag: 1 to 100 characters on one line, not blank.
    Tag,
    |text| parse_line(text, MAX_NAME),
    { "type": "string", "maxLength": MAX_NAME, "pattern": r"\S" }
);

string_type!(
    /// A description: at most 50,000 characters of markdown without NUL. It may be empty.
    Description,
    parse_description,
    { "type": "string", "maxLength": MAX_DESCRIPTION }
);

/// The tags of one item: at most 50. A duplicate is stored once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Tag>")]
pub struct Tags(Vec<String>);

inline_schema!([] Tags, { "type": "array", "maxItems": MAX_TAGS, "items": { "type": "string" } });

fn parse_line(text: &str, max: usize) -> Result<String, String> {
    check_text(text, max)?;
    check_one_line(text)?;
    Ok(text.trim().to_owned())
}

fn check_one_line(text: &str) -> Result<(), String> {
    match text.chars().find(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        Some(c) => Err(format!("{c:?} is not allowed; write it on one line")),
        None => Ok(()),
    }
}

fn parse_assignee(text: &str) -> Result<String, String> {
    check_length(text, MAX_NAME)?;
    check_one_line(text)?;
    Ok(text.trim().to_owned())
}

fn parse_description(text: &str) -> Result<String, String> {
    check_length(text, MAX_DESCRIPTION)?;
    if text.contains('\0') {
        return Err("a NUL character is not allowed; remove it".to_owned());
    }
    Ok(text.to_owned())
}

impl Assignee {
    /// `None` for no user.
    pub fn name(&self) -> Option<&str> {
        Some(self.as_str()).filter(|name| !name.is_empty())
    }
}

impl Tags {
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

impl TryFrom<Vec<Tag>> for Tags {
    type Error = String;

    fn try_from(given: Vec<Tag>) -> Result<Self, String> {
        if given.len() > MAX_TAGS {
            return Err(format!("at most {MAX_TAGS} tags are allowed, these are {}", given.len()));
        }
        Ok(Self(given.into_iter().map(Tag::into_string).collect()))
    }
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

    #[test]
    fn titles_stay_on_one_line_and_within_their_length() {
        for good in ["x", "  x ", &"é".repeat(500)] {
            assert!(Title::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for (bad, says) in [
            ("", "1 to 500"),
            (" ", "blank"),
            ("a\nb", "one line"),
            ("a\u{2028}b", "one line"),
            (&*"é".repeat(501), "this has 501"),
        ] {
            let error = Title::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains(says), "{bad:?}: {error}");
        }
    }

    #[test]
    fn nobody_is_an_empty_name() {
        let name = |text: &str| Assignee::try_from(text.to_owned());
        assert_eq!(name("").unwrap().name(), None);
        assert_eq!(name(" ann ").unwrap().name(), Some("ann"));
        assert!(name("a\tb").is_err() && name(&"x".repeat(101)).is_err());
    }

    #[test]
    fn a_description_may_be_empty_and_long() {
        let text = |length| Description::try_from("🦀".repeat(length));
        assert!(text(0).is_ok() && text(MAX_DESCRIPTION).is_ok());
        assert!(text(MAX_DESCRIPTION + 1).unwrap_err().contains("this has 50001"));
        assert!(Description::try_from("a\0".to_owned()).is_err());
    }
}
