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
mod tests;
