//! Sections: names, links, unusual files, and other programs in the same folder.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, StoreError};

use super::{
    DIRECTORY, PROJECT, Project, check_refused, config, delete, get, make_pipe, names, put,
};
use crate::{Config, FsStore};

fn project() -> Project {
    let project = Project::new();
    project.write(Path::new(DIRECTORY).join("AGENTS.md"), "# Agents\n");
    project
}

fn file(project: &Project, name: &str) -> PathBuf {
    project.path(DIRECTORY).join(name)
}

async fn sections(store: &FsStore) -> usize {
    store
        .find(&PROJECT(), &DocumentFilter::of_kind(DocumentKind::Section))
        .await
        .unwrap()
        .metadata
        .len()
}

#[tokio::test]
async fn section_link_is_never_followed() {
    let project = project();
    let secret = project.outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, file(&project, "out.md")).unwrap();
    symlink("AGENTS.md", file(&project, "in.md")).unwrap();
    let store = project.store();
    for name in ["out", "in"] {
        let id = DocumentId::section(name);
        check_refused(get(&store, &id).await, name, "symbolic link");
        check_refused(put(&store, &id, "x").await, name, "symbolic link");
        check_refused(delete(&store, &id).await, name, "symbolic link");
        assert!(file(&project, &format!("{name}.md")).is_symlink());
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    assert_eq!(sections(&store).await, 0, "links are not listed");
}

#[tokio::test]
async fn requirements_dir_link_is_followed_only_inside_root() {
    let project = project();
    let id = DocumentId::section("a");
    fs::rename(project.path(DIRECTORY), project.path("moved")).unwrap();
    symlink("../../moved", project.path(DIRECTORY)).unwrap();
    put(&project.store(), &id, "inside").await.unwrap();
    assert_eq!(project.read("moved/a.md").as_deref(), Some("inside"));

    let outside = project.outside.path().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("AGENTS.md"), "not ours").unwrap();
    for target in [outside.as_path(), Path::new("../../../elsewhere")] {
        fs::remove_file(project.path(DIRECTORY)).unwrap();
        symlink(target, project.path(DIRECTORY)).unwrap();
        check_refused(get(&project.store(), &id).await, DIRECTORY, "outside");
        check_refused(put(&project.store(), &id, "x").await, DIRECTORY, "outside");
    }
    assert_eq!(names(&outside), ["AGENTS.md"], "nothing was written there");
}

// S1: T.3.5
#[tokio::test]
async fn agents_md_link_target_is_not_a_section() {
    let project = project();
    let agents = file(&project, "AGENTS.md");
    fs::rename(&agents, file(&project, "CLAUDE.md")).unwrap();
    symlink("CLAUDE.md", &agents).unwrap();
    let id = DocumentId::instructions();
    let store = project.store();
    put(&store, &id, "new").await.unwrap();
    assert!(agents.is_symlink());
    assert_eq!(fs::read_to_string(file(&project, "CLAUDE.md")).unwrap(), "new");
    assert_eq!(sections(&store).await, 0);
    check_refused(put(&store, &DocumentId::section("CLAUDE"), "x").await, "CLAUDE.md", "");

    let secret = project.outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    project.write(".git/hooks/pre-commit", "");
    project.write("script.sh", "");
    for (target, kind) in [
        (secret.to_str().unwrap(), "outside"),
        ("nothing", "missing"),
        ("../../../.git/hooks/pre-commit", "hidden"),
        ("../../../script.sh", "not Markdown"),
    ] {
        fs::remove_file(&agents).unwrap();
        symlink(target, &agents).unwrap();
        let refused = put(&store, &id, "x").await.unwrap_err().to_string();
        assert!(refused.contains(kind), "{refused}");
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
}

#[tokio::test]
async fn partially_saved_file_is_not_replaced() {
    let project = project();
    let partial = b"**1.** \xd0";
    fs::write(file(&project, "a.md"), partial).unwrap();
    let busy = put(&project.store(), &DocumentId::section("a"), "x").await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    assert_eq!(fs::read(file(&project, "a.md")).unwrap(), partial);
}

#[tokio::test]
async fn empty_file_that_stays_empty_is_replaced() {
    let project = project();
    fs::write(file(&project, "a.md"), "").unwrap();
    put(&project.store(), &DocumentId::section("a"), "x").await.unwrap();
    assert_eq!(fs::read_to_string(file(&project, "a.md")).unwrap(), "x");
}

#[tokio::test]
async fn locked_folder_rejects_writes_and_allows_reads() {
    let project = project();
    let (store, id) = (project.store(), DocumentId::section("a"));
    // Projects with different roots may share the requirements directory and its lock.
    for locked in [project.path(DIRECTORY), project.root.clone()] {
        let folder = fs::File::open(locked).unwrap();
        folder.lock().unwrap();
        let busy = put(&store, &id, "x").await;
        assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
        assert!(get(&store, &DocumentId::instructions()).await.unwrap().is_some());
    }
    put(&store, &id, "x").await.unwrap();
}

// S1: T.3.1
#[tokio::test]
async fn requirements_search_skips_candidate_blocked_by_file() {
    let project = Project::new();
    project.write("docs/development", "");
    project.write("docs/dev/req/AGENTS.md", "found");
    let found = get(&project.store(), &DocumentId::instructions()).await.unwrap();
    assert_eq!(found.as_deref(), Some(&b"found"[..]));
}

#[tokio::test]
async fn section_folder_or_pipe_is_rejected_without_blocking() {
    let project = project();
    fs::create_dir(file(&project, "folder.md")).unwrap();
    make_pipe(file(&project, "pipe.md"));
    for name in ["folder", "pipe"] {
        let id = DocumentId::section(name);
        check_refused(get(&project.store(), &id).await, name, "");
        check_refused(put(&project.store(), &id, "x").await, name, "");
    }
}

#[tokio::test]
async fn oversized_file_error_names_limit_and_affects_no_other() {
    let project = project();
    let big = DocumentId::section("big");
    fs::write(file(&project, "big.md"), vec![b'x'; 8 << 20]).unwrap();
    get(&project.store(), &big).await.unwrap();
    fs::write(file(&project, "big.md"), vec![b'x'; (8 << 20) + 1]).unwrap();
    let error = get(&project.store(), &big).await.unwrap_err().to_string();
    assert!(error.contains("big.md: larger than 8 MiB"), "{error}");
    put(&project.store(), &DocumentId::section("other"), "x").await.unwrap();
}

#[tokio::test]
async fn write_keeps_mode_and_rejects_hard_link() {
    let project = project();
    let (store, id, path) = (project.store(), DocumentId::section("a"), file(&project, "a.md"));
    let twin = project.outside.path().join("twin");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&path, &twin).unwrap();
    check_refused(put(&store, &id, "y").await, "a.md", "hard link");
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    fs::remove_file(twin).unwrap();
    put(&store, &id, "y").await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    delete(&store, &id).await.unwrap();
    assert_eq!(names(project.path(DIRECTORY)), ["AGENTS.md"]);
}

