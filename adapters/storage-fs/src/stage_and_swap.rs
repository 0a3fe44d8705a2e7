//! File changes: each is staged beside its target, exchanged with it, checked, and undone on
//! failure.
//!
//! Editors take no locks: the check after the exchange notices a save that came in between.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use cap_std::fs::MetadataExt as _;
use reqlore_domain::document::{Document, DocumentId, DocumentKind};
use reqlore_domain::ports::documents::{DocumentChange, StoreError, StoreResult};
use reqlore_durable_fs::keep_mode_and_owner;
use reqlore_local_state::as_file;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};

use crate::error::{failed, not_written, refused};
use crate::failpoint::{FailPoint, reached, supports_exchange, sync_file};
use crate::layout::{FileLocation, ProjectRoot, ProjectTree, same_folder};
use crate::{lock, read_file};

/// The documents that a commit read; `None` where there was none.
pub(crate) type LoadedDocuments = HashMap<DocumentId, Option<LoadedDocument>>;

/// Locks the requirements directory, which projects with other roots may share.
pub(crate) fn lock_requirements(
    root: &ProjectRoot,
    tree: &ProjectTree<'_>,
    mut kinds: impl Iterator<Item = DocumentKind>,
) -> StoreResult<Option<File>> {
    if !kinds.any(|kind| matches!(kind, DocumentKind::Instructions | DocumentKind::Section)) {
        return Ok(None);
    }
    let dir = tree.requirements()?.dir();
    Ok(dir.map(|dir| lock::lock_shared_folder(root, dir)).transpose()?.flatten())
}

/// Applies one change by itself. A process that is killed leaves the old file or the new one.
pub(crate) fn apply_one(
    tree: &ProjectTree<'_>,
    base: &LoadedDocuments,
    change: &DocumentChange,
) -> Result<(), ApplyError> {
    let changes = std::slice::from_ref(change);
    let (mut staged, mut exchanged) = (Vec::new(), 0);
    let outcome = stage_all(tree, base, changes, &mut staged)
        .map_err(ApplyError::from)
        .and_then(|()| exchange_all(&staged, &mut exchanged));
    if outcome.is_err() {
        // The log has what could not be put back; the caller gets the first error.
        let _ = put_back(&staged[..exchanged], false);
    }
    for replacement in &staged {
        replacement.remove_temp();
    }
    outcome
}

