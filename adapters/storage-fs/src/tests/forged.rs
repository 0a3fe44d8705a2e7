//! Users and the audit as a repository or another user of the machine could forge them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use reqlore_contract::act;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::DocumentRepository;
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::project::ProjectKey;

use super::config;
use super::team::{LOCAL, TEAM, add, chain, check_refused, entry, project, put, put_as};
use crate::FsStore;

const USERS: &str = ".reqlore/local/identity.json";
const AUDIT: &str = ".reqlore/local/audit";
const SEGMENT: &str = "00000000000000000001.jsonl";

/// A file in the place of one of ours.
type Fake = (fn(&Path, &Path), &'static str);

const FAKES: [Fake; 5] = [
    (|at, theirs| symlink(theirs, at).unwrap(), "symbolic link"),
    (|at, _| assert!(Command::new("mkfifo").arg(at).status().unwrap().success()), "not a regular"),
    (|at, _| fs::create_dir(at).unwrap(), "not a regular"),
    (|at, theirs| fs::hard_link(theirs, at).unwrap(), "hard link"),
    (|at, theirs| assert!(fs::copy(theirs, at).unwrap() > 0), "came with a clone or a copy"),
];

fn remove(at: &Path) {
    let _ = fs::remove_file(at).or_else(|_| fs::remove_dir_all(at));
}

// Threat model: A7
#[tokio::test]
async fn a_repository_brings_no_users_along() {
    let (_theirs, their_root, their_store) = project();
    add(&their_store, "mallory").await.unwrap();
    let theirs = their_root.join(TEAM);
    for (fake, told) in FAKES {
        let (_folder, root, store) = project();
        fs::create_dir_all(root.join(LOCAL)).unwrap();
        // A database without our record of it, and a file in the place of one of 0.1.0.
        for (name, told) in [(TEAM, "came with a clone or a copy"), (USERS, told)] {
            fake(&root.join(name), &theirs);
            let told = if told.starts_with("came") && name == USERS { "damaged" } else { told };
            let refused = [
                store.users().await.map(drop),
                add(&store, "ada").await,
                store.fill().await.map(drop),
            ];
            for outcome in refused {
                let told_of = outcome.unwrap_err().to_string();
                assert!(told_of.contains(name) && told_of.contains(told), "{told_of}");
            }
            remove(&root.join(name));
        }
        add(&store, "ada").await.unwrap();
        assert_eq!(store.users().await.unwrap().len(), 1);
        // Also in the place of a file that was trusted before. The log would be applied.
        for name in [TEAM.to_owned(), format!("{TEAM}-wal"), format!("{TEAM}-shm")] {
            fs::rename(root.join(&name), root.join("kept")).unwrap();
            fake(&root.join(&name), &theirs);
            check_refused(add(&store, "bob").await, &name, told);
            check_refused(FsStore::new(&config(&root)).users().await, &name, told);
            if name == TEAM {
                check_refused(store.users().await, &name, told);
            }
            remove(&root.join(&name));
            fs::rename(root.join("kept"), root.join(&name)).unwrap();
        }
        assert_eq!(store.users().await.unwrap().len(), 1);
    }
    assert_eq!(their_store.users().await.unwrap().len(), 1);
    // A folder that was moved is the same one; a copy of it is not.
    let moved = their_root.with_file_name("moved");
    fs::rename(&their_root, &moved).unwrap();
    assert_eq!(FsStore::new(&config(&moved)).users().await.unwrap().len(), 1);
    let copied = Command::new("cp").arg("-a").args([&moved, &their_root]).status().unwrap();
    assert!(copied.success());
    let copy = FsStore::new(&config(&their_root));
    check_refused(copy.users().await, LOCAL, "reqlore backup");
}

#[tokio::test]
async fn a_folder_of_ours_behind_a_link_holds_no_users_and_gets_none() {
    let (_theirs, their_root, their_store) = project();
    add(&their_store, "mallory").await.unwrap();
    let (_folder, root, store) = project();
    fs::create_dir(root.join(".reqlore")).unwrap();
    symlink(their_root.join(LOCAL), root.join(LOCAL)).unwrap();
    assert!(store.users().await.unwrap().is_empty());
    check_refused(add(&store, "ada").await, LOCAL, "symbolic link");
    assert_eq!(their_store.users().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_old_audit_that_came_along_is_neither_read_nor_written_to() {
    let theirs = tempfile::NamedTempFile::new().unwrap();
    fs::write(&theirs, "{\"format\":\"reqlore audit 1\",\"file\":\"0\",\"body\":null}\n").unwrap();
    for (fake, told) in FAKES {
        let (_folder, root, store) = project();
        fs::create_dir_all(root.join(AUDIT)).unwrap();
        let at = root.join(AUDIT).join(SEGMENT);
        fake(&at, theirs.path());
        check_refused(store.rows(1, 9).await, AUDIT, told);
        check_refused(store.record(vec![entry(2)]).await, AUDIT, told);
        check_refused(put(&store, &ProjectKey::default(), "a").await, AUDIT, told);
        let section = [DocumentId::section("a")];
        assert!(store.get(&ProjectKey::default(), &section).await.unwrap()[0].is_none());
        // A write without an audit row is not stopped.
        let again = FsStore::open(&config(&root)).unwrap();
        put_as(&again, &ProjectKey::default(), "b", act()).await.unwrap();
        remove(&at);
        put(&store, &ProjectKey::default(), "a").await.unwrap();
        assert_eq!(chain(&store).await.len(), 1);
    }
    let (_folder, root, store) = project();
    fs::create_dir_all(root.join(LOCAL)).unwrap();
    symlink(theirs.path().parent().unwrap(), root.join(AUDIT)).unwrap();
    check_refused(store.record(vec![entry(2)]).await, AUDIT, "symbolic link");
}

#[tokio::test]
async fn a_database_that_others_could_read_or_write_is_not_trusted() {
    let (_folder, root, store) = project();
    add(&store, "ada").await.unwrap();
    for mode in [0o644, 0o660, 0o602] {
        for name in [TEAM.to_owned(), format!("{TEAM}-wal")] {
            let set =
                |mode| fs::set_permissions(root.join(&name), fs::Permissions::from_mode(mode));
            set(mode).unwrap();
            let told = format!("chmod 600 {name}");
            check_refused(add(&store, "bob").await, &name, &told);
            check_refused(FsStore::new(&config(&root)).users().await, &name, &told);
            set(0o600).unwrap();
        }
    }
    assert_eq!(store.users().await.unwrap().len(), 1);
}

#[tokio::test]
async fn files_of_another_user_are_not_trusted() {
    use std::os::unix::fs::chown;
    let (_folder, root, store) = project();
    add(&store, "ada").await.unwrap();
    for path in [TEAM, LOCAL] {
        if chown(root.join(path), Some(4_242), None).is_err() {
            return;
        }
        let again = FsStore::new(&config(&root));
        check_refused(again.users().await, path, "another user");
        check_refused(add(&again, "bob").await, path, "another user");
        chown(root.join(path), Some(0), None).unwrap();
    }
    // Root administers a server of the project's owner, and leaves nothing that it can't read.
    let (_folder, root, store) = project();
    chown(&root, Some(4_242), None).unwrap();
    fs::create_dir_all(root.join(LOCAL)).unwrap();
    chown(root.join(LOCAL), Some(4_242), None).unwrap();
    add(&store, "bob").await.unwrap();
    store.record(vec![entry(1)]).await.unwrap();
    for entry in fs::read_dir(root.join(LOCAL)).unwrap().map(Result::unwrap) {
        let is_ours = entry.file_name() != ".gitignore";
        assert!(!is_ours || entry.metadata().unwrap().uid() == 4_242, "{entry:?}");
    }
    assert_eq!(store.users().await.unwrap().len(), 1);
}
