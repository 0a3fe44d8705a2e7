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
use super::team::{
    AUDIT, IDENTITY, LOCAL, add, chain, check_refused, entry, project, put, put_as, segments,
};
use crate::FsStore;

/// What stands where a file of ours should.
type Fake = (fn(&Path, &Path), &'static str);

const FAKES: [Fake; 5] = [
    (|at, theirs| symlink(theirs, at).unwrap(), "symbolic link"),
    (|at, _| assert!(Command::new("mkfifo").arg(at).status().unwrap().success()), "no regular"),
    (|at, _| fs::create_dir(at).unwrap(), "no regular"),
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
    for (fake, told) in FAKES {
        let (_folder, root, store) = project();
        fs::create_dir_all(root.join(LOCAL)).unwrap();
        fake(&root.join(IDENTITY), &their_root.join(IDENTITY));
        check_refused(store.users().await, IDENTITY, told);
        check_refused(add(&store, "ada").await, IDENTITY, told);
        check_refused(store.fill().await.map(drop), IDENTITY, told);
        remove(&root.join(IDENTITY));
        add(&store, "ada").await.unwrap();
        assert_eq!(store.users().await.unwrap().len(), 1);
        // Also in the place of what was believed before.
        fs::rename(root.join(IDENTITY), root.join("kept")).unwrap();
        fake(&root.join(IDENTITY), &their_root.join(IDENTITY));
        check_refused(store.users().await, IDENTITY, told);
        check_refused(add(&store, "bob").await, IDENTITY, told);
        remove(&root.join(IDENTITY));
        fs::rename(root.join("kept"), root.join(IDENTITY)).unwrap();
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
    check_refused(copy.users().await, IDENTITY, "reqlore backup");
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
async fn an_audit_that_came_along_is_neither_read_nor_written_to() {
    let (_theirs, their_root, their_store) = project();
    their_store.record(vec![entry(1)]).await.unwrap();
    let [theirs] = &segments(&their_root)[..] else { panic!("one file") };
    let before = fs::read(theirs).unwrap();
    for (fake, told) in FAKES {
        let (_folder, root, store) = project();
        fs::create_dir_all(root.join(AUDIT)).unwrap();
        let at = root.join(AUDIT).join(theirs.file_name().unwrap());
        fake(&at, theirs);
        check_refused(store.rows(1, 9).await, AUDIT, told);
        check_refused(store.record(vec![entry(2)]).await, AUDIT, told);
        check_refused(put(&store, &ProjectKey::default(), "a").await, AUDIT, told);
        let section = [DocumentId::section("a")];
        assert!(store.get(&ProjectKey::default(), &section).await.unwrap()[0].is_none());
        // Who needs no audit is not held up.
        let again = FsStore::open(&config(&root)).unwrap();
        put_as(&again, &ProjectKey::default(), "b", act()).await.unwrap();
        remove(&at);
        put(&store, &ProjectKey::default(), "a").await.unwrap();
        assert_eq!(chain(&store).await.len(), 1);
    }
    assert_eq!(fs::read(theirs).unwrap(), before);
    let (_folder, root, store) = project();
    fs::create_dir_all(root.join(LOCAL)).unwrap();
    symlink(their_root.join(AUDIT), root.join(AUDIT)).unwrap();
    check_refused(store.record(vec![entry(2)]).await, AUDIT, "symbolic link");
    assert_eq!(fs::read(theirs).unwrap(), before);
}

/// A note of what is in doubt, too.
#[tokio::test]
async fn a_note_that_came_along_takes_nothing_back_and_holds_nobody_up() {
    let (_theirs, their_root, their_store) = project();
    put(&their_store, &ProjectKey::default(), "a").await.unwrap();
    let notes = ".reqlore/local/pending";
    let theirs = fs::read_dir(their_root.join(notes)).unwrap().next().unwrap().unwrap().path();
    let open = fs::read_to_string(&theirs).unwrap().replace("settled", "open");
    fs::write(&theirs, open).unwrap();
    for (fake, told) in FAKES {
        let (_folder, root, store) = project();
        fs::create_dir_all(root.join(notes)).unwrap();
        let at = root.join(notes).join(theirs.file_name().unwrap());
        fake(&at, &theirs);
        put_as(&store, &ProjectKey::default(), "b", act()).await.unwrap();
        // A copy of a folder has notes that are nobody's; the rows tell what they would.
        if !told.starts_with("came with") {
            check_refused(put(&store, &ProjectKey::default(), "c").await, notes, told);
            assert!(chain(&store).await.is_empty());
            remove(&at);
        }
        put(&store, &ProjectKey::default(), "c").await.unwrap();
        assert_eq!(chain(&store).await.len(), 1);
    }
}

#[tokio::test]
async fn what_others_could_read_or_write_is_not_believed() {
    let (_folder, root, store) = project();
    add(&store, "ada").await.unwrap();
    store.record(vec![entry(1)]).await.unwrap();
    let segment = segments(&root).remove(0);
    for mode in [0o644, 0o660, 0o602] {
        for path in [&root.join(IDENTITY), &segment] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        check_refused(store.users().await, IDENTITY, "chmod 600 .reqlore/local/identity.json");
        check_refused(store.rows(1, 9).await, AUDIT, "chmod 600");
    }
    for path in [&root.join(IDENTITY), &segment] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!((store.users().await.unwrap().len(), chain(&store).await.len()), (1, 1));
}

#[tokio::test]
async fn what_another_user_put_there_is_not_believed() {
    use std::os::unix::fs::chown;
    let (_folder, root, store) = project();
    add(&store, "ada").await.unwrap();
    for path in [IDENTITY, LOCAL] {
        if chown(root.join(path), Some(4_242), None).is_err() {
            return;
        }
        check_refused(store.users().await, path, "another user");
        check_refused(add(&store, "bob").await, path, "another user");
        chown(root.join(path), Some(0), None).unwrap();
    }
    // Root administers a server of the project's owner, and leaves nothing that it can't read.
    chown(&root, Some(4_242), None).unwrap();
    chown(root.join(LOCAL), Some(4_242), None).unwrap();
    add(&store, "bob").await.unwrap();
    store.record(vec![entry(1)]).await.unwrap();
    for path in [IDENTITY, AUDIT] {
        assert_eq!(fs::metadata(root.join(path)).unwrap().uid(), 4_242, "{path}");
    }
    assert_eq!(store.users().await.unwrap().len(), 2);
}
