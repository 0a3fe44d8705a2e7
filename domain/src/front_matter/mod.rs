//! The YAML at the head of a markdown file: cut by hand, read tolerantly, never written back whole.
//!
//! The trap: a text whose front matter does not end has none, so what looks like keys is its body.

mod edit;
mod place;
mod render;

pub use edit::{Set, edit, new, with_body};
pub use render::Value;

use crate::yaml::{self, Fault, Map};

/// A document in its two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Between the two `---` lines; `None` where the text does not begin with one.
    pub yaml: Option<&'a str>,
    /// All behind the front matter, or the whole text (without a byte order mark).
    pub body: &'a str,
}

/// Splits a text. Front matter begins on the first line with `---` and ends at the next line that
/// is `---` or `...`; one that does not end is no front matter.
pub fn split(text: &str) -> Parts<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole = Parts { yaml: None, body: text };
    let Some(start) = after_line(text, 0).filter(|_| is_fence(first_line(text), "---")) else {
        return whole;
    };
    let mut at = start;
    while at < text.len() {
        let line = first_line(&text[at..]);
        let next = after_line(text, at).unwrap_or(text.len());
        if is_fence(line, "---") || is_fence(line, "...") {
            return Parts { yaml: Some(&text[start..at]), body: &text[next..] };
        }
        at = next;
    }
    whole
}

/// The keys and values of the front matter, in their order; lines of faults count from the top of
/// the text.
pub fn read(parts: Parts<'_>) -> Result<Map, Fault> {
    let below = |fault: Fault| Fault { line: fault.line + 1, ..fault };
    let Some(yaml) = parts.yaml else { return Ok(Map { entries: Vec::new(), fault: None }) };
    let map = yaml::read_map(yaml).map_err(below)?;
    Ok(Map { fault: map.fault.map(below), ..map })
}

/// What a line says of a key, for front matter that can't be read as a whole.
pub fn line_of<'a>(parts: Parts<'a>, key: &str) -> Option<&'a str> {
    let mut lines = parts.yaml?.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?.trim();
    let value = value.trim_matches(['\'', '"']);
    (!value.is_empty() && !value.starts_with(['[', '{', '&', '*', '|', '>', '!'])).then_some(value)
}

fn first_line(text: &str) -> &str {
    let end = memchr::memchr(b'\n', text.as_bytes()).unwrap_or(text.len());
    &text[..end]
}

/// Where the line behind the one at `at` begins; `None` where that one has no end.
fn after_line(text: &str, at: usize) -> Option<usize> {
    memchr::memchr(b'\n', &text.as_bytes()[at..]).map(|end| at + end + 1)
}

fn is_fence(line: &str, fence: &str) -> bool {
    line.trim_end() == fence
}

#[cfg(test)]
mod edits;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_front_matter_and_body() {
        for (text, yaml, body) in [
            ("---\nid: x\n---\nbody\n", Some("id: x\n"), "body\n"),
            ("\u{feff}---\r\nid: x\r\n---\r\n\r\nbody", Some("id: x\r\n"), "\r\nbody"),
            ("---\nid: x\n...\nbody", Some("id: x\n"), "body"),
            ("---  \nid: x\n---\t\n", Some("id: x\n"), ""),
            ("---\nid: x\n---", Some("id: x\n"), ""),
            ("---\n---\nbody", Some(""), "body"),
            ("# Title\n---\nid: x\n---\n", None, "# Title\n---\nid: x\n---\n"),
            ("---\nid: x\nno end\n", None, "---\nid: x\nno end\n"),
            ("----\nid: x\n---\n", None, "----\nid: x\n---\n"),
            ("", None, ""),
            ("---", None, "---"),
        ] {
            assert_eq!(split(text), Parts { yaml, body }, "{text:?}");
        }
    }

    #[test]
    fn lines_of_faults_count_from_the_top_of_the_file() {
        let map = read(split("---\nid: x\nid: y\n---\n")).unwrap();
        assert_eq!(map.fault.unwrap().line, 3);
        let fault = read(split("---\nid: x\nt: T: colon\n---\n")).unwrap_err();
        assert_eq!(fault.line, 3);
    }

    #[test]
    fn a_line_tells_what_the_whole_does_not() {
        let parts = split("---\nid: dec-1d2c8f\ntitle: T: colon\ntags: [a\nquoted: 'x y'\n---\n");
        for (key, value) in [
            ("id", Some("dec-1d2c8f")),
            ("title", Some("T: colon")),
            ("tags", None),
            ("quoted", Some("x y")),
            ("none", None),
        ] {
            assert_eq!(line_of(parts, key), value, "{key}");
        }
    }
}
