//! AGENTS.md: the placeholder, and the list under `## Sections`, which is derived from the existing
//! sections. Edits change nothing else in the file.

use std::collections::{BTreeMap, HashMap};

use super::markdown::{self, Line, Mark, verbatim_lines};
use crate::bounded_types::one_line;

/// The content of a new AGENTS.md, as specified.
pub const PLACEHOLDER: &str = "\
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

const HEADING: &str = "Sections";
const NONE_DEFINED: &str = "No sections defined yet.";

/// The existing sections: key and first heading.
pub type SectionTitles = BTreeMap<String, Option<String>>;

/// AGENTS.md with an updated list; `None` if it is up to date.
pub fn with_sections(source: &str, sections: &SectionTitles) -> Option<String> {
    let place = ListPlace::find(source);
    let listed = place.listed(source);
    let end = markdown::line_end(source);
    let list = render(sections, &listed, end);
    let edited = match place {
        ListPlace::List { start, end } => format!("{}{list}{}", &source[..start], &source[end..]),
        ListPlace::Missing { at } => {
            let (before, after) = (&source[..at], &source[at..]);
            let gap = if after.trim().is_empty() {
                after.to_owned()
            } else {
                format!("{end}{end}{}", after.trim_start())
            };
            let gap = if gap.is_empty() { end.to_owned() } else { gap };
            format!("{before}{end}{end}{list}{gap}")
        }
        ListPlace::NoHeading => {
            let content = source.trim_end();
            let apart =
                if content.trim_start_matches('\u{feff}').is_empty() { "" } else { &end.repeat(2) };
            format!("{content}{apart}## {HEADING}{end}{end}{list}{end}")
        }
    };
    // A hidden list would be added again at every call.
    let readable = matches!(ListPlace::find(&edited), ListPlace::List { .. });
    (edited != source && readable).then_some(edited)
}

/// Keys that AGENTS.md lists, with their titles.
pub fn listed(source: &str) -> HashMap<String, String> {
    ListPlace::find(source).listed(source)
}

fn render(sections: &SectionTitles, listed: &HashMap<String, String>, end: &str) -> String {
    let lines = sections.iter().filter_map(|(key, heading)| {
        let title = listed.get(key).or(heading.as_ref()).map(|title| one_line(title));
        let title = title.or_else(|| Some(capitalised(key))).filter(|title| !title.is_empty());
        let line = format!("- {} (key: {key})", title.as_deref().unwrap_or(key));
        // A key that its line does not give back is not listed.
        let is_readable = item(&line).is_some_and(|(_, read)| read == key);
        is_readable.then_some(line)
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { NONE_DEFINED.to_owned() } else { lines.join(end) }
}

fn capitalised(key: &str) -> String {
    let words = key.split(['_', '-', ' ']).filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>())
    };
    words.filter_map(capital).collect::<Vec<_>>().join(" ")
}

/// The place of the list, or for a new one.
enum ListPlace {
    /// From its first line to the end of its last, without that line's end.
    List {
        start: usize,
        end: usize,
    },
    /// The heading is there; the list goes to the end of its content.
    Missing {
        at: usize,
    },
    NoHeading,
}

