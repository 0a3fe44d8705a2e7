//! One commit on files: all changes or none, on disk before the answer.
//!
//! Under the lock: read, decide, stage every new file completely, then exchange each with its
//! target and look at what came out. If that is not what was read, an editor saved in between: all
//! is put back and decided anew. The first document of a commit is the truth and later ones are
//! derived from it, so a process killed between two exchanges leaves a stale list, which the next
//! commit heals, and never a half document.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};

use bytes::Bytes;
use cap_std::fs::{Dir, Metadata, MetadataExt};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};

use crate::Shared;
use crate::error::{not_written, refused};
use crate::failpoint::{Step, reached};
use crate::layout::{Place, Requirements, Root, sync_dir};
use crate::lock::Lock;
use crate::scan::{self, Found};

/// How often a commit starts over because somebody without the lock wrote in between.
const ATTEMPTS: usize = 3;

/// Runs a commit under the lock of the project's folder.
pub(crate) fn run(
    shared: &Shared,
    project: &ProjectKey,
    root: &Root,
    mut commit: Commit,
    _lock: &Lock,
) -> StoreResult<Committed> {
    let step = |step, place: &Requirements<'_>| {
        reached(step).map_err(|error| not_written(&place.shown(""), "commit", error))
    };
    for _ in 0..ATTEMPTS {
        let mut requirements = shared.layout.find(root)?;
        step(Step::Locked, &requirements)?;
        let base = read_all(&requirements, &commit.reads.documents)?;
        let heads = match commit.reads.heads {
            Some(kind) => shared.heads.of_kind(project, &requirements, kind)?,
            None => Vec::new(),
        };
        step(Step::Read, &requirements)?;
        let documents =
            commit.reads.documents.iter().map(|id| {
                base.get(id).and_then(Option::as_ref).map(|found| found.document.clone())
            });
        let mut snapshot = Snapshot { documents: documents.collect(), heads };
        snapshot.heads.sort_by(|a, b| a.id.cmp(&b.id));
        let changes = (commit.decide)(&snapshot).map_err(StoreError::Decided)?;
        drop(snapshot);
        step(Step::Decided, &requirements)?;
        if let Some(change) = changes.iter().find(|change| !base.contains_key(change.id())) {
            return Err(StoreError::Fault(format!("{} was changed and not read", change.id())));
        }
        if changes.is_empty() {
            let revision = shared.histories.record(project, &[]);
            return Ok(Committed { revision, versions: Vec::new() });
        }
        requirements.create()?;
        remove_leftovers(&requirements);
        match apply(&requirements, &base, &changes) {
            Ok(()) => return Ok(record(shared, project, &changes)),
            Err(Failed::ChangedSince) => {}
            Err(Failed::Store(error)) => return Err(error),
        }
    }
    Err(StoreError::Busy {
        reason: "Another program kept saving the same file. Nothing was written; try again.".into(),
    })
}

type Base = HashMap<DocumentId, Option<Found>>;

fn read_all(requirements: &Requirements<'_>, ids: &[DocumentId]) -> StoreResult<Base> {
    ids.iter().map(|id| Ok((id.clone(), scan::read(requirements, id)?))).collect()
}

fn record(shared: &Shared, project: &ProjectKey, changes: &[Change]) -> Committed {
    let version = |change: &Change| match change {
        Change::Put { body, .. } => Some(Version::of(body)),
        Change::Delete { .. } => None,
    };
    let written: Vec<(DocumentId, Option<Version>)> =
        changes.iter().map(|change| (change.id().clone(), version(change))).collect();
    let revision = shared.histories.record(project, &written);
    Committed { revision, versions: written.into_iter().map(|(_, version)| version).collect() }
}

