//! The redo journal: a commit of several documents is stored completely before the first of them
//! changes, so that the next process finishes it if this one dies in between.
//!
//! The holder of the project's lock rolls a journal forward, and readers try to. A reader that
//! finds it while its writer still runs goes on without. It may see some old and some new documents
//! for the few milliseconds of the exchange. A journal may come with a cloned repository, so
//! nothing in it is trusted unchecked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;
use cap_std::fs::Dir;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::{DocumentChange, StoreError, StoreResult};
use reqlore_local_state::as_file;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{failed, not_written, refused};
use crate::failpoint::{FailPoint, reached, sync_file};
use crate::layout::{ProjectRoot, ProjectTree, RequirementsLayout};
use crate::local::{self, LOCAL_STATE_DIR};
use crate::lock::ProjectLock;
use crate::stage_and_swap::{
    ApplyError, LoadedDocument, LoadedDocuments, StaleTempFiles, apply_one, lock_requirements,
};

const FILE_NAME: &str = "journal";
/// Its name in messages.
const DISPLAY_PATH: &str = ".reqlore/local/journal";
/// Its first bytes; its own identity and the checksum of the rest follow.
const MAGIC: &[u8] = b"reqlore journal 2\n";
/// The largest one, in bytes.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// The most attempts at a document that an editor saves meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// One document's change.
#[derive(Serialize, Deserialize)]
struct JournalEntry<'a> {
    id: DocumentId,
    /// The version that was read; `None` where there was no document.
    expected: Option<Version>,
    /// The complete new bytes; `None` to delete.
    #[serde(borrow)]
    new: Option<&'a [u8]>,
}

/// True if there may be one, of a killed process or a running one. Links on the way are followed.
pub(crate) fn exists(project: &Path) -> bool {
    let path = project.join(LOCAL_STATE_DIR).join(FILE_NAME);
    let found = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}

/// Stores the changes of a commit, durably.
pub(crate) fn write(
    root: &ProjectRoot,
    base: &LoadedDocuments,
    changes: &[DocumentChange],
) -> StoreResult<()> {
    let fail = |error| not_written(LOCAL_STATE_DIR, "write the journal", error);
    let entry = |change| journal_entry(base, change);
    let body = postcard::to_allocvec(&changes.iter().map(entry).collect::<Vec<_>>())
        .map_err(|error| StoreError::Internal(error.to_string()))?;
    if body.len() > MAX_BYTES {
        let reason = format!(
            "one change of more than {} MiB is too large; make it in parts. Nothing was written",
            MAX_BYTES >> 20
        );
        return Err(refused("the project's folder", &reason));
    }
    let local = local::open_or_create(&root.dir)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = match rustix::fs::openat(&local, FILE_NAME, flags, Mode::from(0o600)) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST) => {
            let reason = "stands where the journal must be written; move it away and try again. \
                          Nothing was written";
            return Err(refused(DISPLAY_PATH, reason));
        }
        Err(error) => return Err(fail(error.into())),
    };
    let mut write = || -> io::Result<()> {
        file.write_all(MAGIC)?;
        file.write_all(local::file_identity(&file.metadata()?).as_bytes())?;
        file.write_all(Version::of(&body).to_string().as_bytes())?;
        reached(FailPoint::JournalBegun)?;
        file.write_all(&body)?;
        reached(FailPoint::JournalWritten)?;
        file.sync_all()?;
        sync_file(FailPoint::JournalSynced, &as_file(&local)?)
    };
    write().map_err(|error| {
        remove(root);
        fail(error)
    })
}

fn journal_entry<'a>(base: &LoadedDocuments, change: &'a DocumentChange) -> JournalEntry<'a> {
    let id = change.id().clone();
    let found = base.get(&id).and_then(Option::as_ref);
    let new = match change {
        DocumentChange::Put { document } => Some(&*document.body),
        DocumentChange::Delete { .. } => None,
    };
    JournalEntry { expected: found.map(|found| found.document.version), id, new }
}

/// Removes the journal of a commit that was applied or put back. That is made durable as well: one
/// that came back after a power cut would undo what was written since.
pub(crate) fn remove(root: &ProjectRoot) {
    let removed = local::open_existing(&root.dir).and_then(|local| {
        let Some(local) = local else { return Ok(()) };
        local.remove_file(FILE_NAME)?;
        sync_file(FailPoint::JournalRemoved, &as_file(&local)?)
    });
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::error!(%error, "the journal in {LOCAL_STATE_DIR} could not be removed");
        }
        _ => {}
    }
}

/// The error of a commit that failed and could not be put back: its journal is still there.
pub(crate) fn commit_left_open(error: &StoreError) -> StoreError {
    let reason = format!(
        "a commit failed and could not be undone: {error}. The next call finishes it instead; read \
         again what you meant to write before you go on"
    );
    StoreError::Unavailable { place: DISPLAY_PATH.to_owned(), reason, source: None }
}

