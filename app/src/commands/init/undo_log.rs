//! Reads and writes the files of clients, and logs each write so that `--remove` restores the
//! bytes.
//!
//! A cloned repository may contain links: a project's file is written only inside the project.
//! The log is saved before each file is written. After a crash it may name an edit that was not
//! made: `before` has the previous entry, and the file itself shows which of both is true.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use reqlore_client_config::{Client, ConfigLocation, ConfigScope, UndoPatch, edit};
use reqlore_domain::identity::token;
use reqlore_durable_fs::{AtomicWrite, Durability, atomic_write, is_private};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::{ChangeOutcome, FileChange};
use crate::commands::untrusted_text;
use crate::storage::resolved;

const VERSION: u32 = 1;
const CHANGED_MEANWHILE: &str = "it changed meanwhile; run this again to see what is left to do";
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
const MAX_LINKS: usize = 32;

/// Resolves links and reads the file. Returns its resolved path, and its text if the file exists.
/// Links may not lead out of `within`. Errors do not name the file.
pub(super) fn resolve_and_read(
    path: &Path,
    within: Option<&Path>,
) -> Result<(PathBuf, Option<String>), String> {
    let path = link_target(path)?;
    if within.is_some_and(|folder| !path.starts_with(folder)) {
        return Err(format!(
            "it is a link that leads out of the project, to {}; make it a file of the project",
            path.display()
        ));
    }
    if path.to_str().is_none() {
        return Err("it is a link to a file whose name is not UTF-8; rename that".into());
    }
    let text = read_text(&path)?;
    Ok((path, text))
}

fn read_text(path: &Path) -> Result<Option<String>, String> {
    untrusted_text::read_file(path, MAX_FILE_BYTES)
}

/// The entry for this server, if the file can be read and has one.
pub(super) fn find_entry(location: &ConfigLocation) -> Option<Value> {
    let (_, text) = resolve_and_read(&location.file, None).ok()?;
    edit::find_entry(&text?, location.slot).ok()?
}

/// Follows links, including one to a file that does not exist yet.
fn link_target(path: &Path) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else {
            let resolved = resolved(&path);
            let is_dangling = resolved.components().any(|part| part == Component::ParentDir);
            return if is_dangling { Err("it is a dangling link".into()) } else { Ok(resolved) };
        };
        path = path.parent().map_or(next.clone(), |folder| folder.join(&next));
    }
    Err("it is a link to itself".into())
}

/// Refuses read-only files and folders, although a rename would replace such a file.
pub(super) fn check_writable(target: &Path) -> Result<(), String> {
    let is_read_only = |path: &Path| fs::metadata(path).is_ok_and(|m| m.permissions().readonly());
    if is_read_only(target) {
        return Err("it is read-only; make it writable with chmod u+w".into());
    }
    let mut folders = target.ancestors().skip(1);
    match folders.find(|folder| fs::metadata(folder).is_ok()) {
        Some(folder) if !folder.is_dir() => {
            Err(format!("{} is not a folder; move it away", folder.display()))
        }
        Some(folder) if is_read_only(folder) => Err(format!(
            "its folder {} is read-only; make it writable with chmod u+w",
            folder.display()
        )),
        _ => Ok(()),
    }
}

/// The missing folders of a file.
fn missing_folders(file: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    folders.take_while(|folder| fs::metadata(folder).is_err()).map(Path::to_owned)
}

/// Creates the missing folders, and replaces the whole text atomically and durably.
fn replace_text(target: &Path, text: &str, is_private: bool) -> io::Result<()> {
    fs::create_dir_all(reqlore_durable_fs::parent(target))?;
    let temp_prefix = &temporary_prefix(target);
    let options = AtomicWrite { temp_prefix, durability: Durability::Contents, is_private };
    atomic_write(target, text.as_bytes(), options)
}

