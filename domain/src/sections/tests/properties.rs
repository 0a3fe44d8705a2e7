//! Any sequence of set and delete on any markdown: every byte that was not asked for stays.

use proptest::prelude::*;

use super::*;

/// Markdown that is full of what could be mistaken for structure.
fn markdown() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        3 => (1..20_u8).prop_map(|n| format!("**{n}.** text {n}")),
        1 => "[RG]\\.[1-9]".prop_map(|n| format!("**{n}.** text")),
        1 => "#{1,3} [A-C]{1,5}",
        1 => Just("```".to_owned()),
        1 => "[-=]{3,5}",
        1 => Just("**bad token.** x".to_owned()),
        1 => Just("**12345678901.** x".to_owned()),
        2 => Just(String::new()),
        4 => "[ -~\u{a0}\u{2028}é]{0,30}",
    ];
    let end = prop_oneof![4 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r")];
    (any::<bool>(), proptest::collection::vec((line, end), 0..25), any::<bool>()).prop_map(
        |(bom, lines, last)| {
            let mut text = String::from(if bom { "\u{feff}" } else { "" });
            let count = lines.len();
            for (at, (line, end)) in lines.into_iter().enumerate() {
                text.push_str(&line);
                if last || at + 1 < count {
                    text.push_str(end);
                }
            }
            text
        },
    )
}

fn requirement_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        3 => "[ -~]{0,40}",
        1 => "([a-z]{1,12} ){10,40}",
        1 => Just("**9.** forged".to_owned()),
        1 => Just("## Heading".to_owned()),
        1 => Just("```".to_owned()),
        1 => "[-=]{3}",
        1 => Just(String::new()),
    ];
    proptest::collection::vec(line, 1..6)
        .prop_map(|lines| lines.join("\n"))
        .prop_filter("not blank", |text| !text.trim().is_empty())
}

/// The lines of a file that no requirement claims, and the texts of all requirements but one.
fn untouched(source: &str, but: Option<usize>) -> (Vec<String>, Vec<String>) {
    let section = Section::of(source);
    let mut rest = String::new();
    let mut at = 0;
    for requirement in section.requirements() {
        rest.push_str(&source[at..requirement.block.start]);
        at = requirement.block.end;
    }
    rest.push_str(&source[at..]);
    let prose = markdown::lines(&rest).map(|l| l.text.to_owned());
    let prose = prose.filter(|l| !markdown::is_blank(l)).collect();
    let texts = section.requirements().iter().enumerate().filter(|(at, _)| Some(*at) != but);
    let behind = |r: &Requirement<'_>| section.stored(r)[r.index.len() + 5..].to_owned();
    (prose, texts.map(|(_, r)| behind(r)).collect())
}

/// Is `edited` the source with at most one piece put in place of another one, the piece that is
/// gone lying within `claimed` and the white space around it?
fn differs_within(source: &str, edited: &str, claimed: Range<usize>) -> bool {
    let (old, new) = (source.as_bytes(), edited.as_bytes());
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let suffix = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let is_gap = |range: Range<usize>| old[range].iter().all(u8::is_ascii_whitespace);
    let start = prefix.min(claimed.start);
    let end = (old.len() - suffix).max(claimed.end);
    let (before, behind) = (start..claimed.start, claimed.end..end);
    // What was equal by chance at the seam may be counted on either side.
    prefix + suffix >= old.len() || (is_gap(before) && is_gap(behind) && prefix >= start)
}

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

/// Sets, and holds the outcome against everything that is promised of it.
fn checked_set(source: &str, at: &str, text: &str) -> Result<String, TestCaseError> {
    let section = Section::of(source);
    let Ok(set) = section.set(&index(at), text, text::COLUMNS) else {
        prop_assert!(section.outline.open.is_some());
        return Ok(source.to_owned());
    };
    let edited = Section::of(&set.body);
    let position = edited.requirements().iter().position(|r| r.index == set.index).unwrap();
    let requirement = &edited.requirements()[position];
    prop_assert_eq!(edited.text(requirement), set.text.clone());
    prop_assert_eq!(edited.stored(requirement), set.requirement);
    prop_assert_eq!(words(&set.text), words(text), "wrapping changes white space alone");
    let found = section.find(at);
    let before = found.and_then(|f| section.requirements().iter().position(|r| r == f));
    prop_assert_eq!(untouched(source, before), untouched(&set.body, Some(position)));
    if set.renumbered.is_empty() {
        let claimed =
            found.map_or(requirement.block.start..requirement.block.start, |f| f.block.clone());
        let claimed = claimed.start.min(source.len())..claimed.end.min(source.len());
        prop_assert!(differs_within(source, &set.body, claimed), "{:?}", set.body);
    }
    let again = edited.set(&index(&set.index), &set.text, text::COLUMNS).unwrap();
    prop_assert_eq!(&again.body, &set.body, "setting the same again changes nothing");
    Ok(set.body)
}

/// Deletes the picked requirement, likewise.
fn checked_delete(source: &str, pick: prop::sample::Index) -> Result<String, TestCaseError> {
    let section = Section::of(source);
    if section.requirements().is_empty() {
        return Ok(source.to_owned());
    }
    let picked = &section.requirements()[pick.index(section.requirements().len())];
    let first = section.find(picked.index).unwrap();
    let position = section.requirements().iter().position(|r| r == first);
    let deleted = section.delete(&index(picked.index)).unwrap();
    let Some(body) = deleted.body else {
        let bom = "\u{feff}".to_owned();
        let nothing_left = untouched(source, position).0.iter().all(|line| *line == bom);
        prop_assert!(nothing_left, "more than white space went");
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
enum Edit {
    Set(String, String),
    Delete(prop::sample::Index),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let set = (any_index(), requirement_text()).prop_map(|(at, text)| Edit::Set(at, text));
    let delete = any::<prop::sample::Index>().prop_map(Edit::Delete);
    proptest::collection::vec(prop_oneof![2 => set, 1 => delete], 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    // S1: S.3.2, S.3.3, S.3.4, S.3.6, R.2, D.3.3, D.3.4
    #[test]
    fn any_sequence_of_edits_keeps_every_other_byte(source in markdown(), edits in edits()) {
        let mut source = source;
        for edit in edits {
            source = match edit {
                Edit::Set(at, text) => checked_set(&source, &at, &text)?,
                Edit::Delete(pick) => checked_delete(&source, pick)?,
            };
        }
    }
}
