//! The fields of the documents that commands write: their names, synonyms and tool arguments.

use std::io::{self, Read};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::records::answers::details::ItemView;
use serde_json::{Map, Value, json};

use crate::exit::CommandError;

const MAX_INPUT_BYTES: u64 = 4 << 20;

/// A kind of document that commands can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritableKind {
    Item(ItemKind),
    /// `None` for an entity of a kind that only its file defines.
    Entity(Option<EntityKind>),
    /// A requirement of a section.
    SectionRequirement,
}

impl WritableKind {
    /// Parses the kind of a new document, in singular or plural.
    pub(crate) fn parse_new(text: &str) -> Result<Self, CommandError> {
        let kind = match &*normalize_word(text) {
            "epic" | "epics" | "ep" => Self::Item(ItemKind::Epic),
            "story" | "stories" | "userstory" | "userstories" | "us" => {
                Self::Item(ItemKind::UserStory)
            }
            "requirement" | "requirements" | "req" => Self::Item(ItemKind::Requirement),
            "criterion" | "criteria" | "acceptancecriterion" | "acceptancecriteria" | "ac" => {
                Self::Item(ItemKind::AcceptanceCriteria)
            }
            word => match EntityKind::parse(word) {
                Some(kind) => Self::Entity(Some(kind)),
                None => {
                    return Err(CommandError::usage_error(format!(
                        "{:?} is not a kind; the kinds are epic, story, requirement, criterion, {}",
                        truncate_echo(text),
                        EntityKind::ALL.map(EntityKind::name).join(", ")
                    )));
                }
            },
        };
        Ok(kind)
    }

    /// The name in sentences.
    pub(crate) fn noun(self) -> String {
        match self {
            Self::Item(ItemKind::AcceptanceCriteria) => "acceptance criterion".to_owned(),
            Self::Item(kind) => kind.noun().to_lowercase(),
            Self::Entity(kind) => kind.map_or("entity", EntityKind::name).to_owned(),
            Self::SectionRequirement => "section requirement".to_owned(),
        }
    }

    /// The fields of the editable form, except the text.
    pub(crate) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Item(ItemKind::Epic) => &["title", "status", "priority", "assignee", "tags"],
            Self::Item(ItemKind::UserStory) => {
                &["title", "status", "priority", "epic", "assignee", "tags"]
            }
            Self::Item(ItemKind::Requirement) => {
                &["title", "status", "priority", "type", "user_story", "assignee", "tags"]
            }
            Self::Item(ItemKind::AcceptanceCriteria) | Self::SectionRequirement => &[],
            Self::Entity(_) => &["title", "status", "tags"],
        }
    }

    /// The field of the Markdown text.
    pub(crate) fn text_field(self) -> &'static str {
        match self {
            Self::Item(_) => "description",
            Self::Entity(_) => "body",
            Self::SectionRequirement => "text",
        }
    }

    /// The field that names the parent.
    pub(crate) fn parent_field(self) -> Option<&'static str> {
        match self {
            Self::Item(kind) => kind.parent().map(ItemKind::name),
            _ => None,
        }
    }

    /// The field that the title of a new document sets.
    pub(crate) fn title_field(self) -> &'static str {
        if self.fields().contains(&"title") { "title" } else { self.text_field() }
    }

    /// Finds a field by its name or a synonym, in any case.
    pub(crate) fn find_field(self, name: &str) -> Result<&'static str, String> {
        let word = normalize_word(name);
        let wanted = match &*word {
            "name" => "title",
            "state" => "status",
            "prio" => "priority",
            "typename" => "type",
            "owner" | "assigned" | "assignedto" | "assigneeusername" => "assignee",
            "tag" | "label" | "labels" => "tags",
            "story" | "userstory" | "us" => "user_story",
            "parent" | "in" => self.parent_field().unwrap_or("parent"),
            "description" | "desc" | "body" | "text" => self.text_field(),
            word => word,
        };
        let mut fields = self.fields().to_vec();
        fields.push(self.text_field());
        fields.iter().copied().find(|field| *field == wanted).ok_or_else(|| {
            let (shown, noun) = (truncate_echo(name), self.noun());
            format!("{shown:?} is not a field of this {noun}; it has {}", fields.join(", "))
        })
    }
}

/// The argument value of a field that was given as text. Tags are separated by commas, and `-` as
/// the Markdown text means standard input.
pub(crate) fn field_value(field: &str, text: &str) -> Result<Value, CommandError> {
    match (field, text) {
        ("tags", _) => Ok(json!(split_tags(text))),
        ("description" | "body" | "text", "-") => {
            // A text that reaches the limit is too long for every tool.
            let text = io::read_to_string(io::stdin().take(MAX_INPUT_BYTES)).map_err(|error| {
                CommandError::usage_error(format!("standard input: {error}; pass UTF-8 text"))
            })?;
            Ok(json!(text.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n'])))
        }
        _ => Ok(json!(text)),
    }
}

pub(crate) fn split_tags(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect()
}

/// The fields of an item of `get_item`, under the names of arguments.
pub(crate) fn record_fields(kind: WritableKind, item: &ItemView) -> Map<String, Value> {
    let mut fields = Map::new();
    for field in kind.fields() {
        let value = match *field {
            "title" => json!(item.title()),
            "status" => json!(item.status()),
            "tags" => json!(item.tags()),
            "priority" => json!(item.priority()),
            "type" => json!(item.type_name()),
            "assignee" => json!(item.assignee()),
            _ => json!(item.parent()),
        };
        let value = if value.is_null() { json!("") } else { value };
        fields.insert((*field).to_owned(), value);
    }
    fields.insert(kind.text_field().to_owned(), json!(item.text()));
    fields
}

/// Lower case, without separators.
fn normalize_word(word: &str) -> String {
    let letters = word.trim().chars().filter(|c| !matches!(c, ' ' | '-' | '_'));
    letters.flat_map(char::to_lowercase).collect()
}
