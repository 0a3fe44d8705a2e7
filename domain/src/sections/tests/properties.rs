//! Any sequence of edits on any Markdown keeps all other bytes.

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::instructions::{SectionTitles, update_section_list};
use super::*;

/// Markdown with many lines that resemble structure.
fn any_markdown() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        3 => (1..20_u8).prop_map(|n| format!("**{n}.** text {n}")),
        1 => (1..9_u8).prop_map(|n| format!("**{n}.** **{n}.** twice")),
        1 => "([RG]\\.|FR-|1-)[0-9]{1,2}".prop_map(|n| format!("**{n}.** text")),
        1 => "(Note|R\\.a|[a-z]{2,12})".prop_map(|word| format!("**{word}.** text")),
        1 => "\\\\{1,2}(\\*\\*9\\.\\*\\*|#|```|---)( x)?",
        1 => "#{1,3} [A-C]{1,5}",
        1 => Just("```".to_owned()),
        1 => "[-=]{3,5}",
        2 => "( |> |- |1\\. |\\*\\*[1-9]\\.\\*\\* )?(<(!--|\\?|!X|!\\[CDATA\\[|pre|/?div|a b=\"|a)>?|`{1,2}|~~~|-->|\\?>|\\]\\]>|</pre>|\">)( x)?",
        1 => "\\*\\*[1-9]\\.\\*\\* (a `|b` c|<!-- d|e -->|``|<b|c>)",
        1 => Just("**bad token.** x".to_owned()),
        1 => Just("**12345678901.** x".to_owned()),
        2 => Just(String::new()),
        4 => "[ -~\u{a0}\u{2028}é]{0,30}",
    ];
    let line_end = prop_oneof![4 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r")];
    let lines = proptest::collection::vec((line, line_end), 0..25);
    (any::<bool>(), lines, any::<bool>()).prop_map(|(has_bom, lines, ends_with_line_end)| {
        let mut text = String::from(if has_bom { "\u{feff}" } else { "" });
        let count = lines.len();
        for (at, (line, line_end)) in lines.into_iter().enumerate() {
            text.push_str(&line);
            if ends_with_line_end || at + 1 < count {
                text.push_str(line_end);
            }
        }
        text
    })
}

fn any_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        3 => "[ -~]{0,40}",
        1 => "([a-z]{1,12} ){10,40}",
        1 => Just("**9.** forged".to_owned()),
        1 => Just("**Note.** bold".to_owned()),
        1 => "\\\\{1,2}(\\*\\*9\\.\\*\\*|#|```|---)( x)?",
        1 => Just("## Heading".to_owned()),
        1 => Just("```".to_owned()),
        1 => "[-=]{3}",
        1 => Just(String::new()),
    ];
    proptest::collection::vec(line, 1..6)
        .prop_map(|lines| lines.join("\n"))
        .prop_filter("not blank", |text| !text.trim().is_empty())
}

/// The lines outside of requirements, and the texts of all requirements except one.
fn untouched(source: &str, except: Option<usize>) -> (Vec<String>, Vec<String>) {
    let section = Section::parse(source);
    let mut outside = String::new();
    let mut texts = Vec::new();
    let mut end = 0;
    for (at, requirement) in section.requirements().iter().enumerate() {
        outside.push_str(&source[end..requirement.block.start]);
        end = requirement.block.end;
        if Some(at) != except {
            let after_marker = requirement.index.len() + "**.**".len();
            texts.push(section.stored_text(requirement)[after_marker..].to_owned());
        }
    }
    outside.push_str(&source[end..]);
    let lines = lines::source_lines(&outside).filter(|line| !markdown::is_blank(line.text));
    (lines.map(|line| line.text.to_owned()).collect(), texts)
}

/// True if `edited` replaces at most one range of the source, within `claimed` and the white space
/// around it.
fn differs_within(source: &str, edited: &str, claimed: Range<usize>) -> bool {
    let (old, new) = (source.as_bytes(), edited.as_bytes());
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let suffix = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    if prefix + suffix >= old.len() {
        return true;
    }
    // Bytes at the border that are equal by chance may belong to either side.
    let start = prefix.min(claimed.start);
    let end = (old.len() - suffix).max(claimed.end);
    let before = &old[start..claimed.start];
    let after = &old[claimed.end..end];
    prefix >= start && before.iter().chain(after).all(u8::is_ascii_whitespace)
}

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

