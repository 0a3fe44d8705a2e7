//! Users and the audit as several processes use them, and as a crash or an odd place leaves them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use reqlore_contract::act;
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead, Verifier};
use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{Role, User, UserName};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    Change, Commit, DocumentRepository, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use tempfile::TempDir;

use super::config;
use crate::FsStore;

pub(super) const LOCAL: &str = ".reqlore/local";
pub(super) const TEAM: &str = ".reqlore/local/team.db";

pub(super) fn project() -> (TempDir, PathBuf, FsStore) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    fs::create_dir(&root).unwrap();
    let store = FsStore::new(&config(&root));
    (folder, root, store)
}

pub(super) async fn add(store: &FsStore, name: &str) -> StoreResult<()> {
    let name = UserName::parse(name).unwrap();
    let created_at = Timestamp::new(1, 0);
    let user = User { name, role: Role::Administrator, created_at, disabled_at: None };
    let decide = Box::new(move |_: &[_], _: &[_]| Ok(vec![IdentityChange::User(user.clone())]));
    let commit = IdentityCommit { users: Vec::new(), tokens: Vec::new(), decide, act: act() };
    store.commit_identities(commit).await
}

pub(super) async fn put(store: &FsStore, project: &ProjectKey, name: &str) -> StoreResult<()> {
    let clock = Arc::new(Timestamp::new(1_700_000_000, 0));
    put_as(store, project, name, WriteContext { audited: Some(AuditScope::begin(clock)), ..act() })
        .await
}

pub(super) async fn put_as(
    store: &FsStore,
    project: &ProjectKey,
    name: &str,
    act: WriteContext,
) -> StoreResult<()> {
    let id = DocumentId::section(name);
    let change = Change::put(id.clone(), "x");
    let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
    store.commit(project, Commit { reads: ReadSet::of(vec![id]), decide, act }).await.map(drop)
}

pub(super) async fn chain(store: &FsStore) -> Vec<AuditRow> {
    let rows = store.rows(1, usize::MAX).await.unwrap();
    let mut verifier = Verifier::default();
    verifier.next(&rows).unwrap();
    verifier.finish().unwrap();
    rows
}

pub(super) fn entry(seconds: i64) -> AuditEvent {
    AuditEvent { action: "test".to_owned(), ..AuditEvent::pruned(0, Timestamp::new(seconds, 0)) }
}

#[track_caller]
pub(super) fn check_refused<T: std::fmt::Debug>(outcome: StoreResult<T>, place: &str, told: &str) {
    match outcome {
        Err(StoreError::Refused { place: named, reason }) => {
            assert!(named.starts_with(place) && reason.contains(told), "{named}: {reason}");
        }
        other => panic!("{place}: {other:?}"),
    }
}

const CHILD: &str = "REQLORE_TEST_TEAM";

/// Does nothing unless a parent asks for it.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test tells its child what to do")]
async fn child_with_another_world() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let (what, root) = order.split_once('|').unwrap();
    let store = FsStore::open(&config(Path::new(root))).unwrap();
    if what == "umask" {
        add(&store, "ada").await.unwrap();
        put(&store, &ProjectKey::default(), "a").await.unwrap();
        return;
    }
    assert_eq!(store.users().await.unwrap().len(), 1);
    assert_eq!(chain(&store).await.len(), 1);
    let outcomes = [add(&store, "bob").await, store.record(vec![entry(1)]).await];
    for outcome in outcomes {
        let Err(StoreError::Unavailable { place, reason, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(place.starts_with(LOCAL) && reason.contains("read"), "{place}: {reason}");
    }
}

fn in_another_world(script: &str, what: &str, root: &Path) -> std::process::Output {
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .arg(root)
        .env(CHILD, format!("{what}|{}", root.display()))
        .output()
        .unwrap()
}

#[test]
fn files_of_ours_are_of_this_user_alone_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let (_folder, root, _) = project();
        let test = "tests::team::child_with_another_world";
        let script = format!("umask {umask}; exec \"$1\" --exact {test}");
        let child = in_another_world(&script, "umask", &root);
        assert!(child.status.success(), "{child:?}");
        let mut folders = vec![root.join(LOCAL)];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700, "{folder:?}");
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.file_name() == ".gitignore" => {}
                    false => {
                        files += 1;
                        assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600, "{entry:?}");
                    }
                }
            }
        }
        assert!(files >= 4, "{files} files");
    }
}

