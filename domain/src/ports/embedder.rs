//! The driven port to a model of meaning: texts to vectors.

use crate::error::Result;

/// Turns texts into vectors whose angles tell how near their meanings are.
///
/// It is pure computation and may take tens of milliseconds a text, so it is not async: callers run
/// it where blocking is allowed.
pub trait Embedder: Send + Sync {
    fn profile(&self) -> &Profile;

    /// One vector of unit length for each text, in their order. A text of which the model knows
    /// nothing gives a vector of zeros. What is longer than the model reads is cut at its end.
    fn embed(&self, role: Role, texts: &[&str]) -> Result<Vec<Vec<f32>>>;
}

/// What a text is to the search; some models want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Query,
    Passage,
}

/// What there is to know of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// As answers and the command line call it, such as `all-minilm-l6-v2`.
    pub name: String,
    /// The name and whatever else decides on the vectors: another id, other vectors. Cached vectors
    /// are kept under it.
    pub id: String,
    /// How many numbers a vector has.
    pub dimension: usize,
    /// What the nearness of meaning counts beside the match of words, which counts 1.
    pub weight: f32,
    pub languages: Languages,
    pub pace: Pace,
}

/// How long a model takes for one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Microseconds: callers may embed in passing.
    Instant,
    /// Milliseconds: texts wait for a thread in the background.
    Slow,
}

/// Which texts a model understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Languages {
    /// English only: for other scripts its vectors say nothing, and words alone rank.
    English,
    /// Many languages, also a query in one and texts in another.
    Many,
}
