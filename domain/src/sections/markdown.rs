//! Line-based Markdown parser for headings and requirement markers, after `CommonMark` 0.31.
//!
//! Text inside code, HTML or a comment is not structure. A line of `---` is a heading only directly
//! below a paragraph.

use std::cmp::Ordering;

use super::lines::{SourceLine, line_numbers, source_lines};
use super::requirement_index::{self, compare_indices};
use super::verbatim::{RegionKind, VerbatimRegions, may_open_block};

/// A structural element of a section file. Positions are byte offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutlineElement<'a> {
    Heading {
        start: usize,
        /// Start of the line after the heading.
        next: usize,
        level: usize,
        title: &'a str,
    },
    /// `**{token}.** text`; the token holds a digit, and may be an invalid index.
    Marker { start: usize, token: &'a str },
}

impl OutlineElement<'_> {
    pub(crate) fn start(&self) -> usize {
        match self {
            Self::Heading { start, .. } | Self::Marker { start, .. } => *start,
        }
    }
}

/// The structural elements of a file, in order.
#[derive(Debug, Default)]
pub(crate) struct Outline<'a> {
    pub(crate) elements: Vec<OutlineElement<'a>>,
    /// Start of an unclosed fence, comment or HTML block, which hides all elements below it.
    pub(crate) unclosed_at: Option<usize>,
    /// Starts of the markers in code, HTML and comments.
    hidden_markers: Vec<usize>,
}

impl Outline<'_> {
    /// Names the line of an unclosed block.
    pub(crate) fn unclosed_problem(&self, source: &str) -> Option<String> {
        let line = line_numbers(source, [self.unclosed_at?].into_iter()).next()?;
        Some(format!(
            "line {line} opens a code fence, a comment or HTML that is not closed; close it first"
        ))
    }

    /// The line of the first marker in code, HTML or a comment that has this index.
    pub(crate) fn hidden_line(&self, source: &str, index: &str) -> Option<usize> {
        let has_index = |start: &usize| {
            let token =
                source_lines(&source[*start..]).next().and_then(|line| parse_marker(line.text));
            token.is_some_and(|token| compare_indices(token, index) == Ordering::Equal)
        };
        let start = self.hidden_markers.iter().copied().find(has_index)?;
        line_numbers(source, [start].into_iter()).next()
    }
}

pub(crate) fn parse_outline(source: &str) -> Outline<'_> {
    let mut scanner = OutlineScanner::new(source);
    let elements = scanner.scan_elements().collect();
    let unclosed_at = scanner.regions.and_then(|regions| regions.unclosed_at);
    Outline { elements, unclosed_at, hidden_markers: scanner.hidden_markers }
}

/// The title of the first heading that has one.
pub fn first_heading(source: &str) -> Option<&str> {
    OutlineScanner::new(source).scan_elements().find_map(|element| match element {
        OutlineElement::Heading { title, .. } if !title.is_empty() => Some(title),
        _ => None,
    })
}

struct OutlineScanner<'a> {
    source: &'a str,
    body_start: usize,
    /// Parsed at the first line that may be in one.
    regions: Option<VerbatimRegions>,
    /// Start of the text above a line that may contain an inline region.
    unchecked: usize,
    preceding: PrecedingBlock,
    hidden_markers: Vec<usize>,
}

/// The block above a line. A line of `---` or `===` turns a paragraph into a heading.
enum PrecedingBlock {
    None,
    /// A paragraph and its start.
    Paragraph(usize),
    /// A list, quote, table or requirement.
    Other,
}

impl<'a> OutlineScanner<'a> {
    fn new(source: &'a str) -> Self {
        let first_line = source_lines(source).next().map_or(0, |line| line.start);
        let body_start = front_matter_end(source).max(first_line);
        Self {
            source,
            body_start,
            regions: None,
            unchecked: body_start,
            preceding: PrecedingBlock::None,
            hidden_markers: Vec::new(),
        }
    }

