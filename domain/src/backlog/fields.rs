//! The fields of items: enumerations, and text with its limits.

use arrayvec::ArrayString;
use serde::{Deserialize, Serialize};

use crate::bounded_types::{
    check_length, check_text, inline_schema, named_enum, serialize_by_name, string_type,
};

/// The status of an item, in the order of work. [`super::ItemKind::statuses`] lists the built-in
/// ones of each kind; a project may add its own for epics and user stories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Backlog,
    Draft,
    InProgress,
    Done,
    Cancelled,
    Active,
    Obsolete,
    Open,
    Met,
    /// A status that a project defines, or an unknown one in a file.
    Custom(ArrayString<MAX_STATUS_BYTES>),
}

/// Maximum length of the name of a status, in bytes.
pub const MAX_STATUS_BYTES: usize = 40;

serialize_by_name!(RequirementType, RelationshipType);

impl Status {
    /// All built-in statuses.
    pub const ALL: [Self; 9] = [
        Self::Backlog,
        Self::Draft,
        Self::InProgress,
        Self::Done,
        Self::Cancelled,
        Self::Active,
        Self::Obsolete,
        Self::Open,
        Self::Met,
    ];
    /// Statuses of epics and user stories; the first is the default.
    pub const WORK_STATUSES: [Self; 5] =
        [Self::Backlog, Self::Draft, Self::InProgress, Self::Done, Self::Cancelled];
    /// Statuses of requirements; the first is the default.
    pub const REQUIREMENT_STATUSES: [Self; 3] = [Self::Draft, Self::Active, Self::Obsolete];
    /// Statuses of acceptance criteria; the first is the default.
    pub const CRITERIA_STATUSES: [Self; 2] = [Self::Open, Self::Met];

    pub fn name(&self) -> &str {
        match self {
            Self::Backlog => "Backlog",
            Self::Draft => "Draft",
            Self::InProgress => "In Progress",
            Self::Done => "Done",
            Self::Cancelled => "Cancelled",
            Self::Active => "Active",
            Self::Obsolete => "Obsolete",
            Self::Open => "Open",
            Self::Met => "Met",
            Self::Custom(name) => name,
        }
    }

    /// The status with this name. `None` for a blank or long text, or several lines.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // Stored names are exact, and comparing other spellings is slow.
        let exact = Self::ALL.into_iter().find(|one| one.name() == text);
        exact.or_else(|| find_by_name(&Self::ALL, Self::name, text)).or_else(|| {
            let is_name = !text.is_empty() && !text.contains(char::is_control);
            is_name.then(|| ArrayString::from(text).ok().map(Self::Custom))?
        })
    }
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <&str>::deserialize(deserializer)?;
        Self::parse(name).ok_or_else(|| serde::de::Error::custom("not a status"))
    }
}

/// How urgent an item is: 1 Critical, 2 High, 3 Medium, 4 Low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Priority(u8);

impl Priority {
    pub const DEFAULT: Self = Self(3);

    /// `None` unless the number is from 1 to 4.
    pub fn new(number: usize) -> Option<Self> {
        match u8::try_from(number) {
            Ok(number @ 1..=4) => Some(Self(number)),
            _ => None,
        }
    }

    /// Parses a number, a name, or both as errors list them: `3 Medium`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(number) = text.parse() {
            return Self::new(number);
        }
        let (number, name) = text.split_once(' ').unwrap_or(("", text));
        let priority = find_by_name(&[1, 2, 3, 4].map(Self), |one| one.name(), name)?;
        let is_same = number.is_empty() || number == priority.0.to_string();
        is_same.then_some(priority)
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
    #[derive(Hash)]
    RequirementType {
        Functional = "Functional",
        NonFunctional = "Non-Functional",
        BusinessRule = "Business Rule",
        Interface = "Interface",
        Data = "Data",
    }
}

impl RequirementType {
    pub const DEFAULT: Self = Self::Functional;

    pub fn description(self) -> &'static str {
        match self {
            Self::Functional => "A behavior of the system that a user can observe",
            Self::NonFunctional => {
                "A quality of the system: performance, security, availability, usability"
            }
            Self::BusinessRule => "A business policy that applies regardless of the system",
            Self::Interface => "An interaction with users, devices or other systems",
            Self::Data => "Data to store, with its format, retention and protection",
        }
    }
}

named_enum! {
    /// The relation of one requirement or user story to another. Its name is an argument value and
    /// the key in the file of the source.
    #[derive(PartialOrd, Ord, Hash)]
    RelationshipType {
        DependsOn = "depends_on",
        Blocks = "blocks",
        RelatesTo = "relates_to",
        ConflictsWith = "conflicts_with",
        DerivesFrom = "derives_from",
        Supersedes = "supersedes",
    }
}

impl RelationshipType {
    /// The types that are set one by one. A record is created with those that it supersedes.
    pub const SETTABLE: [Self; 5] =
        [Self::DependsOn, Self::Blocks, Self::RelatesTo, Self::ConflictsWith, Self::DerivesFrom];