#[test]
fn in_a_place_that_is_read_only_users_and_rows_are_read() {
    let (_folder, root, store) = project();
    reqlore_contract::run(async {
        add(&store, "ada").await.unwrap();
        store.record(vec![entry(1)]).await.unwrap();
    });
    let script = "mount --bind \"$2\" \"$2\" && mount -o remount,ro,bind \"$2\" || exit 77
        exec \"$1\" --exact tests::team::child_with_another_world --nocapture";
    let script = format!("exec unshare -rm sh -c '{script}' sh \"$1\" \"$2\"");
    let child = in_another_world(&script, "read-only", &root);
    let may_mount = !matches!(child.status.code(), Some(77 | 1));
    assert!(child.status.success() || !may_mount, "{child:?}");
}

#[tokio::test]
async fn changes_by_another_process_are_visible_at_once() {
    let (_folder, root, one) = project();
    let other = FsStore::new(&config(&root));
    let mut epochs = vec![one.epoch().await.unwrap()];
    for number in 1..=30 {
        add(&other, &format!("user-{number}")).await.unwrap();
        epochs.push(one.epoch().await.unwrap());
        assert_eq!(one.users().await.unwrap().len(), number);
    }
    assert_eq!(epochs.last(), Some(&other.epoch().await.unwrap()));
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 31);
}

/// Nothing was written, as a machine under load may have it.
#[track_caller]
fn is_busy(outcome: &StoreResult<()>) -> bool {
    let busy = matches!(outcome, Err(StoreError::Busy { .. }));
    assert!(busy || outcome.is_ok(), "{outcome:?}");
    busy
}

// Catalogue 113
#[test]
fn several_servers_and_projects_write_one_chain() {
    const EACH: usize = 25;
    let (folder, root, store) = project();
    let second = folder.path().join("second");
    fs::create_dir(&second).unwrap();
    let keys = [ProjectKey::default(), ProjectKey::new("second")];
    let writers = (0..4).map(|writer| {
        let mut config = config(&root);
        config.projects.insert(keys[1].clone(), second.clone());
        let project = keys[writer % 2].clone();
        std::thread::spawn(move || {
            let store = FsStore::open(&config).unwrap();
            reqlore_contract::run(async {
                for number in 0..EACH {
                    let name = format!("w{writer}-{number}");
                    while is_busy(&store.record(vec![entry(1), entry(2)]).await) {}
                    while is_busy(&put(&store, &project, &name).await) {}
                }
            });
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.join().unwrap();
    }
    let rows = reqlore_contract::run(chain(&store));
    assert_eq!(rows.len(), 4 * EACH * 3);
}

#[tokio::test]
async fn a_place_with_an_audit_is_not_filled() {
    let (_folder, _, store) = project();
    store.record(vec![entry(1)]).await.unwrap();
    check_refused(store.fill().await.map(drop), LOCAL, "rows of an audit");
}

/// Rows as another place has them.
fn rows(count: i64) -> Vec<AuditRow> {
    let mut head = ChainHead::default();
    let seal = |seconds| {
        let row = AuditRow::after(head, entry(seconds));
        head = row.head();
        row
    };
    (0..count).map(seal).collect()
}

// A server may have the folder open
#[tokio::test]
async fn a_place_that_is_being_filled_gets_no_rows_of_its_own() {
    let (_folder, root, store) = project();
    let server = FsStore::new(&config(&root));
    let mut sink = store.fill().await.unwrap();
    check_refused(server.record(vec![entry(9)]).await, LOCAL, "incomplete");
    let mut all = rows(6);
    let rest = all.split_off(3);
    sink.put(all.into_iter().map(ArchiveRecord::AuditRow).collect()).await.unwrap();
    sink.put(rest.into_iter().map(ArchiveRecord::AuditRow).collect()).await.unwrap();
    sink.finish().await.unwrap();
    server.record(vec![entry(9)]).await.unwrap();
    assert_eq!(chain(&store).await.len(), 7);
}

#[tokio::test]
async fn rows_that_do_not_follow_those_that_are_there_are_not_filled_in() {
    let (_folder, root, store) = project();
    let mut sink = store.fill().await.unwrap();
    let mark = root.join(LOCAL).join(crate::archive::MARK);
    fs::rename(&mark, root.join("mark")).unwrap();
    store.record(vec![entry(9)]).await.unwrap();
    fs::rename(root.join("mark"), &mark).unwrap();
    let rows = rows(3).into_iter().map(ArchiveRecord::AuditRow).collect();
    check_refused(sink.put(rows).await, LOCAL, "from another process");
    assert_eq!(chain(&store).await.len(), 1);
}
