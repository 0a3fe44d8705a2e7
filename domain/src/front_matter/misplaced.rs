//! Finds front matter that readers see and [`super::split`] does not: below the first line, in
//! another format, without one of its `---` lines, or directly after other front matter.

use crate::diagnostic::Diagnostic;
use crate::records::fields::is_metadata_key;
use crate::sections::lines::{SourceLine, source_lines};

const MAX_FIRST_LINES: usize = 10;
const MAX_KEY_LINES: usize = 60;

/// Front matter that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MisplacedFrontMatter<'a> {
    /// Its first line, counted from 1.
    pub(super) line: usize,
    problem: &'static str,
    /// Its lines after the first one, up to a closing or a blank line.
    pub(super) keys: &'a str,
}

const UNCLOSED: &str = "the front matter has no closing `---` line; add one";

impl MisplacedFrontMatter<'_> {
    pub(super) fn diagnostic(&self) -> Diagnostic {
        let Self { line, problem, .. } = self;
        let message = match *problem {
            UNCLOSED => UNCLOSED.to_owned(),
            _ => format!(
                "the front matter seems to begin at line {line} {problem}; write one in YAML from \
                 line 1 on, between two `---` lines"
            ),
        };
        Diagnostic::new(*line, message)
    }
}

/// Searches the first lines of a text that does not begin with front matter.
pub(super) fn find_misplaced(text: &str) -> Option<MisplacedFrontMatter<'_>> {
    let (mut start, mut is_hidden) = (0, true);
    for (SourceLine { next, .. }, line) in source_lines(text).take(MAX_FIRST_LINES).zip(1..) {
        let source = &text[start..next];
        start = next;
        let opening = trim_invisible(source);
        // Below other text a line of dashes is usually a thematic break.
        if let Some(keys) = key_lines(opening, &text[next..], !is_hidden) {
            let problem = match opening {
                _ if !is_hidden => "after other text",
                "---" if source.ends_with('\r') => "in a file whose line ends are CR",
                "---" if source.starts_with("---") && line == 1 => UNCLOSED,
                "---" if line > 1 => "after a blank line",
                "---" => "after a byte order mark or a blank",
                _ => "with a line other than `---`",
            };
            return Some(MisplacedFrontMatter { line, problem, keys });
        }
        is_hidden &= opening.is_empty();
    }
    None
}

/// Parses the start of the text after front matter that has `lines` lines. A blank line begins a
/// text, as in every new document.
pub(super) fn find_second(body: &str, lines: usize) -> Option<MisplacedFrontMatter<'_>> {
    let SourceLine { text, next, .. } = source_lines(body).next()?;
    let keys = key_lines(trim_invisible(text), &body[next..], false)?;
    Some(MisplacedFrontMatter { line: lines + 1, problem: "after the first one", keys })
}

/// The keys below an opening line; `None` without any. `is_text` is true for a line that may be
/// part of a text: then a key of the metadata and a closing line are needed, too.
fn key_lines<'a>(opening: &str, rest: &'a str, is_text: bool) -> Option<&'a str> {
    let is_opening = match opening.as_bytes() {
        [b'{', ..] if first_key(&opening[1..]).is_some() => return Some(""),
        // Such as `---yaml`, `--- # remark` and `-----`, but not a table.
        b"+++" | [b'{'] | [b'-', b'-', b'-', ..] => !opening.contains(['|', ':']),
        // As editors correct two or three dashes.
        _ => opening.starts_with('—') && opening.trim_start_matches(['—', '-']).is_empty(),
    };
    if !is_opening || first_key(rest).is_none() {
        return None;
    }
    let (mut end, mut is_closed, mut has_known_key) = (0, false, false);
    for SourceLine { text, next, .. } in source_lines(rest).take(MAX_KEY_LINES) {
        let line = trim_invisible(text);
        is_closed = line == opening || matches!(line, "---" | "..." | "}");
        if is_closed || line.is_empty() {
            break;
        }
        has_known_key |= first_key(line).is_some_and(is_metadata_key);
        end = next;
    }
    (!is_text || (is_closed && has_known_key)).then(|| &rest[..end])
}

/// The key of a first line such as `title: One`, `title = "One"` or `"title": "One"`.
fn first_key(text: &str) -> Option<&str> {
    let (key, value) = source_lines(text).next()?.text.split_once([':', '='])?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let is_key = !key.is_empty() && key.chars().all(is_word) && !value.starts_with("//");
    is_key.then_some(key)
}

/// Without white space and characters that editors do not show.
fn trim_invisible(line: &str) -> &str {
    let is_hidden = |c: char| matches!(c, '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2060}');
    line.trim_matches(|c: char| c.is_whitespace() || c.is_control() || is_hidden(c))
}
