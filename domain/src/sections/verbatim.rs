//! Code, comments and HTML: lines that are not structure, after `CommonMark` 0.31.

use std::iter::Peekable;
use std::ops::Range;
use std::vec;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::lines::{SourceLine, source_lines};

/// The tags of HTML blocks of kind 1 of `CommonMark` 0.31, section 4.6.
const RAW_TAGS: [&str; 4] = ["script", "pre", "style", "textarea"];

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
        let unclosed = regions.last().filter(|(range, _)| range.end == start + input.len());
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

/// Writes `pre` and spaces for the names of all raw tags. In `CommonMark`, any of their end tags,
/// in any case, closes each of them, but the parser expects the same tag in lower case.
fn unify_raw_tags(text: &str) -> String {
    let mut unified = String::with_capacity(text.len());
    for part in text.split_inclusive('<') {
        let is_name = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'/';
        let (name, rest) = part.split_at(part.bytes().take_while(|byte| is_name(byte)).count());
        let lower = name.to_ascii_lowercase();
        let tag = lower.trim_start_matches('/');
        let is_begin = rest.is_empty() || rest.starts_with([' ', '\t', '\n', '>']);
        let (is_raw, slashes) = (RAW_TAGS.contains(&tag), lower.len() - tag.len());
        let (unified_name, rest) = match (slashes, rest.strip_prefix('>')) {
            (0, _) if is_raw && is_begin => ("pre", rest),
            (1, Some(rest)) if is_raw => ("/pre>", rest),
            _ => (name, rest),
        };
        unified.push_str(unified_name);
        // Offsets must not change.
        unified.extend(std::iter::repeat_n(' ', part.len() - unified_name.len() - rest.len()));
        unified.push_str(rest);
    }
    unified
}

/// True if a line may open a code fence or an HTML block, which may be in a list or a quote.
pub(crate) fn may_open_block(line: &str) -> bool {
    let is_container = |c: char| c.is_ascii_digit() || " \t>-*+.)".contains(c);
    let text = line.trim_start_matches(is_container);
    text.starts_with('<') || text.starts_with("```") || text.starts_with("~~~")
}

/// True if the line opens a fence or an HTML block and does not close it.
pub(crate) fn opens_verbatim(line: &str) -> bool {
    let is_code = |mark| line.trim_start_matches(mark).contains(mark);
    line.starts_with("~~~")
        || (line.starts_with("```") && !is_code('`'))
        || (line.starts_with('<') && VerbatimRegions::parse(line, 0).unclosed_at.is_some())
}

/// Marks the lines inside of closed code and HTML. With `after_marker`, the first line follows a
/// requirement marker.
pub(crate) fn verbatim_lines(lines: &[&str], after_marker: bool) -> Vec<bool> {
    let marker = if after_marker { "x " } else { "" };
    let text = format!("{marker}{}", lines.join("\n"));
    let mut regions = VerbatimRegions::parse(&text, 0);
    let closed_end = regions.unclosed_at.unwrap_or(text.len());
    let mut verbatim = Vec::with_capacity(lines.len());
    for line in source_lines(&text) {
        verbatim.push(line.next <= closed_end && regions.kind_at(line) == Some(RegionKind::Block));
    }
    verbatim.resize(lines.len(), false);
    verbatim
}
