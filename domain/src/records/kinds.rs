//! The kinds of items and entities: one table, from which names, folders, IDs and statuses are
//! made.

use std::sync::LazyLock;

use crate::backlog::fields::{Status, find_by_name};
use crate::bounded_types::serialize_by_name;
use crate::ports::project_resolver::Toolset;

/// A kind of item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    Epic,
    UserStory,
    Requirement,
    AcceptanceCriteria,
}

/// A kind of entity that tools create. A file may have any other kind.
#[derive(Debug, Clone, Copy)]
pub struct EntityKind(&'static RecordKind);

impl PartialEq for EntityKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for EntityKind {}

serialize_by_name!(ItemKind);

/// The kinds with a title, a priority and an assignee, which boards show. Parents come first.
pub const PLANNED: &[ItemKind] = &[ItemKind::Epic, ItemKind::UserStory, ItemKind::Requirement];

/// The origin of a record's ID, which also decides how much of a damaged file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdSource {
    /// A prefix and a number in the name of the file. An invalid value is reported and replaced by
    /// its default, and valid lines of invalid front matter are used.
    FileName,
    /// A prefix and hexadecimal digits in the front matter, or else the document's name. Any value
    /// is allowed, and invalid front matter has no links.
    FrontMatter,
}

/// A kind of record.
#[derive(Debug, Clone)]
pub struct RecordKind {
    /// The name in arguments, keys, answers and storages. Never changes.
    pub name: &'static str,
    /// The name at the start of a sentence.
    pub noun: &'static str,
    /// Singular and plural in sentences.
    pub words: [&'static str; 2],
    /// Other names that callers use.
    pub synonyms: &'static [&'static str],
    /// Prefixes of IDs. New IDs have the first one.
    pub prefixes: &'static [&'static str],
    pub id_source: IdSource,
    /// The folder below that of all items or entities.
    pub folder: &'static str,
    /// The parent's kind. Its name is the key that holds the parent's reference.
    pub parent: Option<ItemKind>,
    /// The statuses of the last kind are the progress.
    pub children: &'static [ItemKind],
    /// In the order of work; the first is the default. Empty if any text is a status.
    pub statuses: &'static [Status],
    pub toolset: Toolset,
    pub create_tool: &'static str,
    pub update_tool: &'static str,
    /// Title and description of the tools of an item's kind: the one that creates, and the one that
    /// updates.
    pub tool_texts: [[&'static str; 2]; 2],
}

impl RecordKind {
    /// The name in commands.
    pub fn short_name(&self) -> &'static str {
        self.synonyms.first().unwrap_or(&self.name)
    }
}

const ITEM: RecordKind = RecordKind {
    name: "",
    noun: "",
    words: ["", ""],
    synonyms: &[],
    prefixes: &[],
    id_source: IdSource::FileName,
    folder: "",
    parent: None,
    children: &[],
    statuses: &[],
    toolset: Toolset::Backlog,
    create_tool: "",
    update_tool: "",
    tool_texts: [[""; 2]; 2],
};

/// A kind of entity.
pub const fn entity(
    name: &'static str,
    noun: &'static str,
    folder: &'static str,
    prefixes: &'static [&'static str],
) -> RecordKind {
    RecordKind {
        name,
        noun,
        words: [name, folder],
        prefixes,
        id_source: IdSource::FrontMatter,
        folder,
        toolset: Toolset::Knowledge,
        create_tool: "ixchel_create",
        update_tool: "ixchel_update",
        ..ITEM
    }
}

/// The built-in kinds: those of [`ItemKind::ALL`], then those of entities.
pub static KINDS: LazyLock<Vec<RecordKind>> = LazyLock::new(|| {
    let kinds = ROWS.into_iter();
    #[cfg(feature = "test-doubles")]
    let kinds = kinds.chain(crate::test_support::ADDED_KIND.get().cloned());
    kinds.collect()
});

