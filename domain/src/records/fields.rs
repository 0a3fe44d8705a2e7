//! The built-in fields of items and entities: one table, from which front matter, arguments, forms
//! and lists are made.

use std::sync::LazyLock;

use super::kinds::{IdSource, ItemKind, PLANNED, RecordKind};
use crate::backlog::fields::{RelationshipType, RequirementType, find_by_name};
use crate::bounded_types::named_enum;

/// The day by which users review an entity: a key of its file.
pub const REVIEW_BY: &str = "review_by";

named_enum! {
    /// A part of the pages and lists that shows a field or offers it. Its name is a key of the
    /// schema.
    #[derive(PartialOrd, Ord)]
    FieldView {
        Column = "column",
        Card = "card",
        Filter = "filter",
        Sort = "sort",
    }
}

named_enum! {
    /// The type of a custom field. Its name is a value of the schema.
    #[derive(Default)]
    CustomType {
        #[default]
        Text = "text",
        Number = "number",
        /// A day such as 2026-11-27.
        Date = "date",
        /// One of the field's choices.
        Choice = "choice",
        /// The name of a user.
        User = "user",
        /// A list of texts.
        Tags = "tags",
        /// A link to a page: http, https or mailto.
        Url = "url",
    }
}

/// The type of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// A title on one line.
    Title,
    /// The Markdown below the front matter.
    Body,
    /// A status of the kind; of entities any text.
    Status,
    /// A number from 1 to 4.
    Priority,
    /// One of these values; the first is the default.
    Choice(&'static [&'static str]),
    /// The parent, an item of this kind.
    Parent(ItemKind),
    /// A user name.
    User,
    Tags,
    /// The order by hand.
    Rank,
    /// Relationships to requirements.
    Relationship(RelationshipType),
    /// Relations and their targets, each under a key of its own.
    Links,
    Time,
    /// The record's ID.
    Id,
    /// A text that tools set, such as the kind.
    Text,
    /// File suffixes of link targets.
    Suffixes,
    /// A value that storages keep like those of custom fields, and the values of a choice. Tools
    /// take it as an argument, and everything else treats it as a custom field. Never required.
    Value(CustomType, &'static [&'static str]),
}

/// A built-in field of some kinds.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "a row of a table")]
pub struct RecordField {
    /// The argument of tools, and the name of a form's field.
    pub name: &'static str,
    /// The key in front matter; empty if it is not one key.
    pub key: &'static str,
    /// The key in answers.
    pub answer_key: &'static str,
    pub label: &'static str,
    /// Other names that callers use, in lower case and without separators.
    pub synonyms: &'static [&'static str],
    /// The hint of a form.
    pub hint: &'static str,
    /// The descriptions of the arguments of tools that create and update.
    pub descriptions: [&'static str; 2],
    pub field_type: FieldType,
    pub items: &'static [ItemKind],
    pub of_entities: bool,
    /// Required on create.
    pub is_required: bool,
    /// An argument in the schemas of tools, and a field of forms.
    pub is_editable: bool,
    /// Below the other keys of front matter.
    pub is_last: bool,
    /// Of a [`FieldType::Value`].
    pub views: &'static [FieldView],
}

impl RecordField {
    /// True if records of this kind have the field.
    pub fn is_of(&self, kind: &RecordKind) -> bool {
        match kind.id_source {
            IdSource::FileName => self.items.iter().any(|item| item.name() == kind.name),
            IdSource::FrontMatter => self.of_entities,
        }
    }

    fn is_value(&self) -> bool {
        matches!(self.field_type, FieldType::Value(..))
    }

    /// The names of the kinds, as the schema of a project has them.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let items = self.items.iter().map(|kind| kind.name());
        items.chain(self.of_entities.then_some("entity"))
    }

    /// True for its name or a synonym, in any spelling.
    pub fn is_called(&self, word: &str) -> bool {
        let mut names = [self.name].into_iter().chain(self.synonyms.iter().copied());
        names.any(|name| find_by_name(&[name], |name| name, word).is_some())
    }
}

