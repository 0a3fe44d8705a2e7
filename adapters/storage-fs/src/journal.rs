//! Redo journal: stores a commit of several documents before the first file changes, so that the
//! next process can finish it.
//!
//! The holder of the project's lock rolls a journal forward; readers try to get the lock and do it.
//! If the writer still runs, a reader continues and may see some old and some new documents, for
//! the few milliseconds of the exchange. A journal may come with a cloned repository, so all of its
//! content is validated.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;
use cap_std::fs::Dir;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::{DocumentChange, StoreError, StoreResult};
use reqlore_durable_fs::folder::{
    FileAccess, OpenedFile, create_file, open_file, remove_file, rename, unique_file_id,
};
use reqlore_local_state as local;
use reqlore_local_state::error::{failed, not_written, refused};
use reqlore_local_state::{self, LOCAL_STATE_DIR};
use serde::{Deserialize, Serialize};

use crate::failpoint::{FailPoint, hit_failpoint, seen_inode, sync_folder};
use crate::folder_names::RequirementsLayout;
use crate::layout::{ProjectRoot, ProjectTree};
use crate::lock::ProjectLock;
use crate::stage_and_swap::{
    ApplyError, LoadedDocument, LoadedDocuments, apply_one, lock_requirements,
};
use crate::stale_temp_files::StaleTempFiles;
use crate::system::is_permanent;

const FILE_NAME: &str = "journal";
const DISPLAY_PATH: &str = ".reqlore/local/journal";
/// A journal that was not applied. It is kept, because it has texts of a commit that may be
/// incomplete.
const SET_ASIDE: &str = "journal.damaged";
/// The first bytes. The journal's own identity and the checksum of the body follow.
const MAGIC: &[u8] = b"reqlore journal 2\n";
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// The number of attempts at a document that an editor saves at the same time.
const MAX_ATTEMPTS: usize = 3;

/// One document's change.
#[derive(Serialize, Deserialize)]
struct JournalEntry<'a> {
    id: DocumentId,
    /// The version that was read; `None` if there was no document.
    expected: Option<Version>,
    /// The complete new content; `None` to delete.
    #[serde(borrow)]
    new: Option<&'a [u8]>,
}

/// True if there may be a journal, of a killed process or of a running one. Follows links on the
/// way, so the result is only a hint.
pub(crate) fn exists(project: &Path) -> bool {
    let path = project.join(LOCAL_STATE_DIR).join(FILE_NAME);
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Stores the changes of a commit, durably.
pub(crate) fn write(
    root: &ProjectRoot,
    base: &LoadedDocuments,
    changes: &[DocumentChange],
) -> StoreResult<()> {
    let entries: Vec<_> = changes.iter().map(|change| journal_entry(base, change)).collect();
    let body =
        postcard::to_allocvec(&entries).map_err(|error| StoreError::Internal(error.to_string()))?;
    // Recovery reads no more than this, and a longer journal would fail its checksum.
    if body.len() > MAX_BYTES {
        let reason = format!(
            "the change is larger than {} MiB; split it. Nothing was written",
            MAX_BYTES >> 20
        );
        return Err(refused("the project's folder", &reason));
    }
    let local = local::open_or_create(&root.dir)?;
    // A file of that name is not ours: `recover` has removed our journals under the same lock.
    let file = match create_file(&local, FILE_NAME, 0o600) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let reason = "blocks the journal, which needs this name; move it away and try again. \
                          Nothing was written";
            return Err(refused(DISPLAY_PATH, reason));
        }
        Err(error) => return Err(not_journaled(error)),
    };
    let written = write_body(&local, file, &body).map_err(not_journaled);
    written.and_then(|()| check_recoverable(&local)).inspect_err(|_| {
        // No document has changed yet, so there is nothing to finish.
        remove(root);
    })
}

fn write_body(local: &Dir, mut file: File, body: &[u8]) -> io::Result<()> {
    file.write_all(MAGIC)?;
    file.write_all(journal_identity(&file)?.as_bytes())?;
    // The checksum comes first, so that a journal that was cut off is recognized.
    file.write_all(Version::of_bytes(body).to_string().as_bytes())?;
    hit_failpoint(FailPoint::JournalBegun)?;
    file.write_all(body)?;
    hit_failpoint(FailPoint::JournalWritten)?;
    file.sync_all()?;
    // The new name is on disk only when its directory is.
    sync_folder(FailPoint::JournalSynced, local)
}

/// Fails if the next process would take this journal for a copy, and leave a commit incomplete.
fn check_recoverable(local: &Dir) -> StoreResult<()> {
    let header = read_journal(local, 0).map_err(not_journaled)?;
    if header.is_some_and(|(bytes, identity)| !is_copied(&bytes, &identity)) {
        return Ok(());
    }
    let reason = "a change of several documents needs a file system with stable inode numbers, to \
                  finish it after an interruption; change one document at a time, or move the \
                  project to a local disk. Nothing was written";
    Err(refused("the project's folder", reason))
}

