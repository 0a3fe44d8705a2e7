//! Exact references within a query.
//!
//! The trap: a reference may be a plain word (`login`). Within other words that is just a word;
//! only what looks like a name, or is the whole query, points at its item.

use crate::bounded::beginning;
use crate::table::Table;
use crate::words::expand::MAX_BYTES;

/// So many pieces of a query are looked up.
const MAX_PIECES: usize = 256;
/// So many items are pinned at most.
const MAX_PINNED: usize = 32;

/// The slots of items whose references stand in the query, in its order.
pub(crate) fn within(table: &Table, query: &str) -> Vec<u32> {
    let query = beginning(query, MAX_BYTES).trim();
    let mut pinned = Vec::new();
    let mut pin = |reference: &str| {
        for slot in table.named(reference) {
            if !pinned.contains(&slot) && pinned.len() < MAX_PINNED {
                pinned.push(slot);
            }
        }
    };
    pin(query);
    for piece in query.split_whitespace().take(MAX_PIECES) {
        let inner = |c: char| c.is_alphanumeric();
        let bare = piece.trim_matches(|c| !inner(c) && c != '_');
        if looks_like_a_name(bare) {
            pin(bare);
        }
        // Lists as people write them: `REQ-1,REQ-2` or `[REQ-1](x)`.
        for part in bare.split(|c| !inner(c) && !matches!(c, '-' | '_' | '.' | ':' | '/')) {
            if part.len() < bare.len() && looks_like_a_name(part) {
                pin(part);
            }
        }
    }
    pinned
}

fn looks_like_a_name(piece: &str) -> bool {
    piece.contains(|c: char| c.is_numeric() || matches!(c, '-' | '_' | '.' | ':' | '/'))
}
