//! The built-in embedder: a table with a vector for each word piece, and a text is their mean.
//!
//! It knows nothing of order or context and is weak alone; beside the match of words it finds what
//! is said in other words. `distil.py` makes the table and `NOTICE` says from what. Whoever makes
//! another table must give it another [`ID`], or cached vectors of both would be compared.

mod pieces;
mod table;

use std::fmt;

use reqlore_domain::error::Result;
use reqlore_domain::ports::embedder::{Embedder, Languages, Pace, Profile, Role};

use crate::table::{DIMENSION, Table};

/// The name and number of this table: another number, other vectors.
pub const ID: &str = "static-1";

/// What nearness by this table counts beside the match of words: the best of five weights on manual
/// pages asked for by their one-line descriptions, and never far from the best elsewhere.
const WEIGHT: f32 = 0.5;

static TABLE: Table = Table::over(include_bytes!("../data/table.bin"));

/// Embeds with the table that is part of the program. Making one costs nothing.
pub struct StaticEmbedder {
    profile: Profile,
}

impl StaticEmbedder {
    pub fn new() -> Self {
        Self {
            profile: Profile {
                name: "static".to_owned(),
                id: ID.to_owned(),
                dimension: DIMENSION,
                weight: WEIGHT,
                languages: Languages::English,
                pace: Pace::Instant,
            },
        }
    }
}

impl Default for StaticEmbedder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticEmbedder").field("id", &self.profile.id).finish_non_exhaustive()
    }
}

impl Embedder for StaticEmbedder {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Texts of any length are read whole, and alike in every role.
    fn embed(&self, _role: Role, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| embed(text)).collect())
    }
}

fn embed(text: &str) -> Vec<f32> {
    let mut sum = vec![0.0; DIMENSION];
    pieces::each(&TABLE, text, |piece| TABLE.add(piece, &mut sum));
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        for number in &mut sum {
            *number /= length;
        }
    }
    sum
}

#[cfg(test)]
mod tests;
