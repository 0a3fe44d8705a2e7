//! AGENTS.md: the content of a new file, and the list below `## Sections`.
//!
//! The list is derived from the existing sections. Updating it changes nothing else in the file.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::markdown::{self, OutlineElement, SourceLine};
use super::verbatim::verbatim_lines;
use crate::bounded_types::one_line;

/// The content of a new AGENTS.md. Its text is specified.
pub const NEW_INSTRUCTIONS: &str = "\
# Requirements

## General Rules

**R.1.** All requirements must be written in English.

## Sections

Requirements are organized into the following sections:

- General requirements (key: general)
- Requirements change management (key: requirements_change_management)
- Testing requirements (key: testing)
- Code quality requirements (key: code_quality)
- Code writing requirements (key: code_style)
- Change validation requirements (key: change_validation)

";

const SECTIONS_HEADING: &str = "Sections";
/// The text in place of an empty list.
const EMPTY_LIST: &str = "No sections defined yet.";

/// The existing sections: each key with the first heading of its section.
pub type SectionTitles = BTreeMap<String, Option<String>>;

/// Returns AGENTS.md with an updated list; `None` if the list is up to date.
pub fn update_section_list(source: &str, sections: &SectionTitles) -> Option<String> {
    let location = ListLocation::locate(source);
    let listed = location.read_titles(source);
    let line_end = markdown::line_end(source);
    let list = render_list(sections, &listed, line_end);
    let edited = match location {
        ListLocation::List { start, end } => {
            format!("{}{list}{}", &source[..start], &source[end..])
        }
        ListLocation::Missing { at } => {
            let (before, after) = (&source[..at], &source[at..]);
            let gap_after = if after.is_empty() {
                line_end.to_owned()
            } else if after.trim().is_empty() {
                after.to_owned()
            } else {
                format!("{line_end}{line_end}{}", after.trim_start())
            };
            format!("{before}{line_end}{line_end}{list}{gap_after}")
        }
        ListLocation::NoHeading => {
            let content = source.trim_end();
            let is_empty = content.trim_start_matches('\u{feff}').is_empty();
            let gap = if is_empty { String::new() } else { line_end.repeat(2) };
            format!("{content}{gap}## {SECTIONS_HEADING}{line_end}{line_end}{list}{line_end}")
        }
    };
    // A list that does not parse again, such as one in an unclosed fence, would grow at every call.
    let is_readable = matches!(ListLocation::locate(&edited), ListLocation::List { .. });
    (edited != source && is_readable).then_some(edited)
}

/// The keys in the list of AGENTS.md, with their titles.
pub fn listed(source: &str) -> HashMap<String, String> {
    ListLocation::locate(source).read_titles(source)
}

fn render_list(
    sections: &SectionTitles,
    listed: &HashMap<String, String>,
    line_end: &str,
) -> String {
    let mut lines = Vec::new();
    for (key, heading) in sections {
        let title = match listed.get(key).or(heading.as_ref()) {
            Some(title) => one_line(title),
            None => title_from_key(key),
        };
        let title = if title.is_empty() { key } else { &title };
        let line = format!("- {title} (key: {key})");
        // A key that does not parse back, such as one with a bracket, is not listed.
        if parse_list_item(&line).is_some_and(|(_, parsed)| parsed == key) {
            lines.push(line);
        }
    }
    if lines.is_empty() { EMPTY_LIST.to_owned() } else { lines.join(line_end) }
}

/// `Code Quality` for `code_quality`.
fn title_from_key(key: &str) -> String {
    let mut title = String::with_capacity(key.len());
    for word in key.split(['_', '-', ' ']) {
        let mut letters = word.chars();
        let Some(first) = letters.next() else { continue };
        if !title.is_empty() {
            title.push(' ');
        }
        title.extend(first.to_uppercase());
        title.push_str(letters.as_str());
    }
    title
}

/// The location of the list, or of a new one.
enum ListLocation {
    /// From the start of the first line to the end of the last line, without its line end.
    List {
        start: usize,
        end: usize,
    },
    /// A new list follows the content below the heading.
    Missing {
        at: usize,
    },
    NoHeading,
}

impl ListLocation {
    fn locate(source: &str) -> Self {
        let elements = markdown::parse_outline(source).elements;
        let mut following = elements.iter().skip_while(|element| {
            !matches!(element, OutlineElement::Heading { level: 2, title: SECTIONS_HEADING, .. })
        });
        let Some(OutlineElement::Heading { start, next, .. }) = following.next() else {
            return Self::NoHeading;
        };
        let next_heading =
            following.find(|element| matches!(element, OutlineElement::Heading { .. }));
        let end = next_heading.map_or(source.len(), OutlineElement::start);
        let lines: Vec<SourceLine<'_>> = markdown::source_lines(source)
            .filter(|line| (*next..end).contains(&line.start))
            .collect();
        let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
        let verbatim = verbatim_lines(&texts, false);

        let mut list: Option<Range<usize>> = None;
        for (at, text) in texts.iter().enumerate() {
            let is_entry =
                !verbatim[at] && (parse_list_item(text).is_some() || text.trim() == EMPTY_LIST);
            match &mut list {
                None if is_entry => list = Some(at..at),
                None => {}
                // The list includes its continuation lines, and blank lines before the next entry.
                // Any other list below belongs to the author.
                Some(list) => {
                    let is_continuation = text.starts_with("  ") && !markdown::is_blank(text);
                    let is_adjacent = list.end == at - 1;
                    // Own lines of the author directly below an entry are part of the list.
                    if is_entry || (is_adjacent && (is_list_line(text) || is_continuation)) {
                        list.end = at;
                    } else if !markdown::is_blank(text) {
                        break;
                    }
                }
            }
        }
        match list {
            Some(list) => Self::List { start: lines[list.start].start, end: lines[list.end].end() },
            None => Self::Missing { at: start + source[*start..end].trim_end().len() },
        }
    }

