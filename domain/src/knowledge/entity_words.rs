//! Words by which entities are found.

use std::collections::BTreeSet;

use crate::document::{DocumentKind, DocumentMeta};
use crate::name_form::fold_name;

/// A shorter part of an ID would be similar to nearly every ID.
const MIN_PART_BYTES: usize = 3;
/// The end of an ID with more parts is not searched.
pub const MAX_PARTS: usize = 16;

/// Words by which an entity is found: `=` with its ID and with its name, and `-` with the end of
/// its ID from each part on, in lower case. Empty for other documents.
pub fn entity_words(meta: &DocumentMeta) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let (DocumentKind::Entity, Some(entity)) = (meta.id.kind, &meta.entity) else { return words };
    words.extend([exact_word(&meta.id.name), exact_word(&entity.id)]);
    words.extend(id_parts(&entity.id));
    words
}

/// The end of an ID from each part on, with `-` in front.
pub(crate) fn id_parts(id: &str) -> Vec<String> {
    let id = fold_name(id);
    let mut parts = vec![format!("-{id}")];
    for (at, _) in id.match_indices(['-', '/']).take(MAX_PARTS) {
        parts.push(format!("-{}", &id[at + 1..]));
    }
    parts
}

/// The word of the entities that a selection of a spelling has.
pub fn exact_word(text: &str) -> String {
    format!("={}", fold_name(text))
}

/// The beginning of a word of the entities that a selection of similar IDs has; `None` for a text
/// without similar IDs.
pub fn similar_prefix(text: &str) -> Option<String> {
    let text = fold_name(text);
    let part = text.rsplit(['-', '/']).next().unwrap_or(&text);
    (part.len() >= MIN_PART_BYTES).then(|| format!("-{part}"))
}
