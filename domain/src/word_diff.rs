//! Word difference of two texts, in hunks of lines.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

/// After this time the rest of the texts is compared less exactly.
pub const TIME_LIMIT: Duration = Duration::from_millis(500);
/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Maximum size of a difference; the rest is cut off.
const MAX_BYTES: usize = 100_000;
/// Maximum words and spaces on one side of a changed block. A larger block is shown as whole lines.
const MAX_WORDS: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffKind {
    Kept,
    Removed,
    Added,
    /// The position of the lines that follow.
    Position,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffPart {
    pub kind: DiffKind,
    pub text: String,
}

/// Returns the hunks, or a sentence for texts without a different line.
pub fn compare_texts(old: &str, new: &str, deadline: Instant) -> Vec<DiffPart> {
    compare(old, new, true, deadline)
}

/// Returns both texts whole, without positions.
pub fn compare_values(old: &str, new: &str, deadline: Instant) -> Vec<DiffPart> {
    compare(old, new, false, deadline)
}

/// The difference with removed words as `[-old-]` and added words as `{+new+}`, as in
/// `git diff --word-diff`.
pub fn difference_text(parts: &[DiffPart]) -> String {
    let mut text = String::new();
    for part in parts {
        let [open, close] = match part.kind {
            DiffKind::Kept | DiffKind::Position => ["", ""],
            DiffKind::Removed => ["[-", "-]"],
            DiffKind::Added => ["{+", "+}"],
        };
        text.extend([open, &part.text, close]);
    }
    text
}

fn compare(old: &str, new: &str, has_hunks: bool, deadline: Instant) -> Vec<DiffPart> {
    // Without line ends, which a marker could not show.
    let (old_lines, new_lines) = (old.lines().collect::<Vec<_>>(), new.lines().collect::<Vec<_>>());
    let mut parts = Vec::new();
    if old_lines == new_lines {
        let same = if old == new { "The texts are the same." } else { "Only line ends differ." };
        push_part(&mut parts, DiffKind::Kept, same);
        return parts;
    }
    // One deadline for all hunks, so that their number does not extend the time.
    let changes = diff(&old_lines, &new_lines, deadline);
    let hunks = if has_hunks { group_diff_ops(changes, CONTEXT_LINES) } else { vec![changes] };
    for hunk in hunks {
        if has_hunks {
            push_part(&mut parts, DiffKind::Position, &hunk_header(&hunk));
        }
        for change in &hunk {
            let (removed, added) = (&old_lines[change.old_range()], &new_lines[change.new_range()]);
            match change {
                DiffOp::Equal { .. } => push_lines(&mut parts, removed, DiffKind::Kept),
                DiffOp::Replace { .. } => push_replaced(&mut parts, removed, added, deadline),
                _ => {
                    push_lines(&mut parts, removed, DiffKind::Removed);
                    push_lines(&mut parts, added, DiffKind::Added);
                }
            }
        }
    }
    cut_off(&mut parts);
    parts
}

fn diff(old: &[&str], new: &[&str], deadline: Instant) -> Vec<DiffOp> {
    capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline))
}

/// `@@ -1,4 +1,5 @@`, with the first line and the number of lines on each side.
fn hunk_header(hunk: &[DiffOp]) -> String {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return String::new() };
    let old = first.old_range().start..last.old_range().end;
    let new = first.new_range().start..last.new_range().end;
    format!("@@ -{},{} +{},{} @@\n", old.start + 1, old.len(), new.start + 1, new.len())
}

fn push_part(parts: &mut Vec<DiffPart>, kind: DiffKind, text: &str) {
    match parts.last_mut() {
        Some(last) if kind == DiffKind::Kept && last.kind == kind => last.text.push_str(text),
        _ => parts.push(DiffPart { kind, text: text.to_owned() }),
    }
}

fn push_lines(parts: &mut Vec<DiffPart>, lines: &[&str], kind: DiffKind) {
    for line in lines {
        push_part(parts, kind, line);
        push_part(parts, DiffKind::Kept, "\n");
    }
}

