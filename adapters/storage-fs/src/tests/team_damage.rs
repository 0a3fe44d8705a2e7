//! Corruption suite of `team.db` and the files next to it: each call gives correct data or an error
//! with the way out, and no damaged or incomplete database is written.

use std::fs;
use std::path::PathBuf;

use reqlore_contract::{identity::user, run as block_on, test_context};
use reqlore_domain::audit_log::{AuditEvent, AuditRow};
use reqlore_domain::document::DocumentId;
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::identity::{
    Access, PresentedToken, Token, TokenId, TokenOwner, User, UserRole,
};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    DocumentChange, DocumentRepository, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::timestamp::Timestamp;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::crash::{KEY, audited, chain, with_key};
use super::team::{TEAM, test_event};
use super::{LOCAL, PROJECT, Project, check_refused, commit, put};
use crate::FsStore;

const PAGE: usize = 4096;
/// Enough users and rows for several pages of each table.
const COUNT: i64 = 16;
const FILES: [&str; 5] = ["team.db", "team.db-wal", "team.db-shm", "team.id", "team.db-commits"];

/// All that the team data answers.
#[derive(Debug, PartialEq)]
struct TeamContent {
    users: Vec<User>,
    tokens: Vec<Token>,
    owners: Vec<Option<TokenOwner>>,
    rows: Vec<AuditRow>,
    record: Option<IdempotencyRecord>,
}

/// Its name in the report, and the action of a person.
type Loss = (&'static str, fn(&Fixture));

/// A closed store with its expected content, and the bytes of its files.
struct Fixture {
    project: Project,
    content: TeamContent,
    files: Vec<(PathBuf, Vec<u8>)>,
}

fn token(number: i64) -> Token {
    let presented =
        PresentedToken::new(&format!("{number:012}"), "0123456789abcdefghijklmnopqrstuv").unwrap();
    Token {
        id: presented.id.clone(),
        user: user(&format!("user-{number}")).name,
        digest: presented.digest(),
        scope: Access::Write,
        projects: Vec::new(),
        created_at: Timestamp::new(number, 0),
        expires_at: Timestamp::new(2_000 + number, 0),
        revoked_at: (number % 2 == 0).then_some(Timestamp::new(1_500, 0)),
        successor: None,
        last_used_at: Some(Timestamp::new(1_600, 0)),
        parent: None,
    }
}

fn put_identities(store: &FsStore, changes: Vec<IdentityChange>) -> StoreResult<()> {
    let decide = Box::new(move |_: &[_], _: &[_]| Ok(changes.clone()));
    let (users, tokens) = (Vec::new(), Vec::new());
    let commit = IdentityCommit { users, tokens, decide, context: test_context() };
    block_on(store.commit_identities(commit))
}

fn token_ids() -> Vec<TokenId> {
    (1..=COUNT).map(|number| token(number).id).collect()
}

impl Fixture {
    /// With `is_merged`, all commits are in `team.db`, otherwise in its log, as after a kill.
    fn new(is_merged: bool) -> Self {
        let project = Project::new();
        let store = project.store();
        let mut changes = Vec::new();
        for number in 1..=COUNT {
            let role = if number == 1 { UserRole::Administrator } else { UserRole::User };
            changes.push(IdentityChange::User(User { role, ..user(&format!("user-{number}")) }));
            changes.push(IdentityChange::Token(token(number)));
        }
        put_identities(&store, changes).unwrap();
        let put = |name| commit(vec![DocumentChange::put(DocumentId::section(name), "x")]);
        block_on(async {
            let reason = "r".repeat(500);
            let event = |seconds| AuditEvent { reason: reason.clone(), ..test_event(seconds) };
            store.append_events((0..COUNT).map(event).collect()).await.unwrap();
            store.commit(&PROJECT(), with_key(put("a"))).await.unwrap();
            store.save_answer(KEY, "the answer".to_owned()).await.unwrap();
        });
        let path = |name: &str| project.path(LOCAL).join(name);
        let read_files = || FILES.map(|name| (path(name), fs::read(path(name)).unwrap())).to_vec();
        let mut files = read_files();
        drop(store);
        if is_merged {
            files = read_files();
        }
        let content = read_all(&project.store()).unwrap();
        assert_eq!(content.tokens.len(), content.users.len());
        let fixture = Self { project, content, files };
        fixture.reset();
        fixture
    }

    /// Writes the files in place, so that they keep their identities.
    fn reset(&self) {
        self.write_back(FILES.len());
    }

    fn write_back(&self, count: usize) {
        for (path, bytes) in &self.files[..count] {
            fs::write(path, bytes).unwrap();
        }
    }

    /// Checks all calls with other bytes in one file. Returns true if the write was refused.
    fn check(&self, file: usize, bytes: &[u8], what: &str) -> bool {
        fs::write(&self.files[file].0, bytes).unwrap();
        let is_refused = self.check_calls(&format!("{}: {what}", FILES[file]));
        self.reset();
        is_refused
    }

    fn check_calls(&self, what: &str) -> bool {
        let (store, expected) = (self.project.store(), &self.content);
        let mut problems = 0;
        problems += check_outcome(what, block_on(store.list_users()), &expected.users);
        problems += check_outcome(what, block_on(store.list_tokens()), &expected.tokens);
        problems += check_outcome(what, block_on(store.rows(1, usize::MAX)), &expected.rows);
        problems += match block_on(store.find_record(KEY)) {
            // Found no more: the write below must be refused.
            Ok(None) => 1,
            found => check_outcome(what, found, &expected.record),
        };
        for (id, owner) in token_ids().iter().zip(&expected.owners) {
            problems += match block_on(store.token_owner(id)) {
                // Denied.
                Ok(None) => 1,
                found => check_outcome(what, found, owner),
            };
        }
        let is_refused = match block_on(store.append_events(vec![test_event(9)])) {
            Ok(()) => {
                assert_eq!(problems, 0, "{what}: a damaged database was written");
                assert_eq!(chain(&store).len(), expected.rows.len() + 1, "{what}");
                false
            }
            Err(error) => {
                check_way_out(what, &error);
                true
            }
        };
        if problems > 0 || is_refused {
            let found = block_on(store.find_damage());
            assert!(found.is_err() || !found.unwrap().is_empty(), "{what}: `check` finds nothing");
        }
        is_refused
    }
}

/// Opens the database, and keeps its log when it is closed.
fn connect(project: &Project) -> Connection {
    let connection = Connection::open(project.path(TEAM)).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    connection
}

fn read_all(store: &FsStore) -> StoreResult<TeamContent> {
    block_on(async {
        let mut owners = Vec::new();
        for id in token_ids() {
            owners.push(store.token_owner(&id).await?);
        }
        Ok(TeamContent {
            users: store.list_users().await?,
            tokens: store.list_tokens().await?,
            owners,
            rows: store.rows(1, usize::MAX).await?,
            record: store.find_record(KEY).await?,
        })
    })
}

/// Returns 1 for an error with the way out, 0 for the expected answer.
fn check_outcome<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: StoreResult<T>,
    expected: &T,
) -> usize {
    match found {
        Ok(found) => {
            assert_eq!(&found, expected, "{what}");
            0
        }
        Err(error) => {
            check_way_out(what, &error);
            1
        }
    }
}

