//! Text of requirements: escaping, which is reversible, and wrapping at spaces.
//!
//! A line that would parse as structure gets a backslash in front. A line that already has one gets
//! another, which makes `unescape` exact. Closed fences and the marker's own line never change.

use super::markdown::{
    heading, is_blank, list_item, marker, opens_verbatim, strip_indent, underline, verbatim_lines,
};

/// `text` as stored in a file. With `own_line`, it begins on a line of its own.
pub(crate) fn escape(text: &str, own_line: bool) -> String {
    edit_lines(text, own_line, |line, above| {
        let (at, backslashes, is_underline) = structure(line)?;
        let breaks = !is_underline || above.is_some_and(|above| !is_blank(above));
        (backslashes > 0 || breaks).then(|| format!("{}\\{}", &line[..at], &line[at..]))
    })
}

/// Reverses [`escape`].
pub(crate) fn unescape(text: &str, own_line: bool) -> String {
    edit_lines(text, own_line, |line, _| {
        let (at, backslashes, _) = structure(line)?;
        (backslashes > 0).then(|| format!("{}{}", &line[..at], &line[at + 1..]))
    })
}

/// True if a text begins with a closed fence, which needs a line of its own.
pub(crate) fn begins_with_fence(text: &str) -> bool {
    verbatim_lines(&text.split('\n').collect::<Vec<_>>(), false)[0]
}

/// Calls `edit` with each line outside closed fences and comments, and the line above it.
fn edit_lines(
    text: &str,
    own_line: bool,
    edit: impl Fn(&str, Option<&str>) -> Option<String>,
) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let verbatim = verbatim_lines(&lines, !own_line);
    let mut edited: Vec<String> = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let above = at.checked_sub(1).map(|above| lines[above]);
        let fixed = verbatim[at] || (at == 0 && !own_line);
        let changed = if fixed { None } else { edit(line, above) };
        edited.push(changed.unwrap_or_else(|| (*line).to_owned()));
    }
    edited.join("\n")
}

/// Start and number of a line's backslashes before structure, and true for an underline, which is
/// structure only under a paragraph.
fn structure(line: &str) -> Option<(usize, usize, bool)> {
    let text = strip_indent(line)?;
    let core = text.trim_start_matches('\\');
    let (at, backslashes) = (line.len() - text.len(), text.len() - core.len());
    let is_other =
        heading(core).is_some() || opens_verbatim(core) || (at == 0 && marker(core).is_some());
    let is_underline = underline(core).is_some();
    (is_underline || (is_other && !core.starts_with(' '))).then_some((
        at,
        backslashes,
        is_underline,
    ))
}

/// The line width of rule R.2, in characters.
pub const COLUMNS: usize = 120;

