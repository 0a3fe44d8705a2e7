//! Names, links, odd files and odd neighbours (reliability, catalogue 12, 15 to 17, 125 to 130).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use reqlore_contract::act;
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::documents::{
    Change, Commit, DocumentRepository, Filter, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use tempfile::TempDir;

use super::config;
use crate::{Config, FsStore};

const DIRECTORY: &str = "docs/development/requirements";

/// A project with a requirements directory, and the folder outside of it.
struct Project {
    outside: TempDir,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("repo");
        fs::create_dir_all(root.join(DIRECTORY)).unwrap();
        fs::write(root.join(DIRECTORY).join("AGENTS.md"), "# Agents\n").unwrap();
        Self { outside, root }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.join(DIRECTORY).join(name)
    }

    fn store(&self) -> FsStore {
        FsStore::new(&config(&self.root))
    }

    /// The names in the requirements directory, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(DIRECTORY)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

async fn get(store: &FsStore, id: &DocumentId) -> StoreResult<Option<Bytes>> {
    let found = store.get(&ProjectKey::default(), std::slice::from_ref(id)).await?;
    Ok(found.into_iter().next().flatten().map(|document| document.body))
}

async fn put(store: &FsStore, id: &DocumentId, body: &'static str) -> StoreResult<()> {
    let change = Change::put(id.clone(), Bytes::from_static(body.as_bytes()));
    commit(store, change).await
}

async fn delete(store: &FsStore, id: &DocumentId) -> StoreResult<()> {
    commit(store, Change::Delete { id: id.clone() }).await
}

async fn commit(store: &FsStore, change: Change) -> StoreResult<()> {
    let reads = ReadSet { heads: Some(Kind::Section), ..ReadSet::of(vec![change.id().clone()]) };
    let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
    store.commit(&ProjectKey::default(), Commit { reads, decide, act: act() }).await.map(drop)
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(outcome: StoreResult<T>, place: &str) {
    match outcome {
        Err(StoreError::Refused { place: named, .. }) => assert!(named.contains(place), "{named}"),
        other => panic!("{other:?}"),
    }
}

// Catalogue 16
#[tokio::test]
async fn a_section_that_is_a_link_is_never_followed() {
    let project = Project::new();
    let secret = project.outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, project.file("out.md")).unwrap();
    symlink("AGENTS.md", project.file("in.md")).unwrap();
    for name in ["out", "in"] {
        let id = DocumentId::section(name);
        check_refused(get(&project.store(), &id).await, name);
        check_refused(put(&project.store(), &id, "x").await, name);
        check_refused(delete(&project.store(), &id).await, name);
        assert!(project.file(&format!("{name}.md")).is_symlink());
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    let page = project.store().find(&ProjectKey::default(), &Filter::all(Kind::Section)).await;
    assert_eq!(page.unwrap().total, 0, "links are not listed");
}

// Catalogue 17
#[tokio::test]
async fn a_folder_that_leads_outside_is_refused_and_one_inside_is_followed() {
    let project = Project::new();
    let id = DocumentId::section("a");
    fs::rename(project.root.join(DIRECTORY), project.root.join("moved")).unwrap();
    symlink("../../moved", project.root.join(DIRECTORY)).unwrap();
    put(&project.store(), &id, "inside").await.unwrap();
    assert_eq!(fs::read_to_string(project.root.join("moved/a.md")).unwrap(), "inside");

    let outside = project.outside.path().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("AGENTS.md"), "not ours").unwrap();
    fs::remove_file(project.root.join(DIRECTORY)).unwrap();
    for target in [outside.as_path(), Path::new("../../../elsewhere")] {
        symlink(target, project.root.join(DIRECTORY)).unwrap();
        check_refused(get(&project.store(), &id).await, DIRECTORY);
        check_refused(put(&project.store(), &id, "x").await, DIRECTORY);
        fs::remove_file(project.root.join(DIRECTORY)).unwrap();
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was written there");
}

// S1: T.3.5
#[tokio::test]
async fn agents_may_be_a_link_to_a_file_inside_which_is_no_section_then() {
    let project = Project::new();
    fs::rename(project.file("AGENTS.md"), project.file("CLAUDE.md")).unwrap();
    symlink("CLAUDE.md", project.file("AGENTS.md")).unwrap();
    let id = DocumentId::instructions();
    let store = project.store();
    put(&store, &id, "new").await.unwrap();
    assert!(project.file("AGENTS.md").is_symlink());
    assert_eq!(fs::read_to_string(project.file("CLAUDE.md")).unwrap(), "new");
    let page = store.find(&ProjectKey::default(), &Filter::all(Kind::Section)).await.unwrap();
    assert_eq!(page.total, 0);
    check_refused(put(&store, &DocumentId::section("CLAUDE"), "x").await, "CLAUDE.md");

    let secret = project.outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::create_dir_all(project.root.join(".git/hooks")).unwrap();
    fs::write(project.root.join(".git/hooks/pre-commit"), "").unwrap();
    fs::write(project.root.join("script.sh"), "").unwrap();
    for (target, kind) in [
        (secret.to_str().unwrap(), "outside"),
        ("nothing", "nothing"),
        ("../../../.git/hooks/pre-commit", "hidden"),
        ("../../../script.sh", "no markdown"),
    ] {
        fs::remove_file(project.file("AGENTS.md")).unwrap();
        symlink(target, project.file("AGENTS.md")).unwrap();
        let refused = put(&store, &id, "x").await.unwrap_err().to_string();
        assert!(refused.contains(kind), "{refused}");
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
}

// Reliability P3
#[tokio::test]
async fn a_file_that_somebody_is_still_saving_in_place_is_not_replaced() {
    let project = Project::new();
    for half in [&b""[..], b"**1.** \xd0"] {
        fs::write(project.file("a.md"), half).unwrap();
        let busy = put(&project.store(), &DocumentId::section("a"), "x").await;
        assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
        assert_eq!(fs::read(project.file("a.md")).unwrap(), half);
    }
}

// Reliability 5.1
#[tokio::test]
async fn roots_that_share_a_directory_share_its_lock() {
    let project = Project::new();
    let folder = fs::File::open(project.root.join(DIRECTORY)).unwrap();
    folder.lock().unwrap();
    let busy = put(&project.store(), &DocumentId::section("a"), "x").await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
}

// S1: T.3.1
#[tokio::test]
async fn a_file_in_the_way_of_the_first_directory_leads_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("docs/dev/req")).unwrap();
    fs::write(folder.path().join("docs/development"), "").unwrap();
    fs::write(folder.path().join("docs/dev/req/AGENTS.md"), "found").unwrap();
    let store = FsStore::new(&config(folder.path()));
    let found = get(&store, &DocumentId::instructions()).await.unwrap();
    assert_eq!(found.as_deref(), Some(&b"found"[..]));
}

// Catalogue 130
#[tokio::test]
async fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
    let project = Project::new();
    fs::create_dir(project.file("folder.md")).unwrap();
    let pipe = project.file("pipe.md");
    let status = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(status.success());
    for name in ["folder", "pipe"] {
        let id = DocumentId::section(name);
        check_refused(get(&project.store(), &id).await, name);
        check_refused(put(&project.store(), &id, "x").await, name);
    }
}

