//! Erases the text that the tombstone of an item or entity keeps.

use crate::front_matter::{self, FieldValue, KeyEdit};
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlNode};

/// Keys that say which document was deleted, when, and by which user.
const KEPT_KEYS: [&str; 5] = ["id", "uid", "deleted_at", "deleted_by", "deleted_username"];

/// Returns a tombstone with nothing but the facts of the deletion. Unchanged if applied again.
pub fn erase_text(tombstone: &str) -> String {
    let parsed = front_matter::parse(front_matter::split(tombstone));
    let entries = parsed.map(|front_matter| front_matter.entries).unwrap_or_default();
    // A list of deleted documents shows a title.
    let mut kept = vec![KeyEdit { key: "title", value: Some("erased".into()) }];
    for key in KEPT_KEYS {
        if let Some(text) = yaml::find_key(&entries, key).and_then(YamlNode::text) {
            let value = Timestamp::parse(text).map_or_else(|| text.into(), FieldValue::Time);
            kept.push(KeyEdit { key, value: Some(value) });
        }
    }
    front_matter::render_front_matter(&kept)
}

/// True for a tombstone whose text was erased.
pub fn is_erased(tombstone: &str) -> bool {
    erase_text(tombstone) == tombstone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erased_tombstone_keeps_only_the_deletion() {
        let text = "---\nid: dec-1\ntitle: hunter2\ntags: [hunter2]\ndeleted_at: \
                    2026-11-22T08:10:43Z\ndeleted_by: \"ann: b\"\n---\n\nhunter2\n";
        let erased = erase_text(text);
        let expected = "---\ntitle: erased\nid: dec-1\ndeleted_at: 2026-11-22T08:10:43Z\n\
                        deleted_by: \"ann: b\"\n---\n";
        assert_eq!((erased.as_str(), erase_text(&erased).as_str()), (expected, expected));
        assert!(is_erased(&erased) && !is_erased(text));
        assert_eq!(erase_text("hunter2"), "---\ntitle: erased\n---\n");
    }
}
