//! Tombstones of items and entities, and the erasure of the text that they keep.

use super::values::CustomValues;
use crate::backlog::{Deletion, ItemMeta};
use crate::document::DocumentMeta;
use crate::front_matter::{self, FieldValue, KeyEdit};
use crate::knowledge::Entity;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode};

/// The metadata of an item or entity.
#[derive(Debug, Clone, Copy)]
pub enum RecordRef<'a> {
    Item(&'a ItemMeta),
    Entity(&'a Entity),
}

impl<'a> RecordRef<'a> {
    /// Returns the name of the kind, and true for an entity.
    pub fn kind(self) -> (&'a str, bool) {
        match self {
            Self::Item(item) => (item.kind.name(), false),
            Self::Entity(entity) => (&entity.kind, true),
        }
    }

    pub fn custom(self) -> &'a CustomValues {
        match self {
            Self::Item(item) => &item.custom,
            Self::Entity(entity) => &entity.custom,
        }
    }

    /// `None` for a document of another kind.
    pub fn of_meta(meta: &'a DocumentMeta) -> Option<Self> {
        let item = meta.item.as_deref().map(Self::Item);
        item.or_else(|| meta.entity.as_deref().map(Self::Entity))
    }
}

impl<'a> From<&'a ItemMeta> for RecordRef<'a> {
    fn from(item: &'a ItemMeta) -> Self {
        Self::Item(item)
    }
}

impl<'a> From<&'a Entity> for RecordRef<'a> {
    fn from(entity: &'a Entity) -> Self {
        Self::Entity(entity)
    }
}

/// Renders the tombstone of a record: its text with time and user of the deletion. Front matter
/// that cannot be edited becomes part of the body, below new front matter.
pub fn tombstone_text<'a>(
    record: impl Into<RecordRef<'a>>,
    text: &str,
    at: Timestamp,
    by: &str,
) -> String {
    let set = |key, text: &str| KeyEdit { key, value: Some(text.into()) };
    let (mut identity, by_key) = match record.into() {
        RecordRef::Item(item) => {
            let title = item.kind.is_planned().then(|| set("title", &item.title));
            let uid = item.uid.as_deref().map(|uid| set("uid", uid));
            (title.into_iter().chain(uid).collect(), "deleted_username")
        }
        RecordRef::Entity(entity) => {
            (vec![set("id", &entity.id), set("title", &entity.title)], "deleted_by")
        }
    };
    let deletion =
        [KeyEdit { key: "deleted_at", value: Some(FieldValue::Time(at)) }, set(by_key, by)];
    // The ID of an entity without one is its path, which the tombstone does not have.
    let id = identity.iter().filter(|edit: &&KeyEdit<'_>| edit.key == "id");
    let edits: Vec<KeyEdit<'_>> = id.chain(&deletion).cloned().collect();
    // A deletion must not fail because a file has invalid front matter.
    if let Ok(edited) = front_matter::edit(text, &edits, &[]) {
        return edited;
    }
    // The old front matter is now text, so the new one needs all keys of a tombstone.
    identity.extend(deletion);
    format!("{}\n{text}", front_matter::render_front_matter(&identity))
}

/// The time and user in a tombstone's text.
pub fn parse_deletion(text: &str) -> Option<Deletion> {
    let front_matter = front_matter::parse(front_matter::split(text));
    deletion_of(&front_matter.map(|front_matter| front_matter.entries).unwrap_or_default())
}

pub(super) fn deletion_of(entries: &[YamlEntry]) -> Option<Deletion> {
    let value = |key| yaml::find_key(entries, key).and_then(YamlNode::text);
    let at = Timestamp::parse(value("deleted_at")?)?.whole_seconds();
    let by = value("deleted_username").or(value("deleted_by"));
    Some(Deletion { at, by: by.map(str::to_owned) })
}

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
