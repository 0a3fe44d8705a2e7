//! File access of init: edits clients' files and logs each edit, so that `--remove` restores bytes.
//!
//! The log is saved before each file is written. After a crash, the log may contain an edit that
//! was not made: `pending` has the previous entry, and the file shows which entry is valid.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use reqlore_client_config::{ConfigLocation, ConfigScope, UndoPatch, edit};
use reqlore_domain::identity::token;
use reqlore_durable_fs::{AtomicWrite, Durability, atomic_write, is_private, open_dir_to_lock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file_change::{
    ChangeKind, ChangeOutcome, FileChange, link_target, read_text, resolve_and_read,
};

const LOG_VERSION: u32 = 1;
const CHANGED_MEANWHILE: &str = "changed meanwhile; run the command again";
/// The entry for this server, if the file can be read and has one.
pub(super) fn find_entry(location: &ConfigLocation) -> Option<Value> {
    let (_, text) = resolve_and_read(&location.file, None).ok()?;
    edit::find_entry(&text?, location.slot).ok()?
}

fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let mut missing = Vec::new();
    for folder in file.ancestors().skip(1) {
        if folder.as_os_str().is_empty() || fs::metadata(folder).is_ok() {
            break;
        }
        missing.push(folder.to_owned());
    }
    missing
}

/// Creates the missing folders, and replaces the whole text atomically and durably.
fn replace_text(target: &Path, text: &str, is_private: bool) -> io::Result<()> {
    fs::create_dir_all(reqlore_durable_fs::parent_dir(target))?;
    let temp_prefix = &temporary_prefix(target);
    // After a power cut the old text is acceptable, but half a text is not.
    let options = AtomicWrite { temp_prefix, durability: Durability::Contents, is_private };
    atomic_write(target, text.as_bytes(), options)
}