/// Sets a requirement and checks the outcome.
fn checked_set(source: &str, at: &str, text: &str) -> Result<String, TestCaseError> {
    let section = Section::parse(source);
    let Ok(set) = section.set(&index(at), text, text::WRAP_COLUMNS) else {
        prop_assert!(section.outline.unclosed_at.is_some());
        return Ok(source.to_owned());
    };
    let edited = Section::parse(&set.body);
    let position = edited.requirements().iter().position(|r| r.index == set.index).unwrap();
    let requirement = &edited.requirements()[position];
    prop_assert_eq!(edited.stored_text(requirement), set.requirement.as_str());
    let given = upsert::strip_own_marker(text, at).unwrap();
    prop_assert_eq!(words(&set.text), words(given), "wrapping changes only white space");
    if !text.contains('\\') {
        prop_assert_eq!(edited.text(requirement), set.text.clone());
    }
    let existing = section.find(at);
    let old_position =
        existing.and_then(|existing| section.requirements().iter().position(|r| r == existing));
    prop_assert_eq!(untouched(source, old_position), untouched(&set.body, Some(position)));
    if set.renumbered.is_empty() {
        let start = requirement.block.start;
        let claimed = existing.map_or(start..start, |existing| existing.block.clone());
        let claimed = claimed.start.min(source.len())..claimed.end.min(source.len());
        prop_assert!(differs_within(source, &set.body, claimed), "{:?}", set.body);
    }
    check_write_back(&set.body)?;
    Ok(set.body)
}

/// Writes each requirement back in every form in which a caller reads it.
fn check_write_back(source: &str) -> Result<(), TestCaseError> {
    let section = Section::parse(source);
    for requirement in section.requirements() {
        // Other requirements of the index are not found, and disorder is repaired.
        if section.diagnostics().iter().any(|problem| problem.message.contains("comes after")) {
            return Ok(());
        }
        let stored = section.stored_text(requirement);
        let without_marker = &stored[requirement.index.len() + "**.**".len()..];
        let read = section.text(requirement);
        for text in [stored, without_marker, &read] {
            if text.trim().is_empty() || read.is_empty() {
                continue;
            }
            let Ok(set) = section.set(&index(requirement.index), text, text::WRAP_COLUMNS) else {
                prop_assert!(section.outline.unclosed_at.is_some());
                continue;
            };
            prop_assert_eq!(set.body.as_str(), source, "writing back {:?}", text);
        }
    }
    Ok(())
}

/// Deletes a requirement and checks the outcome.
fn checked_delete(source: &str, pick: prop::sample::Index) -> Result<String, TestCaseError> {
    let section = Section::parse(source);
    if section.requirements().is_empty() {
        return Ok(source.to_owned());
    }
    let picked = &section.requirements()[pick.index(section.requirements().len())];
    // Of requirements with equal indices, the first is deleted.
    let first = section.find(picked.index).unwrap();
    let position = section.requirements().iter().position(|r| r == first);
    let deleted = section.delete(&index(picked.index)).unwrap();
    let Some(body) = deleted.body else {
        let bom = "\u{feff}".to_owned();
        let is_empty = untouched(source, position).0.iter().all(|line| *line == bom);
        prop_assert!(is_empty, "more than white space was deleted");
        return Ok(String::new());
    };
    prop_assert_eq!(untouched(source, position), untouched(&body, None));
    prop_assert!(differs_within(source, &body, first.block.clone()), "{:?}", body);
    Ok(body)
}

fn any_index() -> impl Strategy<Value = String> {
    prop_oneof!["[1-9]{1,2}", "[RGX]\\.[1-9]"]
}

#[derive(Debug, Clone)]
enum SectionEdit {
    Set(String, String),
    Delete(prop::sample::Index),
}

fn any_edits() -> impl Strategy<Value = Vec<SectionEdit>> {
    let set = (any_index(), any_text()).prop_map(|(at, text)| SectionEdit::Set(at, text));
    let delete = any::<prop::sample::Index>().prop_map(SectionEdit::Delete);
    proptest::collection::vec(prop_oneof![2 => set, 1 => delete], 1..8)
}

