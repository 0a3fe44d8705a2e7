//! Markdown from the elements of XHTML.

use quick_xml::escape::{resolve_predefined_entity, unescape};
use quick_xml::events::{BytesRef, BytesStart};

/// The break before the next text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LineBreak {
    #[default]
    None,
    Line,
    /// A line break that Markdown shows.
    Hard,
    Block,
}

/// Collects the elements of an XHTML fragment as Markdown. Unknown elements leave their text.
#[derive(Debug, Default)]
pub(crate) struct MarkdownWriter {
    text: String,
    line_break: LineBreak,
    has_space: bool,
    /// Marks that are written before the next text, such as `**`.
    marks: String,
    /// The number of the next item of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// The spaces before each line of the open items.
    indents: Vec<usize>,
    /// The part of the marks that are markers of items.
    markers: usize,
    links: Vec<String>,
    preformatted: usize,
    code: usize,
    tables: usize,
    cells: usize,
    rows: usize,
    columns: usize,
}

impl MarkdownWriter {
    pub(crate) fn start(&mut self, element: &BytesStart<'_>) -> Result<(), String> {
        match element.local_name().as_ref() {
            "br" if self.preformatted > 0 => self.push("\n"),
            "br" if self.line_break >= LineBreak::Hard => self.break_line(LineBreak::Block),
            "br" => self.break_line(LineBreak::Hard),
            "table" => {
                self.break_line(LineBreak::Block);
                self.tables += 1;
                (self.rows, self.columns) = (0, 0);
            }
            "tr" if self.tables < 2 => {
                self.break_line(LineBreak::Line);
                self.columns = 0;
            }
            "td" | "th" => {
                self.has_space = false;
                self.push(if self.columns == 0 { "| " } else { " | " });
                self.columns += 1;
                self.cells += 1;
            }
            name @ ("ul" | "ol") => {
                let is_inner = !self.lists.is_empty();
                self.break_line(if is_inner { LineBreak::Line } else { LineBreak::Block });
                self.lists.push((name == "ol").then_some(1));
            }
            "li" => self.start_item(),
            "pre" => {
                self.break_line(LineBreak::Block);
                self.push("```\n");
                self.preformatted += 1;
            }
            "hr" => {
                self.break_line(LineBreak::Block);
                self.push("---");
                self.break_line(LineBreak::Block);
            }
            "a" => {
                self.marks.push('[');
                self.links.push(attribute(element, "href")?.unwrap_or_default());
            }
            "object" | "img" => {
                let key = if element.local_name().as_ref() == "img" { "src" } else { "data" };
                let alt = attribute(element, "alt")?.unwrap_or_default();
                self.push("![");
                self.push(&alt);
                self.links.push(attribute(element, key)?.unwrap_or_default());
            }
            name => match (mark(name), heading(name)) {
                (Some(mark), _) if self.preformatted == 0 => {
                    self.code += usize::from(mark == "`");
                    self.marks.push_str(mark);
                }
                (_, Some(level)) => {
                    self.break_line(LineBreak::Block);
                    (0..level).for_each(|_| self.marks.push('#'));
                    self.marks.push(' ');
                }
                _ if is_block(name) => self.break_line(LineBreak::Block),
                _ => {}
            },
        }
        Ok(())
    }

    fn start_item(&mut self) {
        self.break_line(LineBreak::Line);
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        self.marks.push_str(&marker);
        self.indents.push(marker.len());
        self.markers += marker.len();
    }

