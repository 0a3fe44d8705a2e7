//! Hits of a search that have ended: marked, and after all others.

use std::collections::HashMap;
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::ended::Freshness;
use reqlore_domain::search::SearchHit;

use crate::addresses::links::LinkReader;
use crate::context::ToolContext;

const UNCERTAIN_HEADING: &str = "Uncertain hits, which may not answer the query:";
const ENDED_HEADING: &str = "No longer valid:";

/// The entities and requirements among hits, and the freshness of those that it tells more of than
/// their status.
pub(crate) async fn read_records(
    context: &ToolContext,
    project: &ProjectKey,
    found: &[SearchHit],
) -> Result<(Vec<Arc<DocumentMeta>>, HashMap<DocumentId, Freshness>)> {
    let ports = &context.ports;
    let mut metas = Vec::new();
    for kind in [DocumentKind::Entity, DocumentKind::Item(ItemKind::Requirement)] {
        let hits = found.iter().filter(|hit| hit.document.kind == kind);
        let names: Vec<String> = hits.map(|hit| hit.document.name.clone()).collect();
        if !names.is_empty() {
            metas.extend(ports.documents.lookup(project, kind, &names).await?.concat());
        }
    }
    let freshness = LinkReader { ports, project }.freshness(&metas).await?;
    Ok((metas, freshness))
}

/// True if a word of the query is the ID.
pub(crate) fn names_id(query: &str, id: &str) -> bool {
    let reference = Reference::parse(id);
    let is_id = |word: &str| {
        fold_name(word) == fold_name(id)
            || reference.is_some() && Reference::parse(&word.to_uppercase()) == reference
    };
    let is_separator = |c: char| !c.is_alphanumeric() && !"-_./".contains(c);
    query.split(is_separator).any(|word| is_id(word) || is_id(word.trim_end_matches('.')))
}

/// Tells how many hits of a page `include_stale` leaves out. They are in the total.
pub(crate) fn left_out_note(left_out: usize) -> Option<String> {
    let (hits, have) = if left_out == 1 { ("hit", "has") } else { ("hits", "have") };
    (left_out > 0).then(|| format!("{left_out} {hits} of this page {have} ended"))
}

/// The heading of a hit that begins a group of hits: certain, uncertain and ended ones. `group` is
/// that of the hit before.
pub(crate) fn group_heading(
    group: &mut Option<&'static str>,
    is_last: bool,
    is_uncertain: bool,
) -> Option<&'static str> {
    let own = match (is_last, is_uncertain) {
        (true, _) => Some(ENDED_HEADING),
        (false, true) => Some(UNCERTAIN_HEADING),
        (false, false) => None,
    };
    let is_new = *group != own;
    *group = own;
    own.filter(|_| is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_a_query_names_an_id_in_any_spelling() {
        for (query, id) in [
            ("dec-1d2c8f", "dec-1d2c8f"),
            ("Why DEC-1D2C8F?", "dec-1d2c8f"),
            ("what replaced dec-1d2c8f.", "dec-1d2c8f"),
            ("status of req-7", "REQ-007"),
        ] {
            assert!(names_id(query, id), "{query}");
        }
        for (query, id) in [("req-77", "REQ-007"), ("dec-1d2c8f0", "dec-1d2c8f"), ("", "a")] {
            assert!(!names_id(query, id), "{query}");
        }
    }
}
