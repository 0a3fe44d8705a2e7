//! The configuration as written: YAML with the place of every value, not judged yet (S3 REQ-4).
//!
//! Texts are asked for as texts, so `18.20`, `no` and `010` stay what somebody wrote. Only the
//! shape of `docsets` (a map or a list) is left to the parser's guess.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Location, MessageFormatter, Options, Spanned, UserMessageFormatter};

use super::name::shown;
use super::{Fault, MAX_BYTES, MINIMAL};

const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 32;
const MAX_ALIASES: usize = 100;

pub(super) type Text = Spanned<String>;

/// The top level.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) docs_root: Option<Text>,
    pub(super) template: Option<Text>,
    /// `None` where the section is missing; a null one is [`Shape::Nothing`].
    pub(super) docsets: Option<Spanned<Shape>>,
    pub(super) unknown: Vec<Text>,
}

#[derive(Debug)]
pub(super) enum Shape {
    Nothing,
    Map(Vec<(Text, Option<Spanned<Entry>>)>),
    List(Vec<Spanned<Entry>>),
    Other,
}

/// One docset.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) id: Option<Text>,
    pub(super) name: Option<Text>,
    pub(super) version: Option<Text>,
    pub(super) aliases: Vec<Text>,
    pub(super) description: Option<Text>,
    pub(super) template: Option<Text>,
    pub(super) local_path: Option<Text>,
    /// Of the later format; whatever its shape.
    pub(super) sources: Option<Value>,
    pub(super) unknown: Vec<Text>,
}

impl Raw {
    pub(super) const PROPERTIES: [&str; 3] = ["docs_root", "template", "docsets"];
}

impl Entry {
    pub(super) const PROPERTIES: [&str; 5] =
        ["version", "aliases", "description", "template", "local_path"];
}

/// Where a value stands.
pub(super) fn fault(location: &Location, message: impl Into<String>) -> Fault {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
    let (line, column) = (number(location.line()), number(location.column()));
    Fault { line, column, message: message.into() }
}

/// Reads the text; what is no such YAML is one fault with its place.
pub(super) fn read(source: &str) -> Result<Raw, Fault> {
    if source.len() > MAX_BYTES {
        let message = format!(
            "the file has {} bytes, and at most {MAX_BYTES} are read; shorten it",
            source.len()
        );
        return Err(Fault { line: 1, column: 1, message });
    }
    serde_saphyr::from_str_with_options(source, options()).map_err(|error| explain(&error, source))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
            max_recorded_anchor_events: MAX_NODES,
            max_recorded_anchor_bytes: 4 * MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

/// The parser's error in words for whoever wrote the file.
fn explain(error: &Error, source: &str) -> Fault {
    let location = error.location();
    let inner = match error {
        Error::AliasError { error, .. } => error,
        error => error,
    };
    let reason = match inner {
        Error::DuplicateMappingKey { key, .. } => format!(
            "the key {} stands here a second time; keep one of the two",
            shown(key.as_deref().unwrap_or_default())
        ),
        Error::UnknownAnchor { .. } => "this alias names an anchor that is not there; define it \
                                        further up with '&', or put the text in quotes"
            .to_owned(),
        Error::UnsupportedTag { tag, .. } => format!(
            "the tag {} is not supported, and nothing is included or run; remove it",
            shown(tag)
        ),
        Error::MultipleDocuments { .. }
        | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "a second YAML document begins here, and only one is read; remove the line".to_owned()
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => format!(
            "too large or too deeply nested; at most {MAX_NODES} values, {MAX_DEPTH} levels and \
             {MAX_ALIASES} aliases are read"
        ),
        Error::Unexpected { expected: "mapping start", .. } => {
            format!("properties (`key: value`) are expected here, such as:\n{MINIMAL}")
        }
        Error::Unexpected { expected: "sequence start", .. } => {
            "a list is expected here, such as [reactjs]".to_owned()
        }
        Error::Unexpected { expected: "string scalar", .. } | Error::NullIntoString { .. } => {
            "a text is expected here; write one, or remove the key".to_owned()
        }
        other => {
            let reason = UserMessageFormatter.format_message(other);
            format!("{}; mend the YAML here", reason.replace(char::is_control, " "))
        }
    };
    let Some(location) = location else {
        return Fault { line: 1, column: 1, message: reason };
    };
    let mut fault = fault(&location, reason);
    let written = source.lines().nth(fault.line - 1).unwrap_or_default().trim();
    if !written.is_empty() && !fault.message.contains('\n') {
        fault.message = format!("{} (in {})", fault.message, shown(written));
    }
    fault
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Top;
        impl<'de> Visitor<'de> for Top {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the section docsets")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw::default();
                while let Some(key) = map.next_key::<Text>()? {
                    match key.value.as_str() {
                        "docs_root" => raw.docs_root = map.next_value()?,
                        "template" => raw.template = map.next_value()?,
                        "docsets" => raw.docsets = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            raw.unknown.push(key);
                        }
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Top)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Properties;
        impl<'de> Visitor<'de> for Properties {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a docset's properties")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
                let mut entry = Entry::default();
                while let Some(key) = map.next_key::<Text>()? {
                    match key.value.as_str() {
                        "id" => entry.id = map.next_value()?,
                        "name" => entry.name = map.next_value()?,
                        "version" => entry.version = map.next_value()?,
                        "aliases" => {
                            entry.aliases = map.next_value::<Option<_>>()?.unwrap_or_default();
                        }
                        "description" => entry.description = map.next_value()?,
                        "template" => entry.template = map.next_value()?,
                        "local_path" => entry.local_path = map.next_value()?,
                        "sources" => entry.sources = map.next_value()?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            entry.unknown.push(key);
                        }
                    }
                }
                Ok(entry)
            }
        }
        deserializer.deserialize_map(Properties)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Docsets;
        impl<'de> Visitor<'de> for Docsets {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("docsets by name, or a list of them")
            }

            fn visit_unit<E>(self) -> Result<Shape, E> {
                Ok(Shape::Nothing)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Shape::Map(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(Shape::List(entries))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
                Ok(Shape::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
                Ok(Shape::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
                Ok(Shape::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
                Ok(Shape::Other)
            }

            fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
                Ok(Shape::Other)
            }
        }
        deserializer.deserialize_any(Docsets)
    }
}
