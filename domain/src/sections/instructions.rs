//! AGENTS.md: the content of a new file, and the list below `## Sections`.
//!
//! The list is derived from the existing sections. Updating it inserts and removes entries, and
//! changes no other line, not even a line between two entries.

use std::collections::{BTreeMap, HashMap, HashSet};

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::lines::{self, SourceLine};
use super::markdown::{self, OutlineElement};
use super::verbatim::{VerbatimRegions, parser_input};
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

/// The outcome of [`update_section_list`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SectionListUpdate {
    /// The new text of AGENTS.md; `None` if it stays as it is.
    pub body: Option<String>,
    /// Says that a new list was added, or that the list cannot be updated.
    pub note: Option<String>,
}

/// Updates the list to name each section. Sorts it by key, unless it is numbered or has other lines
/// between the entries. An entry with text of the author in its line or below it stays.
pub fn update_section_list(source: &str, sections: &SectionTitles) -> SectionListUpdate {
    let list = SectionList::parse(source);
    let mut wanted = BTreeMap::new();
    for (key, heading) in sections {
        wanted.extend(render_entry(key, heading.as_deref()).map(|text| (key.as_str(), text)));
    }
    if wanted.is_empty() {
        wanted.insert("", EMPTY_LIST.to_owned());
    }
    let keys: Vec<&str> = wanted.keys().copied().collect();
    let mut note = None;
    let edits = if list.entries.is_empty() {
        note = Some(
            "A list of all sections was added to AGENTS.md, below \"## Sections\".".to_owned(),
        );
        list.add_entries(wanted)
    } else {
        list.edit_entries(wanted)
    };
    if edits == ListEdits::default() {
        return SectionListUpdate::default();
    }
    let edited = list.apply(&edits);
    let listed: HashSet<&str> =
        SectionList::parse(&edited).entries.iter().map(|entry| entry.key).collect();
    // A list that does not parse again, such as one in an unclosed fence, would grow at every call.
    if !keys.iter().all(|key| listed.contains(key)) {
        let problem = markdown::parse_outline(source).unclosed_problem(source);
        let reason = problem
            .unwrap_or_else(|| "the new list would not parse; correct it by hand".to_owned());
        let note = format!("The list of sections in AGENTS.md cannot be updated: {reason}.");
        return SectionListUpdate { body: None, note: Some(note) };
    }
    SectionListUpdate { body: Some(edited), note }
}

/// The keys in the list of AGENTS.md, with their titles.
pub fn listed(source: &str) -> HashMap<String, String> {
    let mut titles = HashMap::new();
    for entry in SectionList::parse(source).entries {
        if !entry.title.is_empty() {
            titles.entry(entry.key.to_owned()).or_insert_with(|| entry.title.to_owned());
        }
    }
    titles
}

/// The text of a new entry after its list marker; `None` for a key that does not parse back, such
/// as one with a bracket.
fn render_entry(key: &str, heading: Option<&str>) -> Option<String> {
    let heading = heading.map(one_line).unwrap_or_default();
    for title in [heading, title_from_key(key), key.to_owned()] {
        let text = format!("{title} (key: {key})");
        if parse_entry(&text).is_some_and(|(title, parsed)| parsed == key && !title.is_empty()) {
            return Some(text);
        }
    }
    None
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

/// The list of sections, and the lines around it.
struct SectionList<'a> {
    source: &'a str,
    lines: Vec<SourceLine<'a>>,
    has_heading: bool,
    /// Position of the line after the content below the heading, or after the content of the file.
    content_end: usize,
    entries: Vec<ListEntry<'a>>,
}

/// A list item `- {Title} (key: {key})`, or the line of an empty list. Positions count lines.
struct ListEntry<'a> {
    position: usize,
    /// The line after the item, which may have more lines.
    item_end: usize,
    /// Indentation and list marker.
    prefix: &'a str,
    text: &'a str,
    title: &'a str,
    /// Empty for the line of an empty list.
    key: &'a str,
}

/// Changes of lines, by their positions.
#[derive(Default, PartialEq, Eq)]
struct ListEdits {
    /// New lines above a line.
    inserted: BTreeMap<usize, Vec<String>>,
    removed: HashSet<usize>,
}

impl<'a> ListEntry<'a> {
    fn parse(position: usize, line: &'a str) -> Option<Self> {
        let item_end = position + 1;
        if line.trim() == EMPTY_LIST {
            let (text, title, key) = (line, EMPTY_LIST, "");
            return Some(Self { position, item_end, prefix: "", text, title, key });
        }
        let indent = line.len() - line.trim_start().len();
        let width = markdown::list_marker_width(&line[indent..])?;
        let (prefix, text) = line.split_at(indent + width);
        let (title, key) = parse_entry(text)?;
        Some(Self { position, item_end, prefix, text, title, key })
    }
}

