//! In any section file, a requirement that was set can be read, and an edit changes nothing else.
//!
//! Input: `index NUL text NUL file`. An invalid index selects one of the file's indices.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::sections::requirement_index::RequirementIndex;
use reqlore_domain::sections::upsert::SetOutcome;
use reqlore_domain::sections::{
    DeleteOutcome, MAX_REQUIREMENT_CHARS, Requirement, Section, first_heading,
};

/// Widths of wrapping: off, narrow enough to wrap short texts, and the default.
const COLUMNS: [usize; 3] = [0, 20, 120];

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (index, text, file) = (part(), part(), part());
    let Ok(source) = str::from_utf8(file) else { return };
    let section = Section::parse(source);
    read_everything(&section);

    let Some(index) = index_or_existing(index, &section) else { return };
    if let Some(deleted) = section.delete(&index) {
        check_delete(source, &section, &deleted);
    }
    let text = String::from_utf8(text.to_owned())
        .ok()
        .map(BoundedString::<MAX_REQUIREMENT_CHARS>::try_from);
    let Some(Ok(text)) = text else { return };
    let columns = COLUMNS[text.as_str().len() % COLUMNS.len()];
    match section.set(&index, text.as_str(), columns) {
        Ok(set) => check_set(source, &section, &index, text.as_str(), columns, &set),
        // A text that is only the marker.
        Err(error) if error.kind == ErrorKind::InvalidArgument => {
            assert!(text.as_str().trim_start().starts_with("**"), "{error:?}");
        }
        Err(error) => assert_eq!(error.kind, ErrorKind::Refused, "{error:?}"),
    }
});

fn read_everything(section: &Section<'_>) {
    let _ = section.diagnostics();
    for requirement in section.requirements() {
        assert!(section.find(requirement.index).is_some());
        let stored = section.stored_text(requirement);
        assert!(stored.starts_with(&format!("**{}.**", requirement.index)));
        let _ = section.text(requirement);
    }
}

fn index_or_existing(bytes: &[u8], section: &Section<'_>) -> Option<RequirementIndex> {
    let parsed = String::from_utf8(bytes.to_owned()).ok().map(RequirementIndex::try_from);
    if let Some(Ok(index)) = parsed {
        return Some(index);
    }
    let requirements = section.requirements();
    let existing = requirements.get(bytes.len().checked_rem(requirements.len())?)?;
    Some(RequirementIndex::try_from(existing.index.to_owned()).expect("the index of a requirement"))
}

fn check_set(
    source: &str,
    before: &Section<'_>,
    index: &RequirementIndex,
    text: &str,
    columns: usize,
    set: &SetOutcome,
) {
    let after = Section::parse(&set.body);
    let found = after.find(&set.index).expect("the requirement is stored");
    assert_eq!(after.stored_text(found), set.requirement);
    // A backslash may be an escape, and the text may begin with its own marker.
    let is_plain = !text.contains('\\') && !normalized(text).starts_with("**");
    if is_plain {
        assert_eq!(after.text(found), set.text, "the stored text is returned");
        if columns == 0 {
            assert_eq!(set.text, normalized(text), "the text is unchanged");
        }
    }

    let position = after.requirements().iter().position(|r| r == found).expect("a position");
    let replaced = before.find(index.as_str());
    let replaced = replaced.and_then(|r| before.requirements().iter().position(|b| b == r));
    assert_eq!(
        texts_except(before, replaced),
        texts_except(&after, Some(position)),
        "other texts are unchanged"
    );
    assert_eq!(first_heading(source), first_heading(&set.body), "the title is unchanged");
    if set.renumbered.is_empty() {
        let old = replaced.map_or("", |at| before.stored_text(&before.requirements()[at]));
        assert_only_changed(source, &set.body, old, &set.requirement);
    }

    let index = RequirementIndex::try_from(set.index.clone()).expect("an index");
    for read in [&set.requirement, &set.text, &after.text(found)] {
        let repeated = after.set(&index, read, columns).expect("a stored text can be set again");
        assert_eq!(repeated.body, set.body, "writing back {read:?} changes nothing");
    }

    let deleted = after.delete(&index).expect("a stored requirement can be deleted");
    assert_eq!(deleted.text, after.text(found));
    assert_eq!(deleted.requirement, set.requirement);
    check_delete(&set.body, &after, &deleted);
}

fn check_delete(source: &str, before: &Section<'_>, deleted: &DeleteOutcome) {
    let body = deleted.body.as_deref().unwrap_or_default();
    let after = Section::parse(body);
    let position = before.requirements().iter().position(|r| r.index == deleted.index);
    assert_eq!(
        texts_except(before, position),
        texts_except(&after, None),
        "other requirements are unchanged"
    );
    assert_eq!(first_heading(source), first_heading(body), "the title is unchanged");
    if deleted.body.is_some() {
        assert_only_changed(source, body, &deleted.requirement, "");
    }
}

/// The stored texts without their markers, except that of one requirement.
fn texts_except<'a>(section: &Section<'a>, except: Option<usize>) -> Vec<&'a str> {
    let text = |r: &Requirement<'_>| &section.stored_text(r)[r.index.len() + "**.**".len()..];
    let all = section.requirements().iter().enumerate();
    all.filter(|(at, _)| Some(*at) != except).map(|(_, r)| text(r)).collect()
}

/// Asserts that `after` is `before` with one part, `old`, replaced by `new`. Surrounding white
/// space may differ.
fn assert_only_changed(before: &str, after: &str, old: &str, new: &str) {
    let head = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
    let tail = before.bytes().rev().zip(after.bytes().rev()).take_while(|(a, b)| a == b).count();
    let fits = |at: usize| {
        // White space around the old part may have been removed with it.
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
    assert!(found, "everything else is unchanged\nbefore {before:?}\nafter {after:?}");
}

fn with_unix_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn normalized(text: &str) -> String {
    with_unix_line_ends(text).trim_matches([' ', '\t', '\n']).to_owned()
}
