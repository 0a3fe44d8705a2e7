//! Parts of a text that were removed, added or kept, for pages.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// After this time the rest of two texts is compared less exactly.
const TIME_LIMIT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffKind {
    Kept,
    Removed,
    Added,
    /// The position of the lines that follow.
    Position,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiffPart {
    pub(crate) kind: DiffKind,
    pub(crate) text: String,
}

/// Compares two texts by words.
pub(crate) fn compare_words(old: &str, new: &str) -> Vec<DiffPart> {
    let mut parts = Vec::new();
    for change in TextDiff::configure().timeout(TIME_LIMIT).diff_words(old, new).iter_all_changes()
    {
        let kind = match change.tag() {
            ChangeTag::Equal => DiffKind::Kept,
            ChangeTag::Delete => DiffKind::Removed,
            ChangeTag::Insert => DiffKind::Added,
        };
        push_part(&mut parts, kind, change.value());
    }
    parts
}

/// Parses the difference of `get_history`, with words marked as `[-old-]` and `{+new+}`. A marker
/// ends in its line, so a text that contains the like affects only its own line.
pub(crate) fn parse_difference(text: &str) -> Vec<DiffPart> {
    let mut parts = Vec::new();
    for line in text.split_inclusive('\n') {
        if line.starts_with("@@ -") && line.trim_end().ends_with(" @@") {
            push_part(&mut parts, DiffKind::Position, line);
            continue;
        }
        let mut rest = line;
        while let Some((before, kind, marked, after)) = split_marker(rest) {
            push_part(&mut parts, DiffKind::Kept, before);
            push_part(&mut parts, kind, marked);
            rest = after;
        }
        push_part(&mut parts, DiffKind::Kept, rest);
    }
    parts
}

/// Splits a line at its first marker.
fn split_marker(line: &str) -> Option<(&str, DiffKind, &str, &str)> {
    let removed = line.find("[-").map(|at| (at, DiffKind::Removed, "-]"));
    let added = line.find("{+").map(|at| (at, DiffKind::Added, "+}"));
    let (start, kind, end_mark) = [removed, added].into_iter().flatten().min_by_key(|one| one.0)?;
    let (marked, after) = line[start + 2..].split_once(end_mark)?;
    Some((&line[..start], kind, marked, after))
}

fn push_part(parts: &mut Vec<DiffPart>, kind: DiffKind, text: &str) {
    if text.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(last) if last.kind == kind => last.text.push_str(text),
        _ => parts.push(DiffPart { kind, text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[DiffPart]) -> Vec<(DiffKind, &str)> {
        parts.iter().map(|part| (part.kind, part.text.as_str())).collect()
    }

    #[test]
    fn difference_is_parsed_into_parts() {
        let text = "@@ -1,2 +1,2 @@\nGuests {+can +}pay by [-card.-]{+invoice.+}\nx [- y\n";
        let parts = parse_difference(text);
        assert_eq!(
            shown(&parts),
            [
                (DiffKind::Position, "@@ -1,2 +1,2 @@\n"),
                (DiffKind::Kept, "Guests "),
                (DiffKind::Added, "can "),
                (DiffKind::Kept, "pay by "),
                (DiffKind::Removed, "card."),
                (DiffKind::Added, "invoice."),
                (DiffKind::Kept, "\nx [- y\n"),
            ]
        );
    }

    #[test]
    fn words_of_two_texts_are_compared() {
        let parts = compare_words("pay by card", "pay with card");
        let expected = [
            (DiffKind::Kept, "pay "),
            (DiffKind::Removed, "by"),
            (DiffKind::Added, "with"),
            (DiffKind::Kept, " card"),
        ];
        assert_eq!(shown(&parts), expected);
    }
}
