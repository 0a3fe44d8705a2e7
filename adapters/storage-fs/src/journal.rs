//! The redo journal: a commit of several documents of their own is written down whole before the
//! first of them changes, so that a process which dies in between leaves all of it to the next one.
//!
//! Whoever holds the project's lock rolls a journal forward, and whoever reads tries to. A reader
//! that finds it while its writer still runs goes on without: it may see some documents as they
//! were and others as they will be, for the few milliseconds that the exchange takes. The trap: a
//! journal may come with a cloned repository, so it says nothing that is believed unchecked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;
use cap_std::fs::{Dir, Metadata};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::{Change, StoreError, StoreResult};
use reqlore_local_state::as_file;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{failed, not_written, refused};
use crate::failpoint::{Step, reached, synced};
use crate::layout::{Layout, Root, Tree};
use crate::local::{self, LOCAL};
use crate::lock::Lock;
use crate::stage_and_swap::{Base, Failed, Found, Leftovers, apply_one, lock_requirements};

const NAME: &str = "journal";
/// What messages call it.
const SHOWN: &str = ".reqlore/local/journal";
/// What it begins with; then come its own identity and the checksum of the rest.
const MAGIC: &[u8] = b"reqlore journal 2\n";
/// The largest one, in bytes.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// How often a document is tried again that an editor saves meanwhile.
const ATTEMPTS: usize = 3;

/// One document's change.
#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    id: DocumentId,
    /// What was read; `None` where there was nothing.
    expected: Option<Version>,
    /// The complete new bytes; `None` to delete.
    #[serde(borrow)]
    new: Option<&'a [u8]>,
}

/// Has somebody left one, or is he just writing it? A hint: a link on the way there is followed.
pub(crate) fn is_there(project: &Path) -> bool {
    let path = project.join(LOCAL).join(NAME);
    let found = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}

/// Writes down what a commit is about to do, durably.
pub(crate) fn write(root: &Root, base: &Base, changes: &[Change]) -> StoreResult<()> {
    let fail = |error| not_written(LOCAL, "write the journal", error);
    let entry = |change| entry(base, change);
    let body = postcard::to_allocvec(&changes.iter().map(entry).collect::<Vec<_>>())
        .map_err(|error| StoreError::Internal(error.to_string()))?;
    if body.len() > MAX_BYTES {
        let reason = format!(
            "one change of more than {} MiB is too large; make it in parts. Nothing was written",
            MAX_BYTES >> 20
        );
        return Err(refused("the project's folder", &reason));
    }
    let local = local::create(&root.dir)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = match rustix::fs::openat(&local, NAME, flags, Mode::from(0o600)) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST) => {
            let reason = "stands where the journal must be written; move it away and try again. \
                          Nothing was written";
            return Err(refused(SHOWN, reason));
        }
        Err(error) => return Err(fail(error.into())),
    };
    let mut write = || -> io::Result<()> {
        file.write_all(MAGIC)?;
        file.write_all(local::file_identity(&Metadata::from_file(&file)?).as_bytes())?;
        file.write_all(Version::of(&body).to_string().as_bytes())?;
        reached(Step::JournalBegun)?;
        file.write_all(&body)?;
        reached(Step::JournalWritten)?;
        file.sync_all()?;
        synced(Step::JournalSynced, &as_file(&local)?)
    };
    write().map_err(|error| {
        remove(root);
        fail(error)
    })
}

fn entry<'a>(base: &Base, change: &'a Change) -> Entry<'a> {
    let id = change.id().clone();
    let found = base.get(&id).and_then(Option::as_ref);
    let new = match change {
        Change::Put { document } => Some(&*document.body),
        Change::Delete { .. } => None,
    };
    Entry { expected: found.map(|found| found.document.version), id, new }
}

/// Removes the journal of a commit that was applied or put back. That is made durable as well: one
/// that came back after a power cut would undo what was written since.
pub(crate) fn remove(root: &Root) {
    let removed = local::find(&root.dir).and_then(|local| {
        let Some(local) = local else { return Ok(()) };
        local.remove_file(NAME)?;
        synced(Step::JournalRemoved, &as_file(&local)?)
    });
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::error!(%error, "the journal in {LOCAL} could not be removed");
        }
        _ => {}
    }
}

/// What to say of a commit that failed and could not be put back: its journal is still there.
pub(crate) fn kept(error: &StoreError) -> StoreError {
    let reason = format!(
        "a commit failed and could not be undone: {error}. The next call finishes it instead; read \
         again what you meant to write before you go on"
    );
    StoreError::Unavailable { place: SHOWN.to_owned(), reason, source: None }
}