// Reliability 6
#[tokio::test]
async fn a_file_beyond_the_limit_is_named_with_the_limit_and_harms_no_other() {
    let project = Project::new();
    for (size, fits) in [(8 << 20, true), ((8 << 20) + 1, false)] {
        fs::write(project.file("big.md"), vec![b'x'; size]).unwrap();
        let found = get(&project.store(), &DocumentId::section("big")).await;
        assert_eq!(found.is_ok(), fits);
        if let Err(error) = found {
            assert!(error.to_string().contains("big.md: larger than 8 MiB"), "{error}");
        }
    }
    put(&project.store(), &DocumentId::section("other"), "x").await.unwrap();
}

// Reliability 5.1
#[tokio::test]
async fn a_second_hard_link_is_refused_with_the_reason() {
    let project = Project::new();
    fs::write(project.file("a.md"), "x").unwrap();
    fs::hard_link(project.file("a.md"), project.outside.path().join("twin")).unwrap();
    check_refused(put(&project.store(), &DocumentId::section("a"), "y").await, "a.md");
    assert_eq!(fs::read_to_string(project.file("a.md")).unwrap(), "x");
}

#[tokio::test]
async fn a_write_keeps_the_file_s_mode_and_leaves_nothing_behind() {
    let project = Project::new();
    fs::write(project.file("a.md"), "x").unwrap();
    fs::set_permissions(project.file("a.md"), fs::Permissions::from_mode(0o640)).unwrap();
    put(&project.store(), &DocumentId::section("a"), "y").await.unwrap();
    assert_eq!(fs::metadata(project.file("a.md")).unwrap().mode() & 0o7777, 0o640);
    delete(&project.store(), &DocumentId::section("a")).await.unwrap();
    assert_eq!(project.names(), ["AGENTS.md"]);
}