/// Removes the temporary files of an interrupted [`replace`].
fn remove_leftovers(target: &Path) {
    let prefix = temporary_prefix(target);
    let entries = fs::read_dir(reqlore_durable_fs::parent(target));
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn temporary_prefix(target: &Path) -> OsString {
    let mut prefix = OsString::from(".reqlore-");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push("-");
    prefix
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UndoLog {
    version: u32,
    /// By path of the file, behind all links.
    pub(super) files: BTreeMap<PathBuf, UndoEntry>,
    /// The previous entries of files whose write has begun; empty except after a crash.
    #[serde(rename = "before", default, skip_serializing_if = "BTreeMap::is_empty")]
    pending: BTreeMap<PathBuf, Option<UndoEntry>>,
    /// Folders that init created.
    folders: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UndoEntry {
    #[serde(rename = "what")]
    pub(super) kind: ChangeKind,
    pub(super) clients: BTreeSet<String>,
    /// `None` for a user's file.
    pub(super) project: Option<PathBuf>,
    /// True if init created the file.
    pub(super) is_new: bool,
    /// `None` if the edit can't be undone to the byte.
    #[serde(rename = "trace")]
    pub(super) patch: Option<UndoPatch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeKind {
    /// The server's entry in a client's configuration.
    Entry,
    /// The block in AGENTS.md.
    Block,
    /// A whole file, for `--create`.
    #[serde(rename = "beginning")]
    Scaffold,
}

impl UndoEntry {
    /// The text before the edit, if the edit is still in this text.
    pub(super) fn undo(&self, text: &str) -> Option<String> {
        self.patch.as_ref().and_then(|trace| trace.undo(text))
    }
}

impl UndoLog {
    fn recover(&mut self) {
        for (path, before) in std::mem::take(&mut self.pending) {
            remove_leftovers(&path);
            let text = read_text(&path).ok().flatten();
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

/// The log's file, and the user's home folder, which is locked for each write.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogFile<'a> {
    pub(super) path: &'a Path,
    pub(super) home: &'a Path,
}

impl<'a> LogFile<'a> {
    /// Reads the log, and recovers it after a crash. Only then it writes.
    pub(super) fn open(self) -> Result<UndoLog, String> {
        let log = self.load()?;
        if log.pending.is_empty() {
            return Ok(log);
        }
        self.lock()?.close()?;
        self.load()
    }

    fn load(self) -> Result<UndoLog, String> {
        #[derive(Deserialize)]
        struct LogHeader {
            version: u32,
        }
        let text = read_text(self.path).map_err(|reason| self.log_error(reason))?;
        let Some(text) = text else { return Ok(UndoLog::default()) };
        let header: Result<LogHeader, _> = serde_json::from_str(&text);
        if header.is_ok_and(|header| header.version > VERSION) {
            return Err(self.log_error("a newer version of reqlore wrote it; use that one"));
        }
        serde_json::from_str(&text).map_err(|error| self.log_error(error))
    }

    fn log_error(self, reason: impl std::fmt::Display) -> String {
        format!(
            "the record of what init did, {}: {reason}. Nothing was written. If it is useless, \
             move it away: then --remove --client NAME takes out an entry, but can't restore what \
             it replaced",
            self.path.display()
        )
    }

    /// Locks the home folder: unlike the log's own folder it is never removed.
    fn lock(self) -> Result<LockedLog<'a>, String> {
        let lock = File::open(self.home).or_else(|_| File::open("/"));
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.map_err(|error| self.log_error(error))?;
        let mut log = self.load()?;
        log.recover();
        log.version = VERSION;
        log.folders.extend(missing_folders(self.path));
        Ok(LockedLog { file: self, log, _lock: lock })
    }

    /// Writes a change that adds something.
    pub(super) fn write_change(self, change: &FileChange, project: &Path) -> Result<(), String> {
        let ChangeOutcome::Write { after: Some(after), .. } = &change.outcome else {
            return Ok(());
        };
        let mut log = self.lock()?;
        let earlier = log.log.files.get(&change.target).cloned();
        if earlier.is_some() && read_text(&change.target)?.as_ref() == Some(after) {
            // Another init wrote the same meanwhile.
            return Ok(());
        }
        check_unchanged(change)?;
        let entry = undo_entry(change, after, earlier.as_ref(), project);
        log.log.folders.extend(missing_folders(&change.target));
        let written =
            log.write_logged(&change.target, earlier, Some(entry), || write_text(change, after));
        log.close().and(written)
    }

    /// Writes a change that removes something; `expected` is its entry, which is removed too.
    pub(super) fn remove_change(
        self,
        change: &FileChange,
        expected: Option<&UndoEntry>,
    ) -> Result<(), String> {
        let mut log = self.lock()?;
        let taken = match expected {
            _ if log.log.files.get(&change.target) != expected => {
                Err("another init changed it meanwhile; run this again".to_owned())
            }
            Some(_) => {
                log.write_logged(&change.target, expected.cloned(), None, || apply_removal(change))
            }
            None => apply_removal(change),
        };
        log.close().and(taken)
    }
}

/// The log while no other process can change it.
#[derive(Debug)]
struct LockedLog<'a> {
    file: LogFile<'a>,
    log: UndoLog,
    _lock: File,
}

impl LockedLog<'_> {
    /// Logs a file's old entry and its new one, writes the file, and drops the entry that is false
    /// then.
    fn write_logged(
        &mut self,
        file: &Path,
        old: Option<UndoEntry>,
        new: Option<UndoEntry>,
        write: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let before = if new.is_some() { old.clone() } else { None };
        self.log.set(file, new.clone().or_else(|| old.clone()));
        self.log.pending.insert(file.to_owned(), before);
        let written = self.save().and_then(|()| write());
        self.log.pending.remove(file);
        self.log.set(file, if written.is_ok() { new } else { old });
        written
    }

    /// An empty log is no file.
    fn save(&self) -> Result<(), String> {
        let path = self.file.path;
        let saved = if self.log.files.is_empty() {
            remove_leftovers(path);
            fs::remove_file(path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
        } else {
            let text = serde_json::to_string_pretty(&self.log).map_err(io::Error::other);
            text.and_then(|text| replace_text(path, &(text + "\n"), true))
        };
        saved.map_err(|error| self.file.log_error(error))
    }

    /// Removes the folders that init created and that are empty now.
    fn close(mut self) -> Result<(), String> {
        let is_done = self.log.files.is_empty();
        let is_needed = |folder: &PathBuf| {
            self.log.files.keys().any(|file| file.starts_with(folder))
                || !is_done && self.file.path.starts_with(folder)
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

fn apply_removal(change: &FileChange) -> Result<(), String> {
    let ChangeOutcome::Write { after, .. } = &change.outcome else { return Ok(()) };
    check_unchanged(change)?;
    match after {
        Some(after) => write_text(change, after),
        None => {
            fs::remove_file(&change.target).map_err(|error| format!("it can't be removed: {error}"))
        }
    }
}

/// The text that is replaced is the one that the user saw.
fn check_unchanged(change: &FileChange) -> Result<(), String> {
    let (target, text) = resolve_and_read(&change.path, None)?;
    let is_same = target == change.target && text == change.old_text;
    is_same.then_some(()).ok_or_else(|| CHANGED_MEANWHILE.to_owned())
}

fn write_text(change: &FileChange, text: &str) -> Result<(), String> {
    let folder = fs::metadata(reqlore_durable_fs::parent(&change.target));
    let is_private =
        change.scope == ConfigScope::User && folder.is_ok_and(|folder| is_private(&folder));
    replace_text(&change.target, text, is_private)
        .map_err(|error| format!("it can't be written: {error}"))
}

/// The edit from the text before the first init.
fn undo_entry(
    change: &FileChange,
    after: &str,
    earlier: Option<&UndoEntry>,
    project: &Path,
) -> UndoEntry {
    let before = change.old_text.as_deref().unwrap_or_default();
    // If the user took our part out, this is the first init again.
    let earlier = earlier.filter(|_| change.mentions_reqlore);
    let original = earlier.map_or(Some(before.to_owned()), |earlier| earlier.undo(before));
    let trace = original.map(|original| UndoPatch::between(&original, after));
    // A token that the user wrote into an entry must not be copied.
    let has_token = |trace: &UndoPatch| {
        serde_json::to_string(trace).map_or(true, |t| t.contains(token::PREFIX))
    };
    let mut clients = earlier.map(|earlier| earlier.clients.clone()).unwrap_or_default();
    clients.extend(change.clients.iter().copied().map(Client::name).map(str::to_owned));
    UndoEntry {
        kind: change.kind,
        clients,
        project: (change.scope == ConfigScope::Project).then(|| project.to_owned()),
        is_new: change.old_text.is_none() || earlier.is_some_and(|earlier| earlier.is_new),
        patch: trace.filter(|trace| !has_token(trace)),
    }
}

#[cfg(test)]
mod tests {
    use reqlore_client_config::{ClientEnvironment, Platform};

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

        fn change(&self, text: &str) -> FileChange {
            let environment = ClientEnvironment {
                project: self.home.clone(),
                home: self.home.clone(),
                platform: Platform::Linux,
                path: Vec::new(),
                variables: Vec::new(),
            };
            let mut change = FileChange::agents_md(&environment);
            change.mentions_reqlore = true;
            change.set_text(Ok(text.to_owned()));
            change
        }

        fn log(&self) -> LogFile<'_> {
            LogFile { path: &self.log, home: &self.home }
        }

        fn put(&self, change: &FileChange) -> Result<(), String> {
            self.log().write_change(change, &self.home)
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
        assert_eq!(bed.put(&shown).unwrap_err(), CHANGED_MEANWHILE);
        assert_eq!(bed.text(), "saved meanwhile");
        assert!(!bed.home.join("state").is_dir());

        bed.put(&bed.change("ours")).unwrap();
        let shown = bed.change("saved meanwhile");
        let entry = bed.log().load().unwrap().files.remove(&bed.file);
        fs::write(&bed.file, "and again").unwrap();
        assert_eq!(bed.log().remove_change(&shown, entry.as_ref()).unwrap_err(), CHANGED_MEANWHILE);
        assert_eq!(bed.text(), "and again");
        assert!(bed.log.is_file(), "it can still be undone");
    }

    #[test]
    fn put_that_fails_leaves_no_log() {
        let bed = Bed::new("");
        let mut shown = bed.change("ours");
        shown.path = bed.file.join("x/AGENTS.md");
        shown.target.clone_from(&shown.path);
        shown.old_text = None;
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
            let mut log = bed.log().lock().unwrap();
            let earlier = log.log.files.get(&bed.file).cloned();
            let new = undo_entry(&change, next, earlier.as_ref(), &bed.home);
            let new = (!is_removal).then_some(new);
            let write = || if is_written { write_text(&change, next) } else { Ok(()) };
            log.write_logged(&bed.file, earlier, new, write).unwrap();
            drop(log);
            let unfinished = bed.home.join(".reqlore-AGENTS.md-x1Y2z3");
            fs::write(&unfinished, "half of").unwrap();

            let entry = bed.log().open().unwrap().files.remove(&bed.file);
            assert!(!unfinished.is_file());
            assert_eq!(entry.is_some(), bed.log.is_file());
            let text = bed.text();
            let undone = entry.map_or(Some(text.clone()), |entry| entry.undo(&text));
            let case = format!("second {is_second}, removal {is_removal}, written {is_written}");
            assert_eq!(undone.as_deref(), Some("one theirs three"), "{case}");
        }
    }
}
