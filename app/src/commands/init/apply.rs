//! Writes one change, and puts it on record before.
//!
//! Between what a person was shown and this moment anybody may have saved the file, so it is read
//! once more: what is written is what was shown, or nothing.

use std::fs;
use std::path::{Path, PathBuf};

use reqlore_client_config::{Client, Scope, Trace};
use reqlore_domain::identity::token::PREFIX;

use super::files;
use super::plan::{Change, Outcome};
use super::record::{Book, Kept};

const CHANGED: &str = "it was changed meanwhile; run this again to see what is left to do";

/// Writes what init changes.
pub(super) fn put(change: &Change, record: &Path, project: &Path) -> Result<(), String> {
    let Outcome::Write { after: Some(after), .. } = &change.outcome else { return Ok(()) };
    let mut book = Book::open(record)?;
    let done = put_in(&mut book, change, after, project);
    book.close().and(done)
}

fn put_in(book: &mut Book, change: &Change, after: &str, project: &Path) -> Result<(), String> {
    let target = &*change.target;
    let earlier = book.record.files.get(target).cloned();
    if earlier.is_some() && files::read(target)?.as_deref() == Some(after) {
        // Another init was faster.
        return Ok(());
    }
    check_unchanged(change)?;
    let kept = kept(change, after, earlier.as_ref(), project);
    let done = book
        .begin(target, kept, earlier)
        .and_then(|()| book.make_folders(target))
        .and_then(|()| write(change, after));
    book.end(target, done.is_err());
    done
}

/// Writes what `--remove` changes, and forgets it.
pub(super) fn take(change: &Change, record: &Path, expected: Option<&Kept>) -> Result<(), String> {
    // Where nothing is on record, there is nothing to keep others from.
    if expected.is_none() && !record.is_file() {
        return take_out(change);
    }
    let mut book = Book::open(record)?;
    let done = take_from(&mut book, change, expected);
    book.close().and(done)
}

fn take_from(book: &mut Book, change: &Change, expected: Option<&Kept>) -> Result<(), String> {
    if book.record.files.get(&change.target) != expected {
        return Err("another init changed it meanwhile; run this again".to_owned());
    }
    let Some(expected) = expected else { return take_out(change) };
    let done = book.begin(&change.target, expected.clone(), None).and_then(|()| take_out(change));
    book.end(&change.target, done.is_ok());
    done
}

fn take_out(change: &Change) -> Result<(), String> {
    let Outcome::Write { after, .. } = &change.outcome else { return Ok(()) };
    check_unchanged(change)?;
    match after {
        Some(after) => write(change, after),
        None => {
            fs::remove_file(&change.target).map_err(|error| format!("it can't be removed: {error}"))
        }
    }
}

fn check_unchanged(change: &Change) -> Result<(), String> {
    let now = files::see(&change.path, None)?;
    let is_same = now.target == change.target && now.text == change.before;
    is_same.then_some(()).ok_or_else(|| CHANGED.to_owned())
}

fn write(change: &Change, after: &str) -> Result<(), String> {
    let folder = change.target.parent().map(PathBuf::from).unwrap_or_default();
    let is_private = change.scope == Scope::User && files::is_private(&folder);
    files::replace(&change.target, after, is_private)
        .map_err(|error| format!("it can't be written: {error}"))
}

/// What is put on record: the edit from what stood there before the first init.
fn kept(change: &Change, after: &str, earlier: Option<&Kept>, project: &Path) -> Kept {
    let before = change.before.as_deref().unwrap_or_default();
    // Where somebody took our part out by hand, this is the first time.
    let earlier = earlier.filter(|_| change.is_known);
    let original = match earlier {
        Some(earlier) => earlier.undo(before),
        None => Some(before.to_owned()),
    };
    let trace = original.map(|original| Trace::between(&original, after));
    let mut clients = earlier.map(|earlier| earlier.clients.clone()).unwrap_or_default();
    clients.extend(change.clients.iter().copied().map(Client::name).map(str::to_owned));
    Kept {
        what: change.what,
        clients,
        project: (change.scope == Scope::Project).then(|| project.to_owned()),
        is_new: change.before.is_none() || earlier.is_some_and(|earlier| earlier.is_new),
        trace: trace.filter(|trace| !holds_token(trace)),
    }
}

