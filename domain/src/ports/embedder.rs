//! Port to an embedding model, which maps texts to vectors.

use crate::error::Result;

/// An embedding model. A small angle between two vectors means that their texts are similar.
///
/// `embed` is pure computation and may take tens of milliseconds per text. Call it where blocking
/// is allowed.
pub trait Embedder: Send + Sync {
    fn profile(&self) -> &ModelProfile;

    /// One vector of unit length for each text, in their order. A text that the model does not know
    /// gives a vector of zeros. Longer texts than the model reads are truncated.
    fn embed(&self, role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>>;
}

/// The use of a text in search, which some models distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    Query,
    Passage,
}

/// The properties of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelProfile {
    /// The name in responses and on the command line, such as `all-minilm-l6-v2`.
    pub name: String,
    /// The key of cached vectors. It changes with everything that changes the vectors.
    pub id: String,
    /// Numbers per vector.
    pub dimension: usize,
    /// The weight of semantic scores; lexical scores have weight 1.
    pub weight: f32,
    pub languages: ModelLanguages,
    pub pace: ModelSpeed,
}

/// The time that a model takes for one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelSpeed {
    /// Microseconds: texts are embedded within the call.
    Instant,
    /// Milliseconds: texts are embedded in the background.
    Slow,
}

/// The languages that a model understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelLanguages {
    /// English only. Texts in other scripts are ranked lexically.
    English,
    /// Many languages, also across languages.
    Many,
}
