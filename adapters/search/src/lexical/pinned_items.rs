//! The items that a query names by their reference, which rank first.

use reqlore_domain::backlog::Reference;
use reqlore_domain::search::truncate_text;
use tantivy::DocAddress;
use tantivy::query::Query;

use super::bm25::FilterCursor;
use super::query_expansion::MAX_QUERY_BYTES;
use super::searcher::{LexicalSearcher, to_usize};

/// Maximum words of a query that are looked up as references.
const MAX_REFERENCE_WORDS: usize = 256;
/// Maximum items that a query's references put first.
const MAX_PINNED_ITEMS: usize = 32;

/// Returns the items whose exact references occur in the query and that pass the filter, in the
/// query's order.
///
/// A reference may be an ordinary word, such as `login`. Such a reference is pinned only if it is
/// the whole query. Within a query only words that look like a name are looked up.
pub(crate) fn pinned_items(
    searcher: &LexicalSearcher,
    query: &str,
    filter: Option<&dyn Query>,
) -> tantivy::Result<Vec<DocAddress>> {
    let query = truncate_text(query, MAX_QUERY_BYTES).trim();
    let mut references = Vec::new();
    add_reference(query, &mut references);
    for word in query.split_whitespace().take(MAX_REFERENCE_WORDS) {
        let trimmed = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        if looks_like_a_name(trimmed) {
            add_reference(trimmed, &mut references);
        }
        // Lists: `REQ-1,REQ-2` or `[REQ-1](x)`.
        for part in trimmed.split(|c: char| !c.is_alphanumeric() && !is_name_punctuation(c)) {
            if part.len() < trimmed.len() && looks_like_a_name(part) {
                add_reference(part, &mut references);
            }
        }
    }
    let mut pinned = Vec::new();
    for reference in references {
        for item in searcher.items_of_reference(&reference)? {
            if !pinned.contains(&item) && pinned.len() < MAX_PINNED_ITEMS {
                pinned.push(item);
            }
        }
    }
    if filter.is_some() {
        let mut included = Vec::with_capacity(pinned.len());
        for item in pinned {
            let reader = &searcher.segment_readers()[to_usize(item.segment_ord)];
            if FilterCursor::new(searcher, filter, reader)?.includes(item.doc_id) {
                included.push(item);
            }
        }
        pinned = included;
    }
    Ok(pinned)
}

/// Adds a word as a reference, in its own and in the canonical spelling.
fn add_reference(word: &str, references: &mut Vec<String>) {
    // A path refers to its file.
    let name = word.rsplit_once('/').map_or(word, |(_, name)| name);
    let name = name.strip_suffix(".md").unwrap_or(name);
    // `req-7` and `REQ-007-guest-checkout-3f9a1c` are `REQ-007`.
    let parsed = Reference::from_document_name(&name.to_ascii_uppercase());
    let canonical = parsed.map_or_else(|| name.to_owned(), |parsed| parsed.to_string());
    for reference in [word.to_owned(), canonical] {
        if !references.contains(&reference) {
            references.push(reference);
        }
    }
}

fn looks_like_a_name(word: &str) -> bool {
    word.contains(|c: char| c.is_numeric() || is_name_punctuation(c))
}

fn is_name_punctuation(c: char) -> bool {
    matches!(c, '-' | '_' | '.' | ':' | '/')
}