const ROWS: [RecordKind; 12] = [
    RecordKind {
        name: "epic",
        noun: "Epic",
        words: ["epic", "epics"],
        prefixes: &["EP"],
        folder: "epics",
        children: &[ItemKind::UserStory],
        statuses: &Status::WORK_STATUSES,
        create_tool: "create_epic",
        update_tool: "update_epic",
        tool_texts: [
            [
                "Add an epic",
                "Creates an epic: a large goal that groups user stories. With its items: \
                 apply_changes.",
            ],
            ["Change an epic", "Changes only the given fields."],
        ],
        ..ITEM
    },
    RecordKind {
        name: "user_story",
        noun: "User story",
        words: ["user story", "user stories"],
        synonyms: &["story", "user-stories"],
        prefixes: &["US"],
        folder: "stories",
        parent: Some(ItemKind::Epic),
        children: &[ItemKind::Requirement, ItemKind::AcceptanceCriteria],
        statuses: &Status::WORK_STATUSES,
        create_tool: "create_user_story",
        update_tool: "update_user_story",
        tool_texts: [
            [
                "Add a user story",
                "Creates a user story of an epic: a user's need and its reason. Several: \
                 apply_changes.",
            ],
            ["Change a user story", "Changes only the given fields."],
        ],
        ..ITEM
    },
    RecordKind {
        name: "requirement",
        noun: "Requirement",
        words: ["requirement", "requirements"],
        prefixes: &["REQ"],
        folder: "requirements",
        parent: Some(ItemKind::UserStory),
        statuses: &Status::REQUIREMENT_STATUSES,
        create_tool: "create_requirement",
        update_tool: "update_requirement",
        tool_texts: [
            [
                "Add a requirement to a story",
                "Creates a requirement of a user story: one thing that the product must do or be. \
                 Several: apply_changes.",
            ],
            ["Change a requirement", "Changes only the given fields."],
        ],
        ..ITEM
    },
    RecordKind {
        name: "acceptance_criteria",
        noun: "Acceptance criteria",
        words: ["acceptance criterion", "acceptance criteria"],
        synonyms: &["criterion", "acceptance", "acceptance-criteria"],
        prefixes: &["AC"],
        folder: "criteria",
        parent: Some(ItemKind::UserStory),
        statuses: &Status::CRITERIA_STATUSES,
        create_tool: "create_acceptance_criteria",
        update_tool: "update_acceptance_criteria",
        tool_texts: [
            [
                "Add an acceptance criterion",
                "Creates an acceptance criterion of a user story: one testable condition, such as \
                 Given-When-Then.",
            ],
            ["Change an acceptance criterion", "Changes only the given fields."],
        ],
        ..ITEM
    },
    entity("decision", "Decision", "decisions", &["dec"]),
    entity("issue", "Issue", "issues", &["iss", "bd"]),
    entity("idea", "Idea", "ideas", &["idea"]),
    entity("report", "Report", "reports", &["rpt"]),
    entity("source", "Source", "sources", &["src"]),
    entity("citation", "Citation", "citations", &["cite"]),
    entity("agent", "Agent", "agents", &["agt"]),
    entity("session", "Session", "sessions", &["ses"]),
];

fn entity_rows() -> impl Iterator<Item = &'static RecordKind> {
    KINDS.iter().skip(ItemKind::ALL.len())
}

/// Finds a kind by its name, a plural, the prefix of its IDs or a synonym, in any spelling.
pub fn find_kind(word: &str) -> Option<&'static RecordKind> {
    KINDS.iter().find(|kind| {
        let names = [kind.name, kind.folder].into_iter().chain(kind.words);
        let mut names = names.chain(kind.synonyms.iter().chain(kind.prefixes).copied());
        names.any(|name| find_by_name(&[name], |name| name, word).is_some())
    })
}

impl ItemKind {
    pub const ALL: [Self; 4] =
        [Self::Epic, Self::UserStory, Self::Requirement, Self::AcceptanceCriteria];