    pub(crate) fn end(&mut self, name: &str) {
        match name {
            "table" => {
                self.tables = self.tables.saturating_sub(1);
                self.break_line(LineBreak::Block);
            }
            "tr" if self.tables < 2 && self.columns > 0 => {
                self.has_space = false;
                self.push(" |");
                self.rows += 1;
                if self.rows == 1 {
                    self.break_line(LineBreak::Line);
                    self.push(&("|".to_owned() + &"---|".repeat(self.columns)));
                }
                self.break_line(LineBreak::Line);
            }
            "td" | "th" => {
                self.has_space = false;
                self.cells = self.cells.saturating_sub(1);
            }
            "ul" | "ol" => {
                self.lists.pop();
                let is_inner = !self.lists.is_empty();
                self.break_line(if is_inner { LineBreak::Line } else { LineBreak::Block });
            }
            "li" => {
                self.push_marks();
                self.indents.pop();
                self.break_line(LineBreak::Line);
            }
            "pre" => {
                self.preformatted = self.preformatted.saturating_sub(1);
                let end = if self.text.ends_with('\n') { "```" } else { "\n```" };
                self.push(end);
                self.break_line(LineBreak::Block);
            }
            "a" | "object" | "img" => {
                let link = self.links.pop().unwrap_or_default();
                self.push_marks();
                let has_space = std::mem::take(&mut self.has_space);
                self.text.extend(["](", &link, ")"]);
                self.has_space = has_space;
            }
            _ => match mark(name).filter(|_| self.preformatted == 0) {
                // An element without text has no marks.
                Some(mark) if self.marks.ends_with(mark) => {
                    self.marks.truncate(self.marks.len() - mark.len());
                }
                Some(mark) => self.text.push_str(mark),
                None => {
                    let level = heading(name);
                    let start = format!("{} ", "#".repeat(level.unwrap_or_default()));
                    if level.is_some() && self.marks.ends_with(&start) {
                        self.marks.truncate(self.marks.len() - start.len());
                    } else if level.is_some() || is_block(name) {
                        self.break_line(LineBreak::Block);
                    }
                }
            },
        }
        self.code -= usize::from(mark(name) == Some("`") && self.code > 0);
    }

    /// Adds text. Outside of preformatted text, white space is one space.
    pub(crate) fn text(&mut self, text: &str) {
        if self.preformatted > 0 {
            return self.push(text);
        }
        for (index, word) in text.split([' ', '\t', '\r', '\n']).enumerate() {
            self.has_space |= index > 0;
            for part in word.split_inclusive('<').filter(|part| !part.is_empty()) {
                let is_joined = self.line_break == LineBreak::None && !self.has_space;
                if is_joined && self.code == 0 && self.text.ends_with('<') && is_element(part) {
                    self.text.insert(self.text.len() - 1, '\\');
                }
                self.push(part);
            }
        }
    }

    pub(crate) fn finish(mut self) -> String {
        self.push_marks();
        self.text
    }

    fn break_line(&mut self, line_break: LineBreak) {
        if self.cells > 0 {
            self.has_space = true;
        } else {
            self.line_break = self.line_break.max(line_break);
        }
    }

    fn push_marks(&mut self) {
        if !self.marks.is_empty() {
            self.push("");
        }
    }

    /// Adds text as it is, after the pending break, space and marks.
    fn push(&mut self, text: &str) {
        let line_break = std::mem::take(&mut self.line_break);
        let has_space = std::mem::take(&mut self.has_space);
        if !self.text.is_empty() && line_break != LineBreak::None {
            let indent = self.indents.iter().sum::<usize>().saturating_sub(self.markers);
            self.text.push_str(match line_break {
                LineBreak::Block => "\n\n",
                LineBreak::Hard => "  \n",
                _ => "\n",
            });
            self.text.extend(std::iter::repeat_n(' ', indent));
        } else if has_space && !self.text.is_empty() && !self.text.ends_with("| ") {
            self.text.push(' ');
        }
        self.markers = 0;
        self.text.push_str(&std::mem::take(&mut self.marks));
        self.text.push_str(text);
    }
}

/// True if Markdown would read `<` before this text as the start of an element.
fn is_element(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c))
}

fn mark(name: &str) -> Option<&'static str> {
    Some(match name {
        "b" | "strong" => "**",
        "i" | "em" => "*",
        "code" | "tt" => "`",
        _ => return None,
    })
}

fn heading(name: &str) -> Option<usize> {
    name.strip_prefix('h')?.parse().ok().filter(|level| (1..=6).contains(level))
}

fn is_block(name: &str) -> bool {
    matches!(name, "p" | "div" | "blockquote" | "dl" | "dt" | "dd" | "caption" | "address")
}

/// The value of an attribute, byte for byte.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, String> {
    for found in element.attributes().with_checks(false) {
        let found = found.map_err(|error| error.to_string())?;
        if found.key.local_name().as_ref() == name {
            let value = unescape(&found.value).map_err(|error| error.to_string())?;
            return Ok(Some(value.into_owned()));
        }
    }
    Ok(None)
}

/// The text of one of the five predefined entities or of a character reference.
pub(crate) fn entity_text(entity: &BytesRef<'_>) -> Result<String, String> {
    let found = entity.resolve_char_ref().map_err(|error| error.to_string())?;
    let name = entity.xml10_content();
    match (found, resolve_predefined_entity(&name)) {
        (Some(c), _) => Ok(c.to_string()),
        (None, Some(text)) => Ok(text.to_owned()),
        (None, None) => Err(format!("the entity {name:?} is not allowed; write its text")),
    }
}
