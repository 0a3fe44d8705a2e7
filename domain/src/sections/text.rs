//! Requirement text: escaping of structure, and wrapping at spaces.
//!
//! A line that would parse as structure gets a leading backslash. A line that has one stays, so
//! that a text that was read can be written back. Closed fences and the marker's own line do not
//! change.

use super::markdown::{
    is_blank, list_marker_width, parse_heading, parse_marker, strip_indent, underline_level,
};
use super::verbatim::{opens_verbatim, verbatim_lines};

/// Escapes a text for a file. With `own_line`, the text begins on a line of its own. Escaping
/// twice changes nothing.
pub(crate) fn escape_structure(text: &str, own_line: bool) -> String {
    let mut escaped = escape_once(text, own_line);
    // An escaped `-` no longer begins a list item, so a fence below it may open or close elsewhere.
    loop {
        let next = escape_once(&escaped, own_line);
        if next == escaped {
            return escaped;
        }
        escaped = next;
    }
}

/// Escapes the lines that are structure while no other line is escaped.
fn escape_once(text: &str, own_line: bool) -> String {
    edit_lines(text, own_line, |line, above| {
        let structure = find_structure(line)?;
        // An escaped line stays, or a text that is read and written would gain backslashes.
        if structure.backslashes > 0 || !structure.is_active(above) {
            return None;
        }
        Some(format!("{}\\{}", &line[..structure.start], &line[structure.start..]))
    })
}

/// Removes the backslashes of [`escape_structure`]. Keeps any other one: escaping the result gives
/// the text again.
pub(crate) fn unescape_structure(text: &str, own_line: bool) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let unescaped = edit_lines(text, own_line, |line, above| {
        let structure = find_structure(line)?;
        if structure.backslashes != 1 || !structure.is_active(above) {
            return None;
        }
        Some(format!("{}{}", &line[..structure.start], &line[structure.start + 1..]))
    });
    // Without its backslash, a line may open or close a fence around other lines.
    if escape_structure(&unescaped, own_line) == text { unescaped } else { text.to_owned() }
}

/// True if a text begins with several lines of code or HTML, which need lines of their own.
pub(crate) fn begins_with_block(text: &str) -> bool {
    let lines: Vec<&str> = text.split('\n').collect();
    verbatim_lines(&lines, false).starts_with(&[true, true])
}

/// Calls `edit` with each line outside closed fences and HTML blocks, and with the line above it.
fn edit_lines(
    text: &str,
    own_line: bool,
    edit: impl Fn(&str, Option<&str>) -> Option<String>,
) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let verbatim = verbatim_lines(&lines, !own_line);
    let mut edited: Vec<String> = Vec::with_capacity(lines.len());
    let mut above = None;
    for (at, line) in lines.iter().enumerate() {
        let is_fixed = verbatim[at] || (at == 0 && !own_line);
        let changed = if is_fixed { None } else { edit(line, above) };
        edited.push(changed.unwrap_or_else(|| (*line).to_owned()));
        above = Some(*line);
    }
    edited.join("\n")
}

/// Structure at the start of a line, which may be escaped by backslashes.
struct EscapedStructure {
    /// Byte offset of the first backslash, or of the structure.
    start: usize,
    backslashes: usize,
    is_underline: bool,
}

impl EscapedStructure {
    /// True if the line is structure without its backslashes. An underline is structure only below
    /// a paragraph.
    fn is_active(&self, above: Option<&str>) -> bool {
        !self.is_underline || above.is_some_and(|above| !is_blank(above))
    }
}

fn find_structure(line: &str) -> Option<EscapedStructure> {
    let text = strip_indent(line)?;
    let core = text.trim_start_matches('\\');
    let start = line.len() - text.len();
    // Backslashes are skipped, to recognize an escaped line.
    let is_underline = underline_level(core).is_some();
    let is_other = parse_heading(core).is_some()
        || opens_verbatim(core)
        || (start == 0 && parse_marker(core).is_some());
    if !is_underline && (!is_other || core.starts_with(' ')) {
        return None;
    }
    Some(EscapedStructure { start, backslashes: text.len() - core.len(), is_underline })
}

/// The line width of rule R.2, in characters.
pub const WRAP_COLUMNS: usize = 120;

