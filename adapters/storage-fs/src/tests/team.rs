//! Users and the audit log: several processes, file modes, read-only folders, and imports.

use std::collections::HashSet;
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use reqlore_contract::{run as block_on, test_context};
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{User, UserName, UserRole};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, StoreError, StoreResult,
};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use super::crash::{audited, chain};
use super::{LOCAL, PROJECT, Project, check_refused, commit, config};
#[cfg(unix)]
use super::{child_argument, files, run_child_in_shell};
use crate::FsStore;

pub(super) const TEAM: &str = ".reqlore/local/team.db";

pub(super) async fn add_user(store: &FsStore, name: &str) -> StoreResult<()> {
    let name = UserName::parse(name).unwrap();
    let created_at = Timestamp::new(1, 0);
    let user = User { name, role: UserRole::Administrator, created_at, disabled_at: None };
    let decide = Box::new(move |_: &[_], _: &[_]| Ok(vec![IdentityChange::User(user.clone())]));
    let commit =
        IdentityCommit { users: Vec::new(), tokens: Vec::new(), decide, context: test_context() };
    store.commit_identities(commit).await
}

pub(super) async fn put_audited(
    store: &FsStore,
    project: &ProjectKey,
    name: &str,
) -> StoreResult<()> {
    let commit = commit(vec![DocumentChange::put(DocumentId::section(name), "x")]);
    store.commit(project, CommitRequest { context: audited(), ..commit }).await.map(drop)
}

pub(super) fn test_event(seconds: i64) -> AuditEvent {
    AuditEvent { action: "test".to_owned(), ..AuditEvent::pruned(0, Timestamp::new(seconds, 0)) }
}

/// The child process of the next two tests; does nothing in an ordinary test run.
#[cfg(unix)]
#[tokio::test]
async fn child_process_with_other_rights() {
    let Some(argument) = child_argument() else { return };
    let (mode, root) = argument.split_once('|').unwrap();
    let store = FsStore::open(&config(Path::new(root))).unwrap();
    if mode == "umask" {
        add_user(&store, "ada").await.unwrap();
        put_audited(&store, &PROJECT(), "a").await.unwrap();
        return;
    }
    assert_eq!(store.list_users().await.unwrap().len(), 1);
    assert_eq!(store.rows(1, 9).await.unwrap().len(), 1);
    for outcome in [add_user(&store, "bob").await, store.append_events(vec![test_event(1)]).await] {
        let Err(StoreError::Unavailable { subject, reason, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(subject.starts_with(LOCAL) && reason.contains("read"), "{subject}: {reason}");
    }
}

#[cfg(unix)]
#[test]
fn team_files_are_private_under_any_umask() {
    for umask in ["000", "022", "077"] {
        let project = Project::new();
        let argument = format!("umask|{}", project.root.display());
        let script = format!("umask {umask};");
        let child = run_child_in_shell(&script, "team::child_process_with_other_rights", &argument);
        assert!(child.status.success(), "{child:?}");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let mut files = files(&project.path(LOCAL));
        files.retain(|path| !path.ends_with(".gitignore"));
        for file in &files {
            assert_eq!(mode(file), 0o600, "{file:?}");
            assert_eq!(mode(file.parent().unwrap()), 0o700, "{file:?}");
        }
        assert!(files.len() >= 4, "{files:?}");
    }
}

#[cfg(unix)]
#[test]
fn read_only_folder_shows_users_and_rows() {
    let project = Project::new();
    let store = project.store();
    block_on(async {
        add_user(&store, "ada").await.unwrap();
        store.append_events(vec![test_event(1)]).await.unwrap();
    });
    let root = project.root.display();
    let test = "team::child_process_with_other_rights";
    let script = format!(
        "exec unshare -rm sh -c 'mount --bind {root} {root} && mount -o remount,ro,bind {root} \
         || exit 77; exec \"$1\" --exact tests::{test} --nocapture' sh \"$1\";"
    );
    let child = run_child_in_shell(&script, test, &format!("read-only|{root}"));
    let may_mount = !matches!(child.status.code(), Some(77 | 1));
    assert!(child.status.success() || !may_mount, "{child:?}");
}

#[tokio::test]
async fn user_change_by_other_process_is_visible_at_once() {
    let project = Project::new();
    let (one, other) = (project.store(), project.store());
    let mut epochs = vec![one.identity_epoch().await.unwrap()];
    for number in 1..=30 {
        add_user(&other, &format!("user-{number}")).await.unwrap();
        epochs.push(one.identity_epoch().await.unwrap());
        assert_eq!(one.list_users().await.unwrap().len(), number);
    }
    let distinct: HashSet<_> = epochs.iter().collect();
    assert_eq!(distinct.len(), epochs.len(), "{epochs:?}");
}

/// Repeats a write that may fail as busy on a machine under load.
async fn persist(write: impl AsyncFn() -> StoreResult<()>) {
    while let Err(error) = write().await {
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    }
}

#[test]
fn concurrent_servers_and_projects_write_one_audit_chain() {
    const EACH: usize = 25;
    let project = Project::new();
    let second = project.outside.path().join("second");
    fs::create_dir(&second).unwrap();
    let keys = [PROJECT(), ProjectKey::new("second")];
    let mut config = config(&project.root);
    config.projects.insert(keys[1].clone(), second);
    let write = |writer: usize| {
        let store = FsStore::open(&config).unwrap();
        block_on(async {
            for number in 0..EACH {
                let name = format!("w{writer}-{number}");
                persist(async || store.append_events(vec![test_event(1), test_event(2)]).await)
                    .await;
                persist(async || put_audited(&store, &keys[writer % 2], &name).await).await;
            }
        });
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || write(writer));
        }
    });
    assert_eq!(chain(&project.store()).len(), 4 * EACH * 3);
}

/// Audit rows of another project.
fn rows(count: i64) -> Vec<ArchiveRecord> {
    let mut head = ChainHead::default();
    let seal = |seconds| {
        let row = AuditRow::seal_after(head, test_event(seconds));
        head = row.head();
        ArchiveRecord::AuditRow(row)
    };
    (0..count).map(seal).collect()
}

#[test]
fn incomplete_import_rejects_new_audit_rows() {
    let project = Project::new();
    let (store, server) = (project.store(), project.store());
    block_on(async {
        let mut writer = store.import().await.unwrap();
        check_refused(server.append_events(vec![test_event(9)]).await, LOCAL, "incomplete");
        let mut all = rows(6);
        let rest = all.split_off(3);
        writer.write_batch(all).await.unwrap();
        writer.write_batch(rest).await.unwrap();
        writer.finish().await.unwrap();
        server.append_events(vec![test_event(9)]).await.unwrap();
    });
    assert_eq!(chain(&store).len(), 7);
}

#[test]
fn import_rejects_rows_that_do_not_continue_the_chain() {
    let project = Project::new();
    let store = project.store();
    block_on(async {
        let mut writer = store.import().await.unwrap();
        let marker = project.path(LOCAL).join(crate::archive::INCOMPLETE_MARKER);
        fs::rename(&marker, project.path("marker")).unwrap();
        store.append_events(vec![test_event(9)]).await.unwrap();
        fs::rename(project.path("marker"), &marker).unwrap();
        check_refused(writer.write_batch(rows(3)).await, LOCAL, "from another process");
    });
    assert_eq!(chain(&store).len(), 1);
}
