//! What a text speaks of: `REQ-048`, `dec-1d2c8f`.

use super::Reference;
use crate::knowledge::link;

/// So many are kept of one item.
const MOST: usize = 200;

/// The references and ids in a text, each once, in their order; references as they are printed.
pub(super) fn mentions(text: &str, own: Option<Reference>) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mut found: Vec<String> = Vec::new();
    // Words without a hyphen name nothing, and most have none.
    for word in text.split(|c| !is_part(c)).filter(|word| word.contains('-')) {
        let mention = match Reference::parse(word) {
            Some(reference) if Some(reference) == own => continue,
            Some(reference) => reference.to_string(),
            None if link::names_entity(word) => word.to_owned(),
            None => continue,
        };
        if !found.contains(&mention) {
            found.push(mention);
        }
        if found.len() == MOST {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_ids_are_found_as_words() {
        let text = "As `REQ-48`, (dec-1d2c8f) and EP-001. Not REQ-48x, pre-REQ-1, REQ-9; twice \
                    REQ-048.";
        let own = Reference::parse("REQ-9");
        assert_eq!(mentions(text, own), ["REQ-048", "dec-1d2c8f", "EP-001"]);
    }
}