/// The types of relationships between two items of a kind.
pub fn relationship_types(kind: ItemKind) -> Vec<RelationshipType> {
    let types = fields_of(kind.row()).filter_map(|field| match field.field_type {
        FieldType::Relationship(kind) => {
            Some(kind).filter(|kind| RelationshipType::SETTABLE.contains(kind))
        }
        _ => None,
    });
    types.collect()
}

/// The fields of a kind, in the order of files and forms. [`value_fields`] has the rest.
pub fn fields_of(kind: &RecordKind) -> impl Iterator<Item = &'static RecordField> {
    FIELDS.iter().filter(|field| field.is_of(kind) && !field.is_value())
}

/// The fields whose values are kept like those of custom fields.
pub fn value_fields() -> impl Iterator<Item = &'static RecordField> {
    FIELDS.iter().filter(|field| field.is_value())
}

/// The key that names the source of an imported record, and the hash of what was imported.
pub const IMPORTED_FROM: &str = "imported_from";

/// True for a key of entities that is never a link.
pub(crate) fn is_metadata_key(key: &str) -> bool {
    key == "labels"
        || key == IMPORTED_FROM
        || FIELDS.iter().any(|field| field.of_entities && field.key == key)
}

/// True for a name that a built-in field has in files, arguments or answers.
pub(crate) fn is_field_word(word: &str) -> bool {
    FIELDS.iter().any(|field| [field.name, field.key, field.answer_key].contains(&word))
}

/// The field of a kind with this name or synonym, in any spelling.
pub fn find_field(kind: &RecordKind, word: &str) -> Option<&'static RecordField> {
    fields_of(kind).find(|field| field.is_called(word))
}

use ItemKind::{AcceptanceCriteria, Epic, Requirement, UserStory};

const ALL_ITEMS: &[ItemKind] = &ItemKind::ALL;
const MARKDOWN: &str = "Markdown.";

/// A field that tools change.
pub const fn field(name: &'static str, label: &'static str, field_type: FieldType) -> RecordField {
    RecordField {
        name,
        key: name,
        answer_key: name,
        label,
        synonyms: &[],
        hint: "",
        descriptions: ["", ""],
        field_type,
        items: &[],
        of_entities: false,
        is_required: false,
        is_editable: true,
        is_last: false,
        views: &[],
    }
}

/// A field of each item that only the program sets, in the last lines of front matter.
const fn last(key: &'static str, field_type: FieldType) -> RecordField {
    let field = field(key, "", field_type);
    RecordField { items: ALL_ITEMS, is_editable: false, is_last: true, ..field }
}

/// As [`last`], of entities.
const fn last_of_entity(key: &'static str, field_type: FieldType) -> RecordField {
    RecordField { items: &[], of_entities: true, ..last(key, field_type) }
}

const fn relationship(kind: RelationshipType) -> RecordField {
    let field = field(kind.name(), "", FieldType::Relationship(kind));
    let items: &[ItemKind] = match kind {
        RelationshipType::DependsOn | RelationshipType::Blocks => &[UserStory, Requirement],
        _ => &[Requirement],
    };
    RecordField { items, is_editable: false, ..field }
}

const PARENT: RecordField = RecordField {
    answer_key: "parent",
    synonyms: &["parent", "in"],
    is_required: true,
    ..field("", "", FieldType::Text)
};

const STORY: RecordField = RecordField {
    name: "user_story",
    key: "user_story",
    answer_key: "user_story",
    label: "User story",
    synonyms: &["story", "us", "parent", "in"],
    hint: "Such as US-001.",
    field_type: FieldType::Parent(UserStory),
    ..PARENT
};

const BODY: RecordField = RecordField {
    key: "",
    synonyms: &["description", "desc", "body", "text"],
    hint: MARKDOWN,
    descriptions: [MARKDOWN, MARKDOWN],
    ..field("description", "Description", FieldType::Body)
};

const ASSIGNEE: RecordField = RecordField {
    key: "assignee_username",
    answer_key: "assignee_username",
    synonyms: &["assigned", "assignedto", "assigneeusername"],
    hint: "User name; empty to unassign.",
    descriptions: ["User name.", "User name; empty to unassign."],
    ..field("assignee", "Assignee", FieldType::User)
};

