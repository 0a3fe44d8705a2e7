//! Items on disk: unusual files and links in their folders, and item numbers.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_contract::test_context;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, DocumentChange, DocumentFilter, DocumentRepository, ReadSet,
    Snapshot,
};

use super::crash::{has_journal, operation, run_and_die};
#[cfg(unix)]
use super::make_pipe;
use super::{PROJECT, Project, check_refused, config, get, item, names, put};
use crate::failpoint::FailPoint;
use crate::{Config, FsStore};

const REQ: DocumentKind = DocumentKind::Item(ItemKind::Requirement);
const TEXT: &str = "---\ntitle: T\nuser_story: US-001\n---\n";
const BACKLOG: &str = ".reqlore/backlog";
const MARKS: &str = ".reqlore/local/marks";

fn path(project: &Project, path: &str) -> PathBuf {
    project.path(BACKLOG).join(path)
}

fn write(project: &Project, path: &str, body: impl AsRef<[u8]>) {
    project.write(Path::new(BACKLOG).join(path), body);
}

fn requirement(name: &str) -> DocumentId {
    item(ItemKind::Requirement, name)
}

async fn all_metadata(store: &FsStore, kind: DocumentKind) -> Vec<Arc<DocumentMeta>> {
    store.find(&PROJECT(), &DocumentFilter::of_kind(kind)).await.unwrap().metadata
}

async fn listed(store: &FsStore, kind: DocumentKind) -> Vec<String> {
    all_metadata(store, kind).await.iter().map(|metadata| metadata.id.name.clone()).collect()
}

/// Commits with the next free number and returns it.
async fn with_number(
    store: &FsStore,
    changes: impl Fn(u32) -> Vec<DocumentChange> + Send + 'static,
) -> u32 {
    let (send, receive) = std::sync::mpsc::channel();
    let decide = move |snapshot: &Snapshot| {
        send.send(snapshot.next_numbers[0]).unwrap();
        Ok(changes(snapshot.next_numbers[0]))
    };
    let reads = ReadSet { sequences: vec![ItemKind::Requirement], ..ReadSet::default() };
    let commit =
        CommitRequest { read_set: reads, decide: Box::new(decide), context: test_context() };
    store.commit(&PROJECT(), commit).await.unwrap();
    receive.recv().unwrap()
}

/// Creates a requirement with the next free number.
pub(super) async fn create(store: &FsStore) -> u32 {
    let changes = |number| {
        let reference = Reference { kind: ItemKind::Requirement, number };
        vec![DocumentChange::put(reference.document_id("", "aaaaaa"), TEXT)]
    };
    with_number(store, changes).await
}

/// Returns the next free number without using it.
pub(super) async fn next_number(store: &FsStore) -> u32 {
    with_number(store, |_| Vec::new()).await
}

