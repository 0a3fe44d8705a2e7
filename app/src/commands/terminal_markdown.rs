//! Shows Markdown on a terminal: wraps long lines and highlights headings and code.

use super::output::marker_width;
use super::output::wrap_line;
use super::output::{OutputScreen, TextStyle};
use crate::console::encode_console;

/// Longer lines are hard to read.
const MAX_TEXT_WIDTH: usize = 100;

/// Stored Markdown for the screen. Outside of terminals only encoded.
pub(crate) fn render(markdown: &str, screen: &OutputScreen) -> String {
    let markdown = encode_console(markdown.trim_end());
    let Some(width) = screen.width else { return markdown + "\n" };
    let width = width.min(MAX_TEXT_WIDTH);
    let mut text = String::new();
    let mut is_code = false;
    for line in markdown.lines() {
        let content = line.trim_start();
        let is_fence = content.starts_with("```") || content.starts_with("~~~");
        let is_indented = line.starts_with("    ") || line.starts_with('\t');
        if is_fence || is_code || is_indented && marker_width(content) == 0 {
            is_code ^= is_fence;
            text += &screen.paint(TextStyle::Dim, line);
            text += "\n";
            continue;
        }
        if content.starts_with('|') {
            text += line;
            text += "\n";
            continue;
        }
        for line in wrap_line(line, width) {
            let is_heading = content.starts_with('#');
            let shown = if is_heading {
                screen.paint(TextStyle::Bold, &line)
            } else {
                highlight_spans(&line, screen)
            };
            text += &shown;
            text += "\n";
        }
    }
    text
}

/// Highlights `code` and **strong** text within a line.
fn highlight_spans(line: &str, screen: &OutputScreen) -> String {
    if !screen.is_colored() {
        return line.to_owned();
    }
    let mut text = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(['`', '*']) {
        let (before, span) = rest.split_at(start);
        let (mark, style) =
            if span.starts_with('`') { ("`", TextStyle::Cyan) } else { ("**", TextStyle::Bold) };
        let inner = span.strip_prefix(mark).and_then(|inner| inner.split_once(mark));
        text += before;
        match inner {
            Some((inner, after)) if !inner.trim().is_empty() => {
                text += &screen.paint(style, inner);
                rest = after;
            }
            _ => {
                // Both marks begin with one byte.
                text += &span[..1];
                rest = &span[1..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_wraps_text_and_keeps_code() {
        let screen = OutputScreen::of_width(30);
        let markdown = "# Pay\n\n- A guest pays by card without an account.\n\n```\na long line of \
                        code that is not wrapped at all\n```\n\u{1b}[2J ::error::x";
        assert_eq!(
            render(markdown, &screen),
            "# Pay\n\n- A guest pays by card without\n  an account.\n\n```\na long line of code \
             that is not wrapped at all\n```\n\\u{1b}[2J ::error::x\n"
        );
    }

    #[test]
    fn wrap_line_keeps_a_long_word_whole() {
        assert_eq!(wrap_line("aaaaaaaaaa b", 5), ["aaaaaaaaaa", "b"]);
        assert_eq!(wrap_line("10. one two", 8), ["10. one", "    two"]);
    }
}