const TAGS: RecordField = RecordField {
    synonyms: &["tag", "label", "labels"],
    hint: "Separated by commas; \"a, b\" is one tag.",
    descriptions: ["", "Replaces all tags."],
    ..field("tags", "Tags", FieldType::Tags)
};

/// All built-in fields, in the order of files and forms.
pub static FIELDS: LazyLock<Vec<RecordField>> = LazyLock::new(|| {
    let fields = ROWS.into_iter();
    #[cfg(feature = "test-doubles")]
    let fields = fields.chain(crate::test_support::ADDED_FIELD.get().cloned());
    fields.collect()
});

const ROWS: [RecordField; 37] = [
    RecordField { of_entities: true, is_editable: false, ..field("id", "ID", FieldType::Id) },
    RecordField { of_entities: true, is_editable: false, ..field("type", "Kind", FieldType::Text) },
    RecordField {
        synonyms: &["name"],
        items: PLANNED,
        of_entities: true,
        is_required: true,
        ..field("title", "Title", FieldType::Title)
    },
    RecordField { items: PLANNED, ..BODY },
    RecordField {
        label: "Text",
        hint: "Markdown. One testable condition.",
        descriptions: [MARKDOWN, ""],
        items: &[AcceptanceCriteria],
        is_required: true,
        ..BODY
    },
    RecordField { name: "body", answer_key: "body", label: "Text", of_entities: true, ..BODY },
    RecordField {
        synonyms: &["state"],
        items: ALL_ITEMS,
        of_entities: true,
        ..field("status", "Status", FieldType::Status)
    },
    RecordField {
        synonyms: &["prio"],
        descriptions: ["1 Critical to 4 Low."; 2],
        items: PLANNED,
        is_required: true,
        ..field("priority", "Priority", FieldType::Priority)
    },
    RecordField {
        key: "type_name",
        answer_key: "type_name",
        synonyms: &["typename"],
        items: &[Requirement],
        is_required: true,
        ..field("type", "Type", FieldType::Choice(&RequirementType::NAMES))
    },
    RecordField {
        name: "epic",
        key: "epic",
        answer_key: "epic",
        label: "Epic",
        hint: "Such as EP-001.",
        field_type: FieldType::Parent(Epic),
        items: &[UserStory],
        ..PARENT
    },
    RecordField { items: &[Requirement, AcceptanceCriteria], ..STORY },
    RecordField { items: PLANNED, ..ASSIGNEE },
    RecordField { items: &[AcceptanceCriteria], is_editable: false, ..ASSIGNEE },
    RecordField { items: PLANNED, of_entities: true, ..TAGS },
    RecordField { items: &[AcceptanceCriteria], is_editable: false, ..TAGS },
    // Tools take it without listing it: descriptions cost each call, and few need it.
    RecordField { items: ALL_ITEMS, is_editable: false, ..field("rank", "Rank", FieldType::Rank) },
    RecordField {
        key: "",
        hint: "One relation per line, such as: affects: REQ-001, or: supersedes: dec-1d2c8f",
        of_entities: true,
        ..field("links", "Links", FieldType::Links)
    },
    RecordField {
        of_entities: true,
        is_editable: false,
        ..field(REVIEW_BY, "Review by", FieldType::Value(CustomType::Date, &[]))
    },
    relationship(RelationshipType::DependsOn),
    relationship(RelationshipType::Blocks),
    relationship(RelationshipType::RelatesTo),
    relationship(RelationshipType::ConflictsWith),
    relationship(RelationshipType::DerivesFrom),
    relationship(RelationshipType::Supersedes),
    RecordField { name: "creator", ..last("creator_username", FieldType::User) },
    last("created_at", FieldType::Time),
    last("updated_at", FieldType::Time),
    // It identifies the item after a rename of its file.
    last("uid", FieldType::Id),
    last("linked", FieldType::Suffixes),
    last("deleted_at", FieldType::Time),
    last("deleted_username", FieldType::User),
    last_of_entity("created_at", FieldType::Time),
    last_of_entity("created_by", FieldType::User),
    last_of_entity("updated_at", FieldType::Time),
    RecordField { is_last: false, ..last_of_entity("date", FieldType::Time) },
    last_of_entity("deleted_at", FieldType::Time),
    last_of_entity("deleted_by", FieldType::User),
];
