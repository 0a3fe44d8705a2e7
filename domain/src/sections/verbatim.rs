//! Code, comments and HTML: lines that are not structure, after `CommonMark` 0.31.

use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::Range;
use std::vec;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::markdown::{SourceLine, is_blank, list_marker_width};

/// The code, HTML and comments of a Markdown text, in order.
pub(crate) struct VerbatimRegions {
    regions: Peekable<vec::IntoIter<(Range<usize>, RegionKind)>>,
    /// Start of the block that is not closed and hides all text below.
    pub(crate) unclosed_at: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionKind {
    Block,
    /// A part of a paragraph that spans lines.
    Inline,
}

impl VerbatimRegions {
    /// Parses the text from `start` on.
    pub(crate) fn parse(source: &str, start: usize) -> Self {
        let input = parser_input(&source[start..]);
        let mut regions = Vec::new();
        for (event, range) in Parser::new_ext(&input, Options::empty()).into_offset_iter() {
            let kind = match event {
                Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock) => RegionKind::Block,
                Event::Code(_) | Event::InlineHtml(_) if input[range.clone()].contains('\n') => {
                    RegionKind::Inline
                }
                _ => continue,
            };
            regions.push((start + range.start..start + range.end, kind));
        }
        let unclosed = regions.last().filter(|(range, _)| range.end > source.len());
        let unclosed_at = unclosed.map(|(range, _)| range.start);
        Self { regions: regions.into_iter().peekable(), unclosed_at }
    }

    /// The region that hides a line. The lines must be ascending.
    pub(crate) fn kind_at(&mut self, line: SourceLine<'_>) -> Option<RegionKind> {
        while self.regions.next_if(|(range, _)| range.end <= line.start).is_some() {}
        let (range, kind) = self.regions.peek()?;
        let is_hidden = match kind {
            RegionKind::Block => range.start < line.next,
            // The line in which it begins is still text.
            RegionKind::Inline => range.start < line.start,
        };
        is_hidden.then_some(*kind)
    }
}

/// The text with a paragraph after it, which an unclosed block contains. Offsets stay the same.
pub(super) fn parser_input(source: &str) -> String {
    // The parser does not take every lone CR for a line end.
    let lines: Vec<String> =
        source.split("\r\n").map(|lines| unify_raw_tags(&lines.replace('\r', "\n"))).collect();
    lines.join("\r\n") + "\n\nend"
}

/// Writes `pre` and spaces for the names of all raw tags: in `CommonMark`, any of their end tags, in
/// any case, closes each of them, but the parser expects the same tag in lower case.
fn unify_raw_tags(text: &str) -> String {
    let mut unified = String::with_capacity(text.len());
    for part in text.split_inclusive('<') {
        let is_name = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'/';
        let (name, rest) = part.split_at(part.bytes().take_while(|byte| is_name(byte)).count());
        let lower = name.to_ascii_lowercase();
        let tag = lower.trim_start_matches('/');
        let spaces = tag.len().saturating_sub("pre".len());
        match (RAW_TAGS.contains(&tag), lower.len() - tag.len(), rest.strip_prefix('>')) {
            (true, 1, Some(rest)) => unified += &format!("/pre>{:spaces$}{rest}", ""),
            (true, 0, _) if rest.is_empty() || rest.starts_with([' ', '\t', '\n', '>']) => {
                unified += &format!("pre{:spaces$}{rest}", "");
            }
            _ => unified += part,
        }
    }
    unified
}

/// True if a line may open a code fence or an HTML block, which may be in a list or a quote.
pub(crate) fn may_open_block(line: &str) -> bool {
    let is_container = |c: char| c.is_ascii_digit() || " \t>-*+.)".contains(c);
    let text = line.trim_start_matches(is_container);
    text.starts_with('<') || text.starts_with("```") || text.starts_with("~~~")
}