/// Finishes the commit of a killed process.
pub(crate) fn recover(layout: &RequirementsLayout, lock: &ProjectLock) -> StoreResult<()> {
    let root = &lock.root;
    let local = match local::open_existing(&root.dir) {
        Ok(Some(local)) => local,
        Ok(None) => return Ok(()),
        // Another user's: no writer of this project left a journal there.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(failed(LOCAL_STATE_DIR, "open it", error)),
    };
    let (bytes, identity) = match read_journal(&local) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(()),
        Err(error) => return Err(failed(LOCAL_STATE_DIR, "read the journal", error)),
    };
    if !is_ours(&bytes) {
        tracing::debug!("{DISPLAY_PATH} is no journal of ours; it is left");
        return Ok(());
    }
    if is_copied(&bytes, &identity) {
        tracing::warn!(
            "{DISPLAY_PATH} came with a clone or a copy; it is dropped, nothing is applied"
        );
    } else if let Some(entries) = parse_entries(&bytes) {
        tracing::warn!(documents = entries.len(), "finishing a commit that was interrupted");
        roll_forward_all(layout, root, &entries).map_err(recovery_failed)?;
    } else {
        tracing::warn!("a commit was interrupted before it began; nothing of it was written");
    }
    remove(root);
    Ok(())
}

/// A regular file's bytes and its identity; anything else is no journal.
fn read_journal(local: &Dir) -> io::Result<Option<(Vec<u8>, String)>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(local, FILE_NAME, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // A longer one is not ours: its checksum is wrong then.
    let limit = MAGIC.len() + local::IDENTITY_LENGTH + Version::LENGTH + MAX_BYTES;
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(Some((bytes, local::file_identity(&metadata))))
}

/// True if it begins as one of ours, even one that was interrupted after a few bytes.
fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || MAGIC.starts_with(bytes)
}

/// True if it names another file than itself, as one of a clone does.
fn is_copied(bytes: &[u8], identity: &str) -> bool {
    let named = bytes.get(MAGIC.len()..).and_then(|rest| rest.get(..local::IDENTITY_LENGTH));
    named.is_some_and(|named| named != identity.as_bytes())
}

/// `None` for one that is torn or was not written by us.
fn parse_entries(bytes: &[u8]) -> Option<Vec<JournalEntry<'_>>> {
    let (_, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(local::IDENTITY_LENGTH)?;
    let (sum, body) = rest.split_at_checked(Version::LENGTH)?;
    if sum != Version::of(body).to_string().as_bytes() {
        return None;
    }
    let entries: Vec<JournalEntry<'_>> = postcard::from_bytes(body).ok()?;
    entries.iter().all(|entry| entry.id.check().is_ok()).then_some(entries)
}

/// Brings all documents to their new states, save those that can't be written.
fn roll_forward_all(
    layout: &RequirementsLayout,
    root: &ProjectRoot,
    entries: &[JournalEntry<'_>],
) -> StoreResult<()> {
    let mut tree = ProjectTree::new(root, layout);
    let kinds = entries.iter().map(|entry| entry.id.kind);
    let _shared = match lock_requirements(root, &tree, kinds) {
        Err(error) if is_transient(&error) => return Err(error),
        // Its documents can't be reached either.
        locked => locked.ok().flatten(),
    };
    for entry in entries {
        let document = entry.id.to_string();
        match roll_forward(&mut tree, entry) {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(document, "was edited since the commit was interrupted; it is left");
            }
            Err(error) if is_transient(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(document, %error, "can't be written as was meant; it is left");
            }
        }
    }
    Ok(())
}

/// True if the same may succeed later. A journal that can never be applied would block each write.
fn is_transient(error: &StoreError) -> bool {
    match error {
        StoreError::Refused { .. } | StoreError::Unreadable { .. } => false,
        StoreError::Unavailable { source: Some(source), .. } => !matches!(
            Errno::from_io_error(source),
            Some(Errno::NAMETOOLONG | Errno::INVAL | Errno::LOOP | Errno::NOTDIR)
        ),
        _ => true,
    }
}

/// The error of a journal that can't be applied now, with the way out.
fn recovery_failed(error: StoreError) -> StoreError {
    if matches!(error, StoreError::Busy { .. }) {
        return error;
    }
    let reason = format!(
        "an interrupted commit could not be finished, and nothing else can be written before: \
         {error}. Correct that and try again; or remove {DISPLAY_PATH}, which leaves every document as \
         it is now"
    );
    StoreError::Unavailable { place: DISPLAY_PATH.to_owned(), reason, source: None }
}

/// Brings one document to its new state; false when it is in neither.
fn roll_forward(tree: &mut ProjectTree<'_>, entry: &JournalEntry<'_>) -> StoreResult<bool> {
    let id = &entry.id;
    for _ in 0..MAX_ATTEMPTS {
        let found = LoadedDocument::read(tree, id)?;
        let version = found.as_ref().map(|found| found.document.version);
        if version == entry.new.map(Version::of) {
            return Ok(true);
        }
        if version != entry.expected {
            return Ok(false);
        }
        let change = match entry.new {
            Some(new) => DocumentChange::put(id.clone(), Bytes::copy_from_slice(new)),
            None => DocumentChange::Delete { id: id.clone() },
        };
        StaleTempFiles::default().remove_all(tree, std::slice::from_ref(&change));
        tree.create_folder(id)?;
        match apply_one(tree, &LoadedDocuments::from([(id.clone(), found)]), &change) {
            Ok(()) => return Ok(true),
            Err(ApplyError::ConcurrentWrite) => {}
            Err(ApplyError::Store(error)) => return Err(error),
        }
    }
    Ok(false)
}
