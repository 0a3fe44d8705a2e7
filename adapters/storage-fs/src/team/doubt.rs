//! Rows and keys that were written for a change which may never have come.
//!
//! Both are on disk before a change shows. What is about to be written is noted in a small file of
//! the project's; when the change stands, the note says so. A note that was left open belongs to a
//! killed process: if its documents are still as they were before, the row is taken back by another
//! one, and the key was never used. Notes are not synced, since a process that dies leaves them
//! whole. After a power cut they may be old, so whoever opens the store looks at the newest rows
//! besides.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cap_std::fs::Dir;
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead, OK, Target, UNCONFIRMED};
use reqlore_domain::document::{DocumentId, Kind, Version};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::IdempotencyRecord;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use rustix::fs::{AtFlags, CWD, OFlags};
use serde::{Deserialize, Serialize};

use super::chain::{self, Chain};
use super::file_kind::FileKind;
use super::folder;
use super::keys::{self, Kept};
use super::private::{Place, Unread, seal};
use crate::error::not_written;
use crate::failpoint::{Step, reached};
use crate::layout::Tree;
use crate::local::LOCAL;
use crate::read::read_settled;
use crate::shared::Shared;

const FOLDER: &str = "pending";
const BELOW: &str = "pending/";
/// A note is written in one piece, over the one before it.
const LENGTH: usize = 1024;
/// So many of the newest rows are looked at after a power cut. Refusals are recorded in batches, of
/// which 16,384 rows may wait: all of them may come behind the row of a change that is not durable.
const LOOK: u64 = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// The change may have come or not.
    Open,
    /// The change never came; the row must still be taken back.
    Withdrawn,
    Settled,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    state: State,
    /// The row, which may not have been written.
    row: Option<ChainHead>,
    key: Option<String>,
    /// The newest row that was settled before; it and all that are older are in no doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled: Option<ChainHead>,
}

impl Note {
    /// The newest row that this note speaks of.
    fn newest(&self) -> Option<ChainHead> {
        self.row.or(self.settled)
    }
}

/// A commit that is audited, or happens once.
pub(crate) struct Doubt<'a> {
    shared: &'a Shared,
    project: &'a ProjectKey,
    entry: Option<AuditEvent>,
    once: Option<(String, IdempotencyRecord)>,
    at: Timestamp,
    local: Option<Dir>,
    note: Option<Note>,
}

impl<'a> Doubt<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        project: &'a ProjectKey,
        entry: Option<AuditEvent>,
        once: Option<(String, IdempotencyRecord)>,
        at: Timestamp,
    ) -> Self {
        Self { shared, project, entry, once, at, local: None, note: None }
    }

    /// Writes the row and the key, durably, before their change shows.
    pub(crate) fn announce(&mut self) -> StoreResult<()> {
        if self.entry.is_none() && self.once.is_none() {
            return Ok(());
        }
        let local = self.local.insert(folder::writable(&self.shared.team_root()?)?);
        let key = self.once.as_ref().map(|(key, _)| key.clone());
        let project = self.project;
        let settled = read(local, project)?.and_then(|note| note.newest());
        let mut note = Note { state: State::Open, row: None, key, settled };
        if let Some((key, earlier)) = self.once.take() {
            write(local, self.project, &note)?;
            self.note = Some(note.clone());
            keys::begin(local, &key, &Kept { project: project.clone(), earlier }, self.at)?;
        }
        let Some(entry) = self.entry.take() else { return Ok(()) };
        let announced = &mut self.note;
        self.shared.team.chain.append(local, |head| {
            let rows = chain::sealed(head, vec![entry]);
            note.row = rows.last().map(AuditRow::head);
            write(local, project, &note)?;
            *announced = Some(note);
            Ok(rows)
        })?;
        Ok(())
    }

    /// The change stands. What fails here is settled by whoever writes next.
    pub(crate) fn confirm(self) {
        let (Some(local), Some(note)) = (self.local, self.note) else { return };
        if let Err(error) = confirm(&local, self.project, note) {
            tracing::warn!(%error, "that a change came could not be noted");
        }
    }

    /// The change was undone. Where its row can't be taken back whoever writes next does it; until
    /// then no other row may be announced, as there is one note.
    pub(crate) fn withdraw(self) -> StoreResult<()> {
        let (Some(local), Some(note)) = (self.local, self.note) else { return Ok(()) };
        let done = withdraw(&self.shared.team.chain, &local, self.project, note, self.at);
        done.inspect_err(|error| {
            tracing::error!(%error, "the row of a change that never came is not taken back yet");
        })
    }
}

