//! Reads markdown by lines, losslessly: headings, requirement markers, fences. Nothing is rendered.
//!
//! Only what decides where a requirement begins and ends is recognised, in the words of
//! `CommonMark` 0.31. The trap: text inside a fence is no structure, and a line of `---` is a
//! heading only right under a paragraph.

use super::lines::{Line, is_blank, lines, list_item, strip_indent};
use super::verbatim::{List, Step, Verbatim};

/// What gives a section file its structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark<'a> {
    Heading {
        start: usize,
        next: usize,
        level: usize,
        title: &'a str,
    },
    /// `**{token}.** text`; the token may be no valid index.
    Marker {
        start: usize,
        token: &'a str,
    },
}

impl Mark<'_> {
    pub(crate) fn start(&self) -> usize {
        match self {
            Self::Heading { start, .. } | Self::Marker { start, .. } => *start,
        }
    }
}

/// All marks of a file, in order, and the fence or comment that was opened and never closed.
#[derive(Debug, Default)]
pub(crate) struct Outline<'a> {
    pub(crate) marks: Vec<Mark<'a>>,
    pub(crate) open: Option<usize>,
}

pub(crate) fn outline(source: &str) -> Outline<'_> {
    let mut scanner = Scanner::new(source);
    let marks = scanner.marks().collect();
    Outline { marks, open: scanner.open.map(|(_, start)| start) }
}

/// The title of the first heading that has one; reads no further.
pub(crate) fn title(source: &str) -> Option<&str> {
    Scanner::new(source).marks().find_map(|mark| match mark {
        Mark::Heading { title, .. } if !title.is_empty() => Some(title),
        _ => None,
    })
}

/// Walks through a file's lines and knows what the lines before mean for the next one.
struct Scanner<'a> {
    source: &'a str,
    /// What is open, and where it was opened.
    open: Option<(Verbatim, usize)>,
    list: List,
    paragraph: Paragraph,
}

/// What a line of `---` would underline.
enum Paragraph {
    None,
    /// Begins at this offset and may become a heading.
    Plain(usize),
    /// A list, quote, table or requirement: an underline below it is none.
    Other,
}

impl<'a> Scanner<'a> {
    fn new(source: &'a str) -> Self {
        Self { source, open: None, list: List::default(), paragraph: Paragraph::None }
    }

    fn marks(&mut self) -> impl Iterator<Item = Mark<'a>> {
        let body = front_matter_end(self.source);
        let lines = lines(self.source).skip_while(move |line| line.start < body);
        lines.filter_map(|line| self.mark(line))
    }

    fn mark(&mut self, line: Line<'a>) -> Option<Mark<'a>> {
        let Line { start, text, next } = line;
        if let Some((open, _)) = self.open {
            match open.step(text) {
                Step::Inside => return None,
                Step::Last => {
                    self.open = None;
                    return None;
                }
                Step::Past => self.open = None,
            }
        }
        self.list.pass(text);
        // Nearly every line is prose or a marker: settle those on their first byte.
        if text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) {
            if matches!(self.paragraph, Paragraph::None) {
                self.paragraph = Paragraph::Plain(start);
            }
            return None;
        }
        if let Some(token) = marker(text) {
            self.paragraph = Paragraph::Other;
            return Some(Mark::Marker { start, token });
        }
        if let Some((level, title)) = heading(text) {
            self.paragraph = Paragraph::None;
            return Some(Mark::Heading { start, next, level, title });
        }
        if let (Some(level), &Paragraph::Plain(start)) = (underline(text), &self.paragraph) {
            self.paragraph = Paragraph::None;
            let title = self.source[start..line.start].trim();
            return Some(Mark::Heading { start, next, level, title });
        }
        self.open = Verbatim::opened_by(text, self.list).map(|open| (open, start));
        if is_blank(text) || self.open.is_some() {
            self.paragraph = Paragraph::None;
        } else if matches!(self.paragraph, Paragraph::None) && !is_thematic_break(text) {
            let other = opens_a_block(text);
            self.paragraph = if other { Paragraph::Other } else { Paragraph::Plain(start) };
        }
        None
    }
}

/// Where the text behind a YAML front matter begins; 0 without one.
fn front_matter_end(source: &str) -> usize {
    let mut lines = lines(source);
    if lines.next().is_none_or(|first| first.text.trim_end() != "---") {
        return 0;
    }
    // Requirements never stand in it: then these are two rules around them.
    let end = lines.find(|line| line.text.trim_end() == "---" || marker(line.text).is_some());
    end.filter(|line| marker(line.text).is_none()).map_or(0, |line| line.next)
}

