//! The headings of a Markdown text, with their sections.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::names::check_length;

/// A heading outside of lists and quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) level: usize,
    /// As written, without markers.
    pub(crate) title: String,
    /// The bytes of the heading.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A heading and the text up to the next one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section<'t> {
    pub(crate) heading: Heading,
    /// True for the first heading of level 1.
    pub(crate) is_title: bool,
    /// The heading as written, with markers.
    pub(crate) line: &'t str,
    /// The text up to the next heading of any level.
    pub(crate) text: &'t str,
}

fn headings(text: &str) -> Vec<Heading> {
    let mut found: Vec<Heading> = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                let title = heading_title(&text[range.clone()]);
                found.push(Heading {
                    level: level as usize,
                    title,
                    start: range.start,
                    end: range.end,
                });
            }
            Event::Start(Tag::List(_) | Tag::BlockQuote(_)) => depth += 1,
            Event::End(TagEnd::List(_) | TagEnd::BlockQuote(_)) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// The text of a heading with `#` or underlined.
fn heading_title(source: &str) -> String {
    let source = source.trim();
    match source.strip_prefix('#') {
        Some(_) => {
            let title = source.trim_start_matches('#').trim();
            // Closing marks are apart from the title: `# C#` has none.
            let open = title.trim_end_matches('#');
            let is_closed = open.is_empty() || open.ends_with([' ', '\t']);
            if is_closed { open.trim().to_owned() } else { title.to_owned() }
        }
        None => source.lines().next().unwrap_or_default().trim().to_owned(),
    }
}

/// Refuses a heading of a text that is too long to be copied.
pub(crate) fn check_heading(text: &str, heading: &Heading) -> Result<(), String> {
    check_length("the heading", &heading.title).map_err(|problem| {
        let line = text[..heading.start].matches('\n').count() + 1;
        format!("line {line}: {problem}")
    })
}

/// The text before the first heading, and all sections.
pub(crate) fn sections(text: &str) -> (&str, Vec<Section<'_>>) {
    let found = headings(text);
    let before = &text[..found.first().map_or(text.len(), |heading| heading.start)];
    let title = found.iter().position(|heading| heading.level == 1);
    let mut sections = Vec::with_capacity(found.len());
    for (index, heading) in found.iter().enumerate() {
        let end = found.get(index + 1).map_or(text.len(), |next| next.start);
        let line = text[heading.start..heading.end].trim();
        let text = &text[heading.end..end];
        let is_title = title == Some(index);
        sections.push(Section { heading: heading.clone(), is_title, line, text });
    }
    (before, sections)
}

/// The text of a section with those of lower levels: the bytes from its heading's end to the next
/// heading of the same or a higher level.
pub(crate) fn whole_text<'t>(
    text: &'t str,
    found: &[Section<'_>],
    index: usize,
) -> (&'t str, usize) {
    let level = found[index].heading.level;
    let mut next = index + 1;
    while next < found.len() && found[next].heading.level > level {
        next += 1;
    }
    let end = found.get(next).map_or(text.len(), |section| section.heading.start);
    (&text[found[index].heading.end..end], next)
}