fn indent_width(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The indentation of the current list item's content; 0 outside of lists.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ListContext(usize);

impl ListContext {
    pub(crate) fn observe_line(&mut self, line: &str) {
        if is_blank(line) {
            return;
        }
        let indent = indent_width(line);
        match list_marker_width(&line[indent..]) {
            Some(width) => self.0 = indent + width,
            None if indent < self.0 => self.0 = 0,
            None => {}
        }
    }
}

/// The tags of HTML blocks of kind 1 of `CommonMark` 0.31, section 4.6.
const RAW_TAGS: [&str; 4] = ["script", "pre", "style", "textarea"];

/// An open code fence, or an HTML block that may contain blank lines.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VerbatimBlock {
    Fence {
        mark: u8,
        length: usize,
        /// Indentation of the surrounding list item's content. A line with less indentation ends
        /// the item and the fence.
        item_indent: usize,
    },
    /// Ends on the line with this text.
    Html(&'static str),
}

/// The position of a line relative to an open [`VerbatimBlock`].
pub(crate) enum LinePosition {
    Inside,
    /// The last line of the block.
    Closing,
    Outside,
}

impl VerbatimBlock {
    /// Returns the block that a line opens. HTML that ends on the same line opens none.
    pub(crate) fn opened_by(line: &str, list: ListContext) -> Option<Self> {
        let indent = indent_width(line);
        let mut item_indent = if indent >= list.0 { list.0 } else { 0 };
        let text = if let Some(width) = list_marker_width(&line[indent..]) {
            // The block is on the first line of a list item.
            let content_indent = indent + width;
            item_indent = item_indent.max(content_indent);
            line.get(content_indent..)?.trim_start_matches(' ')
        } else if indent - item_indent <= 3 {
            &line[indent..]
        } else {
            return None;
        };
        if let Some(end) = html_block_end(text) {
            return (!closes_html(text, end)).then_some(Self::Html(end));
        }
        let mark = *text.as_bytes().first().filter(|byte| matches!(byte, b'`' | b'~'))?;
        let length = text.bytes().take_while(|byte| *byte == mark).count();
        // Three backticks with a fourth on the line are inline code.
        let has_inline_code = mark == b'`' && text[length..].contains('`');
        (length >= 3 && !has_inline_code).then_some(Self::Fence { mark, length, item_indent })
    }

    pub(crate) fn position_of(self, line: &str) -> LinePosition {
        let (mark, length, item_indent) = match self {
            Self::Fence { mark, length, item_indent } => (mark, length, item_indent),
            Self::Html(end) if closes_html(line, end) => return LinePosition::Closing,
            Self::Html(_) => return LinePosition::Inside,
        };
        let indent = indent_width(line);
        if indent < item_indent && !is_blank(line) {
            return LinePosition::Outside;
        }
        let text = &line[indent..];
        let closing_length = text.bytes().take_while(|byte| *byte == mark).count();
        let closes = closing_length >= length
            && is_blank(&text[closing_length..])
            // More indentation makes the line part of the code.
            && indent.saturating_sub(item_indent) <= 3;
        if closes { LinePosition::Closing } else { LinePosition::Inside }
    }
}

/// The text that ends the HTML block that begins with this text: kinds 1 to 5 of `CommonMark` 0.31,
/// section 4.6, which may contain blank lines.
fn html_block_end(text: &str) -> Option<&'static str> {
    let html = text.strip_prefix('<')?;
    let declares = html
        .strip_prefix('!')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    if html.starts_with("!--") {
        Some("-->")
    } else if html.starts_with('?') {
        Some("?>")
    } else if html.starts_with("![CDATA[") {
        Some("]]>")
    } else if declares {
        Some(">")
    } else {
        let name_end = html.find([' ', '\t', '>']).unwrap_or(html.len());
        let is_raw = RAW_TAGS.iter().any(|tag| html[..name_end].eq_ignore_ascii_case(tag));
        is_raw.then_some("</pre>")
    }
}

fn closes_html(line: &str, end: &str) -> bool {
    // Any raw tag closes each of them.
    line.contains(end) || (end == "</pre>" && unify_raw_tags(line).contains(end))
}

/// Marks the lines inside closed fences and HTML blocks. With `after_marker`, the first line follows
/// a requirement marker and opens nothing.
pub(crate) fn verbatim_lines(lines: &[&str], after_marker: bool) -> Vec<bool> {
    let mut verbatim = vec![false; lines.len()];
    let mut list = ListContext::default();
    let mut unclosed = UnclosedBlocks::default();
    let mut at = usize::from(after_marker);
    while at < lines.len() {
        list.observe_line(lines[at]);
        let mut next = at + 1;
        if let Some(block) = VerbatimBlock::opened_by(lines[at], list)
            && !unclosed.contains(block)
        {
            match closing_line_end(lines, at, block) {
                Some(end) => {
                    verbatim[at..end].fill(true);
                    next = end;
                }
                None => unclosed.insert(block),
            }
        }
        at = next;
    }
    verbatim
}

/// Blocks without a closing line. Keeps the scan linear: no search for a closing line is repeated.
#[derive(Default)]
struct UnclosedBlocks {
    /// The ends that were not found.
    html: Vec<&'static str>,
    /// Shortest unclosed fence by mark and indentation.
    fences: HashMap<(u8, usize), usize>,
}

impl UnclosedBlocks {
    fn contains(&self, block: VerbatimBlock) -> bool {
        match block {
            VerbatimBlock::Html(end) => self.html.contains(&end),
            VerbatimBlock::Fence { mark, length, item_indent } => {
                self.fences.get(&(mark, item_indent)).is_some_and(|shortest| length >= *shortest)
            }
        }
    }

    fn insert(&mut self, block: VerbatimBlock) {
        match block {
            VerbatimBlock::Html(end) => self.html.push(end),
            VerbatimBlock::Fence { mark, length, item_indent } => {
                self.fences.insert((mark, item_indent), length);
            }
        }
    }
}

/// End of the block that opens at line `at`; `None` if it is not closed.
fn closing_line_end(lines: &[&str], at: usize, block: VerbatimBlock) -> Option<usize> {
    for (at, line) in lines.iter().enumerate().skip(at + 1) {
        match block.position_of(line) {
            LinePosition::Inside => {}
            LinePosition::Closing => return Some(at + 1),
            LinePosition::Outside => return Some(at),
        }
    }
    None
}

/// True if the line opens a fence or an HTML block outside of lists.
pub(crate) fn opens_verbatim(line: &str) -> bool {
    VerbatimBlock::opened_by(line, ListContext::default()).is_some()
}
