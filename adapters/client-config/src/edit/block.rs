//! This server's block in a user's Markdown file, between two markers.
//!
//! A marker is valid where Markdown reads it as a comment: alone on its line and outside code.

use std::ops::Range;

use super::text;
use crate::error::ConfigError;

pub const BEGIN_MARKER: &str = "<!-- reqlore:begin -->";
pub const END_MARKER: &str = "<!-- reqlore:end -->";

/// The text between the markers.
pub fn find_block(text: &str) -> Result<Option<String>, ConfigError> {
    Ok(scan_blocks(text)?.block.map(|block| text[block.inside].to_owned()))
}

/// The text with this content between the markers. A new block is added at the end.
pub fn put_block(text: &str, content: &str) -> Result<String, ConfigError> {
    // The next run would find the wrong end of the block.
    if content.lines().any(|line| is_marker(line, BEGIN_MARKER) || is_marker(line, END_MARKER)) {
        return Err(ConfigError(format!(
            "the block must not contain `{BEGIN_MARKER}` or `{END_MARKER}`"
        )));
    }
    let line_end = text::line_end(text);
    let inside: String = content.lines().flat_map(|line| [line, line_end]).collect();
    let ScanResult { block, open_fence } = scan_blocks(text)?;
    if let Some(block) = block {
        return Ok(format!("{}{inside}{}", &text[..block.inside.start], &text[block.inside.end..]));
    }
    // The block would be shown as code.
    if let Some(fence) = open_fence {
        let message = "the code block that begins here has no end; close it, then run the command \
                       again";
        return Err(ConfigError::at_position(text, fence, message));
    }
    // One blank line separates the block from the text before it.
    let between = match text.trim_start_matches(text::BOM) {
        "" => String::new(),
        other if !other.ends_with('\n') => line_end.repeat(2),
        other if text::ends_with_blank_line(other) => String::new(),
        _ => line_end.to_owned(),
    };
    Ok(format!("{text}{between}{BEGIN_MARKER}{line_end}{inside}{END_MARKER}{line_end}"))
}

/// The text without the block. If two blank lines would meet or end the text, removes one.
pub fn remove_block(text: &str) -> Result<String, ConfigError> {
    let Some(MarkedBlock { whole, .. }) = scan_blocks(text)?.block else {
        return Ok(text.to_owned());
    };
    let (head, tail) = (&text[..whole.start], &text[whole.end..]);
    let is_doubled = tail.is_empty() || text::is_last_in_line(tail, 0);
    if is_doubled && text::ends_with_blank_line(head) {
        let head = head.strip_suffix('\n').unwrap_or(head);
        return Ok(format!("{}{tail}", &head[..text::line_start(head, head.len())]));
    }
    Ok(format!("{head}{tail}"))
}

struct MarkedBlock {
    whole: Range<usize>,
    inside: Range<usize>,
}

struct ScanResult {
    block: Option<MarkedBlock>,
    /// The start of code that continues to the end of the text.
    open_fence: Option<usize>,
}

fn scan_blocks(text: &str) -> Result<ScanResult, ConfigError> {
    let mut begin: Option<Range<usize>> = None;
    let mut block = None;
    let mut fence: Option<CodeFence> = None;
    // A marker in the first line may follow a byte order mark.
    let mut start = text.len() - text.trim_start_matches(text::BOM).len();
    while start < text.len() {
        let stop = text::next_line(text, start);
        let line = &text[start..stop];
        if let Some(open) = &begin {
            if is_marker(line, END_MARKER) {
                block = Some(MarkedBlock { whole: open.start..stop, inside: open.end..start });
                begin = None;
            } else if is_marker(line, BEGIN_MARKER) {
                return Err(stray_marker(text, start, BEGIN_MARKER, "is inside the block"));
            }
        } else if let Some(open) = &fence {
            if open.is_closed_by(line) {
                fence = None;
            }
        } else if is_marker(line, BEGIN_MARKER) {
            if block.is_some() {
                return Err(stray_marker(text, start, BEGIN_MARKER, "begins a second block"));
            }
            begin = Some(start..stop);
        } else if is_marker(line, END_MARKER) {
            return Err(stray_marker(text, start, END_MARKER, "ends no block"));
        } else {
            fence = CodeFence::opened_by(line, start);
        }
        start = stop;
    }
    if let Some(open) = begin {
        return Err(stray_marker(text, open.start, BEGIN_MARKER, "has no end"));
    }
    Ok(ScanResult { block, open_fence: fence.map(|fence| fence.start) })
}

fn stray_marker(text: &str, position: usize, marker: &str, problem: &str) -> ConfigError {
    let message = format!(
        "`{marker}` {problem}; keep one `{BEGIN_MARKER}` with one `{END_MARKER}` below it, or \
         neither, then run the command again"
    );
    ConfigError::at_position(text, position, &message)
}

/// True for a marker after at most three spaces. More would make it code.
fn is_marker(line: &str, marker: &str) -> bool {
    line.trim_end() == format!("{}{marker}", &line[..leading_spaces(line)])
}

struct CodeFence {
    start: usize,
    sign: char,
    length: usize,
}

impl CodeFence {
    fn opened_by(line: &str, start: usize) -> Option<Self> {
        let line = &line[leading_spaces(line)..];
        let sign = line.chars().next().filter(|sign| ['`', '~'].contains(sign))?;
        let rest = line.trim_start_matches(sign);
        let length = line.len() - rest.len();
        // A line with more backticks is inline code.
        let is_inline = sign == '`' && rest.contains('`');
        (length >= 3 && !is_inline).then_some(Self { start, sign, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line[leading_spaces(line)..].trim_end();
        line.len() >= self.length && line.chars().all(|sign| sign == self.sign)
    }
}

/// The number of leading spaces, up to the three that Markdown ignores.
fn leading_spaces(line: &str) -> usize {
    line.bytes().take(3).take_while(|byte| *byte == b' ').count()
}