/// A token that somebody wrote into an entry by hand is copied nowhere.
fn holds_token(trace: &Trace) -> bool {
    serde_json::to_string(trace).map_or(true, |text| text.contains(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::super::record::{Record, What};
    use super::*;

    fn change(folder: &Path, text: &str) -> Change {
        let path = folder.join("AGENTS.md");
        let mut change = Change::see(What::Block, "", Scope::Project, &path, folder);
        change.become_text(Ok(text.to_owned()));
        change
    }

    #[test]
    fn what_was_saved_since_it_was_shown_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let record = place.join("state/reqlore/init.json");
        let shown = change(&place, "ours");
        fs::write(&shown.path, "saved meanwhile").unwrap();
        assert_eq!(put(&shown, &record, &place).unwrap_err(), CHANGED);
        assert_eq!(fs::read_to_string(&shown.path).unwrap(), "saved meanwhile");
        assert!(!place.join("state").is_dir());

        put(&change(&place, "ours"), &record, &place).unwrap();
        let shown = change(&place, "saved meanwhile");
        let kept = Record::look(&record).unwrap().files.remove(&shown.target);
        fs::write(&shown.path, "and again").unwrap();
        assert_eq!(take(&shown, &record, kept.as_ref()).unwrap_err(), CHANGED);
        assert_eq!(fs::read_to_string(&shown.path).unwrap(), "and again");
        assert!(record.is_file(), "it is still to be undone");
    }

    #[test]
    fn what_cannot_be_written_is_not_on_record() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let record = place.join("state/reqlore/init.json");
        let mut shown = change(&place, "ours");
        fs::write(place.join("file"), "").unwrap();
        shown.path = place.join("file/x/AGENTS.md");
        shown.target.clone_from(&shown.path);
        assert!(put(&shown, &record, &place).is_err());
        assert!(!place.join("state").is_dir());
    }

    /// Everything up to the moment before the file is written, or to the one after.
    fn crash(change: &Change, record: &Path, is_put: bool, is_written: bool) {
        let mut book = Book::open(record).unwrap();
        let earlier = book.record.files.get(&change.target).cloned();
        let Outcome::Write { after: Some(after), .. } = &change.outcome else { panic!() };
        let place = change.path.parent().unwrap();
        let (kept, before) = match &earlier {
            Some(earlier) if !is_put => (earlier.clone(), None),
            _ => (kept(change, after, earlier.as_ref(), place), earlier),
        };
        book.begin(&change.target, kept, before).unwrap();
        if is_written {
            write(change, after).unwrap();
        }
    }

    #[test]
    fn a_crash_at_any_moment_leaves_a_way_back_to_the_byte() {
        for (is_second, is_put, is_written) in [
            (false, true, false),
            (false, true, true),
            (true, true, false),
            (true, true, true),
            (true, false, false),
            (true, false, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().canonicalize().unwrap();
            let record = place.join("state/reqlore/init.json");
            let path = place.join("AGENTS.md");
            fs::write(&path, "one theirs three").unwrap();
            let known = |text: &str| Change { is_known: true, ..change(&place, text) };
            if is_second {
                put(&known("one ours three"), &record, &place).unwrap();
            }
            let next = if is_put { "one ours, newer three" } else { "one theirs three" };
            crash(&known(next), &record, is_put, is_written);
            let unfinished = place.join(".reqlore-AGENTS.md-x1Y2z3");
            fs::write(&unfinished, "half of").unwrap();
            let kept = Record::read(&record).unwrap().files.remove(&path);
            assert!(!unfinished.is_file());
            assert_eq!(kept.is_some(), record.is_file());
            let text = fs::read_to_string(&path).unwrap();
            let undone = kept.map_or(Some(text.clone()), |kept| kept.undo(&text));
            let case = format!("second {is_second}, put {is_put}, written {is_written}");
            assert_eq!(undone.as_deref(), Some("one theirs three"), "{case}");
        }
    }
}