/// Wraps lines at `columns` characters where that is possible and keeps the markdown's meaning; 0
/// is off. The first line has `taken` characters before it.
pub(crate) fn wrap(text: &str, taken: usize, columns: usize) -> String {
    if columns == 0 {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let fixed = fixed_lines(&lines, taken > 0);
    let mut wrapped = Vec::with_capacity(lines.len());
    for (number, line) in lines.iter().enumerate() {
        let taken = if number == 0 { taken } else { 0 };
        if fixed[number] || taken + line.chars().count() <= columns {
            wrapped.push((*line).to_owned());
        } else {
            wrap_line(line, taken, columns, &mut wrapped);
        }
    }
    wrapped.join("\n")
}

/// Numbers, from 1, and lengths of the lines longer than `columns`.
pub(crate) fn long_lines(text: &str, taken: usize, columns: usize) -> Vec<(usize, usize)> {
    let length = |(at, line): (usize, &str)| {
        (at + 1, line.trim_end().chars().count() + if at == 0 { taken } else { 0 })
    };
    let is_long = |&(_, length): &(usize, usize)| columns > 0 && length > columns;
    text.split('\n').enumerate().map(length).filter(is_long).collect()
}

/// Marks the lines that must not be wrapped.
fn fixed_lines(lines: &[&str], behind_marker: bool) -> Vec<bool> {
    let mut fixed = verbatim_lines(lines, behind_marker);
    let quotes_code = lines.iter().any(|line| is_quoted_fence(line));
    let mut in_list = false;
    for at in 0..lines.len() {
        let line = lines[at];
        if fixed[at] {
            continue;
        }
        in_list |= list_item(line.trim_start()).is_some();
        let after_gap = at > 0 && (is_blank(lines[at - 1]) || fixed[at - 1]);
        let is_code = strip_indent(line).is_none() && after_gap && !in_list;
        let is_quote = quotes_code && line.trim_start().starts_with('>');
        fixed[at] |= is_code || is_quote || is_table_row(line) || is_link_definition(line);
        if is_delimiter_row(line) && at > 0 {
            let rows = lines[at..].iter().take_while(|row| !is_blank(row)).count();
            fixed[at - 1..at + rows].fill(true);
        }
    }
    fixed
}

/// Code in a quote: then quotes are not wrapped.
fn is_quoted_fence(line: &str) -> bool {
    let text = line.trim_start();
    let inner = text.trim_start_matches(['>', ' ']);
    text.starts_with('>') && (inner.starts_with("```") || inner.starts_with("~~~"))
}

fn is_table_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn is_delimiter_row(line: &str) -> bool {
    let made_of = |b: u8| matches!(b, b'|' | b':' | b'-' | b' ');
    line.contains('|') && line.contains('-') && line.bytes().all(made_of)
}

fn is_link_definition(line: &str) -> bool {
    strip_indent(line).is_some_and(|text| text.starts_with('[') && text.contains("]: "))
}

/// Breaks a line at the last space within `columns`, else at the first one after it.
fn wrap_line(line: &str, taken: usize, columns: usize, out: &mut Vec<String>) {
    let (indent, prefix) = continuation(line);
    // A line may consist of its lead only.
    let content = &line[..line.trim_end().len().max(indent)];
    let mut rest_start = 0;
    let mut width = taken;
    let mut candidates = break_points(content, indent).into_iter().peekable();
    loop {
        let lead = if rest_start == 0 { "" } else { prefix.as_str() };
        let room = columns.saturating_sub(width + lead.chars().count());
        let length = |end: usize| content[rest_start..end].chars().count();
        if length(content.len()) <= room {
            break;
        }
        let mut chosen = None;
        while let Some(&(end, next)) = candidates.peek() {
            if chosen.is_some() && length(end) > room {
                break;
            }
            chosen = Some((end, next));
            candidates.next();
        }
        let Some((end, next)) = chosen else { break };
        out.push(format!("{lead}{}", &content[rest_start..end]));
        rest_start = next;
        width = 0;
    }
    let lead = if rest_start == 0 { "" } else { prefix.as_str() };
    out.push(format!("{lead}{}", &line[rest_start..]));
}

/// Width of a line's lead, and the lead of its continuation lines.
fn continuation(line: &str) -> (usize, String) {
    let mut at = line.len() - line.trim_start().len();
    let mut prefix = line[..at].to_owned();
    while let Some(rest) = line[at..].strip_prefix('>') {
        let space = rest.len() - rest.trim_start().len();
        prefix.push_str(&line[at..=at + space]);
        at += 1 + space;
    }
    if let Some(width) = list_item(&line[at..]) {
        prefix.push_str(&" ".repeat(width));
        at += width;
    }
    (at, prefix)
}

/// Spaces where a line may break, as (end of the line, start of the next).
fn break_points(line: &str, from: usize) -> Vec<(usize, usize)> {
    let links = link_ranges(line);
    let mut points = Vec::new();
    let mut at = from;
    while let Some(found) = line[at..].find(' ') {
        let end = at + found;
        let next = line.len() - line[end..].trim_start_matches(' ').len();
        at = next;
        let in_link = links.iter().any(|link| link.contains(&end));
        let rest = &line[next..];
        if end > from && next < line.len() && !in_link && !begins_a_block(rest) {
            points.push((end, next));
        }
    }
    points
}

/// True if a line that begins with `rest` would not continue the paragraph.
fn begins_a_block(rest: &str) -> bool {
    let word = rest.split(' ').next().unwrap_or_default();
    list_item(rest).is_some()
        || rest.starts_with(['>', '|', '<'])
        || rest.starts_with("```")
        || rest.starts_with("~~~")
        || structure(rest).is_some()
        || structure(word).is_some()
}

/// Inline links, images and reference links: `[text](target)` and `[text][name]`.
fn link_ranges(line: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = line.as_bytes();
    let mut links = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => open.push(at),
            b']' => {
                let start = open.pop();
                let close = match bytes.get(at + 1) {
                    Some(b'(') => closing(bytes, at + 1, b'(', b')'),
                    Some(b'[') => closing(bytes, at + 1, b'[', b']'),
                    _ => None,
                };
                if let (Some(start), Some(close)) = (start, close) {
                    links.push(start..close + 1);
                    at = close;
                }
            }
            _ => {}
        }
        at += 1;
    }
    links
}