/// The text that tells a journal from its copies.
fn journal_identity(file: &File) -> io::Result<String> {
    let (inode, origin) = unique_file_id(file, &file.metadata()?)?;
    Ok(local::format_file_id((seen_inode(inode), origin)))
}

fn not_journaled(error: io::Error) -> StoreError {
    not_written(LOCAL_STATE_DIR, "write the journal", error)
}

fn journal_entry<'a>(base: &LoadedDocuments, change: &'a DocumentChange) -> JournalEntry<'a> {
    let id = change.id().clone();
    let old = base.get(&id).and_then(Option::as_ref);
    let new = match change {
        DocumentChange::Put { document } => Some(&*document.body),
        DocumentChange::Delete { .. } => None,
    };
    JournalEntry { expected: old.map(|old| old.document.version), id, new }
}

/// Removes the journal of a commit that was applied or rolled back. The removal is durable too: a
/// journal that came back after a power cut would undo later writes.
pub(crate) fn remove(root: &ProjectRoot) {
    match try_remove(root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::error!(%error, "the journal in {LOCAL_STATE_DIR} could not be removed");
        }
        _ => {}
    }
}

fn try_remove(root: &ProjectRoot) -> io::Result<()> {
    let Some(local) = local::open_existing(&root.dir)? else { return Ok(()) };
    remove_file(&local, FILE_NAME)?;
    sync_folder(FailPoint::JournalRemoved, &local)
}

/// The error of a commit that could not be rolled back and keeps its journal.
pub(crate) fn commit_left_open(error: &StoreError) -> StoreError {
    let reason = format!(
        "a commit failed and could not be rolled back: {error}. The next call finishes the commit; \
         read the documents again before you continue"
    );
    StoreError::Unavailable { subject: DISPLAY_PATH.to_owned(), reason, source: None }
}

/// Finishes the commit of a killed process, if there is one.
pub(crate) fn recover(layout: &RequirementsLayout, lock: &ProjectLock) -> StoreResult<()> {
    let root = &lock.root;
    let local = match local::open_existing(&root.dir) {
        Ok(Some(local)) => local,
        Ok(None) => return Ok(()),
        // The directory of another user can't hold a journal of this project's writers.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(failed(LOCAL_STATE_DIR, "open it", error)),
    };
    let (bytes, identity) = match read_journal(&local, MAX_BYTES) {
        Ok(Some(journal)) => journal,
        Ok(None) => return Ok(()),
        Err(error) => return Err(failed(LOCAL_STATE_DIR, "read the journal", error)),
    };
    if !is_ours(&bytes) {
        tracing::debug!("{DISPLAY_PATH}: not a journal of Reqlore; ignoring it");
        return Ok(());
    }
    if is_copied(&bytes, &identity) {
        set_aside(root, "came with a clone or a copy, or is damaged");
        return Ok(());
    } else if let Some(entries) = parse_entries(&bytes) {
        tracing::warn!(documents = entries.len(), "finishing an interrupted commit");
        roll_forward_all(layout, root, &entries).map_err(recovery_failed)?;
    } else if bytes.len() > MAGIC.len() + local::IDENTITY_LENGTH + Version::LENGTH {
        set_aside(root, "is incomplete or damaged");
        return Ok(());
    } else {
        tracing::warn!("{DISPLAY_PATH}: incomplete, so its commit had not begun; removing it");
    }
    // Last: a process killed before this only repeats the recovery, which changes nothing more.
    remove(root);
    Ok(())
}

/// Keeps a journal under another name and does not apply it.
fn set_aside(root: &ProjectRoot, problem: &str) {
    tracing::error!(
        "{DISPLAY_PATH} {problem}, so it is not applied and its commit may be incomplete; compare \
         the documents that changed last with {LOCAL_STATE_DIR}/{SET_ASIDE} or a backup"
    );
    let renamed = local::open_existing(&root.dir).and_then(|local| match local {
        Some(local) => {
            rename(&local, FILE_NAME, SET_ASIDE)?;
            sync_folder(FailPoint::JournalRemoved, &local)
        }
        None => Ok(()),
    });
    // A repository may have a folder of that name. The journal must not block all writes.
    if let Err(error) = renamed {
        tracing::warn!(%error, "{DISPLAY_PATH} could not be renamed; removing it");
        remove(root);
    }
}

