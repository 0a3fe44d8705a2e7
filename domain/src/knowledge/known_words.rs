//! Words that entities usually have as status or relation.

use crate::backlog::relation_words::known_relations;

/// In the spelling of most repositories.
const STATUSES: [&str; 14] = [
    "accepted",
    "active",
    "blocked",
    "closed",
    "deprecated",
    "done",
    "draft",
    "in_progress",
    "obsolete",
    "open",
    "proposed",
    "rejected",
    "resolved",
    "superseded",
];

/// Returns the usual spelling of a status that is spelled differently, such as `accepted` for
/// `Accepted`.
pub fn usual_status(status: &str) -> Option<&'static str> {
    let folded = status.trim().to_lowercase().replace([' ', '-'], "_");
    STATUSES.into_iter().find(|usual| *usual == folded && *usual != status)
}

/// Returns the known relation that differs from an unknown one in one letter, such as `supersedes`
/// for `superseeds`.
pub fn similar_relation(relation: &str) -> Option<&'static str> {
    let folded = relation.to_lowercase().replace('-', "_");
    if known_relations().any(|known| known == relation) {
        return None;
    }
    // Also two adjacent letters in the wrong order.
    known_relations().find(|known| strsim::osa_distance(known, &folded) <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_words_are_found() {
        assert_eq!(usual_status("Accepted"), Some("accepted"));
        assert_eq!(usual_status("In progress"), Some("in_progress"));
        assert_eq!((usual_status("accepted"), usual_status("Ready")), (None, None));
        for relation in ["superseeds", "supersede", "Supersedes", "supersdes"] {
            assert_eq!(similar_relation(relation), Some("supersedes"), "{relation}");
        }
        for relation in ["supersedes", "replaces", "affects"] {
            assert_eq!(similar_relation(relation), None, "{relation}");
        }
    }
}