impl ListEntry<'_> {
    /// True without text of the author, in the line or below it.
    fn is_plain(&self) -> bool {
        let after_key = |text: &'_ str| text.split_once(')').map(|(_, after)| after.to_owned());
        let after = self.text.split_once("(key:").and_then(|(_, text)| after_key(text));
        self.item_end == self.position + 1 && after.unwrap_or_default().trim().is_empty()
    }
}

impl<'a> SectionList<'a> {
    fn parse(source: &'a str) -> Self {
        let elements = markdown::parse_outline(source).elements;
        let mut following = elements.iter().skip_while(|element| {
            !matches!(element, OutlineElement::Heading { level: 2, title: SECTIONS_HEADING, .. })
        });
        let heading = following.next();
        let next_heading = following
            .find(|element| matches!(element, OutlineElement::Heading { level: 1 | 2, .. }));
        let end = next_heading.map_or(source.len(), OutlineElement::start);
        let mut list = Self {
            source,
            lines: lines::source_lines(source).collect(),
            has_heading: heading.is_some(),
            content_end: 0,
            entries: Vec::new(),
        };
        list.content_end = list.content_end_before(end);
        if let Some(OutlineElement::Heading { next, .. }) = heading {
            list.parse_entries(*next, end);
        }
        list
    }

    fn parse_entries(&mut self, start: usize, end: usize) {
        let mut regions = VerbatimRegions::parse(self.source, start);
        for (position, line) in self.lines.iter().enumerate() {
            // The line that opens a block is not in it, such as `- <p>Title</p> (key: a)`.
            let opening = SourceLine { next: line.start, ..*line };
            if (start..end).contains(&line.start) && regions.kind_at(opening).is_none() {
                self.entries.extend(ListEntry::parse(position, line.text));
            }
        }
        let input = parser_input(&self.source[start..end]);
        for (event, range) in Parser::new_ext(&input, Options::empty()).into_offset_iter() {
            let position = self.lines.partition_point(|line| line.next <= start + range.start);
            let found = self.entries.binary_search_by_key(&position, |entry| entry.position);
            if let (Event::Start(Tag::Item), Ok(found)) = (event, found) {
                let item_end = self.content_end_before(end.min(start + range.end));
                let entry = &mut self.entries[found];
                entry.item_end = entry.item_end.max(item_end);
            }
        }
    }

    /// The position after the last line before `end` that is not blank.
    fn content_end_before(&self, end: usize) -> usize {
        let lines = &self.lines[..self.lines.partition_point(|line| line.start < end)];
        lines.iter().rposition(|line| !markdown::is_blank(line.text)).map_or(0, |last| last + 1)
    }

    /// Adds a list, and the heading if it is missing.
    fn add_entries(&self, wanted: BTreeMap<&str, String>) -> ListEdits {
        let mut inserted = Vec::new();
        if self.content_end > 0 {
            inserted.push(String::new());
        }
        if !self.has_heading {
            inserted.extend([format!("## {SECTIONS_HEADING}"), String::new()]);
        }
        for (key, text) in wanted {
            inserted.push(if key.is_empty() { text } else { format!("- {text}") });
        }
        if self.lines.get(self.content_end).is_some_and(|line| !markdown::is_blank(line.text)) {
            inserted.push(String::new());
        }
        let inserted = BTreeMap::from([(self.content_end, inserted)]);
        ListEdits { inserted, removed: HashSet::new() }
    }

    /// Removes the entries that are not wanted or in the wrong order, and inserts the others.
    fn edit_entries(&self, mut wanted: BTreeMap<&'a str, String>) -> ListEdits {
        let sections: HashSet<&str> = wanted.keys().copied().collect();
        let is_numbered =
            |entry: &ListEntry<'_>| entry.prefix.contains(|c: char| c.is_ascii_digit());
        // An author's lines in an item or between items would lose their position.
        let is_sortable = self.entries.iter().enumerate().all(|(at, entry)| {
            entry.item_end == self.entries[0].position + at + 1
                && entry.prefix == self.entries[0].prefix
        });
        let mut edits = ListEdits::default();
        let mut kept: Vec<&ListEntry<'_>> = Vec::new();
        let mut list_end = self.entries[0].position;
        for entry in &self.entries {
            let is_first_list = entry.position == list_end;
            list_end = if is_first_list { entry.item_end } else { list_end };
            let is_wanted = !entry.title.is_empty() && wanted.contains_key(entry.key);
            // A second list may name the sections in another order, such as by their owners.
            let is_other_list = !is_first_list && sections.contains(entry.key);
            if !is_wanted && (is_other_list || !entry.is_plain()) {
                continue;
            }
            let is_ordered = kept.last().is_none_or(|above| above.key < entry.key);
            if is_wanted && (is_ordered || !is_sortable || is_numbered(entry)) {
                wanted.remove(entry.key);
                kept.push(entry);
                continue;
            }
            edits.removed.insert(entry.position);
            if is_wanted {
                wanted.insert(entry.key, entry.text.to_owned());
            }
        }
        let is_sorted =
            kept.is_sorted_by_key(|entry| entry.key) && !kept.iter().any(|e| is_numbered(e));
        for (key, text) in wanted {
            let next = kept.iter().find(|entry| is_sorted && entry.key > key);
            let (position, prefix) = match (next, kept.last()) {
                _ if key.is_empty() => (self.entries[0].position, String::new()),
                (Some(next), _) => (next.position, next.prefix.to_owned()),
                (None, Some(last)) => {
                    let added = edits.inserted.get(&last.item_end).map_or(0, Vec::len);
                    (last.item_end, prefix_after(last.prefix, added + 1))
                }
                (None, None) => (self.entries[0].position, "- ".to_owned()),
            };
            edits.inserted.entry(position).or_default().push(format!("{prefix}{text}"));
        }
        edits
    }