/// Reads the journal's header with up to `max_body` bytes of its body, and its identity; `None` if
/// it is missing or not a regular file.
fn read_journal(local: &Dir, max_body: usize) -> io::Result<Option<(Vec<u8>, String)>> {
    // The name may be a link or a pipe that came with a repository.
    let OpenedFile::File(file) = open_file(local, FILE_NAME, FileAccess::Read)? else {
        return Ok(None);
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let identity = journal_identity(&file)?;
    let mut bytes = Vec::new();
    // A longer file is not ours. Cut off here, it fails the checksum.
    let limit = MAGIC.len() + local::IDENTITY_LENGTH + Version::LENGTH + max_body;
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(Some((bytes, identity)))
}

/// True if the file begins like our journals, even if only a few bytes were written.
fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || MAGIC.starts_with(bytes)
}

/// True if the journal contains the identity of another file, as in a clone.
fn is_copied(bytes: &[u8], identity: &str) -> bool {
    let stored = bytes.get(MAGIC.len()..).and_then(|rest| rest.get(..local::IDENTITY_LENGTH));
    stored.is_some_and(|stored| stored != identity.as_bytes())
}

/// Returns the journal's entries; `None` if it is incomplete or invalid.
fn parse_entries(bytes: &[u8]) -> Option<Vec<JournalEntry<'_>>> {
    let (_, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(local::IDENTITY_LENGTH)?;
    let (checksum, body) = rest.split_at_checked(Version::LENGTH)?;
    if checksum != Version::of_bytes(body).to_string().as_bytes() {
        return None;
    }
    let entries: Vec<JournalEntry<'_>> = postcard::from_bytes(body).ok()?;
    // A forged journal can have a valid checksum, so its IDs are checked as well.
    let are_valid = entries.iter().all(|entry| entry.id.check().is_ok());
    are_valid.then_some(entries)
}

/// Rolls all documents forward. Documents that can never be written are skipped and logged.
fn roll_forward_all(
    layout: &RequirementsLayout,
    root: &ProjectRoot,
    entries: &[JournalEntry<'_>],
) -> StoreResult<()> {
    let mut tree = ProjectTree::new(root, layout);
    let kinds = entries.iter().map(|entry| entry.id.kind);
    let requirements_lock = match lock_requirements(root, &tree, kinds) {
        Ok(lock) => lock,
        Err(error) if is_transient(&error) => return Err(error),
        // Its documents can't be accessed either, and are skipped below.
        Err(_) => None,
    };
    // The killed process may have left a second name of a document, which blocks a write.
    let documents = entries.iter().map(|entry| &entry.id);
    StaleTempFiles::default().remove_all(&tree, documents, requirements_lock.as_ref());
    for entry in entries {
        let document = entry.id.to_string();
        match roll_forward(&mut tree, entry) {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(document, "edited since the commit was interrupted; skipping it");
            }
            Err(error) if is_transient(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(document, %error, "the change can't be written; skipping it");
            }
        }
    }
    Ok(())
}

/// True if the operation may succeed later. Other errors must not block all writes forever.
fn is_transient(error: &StoreError) -> bool {
    match error {
        StoreError::Refused { .. } | StoreError::Unreadable { .. } => false,
        // These depend on the path itself, so every later attempt would get them too.
        StoreError::Unavailable { source: Some(source), .. } => !is_permanent(source),
        _ => true,
    }
}

/// The error of a journal that can't be applied now.
fn recovery_failed(error: StoreError) -> StoreError {
    // Passes by itself, so the user has nothing to correct.
    if matches!(error, StoreError::Busy { .. }) {
        return error;
    }
    let reason = format!(
        "an interrupted commit could not be finished and blocks all writes: {error}. Correct that \
         and try again; or remove {DISPLAY_PATH}, which leaves all documents as they are now"
    );
    StoreError::Unavailable { subject: DISPLAY_PATH.to_owned(), reason, source: None }
}

/// Rolls one document forward; false if it has neither the old nor the new version.
fn roll_forward(tree: &mut ProjectTree<'_>, entry: &JournalEntry<'_>) -> StoreResult<bool> {
    let id = &entry.id;
    for _ in 0..MAX_ATTEMPTS {
        let loaded = LoadedDocument::read(tree, id)?;
        let version = loaded.as_ref().map(|loaded| loaded.document.version);
        // The killed process had already replaced this document.
        if version == entry.new.map(Version::of_bytes) {
            return Ok(true);
        }
        // A later save of an editor wins over the interrupted commit.
        if version != entry.expected {
            return Ok(false);
        }
        let change = match entry.new {
            Some(new) => DocumentChange::put(id.clone(), Bytes::copy_from_slice(new)),
            None => DocumentChange::Delete { id: id.clone() },
        };
        tree.create_folder(id)?;
        match apply_one(tree, &LoadedDocuments::from([(id.clone(), loaded)]), &change) {
            Ok(()) => return Ok(true),
            // An editor saved it just now: compare the versions again.
            Err(ApplyError::ConcurrentWrite) => {}
            Err(ApplyError::Store(error)) => return Err(error),
        }
    }
    Ok(false)
}
