//! Argument types that the backlog's tools share: references, enum values and item fields.
//!
//! A malformed reference has its own error message, so reference arguments accept any text and
//! [`ReferenceArgument::parse`] validates it. Input is lenient where its meaning is clear; the
//! published schemas are not.

use std::fmt;

use reqlore_domain::backlog::reference::ParsedReference::{self, Malformed};
use reqlore_domain::backlog::reference::fold_look_alikes;
use reqlore_domain::backlog::{
    ItemKind, Priority, Reference, RelationshipType, RequirementType, Status,
};
use reqlore_domain::bounded_types::{
    deserialize_text, inline_schema, parse_whole_number, shorten, truncate_echo,
};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::tools::synonyms;
use crate::writes::local_names::{LocalItem, LocalNames};

/// An unvalidated reference to an item of one of the kinds `ItemKind::ALL[FIRST..END]`.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct ReferenceArgument<const FIRST: usize, const END: usize>(
    #[serde(deserialize_with = "deserialize_text")] String,
);

pub(crate) type EpicRef = ReferenceArgument<0, 1>;
pub(crate) type UserStoryRef = ReferenceArgument<1, 2>;
/// An item that can have relationships.
pub(crate) type RelatedRef = ReferenceArgument<1, 3>;
/// A reference of a kind that only the tool knows.
pub(crate) type AnyItemRef = ReferenceArgument<0, { ItemKind::ALL.len() }>;

impl<const FIRST: usize, const END: usize> ReferenceArgument<FIRST, END> {
    fn description() -> String {
        let prefixes: Vec<_> = ItemKind::ALL[FIRST..END].iter().map(|kind| kind.prefix()).collect();
        format!("Such as {}-047.", prefixes.join("-047 or "))
    }

    /// `field` is the argument's name, for errors.
    pub(crate) fn parse(&self, field: &str) -> Result<Reference> {
        parse_reference(&ItemKind::ALL[FIRST..END], &self.0, field)
    }

    /// Like [`Self::parse`], for tools that only read: also accepts look-alikes of the characters.
    pub(crate) fn parse_folded(&self, field: &str) -> Result<Reference> {
        match (self.parse(field), fold_look_alikes(&self.0)) {
            (Err(error), Some(folded)) => {
                parse_reference(&ItemKind::ALL[FIRST..END], &folded, field).map_err(|_| error)
            }
            (parsed, _) => parsed,
        }
    }

    /// Like [`Self::parse`], but accepts only the spelling of the published pattern.
    pub(crate) fn parse_exact(&self, field: &str) -> Result<Reference> {
        let kinds = &ItemKind::ALL[FIRST..END];
        if kinds.iter().all(|kind| Reference::parse_kind(*kind, &self.0) == Malformed) {
            return Err(malformed_reference_error(kinds, &self.0, field));
        }
        self.parse(field)
    }

    /// Like [`Self::parse`], but also accepts the local name of an item that an earlier entry
    /// creates.
    pub(crate) fn resolve(&self, field: &str, names: &LocalNames) -> Result<ItemTarget> {
        self.resolve_of(&ItemKind::ALL[FIRST..END], field, names)
    }

    /// Like [`Self::parse`], for an argument that has the name of its only kind.
    pub(crate) fn parse_kind(&self, kind: ItemKind) -> Result<Reference> {
        parse_reference(&[kind], &self.0, kind.name())
    }

    /// Like [`Self::resolve`], for an argument that has the name of its only kind.
    pub(crate) fn resolve_kind(&self, kind: ItemKind, names: &LocalNames) -> Result<ItemTarget> {
        self.resolve_of(&[kind], kind.name(), names)
    }

    fn resolve_of(
        &self,
        kinds: &[ItemKind],
        field: &str,
        names: &LocalNames,
    ) -> Result<ItemTarget> {
        let Some(item) = names.find(&self.0, field)? else {
            return parse_reference(kinds, &self.0, field).map(ItemTarget::Stored);
        };
        if let Some(kind) = kinds.iter().find(|kind| item.kind == DocumentKind::Item(**kind)) {
            return Ok(ItemTarget::Created(*kind, item));
        }
        let expected: Vec<_> = kinds.iter().map(|kind| kind.noun().to_lowercase()).collect();
        let created = match item.kind {
            DocumentKind::Item(kind) => kind.noun().to_lowercase(),
            other => other.name().to_owned(),
        };
        let message = format!(
            "{field}: {} is a new {created}; use the name of a new {}",
            self.0.trim(),
            expected.join(" or ")
        );
        Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
    }
}

/// An item that an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemTarget {
    Stored(Reference),
    /// Created by an earlier entry of the same call.
    Created(ItemKind, LocalItem),
}

impl ItemTarget {
    pub(crate) fn kind(self) -> ItemKind {
        match self {
            Self::Stored(reference) => reference.kind,
            Self::Created(kind, _) => kind,
        }
    }
}