/// Does what a killed process did not come to.
pub(crate) fn settle(layout: &Layout, lock: &Lock) -> StoreResult<()> {
    let root = &lock.root;
    let local = match local::find(&root.dir) {
        Ok(Some(local)) => local,
        Ok(None) => return Ok(()),
        // Another user's: nobody who writes here left one there.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(failed(LOCAL, "open it", error)),
    };
    let (bytes, identity) = match read(&local) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(()),
        Err(error) => return Err(failed(LOCAL, "read the journal", error)),
    };
    if !is_ours(&bytes) {
        tracing::debug!("{SHOWN} is no journal of ours; it is left");
        return Ok(());
    }
    if is_copied(&bytes, &identity) {
        tracing::warn!("{SHOWN} came with a clone or a copy; it is dropped, nothing is applied");
    } else if let Some(entries) = parse(&bytes) {
        tracing::warn!(documents = entries.len(), "finishing a commit that was interrupted");
        roll_all(layout, root, &entries).map_err(unfinished)?;
    } else {
        tracing::warn!("a commit was interrupted before it began; nothing of it was written");
    }
    remove(root);
    Ok(())
}

/// A regular file's bytes and its identity; anything else is no journal.
fn read(local: &Dir) -> io::Result<Option<(Vec<u8>, String)>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(local, NAME, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = Metadata::from_file(&file)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // What is longer is no journal of ours: its checksum is wrong then.
    let limit = MAGIC.len() + local::IDENTITY_LENGTH + Version::LENGTH + MAX_BYTES;
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(Some((bytes, local::file_identity(&metadata))))
}

/// Does it begin as one of ours? Of one that was interrupted there may be less than that.
fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || MAGIC.starts_with(bytes)
}

/// Does it name another file than itself? A clone brings such a one along.
fn is_copied(bytes: &[u8], identity: &str) -> bool {
    let named = bytes.get(MAGIC.len()..).and_then(|rest| rest.get(..local::IDENTITY_LENGTH));
    named.is_some_and(|named| named != identity.as_bytes())
}

/// `None` for what is torn or was not written by us.
fn parse(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let (_, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(local::IDENTITY_LENGTH)?;
    let (sum, body) = rest.split_at_checked(Version::LENGTH)?;
    if sum != Version::of(body).to_string().as_bytes() {
        return None;
    }
    let entries: Vec<Entry<'_>> = postcard::from_bytes(body).ok()?;
    entries.iter().all(|entry| entry.id.check().is_ok()).then_some(entries)
}

/// Brings all documents to their new states, save those that can't be.
fn roll_all(layout: &Layout, root: &Root, entries: &[Entry<'_>]) -> StoreResult<()> {
    let mut tree = Tree::new(root, layout);
    let kinds = entries.iter().map(|entry| entry.id.kind);
    let _shared = match lock_requirements(root, &tree, kinds) {
        Err(error) if may_pass(&error) => return Err(error),
        // Its documents can't be reached either.
        locked => locked.ok().flatten(),
    };
    for entry in entries {
        let document = entry.id.to_string();
        match roll(&mut tree, entry) {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(document, "was edited since the commit was interrupted; it is left");
            }
            Err(error) if may_pass(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(document, %error, "can't be written as was meant; it is left");
            }
        }
    }
    Ok(())
}

/// Could the same succeed later? A journal that waits for what never comes would block each write.
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Refused { .. } | StoreError::Unreadable { .. } => false,
        StoreError::Unavailable { source: Some(source), .. } => !matches!(
            Errno::from_io_error(source),
            Some(Errno::NAMETOOLONG | Errno::INVAL | Errno::LOOP | Errno::NOTDIR)
        ),
        _ => true,
    }
}

/// The way out for whoever meets a journal that can't be applied now.
fn unfinished(error: StoreError) -> StoreError {
    if matches!(error, StoreError::Busy { .. }) {
        return error;
    }
    let reason = format!(
        "an interrupted commit could not be finished, and nothing else can be written before: \
         {error}. Mend that and try again; or remove {SHOWN}, which leaves every document as it \
         is now"
    );
    StoreError::Unavailable { place: SHOWN.to_owned(), reason, source: None }
}

/// Brings one document to its new state; false when it is in neither.
fn roll(tree: &mut Tree<'_>, entry: &Entry<'_>) -> StoreResult<bool> {
    let id = &entry.id;
    for _ in 0..ATTEMPTS {
        let found = Found::read(tree, id)?;
        let version = found.as_ref().map(|found| found.document.version);
        if version == entry.new.map(Version::of) {
            return Ok(true);
        }
        if version != entry.expected {
            return Ok(false);
        }
        let change = match entry.new {
            Some(new) => Change::put(id.clone(), Bytes::copy_from_slice(new)),
            None => Change::Delete { id: id.clone() },
        };
        Leftovers::default().remove(tree, std::slice::from_ref(&change));
        tree.create_folder(id)?;
        match apply_one(tree, &Base::from([(id.clone(), found)]), &change) {
            Ok(()) => return Ok(true),
            Err(Failed::ChangedSince) => {}
            Err(Failed::Store(error)) => return Err(error),
        }
    }
    Ok(false)
}
