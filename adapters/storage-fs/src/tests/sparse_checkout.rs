//! Documents that a sparse checkout of real Git leaves out: neither missing nor writable.

use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{DocumentFilter, Refresh};
use reqlore_domain::ports::history::{DocumentHistory, HistoryQuery};

use super::backlog::create;
use super::history::{run_git, store_of};
use super::*;

const BACKLOG: &str = ".reqlore/backlog";
const TEXT: &str = "---\ntitle: T\n---\n";

fn git(folder: &Path, arguments: &[&str]) -> String {
    run_git(folder, 0, arguments)
}

/// A repository with documents of each kind and a source file.
fn repository() -> Project {
    let project = Project::new();
    for path in [
        ".reqlore/backlog/epics/EP-001-a.md",
        ".reqlore/backlog/requirements/REQ-007-a.md",
        ".ixchel/decisions/dec-1.md",
        ".knowledge/config.yaml",
        "docs/development/requirements/AGENTS.md",
        "docs/development/requirements/general.md",
        "src/main.rs",
    ] {
        project.write(path, TEXT);
    }
    git(&project.root, &["init", "--quiet"]);
    git(&project.root, &["add", "--all"]);
    git(&project.root, &["commit", "--quiet", "--message", "first"]);
    project
}

fn documents() -> [DocumentId; 5] {
    [
        item(ItemKind::Epic, "EP-001-a"),
        item(ItemKind::Requirement, "REQ-007-a"),
        DocumentId::entity("decisions/dec-1"),
        DocumentId::docsets(),
        DocumentId::section("general"),
    ]
}

/// Reads and writes documents by each method of the ports. All of them must agree.
async fn check_readable(store: &FsStore, id: &DocumentId, folder: Option<&str>) {
    let (project, ids) = (PROJECT(), std::slice::from_ref(id));
    let query = HistoryQuery { after: None, limit: 1 };
    let outcomes = [
        store.get(&project, ids).await.map(|found| found[0].is_some()),
        store.versions(&project, ids).await.map(|found| found[0].is_some()),
        store
            .find(&project, &DocumentFilter::of_kind(id.kind))
            .await
            .map(|p| !p.metadata.is_empty()),
        store.lookup(&project, id.kind, std::slice::from_ref(&id.name)).await.map(|_| true),
        store.history(&project, id, &query).await.map(|page| !page.entries.is_empty()),
        put(store, id, TEXT).await.map(|()| true),
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match folder {
            None => assert!(outcome.unwrap(), "{id}, {number}"),
            Some(folder) => {
                let step = format!("sparse-checkout add {folder}`");
                check_refused(outcome, folder, &step);
            }
        }
    }
}

async fn check_all_readable(store: &FsStore) {
    for id in documents() {
        check_readable(store, &id, None).await;
    }
    assert!(store.changes_since(&PROJECT(), None, 9, Refresh::Full).await.is_ok());
    assert!(store.export().await.is_ok());
}

#[tokio::test]
async fn documents_outside_of_a_sparse_checkout_are_refused() {
    let project = repository();
    let store = store_of(&project.root);
    check_all_readable(&store).await;
    for mode in ["--cone", "--no-cone"] {
        // Git leaves files that changed.
        git(&project.root, &["add", "--all"]);
        git(&project.root, &["commit", "--quiet", "--allow-empty", "--message", "next"]);
        git(&project.root, &["sparse-checkout", "set", mode, "src"]);
        assert!(!project.has(BACKLOG), "{mode}");
        let folders = [BACKLOG, BACKLOG, ".ixchel", ".knowledge", DIRECTORY];
        // A process that has read them before, and a new one.
        for store in [&store, &store_of(&project.root)] {
            for (id, folder) in documents().iter().zip(folders) {
                check_readable(store, id, Some(folder)).await;
            }
            let changes = store.changes_since(&PROJECT(), None, 9, Refresh::Incremental).await;
            check_refused(changes, "", "is not checked out");
            check_refused(store.export().await.map(drop), "", "is not checked out");
            check_refused(store.import().await.map(drop), "", "is not checked out");
        }
        assert!(!project.has(BACKLOG), "{mode}: something was written");
        git(&project.root, &["sparse-checkout", "add", BACKLOG]);
        for (id, folder) in documents().iter().zip(folders) {
            check_readable(&store, id, (folder != BACKLOG).then_some(folder)).await;
        }
        git(&project.root, &["sparse-checkout", "disable"]);
        assert!(project.has(".git/info/sparse-checkout"), "{mode}");
        check_all_readable(&store).await;
    }
    assert_eq!(create(&store).await, 8);
}

#[tokio::test]
async fn new_items_of_a_sparse_checkout_need_the_backlog() {
    let project = repository();
    git(&project.root, &["sparse-checkout", "set", "--no-cone", "/*", "!/.reqlore/backlog/epics"]);
    assert!(project.has(".reqlore/backlog/requirements") && !project.has(".reqlore/backlog/epics"));
    let store = store_of(&project.root);
    let reads = ReadSet { sequences: vec![ItemKind::Requirement], ..ReadSet::default() };
    let decide = Box::new(|_: &_| Ok(Vec::new()));
    let request = CommitRequest { read_set: reads, decide, context: test_context() };
    check_refused(store.commit(&PROJECT(), request).await, BACKLOG, "sparse-checkout add");
    check_readable(&store, &DocumentId::entity("decisions/dec-1"), None).await;
}

#[tokio::test]
async fn sparse_checkout_without_the_documents_in_git_is_ordinary() {
    let project = Project::new();
    project.write("src/main.rs", "");
    git(&project.root, &["init", "--quiet"]);
    git(&project.root, &["add", "--all"]);
    git(&project.root, &["commit", "--quiet", "--message", "first"]);
    git(&project.root, &["sparse-checkout", "set", "src"]);
    let store = store_of(&project.root);
    assert_eq!(create(&store).await, 1);
}

#[tokio::test]
async fn sparse_project_below_the_root_names_its_whole_path() {
    let project = repository();
    let inner = project.path("packages/api");
    fs::create_dir_all(inner.join(BACKLOG).join("epics")).unwrap();
    fs::write(inner.join(BACKLOG).join("epics/EP-001-a.md"), TEXT).unwrap();
    git(&project.root, &["add", "--all"]);
    git(&project.root, &["commit", "--quiet", "--message", "second"]);
    git(&project.root, &["sparse-checkout", "set", ".reqlore"]);
    fs::create_dir_all(&inner).unwrap();
    let found = get(&store_of(&inner), &documents()[0]).await;
    check_refused(found, BACKLOG, "sparse-checkout add packages/api/.reqlore/backlog`");
    assert!(get(&store_of(&project.root), &documents()[0]).await.unwrap().is_some());
}

#[tokio::test]
async fn sparse_checkout_is_of_one_work_tree() {
    let project = repository();
    let linked = project.outside.path().canonicalize().unwrap().join("linked");
    git(&project.root, &["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    git(&linked, &["sparse-checkout", "set", "src"]);
    let found = get(&store_of(&linked), &documents()[0]).await;
    check_refused(found, BACKLOG, "is not checked out");
    check_all_readable(&store_of(&project.root)).await;
}

#[tokio::test]
async fn sparse_checkout_without_git_refuses_a_missing_backlog() {
    let project = repository();
    git(&project.root, &["sparse-checkout", "set", "src"]);
    let store = project.store();
    check_refused(get(&store, &documents()[0]).await, BACKLOG, "is not checked out");
    git(&project.root, &["sparse-checkout", "add", ".reqlore"]);
    assert!(get(&store, &documents()[0]).await.unwrap().is_some());
}
