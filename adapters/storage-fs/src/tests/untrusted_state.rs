//! Team data that a repository or another user of the machine has forged.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::identity::IdentityRepository;

use super::team::{TEAM, add_user, test_event};
use super::{LOCAL, Project, check_refused, config, files, make_pipe};
use crate::FsStore;

/// Replaces one of our files, and the reason of the error.
type Forgery = (fn(&Path, &Path), &'static str);

const FORGERIES: [Forgery; 5] = [
    (|path, foreign| symlink(foreign, path).unwrap(), "symbolic link"),
    (|path, _| make_pipe(path), "not a regular"),
    (|path, _| fs::create_dir(path).unwrap(), "not a regular"),
    (|path, foreign| fs::hard_link(foreign, path).unwrap(), "hard link"),
    (|path, foreign| assert!(fs::copy(foreign, path).unwrap() > 0), "came with a clone or a copy"),
];

fn remove(path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

async fn with_user(name: &str) -> (Project, FsStore) {
    let project = Project::new();
    let store = project.store();
    add_user(&store, name).await.unwrap();
    (project, store)
}

async fn count_users(store: &FsStore) -> usize {
    store.list_users().await.unwrap().len()
}

/// Checks that users can neither be read nor added.
async fn check_untrusted(store: &FsStore, place: &str, reason: &str) {
    check_refused(store.list_users().await, place, reason);
    check_refused(add_user(store, "bob").await, place, reason);
}

#[tokio::test]
async fn copied_team_files_add_no_users() {
    let (foreign, foreign_store) = with_user("mallory").await;
    for (replace_file, reason) in FORGERIES {
        let project = Project::new();
        let store = project.store();
        fs::create_dir_all(project.path(LOCAL)).unwrap();
        // A database without its `team.id`.
        replace_file(&project.path(TEAM), &foreign.path(TEAM));
        let outcomes = [
            store.list_users().await.map(drop),
            add_user(&store, "ada").await,
            store.import().await.map(drop),
        ];
        for outcome in outcomes {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(TEAM), "{error}");
            assert!(error.contains("came with a clone or a copy"), "{error}");
        }
        remove(&project.path(TEAM));
        add_user(&store, "ada").await.unwrap();
        // Also instead of a file that was trusted before. SQLite would apply the log.
        for name in [TEAM.to_owned(), format!("{TEAM}-wal"), format!("{TEAM}-shm")] {
            fs::rename(project.path(&name), project.path("kept")).unwrap();
            replace_file(&project.path(&name), &foreign.path(TEAM));
            check_refused(add_user(&store, "bob").await, &name, reason);
            check_untrusted(&project.store(), &name, reason).await;
            if name == TEAM {
                check_untrusted(&store, &name, reason).await;
            }
            remove(&project.path(&name));
            fs::rename(project.path("kept"), project.path(&name)).unwrap();
        }
        assert_eq!(count_users(&store).await, 1);
    }
    assert_eq!(count_users(&foreign_store).await, 1);
    // A moved folder keeps its identity; a copy of it does not.
    let moved = foreign.root.with_file_name("moved");
    fs::rename(&foreign.root, &moved).unwrap();
    assert_eq!(count_users(&FsStore::new(&config(&moved))).await, 1);
    let copied = Command::new("cp").arg("-a").args([&moved, &foreign.root]).status().unwrap();
    assert!(copied.success());
    check_untrusted(&foreign.store(), LOCAL, "reqlore backup").await;
}

#[tokio::test]
async fn linked_local_state_dir_holds_no_users() {
    let (foreign, foreign_store) = with_user("mallory").await;
    let project = Project::new();
    let store = project.store();
    fs::create_dir(project.path(".reqlore")).unwrap();
    symlink(foreign.path(LOCAL), project.path(LOCAL)).unwrap();
    assert_eq!(count_users(&store).await, 0);
    check_refused(add_user(&store, "ada").await, LOCAL, "symbolic link");
    assert_eq!(count_users(&foreign_store).await, 1);
}

#[tokio::test]
async fn database_with_access_for_others_is_rejected() {
    let (project, store) = with_user("ada").await;
    for mode in [0o644, 0o660, 0o602] {
        for name in [TEAM.to_owned(), format!("{TEAM}-wal")] {
            let set =
                |mode| fs::set_permissions(project.path(&name), PermissionsExt::from_mode(mode));
            set(mode).unwrap();
            let reason = format!("chmod 600 {name}");
            check_refused(add_user(&store, "bob").await, &name, &reason);
            check_untrusted(&project.store(), &name, &reason).await;
            set(0o600).unwrap();
        }
    }
    assert_eq!(count_users(&store).await, 1);
}

#[tokio::test]
async fn files_of_another_user_are_rejected() {
    let (project, _) = with_user("ada").await;
    for path in [TEAM, LOCAL] {
        if chown(project.path(path), Some(4_242), None).is_err() {
            return;
        }
        check_untrusted(&project.store(), path, "another user").await;
        chown(project.path(path), Some(0), None).unwrap();
    }
    // Root administers the server of the project's owner, who must be able to read all files.
    let project = Project::new();
    fs::create_dir_all(project.path(LOCAL)).unwrap();
    for path in [&project.root, &project.path(LOCAL)] {
        chown(path, Some(4_242), None).unwrap();
    }
    let store = project.store();
    add_user(&store, "bob").await.unwrap();
    store.append_events(vec![test_event(1)]).await.unwrap();
    for file in files(&project.path(LOCAL)) {
        let is_of_owner = fs::metadata(&file).unwrap().uid() == 4_242;
        assert!(is_of_owner || file.ends_with(".gitignore"), "{file:?}");
    }
    assert_eq!(count_users(&store).await, 1);
}