/// The token of a line `**{token}.** text` (S1 C.2), valid as an index or not.
pub(crate) fn marker(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("**")?;
    let end = memchr::memchr(b'*', rest.as_bytes())?;
    let token = rest[..end].strip_suffix('.')?;
    let text = rest[end..].strip_prefix("**")?;
    let is_token = !token.is_empty() && !token.contains(char::is_whitespace);
    let is_apart = text.is_empty() || text.starts_with([' ', '\t']);
    (is_token && is_apart).then_some(token)
}

/// Level and title of an ATX heading.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let text = strip_indent(line)?;
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let title = rest.trim();
    let unclosed = title.trim_end_matches('#');
    let closed = unclosed.is_empty() || unclosed.ends_with([' ', '\t']);
    Some((level, if closed { unclosed.trim_end() } else { title }))
}

/// The level that a line of `===` or `---` gives to the paragraph above it.
pub(crate) fn underline(line: &str) -> Option<usize> {
    let text = strip_indent(line)?.trim_end_matches([' ', '\t']);
    let all = |c| !text.is_empty() && text.bytes().all(|b| b == c);
    if all(b'=') {
        Some(1)
    } else if all(b'-') {
        Some(2)
    } else {
        None
    }
}

fn is_thematic_break(line: &str) -> bool {
    let mut marks = line.bytes().filter(|b| !matches!(b, b' ' | b'\t'));
    let Some(first) = marks.next().filter(|b| matches!(b, b'-' | b'*' | b'_')) else {
        return false;
    };
    let mut count = 1;
    marks.all(|b| {
        count += 1;
        b == first
    }) && count >= 3
}

/// Does a line begin a list, a quote, a table row, HTML or indented code?
fn opens_a_block(line: &str) -> bool {
    strip_indent(line)
        .is_none_or(|text| text.starts_with(['>', '|', '<']) || list_item(text).is_some())
}

#[cfg(test)]
mod tests {
    use super::super::lines::line_end;
    use super::*;

    fn check(source: &str, expected: &[&str]) {
        let found: Vec<String> = outline(source)
            .marks
            .iter()
            .map(|mark| match mark {
                Mark::Heading { level, title, .. } => format!("h{level} {title}"),
                Mark::Marker { token, .. } => (*token).to_owned(),
            })
            .collect();
        assert_eq!(found, expected, "{source:?}");
    }

    #[test]
    fn headings_and_markers_are_found_whatever_the_line_end() {
        for end in ["\n", "\r\n", "\r"] {
            let source = ["# A", "", "**1.** one", "## B ##", "**R.1.**", "text"].join(end);
            check(&source, &["h1 A", "1", "h2 B", "R.1"]);
            check(&format!("\u{feff}{source}"), &["h1 A", "1", "h2 B", "R.1"]);
            assert_eq!(line_end(&source), end);
        }
    }

    #[test]
    fn fences_hide_structure() {
        check("```\n# no\n**1.** no\n````\n**2.** yes", &["2"]);
        check("~~~ a`b\n**1.** no\n```\n~~~\n**2.** yes", &["2"]);
        check("``` a`b\n**1.** no fence above", &["1"]);
        check("    ```\n**1.** code above is indented", &["1"]);
        check("```\n**1.** never closed", &[]);
        assert_eq!(outline("a\n\n```\nb").open, Some(3));
        check("**1.** a\n\n- ```\n  **9.** no\n  ```\n\n**2.** b", &["1", "2"]);
        check("- a\n  ```\n  code\n**1.** left the list", &["1"]);
        check("10. a\n\n    ```\n    # no\n    ```\n# yes", &["h1 yes"]);
        check("<!--\n```\n**1.** no\n-->\n**2.** yes\n<!-- ``` -->\n# yes", &["2", "h1 yes"]);
    }

    #[test]
    fn underlined_headings_are_told_from_rules_lists_and_tables() {
        check("Title\n=====\n\nMore\nwords\n---", &["h1 Title", "h2 More\nwords"]);
        check("- item\n---\n\n> quote\n---\n\n| a |\n|---|", &[]);
        check("**1.** text\n---\n\n---\n---", &["1"]);
        check("---\ntitle: x\n---\n\n# Real", &["h1 Real"]);
        check("---\n**1.** a\n\n---\n", &["1"]);
    }

    #[test]
    fn near_misses_are_text() {
        check("** 1.** a\n**1**. b\n**1.**c\n**a b.** d\n**.** e\n #x\n#######  y", &[]);
        check("**1\u{200b}.** odd token ends the one before", &["1\u{200b}"]);
    }

    #[test]
    fn the_line_end_of_the_majority_counts() {
        assert_eq!(line_end("a\r\nb\r\nc\n"), "\r\n");
        assert_eq!(line_end("a\r\nb\nc\n"), "\n");
        assert_eq!(line_end("one line"), "\n");
    }
}
