//! Port to an embedding model, which maps texts to vectors.

use crate::error::Result;

/// An embedding model. Similar texts have vectors at a small angle.
pub trait Embedder: Send + Sync {
    fn profile(&self) -> &ModelProfile;

    /// Returns one vector of unit length per text. A text without any known word gets a zero
    /// vector; a text that is longer than the model's input is truncated.
    ///
    /// Blocks for up to tens of milliseconds per text, so call it on a thread that may block.
    fn embed(&self, role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>>;
}

/// The role of a text in search. Some models embed queries and passages differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    Query,
    Passage,
}

/// The properties of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelProfile {
    /// The name in answers and on the command line, such as `all-minilm-l6-v2`.
    pub name: String,
    /// Identifies cached vectors. It must change with everything that changes vectors.
    pub id: String,
    /// The number of components of a vector.
    pub dimension: usize,
    /// The usual cosine of a query and an unrelated text, below 1. It counts as no similarity.
    pub unrelated_cosine: f32,
    /// The evidence from which a text is expected to answer a query: the square of the share of the
    /// query's words in the text, plus the similarity.
    pub min_evidence: f32,
    pub languages: ModelLanguages,
    pub speed: ModelSpeed,
}

/// The time that a model takes for one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelSpeed {
    /// Microseconds: texts are embedded within the call that needs them.
    Instant,
    /// Milliseconds: texts are embedded in the background.
    Slow,
}

/// The languages that a model supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelLanguages {
    /// English only. Texts in other scripts are ranked lexically.
    English,
    /// Many languages, with similarity across languages.
    Many,
}