/// Marks the different words of a block, or whole lines if hardly a word is the same.
fn push_replaced(parts: &mut Vec<DiffPart>, removed: &[&str], added: &[&str], deadline: Instant) {
    let (old, new) = (removed.join("\n"), added.join("\n"));
    let (old_words, new_words) = (split_words(&old), split_words(&new));
    if old_words.len().max(new_words.len()) <= MAX_WORDS {
        let changes = diff(&old_words, &new_words, deadline);
        if is_readable(&changes, &old_words, &new_words) {
            for change in &changes {
                let removed = old_words[change.old_range()].concat();
                if let DiffOp::Equal { .. } = change {
                    push_part(parts, DiffKind::Kept, &removed);
                    continue;
                }
                push_words(parts, &removed, DiffKind::Removed);
                push_words(parts, &new_words[change.new_range()].concat(), DiffKind::Added);
            }
            push_part(parts, DiffKind::Kept, "\n");
            return;
        }
    }
    push_lines(parts, removed, DiffKind::Removed);
    push_lines(parts, added, DiffKind::Added);
}

/// Splits into words and the white space between them.
fn split_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_space = first.is_whitespace();
        // White space is kept as words, so that the parts concatenate to the text.
        let end = rest.find(|c: char| c.is_whitespace() != is_space).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}

/// True if a quarter of the words on the shorter side is kept, and a word is changed: white space
/// alone is only visible in whole lines.
fn is_readable(changes: &[DiffOp], old_words: &[&str], new_words: &[&str]) -> bool {
    let count = |words: &[&str]| words.iter().filter(|word| !word.trim().is_empty()).count();
    let mut kept = 0;
    let mut different = 0;
    for change in changes {
        let removed = count(&old_words[change.old_range()]);
        match change {
            DiffOp::Equal { .. } => kept += removed,
            _ => different += removed + count(&new_words[change.new_range()]),
        }
    }
    different > 0 && kept * 4 >= count(old_words).min(count(new_words))
}

/// Marks words. A marker ends at the end of its line, and white space alone has none.
fn push_words(parts: &mut Vec<DiffPart>, words: &str, kind: DiffKind) {
    // Words after a removed line break continue the line.
    if kind == DiffKind::Removed && words.trim().is_empty() {
        return;
    }
    for (index, line) in words.split('\n').enumerate() {
        if index > 0 {
            push_part(parts, DiffKind::Kept, "\n");
        }
        if !line.trim().is_empty() {
            push_part(parts, kind, line);
        } else if kind == DiffKind::Added {
            push_part(parts, DiffKind::Kept, line);
        }
    }
}

