//! The watched parts of a project: where many documents lie, of which a call looks at few.
//!
//! The knowledge graph is one, whose folders are nested; the backlog is the other, with one flat
//! folder for each kind. Whatever happens in one leaves the other believed.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{self, Kind};

/// The folder of the knowledge graph (S4 AC-002.1).
pub(crate) const KNOWLEDGE: &str = ".ixchel";
/// How deep its folders may be nested.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    Knowledge,
    Backlog,
}

impl Area {
    pub(crate) const ALL: [Self; 2] = [Self::Knowledge, Self::Backlog];

    /// Where documents of this kind lie; `None` for those that are looked at one by one.
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Instructions | Kind::Section | Kind::Docsets => None,
            Kind::Entity => Some(Self::Knowledge),
            Kind::Item(_) | Kind::Deleted => Some(Self::Backlog),
        }
    }

    /// Where documents of any of these kinds lie, each named once.
    pub(crate) fn among(kinds: &[Kind]) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|area| kinds.iter().any(|kind| Self::of(*kind) == Some(*area)))
    }

    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Knowledge => &[Kind::Entity],
            Self::Backlog => &[
                Kind::Item(ItemKind::Epic),
                Kind::Item(ItemKind::UserStory),
                Kind::Item(ItemKind::Requirement),
                Kind::Item(ItemKind::AcceptanceCriteria),
                Kind::Deleted,
            ],
        }
    }

    /// The folder that holds all others, relative to the project's root.
    pub(crate) fn top(self) -> &'static str {
        match self {
            Self::Knowledge => KNOWLEDGE,
            Self::Backlog => document::BACKLOG,
        }
    }

    /// How deep the folders of a kind may be nested.
    pub(crate) fn depth(self) -> usize {
        match self {
            Self::Knowledge => MAX_DEPTH,
            Self::Backlog => 0,
        }
    }

    /// The file in the cache's folder.
    pub(crate) fn cache(self) -> &'static str {
        match self {
            Self::Knowledge => "heads.bin",
            Self::Backlog => "items.bin",
        }
    }
}