/// Why nothing was applied.
enum Failed {
    /// Somebody else wrote since the decision was made.
    ChangedSince,
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn apply(requirements: &Requirements<'_>, base: &Base, changes: &[Change]) -> Result<(), Failed> {
    let mut staged = Vec::with_capacity(changes.len());
    let mut applied = 0;
    let outcome =
        stage_all(requirements, base, changes, &mut staged).map_err(Failed::from).and_then(|()| {
            for replacement in &staged {
                applied += 1;
                replacement.exchange()?;
            }
            sync_folders(&staged)
        });
    if outcome.is_err() {
        for replacement in staged[..applied].iter().rev() {
            replacement.put_back();
        }
    }
    for replacement in &staged {
        replacement.remove_temp();
    }
    // The old content's name is gone from the folder now; nobody waits for that to be durable.
    outcome
}

fn stage_all<'a>(
    requirements: &Requirements<'_>,
    base: &'a Base,
    changes: &'a [Change],
    staged: &mut Vec<Replacement<'a>>,
) -> StoreResult<()> {
    for change in changes {
        let found = base.get(change.id()).and_then(Option::as_ref);
        let Some(place) = requirements.place(change.id())? else {
            continue;
        };
        if found.is_some_and(|found| found.metadata.nlink() > 1) {
            return Err(refused(
                &place.shown,
                "has more than one hard link, and writing would part them; copy the file over \
                 itself to end that. Nothing was written",
            ));
        }
        let old = found.map(|found| &found.document.body);
        let new = match change {
            Change::Put { body, .. } => Some(body),
            Change::Delete { .. } => None,
        };
        if old.is_none() && new.is_none() {
            continue;
        }
        let temp = format!(
            "{TEMP_PREFIX}{:016x}{TEMP_SUFFIX}",
            RandomState::new().build_hasher().finish()
        );
        staged.push(Replacement { place, temp, old, new });
        if let (Some(replacement), Some(body)) = (staged.last(), new) {
            replacement.stage(body, found)?;
        }
    }
    Ok(())
}

fn sync_folders(staged: &[Replacement<'_>]) -> Result<(), Failed> {
    for (at, replacement) in staged.iter().enumerate() {
        let dir = &replacement.place.dir;
        let is_same = |other: &Replacement<'_>| same_folder(&other.place.dir, dir);
        if !staged[..at].iter().any(is_same) {
            sync_dir(dir).map_err(|error| replacement.not_written("sync its folder", error))?;
        }
    }
    if let Some(first) = staged.first() {
        first.reached(Step::FolderSynced)?;
    }
    Ok(())
}

fn same_folder(a: &Dir, b: &Dir) -> bool {
    let id = |dir: &Dir| rustix::fs::fstat(dir).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    id(a).is_some() && id(a) == id(b)
}

/// One file on its way from old to new. After the exchange the temporary name holds the old one.
struct Replacement<'a> {
    place: Place,
    temp: String,
    /// What was read; `None` when the file was not there.
    old: Option<&'a Bytes>,
    /// What shall be there; `None` to delete.
    new: Option<&'a Bytes>,
}

