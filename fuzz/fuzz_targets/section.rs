//! Edits of any section file: what was set reads back, and nothing else changes.
//!
//! Input: `index NUL text NUL file`. An index that is none stands for one that the file has.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::sections::index::Index;
use reqlore_domain::sections::set::Set;
use reqlore_domain::sections::{Deleted, MAX_TEXT, Requirement, Section, title};
use reqlore_domain::bounded::BoundedString;

/// Off, narrow so that short texts are wrapped too, and as it is by default.
const COLUMNS: [usize; 3] = [0, 20, 120];

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (index, text, file) = (part(), part(), part());
    let Ok(source) = str::from_utf8(file) else { return };
    let section = Section::of(source);
    look_at_everything(&section);

    let Some(index) = an_index(index, &section) else { return };
    if let Some(deleted) = section.delete(&index) {
        check_delete(source, &section, &deleted);
    }
    let text = String::from_utf8(text.to_owned()).ok().map(BoundedString::<MAX_TEXT>::try_from);
    let Some(Ok(text)) = text else { return };
    let columns = COLUMNS[text.as_str().len() % COLUMNS.len()];
    match section.set(&index, text.as_str(), columns) {
        Ok(set) => check_set(source, &section, &index, text.as_str(), columns, &set),
        Err(error) => assert_eq!(error.kind, ErrorKind::Refused, "{error:?}"),
    }
});

fn look_at_everything(section: &Section<'_>) {
    let _ = section.findings();
    for requirement in section.requirements() {
        assert!(section.find(requirement.index).is_some());
        let stored = section.stored(requirement);
        assert!(stored.starts_with(&format!("**{}.**", requirement.index)));
        let _ = section.text(requirement);
    }
}

fn an_index(bytes: &[u8], section: &Section<'_>) -> Option<Index> {
    let given = String::from_utf8(bytes.to_owned()).ok().map(Index::try_from);
    if let Some(Ok(index)) = given {
        return Some(index);
    }
    let all = section.requirements();
    let one = all.get(bytes.len().checked_rem(all.len())?)?;
    Some(Index::try_from(one.index.to_owned()).expect("the index of a requirement"))
}

fn check_set(
    source: &str,
    before: &Section<'_>,
    index: &Index,
    text: &str,
    columns: usize,
    set: &Set,
) {
    let after = Section::of(&set.body);
    let found = after.find(&set.index).expect("what was set is there");
    assert_eq!(after.stored(found), set.requirement);
    assert_eq!(after.text(found), set.text, "the text reads back");
    if columns == 0 {
        assert_eq!(set.text, normalised(text), "the text is the given one");
    }

    let place = after.requirements().iter().position(|r| r == found).expect("its place");
    let replaced = before.find(index.as_str());
    let replaced = replaced.and_then(|r| before.requirements().iter().position(|b| b == r));
    assert_eq!(texts(before, replaced), texts(&after, Some(place)), "other texts stay");
    assert_eq!(title(source), title(&set.body), "the title stays");
    if set.renumbered.is_empty() {
        let old = replaced.map_or("", |at| before.stored(&before.requirements()[at]));
        assert_only_changed(source, &set.body, old, &set.requirement);
    }

    let index = Index::try_from(set.index.clone()).expect("an index");
    let again = after.set(&index, text, columns).expect("what was written can be written again");
    // In a file of mixed line ends the edit itself may turn the majority.
    assert_eq!(unix(&again.body), unix(&set.body), "the same again changes nothing");

    let deleted = after.delete(&index).expect("what was set can be deleted");
    assert_eq!(deleted.text, set.text);
    assert_eq!(deleted.requirement, set.requirement);
    check_delete(&set.body, &after, &deleted);
}

fn check_delete(source: &str, before: &Section<'_>, deleted: &Deleted) {
    let body = deleted.body.as_deref().unwrap_or_default();
    let after = Section::of(body);
    let place = before.requirements().iter().position(|r| r.index == deleted.index);
    assert_eq!(texts(before, place), texts(&after, None), "other requirements stay");
    assert_eq!(title(source), title(body), "the title stays");
    if deleted.body.is_some() {
        assert_only_changed(source, body, &deleted.requirement, "");
    }
}

/// The stored texts without their markers, save one.
fn texts<'a>(section: &Section<'a>, save: Option<usize>) -> Vec<&'a str> {
    let text = |r: &Requirement<'_>| &section.stored(r)[r.index.len() + "**.**".len()..];
    let all = section.requirements().iter().enumerate();
    all.filter(|(at, _)| Some(*at) != save).map(|(_, r)| text(r)).collect()
}

/// `after` is `before` with one piece exchanged, which is `old` and `new` with blanks around them.
fn assert_only_changed(before: &str, after: &str, old: &str, new: &str) {
    let head = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
    let tail = before.bytes().rev().zip(after.bytes().rev()).take_while(|(a, b)| a == b).count();
    let fits = |at: usize| {
        // White space around the old piece may have gone with it.
        let above = before[..at].trim_end().len();
        let below = before[at + old.len()..].trim_start().len();
        let middle = after.get(above..after.len().saturating_sub(below));
        above <= head && below <= tail && middle.is_some_and(|piece| piece.trim() == new.trim())
    };
    let found = if old.is_empty() {
        (0..=before.len()).filter(|at| before.is_char_boundary(*at)).any(fits)
    } else {
        before.match_indices(old).any(|(at, _)| fits(at))
    };
    assert!(found, "everything else stays\nbefore {before:?}\nafter {after:?}");
}

fn unix(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn normalised(text: &str) -> String {
    unix(text).trim_matches([' ', '\t', '\n']).to_owned()
}
