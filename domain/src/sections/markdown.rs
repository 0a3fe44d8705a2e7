//! Line-based markdown parser for headings, requirement markers, fences and comments, after
//! `CommonMark` 0.31.
//!
//! Text inside a fence is not structure. A fence in a list item ends with the item. A line of `---`
//! is a heading only directly below a paragraph.

use std::collections::HashMap;

/// A structural element of a section file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark<'a> {
    Heading {
        start: usize,
        next: usize,
        level: usize,
        title: &'a str,
    },
    /// `**{token}.** text`; the token may be an invalid index.
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

/// All marks of a file in order, and the start of an unclosed fence or comment.
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

/// The first heading of a file.
pub fn title(source: &str) -> Option<&str> {
    Scanner::new(source).marks().find_map(|mark| match mark {
        Mark::Heading { title, .. } if !title.is_empty() => Some(title),
        _ => None,
    })
}

struct Scanner<'a> {
    source: &'a str,
    /// The open fence or comment and its start.
    open: Option<(Verbatim, usize)>,
    list: List,
    paragraph: Paragraph,
}

/// The block above a line, which `---` may underline.
enum Paragraph {
    None,
    /// Start of a paragraph that may become a heading.
    Plain(usize),
    /// A list, quote, table or requirement, which can't be underlined.
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
        // Most lines are prose, which the first byte tells.
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

/// Start of the text after the front matter; 0 without front matter.
fn front_matter_end(source: &str) -> usize {
    let mut lines = lines(source);
    if lines.next().is_none_or(|first| first.text.trim_end() != "---") {
        return 0;
    }
    // With a requirement inside, the two lines are thematic breaks.
    let end = lines.find(|line| line.text.trim_end() == "---" || marker(line.text).is_some());
    end.filter(|line| marker(line.text).is_none()).map_or(0, |line| line.next)
}

/// The token of a line `**{token}.** text`, valid as an index or not.
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
pub fn heading(line: &str) -> Option<(usize, &str)> {
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

/// The heading level of an underline `===` or `---`.
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

fn opens_a_block(line: &str) -> bool {
    strip_indent(line)
        .is_none_or(|text| text.starts_with(['>', '|', '<']) || list_item(text).is_some())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Indentation of the current list item's content; 0 outside of lists.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct List(usize);

impl List {
    pub(crate) fn pass(&mut self, line: &str) {
        if is_blank(line) {
            return;
        }
        let at = indent(line);
        match list_item(&line[at..]) {
            Some(width) => self.0 = at + width,
            None if at < self.0 => self.0 = 0,
            None => {}
        }
    }
}

/// An open code fence or comment.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verbatim {
    /// `inside` is the indentation of the surrounding list item's content. A line with less ends
    /// the item and the fence.
    Fence {
        mark: u8,
        length: usize,
        inside: usize,
    },
    Comment,
}

/// The position of a line relative to an open [`Verbatim`].
pub(crate) enum Step {
    Inside,
    Last,
    Past,
}

impl Verbatim {
    /// A comment that ends on its own line opens nothing.
    pub(crate) fn opened_by(line: &str, list: List) -> Option<Self> {
        let at = indent(line);
        let inside = if at >= list.0 { list.0 } else { 0 };
        let behind_item = list_item(&line[at..]).map_or(0, |width| at + width);
        let text = match behind_item {
            0 if at - inside <= 3 => &line[at..],
            0 => return None,
            behind => line.get(behind..)?.trim_start_matches(' '),
        };
        if let Some(comment) = text.strip_prefix("<!--") {
            return (!comment.contains("-->")).then_some(Self::Comment);
        }
        let mark = *text.as_bytes().first().filter(|b| matches!(b, b'`' | b'~'))?;
        let length = text.bytes().take_while(|b| *b == mark).count();
        let info = &text[length..];
        let opens = length >= 3 && !(mark == b'`' && info.contains('`'));
        opens.then_some(Self::Fence { mark, length, inside: inside.max(behind_item) })
    }

    pub(crate) fn step(self, line: &str) -> Step {
        let Self::Fence { mark, length, inside } = self else {
            return if line.contains("-->") { Step::Last } else { Step::Inside };
        };
        let at = indent(line);
        if at < inside && !is_blank(line) {
            return Step::Past;
        }
        let text = &line[at..];
        let closing = text.bytes().take_while(|b| *b == mark).count();
        let closes = closing >= length && is_blank(&text[closing..]) && at - inside.min(at) <= 3;
        if closes { Step::Last } else { Step::Inside }
    }
}

/// Marks the lines inside closed fences and comments. With `behind_marker`, the first line follows
/// a marker and opens nothing.
pub(crate) fn verbatim_lines(lines: &[&str], behind_marker: bool) -> Vec<bool> {
    let mut verbatim = vec![false; lines.len()];
    let mut list = List::default();
    let mut never = NeverClosed::default();
    let mut at = usize::from(behind_marker);
    while at < lines.len() {
        list.pass(lines[at]);
        let open = Verbatim::opened_by(lines[at], list).filter(|open| !never.holds(*open));
        match open.map(|open| (open, closed_at(lines, at, open))) {
            Some((_, Some(end))) => {
                verbatim[at..end].fill(true);
                at = end;
            }
            Some((open, None)) => {
                never.learn(open);
                at += 1;
            }
            None => at += 1,
        }
    }
    verbatim
}

/// Openings without a closing line below, so that the search for it is not repeated.
#[derive(Default)]
struct NeverClosed {
    comment: bool,
    /// By mark and indentation: from this length on.
    fences: HashMap<(u8, usize), usize>,
}

impl NeverClosed {
    fn holds(&self, open: Verbatim) -> bool {
        match open {
            Verbatim::Comment => self.comment,
            Verbatim::Fence { mark, length, inside } => {
                self.fences.get(&(mark, inside)).is_some_and(|never| length >= *never)
            }
        }
    }

    fn learn(&mut self, open: Verbatim) {
        match open {
            Verbatim::Comment => self.comment = true,
            Verbatim::Fence { mark, length, inside } => {
                self.fences.insert((mark, inside), length);
            }
        }
    }
}

/// End of the lines that were opened at `at`; `None` if never closed.
fn closed_at(lines: &[&str], at: usize, open: Verbatim) -> Option<usize> {
    let rest = lines.iter().enumerate().skip(at + 1);
    rest.map(|(at, line)| (at, open.step(line))).find_map(|(at, step)| match step {
        Step::Inside => None,
        Step::Last => Some(at + 1),
        Step::Past => Some(at),
    })
}

/// True if the line opens a fence or a comment outside of lists.
pub(crate) fn opens_verbatim(line: &str) -> bool {
    Verbatim::opened_by(line, List::default()).is_some()
}

/// A line without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) start: usize,
    pub(crate) text: &'a str,
    pub(crate) next: usize,
}

impl Line<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The lines of `source`. LF, CRLF and a lone CR end a line; a BOM is skipped.
pub(crate) fn lines(source: &str) -> impl Iterator<Item = Line<'_>> {
    let bytes = source.as_bytes();
    let mut at = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let start = at;
        let end = memchr::memchr2(b'\n', b'\r', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        at = match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => end + 2,
            Some([_, ..]) => end + 1,
            _ => end,
        };
        Some(Line { start, text: &source[start..end], next: at })
    })
}

