//! Replaces files: stages each new file in a folder that Git ignores, or next to its target,
//! exchanges the two, checks the old file, and rolls back on failure.
//!
//! Editors take no locks. The check after the exchange detects a save that happened in between.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use cap_std::fs::Dir;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::documents::{DocumentChange, StoreError, StoreResult};
use reqlore_durable_fs::folder::{
    check_replaceable, create_file, remove_file, rename, retry_while_in_use,
};
use reqlore_durable_fs::keep_mode_and_owner;
use reqlore_local_state as local;
use reqlore_local_state::error::{failed, not_written, refused};

use crate::failpoint::{FailPoint, hit_failpoint, supports_exchange, sync_file, sync_folder};
use crate::file_stamp::FileStamp;
use crate::layout::{FileLocation, ProjectRoot, ProjectTree, same_folder};
use crate::system::FileFingerprint;
use crate::{lock, read_file, system};

/// The documents that a commit is based on; `None` for one that did not exist.
pub(crate) type LoadedDocuments = HashMap<DocumentId, Option<LoadedDocument>>;

/// Locks the requirements directory, which projects with different roots may share.
pub(crate) fn lock_requirements(
    root: &ProjectRoot,
    tree: &ProjectTree<'_>,
    mut kinds: impl Iterator<Item = DocumentKind>,
) -> StoreResult<Option<File>> {
    if !kinds.any(|kind| matches!(kind, DocumentKind::Instructions | DocumentKind::Section)) {
        return Ok(None);
    }
    match tree.requirements()?.dir() {
        Some(dir) => lock::lock_shared_folder(root, dir),
        None => Ok(None),
    }
}

/// Applies one change. A process that is killed leaves either the old file or the new one.
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
        // The caller gets the first error; this one is in the log.
        let _ = put_back(&staged[..exchanged], false);
    }
    for replacement in &staged {
        replacement.remove_temp();
    }
    outcome
}