/// Undoes exchanges. With a journal that is made durable, before the journal is removed.
pub(crate) fn put_back(exchanged: &[FileReplacement<'_>], journaled: bool) -> StoreResult<()> {
    let mut undone = Ok(());
    for replacement in exchanged.iter().rev() {
        undone = undone.and(replacement.put_back());
    }
    if journaled { undone.and_then(|()| sync_folders(exchanged)) } else { undone }
}

/// Puts every new file in place, durably. `begun` counts the exchanges that were tried.
pub(crate) fn exchange_all(
    staged: &[FileReplacement<'_>],
    begun: &mut usize,
) -> Result<(), ApplyError> {
    for replacement in staged {
        *begun += 1;
        replacement.swap_in()?;
    }
    sync_folders(staged)?;
    let is_intact = staged.iter().all(FileReplacement::is_intact);
    if is_intact { Ok(()) } else { Err(ApplyError::ConcurrentWrite) }
}

pub(crate) fn stage_all<'a>(
    tree: &ProjectTree<'_>,
    base: &'a LoadedDocuments,
    changes: &'a [DocumentChange],
    staged: &mut Vec<FileReplacement<'a>>,
) -> StoreResult<()> {
    for change in changes {
        let found = base.get(change.id()).and_then(Option::as_ref);
        let Some(place) = tree.locate(change.id())? else {
            continue;
        };
        if found.is_some_and(|found| found.metadata.nlink() > 1) {
            return Err(refused(
                &place.display_path,
                "has more than one hard link, and writing would part them; copy the file over \
                 itself to end that. Nothing was written",
            ));
        }
        let old = found.map(|found| &found.document.body);
        let new = match change {
            DocumentChange::Put { document } => Some(&document.body),
            DocumentChange::Delete { .. } => None,
        };
        if old.is_none() && new.is_none() {
            continue;
        }
        staged.push(FileReplacement::new(place, old, new));
        if let (Some(replacement), Some(body)) = (staged.last(), new) {
            replacement.write_staged(body, found)?;
        }
    }
    Ok(())
}

fn sync_folders(staged: &[FileReplacement<'_>]) -> StoreResult<()> {
    for (at, replacement) in staged.iter().enumerate() {
        let dir = &replacement.place.dir;
        let is_same = |other: &FileReplacement<'_>| same_folder(&other.place.dir, dir);
        if !staged[..at].iter().any(is_same) {
            let done = as_file(dir).and_then(|folder| sync_file(FailPoint::FolderSynced, &folder));
            done.map_err(|error| replacement.not_written("sync its folder", error))?;
        }
    }
    Ok(())
}

/// The reason why nothing was applied.
pub(crate) enum ApplyError {
    /// Another program wrote since the decision was made.
    ConcurrentWrite,
    Store(StoreError),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A document and the file it came from.
#[derive(Debug)]
pub(crate) struct LoadedDocument {
    pub(crate) document: Document,
    pub(crate) metadata: Metadata,
    /// It looks as if another program were still saving it.
    pub(crate) is_partial: bool,
}

impl LoadedDocument {
    /// Reads a document. A save in place that is not finished is read again a few times.
    pub(crate) fn read(tree: &ProjectTree<'_>, id: &DocumentId) -> StoreResult<Option<Self>> {
        let Some(place) = tree.locate(id)? else { return Ok(None) };
        Ok(read_file::read_complete(&place)?.map(|content| Self {
            document: Document::new(id.clone(), content.bytes),
            metadata: content.metadata,
            is_partial: content.is_partial,
        }))
    }
}

/// One file's change from old to new. After the exchange the temporary name holds the old file.
pub(crate) struct FileReplacement<'a> {
    pub(crate) place: FileLocation,
    temp: String,
    /// The content that was read; `None` if the file was not there.
    old: Option<&'a Bytes>,
    /// The new content; `None` to delete.
    new: Option<&'a Bytes>,
    staged_identity: Cell<Option<FileIdentity>>,
}

/// Inode, size and modification time: they differ for another file and after a write.
type FileIdentity = (u64, u64, (i64, i64));

impl<'a> FileReplacement<'a> {
    pub(crate) fn new(place: FileLocation, old: Option<&'a Bytes>, new: Option<&'a Bytes>) -> Self {
        let random = RandomState::new().build_hasher().finish();
        let temp = format!("{TEMP_PREFIX}{random:016x}{TEMP_SUFFIX}");
        Self { place, temp, old, new, staged_identity: Cell::new(None) }
    }

    /// Writes the complete new file under the temporary name and syncs it.
    pub(crate) fn write_staged(
        &self,
        body: &Bytes,
        found: Option<&LoadedDocument>,
    ) -> StoreResult<()> {
        let write = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666);
            let fd = rustix::fs::openat(&self.place.dir, self.temp.as_str(), flags, mode)?;
            let mut file = File::from(fd);
            reached(FailPoint::TempCreated)?;
            if let Some(found) = found {
                keep_mode_and_owner(&found.metadata, &file)?;
            }
            file.write_all(body)?;
            reached(FailPoint::TempWritten)?;
            sync_file(FailPoint::TempSynced, &file)?;
            self.staged_identity.set(self.file_identity(&self.temp)?);
            Ok(())
        };
        write().map_err(|error| self.not_written("write it", error))
    }

    /// Puts the new state in place of the old one, and checks the file that came out.
    pub(crate) fn swap_in(&self) -> Result<(), ApplyError> {
        let moved = match (self.old, self.new) {
            (Some(_), Some(_)) => self.exchange_names(),
            (None, _) => self.rename_to_free(&self.temp, &self.place.name),
            (Some(_), None) => self.rename_to_free(&self.place.name, &self.temp),
        };
        match moved.map_err(|error| (error.kind(), error)) {
            Ok(()) => {}
            Err((io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists, _)) => {
                return Err(ApplyError::ConcurrentWrite);
            }
            Err((_, error)) => return Err(self.not_written("put it in place", error).into()),
        }
        self.failpoint(FailPoint::Exchanged)?;
        if !self.is_intact() {
            return Err(ApplyError::ConcurrentWrite);
        }
        self.failpoint(FailPoint::Checked)?;
        Ok(())
    }

    /// True if our file is in place and the old file still holds the content that was read. Editors
    /// take no locks: one may have saved before the exchange, another may save into the old file
    /// that it still has open, a third may put its own file over ours.
    pub(crate) fn is_intact(&self) -> bool {
        let in_place = self
            .file_identity(&self.place.name)
            .is_ok_and(|found| found == self.staged_identity.get());
        in_place && self.old.is_none_or(|old| self.has_content(&self.temp, old))
    }

    /// Undoes an exchange that may or may not have happened. A save in its place is newer than the
    /// file that was read, and stays.
    pub(crate) fn put_back(&self) -> StoreResult<()> {
        let name = &self.place.name;
        let is_ours = |name: &str| {
            self.file_identity(name).is_ok_and(|found| found == self.staged_identity.get())
        };
        let undone = reached(FailPoint::PuttingBack).and_then(|()| match (self.old, self.new) {
            (Some(_), Some(_)) => self.exchange_back(),
            (None, Some(_)) if is_ours(name) => self.rename_to_free(name, &self.temp),
            (Some(_), None) => self.rename_to_free(&self.temp, name),
            _ => Ok(()),
        });
        match undone.map_err(|error| (error.kind(), error)) {
            Ok(()) | Err((io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists, _)) => Ok(()),
            Err((_, error)) => {
                let place = &self.place.display_path;
                tracing::error!(place, %error, "the old file could not be put back");
                Err(failed(place, "put the old file back", error))
            }
        }
    }

    /// Gives the place back to its last writer. Each exchange may take out a later save; then that
    /// one is put back instead.
    fn exchange_back(&self) -> io::Result<()> {
        const MAX_EXCHANGES: usize = 100;
        let mut in_place = self.staged_identity.get();
        for _ in 0..MAX_EXCHANGES {
            let aside = self.file_identity(&self.temp)?;
            if aside.is_none() || aside == in_place {
                return Ok(());
            }
            self.exchange_names()?;
            if self.file_identity(&self.temp)? == in_place {
                return Ok(());
            }
            in_place = aside;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Removes our own file or the old one, which is no longer needed. Any other file is a save of
    /// an editor that found no place; it is kept under a name that is never swept.
    pub(crate) fn remove_temp(&self) {
        let dir = &self.place.dir;
        let found = self.file_identity(&self.temp).ok().flatten();
        let known = found == self.staged_identity.get()
            || self.old.is_some_and(|old| self.has_content(&self.temp, old));
        let done = match found {
            None => Ok(()),
            Some(_) if known || self.staged_identity.get().is_none() => {
                rustix::fs::unlinkat(dir, self.temp.as_str(), AtFlags::empty())
            }
            Some(_) => {
                let kept = self.temp.replace(TEMP_SUFFIX, ".kept");
                tracing::error!(
                    place = self.place.display_path,
                    kept,
                    "a save found no place; it is kept"
                );
                rustix::fs::renameat(dir, self.temp.as_str(), dir, kept.as_str())
            }
        };
        if let Err(error) = done {
            let place = &self.place.display_path;
            tracing::warn!(place, %error, "a temporary file was left behind");
        }
        // From here on a failure does not change the commit.
        let _ = reached(FailPoint::OldRemoved);
    }

    /// Exchanges our temporary name with the target's.
    fn exchange_names(&self) -> io::Result<()> {
        let (dir, temp, name) = (&self.place.dir, self.temp.as_str(), self.place.name.as_str());
        let exchange = || {
            if !supports_exchange() {
                return Err(rustix::io::Errno::INVAL);
            }
            rustix::fs::renameat_with(dir, temp, dir, name, RenameFlags::EXCHANGE)
        };
        match exchange() {
            // Not every file system can. The target is always there: the old file gets a second
            // name first, and the new one replaces the first atomically.
            Err(error) if is_unsupported(error) => {
                let aside = format!("{temp}{TEMP_SUFFIX}");
                rustix::fs::linkat(dir, name, dir, aside.as_str(), AtFlags::empty())?;
                rustix::fs::renameat(dir, temp, dir, name)?;
                Ok(rustix::fs::renameat(dir, aside.as_str(), dir, temp)?)
            }
            done => Ok(done?),
        }
    }

    /// Renames unless there is something of that name.
    fn rename_to_free(&self, from: &str, to: &str) -> io::Result<()> {
        let dir = &self.place.dir;
        match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            Err(error) if is_unsupported(error) => {
                rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(dir, from, AtFlags::empty())?)
            }
            done => Ok(done?),
        }
    }

    fn file_identity(&self, name: &str) -> io::Result<Option<FileIdentity>> {
        match self.place.dir.symlink_metadata(name) {
            Ok(found) => Ok(Some((found.ino(), found.size(), (found.mtime(), found.mtime_nsec())))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn has_content(&self, name: &str, expected: &Bytes) -> bool {
        let found = read_file::read_file(&self.place.dir, name, &self.place.display_path);
        found.is_ok_and(|found| found.is_some_and(|found| found.bytes == *expected))
    }

    pub(crate) fn failpoint(&self, step: FailPoint) -> StoreResult<()> {
        reached(step).map_err(|error| self.not_written("commit", error))
    }

    pub(crate) fn not_written(&self, doing: &str, error: io::Error) -> StoreError {
        not_written(&self.place.display_path, doing, error)
    }
}

fn is_unsupported(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP].contains(&error)
}

const TEMP_PREFIX: &str = ".reqlore-";
const TEMP_SUFFIX: &str = ".tmp";

/// True for the names of our temporary files.
pub(crate) fn is_temp(name: &str) -> bool {
    let random = name.strip_prefix(TEMP_PREFIX).and_then(|name| name.strip_suffix(TEMP_SUFFIX));
    random.is_some_and(|random| {
        random.len() >= 16 && random.bytes().take(16).all(|b| b.is_ascii_hexdigit())
    })
}

/// Temporary files of killed processes: remembers the folders that have none, with their times.
#[derive(Debug, Default)]
pub(crate) struct StaleTempFiles {
    clean_folders: Mutex<HashMap<FolderId, FolderTimes>>,
}

/// Device and inode of a folder.
type FolderId = (u64, u64);
/// Its modification and change times, in seconds and nanoseconds.
type FolderTimes = [(i64, i64); 2];

impl StaleTempFiles {
    /// Removes them from the folders of these changes. Under the lock no other process of ours can
    /// be writing there, so all of them are stale. A failure to remove them does no harm.
    pub(crate) fn remove_all(&self, tree: &ProjectTree<'_>, changes: &[DocumentChange]) {
        for (place, folder, times) in changed_folders(tree, changes) {
            let known = self.clean_folders.lock().unwrap_or_else(PoisonError::into_inner);
            let has_none = known.get(&folder) == Some(&times);
            drop(known);
            if !has_none {
                remove_temp_files(&place);
            }
        }
    }

    /// Remembers the folders of a commit that put these changes in place and removed its own files.
    pub(crate) fn mark_clean(&self, tree: &ProjectTree<'_>, changes: &[DocumentChange]) {
        for (_, folder, times) in changed_folders(tree, changes) {
            let mut known = self.clean_folders.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MAX_CLEAN_FOLDERS {
                known.clear();
            }
            known.insert(folder, times);
        }
    }
}

/// The most folders that are remembered.
const MAX_CLEAN_FOLDERS: usize = 1_000;

/// The folders of these changes, each once.
fn changed_folders(
    tree: &ProjectTree<'_>,
    changes: &[DocumentChange],
) -> Vec<(FileLocation, FolderId, FolderTimes)> {
    let mut folders: Vec<(FileLocation, FolderId, FolderTimes)> = Vec::new();
    for place in changes.iter().filter_map(|change| tree.locate(change.id()).ok().flatten()) {
        let Ok(found) = place.dir.dir_metadata() else { continue };
        let (folder, modified) = ((found.dev(), found.ino()), (found.mtime(), found.mtime_nsec()));
        if folders.iter().all(|(_, known, _)| *known != folder) {
            folders.push((place, folder, [modified, (found.ctime(), found.ctime_nsec())]));
        }
    }
    folders
}

fn remove_temp_files(place: &FileLocation) {
    let entries = place.dir.entries().into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(is_temp);
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            tracing::info!(name = ?name, "removing a file of an interrupted write");
            let _ = place.dir.remove_file(&name);
        }
    }
}
