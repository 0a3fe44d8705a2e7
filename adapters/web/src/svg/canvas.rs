//! The SVG text of a picture: escaped text, estimated text widths, and the two styles.

use std::borrow::Cow;
use std::fmt::Write;

use reqlore_domain::untrusted_text::{encode_line, encode_lines};

/// The stylesheet of the pages. The rules of pictures are in a file of their own.
const PAGE_CSS: &str = include_str!("../../assets/style.css");
const PICTURE_CSS: &str = include_str!("../../assets/picture.css");

/// The context of a picture, which decides about its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureStyle {
    /// A file of its own, with light and dark colours inside.
    File,
    /// Part of a page, whose stylesheet contains `picture.css`.
    Page,
}

/// Font sizes in pixels, as in `picture.css`.
pub(super) const TEXT_PX: usize = 13;
pub(super) const SMALL_PX: usize = 12;
pub(super) const LABEL_PX: usize = 11;
/// Space between the picture and its border.
pub(super) const MARGIN: usize = 16;
pub(super) const BAR_WIDTH: usize = 96;
const BAR_HEIGHT: usize = 8;

/// Collects the elements of a picture. Coordinates are pixels.
#[derive(Debug, Default)]
pub(super) struct SvgCanvas {
    body: String,
    has_links: bool,
}

impl SvgCanvas {
    pub(super) fn push_text(&mut self, x: usize, y: usize, class: &str, text: &str) {
        self.push(&format!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{}</text>", escape(text)));
    }

    /// A label of a line, at its `start`, `middle` or `end`.
    pub(super) fn push_anchored(&mut self, x: usize, y: usize, anchor: &str, text: &str) {
        let text = escape(text);
        self.push(&format!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"relation\">{text}</text>"
        ));
    }

    pub(super) fn push(&mut self, element: &str) {
        self.body += element;
        self.body.push('\n');
    }

    /// Begins a link, whose accessible name is its text.
    pub(super) fn open_link(&mut self, href: Option<&String>) {
        if let Some(href) = href {
            self.has_links = true;
            self.push(&format!("<a href=\"{}\">", escape(href)));
        }
    }

    pub(super) fn close_link(&mut self, href: Option<&String>) {
        if href.is_some() {
            self.push("</a>");
        }
    }

    /// Draws a status as its name and a dot in the colour of the status `mark`.
    pub(super) fn push_status(&mut self, x: usize, y: usize, status: &str, mark: &str) {
        let class = status_class(mark);
        self.push(&format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"4\" class=\"{class}\"/>",
            x + 4,
            y - 4
        ));
        self.push_text(x + STATUS_INDENT, y, "muted", status);
    }

    /// A bar of [`BAR_WIDTH`], with one segment for each class and number.
    pub(super) fn push_bar(
        &mut self,
        x: usize,
        y: usize,
        segments: &[(&str, usize)],
        total: usize,
    ) {
        let bar = |x: usize, width: usize, class: &str| {
            let y = y - BAR_HEIGHT;
            format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BAR_HEIGHT}\" \
                 class=\"{class}\"/>"
            )
        };
        let track = bar(x, BAR_WIDTH, "rail");
        self.push(&track);
        let mut before = 0;
        for (status, count) in segments {
            // Rounded at both ends, so that the segments leave no gap.
            let (start, end) = (scale(before, total), scale(before + count, total));
            before += count;
            if start < end {
                self.push(&bar(x + start, end - start, &status_class(status)));
            }
        }
    }

    /// `name` makes the IDs unique if a page has several pictures.
    pub(super) fn finish(
        self,
        style: PictureStyle,
        size: (usize, usize),
        name: &str,
        title: &str,
        description: &str,
    ) -> String {
        let (width, height) = size;
        // Links in an image are hidden from screen readers.
        let role = if self.has_links { "group" } else { "img" };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"{role}\" \
             aria-labelledby=\"{name}-title {name}-text\">\n\
             <title id=\"{name}-title\">{}</title>\n\
             <desc id=\"{name}-text\">{}</desc>\n",
            escape(title),
            escape(description)
        );
        if style == PictureStyle::File {
            svg += &embedded_style();
            svg += "<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n";
        }
        svg + &self.body + "</svg>\n"
    }
}

