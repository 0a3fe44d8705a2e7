//! Reads the team data of Reqlore 0.1.0 and migrates it to `team.db`.
//!
//! 0.1.0 stored `identity.json`, `uses.json`, the folders `audit`, `once` and `pending`, and a
//! staged `identity.next`. Each file begins with its format and its own identity. The migration
//! holds the locks of 0.1.0. Before `team.db` exists it writes files of a later format, which 0.1.0
//! refuses. So no 0.1.0 process appends rows or changes users any more. Afterwards it renames the
//! old files to `*.migrated-0.1`. A migration that was killed before `team.db` existed starts
//! again; one killed later only finishes renaming.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cap_std::fs::Dir;
use reqlore_domain::audit_log::{
    AuditEvent, AuditRow, AuditTarget, ChainHead, RESULT_OK, UNCONFIRMED_ACTION,
};
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
use crate::team_file::{self, CreationOptions, CreationStep, DISPLAY_PATH};
use crate::{LOCAL_STATE_DIR, current_time, file_identity, lock_folder};

const USERS: &str = "identity.json";
const STAGED_USERS: &str = "identity.next";
const USES: &str = "uses.json";
const AUDIT: &str = "audit";
const KEYS: &str = "once";
const PENDING_NOTES: &str = "pending";
/// The suffix of a key's file until its change was confirmed.
const UNCONFIRMED_SUFFIX: &str = ".doubt";
const SEGMENT_SUFFIX: &str = ".jsonl";
/// Sorts after all other segments, so 0.1.0 would append to it.
const LAST_SEGMENT: &str = "18446744073709551615.jsonl";
const MIGRATED_SUFFIX: &str = ".migrated-0.1";
/// Number of newest rows to check for commits without a note, which a power failure may have
/// lost.
const RECOVERY_SCAN_ROWS: u64 = 20_000;

