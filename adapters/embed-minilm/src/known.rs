//! The models that this crate can compute, and what differs between them.

use reqlore_domain::ports::embedder::{ModelLanguages, ModelProfile, ModelSpeed, TextRole};

use crate::LoadError;
use crate::bert::HIDDEN;

/// Raised when the same files give other vectors than before.
const FORMAT: u32 = 1;

static KNOWN: [Known; 2] = [
    Known {
        name: "all-minilm-l6-v2",
        languages: ModelLanguages::English,
        weight: 1.0,
        vocabulary: 30_522,
        layers: 6,
        pieces_a_text: 128,
        unknown: "[UNK]",
        prefixes: ["", ""],
    },
    Known {
        name: "multilingual-e5-small",
        languages: ModelLanguages::Many,
        weight: 1.0,
        vocabulary: 250_037,
        layers: 12,
        pieces_a_text: 256,
        unknown: "<unk>",
        prefixes: ["query: ", "passage: "],
    },
];

pub(crate) struct Known {
    name: &'static str,
    languages: ModelLanguages,
    weight: f32,
    pub(crate) vocabulary: usize,
    pub(crate) layers: usize,
    /// How much of a text is read; the marks at both ends count too.
    pub(crate) pieces_a_text: usize,
    pub(crate) unknown: &'static str,
    /// What stands before a query, and before a passage.
    prefixes: [&'static str; 2],
}

pub(crate) fn find(name: &str) -> Result<&'static Known, LoadError> {
    KNOWN.iter().find(|known| known.name == name).ok_or_else(|| LoadError::Unknown {
        name: name.to_owned(),
        known: KNOWN.each_ref().map(|known| known.name).join(", "),
    })
}

impl Known {
    pub(crate) fn profile(&self) -> ModelProfile {
        ModelProfile {
            name: self.name.to_owned(),
            id: format!("{}-{}-{FORMAT}", self.name, self.pieces_a_text),
            dimension: HIDDEN,
            weight: self.weight,
            languages: self.languages,
            pace: ModelSpeed::Slow,
        }
    }

    pub(crate) fn prefix(&self, role: TextRole) -> &'static str {
        match role {
            TextRole::Query => self.prefixes[0],
            TextRole::Passage => self.prefixes[1],
        }
    }
}