    fn scan_elements(&mut self) -> impl Iterator<Item = OutlineElement<'a>> {
        let body_start = self.body_start;
        let lines = source_lines(self.source).skip_while(move |line| line.start < body_start);
        lines.filter_map(|line| self.scan_line(line))
    }

    /// True for a line that a region hides. Parses the regions first.
    fn is_hidden(&mut self, line: SourceLine<'a>) -> bool {
        let regions = self
            .regions
            .get_or_insert_with(|| VerbatimRegions::parse(self.source, self.body_start));
        let kind = regions.kind_at(line);
        if kind == Some(RegionKind::Block) {
            self.preceding = PrecedingBlock::None;
        }
        if kind.is_some() && parse_marker(line.text).is_some() {
            self.hidden_markers.push(line.start);
        }
        kind.is_some()
    }

    /// True if the paragraph above a marker may contain a part of a code span or a comment. Parsing
    /// the regions of every section would slow down reading.
    fn may_continue_region(&mut self, start: usize) -> bool {
        let above = std::mem::replace(&mut self.unchecked, start)..start;
        self.regions.is_none()
            && memchr::memchr2(b'<', b'`', &self.source.as_bytes()[above]).is_some()
    }

    fn scan_line(&mut self, line: SourceLine<'a>) -> Option<OutlineElement<'a>> {
        let SourceLine { start, text, next } = line;
        // Nothing inside a region is structure.
        if self.regions.is_some() && self.is_hidden(line) {
            return None;
        }
        // Fast path: most lines are prose, and no structure begins with a letter.
        if text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) {
            if matches!(self.preceding, PrecedingBlock::None) {
                self.preceding = PrecedingBlock::Paragraph(start);
            }
            return None;
        }
        // A requirement cannot become a heading by the line below it.
        if let Some(token) = parse_marker(text) {
            if self.may_continue_region(start) && self.is_hidden(line) {
                return None;
            }
            self.preceding = PrecedingBlock::Other;
            return Some(OutlineElement::Marker { start, token });
        }
        if let Some((level, title)) = parse_heading(text) {
            self.preceding = PrecedingBlock::None;
            return Some(OutlineElement::Heading { start, next, level, title });
        }
        if let PrecedingBlock::Paragraph(title_start) = self.preceding
            && let Some(level) = underline_level(text)
        {
            self.preceding = PrecedingBlock::None;
            // The whole paragraph is the title, as in CommonMark 0.31, section 4.3.
            let title = self.source[title_start..start].trim();
            return Some(OutlineElement::Heading { start: title_start, next, level, title });
        }
        if may_open_block(text) && self.is_hidden(line) {
            return None;
        }
        if is_blank(text) {
            self.preceding = PrecedingBlock::None;
            self.unchecked = next;
        // Other lines continue the block above.
        } else if matches!(self.preceding, PrecedingBlock::None) && !is_thematic_break(text) {
            self.preceding = if opens_block(text) {
                PrecedingBlock::Other
            } else {
                PrecedingBlock::Paragraph(start)
            };
        }
        None
    }
}

/// Start of the text after the front matter; 0 without front matter.
fn front_matter_end(source: &str) -> usize {
    let mut lines = source_lines(source);
    if lines.next().is_none_or(|first| first.text.trim_end() != "---") {
        return 0;
    }
    for line in lines {
        if parse_marker(line.text).is_some() {
            // Front matter contains no requirement: the first line is a thematic break.
            return 0;
        }
        if line.text.trim_end() == "---" {
            return line.next;
        }
    }
    0
}

/// The token of a requirement's line `**{token}.** text`. The token may be an invalid index.
pub(crate) fn parse_marker(line: &str) -> Option<&str> {
    parse_bold_token(line).filter(|token| requirement_index::is_numbered(token))
}

/// The token of a line `**{token}.** text`, which in prose may be a word, as in `**Note.** text`.
pub(super) fn parse_bold_token(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("**")?;
    // The first asterisk: a token cannot contain one.
    let end = memchr::memchr(b'*', rest.as_bytes())?;
    let token = rest[..end].strip_suffix('.')?;
    let text = rest[end..].strip_prefix("**")?;
    let is_token = !token.is_empty() && !token.contains(char::is_whitespace);
    let is_separated = text.is_empty() || text.starts_with([' ', '\t']);
    (is_token && is_separated).then_some(token)
}