/// True if 0.1.0 stored team data here.
pub(crate) fn has_data(base: &Path) -> bool {
    let folder = base.join(LOCAL_STATE_DIR);
    [USERS, AUDIT, KEYS].iter().any(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Reads the data into an in-memory database and changes nothing on disk.
pub(crate) fn read(local: &Dir) -> StoreResult<TeamDatabase> {
    let old = OldData::read(local)?;
    TeamDatabase::in_memory(DISPLAY_PATH, |connection| old.insert(connection))
}

/// Creates `team.db` with the data of 0.1.0, if any. The caller holds the locks of the default
/// project and of `.reqlore/local`.
pub(crate) fn migrate(local: &Dir, base: &Path, options: &CreationOptions) -> StoreResult<()> {
    // Blocks 0.1.0 processes that are still running: they lock these folders to write rows and
    // keys.
    let _audit_lock = lock_old_folder(local, AUDIT, options)?;
    let _keys_lock = lock_old_folder(local, KEYS, options)?;
    let old = OldData::read(local)?;
    team_file::write_database(
        local,
        base,
        options,
        |connection| old.insert(connection),
        || block_0_1_0_writes(local),
    )?;
    finish(local, options)
}

fn lock_old_folder(
    local: &Dir,
    name: &str,
    options: &CreationOptions,
) -> StoreResult<Option<File>> {
    let Some(folder) = find_folder(local, name)? else { return Ok(None) };
    let place = format!("{LOCAL_STATE_DIR}/{name}");
    lock_folder(&folder, &place, name, options.lock_timeout).map(Some)
}

/// Renames the old files that are left, also by a migration that was killed.
pub(crate) fn finish(local: &Dir, options: &CreationOptions) -> StoreResult<()> {
    if let Some(audit) = find_folder(local, AUDIT)? {
        for name in audit_segments(&audit)? {
            mark_migrated(&audit, "audit/", &name)?;
        }
    }
    for name in [USES, KEYS, PENDING_NOTES, USERS] {
        if name != USERS || !is_version_barrier(local, USERS) {
            mark_migrated(local, "", name)?;
        }
        options.pass_checkpoint(CreationStep::OldFileRenamed)?;
    }
    // Last, because `is_unfinished` reads this file.
    write_version_barrier(local, "", USERS)?;
    // The barrier above replaces the one under this name.
    PrivateFile::new(local, STAGED_USERS).remove()
}

/// True until [`finish`] has succeeded.
pub(crate) fn is_unfinished(local: &Dir) -> bool {
    !is_version_barrier(local, USERS)
}

fn mark_migrated(dir: &Dir, folder: &str, name: &str) -> StoreResult<()> {
    // Missing, or renamed before an earlier migration was killed.
    if dir.symlink_metadata(name).is_err() {
        return Ok(());
    }
    PrivateFile { dir, folder, name }.rename(&format!("{name}{MIGRATED_SUFFIX}"))
}

/// Makes each 0.1.0 process fail that would append a row or change users.
fn block_0_1_0_writes(local: &Dir) -> StoreResult<()> {
    if local.symlink_metadata(STAGED_USERS).is_ok() && !is_version_barrier(local, STAGED_USERS) {
        mark_migrated(local, "", STAGED_USERS)?;
    }
    let audit = create_folder(local, AUDIT)?;
    write_version_barrier(&audit, "audit/", LAST_SEGMENT)?;
    write_version_barrier(local, "", STAGED_USERS)
}

/// Writes a file of a later format, which 0.1.0 recognizes and refuses.
fn write_version_barrier(dir: &Dir, folder: &str, name: &str) -> StoreResult<()> {
    let file = PrivateFile { dir, folder, name };
    // An earlier migration that was killed may have written it.
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

fn is_version_barrier(dir: &Dir, name: &str) -> bool {
    let read = OldFile(PrivateFile::new(dir, name)).read("identity", 4096);
    matches!(read, Err(OldFileError { problem: OldFileProblem::LaterFormat, .. }))
}

/// The data of 0.1.0, except for the audit rows.
struct OldData {
    identities: IdentityRecords,
    /// The audit row of an interrupted change of users.
    staged_row: Option<StagedAuditRow>,
    keys: Vec<OldKey>,
    /// Notes by file name.
    notes: Vec<(String, PendingNote)>,
    audit: Option<Dir>,
}

struct OldKey {
    key: String,
    stored: StoredKey,
    is_confirmed: bool,
}

#[derive(Deserialize)]
struct StoredUsers {
    users: Vec<User>,
    tokens: Vec<Token>,
    row: Option<StagedAuditRow>,
}

#[derive(Deserialize)]
struct StagedAuditRow {
    /// The newest row before this one was appended.
    #[serde(rename = "behind")]
    after_row: u64,
    text: String,
}

#[derive(Deserialize)]
struct StoredKey {
    project: ProjectKey,
    #[serde(rename = "earlier")]
    record: IdempotencyRecord,
}

/// The note that 0.1.0 kept of a project's last commit, confirmed or not.
#[derive(Deserialize)]
struct PendingNote {
    state: NoteState,
    row: Option<ChainHead>,
    key: Option<String>,
    #[serde(rename = "settled")]
    settled_row: Option<ChainHead>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NoteState {
    Open,
    Withdrawn,
    Settled,
}

/// The audit rows that matter for interrupted commits.
#[derive(Default)]
struct RecentRows {
    /// The last row of each project that changed documents.
    last_changes: BTreeMap<ProjectKey, u64>,
    /// Rows that a later row declares as not confirmed.
    rolled_back: BTreeSet<u64>,
    /// The row of the interrupted change of users.
    staged: Option<u64>,
}

impl OldData {
    fn read(local: &Dir) -> StoreResult<Self> {
        let mut identities = IdentityRecords::default();
        if let Some(stored) = read_old::<StoredUsers>(local, USERS, "identity")? {
            identities.users = stored.users;
            identities.tokens = stored.tokens;
        }
        let last_uses = read_old::<BTreeMap<TokenId, Timestamp>>(local, USES, "uses")?;
        if let Some(last_uses) = last_uses {
            for token in &mut identities.tokens {
                let last_use = last_uses.get(&token.id).copied();
                token.last_used_at = token.last_used_at.max(last_use);
            }
        }
        // Staged users were not in effect yet. Only their audit row may exist.
        let staged = read_old::<StoredUsers>(local, STAGED_USERS, "identity")?;
        Ok(Self {
            identities,
            staged_row: staged.and_then(|staged| staged.row),
            keys: read_keys(local)?,
            notes: read_notes(local)?,
            audit: find_folder(local, AUDIT)?,
        })
    }

    fn insert(&self, connection: &TeamConnection) -> Result<(), DatabaseError> {
        if !self.identities.users.is_empty() || !self.identities.tokens.is_empty() {
            identity::insert_all(connection, &self.identities)?;
        }
        if let Some(folder) = &self.audit {
            let names = audit_segments(folder)?;
            for name in &names {
                let is_newest = Some(name) == names.last();
                for row in read_segment(folder, name, is_newest)? {
                    audit::insert_row(connection, &row)?;
                }
            }
        }
        for OldKey { key, stored, .. } in &self.keys {
            idempotency::insert(connection, key, &stored.record)?;
            if let Some(response) = &stored.record.answer {
                idempotency::save_response(connection, key, response)?;
            }
        }
        self.insert_pending(connection)
    }

    /// Inserts an intent for each commit that 0.1.0 would have decided at its next start.
    fn insert_pending(&self, connection: &TeamConnection) -> Result<(), DatabaseError> {
        let recent = self.recent_rows(connection)?;
        if let Some(number) = recent.staged
            && !recent.rolled_back.contains(&number)
        {
            audit::append_events(connection, [AuditEvent::unconfirmed(number, current_time())])?;
        }
        let mut keys: BTreeMap<&str, &ProjectKey> = BTreeMap::new();
        for OldKey { key, stored, is_confirmed } in &self.keys {
            if !is_confirmed {
                keys.insert(key, &stored.project);
            }
        }
        for (file, note) in &self.notes {
            if note.state != NoteState::Settled {
                insert_note(connection, file, note, &recent, &mut keys)?;
            }
        }
        for (project, number) in &recent.last_changes {
            if !self.is_decided(project, *number) && !recent.rolled_back.contains(number) {
                pending::insert(connection, project, Some(*number), None)?;
            }
        }
        for (key, project) in keys {
            pending::insert(connection, project, None, Some(key))?;
        }
        Ok(())
    }

    fn recent_rows(&self, connection: &TeamConnection) -> Result<RecentRows, DatabaseError> {
        let newest = audit::newest(connection)?.number;
        let from = (newest + 1).saturating_sub(RECOVERY_SCAN_ROWS);
        let mut recent = RecentRows::default();
        for row in audit::rows(connection, from, usize::MAX, usize::MAX)? {
            let Some(event) = row.parse_event() else { continue };
            if event.action == UNCONFIRMED_ACTION {
                recent.rolled_back.extend(event.reason.parse::<u64>());
            }
            if let Some(staged) = &self.staged_row
                && row.number > staged.after_row
                && *row.text == *staged.text
                && recent.staged.is_none()
            {
                recent.staged = Some(row.number);
            }
            if let Some(project) = event.project
                && event.result == RESULT_OK
                && event.targets.iter().any(AuditTarget::is_changed)
            {
                // Rows are in order, so the last change of a project remains.
                recent.last_changes.insert(project, row.number);
            }
        }
        Ok(recent)
    }

    /// True if the project's note is of this audit row or of a later one.
    fn is_decided(&self, project: &ProjectKey, row_number: u64) -> bool {
        let file = note_name(project);
        let Some((_, note)) = self.notes.iter().find(|(name, _)| *name == file) else {
            return false;
        };
        note.row.or(note.settled_row).is_some_and(|row| row.number >= row_number)
    }
}

/// Inserts the intent of a note, and removes its key from `keys`.
fn insert_note(
    connection: &TeamConnection,
    file: &str,
    note: &PendingNote,
    recent: &RecentRows,
    keys: &mut BTreeMap<&str, &ProjectKey>,
) -> Result<(), DatabaseError> {
    let mut row = None;
    if let Some(head) = note.row {
        let mut rows = audit::rows(connection, head.number, 1, usize::MAX)?;
        rows.retain(|row| row.head() == head && !recent.rolled_back.contains(&row.number));
        row = rows.pop();
    }
    let key = note.key.as_deref().filter(|key| keys.contains_key(key));
    let mut project = row.as_ref().and_then(AuditRow::parse_event).and_then(|event| event.project);
    if let (None, Some(key)) = (&project, key) {
        project = keys.get(key).copied().cloned();
    }
    // A file of another name is a copy.
    let Some(project) = project.filter(|project| note_name(project) == file) else {
        return Ok(());
    };
    if let Some(key) = key {
        keys.remove(key);
    }
    let intent = pending::insert(connection, &project, row.map(|row| row.number), key)?;
    if note.state == NoteState::Withdrawn {
        pending::mark_rolled_back(connection, &intent)?;
    }
    Ok(())
}

/// The file name of a project's note.
fn note_name(project: &ProjectKey) -> String {
    Version::of_bytes(project.as_str().as_bytes()).to_string()
}

/// Reads a file by its name or its name after the migration. An incomplete staged file is ignored,
/// because its audit row was not appended yet.
fn read_old<T: DeserializeOwned>(local: &Dir, name: &str, kind: &str) -> StoreResult<Option<T>> {
    const MAX_BYTES: u64 = 512 * 1024 * 1024;
    let renamed = format!("{name}{MIGRATED_SUFFIX}");
    for name in [name, &renamed] {
        let file = OldFile(PrivateFile::new(local, name));
        match file.read_body(kind, MAX_BYTES) {
            // `block_0_1_0_writes` wrote the later format.
            Ok(None) | Err(OldFileError { problem: OldFileProblem::LaterFormat, .. }) => {}
            Err(OldFileError { problem: OldFileProblem::Incomplete, error })
                if name.starts_with(STAGED_USERS) =>
            {
                tracing::warn!(%error, "an incomplete change of users is dropped");
                return Ok(None);
            }
            body => return Ok(body?),
        }
    }
    Ok(None)
}

/// Reads all keys, the confirmed ones first.
fn read_keys(local: &Dir) -> StoreResult<Vec<OldKey>> {
    const MAX_BYTES: u64 = 32 * 1024 * 1024;
    let Some(dir) = find_folder(local, KEYS)? else { return Ok(Vec::new()) };
    let mut keys = Vec::new();
    for name in file_names(&dir, KEYS)? {
        let key = name.strip_suffix(UNCONFIRMED_SUFFIX).unwrap_or(&name);
        // Temporary files are ignored.
        if key.len() > 64 || !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            continue;
        }
        let file = OldFile(PrivateFile { dir: &dir, folder: "once/", name: &name });
        match file.read_body::<StoredKey>("key", MAX_BYTES) {
            Ok(Some(stored)) => {
                let is_confirmed = key == name;
                keys.push(OldKey { key: key.to_owned(), stored, is_confirmed });
            }
            Ok(None) => {}
            Err(OldFileError { error, .. }) => {
                // Without the record, only a repetition of its call is not recognized.
                tracing::warn!(%error, "an idempotency record is not migrated");
            }
        }
    }
    // The unconfirmed record of a key is newer than the confirmed one and must replace it.
    keys.sort_by_key(|key| !key.is_confirmed);
    Ok(keys)
}

fn read_notes(local: &Dir) -> StoreResult<Vec<(String, PendingNote)>> {
    let Some(dir) = find_folder(local, PENDING_NOTES)? else { return Ok(Vec::new()) };
    let mut notes = Vec::new();
    for name in file_names(&dir, PENDING_NOTES)? {
        let file = OldFile(PrivateFile { dir: &dir, folder: "pending/", name: &name });
        match file.read_body("pending", 4096) {
            Ok(Some(note)) => notes.push((name, note)),
            Ok(None) => {}
            // A power failure or a copied folder can cause this. The audit rows are enough to
            // recover.
            Err(OldFileError {
                problem: OldFileProblem::Incomplete | OldFileProblem::Copied,
                error,
            }) => {
                tracing::warn!(%error, "the note of a pending commit is dropped");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(notes)
}

/// Returns the audit's file names, the oldest first.
fn audit_segments(dir: &Dir) -> StoreResult<Vec<String>> {
    let mut names = file_names(dir, AUDIT)?;
    // Ignores other files and the version barrier.
    names.retain(|name| {
        let number = name.strip_suffix(SEGMENT_SUFFIX).unwrap_or_default();
        let is_number = number.len() == 20 && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && name != LAST_SEGMENT
    });
    names.sort_unstable();
    Ok(names)
}

/// Reads the rows of a segment. The last line of the newest segment may be incomplete: 0.1.0 did
/// not acknowledge it.
fn read_segment(dir: &Dir, name: &str, is_newest: bool) -> StoreResult<Vec<AuditRow>> {
    let file = OldFile(PrivateFile { dir, folder: "audit/", name });
    let Some(bytes) = file.read("audit", 512 * 1024 * 1024)? else { return Ok(Vec::new()) };
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let mut rows = Vec::with_capacity(lines.len());
    // The first line is the header.
    for (index, line) in lines.iter().enumerate().skip(1) {
        let row = line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok());
        match row {
            Some(row) => rows.push(row),
            None if is_newest && index + 1 == lines.len() => {}
            None => {
                return Err(file.unreadable(&format!(
                    "line {} is not an audit row; restore the file from a backup, or move the \
                     folder away to begin a new chain",
                    index + 1
                )));
            }
        }
    }
    Ok(rows)
}

fn file_names(dir: &Dir, folder: &str) -> StoreResult<Vec<String>> {
    let mut names = Vec::new();
    for entry in dir.entries().map_err(|error| not_listed(folder, error))? {
        let name = entry.map_err(|error| not_listed(folder, error))?.file_name();
        names.extend(name.into_string().ok());
    }
    Ok(names)
}

fn not_listed(folder: &str, error: io::Error) -> StoreError {
    failed(&format!("{LOCAL_STATE_DIR}/{folder}"), "list it", error)
}

/// The error of a file of 0.1.0 that can't be used.
struct OldFileError {
    problem: OldFileProblem,
    error: StoreError,
}

enum OldFileProblem {
    Incomplete,
    /// The file came with a clone or a copy.
    Copied,
    LaterFormat,
    Other,
}

impl From<StoreError> for OldFileError {
    fn from(error: StoreError) -> Self {
        Self { problem: OldFileProblem::Other, error }
    }
}

impl From<OldFileError> for StoreError {
    fn from(error: OldFileError) -> Self {
        error.error
    }
}

/// A file of 0.1.0: JSON, or lines of JSON, that begins with its format and its own identity.
struct OldFile<'a>(PrivateFile<'a>);

#[derive(Deserialize)]
struct FileEnvelope<T> {
    body: T,
}

impl OldFile<'_> {
    fn read_body<T: DeserializeOwned>(
        &self,
        kind: &str,
        max_bytes: u64,
    ) -> Result<Option<T>, OldFileError> {
        let Some(bytes) = self.read(kind, max_bytes)? else { return Ok(None) };
        match serde_json::from_slice::<FileEnvelope<T>>(&bytes) {
            Ok(envelope) => Ok(Some(envelope.body)),
            Err(error) => {
                let reason = format!("can't be read ({error}); restore it from a backup");
                let error = self.unreadable(&reason);
                Err(OldFileError { problem: OldFileProblem::Incomplete, error })
            }
        }
    }

    /// Reads a file after checking the format and the identity in its first bytes.
    fn read(&self, kind: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, OldFileError> {
        let Some((mut file, metadata)) = self.0.open()? else { return Ok(None) };
        let mut bytes = Vec::new();
        // A file from elsewhere may be huge, so only its header is read before it is trusted.
        let read = (&mut file).take(512).read_to_end(&mut bytes);
        read.map_err(|error| self.0.failed("read it", error))?;
        let Some((format, own)) = parse_header(&bytes) else {
            let reason = "can't be read (its header is damaged); restore it from a backup";
            let error = self.unreadable(reason);
            return Err(OldFileError { problem: OldFileProblem::Incomplete, error });
        };
        if own != file_identity(&metadata) {
            let error = self.0.foreign_identity();
            return Err(OldFileError { problem: OldFileProblem::Copied, error });
        }
        if format != format!("reqlore {kind} 1") {
            let error =
                self.unreadable(&format!("is {format:?} of a later version; update Reqlore"));
            return Err(OldFileError { problem: OldFileProblem::LaterFormat, error });
        }
        if metadata.len() > max_bytes {
            return Err(self.unreadable("is too large; restore it from a backup").into());
        }
        let read = (&mut file).take(max_bytes).read_to_end(&mut bytes);
        read.map_err(|error| self.0.failed("read it", error))?;
        Ok(Some(bytes))
    }

    fn unreadable(&self, reason: &str) -> StoreError {
        StoreError::Unreadable { place: self.0.display_path(), reason: reason.to_owned() }
    }
}

/// Returns the format and the identity in the first bytes of a file.
fn parse_header(bytes: &[u8]) -> Option<(&str, &str)> {
    let (format, rest) = until_quote(bytes.strip_prefix(b"{\"format\":\"")?)?;
    let (identity, _) = until_quote(rest.strip_prefix(b"\",\"file\":\"")?)?;
    Some((format, identity))
}

/// Splits text before its first quotation mark.
fn until_quote(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'"')?;
    let (text, rest) = bytes.split_at(end);
    Some((str::from_utf8(text).ok()?, rest))
}