/// Wraps lines at `columns` characters if that keeps their Markdown meaning; 0 turns wrapping off.
/// `taken` characters precede the first line.
pub(crate) fn wrap_text(text: &str, taken: usize, columns: usize) -> String {
    if columns == 0 {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let fixed = fixed_lines(&lines, taken > 0);
    let mut wrapped = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let taken = if at == 0 { taken } else { 0 };
        if fixed[at] || taken + line.chars().count() <= columns {
            wrapped.push((*line).to_owned());
        } else {
            wrap_line(line, taken, columns, &mut wrapped);
        }
    }
    wrapped.join("\n")
}

/// The lines longer than `columns`: 1-based number and length in characters.
pub(crate) fn long_lines(text: &str, taken: usize, columns: usize) -> Vec<(usize, usize)> {
    let mut long = Vec::new();
    let mut taken = taken;
    for (line, number) in text.split('\n').zip(1..) {
        let length = taken + line.trim_end().chars().count();
        if columns > 0 && length > columns {
            long.push((number, length));
        }
        taken = 0;
    }
    long
}

/// Marks the lines that must not be wrapped.
fn fixed_lines(lines: &[&str], after_marker: bool) -> Vec<bool> {
    let mut fixed = verbatim_lines(lines, after_marker);
    for at in 0..lines.len() {
        let line = lines[at];
        fixed[at] |= is_table_row(line) || is_link_definition(line);
        if is_delimiter_row(line) && at > 0 {
            // The header above the delimiter row, and all rows below it.
            let rows = lines[at..].iter().take_while(|row| !is_blank(row)).count();
            fixed[at - 1..at + rows].fill(true);
        }
    }
    fixed
}

fn is_table_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn is_delimiter_row(line: &str) -> bool {
    line.contains('|')
        && line.contains('-')
        && line.bytes().all(|byte| matches!(byte, b'|' | b':' | b'-' | b' '))
}

fn is_link_definition(line: &str) -> bool {
    strip_indent(line).is_some_and(|text| text.starts_with('[') && text.contains("]: "))
}

/// Breaks a line at the last space within `columns`, or at the first space after it.
fn wrap_line(line: &str, taken: usize, columns: usize, wrapped: &mut Vec<String>) {
    let (indent, prefix) = continuation_prefix(line);
    // A line may consist of its indent only.
    let content = &line[..line.trim_end().len().max(indent)];
    let mut rest_start = 0;
    let mut available = columns.saturating_sub(taken);
    let mut break_points = break_points(content, indent).into_iter().peekable();
    while content[rest_start..].chars().count() > available {
        let mut chosen = None;
        while let Some(&(end, next)) = break_points.peek() {
            // Without an earlier space, the first one after the limit is used.
            if chosen.is_some() && content[rest_start..end].chars().count() > available {
                break;
            }
            chosen = Some((end, next));
            break_points.next();
        }
        let Some((end, next)) = chosen else { break };
        let line_prefix = if rest_start == 0 { "" } else { prefix.as_str() };
        wrapped.push(format!("{line_prefix}{}", &content[rest_start..end]));
        rest_start = next;
        available = columns.saturating_sub(prefix.chars().count());
    }
    let line_prefix = if rest_start == 0 { "" } else { prefix.as_str() };
    wrapped.push(format!("{line_prefix}{}", &line[rest_start..]));
}

/// The length in bytes of a line's indent with quote and list markers, and the prefix of its
/// continuation lines.
fn continuation_prefix(line: &str) -> (usize, String) {
    let mut at = line.len() - line.trim_start().len();
    let mut prefix = line[..at].to_owned();
    while let Some(rest) = line[at..].strip_prefix('>') {
        let space = rest.len() - rest.trim_start().len();
        prefix.push_str(&line[at..=at + space]);
        at += 1 + space;
    }
    if let Some(width) = list_marker_width(&line[at..]) {
        prefix.push_str(&" ".repeat(width));
        at += width;
    }
    (at, prefix)
}