/// Level and title of an ATX heading, such as `## Title`.
pub fn parse_heading(line: &str) -> Option<(usize, &str)> {
    let text = strip_indent(line)?;
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let title = rest.trim();
    // Trailing `#` after a space are not part of the title.
    let without_closing = title.trim_end_matches('#');
    if without_closing.is_empty() || without_closing.ends_with([' ', '\t']) {
        Some((level, without_closing.trim_end()))
    } else {
        Some((level, title))
    }
}

/// The heading level of an underline: 1 for `===`, 2 for `---`.
pub(crate) fn underline_level(line: &str) -> Option<usize> {
    let text = strip_indent(line)?.trim_end_matches([' ', '\t']);
    let first = *text.as_bytes().first()?;
    if text.bytes().any(|byte| byte != first) {
        return None;
    }
    match first {
        b'=' => Some(1),
        b'-' => Some(2),
        _ => None,
    }
}

/// True for three or more `-`, `*` or `_`.
fn is_thematic_break(line: &str) -> bool {
    let mut first = None;
    let mut count = 0_usize;
    for byte in line.bytes() {
        match (byte, first) {
            (b' ' | b'\t', _) => continue,
            (b'-' | b'*' | b'_', None) => first = Some(byte),
            (_, Some(first)) if byte == first => {}
            _ => return false,
        }
        count += 1;
    }
    count >= 3
}

fn opens_block(line: &str) -> bool {
    strip_indent(line)
        .is_none_or(|text| text.starts_with(['>', '|', '<']) || list_marker_width(text).is_some())
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|b| b == b' ' || b == b'\t')
}

/// The text after the indentation; `None` for more than three spaces, which make a code block.
pub(crate) fn strip_indent(text: &str) -> Option<&str> {
    let stripped = text.trim_start_matches(' ');
    (text.len() - stripped.len() <= 3 && !stripped.starts_with('\t')).then_some(stripped)
}