/// AGENTS.md with lines of an author between the entries. The key of an example is `example`.
fn any_instructions() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        6 => "(  )?([-*+]|[1-3][.)]) (\\[ \\] )?(My )?[A-C]\\.? \\(key: ?([a-f]|`[a-f]`|[a-f]{2})\\)( - Ann, (see )?\\(b\\))?",
        1 => "- \\(key: [a-f]\\)",
        1 => Just("No sections defined yet.".to_owned()),
        2 => "  ([-*] owner|[1-9]\\. |> )?[a-c ]{0,5}",
        2 => "([-*+] |[1-9]\\. |> |### )?[a-c]{1,5}",
        1 => Just("```\n- A (key: example)\n```".to_owned()),
        1 => Just("<pre>\n\n- A (key: example)\n</pre>".to_owned()),
        1 => Just("a <!-- b\n\n-->\n<!--\n- A (key: example)\n-->".to_owned()),
        1 => "> [-*] A \\(key: example\\)",
        3 => " {0,2}",
    ];
    let lines = proptest::collection::vec(line, 0..12);
    let start =
        prop_oneof!["\u{feff}?# A\n\n\\*\\*R\\.1\\.\\*\\* a\n\n## Sections\n", "## Sections\n\n"];
    let end = prop_oneof!["", "\n## B\n\n- A \\(key: example\\)\n", "\n\na"];
    let line_end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\r")];
    (start, lines, end, line_end).prop_map(|(start, lines, end, line_end)| {
        (start + &lines.join("\n") + &end).replace('\n', line_end)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn markers_are_the_lines_of_text_for_a_markdown_parser(source in any_markdown()) {
        prop_assume!(!source.trim_start_matches('\u{feff}').starts_with("---"));
        let outline = markdown::parse_outline(&source);
        let mut markers = Vec::new();
        for element in outline.elements {
            if let OutlineElement::Marker { start, .. } = element {
                markers.push(start);
            }
        }
        let mut expected = text_lines(&source);
        expected.retain(|start| {
            let line = lines::source_lines(&source[*start..]).next();
            line.is_some_and(|line| markdown::parse_marker(line.text).is_some())
        });
        prop_assert_eq!(markers, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn reading_a_section_and_writing_it_back_is_the_identity(source in any_markdown()) {
        check_write_back(&source)?;
    }

    // S1: S.3.2, S.3.3, S.3.4, S.3.6, R.2, D.3.3, D.3.4
    #[test]
    fn any_sequence_of_edits_keeps_all_other_bytes(source in any_markdown(), edits in any_edits()) {
        let mut source = source;
        for edit in edits {
            source = match edit {
                SectionEdit::Set(at, text) => checked_set(&source, &at, &text)?,
                SectionEdit::Delete(pick) => checked_delete(&source, pick)?,
            };
        }
    }
}

/// The starts of the lines that a Markdown parser reads as text: in a paragraph or an underlined
/// heading, and not in a code span, a comment or a tag.
fn text_lines(source: &str) -> Vec<usize> {
    let body_start = if source.starts_with('\u{feff}') { 3 } else { 0 };
    let input = verbatim::parser_input(&source[body_start..]);
    let mut is_text = vec![false; input.len()];
    for (event, range) in Parser::new_ext(&input, Options::empty()).into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::Item) => {
                is_text[range].fill(true);
            }
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock) => is_text[range].fill(false),
            Event::Code(_) | Event::InlineHtml(_) => is_text[range][1..].fill(false),
            _ => {}
        }
    }
    let starts = lines::source_lines(source).map(|line| line.start);
    starts.filter(|start| is_text[*start - body_start]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    // S1: S.3.5, D.3.5
    #[test]
    fn list_update_keeps_all_other_lines(source in any_instructions(), keys in "[a-f]{0,4}") {
        let sections: SectionTitles = keys.chars().map(|key| (key.to_string(), None)).collect();
        let update = update_section_list(&source, &sections);
        let Some(edited) = update.body else {
            prop_assert_eq!(update.note.is_some(), false, "{:?}", update.note);
            return Ok(());
        };
        let lines_of = |text: &str| {
            let lines = lines::source_lines(text).map(|line| text[line.start..line.next].to_owned());
            let is_entry = |line: &str| {
                line.contains("(key:") && !line.contains("example")
                    || line.trim() == "No sections defined yet."
            };
            lines.filter(|line| !is_entry(line)).collect::<Vec<_>>()
        };
        let mut after = lines_of(&edited).into_iter();
        for line in lines_of(&source) {
            // The last line may have got a line end.
            let is_kept = |other: String| {
                other.strip_prefix(&line).is_some_and(|end| end.trim().is_empty())
            };
            prop_assert!(after.any(is_kept), "lost {:?} in {:?}", line, edited);
        }
        for key in sections.keys() {
let keys = edited.replace([' ', '`'], "");
            prop_assert!(keys.contains(&format!("(key:{key})")), "{:?}", edited);
        }
    }
}