    fn apply(&self, edits: &ListEdits) -> String {
        let line_end = lines::line_end(self.source);
        let start = self.lines.first().map_or(self.source.len(), |line| line.start);
        let mut edited = self.source[..start].to_owned();
        for position in 0..=self.lines.len() {
            for text in edits.inserted.get(&position).into_iter().flatten() {
                if edited.len() > start && !edited.ends_with(['\n', '\r']) {
                    edited.push_str(line_end);
                }
                // After a lone CR, an LF would complete a CRLF.
                let is_after_cr = text.is_empty() && edited.ends_with('\r');
                edited.push_str(text);
                edited.push_str(if is_after_cr { "\r" } else { line_end });
            }
            if let Some(line) = self.lines.get(position)
                && !edits.removed.contains(&position)
            {
                edited.push_str(&self.source[line.start..line.next]);
            }
        }
        // An entry at the end of a file without a last line end gets none.
        let is_last = edits.inserted.contains_key(&self.lines.len()) && !self.entries.is_empty();
        if is_last && !self.source.ends_with(['\n', '\r']) {
            edited.truncate(edited.len() - line_end.len());
        }
        edited
    }
}

/// The list marker of an item after `steps` others: `3. ` two steps after `1. `.
fn prefix_after(prefix: &str, steps: usize) -> String {
    let marker = prefix.trim_start();
    let digits = marker.bytes().take_while(u8::is_ascii_digit).count();
    match marker[..digits].parse::<usize>() {
        Ok(number) => {
            let indent = &prefix[..prefix.len() - marker.len()];
            format!("{indent}{}{}", number + steps, &marker[digits..])
        }
        Err(_) => prefix.to_owned(),
    }
}

