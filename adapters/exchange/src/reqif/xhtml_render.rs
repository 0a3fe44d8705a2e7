//! XHTML from Markdown, as other tools show it.

use std::fmt::Write as _;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use quick_xml::Reader;
use quick_xml::events::Event as XmlEvent;

use crate::reqif::xhtml::{MarkdownWriter, entity_text};

/// Readers have a limit; the document around a text has elements, too.
const MAX_DEPTH: usize = 100;

/// Renders Markdown as one `xhtml:div`. HTML in it is shown as text, and so is all of a text that
/// is nested too deep.
pub(crate) fn render_xhtml(markdown: &str) -> String {
    let mut xml = "<xhtml:div>".to_owned();
    let (mut is_head, mut depth) = (false, 0);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(_) if depth == MAX_DEPTH => {
                let mut xml = "<xhtml:div><xhtml:pre>".to_owned();
                push_escaped(&mut xml, markdown, false);
                return xml + "</xhtml:pre></xhtml:div>";
            }
            Event::Start(tag) => {
                depth += 1;
                is_head |= matches!(tag, Tag::TableHead);
                start_element(&mut xml, &tag, is_head);
            }
            Event::End(tag) => {
                depth -= 1;
                if let Some(name) = element_of(tag, is_head) {
                    // Tools that remove elements keep lines apart.
                    let end =
                        if matches!(name, "em" | "strong" | "a" | "object") { ">" } else { ">\n" };
                    xml.extend(["</xhtml:", name, end]);
                }
                is_head &= !matches!(tag, TagEnd::TableHead);
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                push_escaped(&mut xml, &text, false);
            }
            Event::Code(text) => {
                xml.push_str("<xhtml:code>");
                push_escaped(&mut xml, &text, false);
                xml.push_str("</xhtml:code>");
            }
            Event::SoftBreak => xml.push('\n'),
            Event::HardBreak => xml.push_str("<xhtml:br/>"),
            Event::Rule => xml.push_str("<xhtml:hr/>"),
            _ => {}
        }
    }
    xml + "</xhtml:div>"
}

/// The Markdown that an import reads from the rendered text.
pub(crate) fn shown_text(markdown: &str) -> String {
    let xml = render_xhtml(markdown);
    let mut reader = Reader::from_str(&xml);
    reader.config_mut().expand_empty_elements = true;
    let mut writer = MarkdownWriter::default();
    loop {
        match reader.read_event() {
            Ok(XmlEvent::Start(element)) => _ = writer.start(&element),
            Ok(XmlEvent::End(element)) => writer.end(element.local_name().as_ref()),
            Ok(XmlEvent::Text(text)) => writer.text(&text.xml10_content()),
            Ok(XmlEvent::GeneralRef(entity)) => {
                writer.text(&entity_text(&entity).unwrap_or_default());
            }
            Ok(XmlEvent::Eof) | Err(_) => return writer.finish(),
            Ok(_) => {}
        }
    }
}

fn start_element(xml: &mut String, tag: &Tag<'_>, is_head: bool) {
    let Some(name) = element_of(tag.to_end(), is_head) else { return };
    xml.extend(["<xhtml:", name]);
    if let Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } = tag {
        let is_image = matches!(tag, Tag::Image { .. });
        xml.push_str(if is_image { " type=\"image/*\" data=\"" } else { " href=\"" });
        // Spaces and the like are not allowed in a URI.
        for byte in dest_url.bytes() {
            match byte {
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                    _ = write!(xml, "%{byte:02X}");
                }
                b'&' => xml.push_str("&amp;"),
                b'!'..=b'~' => xml.push(char::from(byte)),
                _ => _ = write!(xml, "%{byte:02X}"),
            }
        }
        xml.push('"');
    }
    xml.push('>');
}

/// The element of a Markdown tag; `None` if its content alone is shown.
fn element_of(tag: TagEnd, is_head: bool) -> Option<&'static str> {
    Some(match tag {
        TagEnd::Paragraph | TagEnd::HtmlBlock => "p",
        TagEnd::Heading(level) => {
            ["h1", "h2", "h3", "h4", "h5", "h6"][(level as usize).clamp(1, 6) - 1]
        }
        TagEnd::BlockQuote(_) => "blockquote",
        TagEnd::CodeBlock => "pre",
        TagEnd::List(true) => "ol",
        TagEnd::List(false) => "ul",
        TagEnd::Item => "li",
        TagEnd::Table => "table",
        TagEnd::TableHead | TagEnd::TableRow => "tr",
        TagEnd::TableCell if is_head => "th",
        TagEnd::TableCell => "td",
        TagEnd::Emphasis => "em",
        TagEnd::Strong => "strong",
        TagEnd::Link => "a",
        TagEnd::Image => "object",
        _ => return None,
    })
}

/// Adds text with references for what XML reads as markup or does not keep. Characters that XML
/// does not have are replaced.
pub(crate) fn push_escaped(xml: &mut String, text: &str, is_attribute: bool) {
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' if is_attribute => xml.push_str("&quot;"),
            '\n' if is_attribute => xml.push_str("&#10;"),
            '\t' if is_attribute => xml.push_str("&#9;"),
            '\r' => xml.push_str("&#13;"),
            '\n' | '\t' => xml.push(c),
            '\0'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => xml.push('\u{fffd}'),
            c => xml.push(c),
        }
    }
}
