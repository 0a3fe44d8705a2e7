//! Output of commands for people: width of the terminal, colours, tables, CSV and the pager.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_domain::records::ended::is_ended;
use reqlore_domain::untrusted_text::encode_line;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::client_environment::program_on_path;
use crate::config::AppConfig;
use crate::config::paths::env_variable;
use crate::console::{encode_console, encode_console_json, eprint_line};
use crate::exit::{CommandError, EXIT_FAILED, EXIT_OK, Result};
use crate::system::terminal_size;

/// Text of narrower terminals would be unreadable, so lines are longer than the terminal.
const MIN_WIDTH: usize = 20;
/// A column is shortened to this width before an optional column is left out.
const MIN_COLUMN: usize = 20;
const SHORTEST_COLUMN: usize = 8;
const COLUMN_GAP: usize = 2;
/// Exits after a short text, keeps colours, and does not clear the screen.
const DEFAULT_PAGER: &str = "less -FRX";

/// A colour or weight of text on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
}

impl TextStyle {
    /// The parameter of the SGR sequence (ECMA-48).
    fn code(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Blue => 34,
            Self::Cyan => 36,
        }
    }

    /// The style of a status. Every status is also a word.
    pub(crate) fn of_status(status: &str) -> Self {
        match status {
            "Done" | "Active" | "accepted" | "closed" => Self::Green,
            "In Progress" => Self::Yellow,
            "Draft" | "proposed" | "open" => Self::Blue,
            ended if is_ended(ended) => Self::Dim,
            _ => Self::Plain,
        }
    }
}

/// The properties of standard output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutputScreen {
    /// Maximum columns of a line; `None` outside of terminals, where lines are whole.
    pub(crate) width: Option<usize>,
    /// Lines of the terminal; `None` is not a terminal.
    height: Option<usize>,
    is_colored: bool,
}

impl OutputScreen {
    #[cfg(test)]
    pub(crate) fn of_width(width: usize) -> Self {
        Self { width: Some(width), ..Self::default() }
    }

    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let size = terminal_size();
        // Shells set COLUMNS for themselves only, so a command that receives it was given a width.
        let columns = env_variable("COLUMNS").and_then(|columns| columns.parse().ok());
        let width = columns.or(size.map(|(columns, _)| columns));
        let is_dumb = env_variable("TERM").is_some_and(|terminal| terminal == "dumb");
        Self {
            width: width.filter(|width| *width > 0).map(|width| width.max(MIN_WIDTH)),
            height: size.filter(|_| is_terminal).map(|(_, rows)| rows),
            // https://no-color.org
            is_colored: is_terminal && !is_dumb && env_variable("NO_COLOR").is_none(),
        }
    }

    pub(crate) fn is_colored(&self) -> bool {
        self.is_colored
    }

    /// Adds a style to text that is encoded already.
    pub(crate) fn paint(&self, style: TextStyle, text: &str) -> String {
        if !self.is_colored || style == TextStyle::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{}m{text}\x1b[0m", style.code())
    }

    /// Lines of an encoded text that fit the screen.
    pub(crate) fn wrapped(&self, text: &str, style: TextStyle) -> String {
        let mut lines = String::new();
        for line in wrap_line(text, self.width.unwrap_or(usize::MAX)) {
            lines += &self.paint(style, &line);
            lines += "\n";
        }
        lines
    }

    /// Prints text that is encoded already; on a terminal through the pager, if it is long.
    pub(crate) fn print(&self, text: &str) -> Result<u8> {
        let is_long = self.height.is_some_and(|height| text.lines().count() >= height);
        if is_long && page(text) {
            return Ok(EXIT_OK);
        }
        write_stdout(text)
    }
}

/// Writes text to standard output. A reader that leaves early, such as `head`, is not reported, but
/// the exit code says that the output is not complete.
pub(crate) fn write_stdout(text: &str) -> Result<u8> {
    write_stdout_bytes(text.as_bytes())
}