/// Settles what a killed process left open, under the project's lock. `needed` is whether anything
/// of the kind is about to be written; who writes none is not held up by an audit that can't be.
pub(crate) fn settle(
    shared: &Shared,
    project: &ProjectKey,
    tree: &Tree<'_>,
    at: Timestamp,
    needed: bool,
) -> StoreResult<()> {
    if !is_noted(shared.folders.base(), project) {
        return Ok(());
    }
    match settle_note(shared, project, tree, at) {
        Err(error) if !needed => {
            tracing::warn!(%error, "what an interrupted commit left in the audit stays open");
            Ok(())
        }
        settled => settled,
    }
}

fn settle_note(
    shared: &Shared,
    project: &ProjectKey,
    tree: &Tree<'_>,
    at: Timestamp,
) -> StoreResult<()> {
    let Some(local) = folder::local(&shared.team_root()?)? else { return Ok(()) };
    let Some(note) = read(&local, project)? else { return Ok(()) };
    let chain = &shared.team.chain;
    match note.state {
        State::Settled => Ok(()),
        State::Withdrawn => withdraw(chain, &local, project, note, at),
        State::Open => {
            // Under a key that begin refused stands another project's write.
            let kept = match &note.key {
                Some(key) => keys::doubtful(&local, key, project)?,
                None => None,
            };
            let row = note.row.map(|head| written(&local, head)).transpose()?.flatten();
            let targets = row.and_then(|row| row.entry()).map(|entry| entry.targets);
            let targets = targets.or(kept.map(|kept| kept.earlier.targets));
            if came(tree, &targets.unwrap_or_default())? {
                confirm(&local, project, note)
            } else {
                withdraw(chain, &local, project, note, at)
            }
        }
    }
}

/// Looks at everything that may have been left open, when a store is opened.
pub(super) fn settle_all(shared: &Shared, local: &Dir, at: Timestamp) -> StoreResult<()> {
    let newest = chain::newest(local)?.number;
    let rows = chain::rows(local, newest.saturating_sub(LOOK), usize::MAX)?;
    let mut last: BTreeMap<ProjectKey, (u64, Vec<Target>)> = BTreeMap::new();
    let mut taken_back = BTreeSet::new();
    for (row, entry) in rows.iter().filter_map(|row| Some((row, row.entry()?))) {
        if entry.action == UNCONFIRMED {
            taken_back.extend(entry.reason.parse::<u64>());
        }
        if let Some(project) = entry.project
            && entry.result == OK
            && entry.targets.iter().any(Target::is_changed)
        {
            last.insert(project, (row.number, entry.targets));
        }
    }
    let keys = keys::all_doubtful(local)?;
    for (project, _) in shared.folders.keyed() {
        let settled = shared.with_free(project, |root| {
            let tree = Tree::new(root, &shared.layout);
            settle_note(shared, project, &tree, at)?;
            let noted = read(local, project)?.and_then(|note| note.newest());
            if let Some((number, targets)) = last.get(project)
                && noted.is_none_or(|noted| noted.number < *number)
                && !taken_back.contains(number)
                && !came(&tree, targets)?
            {
                shared.team.chain.take_back(local, *number, at)?;
            }
            for (key, kept) in keys.iter().filter(|(_, kept)| kept.project == *project) {
                if came(&tree, &kept.earlier.targets)? {
                    keys::confirm(local, key, project)?;
                } else {
                    keys::withdraw(local, key, project)?;
                }
            }
            Ok(())
        });
        // It holds up none of the others.
        if let Err(error) = settled {
            tracing::warn!(%project, %error, "what was left open in the audit stays so");
        }
    }
    Ok(())
}

/// All rows that are there have come, whatever the documents are by now.
pub(super) fn all_came(shared: &Shared, local: &Dir) -> StoreResult<()> {
    let head = chain::newest(local)?;
    for (project, _) in shared.folders.keyed().filter(|_| head.number > 0) {
        let note = Note { state: State::Settled, row: Some(head), key: None, settled: None };
        write(local, project, &note)?;
    }
    Ok(())
}