/// Removes the temporary files of an interrupted [`replace_text`].
fn remove_leftovers(target: &Path) {
    let prefix = temporary_prefix(target);
    let Ok(entries) = fs::read_dir(reqlore_durable_fs::parent_dir(target)) else { return };
    for entry in entries.flatten() {
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

// The names in the file are fixed: a newer version has to read the log of an older one.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UndoLog {
    version: u32,
    /// By the path of the file after all links.
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

impl UndoEntry {
    /// The text before the edit, if the edit is still in this text.
    pub(super) fn undo(&self, text: &str) -> Option<String> {
        self.patch.as_ref()?.undo(text)
    }
}

impl UndoLog {
    /// True if an init of this user wrote the entry in this file, for this project.
    pub(super) fn has_entry(&self, location: &ConfigLocation, project: &Path) -> bool {
        let target = link_target(&location.file).unwrap_or_default();
        let Some(entry) = self.files.get(&target) else { return false };
        let is_of_project = entry.project.as_deref().is_none_or(|folder| folder == project);
        entry.kind == ChangeKind::Entry && is_of_project
    }

    /// Restores the previous entries of writes that a crash prevented.
    fn recover(&mut self) {
        for (path, previous) in std::mem::take(&mut self.pending) {
            // A crash may also leave the temporary file of the write.
            remove_leftovers(&path);
            let text = read_text(&path).unwrap_or_default();
            let is_written = match (self.files.get(&path), text) {
                (Some(entry), Some(text)) => {
                    let is_created = entry.is_new && previous.is_none();
                    is_created || entry.undo(&text).is_some()
                }
                _ => false,
            };
            if !is_written {
                self.set_entry(&path, previous);
            }
        }
    }

    fn set_entry(&mut self, file: &Path, entry: Option<UndoEntry>) {
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
    /// Reads the log. Writes it only to recover it after a crash.
    pub(super) fn open(self) -> Result<UndoLog, String> {
        let log = self.load()?;
        if log.pending.is_empty() {
            return Ok(log);
        }
        // Locking recovers the log, and closing saves it.
        self.lock()?.close()?;
        self.load()
    }

    /// Reads the log and changes nothing.
    pub(super) fn load(self) -> Result<UndoLog, String> {
        #[derive(Deserialize)]
        struct LogHeader {
            version: u32,
        }
        let text = read_text(self.path).map_err(|reason| self.log_error(reason))?;
        let Some(text) = text else { return Ok(UndoLog::default()) };
        let header: Result<LogHeader, _> = serde_json::from_str(&text);
        // The version is read first, because a newer log may have other fields.
        if header.is_ok_and(|header| header.version > LOG_VERSION) {
            return Err(self.log_error("a newer version of reqlore wrote it; use that version"));
        }
        serde_json::from_str(&text).map_err(|error| self.log_error(error))
    }

    fn log_error(self, reason: impl std::fmt::Display) -> String {
        format!(
            "undo log {}: {reason}. Nothing was written. If you can't repair the log, move it \
             away; `--remove --client NAME` then removes entries without restoring older text",
            self.path.display()
        )
    }

    /// Locks the home folder because the log's own folder may be removed.
    fn lock(self) -> Result<LockedLog<'a>, String> {
        let folder = match open_dir_to_lock(self.home) {
            Ok(folder) => folder,
            // A missing home folder needs a lock too. Any folder that all processes share will do.
            Err(_) => open_dir_to_lock(Path::new("/")).map_err(|error| self.log_error(error))?,
        };
        folder.lock().map_err(|error| self.log_error(error))?;
        let mut log = self.load()?;
        log.recover();
        log.version = LOG_VERSION;
        log.folders.extend(missing_folders(self.path));
        Ok(LockedLog { file: self, log, _lock: folder })
    }

    /// Writes a change that adds something.
    pub(super) fn write_change(self, change: &FileChange, project: &Path) -> Result<(), String> {
        let ChangeOutcome::Write { after: Some(after), .. } = &change.outcome else {
            return Ok(());
        };
        let mut log = self.lock()?;
        let earlier = log.log.files.get(&change.target).cloned();
        if earlier.is_some() && read_text(&change.target)?.as_ref() == Some(after) {
            // Another init wrote the same text meanwhile.
            return Ok(());
        }
        check_unchanged(change)?;
        let entry = undo_entry(change, after, earlier.as_ref(), project);
        log.log.folders.extend(missing_folders(&change.target));
        let written =
            log.write_logged(&change.target, earlier, Some(entry), || write_text(change, after));
        log.close().and(written)
    }

    /// Writes a change that removes something, and removes `expected`, its entry in the log.
    pub(super) fn remove_change(
        self,
        change: &FileChange,
        expected: Option<&UndoEntry>,
    ) -> Result<(), String> {
        let mut log = self.lock()?;
        let removed = if log.log.files.get(&change.target) != expected {
            Err("another init changed it meanwhile; run the command again".to_owned())
        } else if expected.is_some() {
            let entry = expected.cloned();
            log.write_logged(&change.target, entry, None, || apply_removal(change))
        } else {
            apply_removal(change)
        };
        log.close().and(removed)
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
    /// Logs a file's old and new entry, writes the file, and drops the entry that is not valid
    /// after the write.
    fn write_logged(
        &mut self,
        file: &Path,
        old: Option<UndoEntry>,
        new: Option<UndoEntry>,
        write: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let (logged, previous) = match &new {
            Some(new) => (Some(new.clone()), old.clone()),
            // Until a removal is complete, its entry has to stay.
            None => (old.clone(), None),
        };
        self.log.set_entry(file, logged);
        self.log.pending.insert(file.to_owned(), previous);
        // Saved before the write. After a crash, the file shows which entry is valid.
        let written = self.save().and_then(|()| write());
        self.log.pending.remove(file);
        self.log.set_entry(file, if written.is_ok() { new } else { old });
        written
    }

    /// Removes the file of an empty log.
    fn save(&self) -> Result<(), String> {
        self.save_file().map_err(|error| self.file.log_error(error))
    }

    fn save_file(&self) -> io::Result<()> {
        let path = self.file.path;
        if !self.log.files.is_empty() {
            // Readable, because the user may have to repair the log.
            let text = serde_json::to_string_pretty(&self.log).map_err(io::Error::other)?;
            // Private, because it contains text from the user's files.
            return replace_text(path, &(text + "\n"), true);
        }
        remove_leftovers(path);
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Saves the log and removes the folders that init created and that are empty now.
    fn close(mut self) -> Result<(), String> {
        let folders = std::mem::take(&mut self.log.folders);
        let mut unused = Vec::new();
        for folder in folders {
            if self.needs_folder(&folder) {
                self.log.folders.insert(folder);
            } else {
                unused.push(folder);
            }
        }
        // First, because the folder of the log is empty only after its file is removed.
        self.save()?;
        // Inner folders come first.
        for folder in unused.iter().rev() {
            // Fails if the folder has other files, which is intended.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    fn needs_folder(&self, folder: &Path) -> bool {
        let has_log = !self.log.files.is_empty() && self.file.path.starts_with(folder);
        has_log || self.log.files.keys().any(|file| file.starts_with(folder))
    }
}

fn apply_removal(change: &FileChange) -> Result<(), String> {
    let ChangeOutcome::Write { after, .. } = &change.outcome else { return Ok(()) };
    check_unchanged(change)?;
    match after {
        Some(after) => write_text(change, after),
        None => {
            fs::remove_file(&change.target).map_err(|error| format!("can't be removed: {error}"))
        }
    }
}

/// Ensures that the replaced text is the one that the user saw.
fn check_unchanged(change: &FileChange) -> Result<(), String> {
    // The allowed folder was checked for the preview, and the target has to be the same.
    let (target, text) = resolve_and_read(&change.path, None)?;
    if target == change.target && text == change.old_text {
        return Ok(());
    }
    Err(CHANGED_MEANWHILE.to_owned())
}

fn write_text(change: &FileChange, text: &str) -> Result<(), String> {
    let folder = fs::metadata(reqlore_durable_fs::parent_dir(&change.target));
    // A new file in a private folder may get secrets of other servers later.
    let is_private =
        change.scope == ConfigScope::User && folder.is_ok_and(|folder| is_private(&folder));
    replace_text(&change.target, text, is_private)
        .map_err(|error| format!("can't be written: {error}"))
}

/// The log entry of a change: the edit from the text before the first init.
fn undo_entry(
    change: &FileChange,
    after: &str,
    earlier: Option<&UndoEntry>,
    project: &Path,
) -> UndoEntry {
    let before = change.old_text.as_deref().unwrap_or_default();
    // If the user removed our part, this is the first init again.
    let earlier = earlier.filter(|_| change.mentions_reqlore);
    // The patch leads to the text before the first init, not before the last one.
    let original = match earlier {
        Some(earlier) => earlier.undo(before),
        None => Some(before.to_owned()),
    };
    let mut clients = BTreeSet::new();
    if let Some(earlier) = earlier {
        clients.extend(earlier.clients.iter().cloned());
    }
    for client in &change.clients {
        clients.insert(client.name().to_owned());
    }
    let patch = original.map(|original| UndoPatch::between(&original, after));
    UndoEntry {
        kind: change.kind,
        clients,
        project: (change.scope == ConfigScope::Project).then(|| project.to_owned()),
        is_new: change.old_text.is_none() || earlier.is_some_and(|earlier| earlier.is_new),
        // A token that the user wrote into an entry must not be copied into the log.
        patch: patch.filter(|patch| !contains_token(patch)),
    }
}

fn contains_token(patch: &UndoPatch) -> bool {
    match serde_json::to_string(patch) {
        Ok(text) => text.contains(token::TOKEN_PREFIX),
        // A patch that can't be checked is not stored.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use reqlore_client_config::{ClientEnvironment, Platform};

    use super::*;

    /// A home folder that is also the project, with AGENTS.md and the log.
    struct TestHome {
        _folder: tempfile::TempDir,
        home: PathBuf,
        log: PathBuf,
        file: PathBuf,
    }

    impl TestHome {
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
    fn write_and_remove_reject_a_file_changed_after_the_preview() {
        let home = TestHome::new("theirs");
        let shown = home.change("ours");
        fs::write(&home.file, "saved meanwhile").unwrap();
        assert_eq!(home.put(&shown).unwrap_err(), CHANGED_MEANWHILE);
        assert_eq!(home.text(), "saved meanwhile");
        assert!(!home.home.join("state").is_dir());

        home.put(&home.change("ours")).unwrap();
        let shown = home.change("saved meanwhile");
        let entry = home.log().load().unwrap().files.remove(&home.file);
        fs::write(&home.file, "and again").unwrap();
        assert_eq!(
            home.log().remove_change(&shown, entry.as_ref()).unwrap_err(),
            CHANGED_MEANWHILE
        );
        assert_eq!(home.text(), "and again");
        assert!(home.log.is_file(), "it can still be undone");
    }

    #[test]
    fn failed_write_leaves_no_log() {
        let home = TestHome::new("");
        let mut shown = home.change("ours");
        shown.path = home.file.join("x/AGENTS.md");
        shown.target.clone_from(&shown.path);
        shown.old_text = None;
        assert!(home.put(&shown).is_err());
        assert!(!home.home.join("state").is_dir());
    }

    #[test]
    fn crash_around_a_write_is_undone_to_the_byte() {
        for case in 0..8 {
            let [is_second, is_removal, is_written] = [1, 2, 4].map(|bit| case & bit != 0);
            if is_removal && !is_second {
                continue;
            }
            let home = TestHome::new("one theirs three");
            if is_second {
                home.put(&home.change("one ours three")).unwrap();
            }
            let next = if is_removal { "one theirs three" } else { "one ours, newer three" };
            let change = home.change(next);
            // The crash comes before `close`, which saves the end of the write.
            let mut log = home.log().lock().unwrap();
            let earlier = log.log.files.get(&home.file).cloned();
            let new = undo_entry(&change, next, earlier.as_ref(), &home.home);
            let new = (!is_removal).then_some(new);
            let write = || if is_written { write_text(&change, next) } else { Ok(()) };
            log.write_logged(&home.file, earlier, new, write).unwrap();
            drop(log);
            let unfinished = home.home.join(".reqlore-AGENTS.md-x1Y2z3");
            fs::write(&unfinished, "half of").unwrap();

            let entry = home.log().open().unwrap().files.remove(&home.file);
            assert!(!unfinished.is_file());
            assert_eq!(entry.is_some(), home.log.is_file());
            let text = home.text();
            let undone = entry.map_or(Some(text.clone()), |entry| entry.undo(&text));
            let case = format!("second {is_second}, removal {is_removal}, written {is_written}");
            assert_eq!(undone.as_deref(), Some("one theirs three"), "{case}");
        }
    }
}
