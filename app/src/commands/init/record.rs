//! What was put into which file, so that `--remove` can give the bytes back that were there before.
//!
//! It is written before the file that it speaks of, so after a crash it may tell of an edit that
//! never came: `before` says what was true until then, and the file itself which of both it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use reqlore_client_config::Trace;
use serde::{Deserialize, Serialize};

use super::files;

const VERSION: u32 = 1;
/// How often the record's folder may vanish under us before we give up.
const MAX_TRIES: usize = 100;

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// By the file that was written, where links lead.
    pub(super) files: BTreeMap<PathBuf, Kept>,
    /// What was on record of a file that is just being written; only a crash leaves it here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<PathBuf, Option<Kept>>,
    /// The folders that were made.
    folders: BTreeSet<PathBuf>,
}

/// All that a later version has for sure.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

/// What was done to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) what: What,
    /// Whose entry it is; nobody's where it is none.
    pub(super) clients: BTreeSet<String>,
    /// The project whose file it is; none for a file of the person.
    pub(super) project: Option<PathBuf>,
    /// There was no file before.
    pub(super) is_new: bool,
    /// `None` where somebody edited what was put in, so the edit can't be undone to the byte.
    pub(super) trace: Option<Trace>,
}

/// What was put into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// The server's entry in a client's configuration.
    Entry,
    /// The block in AGENTS.md.
    Block,
    /// All of it, since somebody asked for it with --create.
    Beginning,
}

impl Record {
    /// Reads it, and changes nothing.
    pub(super) fn look(path: &Path) -> Result<Self, String> {
        let text = files::read(path).map_err(|reason| refused(path, &reason))?;
        let Some(text) = text else { return Ok(Self::default()) };
        let head: Head =
            serde_json::from_str(&text).map_err(|error| refused(path, &error.to_string()))?;
        if head.version > VERSION {
            return Err(refused(path, "a newer version of reqlore wrote it; use that one"));
        }
        serde_json::from_str(&text).map_err(|error| refused(path, &error.to_string()))
    }

    /// Reads it, and brings it to an end where an init was interrupted.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let record = Self::look(path)?;
        if record.before.is_empty() {
            return Ok(record);
        }
        Book::open(path)?.close()?;
        Self::look(path)
    }

    /// Whether a write came before the crash, its file tells.
    fn settle(&mut self) {
        for (path, before) in std::mem::take(&mut self.before) {
            files::clear(&path);
            let text = files::read(&path).ok().flatten();
            let is_written = self.files.get(&path).is_some_and(|kept| match text {
                Some(_) if kept.is_new && before.is_none() => true,
                Some(text) => kept.undo(&text).is_some(),
                None => false,
            });
            if !is_written {
                self.set(&path, before);
            }
        }
    }

    fn set(&mut self, file: &Path, kept: Option<Kept>) {
        match kept {
            Some(kept) => self.files.insert(file.to_owned(), kept),
            None => self.files.remove(file),
        };
    }
}

impl Kept {
    /// The text before, if what was put in still stands in this one.
    pub(super) fn undo(&self, text: &str) -> Option<String> {
        self.trace.as_ref().and_then(|trace| trace.undo(text))
    }
}

fn refused(path: &Path, reason: &str) -> String {
    format!(
        "the record of what init did, {}: {reason}. Nothing was written. If it is of no use any \
         more, move it away: then --remove --client NAME takes out an entry, but can't restore \
         what stood in its place",
        path.display()
    )
}

/// The record while nobody else can change it.
#[derive(Debug)]
pub(super) struct Book {
    path: PathBuf,
    pub(super) record: Record,
    /// Locked, until it is closed.
    _folder: File,
}

impl Book {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let failed = |error: io::Error| refused(path, &error.to_string());
        for _ in 0..MAX_TRIES {
            let made = files::missing_folders(path);
            let handle = fs::create_dir_all(folder).and_then(|()| File::open(folder));
            let handle = match handle {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                handle => handle.map_err(failed)?,
            };
            handle.lock().map_err(failed)?;
            // Who had the lock before may have removed the empty folder.
            if !is_same(&handle, folder) {
                continue;
            }
            let mut record = Record::look(path)?;
            record.settle();
            record.version = VERSION;
            record.folders.extend(made);
            return Ok(Self { path: path.to_owned(), record, _folder: handle });
        }
        Err(refused(path, "its folder is removed again and again"))
    }

    /// Puts on record that a file is being written: what is true of it then, and what if not.
    pub(super) fn begin(
        &mut self,
        file: &Path,
        kept: Kept,
        before: Option<Kept>,
    ) -> Result<(), String> {
        self.record.set(file, Some(kept));
        self.record.before.insert(file.to_owned(), before);
        self.save()
    }

    /// The write came or failed, so one of both is true.
    pub(super) fn end(&mut self, file: &Path, is_as_before: bool) {
        let before = self.record.before.remove(file).flatten();
        if is_as_before {
            self.record.set(file, before);
        }
    }

    /// Makes the folders that a file needs, and remembers them before.
    pub(super) fn make_folders(&mut self, file: &Path) -> Result<(), String> {
        let missing = files::missing_folders(file);
        let Some(innermost) = missing.last().cloned() else { return Ok(()) };
        self.record.folders.extend(missing);
        self.save()?;
        fs::create_dir_all(&innermost)
            .map_err(|error| format!("{} can't be made: {error}", innermost.display()))
    }

    /// Puts the record on disk. An empty one is no file.
    pub(super) fn save(&mut self) -> Result<(), String> {
        let failed = |error: io::Error| refused(&self.path, &error.to_string());
        if !self.record.files.is_empty() {
            let text = serde_json::to_string_pretty(&self.record)
                .map_err(|error| refused(&self.path, &error.to_string()))?;
            return files::replace(&self.path, &(text + "\n"), true).map_err(failed);
        }
        files::clear(&self.path);
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Removes the folders that were made and in which nothing is left, and ends.
    pub(super) fn close(mut self) -> Result<(), String> {
        let is_done = self.record.files.is_empty();
        let is_needed = |folder: &Path| {
            self.record.files.keys().any(|file| file.starts_with(folder))
                || !is_done && self.path.starts_with(folder)
        };
        let (needed, idle): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.record.folders).into_iter().partition(|f| is_needed(f));
        self.record.folders = needed;
        self.save()?;
        for folder in idle.iter().rev() {
            // What is not empty belongs to others by now.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

fn is_same(handle: &File, path: &Path) -> bool {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let there = fs::metadata(path).map(id).ok();
    there.is_some() && handle.metadata().map(id).ok() == there
}