    /// True if it holds in both directions.
    pub fn is_mutual(self) -> bool {
        matches!(self, Self::RelatesTo | Self::ConflictsWith)
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::DependsOn => "The source cannot be met before the target is met",
            Self::Blocks => "The target cannot proceed while the source is open",
            Self::RelatesTo => "A change to one may affect the other",
            Self::ConflictsWith => "The two cannot both be met as written",
            Self::DerivesFrom => "The source refines a part of the target",
            Self::Supersedes => "The source replaces the target, which has ended",
        }
    }
}

/// Finds a value by its name. Ignores case and the separators ` `, `-` and `_`.
pub fn find_by_name<T: Copy>(values: &[T], name: impl Fn(&T) -> &str, given: &str) -> Option<T> {
    let given = normalize_name(given);
    values.iter().copied().find(|value| normalize_name(name(value)) == given)
}

fn normalize_name(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, ' ' | '-' | '_'));
    letters.flat_map(char::to_lowercase).collect()
}

const MAX_TAGS: usize = 50;
/// Maximum length of a title, in characters.
pub const MAX_TITLE_CHARS: usize = 500;
const MAX_NAME_CHARS: usize = 100;
/// Maximum length of a description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 50_000;

string_type!(
    /// A title: 1 to 500 characters on one line, not blank.
    Title,
    |text| parse_line(text, MAX_TITLE_CHARS),
    { "type": "string", "maxLength": MAX_TITLE_CHARS, "pattern": r"\S" }
);

string_type!(
    /// A user name of at most 100 characters on one line. An empty one removes the assignee.
    Assignee,
    parse_assignee,
    { "type": "string", "maxLength": MAX_NAME_CHARS }
);

string_type!(
    /// A tag: 1 to 100 characters on one line, not blank.
    Tag,
    |text| parse_line(text, MAX_NAME_CHARS),
    { "type": "string", "maxLength": MAX_NAME_CHARS, "pattern": r"\S" }
);

string_type!(
    /// A description: at most 50,000 characters of Markdown without NUL. It may be empty.
    Description,
    parse_description,
    { "type": "string", "maxLength": MAX_DESCRIPTION_CHARS }
);

/// The tags of one item: at most 50, which may contain duplicates.
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
    check_length(text, MAX_NAME_CHARS)?;
    check_one_line(text)?;
    Ok(text.trim().to_owned())
}

fn parse_description(text: &str) -> Result<String, String> {
    check_length(text, MAX_DESCRIPTION_CHARS)?;
    // NUL ends strings in some tools that read the files.
    if text.contains('\0') {
        return Err("a NUL character is not allowed; remove it".to_owned());
    }
    Ok(text.to_owned())
}

impl Assignee {
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
            let count = given.len();
            return Err(format!(
                "at most {MAX_TAGS} tags are allowed, this has {count}; drop some"
            ));
        }
        // Duplicates are removed when the item is rendered.
        Ok(Self(given.into_iter().map(Tag::into_string).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_found_by_name_in_any_spelling() {
        for given in ["In Progress", "in progress", "in_progress", "IN-PROGRESS"] {
            let found = find_by_name(&Status::WORK_STATUSES, Status::name, given);
            assert_eq!(found, Some(Status::InProgress), "{given}");
        }
        assert_eq!(find_by_name(&Status::REQUIREMENT_STATUSES, Status::name, "Done"), None);
        let types = find_by_name(&RequirementType::ALL, |one| one.name(), "non functional");
        assert_eq!(types, Some(RequirementType::NonFunctional));
    }

    #[test]
    fn priority_outside_one_to_four_is_rejected() {
        assert_eq!(Priority::new(1).map(Priority::name), Some("Critical"));
        assert_eq!(Priority::new(4).map(Priority::name), Some("Low"));
        assert_eq!((Priority::new(0), Priority::new(5), Priority::new(257)), (None, None, None));
    }

    #[test]
    fn title_with_line_break_or_too_long_is_rejected() {
        for good in ["x", "  x ", &"é".repeat(500)] {
            assert!(Title::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for (bad, reason) in [
            ("", "1 to 500"),
            (" ", "blank"),
            ("a\nb", "one line"),
            ("a\u{2028}b", "one line"),
            (&*"é".repeat(501), "this has 501"),
        ] {
            let error = Title::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains(reason), "{bad:?}: {error}");
        }
    }

    fn parse_assignee(text: &str) -> Result<Assignee, String> {
        Assignee::try_from(text.to_owned())
    }

    #[test]
    fn assignee_empty_means_no_user() {
        assert_eq!(parse_assignee("").unwrap().name(), None);
        assert_eq!(parse_assignee(" ann ").unwrap().name(), Some("ann"));
        assert!(parse_assignee("a\tb").is_err() && parse_assignee(&"x".repeat(101)).is_err());
    }

    #[test]
    fn description_may_be_empty_or_of_maximum_length() {
        for length in [0, MAX_DESCRIPTION_CHARS] {
            assert!(Description::try_from("🦀".repeat(length)).is_ok(), "{length}");
        }
        let error = Description::try_from("🦀".repeat(MAX_DESCRIPTION_CHARS + 1)).unwrap_err();
        assert!(error.contains("this has 50001"), "{error}");
        assert!(Description::try_from("a\0".to_owned()).is_err());
    }
}