pub(crate) fn write_stdout_bytes(content: &[u8]) -> Result<u8> {
    let mut out = io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Ok(()) => Ok(EXIT_OK),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            Err(CommandError { code: EXIT_FAILED, message: String::new() })
        }
        Err(error) => Err(CommandError::failure(format!("standard output: {error}"))),
    }
}

/// Shows text in the user's pager. False if there is none.
fn page(text: &str) -> bool {
    let pager = env_variable("PAGER").unwrap_or_else(|| DEFAULT_PAGER.to_owned());
    let mut words = pager.split_whitespace();
    let Some(program) = words.next().and_then(program_on_path) else { return false };
    let Ok(mut child) = Command::new(program).args(words).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // The user may leave the pager before the end.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok()
}

/// Stored text for one line of a terminal or a CI log.
pub(crate) fn clean_line(text: &str) -> String {
    encode_console(&encode_line(text))
}

/// The first columns of text, with `…` if it is longer.
pub(crate) fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let mut start = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or_default();
        if used >= width {
            break;
        }
        start.push(c);
    }
    start + "…"
}

/// Text followed by spaces up to `width` columns.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

/// Rows below their headings, each on one line. The layout of all tables.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    /// Encoded, like the cells.
    headings: Vec<String>,
    /// Encoded cells, one per heading.
    rows: Vec<Vec<String>>,
    /// The columns that a narrow terminal leaves out, the first one first.
    optional: Vec<String>,
    styled: Option<&'static str>,
}

impl TextTable {
    pub(crate) fn new(headings: &[&str]) -> Self {
        let headings = headings.iter().map(|heading| clean_line(heading)).collect();
        Self { headings, ..Self::default() }
    }

    /// Columns that a narrow terminal leaves out, the least important one first.
    #[must_use]
    pub(crate) fn with_optional(mut self, headings: &[&str]) -> Self {
        self.optional = headings.iter().map(|heading| clean_line(heading)).collect();
        self
    }

    /// The column whose cells are statuses.
    #[must_use]
    pub(crate) fn with_status(mut self, heading: &'static str) -> Self {
        self.styled = Some(heading);
        self
    }

    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| clean_line(&cell)).collect());
    }

    /// Leaves out columns without a value.
    pub(crate) fn drop_empty_columns(&mut self) {
        for index in (0..self.headings.len()).rev() {
            if self.rows.iter().all(|row| row[index].is_empty()) {
                self.remove_column(index);
            }
        }
    }

    fn remove_column(&mut self, index: usize) {
        self.headings.remove(index);
        for row in &mut self.rows {
            row.remove(index);
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|heading| heading.width()).collect();
        for row in &self.rows {
            for (cell, width) in row.iter().zip(&mut widths) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }

    /// Leaves out optional columns, then shortens the widest ones.
    fn fit(&mut self, limit: usize) -> Vec<usize> {
        let mut widths = self.widths();
        for heading in std::mem::take(&mut self.optional) {
            let gaps = COLUMN_GAP * widths.len().saturating_sub(1);
            let least: usize = widths.iter().map(|width| *width.min(&MIN_COLUMN)).sum();
            if least + gaps <= limit {
                break;
            }
            if let Some(index) = self.headings.iter().position(|found| *found == heading) {
                self.remove_column(index);
                widths.remove(index);
            }
        }
        let gaps = COLUMN_GAP * widths.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(limit);
        // A shortened ID would be useless.
        let id = self.headings.iter().position(|heading| heading == "ID");
        while excess > 0 {
            let columns = widths.iter_mut().enumerate().filter(|(index, _)| Some(*index) != id);
            match columns.map(|(_, width)| width).max() {
                Some(widest) if *widest > SHORTEST_COLUMN => *widest -= 1,
                _ => break,
            }
            excess -= 1;
        }
        widths
    }

    pub(crate) fn format(mut self, screen: &OutputScreen) -> String {
        let widths = match screen.width {
            Some(limit) => self.fit(limit),
            None => self.widths(),
        };
        let headings = self.headings.clone();
        let mut text = String::new();
        for (number, row) in std::iter::once(headings).chain(self.rows).enumerate() {
            let row: Vec<String> = row;
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let style = match &*self.headings[index] {
                    _ if number == 0 => TextStyle::Bold,
                    heading if Some(heading) == self.styled => TextStyle::of_status(cell),
                    "ID" => TextStyle::Cyan,
                    _ => TextStyle::Plain,
                };
                let is_last = index + 1 == widths.len();
                let cell = truncate(cell, *width);
                let padding = if is_last { 0 } else { width + COLUMN_GAP };
                let spaces = " ".repeat(padding.saturating_sub(cell.width()));
                line += &format!("{}{spaces}", screen.paint(style, &cell));
            }
            text += line.trim_end();
            text += "\n";
        }
        text
    }
}