#[cfg(unix)]
#[tokio::test]
async fn item_listing_includes_visible_files_with_diagnostics() {
    let project = Project::new();
    let large = vec![b'x'; 10 << 20];
    for (path, body) in [
        ("requirements/README.md", &b"# How we write requirements\n"[..]),
        ("requirements/.hidden.md", TEXT.as_bytes()),
        ("requirements/notes.txt", TEXT.as_bytes()),
        ("requirements/deeper/REQ-009.md", TEXT.as_bytes()),
        ("requirements/REQ-001.md", TEXT.as_bytes()),
        ("requirements/REQ-002.md", b"---\ntitle: \xff\n---\n"),
        ("requirements/REQ-003.md", &large),
        ("REQ-004.md", TEXT.as_bytes()),
        ("other/REQ-005.md", TEXT.as_bytes()),
    ] {
        write(&project, path, body);
    }
    let store = project.store();
    let found = all_metadata(&store, REQ).await;
    let expected = [
        ("README", "no reference"),
        ("REQ-001", ""),
        ("REQ-002", "not UTF-8"),
        ("REQ-003", "8 MiB"),
        ("deeper/REQ-009", ""),
    ];
    assert_eq!(found.len(), expected.len());
    for (metadata, (name, part)) in found.iter().zip(expected) {
        let message =
            metadata.diagnostic.as_ref().map_or("", |diagnostic| diagnostic.message.as_str());
        assert_eq!((&*metadata.id.name, message.is_empty()), (name, part.is_empty()), "{message}");
        assert!(message.contains(part) && metadata.item.is_some(), "{name}: {message}");
    }
    for name in [".hidden", ".git/REQ-1", "", "..", "../epics/x", "x\0", &"x".repeat(300)] {
        let id = requirement(name);
        assert_eq!(get(&store, &id).await.unwrap(), None, "{name:?}");
        assert!(put(&store, &id, "x").await.is_err(), "{name:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn item_links_and_pipes_are_listed_but_never_followed() {
    let project = Project::new();
    let secret = project.outside.path().join("secret.md");
    fs::write(&secret, "secret").unwrap();
    write(&project, "requirements/REQ-001.md", TEXT);
    symlink(&secret, path(&project, "requirements/REQ-002.md")).unwrap();
    symlink("REQ-001.md", path(&project, "requirements/REQ-003.md")).unwrap();
    make_pipe(path(&project, "requirements/REQ-004.md"));
    write(&project, "requirements/two\nlines.md", TEXT);
    let store = project.store();
    let found = all_metadata(&store, REQ).await;
    let invalid = found
        .iter()
        .filter(|metadata| metadata.diagnostic.is_some())
        .map(|metadata| &*metadata.id.name);
    let expected = ["REQ-002", "REQ-003", "REQ-004", "two\nlines"];
    assert_eq!(invalid.collect::<Vec<_>>(), expected);
    for name in &expected[..3] {
        check_refused(get(&store, &requirement(name)).await, name, "");
        check_refused(put(&store, &requirement(name), "x").await, name, "");
    }
    let refused = store.export().await.err().unwrap().to_string();
    for part in [
        "4 entries can't be copied",
        "REQ-002.md: is a symbolic link",
        "REQ-004.md: is not a regular file",
        "two\\nlines",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
}

#[cfg(unix)]
#[tokio::test]
async fn kind_folder_link_holds_no_items() {
    for is_inside in [false, true] {
        let project = Project::new();
        let elsewhere = project.outside.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("REQ-001.md"), TEXT).unwrap();
        write(&project, "epics/EP-001.md", TEXT);
        let target = if is_inside { Path::new("epics") } else { &elsewhere };
        symlink(target, path(&project, "requirements")).unwrap();
        let store = project.store();
        assert_eq!(listed(&store, REQ).await, [""; 0]);
        assert_eq!(get(&store, &requirement("REQ-001")).await.unwrap(), None);
        check_refused(put(&store, &requirement("REQ-002"), "x").await, "requirements", "");
        assert_eq!(listed(&store, DocumentKind::Item(ItemKind::Epic)).await, ["EP-001"]);
        assert_eq!(names(&elsewhere), ["REQ-001.md"]);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn backlog_link_outside_root_affects_no_other_area() {
    for (link, below) in [(BACKLOG, ""), (".reqlore", "backlog")] {
        let project = Project::new();
        let elsewhere = project.outside.path().join("elsewhere");
        let requirements = elsewhere.join(below).join("requirements");
        fs::create_dir_all(&requirements).unwrap();
        fs::write(requirements.join("REQ-001.md"), TEXT).unwrap();
        fs::create_dir_all(project.path(link).parent().unwrap()).unwrap();
        symlink(&elsewhere, project.path(link)).unwrap();
        let (store, id) = (project.store(), requirement("REQ-001"));
        let found = store.find(&PROJECT(), &DocumentFilter::of_kind(REQ)).await;
        check_refused(found, link, "");
        check_refused(get(&store, &id).await, link, "");
        assert!(put(&store, &id, "x").await.is_err());
        assert_eq!(names(requirements), ["REQ-001.md"]);
        assert_eq!(names(elsewhere.join(below)), ["requirements"]);
        put(&store, &DocumentId::entity("a"), TEXT).await.unwrap();
        assert_eq!(listed(&store, DocumentKind::Entity).await, ["a"]);
    }
}

#[cfg(unix)]
async fn unread(store: &FsStore, kind: DocumentKind) -> Vec<(String, String)> {
    let page = store.find(&PROJECT(), &DocumentFilter::of_kind(kind)).await.unwrap();
    let files = page.unread.into_iter();
    files.map(|file| (file.path.replace(".reqlore/backlog/", ""), file.reason)).collect()
}

#[tokio::test]
async fn item_in_subfolder_is_read_and_updated_in_place() {
    let project = Project::new();
    let store = project.store();
    assert_eq!(listed(&store, REQ).await, [""; 0]);
    // The store watches: a new folder, a file in it, a change, a move.
    write(&project, "requirements/auth/web/REQ-002.md", TEXT);
    assert_eq!(listed(&store, REQ).await, ["auth/web/REQ-002"]);
    write(&project, "requirements/auth/web/REQ-003.md", TEXT);
    assert_eq!(listed(&store, REQ).await, ["auth/web/REQ-002", "auth/web/REQ-003"]);
    let id = requirement("auth/web/REQ-002");
    write(&project, "requirements/auth/web/REQ-002.md", "---\ntitle: By hand\n---\n");
    let found = store.lookup(&PROJECT(), REQ, &["REQ-002".to_owned()]).await.unwrap();
    assert_eq!(found[0][0].item.as_ref().unwrap().title, "By hand");
    put(&store, &id, "---\ntitle: By a tool\n---\n").await.unwrap();
    let text = project.read(".reqlore/backlog/requirements/auth/web/REQ-002.md").unwrap();
    assert_eq!(text, "---\ntitle: By a tool\n---\n");
    let (from, to) = (path(&project, "requirements/auth/web"), path(&project, "requirements/pay"));
    fs::rename(from, to).unwrap();
    assert_eq!(listed(&store, REQ).await, ["pay/REQ-002", "pay/REQ-003"]);
    assert_eq!(listed(&project.store(), REQ).await, ["pay/REQ-002", "pay/REQ-003"]);
}

#[tokio::test]
async fn deleted_item_of_subfolder_leaves_its_tombstone() {
    let project = Project::new();
    write(&project, "requirements/auth/REQ-002.md", TEXT);
    let store = project.store();
    let id = requirement("auth/REQ-002");
    let tombstone = DocumentId { kind: DocumentKind::Deleted, name: id.name.clone() };
    let changes = vec![
        DocumentChange::put(tombstone.clone(), "---\ntitle: T\n---\n"),
        DocumentChange::Delete { id: id.clone() },
    ];
    let reads = ReadSet::of_documents(vec![id, tombstone]);
    let decide = Box::new(move |_: &Snapshot| Ok(changes.clone()));
    let commit = CommitRequest { read_set: reads, decide, context: test_context() };
    store.commit(&PROJECT(), commit).await.unwrap();
    assert_eq!(names(path(&project, "deleted/auth")), ["REQ-002.md"]);
    assert_eq!(listed(&store, REQ).await, [""; 0]);
    assert_eq!(next_number(&store).await, 3);
}

#[tokio::test]
async fn next_number_respects_items_in_subfolders() {
    let project = Project::new();
    let store = project.store();
    assert_eq!(create(&store).await, 1);
    write(&project, "requirements/auth/REQ-041.md", TEXT);
    assert_eq!(create(&store).await, 42);
    write(&project, "requirements/a/b/c/REQ-500-words-by-hand.md", TEXT);
    assert_eq!(create(&project.store()).await, 501);
}

#[cfg(unix)]
#[tokio::test]
async fn unread_files_of_the_backlog_are_reported() {
    let project = Project::new();
    let store = project.store();
    write(&project, "requirements/REQ-001.md", TEXT);
    assert_eq!(unread(&store, REQ).await, []);
    for path in [
        "requirements/REQ-002.txt",
        "requirements/auth/Notes.MD",
        "requirements/auth/flow.png",
        "requirements/REQ-003.md~",
        "requirements/.REQ-004.txt",
        "REQ-005.md",
        "requirement/REQ-006.md",
        "templates/story.md",
        "requirements/REQ-008.md/REQ-009.md",
    ] {
        write(&project, path, TEXT);
    }
    symlink(project.outside.path(), path(&project, "requirements/linked")).unwrap();
    symlink("nowhere", path(&project, "stories")).unwrap();
    let reported = unread(&store, REQ).await;
    let expected = [
        ("REQ-005.md", "is not read; move it to requirements/"),
        ("requirement/", "its items are not read; move them to requirements/"),
        ("requirements/REQ-002.txt", "is not read; rename it to REQ-002.md"),
        ("requirements/REQ-008.md", "is a folder; put a file there or rename it"),
        ("requirements/auth/Notes.MD", "is not read; rename it to Notes.md"),
        ("requirements/linked", "is a symbolic link and not followed; put the items there"),
    ];
    assert_eq!(reported.iter().map(|(a, b)| (&**a, &**b)).collect::<Vec<_>>(), expected);
    assert_eq!(unread(&project.store(), REQ).await, reported);
    let stories = unread(&store, DocumentKind::Item(ItemKind::UserStory)).await;
    assert_eq!(stories[0].0, "stories/");
    let page = store.find(&PROJECT(), &DocumentFilter::of_kind(REQ)).await.unwrap();
    assert_eq!(page.unread[2].reference, Reference::parse("REQ-2"));
    // The report follows the files, also where no document changed.
    let (from, to) = ("requirements/REQ-002.txt", "requirements/REQ-002.md");
    fs::rename(path(&project, from), path(&project, to)).unwrap();
    fs::remove_file(path(&project, "REQ-005.md")).unwrap();
    fs::remove_file(path(&project, "requirements/linked")).unwrap();
    assert_eq!(unread(&store, REQ).await.len(), 3);
    fs::create_dir_all(project.path(".ixchel/decisions/a.md")).unwrap();
    let entities = unread(&store, DocumentKind::Entity).await;
    assert_eq!(entities[0].0, ".ixchel/decisions/a.md");
}

#[cfg(unix)]
#[tokio::test]
async fn unreadable_subfolder_is_reported() {
    // Root reads every folder.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let project = Project::new();
    write(&project, "requirements/auth/REQ-002.md", TEXT);
    let folder = path(&project, "requirements/auth");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    let reported = unread(&project.store(), REQ).await;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(reported[0].1.contains("can't be opened"), "{reported:?}");
}

#[tokio::test]
async fn next_number_respects_other_processes_and_users() {
    let project = Project::new();
    let (one, other) = (project.store(), project.store());
    assert_eq!(create(&one).await, 1);
    assert_eq!(create(&other).await, 2);
    assert_eq!(create(&one).await, 3);
    write(&project, "requirements/REQ-500.md", TEXT);
    write(&project, "deleted/REQ-600.md", TEXT);
    assert_eq!(create(&other).await, 601);
}

#[tokio::test]
async fn removed_newest_item_does_not_free_its_number() {
    let project = Project::new();
    for _ in 0..7 {
        create(&project.store()).await;
    }
    let text = project.read(MARKS).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("reqlore marks "), "{first}");
    assert_eq!(rest, "REQ 7\n");
    fs::remove_dir_all(path(&project, "")).unwrap();
    assert_eq!(create(&project.store()).await, 8);
    // Damaged lines are ignored; the other ones are valid.
    for (text, next) in [
        ("REQ 20\nEP 3\n", 21),
        ("REQ\nREQ x\nXX 5\nREQ 99999999999\nREQ -1\nREQ 1000000001\n\u{0}\n", 22),
        ("", 23),
    ] {
        project.write(MARKS, format!("{first}\n{text}"));
        assert_eq!(create(&project.store()).await, next, "{text:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn high_water_marks_are_never_written_through_link() {
    let project = Project::new();
    let secret = project.outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    create(&project.store()).await;
    let marks = project.path(MARKS);
    for name in ["marks", ".marks.tmp"] {
        fs::remove_file(&marks).unwrap();
        symlink("../../../secret", marks.with_file_name(name)).unwrap();
        create(&project.store()).await;
        assert!(!marks.is_symlink());
    }
    fs::remove_file(&marks).unwrap();
    fs::hard_link(&secret, &marks).unwrap();
    create(&project.store()).await;
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    fs::remove_file(&marks).unwrap();
    fs::create_dir(&marks).unwrap();
    assert_eq!(create(&project.store()).await, 5);
}

#[cfg(unix)]
#[tokio::test]
async fn stale_temp_file_of_other_process_is_removed_later() {
    let project = Project::new();
    let store = project.store();
    create(&store).await;
    let temp_file = "requirements/.reqlore-0123456789abcdef.tmp";
    write(&project, temp_file, "partial");
    // Both writes may have the same modification time.
    let folder = fs::File::open(path(&project, "requirements")).unwrap();
    folder.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    create(&store).await;
    assert!(!path(&project, temp_file).try_exists().unwrap());
}

/// The limit is a valid mark only while a file has it: otherwise no other item could get a number.
#[tokio::test]
async fn mistyped_last_number_is_released_when_corrected() {
    let project = Project::new();
    let store = project.store();
    assert_eq!(create(&store).await, 1);
    let typo = "requirements/REQ-1000000000.md";
    write(&project, typo, TEXT);
    assert_eq!(next_number(&store).await, 1_000_000_001);
    put(&store, &requirement("REQ-1000000000"), "---\ntitle: Ours\n---\n").await.unwrap();
    put(&store, &item(ItemKind::Epic, "EP-003"), TEXT).await.unwrap();
    assert_eq!(next_number(&store).await, 1_000_000_001);
    fs::remove_file(path(&project, typo)).unwrap();
    assert_eq!(create(&store).await, 2);
    assert!(project.read(MARKS).unwrap().ends_with("\nEP 3\nREQ 2\n"));
    write(&project, "deleted/REQ-1000000000.md", TEXT);
    assert_eq!(next_number(&project.store()).await, 1_000_000_001);
    fs::remove_dir_all(path(&project, "deleted")).unwrap();
    assert_eq!(create(&project.store()).await, 3);
    let kept = project.read(MARKS).unwrap();
    project.write(MARKS, kept.replace("REQ 3", "REQ 1000000000"));
    assert_eq!(create(&project.store()).await, 4);
    assert!(project.read(MARKS).unwrap().ends_with("\nREQ 4\n"));
}

#[tokio::test]
async fn high_water_marks_of_clone_are_ignored() {
    let (original, project) = (Project::new(), Project::new());
    write(&original, "requirements/REQ-900.md", TEXT);
    create(&original.store()).await;
    for text in [original.read(MARKS).unwrap(), "REQ 900\n".to_owned()] {
        project.write(MARKS, text);
        assert_eq!(next_number(&project.store()).await, 1);
    }
    write(&project, "requirements/REQ-500.md", TEXT);
    put(&project.store(), &requirement("REQ-001"), TEXT).await.unwrap();
    assert_eq!(next_number(&project.store()).await, 501);
    assert!(project.read(MARKS).unwrap().ends_with("\nREQ 1\n"));
}

const METADATA_CACHE: &str = concat!("metadata-", env!("CARGO_PKG_VERSION"), ".bin");

#[tokio::test]
async fn metadata_cache_is_reused_unless_format_differs() {
    let project = Project::new();
    let cache = project.outside.path().join("cache");
    let config = Config { cache: Some(cache.clone()), ..config(&project.root) };
    write(&project, "requirements/REQ-001.md", TEXT);
    let file = fs::File::open(path(&project, "requirements/REQ-001.md")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let links =
        BacklinkQuery { kinds: DocumentKind::ALL.to_vec(), targets: vec!["US-001".to_owned()] };
    for _ in 0..2 {
        let store = FsStore::new(&config);
        let found = store.backlinks(&PROJECT(), &links).await.unwrap();
        assert_eq!(found[0].len(), 1);
        let item = found[0][0].item.as_ref().unwrap();
        assert_eq!(item.created_at.seconds(), 0, "the file's own time");
        drop(store);
        let folder = fs::read_dir(&cache).unwrap().next().unwrap().unwrap();
        let saved = folder.path().join(METADATA_CACHE);
        assert!(saved.is_file());
        fs::write(saved, "reqlore metadata 5.3, 0.1.0\nanything").unwrap();
    }
}

#[tokio::test]
async fn items_recovered_from_a_journal_raise_the_sequence() {
    let operation = operation("create three, replace one");
    let project = operation.prepare();
    assert!(!run_and_die(&operation, &project, FailPoint::Exchanged, 1));
    assert!(has_journal(&project));
    assert_eq!(next_number(&project.store()).await, 4);
    assert_eq!(operation.on_disk(&project), operation.after());
}

/// Calls `check` with each damage of a file, and removes the file at last.
async fn with_damage(file: &Path, check: impl AsyncFn(&str)) {
    let bytes = fs::read(file).unwrap();
    for at in 0..bytes.len() {
        fs::write(file, &bytes[..at]).unwrap();
        check(&format!("{at} bytes")).await;
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(file, flipped).unwrap();
        check(&format!("byte {at} flipped")).await;
    }
    fs::write(file, vec![0; bytes.len()]).unwrap();
    check("zeroed").await;
    fs::remove_file(file).unwrap();
    check("removed").await;
}

#[tokio::test]
async fn damaged_marks_never_reuse_a_number() {
    let project = Project::new();
    for _ in 0..12 {
        create(&project.store()).await;
    }
    let newest = Reference { kind: ItemKind::Requirement, number: 12 }.document_id("", "aaaaaa");
    // The tombstone of a deleted item keeps its number.
    fs::remove_file(project.file(&newest)).unwrap();
    write(&project, "deleted/REQ-012-aaaaaa.md", TEXT);
    with_damage(&project.path(MARKS), async |damage| {
        let next = next_number(&project.store()).await;
        assert!((13..=100).contains(&next), "{damage}: {next}");
    })
    .await;
}

#[tokio::test]
async fn damaged_metadata_cache_is_rebuilt() {
    let project = Project::new();
    let cache = project.outside.path().join("cache");
    let config = Config { cache: Some(cache.clone()), ..config(&project.root) };
    write(&project, "requirements/REQ-001.md", TEXT);
    // Older than the grain of the clock, so that its stamp is reliable.
    let file = fs::File::open(path(&project, "requirements/REQ-001.md")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let expected = all_metadata(&FsStore::new(&config), REQ).await;
    assert_eq!(expected.len(), 1);
    let folder = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    with_damage(&folder.join(METADATA_CACHE), async |damage| {
        assert_eq!(all_metadata(&FsStore::new(&config), REQ).await, expected, "{damage}");
    })
    .await;
}
