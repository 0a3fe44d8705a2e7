//! Writes changes, and logs them so that `--remove` restores the bytes.
//!
//! The log is saved before each file is written. After a crash it may name an edit that was not
//! made: `before` has the previous entry, and the file itself tells which of both is true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use reqlore_client_config::{Client, Scope, Trace};
use reqlore_domain::identity::token;
use serde::{Deserialize, Serialize};

use super::plan::{Change, Outcome};
use super::target_file;

const VERSION: u32 = 1;
const CHANGED: &str = "it changed meanwhile; run this again to see what is left to do";

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UndoLog {
    version: u32,
    /// By path of the file, behind all links.
    pub(super) files: BTreeMap<PathBuf, UndoEntry>,
    /// The previous entries of files whose write has begun; empty except after a crash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<PathBuf, Option<UndoEntry>>,
    /// Folders that init created.
    folders: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UndoEntry {
    pub(super) what: ChangeKind,
    pub(super) clients: BTreeSet<String>,
    /// `None` for a user's file.
    pub(super) project: Option<PathBuf>,
    /// Whether init created the file.
    pub(super) is_new: bool,
    /// `None` if the edit can't be undone to the byte.
    pub(super) trace: Option<Trace>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeKind {
    /// The server's entry in a client's configuration.
    Entry,
    /// The block in AGENTS.md.
    Block,
    /// A whole file, for `--create`.
    Beginning,
}

impl UndoEntry {
    /// The text before the edit, if the edit is still in this text.
    pub(super) fn undo(&self, text: &str) -> Option<String> {
        self.trace.as_ref().and_then(|trace| trace.undo(text))
    }
}

impl UndoLog {
    /// Reads the log, and recovers it after a crash. Only then it writes.
    pub(super) fn open(path: &Path, home: &Path) -> Result<Self, String> {
        let log = Self::load(path)?;
        if log.before.is_empty() {
            return Ok(log);
        }
        LockedLog::open(path, home)?.close()?;
        Self::load(path)
    }

    fn load(path: &Path) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Header {
            version: u32,
        }
        let text = target_file::read(path).map_err(|reason| unusable(path, reason))?;
        let Some(text) = text else { return Ok(Self::default()) };
        let header: Result<Header, _> = serde_json::from_str(&text);
        if header.is_ok_and(|header| header.version > VERSION) {
            return Err(unusable(path, "a newer version of reqlore wrote it; use that one"));
        }
        serde_json::from_str(&text).map_err(|error| unusable(path, error))
    }

    fn recover(&mut self) {
        for (path, before) in std::mem::take(&mut self.before) {
            target_file::remove_leftovers(&path);
            let text = target_file::read(&path).ok().flatten();
            let is_written = self.files.get(&path).is_some_and(|entry| match text {
                Some(_) if entry.is_new && before.is_none() => true,
                Some(text) => entry.undo(&text).is_some(),
                None => false,
            });
            if !is_written {
                self.set(&path, before);
            }
        }
    }

    fn set(&mut self, file: &Path, entry: Option<UndoEntry>) {
        match entry {
            Some(entry) => self.files.insert(file.to_owned(), entry),
            None => self.files.remove(file),
        };
    }
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> String {
    format!(
        "the record of what init did, {}: {reason}. Nothing was written. If it is useless, move \
         it away: then --remove --client NAME takes out an entry, but can't restore what it \
         replaced",
        path.display()
    )
}

/// The log while no other process can change it.
#[derive(Debug)]
struct LockedLog<'a> {
    path: &'a Path,
    log: UndoLog,
    _lock: File,
}

impl<'a> LockedLog<'a> {
    /// Locks the home folder: unlike the log's own folder it is never removed.
    fn open(path: &'a Path, home: &Path) -> Result<Self, String> {
        let lock = File::open(home).or_else(|_| File::open("/"));
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.map_err(|error| unusable(path, error))?;
        let mut log = UndoLog::load(path)?;
        log.recover();
        log.version = VERSION;
        log.folders.extend(target_file::missing_folders(path));
        Ok(Self { path, log, _lock: lock })
    }

    /// Logs the entry and the previous one, writes the file, and drops the one that is false then.
    /// A write removes our part (`is_removal`) or adds it.
    fn write(
        &mut self,
        file: &Path,
        entry: UndoEntry,
        before: Option<UndoEntry>,
        is_removal: bool,
        write: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        self.log.set(file, Some(entry));
        self.log.before.insert(file.to_owned(), before);
        let written = self.save().and_then(|()| write());
        let before = self.log.before.remove(file).flatten();
        if written.is_ok() == is_removal {
            self.log.set(file, before);
        }
        written
    }

    /// An empty log is no file.
    fn save(&self) -> Result<(), String> {
        let failed = |error: io::Error| unusable(self.path, error);
        if self.log.files.is_empty() {
            target_file::remove_leftovers(self.path);
            return match fs::remove_file(self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        }
        let text = serde_json::to_string_pretty(&self.log).map_err(io::Error::other);
        create_folder(self.path)?;
        text.and_then(|text| target_file::replace(self.path, &(text + "\n"), true)).map_err(failed)
    }

    /// Removes the folders that init created and that are empty now.
    fn close(mut self) -> Result<(), String> {
        let is_done = self.log.files.is_empty();
        let is_needed = |folder: &PathBuf| {
            self.log.files.keys().any(|file| file.starts_with(folder))
                || !is_done && self.path.starts_with(folder)
        };
        let folders = std::mem::take(&mut self.log.folders);
        let (needed, idle): (BTreeSet<_>, BTreeSet<_>) = folders.into_iter().partition(is_needed);
        self.log.folders = needed;
        self.save()?;
        for folder in idle.iter().rev() {
            // Fails if the folder has other files, which is intended.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// Writes a change that adds something.
pub(super) fn put(change: &Change, log: &Path, home: &Path, project: &Path) -> Result<(), String> {
    let Outcome::Write { after: Some(after), .. } = &change.outcome else { return Ok(()) };
    let mut log = LockedLog::open(log, home)?;
    let earlier = log.log.files.get(&change.target).cloned();
    if earlier.is_some() && target_file::read(&change.target)?.as_ref() == Some(after) {
        // Another init wrote the same meanwhile.
        return Ok(());
    }
    check_unchanged(change)?;
    let entry = undo_entry(change, after, earlier.as_ref(), project);
    log.log.folders.extend(target_file::missing_folders(&change.target));
    let written = log.write(&change.target, entry, earlier, false, || {
        create_folder(&change.target)?;
        write_text(change, after)
    });
    log.close().and(written)
}

/// Writes a change that removes something; `expected` is its entry, which is removed too.
pub(super) fn take(
    change: &Change,
    log: &Path,
    home: &Path,
    expected: Option<&UndoEntry>,
) -> Result<(), String> {
    let mut log = LockedLog::open(log, home)?;
    let taken = match expected {
        _ if log.log.files.get(&change.target) != expected => {
            Err("another init changed it meanwhile; run this again".to_owned())
        }
        Some(entry) => log.write(&change.target, entry.clone(), None, true, || take_out(change)),
        None => take_out(change),
    };
    log.close().and(taken)
}

fn take_out(change: &Change) -> Result<(), String> {
    let Outcome::Write { after, .. } = &change.outcome else { return Ok(()) };
    check_unchanged(change)?;
    match after {
        Some(after) => write_text(change, after),
        None => {
            fs::remove_file(&change.target).map_err(|error| format!("it can't be removed: {error}"))
        }
    }
}

/// What is written is what the user saw, or nothing.
fn check_unchanged(change: &Change) -> Result<(), String> {
    let now = target_file::open(&change.path, None)?;
    let is_same = now.path == change.target && now.text == change.before;
    is_same.then_some(()).ok_or_else(|| CHANGED.to_owned())
}

fn create_folder(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write_text(change: &Change, text: &str) -> Result<(), String> {
    let folder = change.target.parent().unwrap_or(Path::new("/"));
    let is_private = change.scope == Scope::User && target_file::is_private(folder);
    target_file::replace(&change.target, text, is_private)
        .map_err(|error| format!("it can't be written: {error}"))
}

/// The edit from the text before the first init.
fn undo_entry(
    change: &Change,
    after: &str,
    earlier: Option<&UndoEntry>,
    project: &Path,
) -> UndoEntry {
    let before = change.before.as_deref().unwrap_or_default();
    // If the user took our part out, this is the first init again.
    let earlier = earlier.filter(|_| change.is_known);
    let original = earlier.map_or(Some(before.to_owned()), |earlier| earlier.undo(before));
    let trace = original.map(|original| Trace::between(&original, after));
    // A token that the user wrote into an entry must not be copied.
    let has_token =
        |trace: &Trace| serde_json::to_string(trace).map_or(true, |t| t.contains(token::PREFIX));
    let mut clients = earlier.map(|earlier| earlier.clients.clone()).unwrap_or_default();
    clients.extend(change.clients.iter().copied().map(Client::name).map(str::to_owned));
    UndoEntry {
        what: change.what,
        clients,
        project: (change.scope == Scope::Project).then(|| project.to_owned()),
        is_new: change.before.is_none() || earlier.is_some_and(|earlier| earlier.is_new),
        trace: trace.filter(|trace| !has_token(trace)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home that is also the project, with its AGENTS.md and the log.
    struct Bed {
        _folder: tempfile::TempDir,
        home: PathBuf,
        log: PathBuf,
        file: PathBuf,
    }

    impl Bed {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let home = folder.path().canonicalize().unwrap();
            let (log, file) = (home.join("state/reqlore/init.json"), home.join("AGENTS.md"));
            fs::write(&file, text).unwrap();
            Self { _folder: folder, home, log, file }
        }

        fn change(&self, text: &str) -> Change {
            let mut change =
                Change::open(ChangeKind::Block, "", Scope::Project, &self.file, &self.home);
            change.is_known = true;
            change.set_text(Ok(text.to_owned()));
            change
        }

        fn put(&self, change: &Change) -> Result<(), String> {
            put(change, &self.log, &self.home, &self.home)
        }

        fn text(&self) -> String {
            fs::read_to_string(&self.file).unwrap()
        }
    }

    #[test]
    fn put_and_take_refuse_a_file_that_changed_since_it_was_shown() {
        let bed = Bed::new("theirs");
        let shown = bed.change("ours");
        fs::write(&bed.file, "saved meanwhile").unwrap();
        assert_eq!(bed.put(&shown).unwrap_err(), CHANGED);
        assert_eq!(bed.text(), "saved meanwhile");
        assert!(!bed.home.join("state").is_dir());

        bed.put(&bed.change("ours")).unwrap();
        let shown = bed.change("saved meanwhile");
        let entry = UndoLog::load(&bed.log).unwrap().files.remove(&bed.file);
        fs::write(&bed.file, "and again").unwrap();
        assert_eq!(take(&shown, &bed.log, &bed.home, entry.as_ref()).unwrap_err(), CHANGED);
        assert_eq!(bed.text(), "and again");
        assert!(bed.log.is_file(), "it can still be undone");
    }

    #[test]
    fn put_that_fails_leaves_no_log() {
        let bed = Bed::new("");
        let mut shown = bed.change("ours");
        shown.path = bed.file.join("x/AGENTS.md");
        shown.target.clone_from(&shown.path);
        shown.before = None;
        assert!(bed.put(&shown).is_err());
        assert!(!bed.home.join("state").is_dir());
    }

    #[test]
    fn a_crash_before_or_after_the_write_can_be_undone_to_the_byte() {
        for case in 0..8 {
            let [is_second, is_removal, is_written] = [1, 2, 4].map(|bit| case & bit != 0);
            if is_removal && !is_second {
                continue;
            }
            let bed = Bed::new("one theirs three");
            if is_second {
                bed.put(&bed.change("one ours three")).unwrap();
            }
            let next = if is_removal { "one theirs three" } else { "one ours, newer three" };
            let change = bed.change(next);
            // The crash comes before `close`, which saves the end of the write.
            let mut log = LockedLog::open(&bed.log, &bed.home).unwrap();
            let earlier = log.log.files.get(&bed.file).cloned();
            let new = undo_entry(&change, next, earlier.as_ref(), &bed.home);
            let (entry, before) =
                if is_removal { (earlier.unwrap(), None) } else { (new, earlier) };
            let write = || if is_written { write_text(&change, next) } else { Ok(()) };
            log.write(&bed.file, entry, before, is_removal, write).unwrap();
            drop(log);
            let unfinished = bed.home.join(".reqlore-AGENTS.md-x1Y2z3");
            fs::write(&unfinished, "half of").unwrap();

            let entry = UndoLog::open(&bed.log, &bed.home).unwrap().files.remove(&bed.file);
            assert!(!unfinished.is_file());
            assert_eq!(entry.is_some(), bed.log.is_file());
            let text = bed.text();
            let undone = entry.map_or(Some(text.clone()), |entry| entry.undo(&text));
            let case = format!("second {is_second}, removal {is_removal}, written {is_written}");
            assert_eq!(undone.as_deref(), Some("one theirs three"), "{case}");
        }
    }
}
