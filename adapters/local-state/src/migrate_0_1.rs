//! Reads the team data of Reqlore 0.1.0 and moves it into `team.db`.
//!
//! 0.1.0 kept `identity.json`, `uses.json`, the folders `audit`, `once` and `pending`, and a staged
//! `identity.next`; each file begins with its format and its own identity. The migration holds the
//! locks of 0.1.0. Before `team.db` exists it writes files of a format that 0.1.0 refuses as
//! "of a later version", so that no 0.1.0 process appends or changes users any more. After that it
//! renames the old files to `*.migrated-0.1`. A killed migration starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use cap_std::fs::Dir;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, AuditTarget, ChainHead, OK, UNCONFIRMED};
use reqlore_domain::document::Version;
use reqlore_domain::identity::{Token, TokenId, User};
use reqlore_domain::ports::archive::IdentityRecords;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::idempotency::IdempotencyRecord;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_sqlite_team::error::DatabaseError;
use reqlore_sqlite_team::team_database::{TeamConnection, TeamDatabase};
use reqlore_sqlite_team::{audit, idempotency, identity, pending};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::failed;
use crate::private_file::{PrivateFile, create_folder, find_folder};
use crate::team_file::{self, Creation, CreationStep, PLACE};
use crate::{LOCAL, file_identity, lock_folder, now};

const USERS: &str = "identity.json";
const STAGED_USERS: &str = "identity.next";
const USES: &str = "uses.json";
const AUDIT: &str = "audit";
const KEYS: &str = "once";
const NOTES: &str = "pending";
/// The name of a key's file before its change was confirmed.
const UNCONFIRMED_KEY: &str = ".doubt";
const SEGMENT: &str = ".jsonl";
/// Sorts after all others, so that 0.1.0 would append to it.
const LAST_SEGMENT: &str = "18446744073709551615.jsonl";
const MIGRATED: &str = ".migrated-0.1";
/// After a power cut the newest rows of 0.1.0 may lack their notes.
const RECOVERY_SCAN_ROWS: u64 = 20_000;