fn check_way_out(what: &str, error: &StoreError) {
    let message = error.to_string();
    assert!(message.contains(".reqlore/local/team."), "{what}: {message}");
    assert!(message.contains("reqlore restore"), "{what}: {message}");
}

fn flipped(bytes: &[u8], at: usize, bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1 << bit;
    bytes
}

#[test]
fn damaged_pages_of_team_db_are_never_served() {
    let fixture = Fixture::new(true);
    let bytes = &fixture.files[0].1;
    let pages = bytes.len() / PAGE;
    assert!(pages >= 12, "{pages} pages");
    let mut refused = 0;
    for page in 0..pages {
        let (start, end) = (page * PAGE, (page + 1) * PAGE);
        let mut zeroed = bytes.clone();
        zeroed[start..end].fill(0);
        refused += usize::from(fixture.check(0, &zeroed, &format!("page {page} zeroed")));
        for (step, bit) in [(0, 3), (5, 0), (9, 1), (1_000, 2), (3_000, 5), (4_000, 0), (4_090, 6)]
        {
            let flipped = flipped(bytes, start + step, bit);
            let what = format!("bit {bit} of byte {step} in page {page} flipped");
            refused += usize::from(fixture.check(0, &flipped, &what));
        }
        for other in page + 1..pages {
            let mut swapped = bytes.clone();
            swapped.copy_within(start..end, other * PAGE);
            swapped[start..end].copy_from_slice(&bytes[other * PAGE..(other + 1) * PAGE]);
            let what = format!("pages {page} and {other} swapped");
            refused += usize::from(fixture.check(0, &swapped, &what));
        }
    }
    assert!(refused > pages * pages / 2, "{refused} refused");
    assert!(!fixture.check(0, bytes, "unchanged"));
}

#[test]
fn truncated_team_files_are_refused() {
    check_truncated(true);
}

#[test]
fn truncated_team_files_with_a_log_are_refused() {
    check_truncated(false);
}

fn check_truncated(is_merged: bool) {
    let fixture = Fixture::new(is_merged);
    for (file, (_, bytes)) in fixture.files.iter().enumerate() {
        for length in (0..bytes.len()).step_by(512) {
            let is_refused = fixture.check(file, &bytes[..length], &format!("{length} bytes"));
            let is_needed = match FILES[file] {
                // The log has newer pages.
                "team.db" => is_merged,
                "team.db-wal" => !is_merged,
                // Derived from the log.
                "team.db-shm" => false,
                // One of two slots is enough.
                "team.db-commits" => length == 0,
                _ => true,
            };
            assert!(is_refused || !is_needed, "{}: {length} bytes", FILES[file]);
        }
    }
}

