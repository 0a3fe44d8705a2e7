//! Items on the disk: what git, editors and attackers make of their folders, and their numbers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use reqlore_contract::act;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentMeta, Kind};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{
    BacklinkQuery, Change, Changes, Commit, DocumentRepository, Filter, ReadSet, Refresh, Revision,
    Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use tempfile::TempDir;

use super::config;
use crate::FsStore;

const REQ: Kind = Kind::Item(ItemKind::Requirement);
const TEXT: &str = "---\ntitle: T\nuser_story: US-001\n---\n";
const PROJECT: fn() -> ProjectKey = ProjectKey::default;

/// A project, and the folder outside of it.
struct Project {
    outside: TempDir,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("repo");
        fs::create_dir(&root).unwrap();
        Self { outside, root }
    }

    fn store(&self) -> FsStore {
        FsStore::new(&config(&self.root))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(".reqlore/backlog").join(path)
    }

    fn write(&self, path: &str, body: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    }
}

fn requirement(name: &str) -> DocumentId {
    DocumentId { kind: REQ, name: name.to_owned() }
}

async fn heads(store: &FsStore, kind: Kind) -> Vec<Arc<DocumentMeta>> {
    store.find(&PROJECT(), &Filter::all(kind)).await.unwrap().heads
}

async fn names(store: &FsStore, kind: Kind) -> Vec<String> {
    heads(store, kind).await.iter().map(|head| head.id.name.clone()).collect()
}

async fn put(store: &FsStore, id: &DocumentId, body: &'static str) -> StoreResult<()> {
    let change = Change::put(id.clone(), body);
    let reads = ReadSet::of(vec![id.clone()]);
    let commit = Commit { reads, decide: Box::new(move |_| Ok(vec![change.clone()])), act: act() };
    store.commit(&PROJECT(), commit).await.map(drop)
}

/// Makes a requirement with the next free number.
async fn create(store: &FsStore, mark: &'static str) -> String {
    let decide = move |snapshot: &Snapshot| {
        let reference = Reference { kind: ItemKind::Requirement, number: snapshot.numbers[0] };
        Ok(vec![Change::put(reference.document(mark), TEXT)])
    };
    let before = names(store, REQ).await;
    let reads = ReadSet { numbers: vec![ItemKind::Requirement], ..ReadSet::default() };
    let commit = Commit { reads, decide: Box::new(decide), act: act() };
    store.commit(&PROJECT(), commit).await.unwrap();
    let new = names(store, REQ).await.into_iter().filter(|name| !before.contains(name));
    new.collect::<Vec<_>>().join(" ")
}

/// The next free number, of which nothing is made.
async fn free(store: &FsStore) -> u32 {
    let (tell, told) = std::sync::mpsc::channel();
    let decide = move |snapshot: &Snapshot| {
        tell.send(snapshot.numbers[0]).unwrap();
        Ok(Vec::new())
    };
    let reads = ReadSet { numbers: vec![ItemKind::Requirement], ..ReadSet::default() };
    let commit = Commit { reads, decide: Box::new(decide), act: act() };
    store.commit(&PROJECT(), commit).await.unwrap();
    told.recv().unwrap()
}

/// What a pull does: folders appear, many files come, go and are renamed.
#[tokio::test]
async fn what_git_brings_shows_at_the_next_call() {
    let project = Project::new();
    let store = project.store();
    assert_eq!(names(&store, REQ).await, [""; 0]);
    fs::create_dir_all(project.root.join(".reqlore/local")).unwrap();
    assert_eq!(names(&store, REQ).await, [""; 0]);
    project.write("epics/EP-001.md", TEXT);
    assert_eq!(names(&store, REQ).await, [""; 0]);
    project.write("requirements/REQ-001.md", TEXT);
    assert_eq!(names(&store, REQ).await, ["REQ-001"]);
    assert_eq!(names(&store, Kind::Item(ItemKind::Epic)).await, ["EP-001"]);
    let since =
        async |since| match store.changes(&PROJECT(), REQ, since, Refresh::Incremental).await {
            Ok(Changes::Since { revision, ids }) => (revision, ids.len()),
            Ok(Changes::Reset { revision }) => (revision, usize::MAX),
            Err(error) => panic!("{error}"),
        };
    let (revision, _) = since(Revision(0)).await;
    (0..1_500).for_each(|at| project.write(&format!("requirements/REQ-{at:04}-aaaaaa.md"), TEXT));
    let (revision, count) = since(revision).await;
    assert_eq!(count, 1_500);
    for at in 0..1_200 {
        let path = |end| project.path(&format!("requirements/REQ-{at:04}-{end}.md"));
        fs::rename(path("aaaaaa"), path("bbbbbb")).unwrap();
    }
    fs::remove_file(project.path("requirements/REQ-001.md")).unwrap();
    let (revision, count) = since(revision).await;
    assert_eq!(count, 2_401);
    fs::rename(project.path("requirements"), project.path("aside")).unwrap();
    assert_eq!(since(revision).await.1, 1_500);
    assert_eq!(names(&store, REQ).await, [""; 0]);
}