// Catalogue 125
#[tokio::test]
async fn leftovers_of_a_dead_process_are_no_data_and_go_with_the_next_write() {
    let project = Project::new();
    fs::write(project.file(".reqlore-0123456789abcdef.tmp"), "half").unwrap();
    fs::write(project.file(".reqlore-mine.tmp"), "a person's").unwrap();
    fs::write(project.file(".hidden.md"), "hidden").unwrap();
    fs::write(project.file("a\n# forged\n.md"), "a name that no key can have").unwrap();
    let store = project.store();
    let page = store.find(&ProjectKey::default(), &Filter::all(Kind::Section)).await.unwrap();
    assert_eq!(page.total, 0);
    put(&store, &DocumentId::section("a"), "x").await.unwrap();
    let left = [".hidden.md", ".reqlore-mine.tmp", "AGENTS.md", "a\n# forged\n.md", "a.md"];
    assert_eq!(project.names(), left);
}

// Catalogue 130
#[tokio::test]
async fn files_that_change_underneath_are_told_as_they_are() {
    let project = Project::new();
    let store = project.store();
    let id = DocumentId::section("a");
    put(&store, &id, "# One\n").await.unwrap();
    let title = || async {
        let page = store.find(&ProjectKey::default(), &Filter::all(Kind::Section)).await.unwrap();
        page.heads.into_iter().next().and_then(|head| head.title.clone())
    };
    assert_eq!(title().await.as_deref(), Some("One"));
    fs::write(project.file("a.md"), "# Two\n").unwrap();
    assert_eq!(title().await.as_deref(), Some("Two"), "same size, same second");
    fs::remove_file(project.file("a.md")).unwrap();
    assert_eq!(get(&store, &id).await.unwrap(), None);
    assert_eq!(title().await, None);
}

// Reliability 5.1
#[tokio::test]
async fn another_process_that_keeps_the_lock_is_told_of_and_reads_go_on() {
    let project = Project::new();
    let folder = fs::File::open(&project.root).unwrap();
    folder.lock().unwrap();
    let store = project.store();
    let busy = put(&store, &DocumentId::section("a"), "x").await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    assert!(get(&store, &DocumentId::instructions()).await.unwrap().is_some());
    drop(folder);
    put(&store, &DocumentId::section("a"), "x").await.unwrap();
}

// S1: T.3.1, T.3.2, G.3.1, C.1; catalogue 23
#[tokio::test]
async fn the_requirements_directory_is_searched_in_the_order_of_the_specification() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        Config { requirements_directory: Some("my/reqs/".into()), ..config(folder.path()) };
    let (store, id) = (FsStore::new(&config), DocumentId::instructions());
    for (directory, body) in [
        ("docs/dev/req", "third"),
        ("docs/development/requirements", "second"),
        ("my/reqs", "first"),
    ] {
        fs::create_dir_all(folder.path().join(directory)).unwrap();
        fs::write(folder.path().join(directory).join("AGENTS.md"), body).unwrap();
        assert_eq!(get(&store, &id).await.unwrap().as_deref(), Some(body.as_bytes()));
    }
    let empty = tempfile::tempdir().unwrap();
    for (named, created) in [(Some("my/reqs/"), "my/reqs"), (None, DIRECTORY)] {
        let config = Config {
            requirements_directory: named.map(str::to_owned),
            ..super::config(empty.path())
        };
        put(&FsStore::new(&config), &id, "new").await.unwrap();
        assert_eq!(
            fs::read_to_string(empty.path().join(created).join("AGENTS.md")).unwrap(),
            "new"
        );
    }
}

// Catalogue 23
#[test]
fn a_requirements_directory_outside_is_refused_by_the_name_of_its_variable() {
    for (path, good) in [
        ("docs", true),
        ("a/b/", true),
        ("./a", true),
        ("/etc", false),
        ("a/../../b", false),
        ("a\0", false),
    ] {
        let config = Config { requirements_directory: Some(path.into()), ..config(Path::new("/")) };
        match config.check() {
            Ok(()) => assert!(good, "{path:?}"),
            Err(message) => {
                assert!(!good && message.starts_with("REQLIX_REQ_REL_PATH"), "{message}");
            }
        }
    }
}
