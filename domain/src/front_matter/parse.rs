//! Splits and parses front matter.

use super::misplaced::{MisplacedFrontMatter, find_misplaced, find_second};
use crate::diagnostic::Diagnostic;
use crate::yaml::{self, YamlDialect, YamlEntry, YamlNode, YamlValue, quote_excerpt};

/// Front matter and body of a text, without the byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentParts<'a> {
    /// The lines between the two `---` lines; `None` without front matter.
    pub yaml: Option<&'a str>,
    /// The text after the front matter.
    pub body: &'a str,
    /// The first `---` line and the YAML. Its line numbers are those of the file.
    pub(super) yaml_with_fence: &'a str,
    /// Front matter that is part of the body.
    misplaced: Option<MisplacedFrontMatter<'a>>,
}

/// Splits a text. Front matter begins with `---` on the first line and ends at the next line that
/// is `---` or `...`.
pub fn split(text: &str) -> DocumentParts<'_> {
    // Editors on Windows may add a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() == "---" {
        let mut line_start = first.len();
        for (line, line_count) in lines.zip(2..) {
            // YAML also ends a document with `...`.
            if matches!(line.trim_end(), "---" | "...") {
                let body = &text[line_start + line.len()..];
                return DocumentParts {
                    yaml: Some(&text[first.len()..line_start]),
                    body,
                    yaml_with_fence: &text[..line_start],
                    misplaced: find_second(body, line_count),
                };
            }
            line_start += line.len();
        }
    }
    let misplaced = find_misplaced(text);
    DocumentParts { yaml: None, body: text, yaml_with_fence: "", misplaced }
}

/// The text after the front matter, without line ends around it.
pub fn body(text: &str) -> &str {
    split(text).body.trim_matches(['\r', '\n'])
}

/// True if a text has this body. Line ends may differ.
pub fn has_body(text: &str, body: &str) -> bool {
    let present = self::body(text);
    present == body || present.replace("\r\n", "\n") == body.replace("\r\n", "\n")
}

/// Parsed front matter.
#[derive(Debug, PartialEq, Eq)]
pub struct FrontMatter {
    pub entries: Vec<YamlEntry>,
    /// The first duplicate key, or a second front matter.
    pub duplicate: Option<Diagnostic>,
}

/// Parses front matter. Positions are relative to the text without its byte order mark.
pub fn parse(parts: DocumentParts<'_>) -> Result<FrontMatter, Diagnostic> {
    let misplaced = parts.misplaced.map(|misplaced| misplaced.diagnostic());
    if let (None, Some(problem)) = (parts.yaml, &misplaced) {
        return Err(problem.clone());
    }
    let tree = yaml::parse_yaml(parts.yaml_with_fence, YamlDialect::FrontMatter)?;
    match tree.root.value {
        YamlValue::Map(entries) => {
            Ok(FrontMatter { entries, duplicate: tree.duplicate.or(misplaced) })
        }
        // Empty front matter has no keys, which is valid.
        YamlValue::Null => Ok(FrontMatter { entries: Vec::new(), duplicate: misplaced }),
        _ => {
            let message = "the front matter has no keys; write lines like `title: …`";
            Err(tree.root.position.diagnostic(message))
        }
    }
}