/// The spaces at which a line may break: end of the line, start of the next one.
fn break_points(line: &str, from: usize) -> Vec<(usize, usize)> {
    let links = link_ranges(line);
    let mut points = Vec::new();
    let mut at = from;
    while let Some(offset) = line[at..].find(' ') {
        let end = at + offset;
        let next = line.len() - line[end..].trim_start_matches(' ').len();
        at = next;
        // A link text may contain spaces, but some renderers do not join its lines.
        let in_link = links.iter().any(|link| link.contains(&end));
        if end > from && next < line.len() && !in_link && !begins_block(&line[next..]) {
            points.push((end, next));
        }
    }
    points
}

/// True if a line that begins with `rest` would begin a block instead of continuing the paragraph.
fn begins_block(rest: &str) -> bool {
    // The word alone, because the line may break again directly after it.
    let word = rest.split(' ').next().unwrap_or_default();
    list_marker_width(rest).is_some()
        || rest.starts_with(['>', '|', '<'])
        || rest.starts_with("```")
        || rest.starts_with("~~~")
        || find_structure(rest).is_some()
        || find_structure(word).is_some()
}

/// The ranges of inline links, images and reference links: `[text](target)` and `[text][name]`.
fn link_ranges(line: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = line.as_bytes();
    let mut links = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            // Skips the escaped character.
            b'\\' => at += 1,
            b'[' => open.push(at),
            b']' => {
                let start = open.pop();
                let end = match bytes.get(at + 1) {
                    Some(b'(') => closing_bracket(bytes, at + 1, b'(', b')'),
                    Some(b'[') => closing_bracket(bytes, at + 1, b'[', b']'),
                    _ => None,
                };
                if let (Some(start), Some(end)) = (start, end) {
                    links.push(start..end + 1);
                    at = end;
                }
            }
            _ => {}
        }
        at += 1;
    }
    links
}