/// True if 0.1.0 stored team data here.
pub(crate) fn has_data(base: &Path) -> bool {
    let folder = base.join(LOCAL);
    [USERS, AUDIT, KEYS].iter().any(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Reads it into memory without changing anything.
pub(crate) fn read(local: &Dir) -> StoreResult<TeamDatabase> {
    let old = OldData::read(local)?;
    TeamDatabase::in_memory(PLACE, |connection| old.insert(connection))
}

/// Creates `team.db` with what 0.1.0 stored, if anything. The caller holds the locks of the default
/// project and of `.reqlore/local`.
pub(crate) fn migrate(local: &Dir, base: &Path, creation: &Creation) -> StoreResult<()> {
    let lock = |name: &str| -> StoreResult<_> {
        let Some(folder) = find_folder(local, name)? else { return Ok(None) };
        lock_folder(&folder, &format!("{LOCAL}/{name}"), name, creation.lock_timeout).map(Some)
    };
    let _locks = [lock(AUDIT)?, lock(KEYS)?];
    let old = OldData::read(local)?;
    team_file::write_database(
        local,
        base,
        creation,
        |connection| old.insert(connection),
        || stop_0_1_0(local),
    )?;
    finish(local, creation)
}

/// Renames the old files, which a killed migration may have left.
pub(crate) fn finish(local: &Dir, creation: &Creation) -> StoreResult<()> {
    if let Some(audit) = find_folder(local, AUDIT)? {
        for name in segments(&audit)? {
            set_aside(&audit, "audit/", &name)?;
        }
    }
    for name in [USES, KEYS, NOTES, USERS] {
        if name != USERS || !is_stopper(local, USERS) {
            set_aside(local, "", name)?;
        }
        creation.reached(CreationStep::OldRenamed)?;
    }
    // The mark that nothing is left to rename, so it comes last.
    write_stopper(local, "", USERS)?;
    PrivateFile::new(local, STAGED_USERS).remove()
}

/// True until [`finish`] was completed.
pub(crate) fn is_unfinished(local: &Dir) -> bool {
    !is_stopper(local, USERS)
}

fn set_aside(dir: &Dir, folder: &str, name: &str) -> StoreResult<()> {
    if dir.symlink_metadata(name).is_err() {
        return Ok(());
    }
    PrivateFile { dir, folder, name }.rename(&format!("{name}{MIGRATED}"))
}

/// Makes every 0.1.0 process fail that would append a row or change users.
fn stop_0_1_0(local: &Dir) -> StoreResult<()> {
    if local.symlink_metadata(STAGED_USERS).is_ok() && !is_stopper(local, STAGED_USERS) {
        set_aside(local, "", STAGED_USERS)?;
    }
    let audit = create_folder(local, AUDIT)?;
    write_stopper(&audit, "audit/", LAST_SEGMENT)?;
    write_stopper(local, "", STAGED_USERS)
}

/// A file in the shape of 0.1.0 with a later format, which 0.1.0 reports as such.
fn write_stopper(dir: &Dir, folder: &str, name: &str) -> StoreResult<()> {
    let file = PrivateFile { dir, folder, name };
    if dir.symlink_metadata(name).is_ok() {
        return Ok(());
    }
    let temp = PrivateFile { name: ".stop.new", ..file };
    temp.remove()?;
    let kind = if folder.is_empty() { "identity" } else { "audit" };
    temp.create(|metadata| {
        let own = file_identity(metadata);
        Ok(format!("{{\"format\":\"reqlore {kind} 2\",\"file\":\"{own}\",\"body\":null}}\n").into())
    })?;
    temp.rename(name)
}

fn is_stopper(dir: &Dir, name: &str) -> bool {
    let found = OldFile(PrivateFile::new(dir, name)).read("identity", 4096);
    matches!(found, Err(Unread { cause: Cause::Later, .. }))
}

/// The data of 0.1.0, except for the rows of the audit.
struct OldData {
    identities: IdentityRecords,
    /// The row of a change of users that was interrupted: it is after this number.
    staged: Option<Announced>,
    keys: Vec<(String, Kept, bool)>,
    notes: Vec<(String, Note)>,
    audit: Option<Dir>,
}

#[derive(Deserialize)]
struct StoredUsers {
    users: Vec<User>,
    tokens: Vec<Token>,
    row: Option<Announced>,
}

#[derive(Deserialize)]
struct Announced {
    behind: u64,
    text: String,
}

#[derive(Deserialize)]
struct Kept {
    project: ProjectKey,
    earlier: IdempotencyRecord,
}

#[derive(Deserialize)]
struct Note {
    state: NoteState,
    row: Option<ChainHead>,
    key: Option<String>,
    settled: Option<ChainHead>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NoteState {
    Open,
    Withdrawn,
    Settled,
}

impl OldData {
    fn read(local: &Dir) -> StoreResult<Self> {
        let users = read_old::<StoredUsers>(local, USERS, "identity")?;
        let mut identities = users.map_or_else(IdentityRecords::default, |stored| {
            IdentityRecords { users: stored.users, tokens: stored.tokens }
        });
        let last_uses = read_old::<BTreeMap<TokenId, Timestamp>>(local, USES, "uses")?;
        for token in &mut identities.tokens {
            let used = last_uses.as_ref().and_then(|uses| uses.get(&token.id).copied());
            token.last_used_at = token.last_used_at.max(used);
        }
        let staged = read_old::<StoredUsers>(local, STAGED_USERS, "identity")?;
        Ok(Self {
            identities,
            staged: staged.and_then(|staged| staged.row),
            keys: read_keys(local)?,
            notes: read_notes(local)?,
            audit: find_folder(local, AUDIT)?,
        })
    }

    fn insert(&self, connection: &TeamConnection) -> Result<(), DatabaseError> {
        if !self.identities.users.is_empty() || !self.identities.tokens.is_empty() {
            identity::put_all(connection, &self.identities)?;
        }
        if let Some(folder) = &self.audit {
            let names = segments(folder)?;
            for name in &names {
                let is_newest = Some(name) == names.last();
                let rows = read_segment(folder, name, is_newest)?;
                rows.iter().try_for_each(|row| audit::put(connection, row))?;
            }
        }
        for (key, Kept { earlier, .. }, _) in &self.keys {
            idempotency::insert(connection, key, earlier)?;
            if let Some(response) = &earlier.answer {
                idempotency::save_response(connection, key, response)?;
            }
        }
        self.insert_pending(connection)
    }

    /// A commit that 0.1.0 would have decided at its next start becomes an intent.
    fn insert_pending(&self, connection: &TeamConnection) -> Result<(), DatabaseError> {
        let newest = audit::newest(connection)?.number;
        let from = (newest + 1).saturating_sub(RECOVERY_SCAN_ROWS);
        let rows = audit::rows(connection, from, usize::MAX, usize::MAX)?;
        let mut last_changes: BTreeMap<ProjectKey, u64> = BTreeMap::new();
        let mut taken_back = BTreeSet::new();
        let mut staged_row = None;
        for (row, event) in rows.iter().filter_map(|row| Some((row, row.entry()?))) {
            if event.action == UNCONFIRMED {
                taken_back.extend(event.reason.parse::<u64>());
            }
            let staged = self.staged.as_ref();
            if staged.is_some_and(|staged| row.number > staged.behind && *row.text == *staged.text)
            {
                staged_row = staged_row.or(Some(row.number));
            }
            if let Some(project) = event.project
                && event.result == OK
                && event.targets.iter().any(AuditTarget::is_changed)
            {
                last_changes.insert(project, row.number);
            }
        }
        if let Some(number) = staged_row.filter(|number| !taken_back.contains(number)) {
            audit::append(connection, [AuditEvent::unconfirmed(number, now())])?;
        }
        let mut keys: BTreeMap<&str, &ProjectKey> = self.unconfirmed_keys().collect();
        for (file, note) in self.notes.iter().filter(|(_, note)| note.state != NoteState::Settled) {
            let row = match note.row {
                Some(head) => audit::rows(connection, head.number, 1, usize::MAX)?
                    .into_iter()
                    .find(|row| row.head() == head && !taken_back.contains(&row.number)),
                None => None,
            };
            let key = note.key.as_deref().filter(|key| keys.contains_key(key));
            let of_row = row.as_ref().and_then(AuditRow::entry).and_then(|event| event.project);
            let of_key = key.and_then(|key| keys.get(key).copied().cloned());
            let Some(project) = of_row.or(of_key).filter(|project| note_name(project) == *file)
            else {
                continue;
            };
            let key = key.filter(|key| keys.remove(key).is_some());
            let number = row.map(|row| row.number);
            let intent = pending::insert(connection, &project, number, key)?;
            if note.state == NoteState::Withdrawn {
                pending::mark_withdrawn(connection, &intent)?;
            }
        }
        for (project, number) in last_changes {
            let note = self.notes.iter().find(|(file, _)| *file == note_name(&project));
            let noted = note.and_then(|(_, note)| note.row.or(note.settled));
            let is_decided = noted.is_some_and(|noted| noted.number >= number);
            if !is_decided && !taken_back.contains(&number) {
                pending::insert(connection, &project, Some(number), None)?;
            }
        }
        for (key, project) in keys {
            pending::insert(connection, project, None, Some(key))?;
        }
        Ok(())
    }

    fn unconfirmed_keys(&self) -> impl Iterator<Item = (&str, &ProjectKey)> {
        let keys = self.keys.iter().filter(|(.., confirmed)| !confirmed);
        keys.map(|(key, kept, _)| (key.as_str(), &kept.project))
    }
}

/// The name of a project's note.
fn note_name(project: &ProjectKey) -> String {
    Version::of(project.as_str().as_bytes()).to_string()
}

/// Reads a file, or what a killed migration made of it. A staged file that was not written whole
/// is no data: its row was not begun.
fn read_old<T: DeserializeOwned>(local: &Dir, name: &str, kind: &str) -> StoreResult<Option<T>> {
    const MAX_BYTES: u64 = 512 * 1024 * 1024;
    let renamed = format!("{name}{MIGRATED}");
    for name in [name, &renamed] {
        let file = OldFile(PrivateFile::new(local, name));
        match file.whole(kind, MAX_BYTES) {
            // A later format is ours: see `stop_0_1_0`.
            Ok(None) | Err(Unread { cause: Cause::Later, .. }) => {}
            Err(Unread { cause: Cause::Torn, error }) if name.starts_with(STAGED_USERS) => {
                tracing::warn!(%error, "an incomplete change of users is dropped");
                return Ok(None);
            }
            found => return Ok(found?),
        }
    }
    Ok(None)
}

/// All keys with their records, and whether they were confirmed.
fn read_keys(local: &Dir) -> StoreResult<Vec<(String, Kept, bool)>> {
    const MAX_BYTES: u64 = 32 * 1024 * 1024;
    let Some(dir) = find_folder(local, KEYS)? else { return Ok(Vec::new()) };
    let mut keys = Vec::new();
    for name in names(&dir, KEYS)? {
        let key = name.strip_suffix(UNCONFIRMED_KEY).unwrap_or(&name);
        let is_key = key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let file = OldFile(PrivateFile { dir: &dir, folder: "once/", name: &name });
        match if is_key { file.whole::<Kept>("key", MAX_BYTES) } else { Ok(None) } {
            Ok(Some(kept)) => keys.push((key.to_owned(), kept, key == name)),
            Ok(None) => {}
            Err(Unread { error, .. }) => {
                tracing::warn!(%error, "an idempotency record is not migrated");
            }
        }
    }
    // A key may have an old record and a new one that is not confirmed: the new one comes last.
    keys.sort_by_key(|(_, _, confirmed)| !confirmed);
    Ok(keys)
}

fn read_notes(local: &Dir) -> StoreResult<Vec<(String, Note)>> {
    let Some(dir) = find_folder(local, NOTES)? else { return Ok(Vec::new()) };
    let mut notes = Vec::new();
    for name in names(&dir, NOTES)? {
        let file = OldFile(PrivateFile { dir: &dir, folder: "pending/", name: &name });
        match file.whole("pending", 4096) {
            Ok(note) => notes.extend(note.map(|note| (name, note))),
            // A power cut left half of it, or the folder is a copy: the rows tell the rest.
            Err(Unread { cause: Cause::Torn | Cause::Foreign, error }) => {
                tracing::warn!(%error, "a note is dropped");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(notes)
}

/// The files of the audit, the oldest first.
fn segments(dir: &Dir) -> StoreResult<Vec<String>> {
    let is_segment = |name: &String| {
        let number = name.strip_suffix(SEGMENT).unwrap_or_default();
        let is_number = number.len() == 20 && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && name != LAST_SEGMENT
    };
    let mut names: Vec<String> = names(dir, AUDIT)?.into_iter().filter(is_segment).collect();
    names.sort_unstable();
    Ok(names)
}

/// The rows of a file. The last line of the newest one may be torn; it was not acknowledged.
fn read_segment(dir: &Dir, name: &str, is_newest: bool) -> StoreResult<Vec<AuditRow>> {
    let file = OldFile(PrivateFile { dir, folder: "audit/", name });
    let found = file.read("audit", 512 * 1024 * 1024)?;
    let Some(bytes) = found else { return Ok(Vec::new()) };
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let mut rows = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate().skip(1) {
        let row = line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok());
        match row {
            Some(row) => rows.push(row),
            None if is_newest && at + 1 == lines.len() => {}
            None => {
                return Err(file.unreadable(&format!(
                    "line {} is not an audit row; it was changed, or the disk is damaged. Restore \
                     it from a backup, or move the folder away to begin a new chain",
                    at + 1
                )));
            }
        }
    }
    Ok(rows)
}

fn names(dir: &Dir, shown: &str) -> StoreResult<Vec<String>> {
    let fail = |error| failed(&format!("{LOCAL}/{shown}"), "list it", error);
    let mut names = Vec::new();
    for entry in dir.entries().map_err(fail)? {
        names.extend(entry.map_err(fail)?.file_name().into_string().ok());
    }
    Ok(names)
}

/// The error of a file that is not read.
struct Unread {
    cause: Cause,
    error: StoreError,
}

enum Cause {
    /// It was not written whole.
    Torn,
    /// It came with a clone or a copy.
    Foreign,
    /// It has a later format.
    Later,
    Other,
}

impl From<StoreError> for Unread {
    fn from(error: StoreError) -> Self {
        Self { cause: Cause::Other, error }
    }
}

impl From<Unread> for StoreError {
    fn from(unread: Unread) -> Self {
        unread.error
    }
}

/// A file of 0.1.0: JSON, or a first line in JSON, that names its format and itself.
struct OldFile<'a>(PrivateFile<'a>);

#[derive(Deserialize)]
struct Sealed<T> {
    body: T,
}

impl OldFile<'_> {
    fn whole<T: DeserializeOwned>(&self, kind: &str, max_bytes: u64) -> Result<Option<T>, Unread> {
        let Some(bytes) = self.read(kind, max_bytes)? else { return Ok(None) };
        match serde_json::from_slice::<Sealed<T>>(&bytes) {
            Ok(sealed) => Ok(Some(sealed.body)),
            Err(error) => {
                let reason = format!("can't be read ({error}); restore it from a backup");
                Err(Unread { cause: Cause::Torn, error: self.unreadable(&reason) })
            }
        }
    }

    /// The bytes of a file that names itself. Its first bytes are checked before the rest is read.
    fn read(&self, kind: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, Unread> {
        let Some((mut file, metadata)) = self.0.open()? else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut read = |most| (&mut file).take(most).read_to_end(&mut bytes);
        read(512).map_err(|error| self.0.fail("read it", error))?;
        let Some((format, own)) = header(&bytes) else {
            let reason = "can't be read (its beginning is damaged); restore it from a backup";
            return Err(Unread { cause: Cause::Torn, error: self.unreadable(reason) });
        };
        if own != file_identity(&metadata) {
            return Err(Unread { cause: Cause::Foreign, error: self.0.is_foreign() });
        }
        if format != format!("reqlore {kind} 1") {
            let reason = format!("is {format:?} of a later version; update Reqlore");
            return Err(Unread { cause: Cause::Later, error: self.unreadable(&reason) });
        }
        if metadata.len() > max_bytes {
            return Err(self.unreadable("is too large").into());
        }
        let mut read = |most| (&mut file).take(most).read_to_end(&mut bytes);
        read(max_bytes).map_err(|error| self.0.fail("read it", error))?;
        Ok(Some(bytes))
    }

    fn unreadable(&self, reason: &str) -> StoreError {
        StoreError::Unreadable { place: self.0.shown(), reason: reason.to_owned() }
    }
}

/// The format and the identity that the first bytes name.
fn header(bytes: &[u8]) -> Option<(&str, &str)> {
    let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'"');
    let rest = bytes.strip_prefix(b"{\"format\":\"")?;
    let (format, rest) = rest.split_at(end(rest)?);
    let rest = rest.strip_prefix(b"\",\"file\":\"")?;
    let file = &rest[..end(rest)?];
    Some((str::from_utf8(format).ok()?, str::from_utf8(file).ok()?))
}
