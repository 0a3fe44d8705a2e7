//! Keys that a person may take from a tool's arguments, and how a file calls them.
//!
//! The trap: other keys than those of an item are a person's own and fine, and so is one of these
//! in a file that has the right key as well.

use super::ItemKind;
use crate::front_matter;

/// A key of the front matter that says nothing, since a file calls it otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misnamed {
    /// Counted from 1.
    pub line: usize,
    pub key: &'static str,
    /// The key that is read.
    pub read: &'static str,
}

/// Keys of an item's text that are an argument's word in place of the file's key.
pub fn misnamed(kind: ItemKind, text: &str) -> Vec<Misnamed> {
    let Ok(map) = front_matter::read(front_matter::split(text)) else { return Vec::new() };
    let has = |key: &str| map.entries.iter().any(|(name, _)| name == key);
    let mut found = Vec::new();
    for (name, node) in &map.entries {
        let known = words(kind).into_iter().flatten().find(|(key, _)| key == name);
        if let Some((key, read)) = known.filter(|(_, read)| !has(read)) {
            found.push(Misnamed { line: node.line + 1, key, read });
        }
    }
    found
}

/// The word among the arguments, and the key of the file.
fn words(kind: ItemKind) -> [Option<(&'static str, &'static str)>; 5] {
    let parent = kind.parent();
    [
        Some(("assignee", "assignee_username")),
        Some(("creator", "creator_username")),
        (kind == ItemKind::Requirement).then_some(("type", "type_name")),
        parent.map(|parent| ("parent", parent.name())),
        parent.filter(|to| *to == ItemKind::UserStory).map(|parent| ("story", parent.name())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_s_word_is_told_where_the_file_s_key_is_missing() {
        let text = "---\ntitle: T\ntype: Data\nassignee: ann\ncreator: bob\ncreator_username: eve\n\
                    parent: US-1\nstory: US-1\nmine: kept\n---\ntype: in the text\n";
        let shown = |kind| -> Vec<String> {
            let all = misnamed(kind, text).into_iter();
            all.map(|Misnamed { line, key, read }| format!("{line} {key} {read}")).collect()
        };
        assert_eq!(
            shown(ItemKind::Requirement),
            [
                "3 type type_name",
                "4 assignee assignee_username",
                "7 parent user_story",
                "8 story user_story"
            ]
        );
        assert_eq!(shown(ItemKind::UserStory), ["4 assignee assignee_username", "7 parent epic"]);
        assert_eq!(shown(ItemKind::Epic), ["4 assignee assignee_username"]);
        assert_eq!(misnamed(ItemKind::Epic, "---\n- no: map\n---\n"), []);
    }
}