/// The width of a list item's marker, including the space after it.
pub(crate) fn list_marker_width(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match (digits, text.as_bytes().get(digits)?) {
        (0, b'-' | b'*' | b'+') => 1,
        // CommonMark 0.31, section 5.2: at most nine digits, as some browsers overflow beyond.
        (1..=9, b'.' | b')') => digits + 1,
        _ => return None,
    };
    let rest = &text[marker..];
    let space = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    match space {
        _ if rest.is_empty() => Some(marker),
        0 => None,
        1..=4 => Some(marker + space),
        // More than four spaces begin indented code after one space.
        _ => Some(marker + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::lines::line_end;

    #[track_caller]
    fn check(source: &str, expected: &[&str]) {
        let mut found = Vec::new();
        for element in parse_outline(source).elements {
            found.push(match element {
                OutlineElement::Heading { level, title, .. } => format!("h{level} {title}"),
                OutlineElement::Marker { token, .. } => token.to_owned(),
            });
        }
        assert_eq!(found, expected, "{source:?}");
    }

    #[test]
    fn outline_is_the_same_for_any_line_end() {
        for end in ["\n", "\r\n", "\r"] {
            let source = ["# A", "", "**1.** one", "## B ##", "**R.1.**", "text"].join(end);
            check(&source, &["h1 A", "1", "h2 B", "R.1"]);
            check(&format!("\u{feff}{source}"), &["h1 A", "1", "h2 B", "R.1"]);
            assert_eq!(line_end(&source), end);
        }
    }

    #[test]
    fn fence_hides_structure() {
        check("```\n# no\n**1.** no\n````\n**2.** yes", &["2"]);
        check("~~~ a`b\n**1.** no\n```\n~~~\n**2.** yes", &["2"]);
        check("``` a`b\n**1.** no fence above", &["1"]);
        check("    ```\n**1.** code above is indented", &["1"]);
        check("```\n**1.** never closed", &[]);
        assert_eq!(parse_outline("a\n\n```\nb").unclosed_at, Some(3));
        check("**1.** a\n\n- ```\n  **9.** no\n  ```\n\n**2.** b", &["1", "2"]);
        check("- a\n  ```\n  code\n**1.** left the list", &["1"]);
        check("10. a\n\n    ```\n    # no\n    ```\n# yes", &["h1 yes"]);
        check("<!--\n```\n**1.** no\n-->\n**2.** yes\n<!-- ``` -->\n# yes", &["2", "h1 yes"]);
    }

    #[test]
    fn html_comment_and_code_span_hide_structure() {
        for hidden in [
            // HTML blocks of kinds 1 to 5 may contain blank lines.
            "<PRE class=x>\n**1.** no\n\n# no\n</Pre>",
            "<style\n>\n\n**1.** no\n</script> the end of any of them",
            "- a\n\n  <textarea>\n  </textarea>\n\n<textarea>\n\n**1.** no\n</textarea>",
            "text\n<!-- a\n\n**1.** no\n# no\n-->",
            "<?xml\n\n**1.** no\n?>",
            "<!DOCTYPE x\n**1.** no\n\n>",
            "<![CDATA[\n**1.** no\n\n# no\n]]>",
            // Kinds 6 and 7 end at a blank line.
            "</div>\n**1.** no",
            "text\n<details><summary>\n**1.** no\n# no",
            "   <my-tag a='b'>\n**1.** no",
            // A part of a paragraph.
            "Text ``a\n**1.** no\n` b`` c",
            "Text <!-- a\n**1.** no\n--> b",
            "Text <a b=\"\n**1.** no\n\"> c",
            "Text <? a\n**1.** no ?> b",
            "**Note.** a `b\n**1.** no\n**2.** no` c",
            // Fences in a quote and in a list inside of a quote.
            "> ~~~\n> **1.** no\n> ~~~",
            "1. > ```\n   > # no",
        ] {
            let source =
                format!("{hidden}\n\n# H\n**1.** a\n**2.** b\n\n**3.** c `d` <e>\n**4.** f");
            check(&source, &["h1 H", "1", "2", "3", "4"]);
            check(&source.replace('\n', "\r"), &["h1 H", "1", "2", "3", "4"]);
        }
        for text in ["Text <b", "Text `a", "Text <!-- a", "Text <my-tag a='b'>", "    <pre>", "<3"]
        {
            check(&format!("{text}\n**1.** a\n\n**2.** b"), &["1", "2"]);
        }
        check("`a\nb` c\n---\n\n<!-- a\nb --> c\n---", &["h2 `a\nb` c"]);
        assert_eq!(parse_outline("a\n\n  <script>\n\nb").unclosed_at, Some(5));
        assert_eq!(parse_outline("a\n\n<div>\n# b\n").unclosed_at, None);
    }

    #[test]
    fn underline_is_a_heading_only_below_a_paragraph() {
        check("Title\n=====\n\nMore\nwords\n---", &["h1 Title", "h2 More\nwords"]);
        check("- item\n---\n\n> quote\n---\n\n| a |\n|---|", &[]);
        check("**1.** text\n---\n\n---\n---", &["1"]);
        check("---\ntitle: x\n---\n\n# Real", &["h1 Real"]);
        check("---\n**1.** a\n\n---\n", &["1"]);
    }

    #[test]
    fn bold_word_in_prose_is_no_marker() {
        check("**1.** a\n\n**Note.** b\n\n**R.a.** c\n\n**R.** d", &["1"]);
        check("**Note.** b\n---", &["h2 **Note.** b"]);
        check("**FR-1.** a\n**2FA.** b\n**too-long-for-1.** c", &["FR-1", "2FA", "too-long-for-1"]);
    }

    #[test]
    fn invalid_marker_or_heading_is_text() {
        check("** 1.** a\n**1**. b\n**1.**c\n**a b.** d\n**.** e\n #x\n#######  y", &[]);
        check("**1\u{200b}.** odd token ends the one before", &["1\u{200b}"]);
    }

    #[test]
    fn line_end_is_the_most_frequent_one() {
        assert_eq!(line_end("a\r\nb\r\nc\n"), "\r\n");
        assert_eq!(line_end("a\r\nb\nc\n"), "\n");
        assert_eq!(line_end("one line"), "\n");
    }
}
