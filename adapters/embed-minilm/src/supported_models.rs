//! The supported models and their parameters.

use reqlore_domain::ports::embedder::{ModelLanguages, ModelProfile, ModelSpeed, TextRole};

use crate::bert::HIDDEN_SIZE;
use crate::error::LoadError;

/// Part of the vectors' ID: increased when the same files result in other vectors.
const VECTOR_FORMAT: u32 = 1;

/// Measured with all-minilm-l6-v2; see docs/decisions/0049-rank-by-absolute-evidence.md.
const MIN_EVIDENCE: f32 = 0.39;

static SUPPORTED_MODELS: [SupportedModel; 2] = [
    SupportedModel {
        name: "all-minilm-l6-v2",
        languages: ModelLanguages::English,
        unrelated_cosine: 0.0,
        vocabulary_size: 30_522,
        layer_count: 6,
        max_pieces: 128,
        unknown_piece: "[UNK]",
        prefixes: ["", ""],
    },
    SupportedModel {
        name: "multilingual-e5-small",
        languages: ModelLanguages::Many,
        // The model's card: cosines are between 0.7 and 1.
        unrelated_cosine: 0.75,
        vocabulary_size: 250_037,
        layer_count: 12,
        max_pieces: 256,
        unknown_piece: "<unk>",
        prefixes: ["query: ", "passage: "],
    },
];

pub(crate) struct SupportedModel {
    name: &'static str,
    languages: ModelLanguages,
    unrelated_cosine: f32,
    pub(crate) vocabulary_size: usize,
    pub(crate) layer_count: usize,
    /// Maximum pieces of a text, including the special pieces at both ends. The rest is ignored.
    pub(crate) max_pieces: usize,
    pub(crate) unknown_piece: &'static str,
    /// The prefixes of queries and of passages that the model was trained with.
    prefixes: [&'static str; 2],
}

pub(crate) fn find_model(name: &str) -> Result<&'static SupportedModel, LoadError> {
    if let Some(model) = SUPPORTED_MODELS.iter().find(|model| model.name == name) {
        return Ok(model);
    }
    let known = SUPPORTED_MODELS.each_ref().map(|model| model.name).join(", ");
    Err(LoadError::Unknown { name: name.to_owned(), known })
}

impl SupportedModel {
    pub(crate) fn profile(&self) -> ModelProfile {
        ModelProfile {
            name: self.name.to_owned(),
            id: format!("{}-{}-{VECTOR_FORMAT}", self.name, self.max_pieces),
            dimension: HIDDEN_SIZE,
            unrelated_cosine: self.unrelated_cosine,
            min_evidence: MIN_EVIDENCE,
            languages: self.languages,
            speed: ModelSpeed::Slow,
        }
    }

    pub(crate) fn prefix(&self, role: TextRole) -> &'static str {
        match role {
            TextRole::Query => self.prefixes[0],
            TextRole::Passage => self.prefixes[1],
        }
    }
}