    fn read_titles(&self, source: &str) -> HashMap<String, String> {
        let mut titles = HashMap::new();
        if let Self::List { start, end } = *self {
            for line in markdown::source_lines(&source[start..end]) {
                if let Some((title, key)) = parse_list_item(line.text) {
                    titles.insert(key.to_owned(), title.to_owned());
                }
            }
        }
        titles
    }
}

fn is_list_line(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(['-', '*', '+']) && markdown::list_marker_width(text).is_some()
}

/// Title and key of a line `- {Title} (key: {key})`.
fn parse_list_item(line: &str) -> Option<(&str, &str)> {
    if !is_list_line(line) {
        return None;
    }
    let text = line.trim_start()[1..].trim();
    // From the right, because a title may contain the same words.
    let (title, key) = text.strip_suffix(')')?.rsplit_once("(key:")?;
    let key = key.trim().trim_matches('`').trim();
    let title = title.trim();
    (!key.is_empty() && !title.is_empty()).then_some((title, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(sections: &[(&str, Option<&str>)]) -> SectionTitles {
        sections.iter().map(|(key, title)| ((*key).to_owned(), title.map(str::to_owned))).collect()
    }

    #[track_caller]
    fn check(source: &str, sections: &[(&str, Option<&str>)], expected: &str) {
        let edited = update_section_list(source, &titles(sections));
        assert_eq!(edited.as_deref().unwrap_or(source), expected);
        assert_eq!(update_section_list(expected, &titles(sections)), None, "a true list stays");
    }

    // S1: S.3.5, D.3.5, T.3.4
    #[test]
    fn list_update_sorts_by_key_and_keeps_titles() {
        check(
            NEW_INSTRUCTIONS,
            &[("tools", Some("Tool list")), ("general", Some("Other")), ("my_own-key", None)],
            &NEW_INSTRUCTIONS.replace(
                &NEW_INSTRUCTIONS[NEW_INSTRUCTIONS.find("- General").unwrap()..NEW_INSTRUCTIONS.len() - 2],
                "- General requirements (key: general)\n- My Own Key (key: my_own-key)\n- Tool list (key: tools)",
            ),
        );
        check(
            "## Sections\n\n* old (key: old)\n\n## More\n- x (key: y)\n",
            &[("a", None)],
            "## Sections\n\n- A (key: a)\n\n## More\n- x (key: y)\n",
        );
    }

    // S1: S.3.5, D.3.5
    #[test]
    fn list_without_sections_has_a_placeholder() {
        let none = "## Sections\r\n\r\nNo sections defined yet.\r\n\r\nThe end\r\n";
        let some = "## Sections\r\n\r\n- A (key: a)\r\n- B (key: b)\r\n\r\nThe end\r\n";
        check(some, &[], none);
        check(none, &[("a", None), ("b", None)], some);
    }

    // S1: S.3.5
    #[test]
    fn missing_heading_or_list_is_added() {
        check(
            "# Mine\n\nprose",
            &[("a", None)],
            "# Mine\n\nprose\n\n## Sections\n\n- A (key: a)\n",
        );
        check("", &[], "## Sections\n\nNo sections defined yet.\n");
        check(
            "## Sections\n\nOurs:\n\n## Next\n",
            &[("a", None)],
            "## Sections\n\nOurs:\n\n- A (key: a)\n\n## Next\n",
        );
        check("## Sections", &[("a", None)], "## Sections\n\n- A (key: a)\n");
        check(
            "```\n## Sections\n```\n",
            &[("a", None)],
            "```\n## Sections\n```\n\n## Sections\n\n- A (key: a)\n",
        );
    }

    // S1: S.3.5
    #[test]
    fn list_update_twice_changes_nothing() {
        for source in ["```\nx", "<!--\n", "## Sections\n\n- A (key: a)\n"] {
            for key in ["a", "_", "-", "`", "x(key:", "m "] {
                let sections = titles(&[(key, None)]);
                let once = update_section_list(source, &sections).unwrap_or(source.to_owned());
                assert_eq!(update_section_list(&once, &sections), None, "{source:?} {key:?}");
            }
        }
    }

    // S1: S.3.5
    #[test]
    fn list_update_keeps_fences_and_other_lists() {
        let fence = "```\n- Title (key: key)\n```";
        let own = "- My note\n- [ ] a task";
        let page = |list| format!("## Sections\n\n{fence}\n\n{list}\n\n{own}\n");
        check(&page("- Old (key: old)"), &[("a", None)], &page("- A (key: a)"));
    }

    // S1: S.3.5
    #[test]
    fn list_title_is_the_section_heading_on_one_line() {
        check(
            "## Sections\n\nNo sections defined yet.\n",
            &[("a", Some("Two\nlines"))],
            "## Sections\n\n- Two lines (key: a)\n",
        );
    }
}