/// Space of the dot before the name of a status.
pub(super) const STATUS_INDENT: usize = 14;

fn scale(part: usize, total: usize) -> usize {
    // In wider integers, because a file of a client may contain any number.
    let (part, width, total) = (part.min(total) as u128, BAR_WIDTH as u128, total.max(1) as u128);
    usize::try_from((part * width + total / 2) / total).unwrap_or(BAR_WIDTH)
}

/// The rules of pictures with the colours of the pages. Programs that show SVG files know media
/// queries, but not always variables.
fn embedded_style() -> String {
    let (mut light, mut dark) = (PICTURE_CSS.to_owned(), PICTURE_CSS.to_owned());
    for line in PAGE_CSS.lines() {
        let Some((name, values)) = line.trim().split_once(": light-dark(") else { continue };
        let Some((light_value, dark_value)) = values.trim_end_matches(");").split_once(", ") else {
            continue;
        };
        light = light.replace(&format!("var({name})"), light_value);
        dark = dark.replace(&format!("var({name})"), dark_value);
    }
    format!("<style>\n{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>\n")
}

/// The CSS class of a status. Never contains other characters than letters, digits and `-`.
fn status_class(status: &str) -> String {
    let mut class = "mark s-".to_owned();
    for letter in status.chars().take(20) {
        let letter = letter.to_ascii_lowercase();
        class.push(if letter.is_ascii_alphanumeric() { letter } else { '-' });
    }
    class
}

/// Text as XML content or attribute value. Encodes hidden characters, and replaces those that
/// XML 1.0 excludes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in encode_lines(text).chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Estimated width in pixels, because no font is known.
pub(super) fn text_width(text: &str, font_px: usize) -> usize {
    let mut thousandths = 0;
    for letter in text.chars() {
        thousandths += letter_width(letter);
    }
    (thousandths * font_px).div_ceil(1_000)
}

/// Estimated width of an ID in pixels, in the small fixed-width font.
pub(super) fn id_width(text: &str) -> usize {
    let mut thousandths = 0;
    for letter in text.chars() {
        let is_wide = letter_width(letter) == 1_000;
        thousandths += if is_wide { 1_000 } else { ID_LETTER_WIDTH };
    }
    (thousandths * SMALL_PX).div_ceil(1_000)
}

/// Wider than the letters of all common fixed-width fonts, in thousandths of the font size.
const ID_LETTER_WIDTH: usize = 620;

/// In thousandths of the font size, wide enough for the system fonts of all platforms.
fn letter_width(letter: char) -> usize {
    match letter {
        'i' | 'j' | 'l' | '.' | ',' | ';' | ':' | '\'' | '|' | '!' | 'I' => 310,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' => 390,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 940,
        'A'..='Z' => 690,
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' => 0,
        // East Asian letters and emoji.
        '\u{1100}'..='\u{11ff}'
        | '\u{2e80}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f000}'..='\u{3ffff}' => 1_000,
        _ => 610,
    }
}

/// Encodes a line of text and cuts it with `…` if it is wider than this.
pub(super) fn cut_text(text: &str, font_px: usize, max_px: usize) -> Cow<'_, str> {
    let text = encode_line(text);
    if text_width(&text, font_px) <= max_px {
        return text;
    }
    let (mut kept, mut width) = (String::new(), letter_width('…') * font_px);
    for letter in text.chars() {
        width += letter_width(letter) * font_px;
        if width > max_px * 1_000 {
            break;
        }
        kept.push(letter);
    }
    Cow::Owned(kept.trim_end().to_owned() + "…")
}

/// Writes "1 epic" or "2 epics".
pub(super) fn count_noun(count: usize, one: &str, several: &str) -> String {
    let mut text = count.to_string();
    // Writing to a string does not fail.
    let _ = write!(text, " {}", if count == 1 { one } else { several });
    text
}