/// Warns if a command uses the project's files while a database at its default place exists. Once,
/// because `edit` opens the project twice.
pub(crate) fn warn_of_unselected_database(config: &AppConfig) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if let Some(other) = config.unselected_database()
        && !WARNED.swap(true, Ordering::Relaxed)
    {
        let name = other.name();
        eprint_line(&format!(
            "warning: using the project's files, but a database exists; pass --storage {name} \
             or set REQLORE_STORAGE={name} to use it"
        ));
    }
}

/// Prints a command's result, encoded for terminals and CI logs. A closed or full standard output
/// is an error, because a script would continue without the result.
pub(crate) fn print(text: &str) -> Result<u8> {
    write_stdout(&encode_console(text))
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<u8> {
    match serde_json::to_string_pretty(value) {
        Ok(json) => write_stdout(&encode_console_json(json + "\n")),
        Err(error) => Err(CommandError::failure(error)),
    }
}

/// Formats a table for standard output. Cells may contain text of clients.
pub(crate) fn format_table<const COLUMNS: usize>(
    headings: [&'static str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
) -> String {
    let mut table = TextTable::new(&headings);
    for row in rows {
        table.push(row);
    }
    table.format(&OutputScreen { is_colored: false, ..OutputScreen::of_stdout() })
}

/// A line as lines of at most `width` columns. Continuations of a list item are indented as its
/// text.
pub(crate) fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let content = line.trim_start();
    let indent = line.width() - content.width() + marker_width(content);
    let indent = " ".repeat(indent.min(width / 2));
    let mut lines = Vec::new();
    // The beginning keeps its own indentation.
    let mut current = line[..line.len() - content.len()].to_owned();
    let mut is_empty = true;
    for word in content.split(' ') {
        if !is_empty && current.width() + 1 + word.width() > width {
            lines.push(std::mem::replace(&mut current, indent.clone()));
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current += word;
        is_empty = false;
    }
    lines.push(current);
    lines
}

/// Columns of a list marker and the space after it; 0 without a marker.
pub(crate) fn marker_width(content: &str) -> usize {
    if ["- ", "* ", "+ ", "> "].iter().any(|marker| content.starts_with(marker)) {
        return 2;
    }
    let digits = content.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &content[digits..];
    if digits > 0 && (rest.starts_with(". ") || rest.starts_with(") ")) { digits + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(&["ID", "STATUS", "TAGS", "TITLE"]).with_optional(&["TAGS"]);
        for title in ["Pay by card without an account at the checkout", "支払い支払い支払い"]
        {
            table.push(["US-001", "In Progress", "shop", title].map(str::to_owned));
        }
        table
    }

    #[test]
    fn table_fits_the_width_of_the_terminal() {
        let text = table().format(&OutputScreen::of_width(40));
        assert_eq!(
            text,
            "ID      STATUS       TITLE\n\
             US-001  In Progress  Pay by card withou…\n\
             US-001  In Progress  支払い支払い支払い\n"
        );
        let whole = table().format(&OutputScreen::default());
        assert!(
            whole.contains("shop  Pay by card without an account at the checkout\n"),
            "{whole}"
        );
    }

    #[test]
    fn truncate_counts_columns() {
        assert_eq!(truncate("支払い", 6), "支払い");
        assert_eq!(truncate("支払い", 5), "支払…");
        assert_eq!(truncate("支払い", 4), "支…");
    }
}
