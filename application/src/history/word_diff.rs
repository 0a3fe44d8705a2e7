//! Word difference of two texts, in hunks of lines.
//!
//! Removed words are marked `[-old-]` and added words `{+new+}`, as in `git diff --word-diff`.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

const CONTEXT_LINES: usize = 3;
/// After this time the rest of the texts is compared less exactly.
const TIME_LIMIT: Duration = Duration::from_millis(500);
/// Maximum size of a difference; the rest is cut off.
const MAX_BYTES: usize = 100_000;
/// Maximum words and spaces on one side of a changed block. A larger block is shown as whole lines.
const MAX_WORDS: usize = 10_000;

const REMOVED: [&str; 2] = ["[-", "-]"];
const ADDED: [&str; 2] = ["{+", "+}"];

/// Returns the hunks, or a sentence for texts without a different line.
pub fn word_diff(old: &str, new: &str) -> String {
    // Without line ends, which a marker could not show.
    let (old_lines, new_lines) = (old.lines().collect::<Vec<_>>(), new.lines().collect::<Vec<_>>());
    if old == new {
        return "The texts are the same.".to_owned();
    }
    if old_lines == new_lines {
        return "Only line ends differ.".to_owned();
    }
    // One deadline for all hunks, so that their number does not extend the time.
    let deadline = Instant::now() + TIME_LIMIT;
    let changes = diff(&old_lines, &new_lines, deadline);
    let mut text = String::new();
    for hunk in group_diff_ops(changes, CONTEXT_LINES) {
        text.push_str(&hunk_header(&hunk));
        for change in &hunk {
            let (removed, added) = (&old_lines[change.old_range()], &new_lines[change.new_range()]);
            match change {
                DiffOp::Equal { .. } => push_lines(&mut text, removed, ["", ""]),
                DiffOp::Replace { .. } => push_replaced(&mut text, removed, added, deadline),
                _ => {
                    push_lines(&mut text, removed, REMOVED);
                    push_lines(&mut text, added, ADDED);
                }
            }
        }
        if text.len() > MAX_BYTES {
            break;
        }
    }
    cut_off(text)
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

fn push_lines(text: &mut String, lines: &[&str], [open, close]: [&str; 2]) {
    for line in lines {
        text.push_str(open);
        text.push_str(line);
        text.push_str(close);
        text.push('\n');
    }
}

/// Marks the different words of a block, or whole lines if hardly a word is the same.
fn push_replaced(text: &mut String, removed: &[&str], added: &[&str], deadline: Instant) {
    let (old, new) = (removed.join("\n"), added.join("\n"));
    let (old_words, new_words) = (split_words(&old), split_words(&new));
    if old_words.len().max(new_words.len()) <= MAX_WORDS {
        let changes = diff(&old_words, &new_words, deadline);
        if is_readable(&changes, &old_words, &new_words) {
            for change in &changes {
                let removed = old_words[change.old_range()].concat();
                if let DiffOp::Equal { .. } = change {
                    text.push_str(&removed);
                    continue;
                }
                push_words(text, &removed, REMOVED);
                push_words(text, &new_words[change.new_range()].concat(), ADDED);
            }
            text.push('\n');
            return;
        }
    }
    push_lines(text, removed, REMOVED);
    push_lines(text, added, ADDED);
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
fn push_words(text: &mut String, words: &str, [open, close]: [&str; 2]) {
    let is_removed = open == REMOVED[0];
    // Words after a removed line break continue the line.
    if is_removed && words.trim().is_empty() {
        return;
    }
    for (index, line) in words.split('\n').enumerate() {
        if index > 0 {
            text.push('\n');
        }
        if line.trim().is_empty() {
            text.push_str(if is_removed { "" } else { line });
        } else {
            text.extend([open, line, close]);
        }
    }
}

fn cut_off(mut text: String) -> String {
    if text.len() > MAX_BYTES {
        let mut end = MAX_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        return format!("{text}\n(cut off after {MAX_BYTES} bytes)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