fn closing(bytes: &[u8], open: usize, opening: u8, closing: u8) -> Option<usize> {
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
        assert_eq!(escape(text, false), escaped);
        assert_eq!(unescape(escaped, false), text);
    }

    // S1: C.2, S.3.2; catalogue 26
    #[test]
    fn a_forged_marker_or_heading_is_escaped_and_comes_back() {
        check("a\n**9.** forged", "a\n\\**9.** forged");
        check("a\n## Sections\n\\# b", "a\n\\## Sections\n\\\\# b");
        check("a\n  # b", "a\n  \\# b");
        check("a\n---\n\n---", "a\n\\---\n\n---");
        check("a\n```\nnever closed\n**9.** x", "a\n\\```\nnever closed\n\\**9.** x");
        check("a\n<!--\n# b", "a\n\\<!--\n\\# b");
    }

    #[test]
    fn what_breaks_nothing_stays_as_it_is() {
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
        fn unescape_undoes_escape(text in r"([\\#*`~=\- a1.\n]{0,8}(\*\*9\.\*\* x|# h|```|~~~|---|===|- |  |<!--|-->)?\n?){0,8}", own in any::<bool>()) {
            let own = own && begins_with_fence(&text);
            prop_assert_eq!(unescape(&escape(&text, own), own), text);
        }
    }

    fn widths(text: &str, taken: usize) -> Vec<usize> {
        let lines = text.split('\n').enumerate();
        lines.map(|(at, l)| l.chars().count() + if at == 0 { taken } else { 0 }).collect()
    }

    // S1: R.2
    #[test]
    fn long_lines_break_at_spaces_and_the_marker_counts() {
        let text = "ъ word ".repeat(60);
        let wrapped = wrap(text.trim(), 7, COLUMNS);
        let widths = widths(&wrapped, 7);
        let (_, full) = widths.split_last().unwrap();
        assert!(full.iter().all(|w| (110..=120).contains(w)), "{wrapped}");
        assert_eq!(wrapped.replace('\n', " "), text.trim());
        assert_eq!(wrap(&wrapped, 7, COLUMNS), wrapped, "wrapping twice changes nothing");
        assert_eq!(wrap(text.trim(), 7, 0), text.trim(), "0 is off");
    }

    // S1: R.2
    #[test]
    fn exactly_120_characters_stay_and_121_break() {
        let line = format!("{} {}", "a".repeat(60), "b".repeat(52));
        assert_eq!(wrap(&line, 7, COLUMNS), line);
        assert_eq!(wrap(&format!("{line}b"), 7, COLUMNS).lines().count(), 2);
    }

    #[test]
    fn a_line_that_is_all_lead_stays() {
        for lead in [
            " ".repeat(121),
            format!(">{}", " ".repeat(121)),
            format!("-{}", " ".repeat(121)),
            "\u{a0}".repeat(121),
        ] {
            let text = format!("a\n{lead}\nb");
            assert_eq!(wrap(&text, 7, COLUMNS), text);
        }
    }

    #[test]
    fn fences_tables_links_and_code_stay_whole() {
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
            assert_eq!(wrap(&fixed, 7, COLUMNS), fixed);
        }
    }

    #[test]
    fn list_items_and_quotes_continue_under_themselves() {
        let words = "word ".repeat(30);
        let list = wrap(&format!("x\n  - {words}"), 7, COLUMNS);
        assert!(list.lines().nth(2).is_some_and(|line| line.starts_with("    word")), "{list}");
        let quote = wrap(&format!("x\n> {words}"), 7, COLUMNS);
        assert!(quote.lines().nth(2).is_some_and(|line| line.starts_with("> word")), "{quote}");
    }

    #[test]
    fn no_line_breaks_before_what_would_begin_a_block() {
        for token in
            ["- b", "# b", "1. b", "**9.** b", "> b", "``` b", "+ b", "\\# b", "===", "---"]
        {
            let text = format!("{} {token} {}", "a".repeat(112), "c".repeat(30));
            let wrapped = wrap(&text, 0, COLUMNS);
            let begins = wrapped.lines().skip(1).any(|line| line.starts_with(token));
            assert!(!begins, "{token}: {wrapped}");
        }
    }
}