/// Undoes exchanges. With a journal the result is made durable, before the journal is removed.
pub(crate) fn put_back(exchanged: &[FileReplacement<'_>], is_journaled: bool) -> StoreResult<()> {
    let mut outcome = Ok(());
    for replacement in exchanged.iter().rev() {
        // One failure does not stop the rest.
        outcome = outcome.and(replacement.put_back());
    }
    outcome?;
    if is_journaled { sync_folders(exchanged, failed) } else { Ok(()) }
}

/// Puts every new file in place, durably. Sets `begun` to the number of exchanges that were tried.
pub(crate) fn exchange_all(
    staged: &[FileReplacement<'_>],
    begun: &mut usize,
) -> Result<(), ApplyError> {
    for replacement in staged {
        // Counted before the attempt: an exchange that reports an error may still have happened.
        *begun += 1;
        replacement.swap_in()?;
    }
    // The check follows the sync, because editors may save while it waits for the disk.
    sync_folders(staged, not_written)?;
    let is_intact = staged.iter().all(FileReplacement::is_intact);
    if is_intact { Ok(()) } else { Err(ApplyError::ConcurrentWrite) }
}

/// Writes the new file of each change under a temporary name.
pub(crate) fn stage_all<'a>(
    tree: &ProjectTree<'_>,
    base: &'a LoadedDocuments,
    changes: &'a [DocumentChange],
    staged: &mut Vec<FileReplacement<'a>>,
) -> StoreResult<()> {
    for change in changes {
        let loaded = base.get(change.id()).and_then(Option::as_ref);
        let Some(location) = tree.locate(change.id())? else {
            continue;
        };
        if loaded.is_some_and(|loaded| loaded.stamp.has_hard_links()) {
            return Err(refused(
                &location.display_path,
                "has more than one hard link, and a write would separate them; replace it with a \
                 copy of itself. Nothing was written",
            ));
        }
        let old = loaded.map(|loaded| &loaded.document.body);
        let new = match change {
            DocumentChange::Put { document } => Some(&document.body),
            DocumentChange::Delete { .. } => None,
        };
        if old.is_none() && new.is_none() {
            continue;
        }
        let temp_dir = staging_folder(tree.root, &location);
        // Pushed before it is staged, so that the caller removes its file after an error.
        staged.push(FileReplacement::new(location, temp_dir, old, new));
        if let (Some(replacement), Some(body)) = (staged.last(), new) {
            replacement.stage(body, loaded)?;
        }
    }
    Ok(())
}

/// False after a rename between folders failed, as it does between some folders of one device.
static CAN_STAGE_APART: AtomicBool = AtomicBool::new(true);

/// The folder of the temporary file: `.reqlore/local`, so that no `git add` takes it, or the folder
/// of the target. On Unix also the latter if new files inherit its group or ACL. On Windows the
/// file keeps the permissions of `.reqlore/local`.
fn staging_folder(root: &ProjectRoot, location: &FileLocation) -> Arc<Dir> {
    let local = if root.is_in_git_repository() {
        local::open_or_create(&root.dir).ok()
    } else {
        local::open_existing(&root.dir).ok().flatten()
    };
    let local = local.filter(|local| {
        CAN_STAGE_APART.load(Relaxed) && system::may_exchange(local, &location.dir)
    });
    local.map_or_else(|| Arc::clone(&location.dir), Arc::new)
}

/// Syncs the folders of each replacement, each folder once. `describe` makes the error.
fn sync_folders(
    staged: &[FileReplacement<'_>],
    describe: fn(&str, &str, io::Error) -> StoreError,
) -> StoreResult<()> {
    let targets = staged.iter().map(|replacement| (replacement, &replacement.location.dir));
    // The other end of each rename. A file must not come back there, as a second hard link.
    let sources = staged.iter().map(|replacement| (replacement, &replacement.temp_dir));
    let mut done: Vec<&Dir> = Vec::new();
    for (replacement, dir) in targets.chain(sources) {
        if done.iter().any(|other| same_folder(other, dir)) {
            continue;
        }
        done.push(dir);
        let path = &replacement.location.display_path;
        sync_folder(FailPoint::FolderSynced, dir)
            .map_err(|error| describe(path, "sync its folder", error))?;
    }
    Ok(())
}

/// The reason why nothing was applied.
pub(crate) enum ApplyError {
    /// Another program wrote one of the files since the decision.
    ConcurrentWrite,
    Store(StoreError),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A document and the metadata of its file.
#[derive(Debug)]
pub(crate) struct LoadedDocument {
    pub(crate) document: Document,
    pub(crate) metadata: Metadata,
    pub(crate) stamp: FileStamp,
    /// The file looks as if another program were still saving it.
    pub(crate) is_partial: bool,
}

impl LoadedDocument {
    /// Reads a document. A file that looks partially saved is read again a few times.
    pub(crate) fn read(tree: &ProjectTree<'_>, id: &DocumentId) -> StoreResult<Option<Self>> {
        let Some(location) = tree.locate(id)? else { return Ok(None) };
        let Some(content) = read_file::read_complete(&location)? else { return Ok(None) };
        Ok(Some(Self {
            document: Document::new(id.clone(), content.bytes),
            metadata: content.metadata,
            stamp: content.stamp,
            is_partial: content.is_partial,
        }))
    }
}

/// The replacement of one file. After the exchange the temporary name holds the old file.
pub(crate) struct FileReplacement<'a> {
    pub(crate) location: FileLocation,
    /// The folder of the temporary names.
    temp_dir: Arc<Dir>,
    temp: String,
    /// The content that was read; `None` if the file was not there.
    old: Option<&'a Bytes>,
    /// The new content; `None` to delete.
    new: Option<&'a Bytes>,
    staged_fingerprint: Cell<Option<FileFingerprint>>,
}

/// Identity and content of a file; the version is `None` if it cannot be read.
struct FileState {
    identity: FileFingerprint,
    version: Option<Version>,
}

impl FileState {
    fn is_same(&self, other: &Self) -> bool {
        self.identity == other.identity || (self.version.is_some() && self.version == other.version)
    }
}

impl<'a> FileReplacement<'a> {
    pub(crate) fn new(
        location: FileLocation,
        temp_dir: Arc<Dir>,
        old: Option<&'a Bytes>,
        new: Option<&'a Bytes>,
    ) -> Self {
        // Random, so that the file of a killed process never blocks a write.
        let random = RandomState::new().build_hasher().finish();
        let temp = format!("{TEMP_PREFIX}{random:016x}{TEMP_SUFFIX}");
        Self { location, temp_dir, temp, old, new, staged_fingerprint: Cell::new(None) }
    }

    /// The folder of a name.
    fn folder_of(&self, name: &str) -> &Dir {
        if is_temp(name) { &self.temp_dir } else { &self.location.dir }
    }

    /// Writes the complete new file under the temporary name and syncs it.
    pub(crate) fn stage(&self, body: &Bytes, loaded: Option<&LoadedDocument>) -> StoreResult<()> {
        self.write_temp(body, loaded).map_err(|error| self.not_written("write it", error))
    }

    fn write_temp(&self, body: &Bytes, loaded: Option<&LoadedDocument>) -> io::Result<()> {
        // The mode of a file that an editor creates.
        let mut file = create_file(&self.temp_dir, &self.temp, 0o666)?;
        hit_failpoint(FailPoint::TempCreated)?;
        // Before the content: users without access to the old file must not read the new one.
        if let Some(loaded) = loaded {
            keep_mode_and_owner(&loaded.metadata, &file)?;
        }
        file.write_all(body)?;
        hit_failpoint(FailPoint::TempWritten)?;
        sync_file(FailPoint::TempSynced, &file)?;
        // After the last write, which changes the modification time.
        self.staged_fingerprint.set(self.fingerprint(&self.temp)?);
        Ok(())
    }

    /// Exchanges the old file with the new one, and checks the old file.
    pub(crate) fn swap_in(&self) -> Result<(), ApplyError> {
        let moved = match (self.old, self.new) {
            (Some(_), Some(_)) => self.exchange_names(),
            // Must not replace a file that an editor created since.
            (None, _) => self.rename_to_free(&self.temp, &self.location.name),
            (Some(_), None) => self.rename_to_free(&self.location.name, &self.temp),
        };
        if let Err(error) = moved {
            if is_name_conflict(&error) {
                return Err(ApplyError::ConcurrentWrite);
            }
            // The next attempt stages next to the target.
            if error.kind() == io::ErrorKind::CrossesDevices && CAN_STAGE_APART.swap(false, Relaxed)
            {
                return Err(ApplyError::ConcurrentWrite);
            }
            return Err(self.not_written("put it in place", error).into());
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
    /// that it still has open, a third may replace our file with its own.
    pub(crate) fn is_intact(&self) -> bool {
        self.is_staged_file(&self.location.name)
            && self.old.is_none_or(|old| self.has_content(&self.temp, old))
    }

    /// Undoes an exchange that may or may not have happened. A file that another program saved in
    /// its place is newer than the one that was read, and stays.
    pub(crate) fn put_back(&self) -> StoreResult<()> {
        let error = match self.try_put_back() {
            Err(error) if !is_name_conflict(&error) => error,
            // Verified, because the answer says that nothing was written.
            _ if self.is_in_place() => io::Error::other("the new content is still there"),
            _ => return Ok(()),
        };
        let path = &self.location.display_path;
        tracing::error!(path, %error, "the old file could not be put back");
        Err(failed(path, "put the old file back", error))
    }

    fn try_put_back(&self) -> io::Result<()> {
        hit_failpoint(FailPoint::PuttingBack)?;
        let name = &self.location.name;
        match (self.old, self.new) {
            (Some(_), Some(_)) => self.exchange_back(),
            (None, Some(_)) if self.is_staged_file(name) => self.rename_to_free(name, &self.temp),
            // Otherwise it was not removed.
            (Some(_), None) if self.fingerprint(name)?.is_none() => {
                self.rename_to_free(&self.temp, name)
            }
            _ => Ok(()),
        }
    }

    /// True if the change is visible under the file's name.
    fn is_in_place(&self) -> bool {
        let name = &self.location.name;
        match (self.old, self.new) {
            (Some(old), None) => {
                matches!(self.fingerprint(name), Ok(None)) && self.has_content(&self.temp, old)
            }
            (old, Some(new)) => old != Some(new) && self.has_content(name, new),
            (None, None) => false,
        }
    }

    /// Restores the file that was written last. Each exchange may take out a later save, which is
    /// then put back instead.
    fn exchange_back(&self) -> io::Result<()> {
        // Ends the contest with a program that saves continuously.
        const MAX_EXCHANGES: usize = 100;
        // While the temporary name exists, nothing was replaced.
        if self.fingerprint(&self.temp)?.is_none() {
            self.finish_exchange()?;
        }
        let (Some(identity), Some(new)) = (self.staged_fingerprint.get(), self.new) else {
            return Ok(());
        };
        let mut in_place = FileState { identity, version: Some(Version::of_bytes(new)) };
        for _ in 0..MAX_EXCHANGES {
            let Some(old) = self.file_state(&self.temp)? else { return Ok(()) };
            // The last writer's file is in place already.
            if old.is_same(&in_place) {
                return Ok(());
            }
            self.exchange_names()?;
            if self.file_state(&self.temp)?.is_some_and(|taken| taken.is_same(&in_place)) {
                return Ok(());
            }
            in_place = old;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Removes the file with the temporary name if it is ours or the old one. Any other file is a
    /// save of an editor; it is kept under a name that is never removed.
    pub(crate) fn remove_temp(&self) {
        let (temp_dir, dir) = (&self.temp_dir, &self.location.dir);
        let identity = self.fingerprint(&self.temp).ok().flatten();
        let staged = self.staged_fingerprint.get();
        let is_ours_or_old = self.is_staged_file(&self.temp)
            || self.old.is_some_and(|old| self.has_content(&self.temp, old));
        let removed = if identity.is_none() {
            Ok(())
        } else if is_ours_or_old || staged.is_none() {
            remove_file(temp_dir, &self.temp)
        } else {
            let kept = self.temp.replace(TEMP_SUFFIX, ".kept");
            let path = &self.location.display_path;
            tracing::error!(path, kept, "the save of another program is kept under another name");
            retry_while_in_use(|| temp_dir.rename(&self.temp, dir, &kept))
        };
        if let Err(error) = removed {
            let path = &self.location.display_path;
            tracing::warn!(path, %error, "a temporary file could not be removed");
        }
        // From here on a failure does not change the commit.
        let _ = hit_failpoint(FailPoint::OldRemoved);
    }

    /// Exchanges the files of our temporary name and the target's name.
    fn exchange_names(&self) -> io::Result<()> {
        let (temp_dir, dir) = (&*self.temp_dir, &*self.location.dir);
        let (temp, name) = (self.temp.as_str(), self.location.name.as_str());
        if supports_exchange() && system::exchange((temp_dir, temp), (dir, name))?.is_some() {
            return Ok(());
        }
        // Each attempt begins with the file that has the name then.
        retry_while_in_use(|| self.replace_and_keep())?;
        hit_failpoint(FailPoint::Replaced)?;
        self.finish_exchange()
    }

    /// Replaces the target by the temporary file. The target must always exist: so the old file
    /// gets a second name first, and the new file replaces the first name atomically.
    fn replace_and_keep(&self) -> io::Result<()> {
        let (temp_dir, dir, name) = (&self.temp_dir, &self.location.dir, &self.location.name);
        check_replaceable(dir, name)?;
        let second_name = self.second_name();
        dir.hard_link(name, temp_dir, &second_name)?;
        let replaced =
            hit_failpoint(FailPoint::Linked).and_then(|()| temp_dir.rename(&self.temp, dir, name));
        if replaced.is_err() {
            // Nothing was replaced, and a second hard link would block the next write.
            remove_file(temp_dir, &second_name)?;
        }
        replaced
    }

    /// The name of the old file in the middle of an exchange without system support.
    fn second_name(&self) -> String {
        format!("{}{TEMP_SUFFIX}", self.temp)
    }

    /// Moves the old file from its second name to the temporary one, if it is there.
    fn finish_exchange(&self) -> io::Result<()> {
        let dir = &self.temp_dir;
        match rename(dir, &self.second_name(), &self.temp) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Renames a file; fails with `AlreadyExists` if the new name is taken.
    fn rename_to_free(&self, from: &str, to: &str) -> io::Result<()> {
        let (from_dir, to_dir) = (self.folder_of(from), self.folder_of(to));
        if supports_exchange() && system::rename_to_free((from_dir, from), (to_dir, to))?.is_some()
        {
            return Ok(());
        }
        // A link fails if the name exists; a plain rename would replace that file.
        retry_while_in_use(|| check_replaceable(from_dir, from))?;
        from_dir.hard_link(from, to_dir, to)?;
        let removed =
            hit_failpoint(FailPoint::LinkedToFree).and_then(|()| remove_file(from_dir, from));
        // The document is complete under its name, and `remove_temp` tries the other one again.
        if from == self.temp { Ok(()) } else { removed }
    }

    fn fingerprint(&self, name: &str) -> io::Result<Option<FileFingerprint>> {
        match system::file_fingerprint(self.folder_of(name), name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            identity => Ok(Some(identity?)),
        }
    }

    fn file_state(&self, name: &str) -> io::Result<Option<FileState>> {
        let Some(identity) = self.fingerprint(name)? else { return Ok(None) };
        let read = read_file::read_file(self.folder_of(name), name, &self.location.display_path);
        let content = read.ok().flatten();
        let version = content.map(|content| Version::of_bytes(&content.bytes));
        Ok(Some(FileState { identity, version }))
    }

    /// True if the file is the staged one, or has its content; for a deletion, if it does not
    /// exist.
    fn is_staged_file(&self, name: &str) -> bool {
        match self.fingerprint(name) {
            Ok(identity) if identity == self.staged_fingerprint.get() => true,
            Ok(Some(_)) => self.new.is_some_and(|new| self.has_content(name, new)),
            _ => false,
        }
    }

    fn has_content(&self, name: &str, expected: &Bytes) -> bool {
        match read_file::read_file(self.folder_of(name), name, &self.location.display_path) {
            Ok(Some(content)) => content.bytes == *expected,
            // A file that can't be read may be another program's save, so it is treated as one.
            _ => false,
        }
    }

    pub(crate) fn failpoint(&self, step: FailPoint) -> StoreResult<()> {
        hit_failpoint(step).map_err(|error| self.not_written("commit", error))
    }

    pub(crate) fn not_written(&self, doing: &str, error: io::Error) -> StoreError {
        not_written(&self.location.display_path, doing, error)
    }
}

/// True if another program created or removed one of the names.
fn is_name_conflict(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

const TEMP_PREFIX: &str = ".reqlore-";
const TEMP_SUFFIX: &str = ".tmp";

/// True for the names of our temporary files.
pub(crate) fn is_temp(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(TEMP_PREFIX) else { return false };
    let Some(random) = rest.strip_suffix(TEMP_SUFFIX) else { return false };
    // Files of other programs must not be removed, so the whole pattern is checked.
    random.len() >= 16 && random.bytes().take(16).all(|byte| byte.is_ascii_hexdigit())
}