#[test]
fn changed_bytes_of_side_files_are_refused_or_harmless() {
    let fixture = Fixture::new(false);
    for (file, (_, bytes)) in fixture.files.iter().enumerate().skip(1) {
        // Bytes of the small files, and each header and each page of the log.
        let step = if bytes.len() > PAGE { 4_093 } else { 3 };
        for at in (0..bytes.len()).step_by(step) {
            fixture.check(file, &flipped(bytes, at, at % 8), &format!("byte {at} flipped"));
        }
        let zeroed = fixture.check(file, &vec![0; bytes.len()], "zeroed");
        assert!(zeroed || file == 2, "{}", FILES[file]);
    }
}

#[test]
fn team_database_of_another_format_is_refused() {
    let fixture = Fixture::new(true);
    for version in [1, 99] {
        let connection = connect(&fixture.project);
        connection.pragma_update(None, "user_version", version).unwrap();
        drop(connection);
        let error = read_all(&fixture.project.store()).unwrap_err();
        check_way_out("another format", &error);
        assert!(error.to_string().contains(&format!("(format {version}, supported: ")), "{error}");
        fixture.reset();
    }
}

#[test]
fn missing_team_file_is_refused_until_it_is_back() {
    let fixture = Fixture::new(false);
    for (name, (path, _)) in FILES.iter().zip(&fixture.files) {
        let away = fixture.project.path("away");
        fs::rename(path, &away).unwrap();
        assert!(fixture.check_calls(&format!("{name} removed")));
        fs::rename(&away, path).unwrap();
        fixture.reset();
        assert_eq!(read_all(&fixture.project.store()).unwrap(), fixture.content, "{name}");
    }
}

#[test]
fn live_copy_of_single_team_files_is_refused() {
    let source = Fixture::new(false);
    let _store = source.project.store();
    for names in [&FILES[..1], &FILES[..2], &FILES[..3], &FILES[1..2], &FILES[..]] {
        let target = Project::new();
        block_on(put(&target.store(), &DocumentId::section("a"), "x")).unwrap();
        fs::create_dir_all(target.path(LOCAL)).unwrap();
        for name in names {
            fs::copy(source.project.path(LOCAL).join(name), target.path(LOCAL).join(name)).unwrap();
        }
        let store = target.store();
        let written = block_on(store.append_events(vec![test_event(1)]));
        let error = written.unwrap_err();
        assert!(error.to_string().contains(".reqlore/local/team."), "{names:?}: {error}");
        assert!(error.to_string().contains("reqlore restore"), "{names:?}: {error}");
        assert!(matches!(block_on(store.token_owner(&token(1).id)), Ok(None) | Err(_)));
    }
}

#[test]
fn accepted_loss_revokes_tokens_and_is_audited() {
    let losses: [Loss; 4] = [
        ("team.db-wal was missing", |fixture| fs::remove_file(&fixture.files[1].0).unwrap()),
        ("team.db-shm was missing", |fixture| fs::remove_file(&fixture.files[2].0).unwrap()),
        ("-commits file is missing", |fixture| fs::remove_file(&fixture.files[4].0).unwrap()),
        ("commits", |fixture| fixture.write_back(2)),
    ];
    for (reason, lose) in losses {
        // Merged first, so that users remain without the log.
        let fixture = Fixture::new(true);
        let store = fixture.project.store();
        block_on(store.append_events(vec![test_event(1)])).unwrap();
        drop(store);
        let config = super::config(&fixture.project.root);
        check_refused(FsStore::accept_loss(&config, audited()), TEAM, "no loss to accept");
        lose(&fixture);
        let refused = block_on(fixture.project.store().append_events(vec![test_event(1)]));
        assert!(refused.unwrap_err().to_string().contains("--accept-loss"), "{reason}");
        let accepted = FsStore::accept_loss(&config, audited()).unwrap();
        assert!(accepted.loss.contains(reason), "{}", accepted.loss);
        let store = fixture.project.store();
        assert!(block_on(store.list_tokens()).unwrap().iter().all(|it| it.revoked_at.is_some()));
        let newest = chain(&store).pop().unwrap().parse_event().unwrap();
        assert_eq!(newest.reason, accepted.loss);
        block_on(store.append_events(vec![test_event(1)])).unwrap();
        drop(store);
        check_refused(FsStore::accept_loss(&config, audited()), TEAM, "no loss to accept");
        assert!(block_on(fixture.project.store().find_damage()).unwrap().is_empty());
    }
}
