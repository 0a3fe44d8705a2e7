//! The effects of a deletion, as a dry run of `apply_changes` returns them.

use serde::Deserialize;

use crate::untrusted_text::encode_id;

#[derive(Debug, Default, Deserialize)]
pub struct PlannedDeletion {
    pub results: Vec<DeletionEffects>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeletionEffects {
    /// Other items that are deleted.
    pub deleted: Vec<String>,
    /// Items that lose a relationship to a deleted one.
    pub unlinked: Vec<String>,
}

impl PlannedDeletion {
    /// A line for each effect that there is.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for DeletionEffects { deleted, unlinked } in &self.results {
            for (label, ids) in
                [("Also deleted", deleted), ("Relationships removed from", unlinked)]
            {
                if !ids.is_empty() {
                    let ids: Vec<_> = ids.iter().map(|id| encode_id(id)).collect();
                    lines.push(format!("{label}: {}", ids.join(", ")));
                }
            }
        }
        lines
    }
}