impl Replacement<'_> {
    /// Writes the complete new file under the temporary name and syncs it.
    fn stage(&self, body: &Bytes, found: Option<&Found>) -> StoreResult<()> {
        let write = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666);
            let fd = rustix::fs::openat(&self.place.dir, self.temp.as_str(), flags, mode)?;
            let mut file = File::from(fd);
            reached(Step::TempCreated)?;
            if let Some(found) = found {
                keep_mode_and_owner(&file, found)?;
            }
            file.write_all(body)?;
            reached(Step::TempWritten)?;
            file.sync_all()?;
            reached(Step::TempSynced)
        };
        write().map_err(|error| self.not_written("write it", error))
    }

    /// Puts the new state in place of the old one and looks at what came out.
    fn exchange(&self) -> Result<(), Failed> {
        let moved = match (self.old, self.new) {
            (Some(_), Some(_)) => self.rename(&self.temp, &self.place.name, RenameFlags::EXCHANGE),
            (None, _) => self.rename(&self.temp, &self.place.name, RenameFlags::NOREPLACE),
            (Some(_), None) => self.rename(&self.place.name, &self.temp, RenameFlags::NOREPLACE),
        };
        match moved {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::EXIST) => {
                return Err(Failed::ChangedSince);
            }
            Err(error) => return Err(self.not_written("put it in place", error.into()).into()),
        }
        self.reached(Step::Exchanged)?;
        if let Some(old) = self.old
            && !self.holds(&self.temp, old)
        {
            return Err(Failed::ChangedSince);
        }
        self.reached(Step::Checked)?;
        Ok(())
    }

    /// Undoes an exchange that may or may not have happened.
    fn put_back(&self) {
        let name = &self.place.name;
        let undone = match (self.old, self.new) {
            (Some(_), Some(new)) if !self.holds(&self.temp, new) => {
                self.rename(&self.temp, name, RenameFlags::EXCHANGE)
            }
            (None, Some(new)) if self.holds(name, new) => {
                self.rename(name, &self.temp, RenameFlags::NOREPLACE)
            }
            (Some(_), None) => self.rename(&self.temp, name, RenameFlags::NOREPLACE),
            _ => Ok(()),
        };
        if let Err(error) = undone
            && error != rustix::io::Errno::NOENT
        {
            tracing::error!(place = %self.place.shown, %error, "the old file could not be put back");
        }
    }

    fn rename(&self, from: &str, to: &str, how: RenameFlags) -> rustix::io::Result<()> {
        let dir = &self.place.dir;
        match rustix::fs::renameat_with(dir, from, dir, to, how) {
            // Not every file system can exchange; then only the moment before is checked.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                self.rename_plainly(from, to, how)
            }
            done => done,
        }
    }

    fn rename_plainly(&self, from: &str, to: &str, how: RenameFlags) -> rustix::io::Result<()> {
        let dir = &self.place.dir;
        if how == RenameFlags::NOREPLACE {
            return match rustix::fs::statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(rustix::io::Errno::NOENT) => rustix::fs::renameat(dir, from, dir, to),
                Ok(_) => Err(rustix::io::Errno::EXIST),
                Err(error) => Err(error),
            };
        }
        let aside = format!("{}{TEMP_SUFFIX}", self.temp);
        rustix::fs::renameat(dir, to, dir, &aside)?;
        rustix::fs::renameat(dir, from, dir, to)?;
        rustix::fs::renameat(dir, &aside, dir, from)
    }

    fn holds(&self, name: &str, expected: &Bytes) -> bool {
        let found = scan::read_file(&self.place.dir, name, &self.place.shown);
        found.is_ok_and(|found| found.is_some_and(|(bytes, _)| bytes == *expected))
    }

    fn remove_temp(&self) {
        match rustix::fs::unlinkat(&self.place.dir, self.temp.as_str(), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => {
                tracing::warn!(place = %self.place.shown, %error, "a temporary file was left behind");
            }
        }
        // Whatever happens from here on, the commit stands.
        let _ = reached(Step::OldRemoved);
    }

    fn reached(&self, step: Step) -> StoreResult<()> {
        reached(step).map_err(|error| self.not_written("commit", error))
    }

    fn not_written(&self, doing: &str, error: io::Error) -> StoreError {
        not_written(&self.place.shown, doing, error)
    }
}

fn keep_mode_and_owner(file: &File, found: &Found) -> io::Result<()> {
    let (old, new) = (&found.metadata, Metadata::from_file(file)?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
        if let Err(error) = rustix::fs::fchown(file, Some(uid), Some(gid)) {
            tracing::debug!(%error, "the owner could not be kept");
        }
    }
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(old.mode() & 0o7777))?)
}

const TEMP_PREFIX: &str = ".reqlore-";
const TEMP_SUFFIX: &str = ".tmp";

fn is_temp(name: &str) -> bool {
    let random = name.strip_prefix(TEMP_PREFIX).and_then(|name| name.strip_suffix(TEMP_SUFFIX));
    random.is_some_and(|random| {
        random.len() >= 16 && random.bytes().take(16).all(|b| b.is_ascii_hexdigit())
    })
}

/// What a killed process left: under the lock nobody else of ours can be writing, so all of it is
/// stale. Failing to remove it harms nobody.
fn remove_leftovers(requirements: &Requirements<'_>) {
    let Some(dir) = requirements.dir() else {
        return;
    };
    let Ok(entries) = dir.entries() else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(is_temp);
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            tracing::info!(name = ?name, "removing what an interrupted write left");
            let _ = dir.remove_file(&name);
        }
    }
}