impl fmt::Display for ItemTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(reference) => reference.fmt(f),
            Self::Created(_, item) => write!(f, "the item of entry {}", item.entry + 1),
        }
    }
}

inline_schema!([const FIRST: usize, const END: usize] ReferenceArgument<FIRST, END>,
    { "type": "string", "description": Self::description() });

/// Parses a reference to an item of one of these kinds; `field` is the argument's name.
pub(crate) fn parse_reference(kinds: &[ItemKind], text: &str, field: &str) -> Result<Reference> {
    for kind in kinds {
        match Reference::parse_any_case(*kind, text) {
            ParsedReference::Reference(reference) => return Ok(reference),
            // The form is valid, but no item can have this number.
            ParsedReference::TooLarge => return Err(not_found_error(*kind, text).field(field)),
            Malformed => {}
        }
    }
    Err(malformed_reference_error(kinds, text, field))
}

pub(crate) fn not_found_error(kind: ItemKind, reference: &str) -> Error {
    let shown = truncate_echo(reference);
    let message = format!("{} not found: {shown}", kind.noun());
    Error::new(ErrorKind::NotFound, message).reference(shown).hint("search_global finds references")
}

fn malformed_reference_error(kinds: &[ItemKind], text: &str, field: &str) -> Error {
    let shown = truncate_echo(text);
    let noun = match kinds {
        [kind] => format!("{} ", kind.noun().to_lowercase()),
        _ => String::new(),
    };
    let examples: Vec<String> = kinds.iter().map(|kind| format!("{}-047", kind.prefix())).collect();
    let mut hint = format!("use a reference such as {}", examples.join(" or "));
    for kind in kinds {
        if let Some(folded) = fold_look_alikes(text.trim())
            && let ParsedReference::Reference(meant) = Reference::parse_any_case(*kind, &folded)
        {
            hint = format!("did you mean {meant}");
        }
    }
    let message = format!("Invalid {noun}reference ID format: {shown:?}; {hint}");
    Error::new(ErrorKind::InvalidArgument, message).field(field).reference(shown).hint(hint)
}

/// Defines an argument that takes one of the names of a domain enum.
macro_rules! enum_argument {
    ($argument:ident, $value:ident, $values:expr $(, $other:expr)?) => {
        #[derive(Clone, Copy)]
        pub(super) struct $argument(pub(super) $value);

        impl<'de> serde::Deserialize<'de> for $argument {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = reqlore_domain::bounded_types::deserialize_text(deserializer)?;
                let found = $crate::backlog::arguments::find_value(
                    &$values,
                    |one| one.name(),
                    &name,
                );
                $(let found = found.or_else(|error| $other(&name).ok_or(error));)?
                found.map(Self).map_err(serde::de::Error::custom)
            }
        }

        impl From<$argument> for $value {
            fn from(argument: $argument) -> Self {
                argument.0
            }
        }

        reqlore_domain::bounded_types::inline_schema!([] $argument, {
            "type": "string",
            "enum": $values.iter().map(|one| one.name()).collect::<Vec<_>>()
        });
    };
}

pub(crate) use enum_argument;

// A project may have statuses of its own; the call checks them.
enum_argument!(WorkStatusArgument, Status, Status::WORK_STATUSES, Status::parse);
enum_argument!(RequirementStatusArgument, Status, Status::REQUIREMENT_STATUSES);
enum_argument!(CriteriaStatusArgument, Status, Status::CRITERIA_STATUSES);
enum_argument!(RequirementTypeArgument, RequirementType, RequirementType::ALL);
enum_argument!(RelationshipTypeArgument, RelationshipType, RelationshipType::SETTABLE);

/// Finds a value by its name in any spelling, or by a synonym. The error lists the names.
pub(crate) fn find_value<T: Copy>(
    values: &[T],
    name: impl Fn(&T) -> &str,
    given: &str,
) -> Result<T, String> {
    synonyms::find_value(values, &name, given).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(&name).collect();
        format!("{:?} is not one of {}", truncate_echo(given), names.join(", "))
    })
}

/// 1 Critical to 4 Low. Accepts the number as text, and the name.
#[derive(Clone, Copy)]
pub(crate) struct PriorityArgument(pub(crate) Priority);

impl<'de> Deserialize<'de> for PriorityArgument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let priority = match &value {
            Value::String(text) => Priority::parse(text),
            value => parse_whole_number(value).and_then(Priority::new),
        };
        priority.map(Self).ok_or_else(|| {
            let names = "1 Critical, 2 High, 3 Medium, 4 Low";
            serde::de::Error::custom(format!("{} is not one of {names}", shorten(&value)))
        })
    }
}

inline_schema!([] PriorityArgument, { "type": "integer", "minimum": 1, "maximum": 4 });