/// Title and key of an entry `{Title} (key: {key})`, which may have text after it.
fn parse_entry(text: &str) -> Option<(&str, &str)> {
    let (title, rest) = text.split_once("(key:")?;
    let (key, _) = rest.split_once(')')?;
    let key = key.trim().trim_matches('`').trim();
    (!key.is_empty()).then_some((title.trim(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(sections: &[(&str, Option<&str>)]) -> SectionTitles {
        sections.iter().map(|(key, title)| ((*key).to_owned(), title.map(str::to_owned))).collect()
    }

    #[track_caller]
    fn check(source: &str, sections: &[(&str, Option<&str>)], expected: &str) {
        let edited = update_section_list(source, &titles(sections)).body;
        assert_eq!(edited.as_deref().unwrap_or(source), expected);
        assert_eq!(
            update_section_list(expected, &titles(sections)).body,
            None,
            "a true list stays"
        );
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
    fn entry_with_text_of_the_author_is_never_removed() {
        for kept in [
            "* A (key: a): see Bob",
            "- Gone (key: gone) <!-- keep -->",
            "- Gone (key: gone)\n  - owner Ann",
            "Contacts:\n\n* A (key: a) is asked from Ann",
            "### By owner\n\n- Ann: A (key: a)",
        ] {
            let source = format!("## Sections\n\n- A (key: a)\n\n{kept}\n");
            let update = update_section_list(&source, &titles(&[("a", None), ("b", None)]));
            let edited = update.body.unwrap();
            assert!(edited.contains(kept), "{edited}");
            assert_eq!(edited.matches("- B (key: b)\n").count(), 1, "{edited}");
        }
    }

    // S1: S.3.5
    #[test]
    fn list_update_twice_changes_nothing() {
        for source in ["```\nx", "<!--\n", "## Sections\n\n- A (key: a)\n"] {
            for key in ["a", "_", "-", "`", "x(key:", "m "] {
                let sections = titles(&[(key, None)]);
                let once = update_section_list(source, &sections).body.unwrap_or(source.to_owned());
                assert_eq!(update_section_list(&once, &sections).body, None, "{source:?} {key:?}");
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

    // S1: S.3.5, D.3.5
    #[test]
    fn list_update_changes_single_lines_between_notes() {
        let page = |list: &str| {
            format!("# R\n\n## Sections\n\n{list}\nText below.\n\n## Next\n- N (key: n)\n")
        };
        for (list, updated) in [
            (
                "- B (key: b)\n  - owner: Ann\n  Reviewed in May.\n- D (key: d)\n",
                "- A (key: a)\n- B (key: b)\n  - owner: Ann\n  Reviewed in May.\n- D (key: d)\n",
            ),
            (
                "- A (key: a)\n\n  More of it.\n\n  - owner\n\n- B (key: b)\n  lazy\nlazy\n",
                "- A (key: a)\n\n  More of it.\n\n  - owner\n\n- B (key: b)\n  lazy\nlazy\n- D (key: d)\n",
            ),
            (
                "1. D (key: d)\n   note\n2. B (key: b)\n",
                "1. D (key: d)\n   note\n2. B (key: b)\n3. A (key: a)\n",
            ),
            ("8) A (key: a)\n9) X (key: x)\n", "8) A (key: a)\n9) B (key: b)\n10) D (key: d)\n"),
            (
                "* Old (key: old)\n  - its note\n* B (key: b), see (key: old)\n",
                "* Old (key: old)\n  - its note\n* A (key: a)\n* B (key: b), see (key: old)\n* D (key: d)\n",
            ),
            (
                "- B (key: b)\n- A (key: a)\n  note on A\n",
                "- B (key: b)\n- A (key: a)\n  note on A\n- D (key: d)\n",
            ),
            (
                "+ [ ] B (key: `b`) - since May\n+ [x] A (key: a): *done*\n",
                "+ [x] A (key: a): *done*\n+ [ ] B (key: `b`) - since May\n+ D (key: d)\n",
            ),
            (
                "Money:\n\n- B (key: b)\n\nLaw:\n\n- A (key: a)\n- Again (key: b)\n",
                "Money:\n\n- B (key: b)\n\nLaw:\n\n- A (key: a)\n- D (key: d)\n- Again (key: b)\n",
            ),
            (
                "### Money\n- A (key: a)\n### Law\n- D (key: d)\n<!-- note -->\n",
                "### Money\n- A (key: a)\n### Law\n- B (key: b)\n- D (key: d)\n<!-- note -->\n",
            ),
            (
                "- Group\n  - A (key: a)\n    <br>\n  - D (key: d)\n- My note\n",
                "- Group\n  - A (key: a)\n    <br>\n  - B (key: b)\n  - D (key: d)\n- My note\n",
            ),
            (
                "No sections defined yet.\nReally.\n",
                "- A (key: a)\n- B (key: b)\n- D (key: d)\nReally.\n",
            ),
            (
                "- (key: b)\n- A (key: a)\n  ```\n  - X (key: x)\n  ```\n",
                "- A (key: a)\n  ```\n  - X (key: x)\n  ```\n- B (key: b)\n- D (key: d)\n",
            ),
            (
                "- A (key: a)\n\n  ~~~\n- B (key: b)\n> - Q (key: q)\n",
                "- A (key: a)\n\n  ~~~\n- B (key: b)\n- D (key: d)\n> - Q (key: q)\n",
            ),
        ] {
            let sections = [("a", None), ("b", None), ("d", None)];
            check(&page(list), &sections, &page(updated));
            let crlf = |text: &str| page(text).replace('\n', "\r\n");
            check(&crlf(list), &sections, &crlf(updated));
        }
    }

    // S1: S.3.5
    #[test]
    fn list_in_another_form_stays_below_a_complete_one() {
        let sections = titles(&[("a", None), ("b", Some("(key: x) of B"))]);
        for list in [
            "| section | key |\n|---|---|\n| A | a |",
            "<ul>\n<li>A (key: a)</li>\n</ul>",
            "A (key: a), B (key: b)",
            "> - A (key: a)",
            "- A: a\n- B: b",
        ] {
            let source = format!("## Sections\n\n{list}\n\n\n# Next\n");
            let update = update_section_list(&source, &sections);
            let expected =
                format!("## Sections\n\n{list}\n\n- A (key: a)\n- B (key: b)\n\n\n# Next\n");
            assert_eq!(update.body.unwrap(), expected);
            assert!(update.note.unwrap().starts_with("A list of all sections was added"));
        }
        for source in ["## Sections\n\n<!-- - A (key: a)\n", "a\n\n```\n## Sections\n"] {
            let update = update_section_list(source, &sections);
            let note = update.note.unwrap();
            assert_eq!(
                (update.body, note.contains("line 3 opens a code fence")),
                (None, true),
                "{note}"
            );
        }
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
