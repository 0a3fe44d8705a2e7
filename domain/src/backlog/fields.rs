//! The fields of items: enumerations, and text with its limits.

use serde::{Deserialize, Serialize};

use crate::bounded::{check_text, inline_schema, string_type};

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

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Functional => {
                ("Functional", "What the system does: a behaviour that a user can see")
            }
            Self::NonFunctional => (
                "Non-Functional",
                "How well the system does it: speed, safety, availability, ease of use",
            ),
            Self::BusinessRule => {
                ("Business Rule", "A policy of the business that holds whatever the system is")
            }
            Self::Interface => {
                ("Interface", "How the system meets people, devices and other systems")
            }
            Self::Data => ("Data", "What is kept, in which form, how long and how well guarded"),
        }
    }

    pub fn name(self) -> &'static str {
        self.texts().0
    }

    pub fn description(self) -> &'static str {
        self.texts().1
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

    /// True if it holds in both directions.
    pub fn is_mutual(self) -> bool {
        matches!(self, Self::RelatesTo | Self::ConflictsWith)
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::DependsOn => ("depends_on", "The source can't be met before the target is"),
            Self::Blocks => ("blocks", "As long as the source is open, the target can't go on"),
            Self::RelatesTo => ("relates_to", "A change to one may affect the other"),
            Self::ConflictsWith => ("conflicts_with", "Both can't be met as they are"),
            Self::DerivesFrom => ("derives_from", "The source spells out a part of the target"),
        }
    }

    /// The argument's value, and the key in the source's file.
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    pub fn description(self) -> &'static str {
        self.texts().1
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

/// The tags of one item: at most 50, each once.
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
    let length = text.chars().count();
    if length > MAX_NAME {
        return Err(format!("a user's name has at most {MAX_NAME} characters, this has {length}"));
    }
    check_one_line(text)?;
    Ok(text.trim().to_owned())
}

fn parse_description(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if length > MAX_DESCRIPTION {
        return Err(format!(
            "at most {MAX_DESCRIPTION} characters are allowed, this has {length}; shorten it"
        ));
    }
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
        let mut tags: Vec<String> = Vec::with_capacity(given.len());
        for tag in given {
            if !tags.iter().any(|known| known == tag.as_str()) {
                tags.push(tag.into_string());
            }
        }
        Ok(Self(tags))
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