impl ListPlace {
    fn find(source: &str) -> Self {
        let outline = markdown::outline(source);
        let is_ours =
            |mark: &Mark<'_>| matches!(mark, Mark::Heading { level: 2, title: HEADING, .. });
        let Some(at) = outline.marks.iter().position(is_ours) else {
            return Self::NoHeading;
        };
        let Mark::Heading { start, next, .. } = outline.marks[at] else {
            return Self::NoHeading;
        };
        let is_heading = |mark: &&Mark<'_>| matches!(mark, Mark::Heading { .. });
        let end = outline.marks[at + 1..].iter().find(is_heading).map_or(source.len(), Mark::start);
        let lines: Vec<Line<'_>> =
            markdown::lines(source).filter(|l| (next..end).contains(&l.start)).collect();
        let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
        let verbatim = verbatim_lines(&texts, false);
        let is_entry = |at: usize| {
            !verbatim[at] && (item(texts[at]).is_some() || texts[at].trim() == NONE_DEFINED)
        };
        let Some(first) = (0..lines.len()).find(|at| is_entry(*at)) else {
            let content = source[start..end].trim_end();
            return Self::Missing { at: start + content.len() };
        };
        // The list continues over its own lines and a gap to the next entry. Any other list below
        // is not ours.
        let mut last = first;
        for (at, text) in texts.iter().enumerate().skip(first + 1) {
            let adjacent = last == at - 1;
            let continues = text.starts_with("  ") && !markdown::is_blank(text);
            if is_entry(at) || (adjacent && (is_list_line(text) || continues)) {
                last = at;
            } else if !markdown::is_blank(text) {
                break;
            }
        }
        Self::List { start: lines[first].start, end: lines[last].end() }
    }

    fn listed(&self, source: &str) -> HashMap<String, String> {
        let Self::List { start, end } = *self else {
            return HashMap::new();
        };
        let items = markdown::lines(&source[start..end]).filter_map(|line| item(line.text));
        items.map(|(title, key)| (key.to_owned(), title.to_owned())).collect()
    }
}

fn is_list_line(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(['-', '*', '+']) && markdown::list_item(text).is_some()
}

/// Title and key of a line `- {Title} (key: {key})`.
fn item(line: &str) -> Option<(&str, &str)> {
    if !is_list_line(line) {
        return None;
    }
    let text = line.trim_start()[1..].trim();
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
        let edited = with_sections(source, &titles(sections));
        assert_eq!(edited.as_deref().unwrap_or(source), expected);
        assert_eq!(with_sections(expected, &titles(sections)), None, "a true list stays");
    }

    // S1: S.3.5, D.3.5, T.3.4
    #[test]
    fn only_the_list_is_rebuilt_sorted_by_key_and_known_titles_stay() {
        check(
            PLACEHOLDER,
            &[("tools", Some("Tool list")), ("general", Some("Other")), ("my_own-key", None)],
            &PLACEHOLDER.replace(
                &PLACEHOLDER[PLACEHOLDER.find("- General").unwrap()..PLACEHOLDER.len() - 2],
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
    fn no_section_is_said_and_replaced_again() {
        let none = "## Sections\r\n\r\nNo sections defined yet.\r\n\r\nThe end\r\n";
        let some = "## Sections\r\n\r\n- A (key: a)\r\n- B (key: b)\r\n\r\nThe end\r\n";
        check(some, &[], none);
        check(none, &[("a", None), ("b", None)], some);
    }

    // S1: S.3.5
    #[test]
    fn a_missing_heading_or_list_is_added_at_its_end() {
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
    fn a_page_never_grows_by_being_written_again() {
        for source in ["```\nx", "<!--\n", "## Sections\n\n- A (key: a)\n"] {
            for key in ["a", "_", "-", "`", "x(key:", "m "] {
                let sections = titles(&[(key, None)]);
                let once = with_sections(source, &sections).unwrap_or(source.to_owned());
                assert_eq!(with_sections(&once, &sections), None, "{source:?} {key:?}");
            }
        }
    }

    // S1: S.3.5
    #[test]
    fn an_example_in_a_fence_and_a_list_of_one_s_own_stay() {
        let fence = "```\n- Title (key: key)\n```";
        let own = "- My note\n- [ ] a task";
        let page = |list| format!("## Sections\n\n{fence}\n\n{list}\n\n{own}\n");
        check(&page("- Old (key: old)"), &[("a", None)], &page("- A (key: a)"));
    }

    // S1: S.3.5
    #[test]
    fn a_heading_of_the_section_gives_the_title_on_one_line() {
        check(
            "## Sections\n\nNo sections defined yet.\n",
            &[("a", Some("Two\nlines"))],
            "## Sections\n\n- Two lines (key: a)\n",
        );
    }
}