fn cut_off(parts: &mut Vec<DiffPart>) {
    let mut rest = MAX_BYTES;
    for index in 0..parts.len() {
        let text = &mut parts[index].text;
        // With the markers of the printed difference.
        if text.len() + 4 > rest {
            while !text.is_char_boundary(rest) {
                rest -= 1;
            }
            text.truncate(rest);
            parts.truncate(index + 1);
            let note = format!("\n(cut off after {MAX_BYTES} bytes)\n");
            return push_part(parts, DiffKind::Kept, &note);
        }
        rest -= text.len() + 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOVED: [&str; 2] = ["[-", "-]"];
    const ADDED: [&str; 2] = ["{+", "+}"];

    #[expect(clippy::disallowed_methods, reason = "the real clock bounds the time of a test")]
    fn deadline() -> Instant {
        Instant::now() + TIME_LIMIT
    }

    fn word_diff(old: &str, new: &str) -> String {
        difference_text(&compare_texts(old, new, deadline()))
    }

    #[test]
    fn word_diff_marks_changed_words_in_hunks() {
        let old = "a\nb\nc\nd\nGuests pay by card.\nx\ny\nz\nw\nv\n";
        let new = "a\nb\nc\nd\nGuests can pay by invoice.\nx\ny\nz\nw\nv\nnew line\n";
        assert_eq!(
            word_diff(old, new),
            "@@ -2,9 +2,10 @@\nb\nc\nd\nGuests {+can +}pay by [-card.-]{+invoice.+}\nx\ny\nz\nw\nv\n\
             {+new line+}\n"
        );
    }

    #[test]
    fn word_diff_of_unlike_blocks_shows_whole_lines() {
        let shown = word_diff("one two three\nkept\n", "four five six\nkept\n");
        assert_eq!(shown, "@@ -1,2 +1,2 @@\n[-one two three-]\n{+four five six+}\nkept\n");
        let indented = word_diff("a b\n", "  a b\n");
        assert_eq!(indented, "@@ -1,1 +1,1 @@\n[-a b-]\n{+  a b+}\n");
        assert_eq!(word_diff("", "a\n"), "@@ -1,0 +1,1 @@\n{+a+}\n");
    }

    #[test]
    fn word_diff_joins_rewrapped_lines() {
        let shown = word_diff("one two three four\nfive six\n", "one two 3 four five six\n");
        assert_eq!(shown, "@@ -1,2 +1,1 @@\none two [-three-]{+3+} four five six\n");
    }

    #[test]
    fn word_diff_without_a_different_line_says_so() {
        assert_eq!(word_diff("a", "a"), "The texts are the same.");
        assert_eq!(word_diff("a\r\nb", "a\nb\n"), "Only line ends differ.");
    }

    #[test]
    fn values_are_compared_whole_and_by_words() {
        let expected = [
            (DiffKind::Kept, "a [-b-]\npay "),
            (DiffKind::Removed, "by"),
            (DiffKind::Added, "with"),
            (DiffKind::Kept, " card\n"),
        ];
        let parts = compare_values("a [-b-]\npay by card", "a [-b-]\npay with card", deadline());
        let shown: Vec<_> = parts.iter().map(|part| (part.kind, part.text.as_str())).collect();
        assert_eq!(shown, expected);
    }

    /// The words of one side of a difference: without the marked words of the other.
    fn words_of_side(shown: &str, [open, close]: [&str; 2], other: [&str; 2]) -> Vec<String> {
        let mut text = String::new();
        for line in shown.lines().filter(|line| !line.starts_with("@@")) {
            let mut rest = line;
            while let Some((before, after)) = rest.split_once(other[0]) {
                text += before;
                rest = after.split_once(other[1]).unwrap().1;
            }
            text += rest;
            text += "\n";
        }
        let text = text.replace(open, "").replace(close, "");
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn word_diff_contains_the_words_of_both_texts() {
        let mut texts = vec![String::new()];
        for start in 0..84 {
            for part in ["a", "b", " ", "\n"] {
                texts.push(format!("{}{part}", texts[start]));
            }
        }
        for old in &texts {
            for new in texts.iter().filter(|new| !old.lines().eq(new.lines())) {
                let shown = word_diff(old, new);
                for (text, side, other) in [(old, REMOVED, ADDED), (new, ADDED, REMOVED)] {
                    let words: Vec<&str> = text.split_whitespace().collect();
                    assert_eq!(
                        words_of_side(&shown, side, other),
                        words,
                        "{old:?} {new:?}: {shown}"
                    );
                }
            }
        }
    }

    #[test]
    fn word_diff_of_large_texts_is_bounded() {
        let many = |prefix: &str| {
            let lines: Vec<String> = (0..60_000).map(|line| format!("{prefix}{line}")).collect();
            lines.join("\n")
        };
        let long = |word: &str| format!("{word} ").repeat(400_000) + "\u{e9}";
        for (old, new) in [(many("a"), many("b")), (long("x"), long("y")), (many(""), long("z"))] {
            let shown = word_diff(&old, &new);
            assert!(shown.len() < MAX_BYTES + 100, "{}", shown.len());
            assert!(shown.ends_with("(cut off after 100000 bytes)\n"));
        }
    }
}