fn closing_bracket(bytes: &[u8], open: usize, opening: u8, closing: u8) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        if *byte == opening {
            depth += 1;
        } else if *byte == closing {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, escaped: &str) {
        assert_eq!(escape_structure(text, false), escaped);
        assert_eq!(unescape_structure(escaped, false), text);
    }

    // S1: C.2, S.3.2
    #[test]
    fn marker_or_heading_in_text_is_escaped_reversibly() {
        check("a\n**9.** forged", "a\n\\**9.** forged");
        check("a\n## Sections\n\\\\# b", "a\n\\## Sections\n\\\\# b");
        check("a\n  # b", "a\n  \\# b");
        check("a\n---\n\n---", "a\n\\---\n\n---");
        check("a\n```\nnever closed\n**9.** x", "a\n\\```\nnever closed\n\\**9.** x");
        check("a\n<!--\n# b", "a\n\\<!--\n\\# b");
    }

    #[test]
    fn line_that_stands_escaped_is_stored_as_it_is() {
        for stored in [
            "a\n\\**9.** forged",
            "a\n\\## Sections\n  \\# b",
            "a\n\\---",
            "a\n\n\\---",
            "a\n\\```\nnever closed",
            "a\n\\\\\\# three",
        ] {
            assert_eq!(escape_structure(stored, false), stored);
            let read = unescape_structure(stored, false);
            assert_eq!(escape_structure(&read, false), stored, "{read:?}");
        }
    }

    // The escaped `-` ends the list item that would close the fence.
    #[test]
    fn fence_below_an_escaped_underline_is_escaped() {
        check("a\n-\n ```\n# b", "a\n\\-\n \\```\n\\# b");
    }

    #[test]
    fn bold_word_in_prose_is_not_escaped() {
        check("a\n**Note.** b\n**R.a.** c", "a\n**Note.** b\n**R.a.** c");
        check("a\n**too-long-for-1.** b\n**R.** c", "a\n\\**too-long-for-1.** b\n**R.** c");
    }

    #[test]
    fn text_without_structure_is_not_escaped() {
        for text in [
            "# on the marker's line",
            "a\n```\n# code\n**9.** x\n```\nb",
            "a\n    # indented code",
            "a\n<!-- # b\n**9.** x -->\nc",
            "a\n- ```\n  # b\n  ```\nc",
            "a\n- ```\nb",
            "a\n #hashtag \\x",
            "a\n\n***\n\n- list\n| table |\n|---|",
        ] {
            check(text, text);
        }
    }

    proptest! {
        #[test]
        fn escape_of_any_text_is_idempotent_and_reversible(text in r"([\\#*`~=\- a1.\n]{0,8}(\*\*9\.\*\* x|# h|```|~~~|---|===|- |  |<!--|-->)?\n?){0,8}", own in any::<bool>()) {
            let own = own && begins_with_block(&text);
            let stored = escape_structure(&text, own);
            prop_assert_eq!(&escape_structure(&stored, own), &stored);
            let read = unescape_structure(&stored, own);
            prop_assert_eq!(escape_structure(&read, own), stored);
            if !text.contains('\\') {
                prop_assert_eq!(read, text);
            }
        }
    }

    fn widths(text: &str, taken: usize) -> Vec<usize> {
        let lines = text.split('\n').enumerate();
        lines.map(|(at, l)| l.chars().count() + if at == 0 { taken } else { 0 }).collect()
    }

    // S1: R.2
    #[test]
    fn long_line_wraps_at_spaces_including_the_marker() {
        let text = "ъ word ".repeat(60);
        let wrapped = wrap_text(text.trim(), 7, WRAP_COLUMNS);
        let widths = widths(&wrapped, 7);
        let (_, full) = widths.split_last().unwrap();
        assert!(full.iter().all(|w| (110..=120).contains(w)), "{wrapped}");
        assert_eq!(wrapped.replace('\n', " "), text.trim());
        assert_eq!(wrap_text(&wrapped, 7, WRAP_COLUMNS), wrapped, "wrapping twice changes nothing");
        assert_eq!(wrap_text(text.trim(), 7, 0), text.trim(), "0 is off");
    }

    // S1: R.2
    #[test]
    fn line_of_120_characters_is_not_wrapped() {
        let line = format!("{} {}", "a".repeat(60), "b".repeat(52));
        assert_eq!(wrap_text(&line, 7, WRAP_COLUMNS), line);
        assert_eq!(wrap_text(&format!("{line}b"), 7, WRAP_COLUMNS).lines().count(), 2);
    }

    #[test]
    fn line_of_only_indent_is_not_wrapped() {
        for lead in [
            " ".repeat(121),
            format!(">{}", " ".repeat(121)),
            format!("-{}", " ".repeat(121)),
            "\u{a0}".repeat(121),
        ] {
            let text = format!("a\n{lead}\nb");
            assert_eq!(wrap_text(&text, 7, WRAP_COLUMNS), text);
        }
    }

    #[test]
    fn fence_table_link_and_code_are_not_wrapped() {
        let words = "word ".repeat(40);
        for fixed in [
            format!("x\n```\n{words}\n```"),
            format!("x\n\n10. do\n\n    ```\n    {words}\n    ```"),
            format!("x\n\n- ```\n  {words}\n  ```"),
            format!("x\n\n> ```\n> {words}\n> ```"),
            format!("x\n\n| {words} | b |\n|---|---|\n| {words} | d |"),
            format!("x\n\na | {words}\n--- | ---\n{words} | b"),
            format!("x\n\n    {words}"),
            format!("x\n[name]: https://example.org \"{words}\""),
            format!("[{words}](https://example.org)"),
        ] {
            assert_eq!(wrap_text(&fixed, 7, WRAP_COLUMNS), fixed);
        }
    }

    #[test]
    fn wrapped_list_item_or_quote_keeps_its_prefix() {
        let words = "word ".repeat(30);
        let list = wrap_text(&format!("x\n  - {words}"), 7, WRAP_COLUMNS);
        assert!(list.lines().nth(2).is_some_and(|line| line.starts_with("    word")), "{list}");
        let quote = wrap_text(&format!("x\n> {words}"), 7, WRAP_COLUMNS);
        assert!(quote.lines().nth(2).is_some_and(|line| line.starts_with("> word")), "{quote}");
    }

    #[test]
    fn line_does_not_break_before_a_block_start() {
        for token in
            ["- b", "# b", "1. b", "**9.** b", "> b", "``` b", "+ b", "\\# b", "===", "---"]
        {
            let text = format!("{} {token} {}", "a".repeat(112), "c".repeat(30));
            let wrapped = wrap_text(&text, 0, WRAP_COLUMNS);
            let begins = wrapped.lines().skip(1).any(|line| line.starts_with(token));
            assert!(!begins, "{token}: {wrapped}");
        }
    }
}