    /// The row of the kind.
    pub fn row(self) -> &'static RecordKind {
        &KINDS[self as usize]
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The prefix of references: `REQ` in `REQ-048`.
    pub fn prefix(self) -> &'static str {
        self.row().prefixes[0]
    }

    /// The name in arguments, keys and results. Never changes.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The name in sentences.
    pub fn noun(self) -> &'static str {
        self.row().noun
    }

    /// The parent's kind. Its [`ItemKind::name`] is the key that holds the parent's reference.
    pub fn parent(self) -> Option<Self> {
        self.row().parent
    }

    /// The kind of children whose statuses are the progress.
    pub fn counted_child(self) -> Option<Self> {
        self.row().children.last().copied()
    }

    /// The built-in statuses; the first is the default.
    pub fn statuses(self) -> &'static [Status] {
        self.row().statuses
    }

    /// True for the kinds with a title, a priority and an assignee, which boards show.
    pub fn is_planned(self) -> bool {
        PLANNED.contains(&self)
    }

    /// True if a project may list other statuses.
    pub fn has_custom_statuses(self) -> bool {
        self.statuses() == Status::WORK_STATUSES
    }
}

impl EntityKind {
    pub fn all() -> Vec<Self> {
        entity_rows().map(Self).collect()
    }

    /// The row of any kind of entity: all have the same fields and tools.
    pub fn any_row() -> &'static RecordKind {
        &KINDS[ItemKind::ALL.len()]
    }

    pub fn row(self) -> &'static RecordKind {
        self.0
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Parses a name, a plural or the prefix of an ID, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        find_kind(text).filter(|kind| kind.id_source == IdSource::FrontMatter).map(Self)
    }

    /// The ID with these hexadecimal digits, such as `dec-1d2c8f`.
    pub fn id(self, digits: &str) -> String {
        format!("{}-{digits}", self.row().prefixes[0])
    }

    /// The document's name of a new entity, such as `decisions/dec-1d2c8f`.
    pub fn document_name(self, digits: &str) -> String {
        format!("{}/{}", self.row().folder, self.id(digits))
    }
}

/// The entity kind whose IDs have this prefix.
pub(crate) fn kind_of_prefix(prefix: &str) -> Option<&'static RecordKind> {
    entity_rows().find(|kind| kind.prefixes.contains(&prefix))
}

/// The entity kind whose files are in this folder.
pub(crate) fn kind_of_folder(folder: &str) -> Option<&'static RecordKind> {
    entity_rows().find(|kind| kind.folder == folder)
}

/// True for the form of an entity's ID, such as `dec-1d2c8f`.
pub fn is_entity_id(text: &str) -> bool {
    let Some((prefix, digits)) = text.split_once('-') else { return false };
    (4..=32).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && kind_of_prefix(prefix).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_the_row_of_its_own_words() {
        for kind in ItemKind::ALL {
            let row = kind.row();
            assert_eq!(format!("{kind:?}").to_lowercase(), row.name.replace('_', ""));
            assert_eq!(ItemKind::from_name(row.name), Some(kind));
            for child in row.children {
                assert_eq!(child.parent(), Some(kind), "{child:?}");
            }
        }
        for kind in EntityKind::all() {
            assert_eq!(
                (kind.row().words[0], EntityKind::parse(kind.name())),
                (kind.name(), Some(kind))
            );
        }
        for (word, name) in [
            ("US", "user_story"),
            ("stories", "user_story"),
            ("User Stories", "user_story"),
            ("criterion", "acceptance_criteria"),
            ("criteria", "acceptance_criteria"),
            ("ac", "acceptance_criteria"),
            ("bd", "issue"),
            ("Decisions", "decision"),
        ] {
            assert_eq!(find_kind(word).map(|kind| kind.name), Some(name), "{word}");
        }
        assert!(find_kind("").is_none() && find_kind("note").is_none());
    }

    #[test]
    fn each_word_names_one_kind() {
        let mut known = std::collections::BTreeMap::new();
        for kind in KINDS.iter() {
            for word in kind.prefixes.iter().chain(kind.synonyms).chain([&kind.name, &kind.folder])
            {
                let other = known.insert(word.to_lowercase(), kind.name);
                assert!(other.is_none_or(|other| other == kind.name), "{word}: {other:?}");
            }
        }
    }
}