#[tokio::test]
async fn stale_temp_files_are_hidden_and_removed_by_next_write() {
    let project = project();
    for name in
        [".reqlore-0123456789abcdef.tmp", ".reqlore-mine.tmp", ".hidden.md", "a\n# forged\n.md"]
    {
        fs::write(file(&project, name), "x").unwrap();
    }
    let store = project.store();
    assert_eq!(sections(&store).await, 0);
    put(&store, &DocumentId::section("a"), "x").await.unwrap();
    let remaining = [".hidden.md", ".reqlore-mine.tmp", "AGENTS.md", "a\n# forged\n.md", "a.md"];
    assert_eq!(names(project.path(DIRECTORY)), remaining);
}

#[tokio::test]
async fn external_change_is_visible_to_next_call() {
    let project = project();
    let (store, id) = (project.store(), DocumentId::section("a"));
    put(&store, &id, "# One\n").await.unwrap();
    let title = || async {
        let page =
            store.find(&PROJECT(), &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
        page.metadata.into_iter().next().and_then(|metadata| metadata.title.clone())
    };
    assert_eq!(title().await.as_deref(), Some("One"));
    fs::write(file(&project, "a.md"), "# Two\n").unwrap();
    assert_eq!(title().await.as_deref(), Some("Two"), "same size, same second");
    fs::remove_file(file(&project, "a.md")).unwrap();
    assert_eq!(get(&store, &id).await.unwrap(), None);
    assert_eq!(title().await, None);
}

// S1: T.3.1, T.3.2, G.3.1, C.1
#[tokio::test]
async fn requirements_dir_search_follows_specified_order() {
    let id = DocumentId::instructions();
    let open = |project: &Project, named: Option<&str>| {
        let requirements_directory = named.map(str::to_owned);
        FsStore::new(&Config { requirements_directory, ..config(&project.root) })
    };
    let project = Project::new();
    let store = open(&project, Some("my/reqs/"));
    for (directory, body) in
        [("docs/dev/req", "third"), (DIRECTORY, "second"), ("my/reqs", "first")]
    {
        project.write(Path::new(directory).join("AGENTS.md"), body);
        assert_eq!(get(&store, &id).await.unwrap().as_deref(), Some(body.as_bytes()));
    }
    let empty = Project::new();
    for (named, created) in [(Some("my/reqs/"), "my/reqs"), (None, DIRECTORY)] {
        put(&open(&empty, named), &id, "new").await.unwrap();
        assert_eq!(empty.read(Path::new(created).join("AGENTS.md")).as_deref(), Some("new"));
    }
}

#[test]
fn outside_requirements_dir_error_names_its_variable() {
    let check = |path: &str| {
        let requirements_directory = Some(path.to_owned());
        Config { requirements_directory, ..config(Path::new("/")) }.check()
    };
    for path in ["docs", "a/b/", "./a"] {
        check(path).unwrap();
    }
    for path in ["/etc", "a/../../b", "a\0"] {
        let message = check(path).unwrap_err();
        assert!(message.starts_with("REQLIX_REQ_REL_PATH"), "{message}");
    }
}