fn confirm(local: &Dir, project: &ProjectKey, note: Note) -> StoreResult<()> {
    if let Some(key) = &note.key {
        keys::confirm(local, key, project)?;
    }
    write(local, project, &Note { state: State::Settled, ..note })?;
    reached(Step::Settled).map_err(|error| not_written(LOCAL, "note that a change came", error))
}

fn withdraw(
    chain: &Chain,
    local: &Dir,
    project: &ProjectKey,
    note: Note,
    at: Timestamp,
) -> StoreResult<()> {
    write(local, project, &Note { state: State::Withdrawn, ..note.clone() })?;
    if let Some(key) = &note.key {
        keys::withdraw(local, key, project)?;
    }
    if let Some(row) = note.row.map(|head| written(local, head)).transpose()?.flatten() {
        chain.take_back(local, row.number, at)?;
    }
    write(local, project, &Note { state: State::Settled, ..note })
}

/// The row that was announced; none if another one got its number.
fn written(local: &Dir, head: ChainHead) -> StoreResult<Option<AuditRow>> {
    let found = chain::rows(local, head.number, 1)?.into_iter().next();
    Ok(found.filter(|row| row.head() == head))
}

/// Did the change come? Not if each document that it changed is as it was before.
fn came(tree: &Tree<'_>, targets: &[Target]) -> StoreResult<bool> {
    let mut changed = targets.iter().filter(|target| target.is_changed()).peekable();
    if changed.peek().is_none() {
        return Ok(true);
    }
    for target in changed {
        // Of what is no document here nothing can be told.
        let Some(id) = document(&target.name) else { return Ok(true) };
        let content = tree.place(&id)?.map(|place| read_settled(&place)).transpose()?.flatten();
        if content.map(|content| Version::of(&content.bytes)) != target.before {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The document of a target.
fn document(name: &str) -> Option<DocumentId> {
    let stem = name.rsplit_once('/').map_or(name, |(_, file)| file);
    let stem = stem.strip_suffix(".md").unwrap_or(stem);
    let entity = name.strip_prefix(".ixchel/").and_then(|path| path.strip_suffix(".md"));
    let section = name.strip_prefix("section ");
    let candidates = Kind::ALL.into_iter().filter_map(|kind| match kind {
        Kind::Instructions => Some(DocumentId::instructions()),
        Kind::Docsets => Some(DocumentId::docsets()),
        Kind::Section => section.map(DocumentId::section),
        Kind::Entity => entity.map(DocumentId::entity),
        Kind::Item(_) | Kind::Deleted => Some(DocumentId { kind, name: stem.to_owned() }),
    });
    candidates.into_iter().find(|id| id.to_string() == name)
}

/// Is there a note? A hint, as cheap as can be: it is asked at every commit.
fn is_noted(base: &Path, project: &ProjectKey) -> bool {
    let path = base.join(LOCAL).join(FOLDER).join(name(project));
    rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn name(project: &ProjectKey) -> String {
    Version::of(project.as_str().as_bytes()).to_string()
}

fn read(local: &Dir, project: &ProjectKey) -> StoreResult<Option<Note>> {
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(None) };
    let place = Place { dir: &dir, folder: BELOW, name: &name(project) };
    match place.examine(FileKind::Pending) {
        // A power cut left half of it, or the folder is a copy; the rows tell the rest.
        Err(Unread::Torn(error) | Unread::Foreign(error)) => {
            tracing::warn!(%error, "a note is dropped");
            place.remove();
            Ok(None)
        }
        found => Ok(found?.map(|(note, _)| note)),
    }
}

fn write(local: &Dir, project: &ProjectKey, note: &Note) -> StoreResult<()> {
    let dir = folder::create(local, FOLDER)?;
    let place = Place { dir: &dir, folder: BELOW, name: &name(project) };
    let fail = |error| place.not_written("write it", error);
    if let Some((file, metadata)) = place.open(OFlags::RDWR)? {
        if read(local, project)?.is_some() {
            let mut bytes = seal(FileKind::Pending, &metadata, note).map_err(fail)?;
            bytes.resize(bytes.len().max(LENGTH), b' ');
            file.write_all_at(&bytes, 0).map_err(fail)?;
        } else {
            drop(place.create(FileKind::Pending, note, None)?);
        }
    } else {
        drop(place.create(FileKind::Pending, note, None)?);
    }
    if note.state == State::Open {
        reached(Step::Noted).map_err(fail)?;
    }
    Ok(())
}