/// The most frequent line end; LF by default.
pub(crate) fn line_end(source: &str) -> &'static str {
    let (mut lf, mut crlf, mut cr) = (0_usize, 0_usize, 0_usize);
    for line in lines(source) {
        match &source[line.end()..line.next] {
            "\n" => lf += 1,
            "\r\n" => crlf += 1,
            "\r" => cr += 1,
            _ => {}
        }
    }
    if crlf > lf && crlf >= cr {
        "\r\n"
    } else if cr > lf {
        "\r"
    } else {
        "\n"
    }
}

/// The numbers of the lines at rising offsets, counted from 1.
pub(crate) fn line_numbers(
    source: &str,
    offsets: impl Iterator<Item = usize>,
) -> impl Iterator<Item = usize> {
    let mut lines = lines(source).zip(1..).peekable();
    offsets.map(move |offset| {
        while lines.next_if(|(line, _)| line.next <= offset).is_some() {}
        lines.peek().map_or(1, |(_, number)| *number)
    })
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|b| b == b' ' || b == b'\t')
}

/// Up to three spaces may stand before a block's first character.
pub(crate) fn strip_indent(text: &str) -> Option<&str> {
    let stripped = text.trim_start_matches(' ');
    (text.len() - stripped.len() <= 3 && !stripped.starts_with('\t')).then_some(stripped)
}

/// Width of a list item's marker with the space after it.
pub(crate) fn list_item(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match (digits, text.as_bytes().get(digits)?) {
        (0, b'-' | b'*' | b'+') => 1,
        (1..=9, b'.' | b')') => digits + 1,
        _ => return None,
    };
    let rest = &text[mark..];
    let space = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    match (rest.is_empty(), space) {
        (true, _) => Some(mark),
        (_, 0) => None,
        (_, 1..=4) => Some(mark + space),
        _ => Some(mark + 1),
    }
}

#[cfg(test)]
mod tests {
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