#[tokio::test]
async fn every_visible_file_of_a_folder_is_listed_and_told_what_is_wrong_with_it() {
    let project = Project::new();
    project.write("requirements/README.md", "# How we write requirements\n");
    project.write("requirements/.hidden.md", TEXT);
    project.write("requirements/notes.txt", TEXT);
    project.write("requirements/deeper/REQ-009.md", TEXT);
    project.write("requirements/REQ-001.md", TEXT);
    project.write("requirements/REQ-002.md", b"---\ntitle: \xff\n---\n");
    project.write("requirements/REQ-003.md", vec![b'x'; 10 << 20]);
    project.write("REQ-004.md", TEXT);
    project.write("other/REQ-005.md", TEXT);
    let store = project.store();
    let found = heads(&store, REQ).await;
    let told = |head: &Arc<DocumentMeta>| {
        let fault = head.fault.as_ref().map_or("", |fault| fault.message.as_str());
        (head.id.name.clone(), fault.to_owned())
    };
    let told: Vec<(String, String)> = found.iter().map(told).collect();
    let expected = ["README", "REQ-001", "REQ-002", "REQ-003"];
    assert_eq!(
        told.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    for ((name, fault), part) in told.iter().zip(["no reference", "", "not UTF-8", "8 MiB"]) {
        assert!(fault.contains(part) && part.is_empty() == fault.is_empty(), "{name}: {fault}");
    }
    assert!(found.iter().all(|head| head.item.is_some()));
    for name in ["deeper/REQ-009", ".hidden", "", "..", "../epics/x", "x\0", &"x".repeat(300)] {
        let id = requirement(name);
        let found = store.get(&PROJECT(), std::slice::from_ref(&id)).await;
        assert_eq!(found.unwrap(), [None], "{name:?}");
        assert!(put(&store, &id, "x").await.is_err(), "{name:?}");
    }
}

// Catalogue 16, 17, 130
#[tokio::test]
async fn links_and_pipes_among_items_are_listed_with_a_fault_and_never_followed() {
    let project = Project::new();
    let outside = project.outside.path();
    fs::write(outside.join("secret.md"), "secret").unwrap();
    project.write("requirements/REQ-001.md", TEXT);
    symlink(outside.join("secret.md"), project.path("requirements/REQ-002.md")).unwrap();
    symlink("REQ-001.md", project.path("requirements/REQ-003.md")).unwrap();
    let pipe = project.path("requirements/REQ-004.md");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    project.write("requirements/two\nlines.md", TEXT);
    let store = project.store();
    let found = heads(&store, REQ).await;
    let faulty = found.iter().filter(|head| head.fault.is_some()).map(|head| &*head.id.name);
    let expected = ["REQ-002", "REQ-003", "REQ-004", "two\nlines"];
    assert_eq!(faulty.collect::<Vec<_>>(), expected);
    for name in &expected[..3] {
        let id = requirement(name);
        let read = store.get(&PROJECT(), std::slice::from_ref(&id)).await;
        assert!(matches!(read, Err(StoreError::Refused { .. })), "{name}: {read:?}");
        let written = put(&store, &id, "x").await;
        assert!(matches!(written, Err(StoreError::Refused { .. })), "{name}: {written:?}");
    }
    let told = store.read().await.err().unwrap().to_string();
    assert!(told.contains("4 entries can't be copied"), "{told}");
    for part in ["REQ-002.md: is a symbolic link", "REQ-004.md: is no regular file", "two\\nlines"]
    {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(fs::read_to_string(outside.join("secret.md")).unwrap(), "secret");
}

// Catalogue 17
#[tokio::test]
async fn folders_that_are_links_lead_nowhere_outside() {
    let outside_only = |project: &Project| {
        let elsewhere = project.outside.path().join("elsewhere");
        fs::create_dir_all(elsewhere.join("requirements")).unwrap();
        fs::write(elsewhere.join("requirements/REQ-001.md"), TEXT).unwrap();
        elsewhere
    };
    let untouched = |folder: &Path| {
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
        assert_eq!(fs::read_dir(folder.join("requirements")).unwrap().count(), 1);
    };
    let id = requirement("REQ-001");
    // One kind's folder: there are no such items, and none can be made.
    for inside in [false, true] {
        let project = Project::new();
        let elsewhere = outside_only(&project);
        project.write("epics/EP-001.md", TEXT);
        let target = if inside { "epics".into() } else { elsewhere.join("requirements") };
        symlink(target, project.path("requirements")).unwrap();
        let store = project.store();
        assert_eq!(names(&store, REQ).await, [""; 0]);
        assert_eq!(store.get(&PROJECT(), std::slice::from_ref(&id)).await.unwrap(), [None]);
        assert!(matches!(put(&store, &id, "x").await, Err(StoreError::Refused { .. })));
        assert_eq!(names(&store, Kind::Item(ItemKind::Epic)).await, ["EP-001"]);
        untouched(&elsewhere);
    }
    // All of the backlog: it is refused, and the rest of the project works.
    for link in [".reqlore/backlog", ".reqlore"] {
        let project = Project::new();
        let elsewhere = outside_only(&project);
        let target = project.root.join(link);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        symlink(&elsewhere, target).unwrap();
        if link == ".reqlore" {
            fs::rename(elsewhere.join("requirements"), project.outside.path().join("r")).unwrap();
            fs::create_dir_all(elsewhere.join("backlog")).unwrap();
            fs::rename(project.outside.path().join("r"), elsewhere.join("backlog/requirements"))
                .unwrap();
        }
        let store = project.store();
        let found = store.find(&PROJECT(), &Filter::all(REQ)).await;
        assert!(matches!(found, Err(StoreError::Refused { .. })), "{found:?}");
        let found = store.get(&PROJECT(), std::slice::from_ref(&id)).await;
        assert!(matches!(found, Err(StoreError::Refused { .. })), "{found:?}");
        assert!(put(&store, &id, "x").await.is_err());
        untouched(&if link == ".reqlore" { elsewhere.join("backlog") } else { elsewhere });
        put(&store, &DocumentId::entity("a"), TEXT).await.unwrap();
        assert_eq!(names(&store, Kind::Entity).await, ["a"]);
    }
}

#[tokio::test]
async fn numbers_of_other_processes_and_of_people_are_seen() {
    let project = Project::new();
    let (ours, theirs) = (project.store(), project.store());
    assert_eq!(create(&ours, "aaaaaa").await, "REQ-001-aaaaaa");
    assert_eq!(create(&theirs, "bbbbbb").await, "REQ-002-bbbbbb");
    assert_eq!(create(&ours, "cccccc").await, "REQ-003-cccccc");
    project.write("requirements/REQ-500.md", TEXT);
    project.write("deleted/REQ-600.md", TEXT);
    assert_eq!(create(&theirs, "dddddd").await, "REQ-601-dddddd");
}

#[tokio::test]
async fn the_number_of_a_newest_file_that_a_person_removed_is_kept_in_a_file_of_ours() {
    let project = Project::new();
    let marks = project.root.join(".reqlore/local/marks");
    for _ in 0..7 {
        create(&project.store(), "aaaaaa").await;
    }
    let text = fs::read_to_string(&marks).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("reqlore marks "), "{first}");
    assert_eq!(rest, "REQ 7\n");
    fs::remove_dir_all(project.path("")).unwrap();
    assert_eq!(create(&project.store(), "aaaaaa").await, "REQ-008-aaaaaa");
    // What it says is heard line by line, and no more than that.
    for (text, next) in [
        ("REQ 20\nEP 3\n", "REQ-021-aaaaaa"),
        ("REQ\nREQ x\nXX 5\nREQ 99999999999\nREQ -1\nREQ 1000000001\n\u{0}\n", "REQ-022-aaaaaa"),
        ("", "REQ-023-aaaaaa"),
    ] {
        let kept = fs::read_to_string(&marks).unwrap();
        let first = kept.lines().next().unwrap();
        fs::write(&marks, format!("{first}\n{text}")).unwrap();
        assert_eq!(create(&project.store(), "aaaaaa").await, next, "{text:?}");
    }
    let secret = project.outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    for name in ["marks", ".marks.tmp"] {
        fs::remove_file(&marks).unwrap();
        symlink("../../../secret", project.root.join(".reqlore/local").join(name)).unwrap();
        create(&project.store(), "aaaaaa").await;
        assert!(!marks.is_symlink());
    }
    fs::remove_file(&marks).unwrap();
    fs::hard_link(&secret, &marks).unwrap();
    create(&project.store(), "aaaaaa").await;
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    fs::remove_file(&marks).unwrap();
    fs::create_dir(&marks).unwrap();
    assert_eq!(create(&project.store(), "aaaaaa").await, "REQ-027-aaaaaa");
}

#[tokio::test]
async fn what_another_process_left_after_our_last_write_goes_with_the_next_one() {
    let project = Project::new();
    let store = project.store();
    create(&store, "aaaaaa").await;
    let left = "requirements/.reqlore-0123456789abcdef.tmp";
    project.write(left, "half");
    // Both writes may have come within one tick of the clock.
    let folder = fs::File::open(project.path("requirements")).unwrap();
    folder.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    create(&store, "bbbbbb").await;
    assert!(!project.path(left).try_exists().unwrap());
}

/// The last number of all counts only while a file has it: it would leave none for anybody.
#[tokio::test]
async fn a_typo_in_a_number_ends_no_kind_once_it_is_mended() {
    let project = Project::new();
    let store = project.store();
    assert_eq!(create(&store, "aaaaaa").await, "REQ-001-aaaaaa");
    let typo = "requirements/REQ-1000000000.md";
    project.write(typo, TEXT);
    assert_eq!(free(&store).await, 1_000_000_001);
    put(&store, &requirement("REQ-1000000000"), "---\ntitle: Ours\n---\n").await.unwrap();
    put(&store, &DocumentId { kind: Kind::Item(ItemKind::Epic), name: "EP-003".into() }, TEXT)
        .await
        .unwrap();
    assert_eq!(free(&store).await, 1_000_000_001);
    fs::remove_file(project.path(typo)).unwrap();
    assert_eq!(create(&store, "bbbbbb").await, "REQ-002-bbbbbb");
    let marks = fs::read_to_string(project.root.join(".reqlore/local/marks")).unwrap();
    assert!(marks.ends_with("\nEP 3\nREQ 2\n"), "{marks}");
    project.write("deleted/REQ-1000000000.md", TEXT);
    assert_eq!(free(&project.store()).await, 1_000_000_001);
    fs::remove_dir_all(project.path("deleted")).unwrap();
    assert_eq!(create(&project.store(), "cccccc").await, "REQ-003-cccccc");
    let marks = project.root.join(".reqlore/local/marks");
    let kept = fs::read_to_string(&marks).unwrap();
    fs::write(&marks, kept.replace("REQ 3", "REQ 1000000000")).unwrap();
    assert_eq!(create(&project.store(), "dddddd").await, "REQ-004-dddddd");
    assert!(fs::read_to_string(&marks).unwrap().ends_with("\nREQ 4\n"));
}

#[tokio::test]
async fn marks_of_a_clone_or_a_copy_and_what_no_commit_made_are_not_kept() {
    let (theirs, project) = (Project::new(), Project::new());
    theirs.write("requirements/REQ-900.md", TEXT);
    create(&theirs.store(), "aaaaaa").await;
    let marks = ".reqlore/local/marks";
    fs::create_dir_all(project.root.join(".reqlore/local")).unwrap();
    for text in [fs::read_to_string(theirs.root.join(marks)).unwrap(), "REQ 900\n".to_owned()] {
        fs::write(project.root.join(marks), text).unwrap();
        assert_eq!(free(&project.store()).await, 1);
    }
    project.write("requirements/REQ-500.md", TEXT);
    put(&project.store(), &requirement("REQ-001"), TEXT).await.unwrap();
    assert_eq!(free(&project.store()).await, 501);
    assert!(fs::read_to_string(project.root.join(marks)).unwrap().ends_with("\nREQ 1\n"));
}

#[tokio::test]
async fn heads_of_items_are_kept_for_the_next_process_and_of_another_format_are_not() {
    let project = Project::new();
    let cache = project.outside.path().join("cache");
    let config = crate::Config { cache: Some(cache.clone()), ..config(&project.root) };
    project.write("requirements/REQ-001.md", TEXT);
    let old = std::time::SystemTime::UNIX_EPOCH;
    let file = fs::File::open(project.path("requirements/REQ-001.md")).unwrap();
    file.set_modified(old).unwrap();
    let links = BacklinkQuery { kinds: Kind::ALL.to_vec(), targets: vec!["US-001".to_owned()] };
    for _ in 0..2 {
        let store = FsStore::new(&config);
        let found = store.backlinks(&PROJECT(), &links).await.unwrap();
        assert_eq!(found[0].len(), 1);
        let said = found[0][0].item.as_ref().unwrap();
        assert_eq!(said.created_at.seconds(), 0, "the file's own time");
        drop(store);
        let saved = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path().join("items.bin");
        assert!(saved.is_file());
        fs::write(saved, "reqlore heads 3, 0.1.0\nanything").unwrap();
    }
}