/// Parses invalid or misplaced front matter line by line. Returns the entries of valid lines.
pub fn salvage_lines(parts: DocumentParts<'_>) -> Vec<YamlEntry> {
    const MAX_LINES: usize = 200;
    let mut entries: Vec<YamlEntry> = Vec::new();
    let (lines, first_line) = match (parts.yaml, parts.misplaced) {
        // Line 1 is the opening `---`.
        (Some(yaml), _) => (yaml, 2),
        (None, Some(misplaced)) => (misplaced.keys, misplaced.line + 1),
        (None, None) => return entries,
    };
    for (line, number) in lines.lines().take(MAX_LINES).zip(first_line..) {
        // Continuation lines and list items belong to another key.
        if line.starts_with([' ', '\t', '-', '#']) {
            continue;
        }
        let tree = yaml::parse_yaml(line, YamlDialect::FrontMatter);
        let mut salvaged = match tree.map(|tree| tree.root.value) {
            Ok(YamlValue::Map(entries)) if cut_title(line, &entries).is_none() => entries,
            _ => parse_plain_entry(line).into_iter().collect(),
        };
        // As in valid YAML, the first of duplicate keys wins.
        salvaged.retain(|entry| yaml::find_key(&entries, &entry.key).is_none());
        for entry in &mut salvaged {
            // It was relative to the line.
            entry.key_position.span = 0..0;
            set_line(&mut entry.node, number);
        }
        entries.extend(salvaged);
    }
    entries
}

/// Parses a line that is not valid YAML, such as `title: Pay: by card`.
fn parse_plain_entry(line: &str) -> Option<YamlEntry> {
    let (key, value) = line.split_once(':')?;
    let mut value = value.trim();
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        value = inner.unwrap_or(value);
    }
    // The value continues on other lines, or is not a scalar. A title is always a text.
    let is_title = key == "title" && value.contains(char::is_alphanumeric);
    let is_text = is_title || !value.starts_with(['[', '{', '&', '*', '!']);
    if value.is_empty() || value.starts_with(['|', '>']) || !is_text {
        return None;
    }
    let position = yaml::SourcePosition { line: 1, column: 1, span: 0..0 };
    let value = YamlValue::Scalar(value.to_owned());
    let node = YamlNode { position: position.clone(), is_alias: false, value };
    Some(YamlEntry { key: key.to_owned(), key_position: position, node })
}

/// The title in front matter, and its problem if YAML reads only a part of it.
pub fn find_title(
    parts: DocumentParts<'_>,
    entries: &[YamlEntry],
) -> Option<(String, Option<Diagnostic>)> {
    if let Some((title, problem)) = cut_title(parts.yaml_with_fence, entries) {
        return Some((title, Some(problem)));
    }
    Some((yaml::find_key(entries, "title")?.text()?.to_owned(), None))
}

/// The text of a title's line that YAML reads only in part, or as another value, and the problem.
pub(super) fn cut_title(source: &str, entries: &[YamlEntry]) -> Option<(String, Diagnostic)> {
    let YamlEntry { key_position, node, .. } = entries.iter().find(|entry| entry.key == "title")?;
    let after_key =
        source.get(key_position.span.end..).filter(|_| !key_position.span.is_empty())?;
    let text = after_key.trim_start().strip_prefix(':')?.lines().next()?.trim();
    let after_value = source.get(node.position.span.end..)?.lines().next().unwrap_or_default();
    let after_value = after_value.trim_end();
    let problem = match &node.value {
        // A quoted text may have a remark, and a block is below its line.
        _ if text.starts_with(['"', '\'', '|', '>']) || text.starts_with("!!") => return None,
        YamlValue::Scalar(value) if text.starts_with(['!', '&']) => {
            format!("the title is read as {}", quote_excerpt(value))
        }
        YamlValue::Scalar(value) if after_value.trim_start().starts_with('#') => {
            let problem = format!("the title ends before `{after_value}`; quote it");
            return Some((value.clone() + after_value, node.position.diagnostic(problem)));
        }
        YamlValue::List(_) | YamlValue::Map(_) if !text.is_empty() => {
            "the title is read as a list or a map".to_owned()
        }
        YamlValue::Null if text.starts_with(['#', '!', '&']) => {
            "the title is read as empty".to_owned()
        }
        _ => return None,
    };
    Some((text.to_owned(), key_position.diagnostic(format!("{problem}; quote it"))))
}

fn set_line(node: &mut YamlNode, line: usize) {
    node.position.line = line;
    if let YamlValue::List(items) = &mut node.value {
        for item in items {
            set_line(item, line);
        }
    }
}
