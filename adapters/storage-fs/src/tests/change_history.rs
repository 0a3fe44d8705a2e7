//! Changes since a position of another process, which continues the history of the cache file.

use std::collections::BTreeSet;
use std::fs;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, Refresh};

use super::{PROJECT, Project, config, delete, files, item, put};
use crate::{Config, FsStore};

struct Repository {
    project: Project,
    config: Config,
}

impl Repository {
    fn new() -> Self {
        let project = Project::new();
        let cache = Some(project.outside.path().join("cache"));
        let config = Config { cache, ..config(&project.root) };
        project.write(project.file(&DocumentId::instructions()), "# Agents");
        for id in documents() {
            project.write(project.file(&id), "# Old");
        }
        Self { project, config }
    }

    fn store(&self) -> FsStore {
        FsStore::new(&self.config)
    }

    /// The content of the cache folder, to put it back later.
    fn cache(&self) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let all = files(self.config.cache.as_ref().unwrap());
        all.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
    }
}

fn documents() -> [DocumentId; 6] {
    let requirement = |name| item(ItemKind::Requirement, name);
    [
        DocumentId::entity("a"),
        DocumentId::entity("b"),
        requirement("REQ-001"),
        requirement("REQ-002"),
        DocumentId::section("x"),
        DocumentId::section("y"),
    ]
}

async fn page(store: &FsStore, since: Option<ChangePosition>) -> ChangePage {
    store.changes_since(&PROJECT(), since, 100, Refresh::Incremental).await.unwrap()
}

async fn start(store: &FsStore) -> ChangePosition {
    page(store, None).await.position()
}

#[track_caller]
fn ids(page: &ChangePage) -> BTreeSet<DocumentId> {
    let ChangePage::Since { ids, .. } = page else { panic!("{page:?}") };
    ids.iter().cloned().collect()
}

#[track_caller]
fn check_reset(page: &ChangePage) {
    assert!(matches!(page, ChangePage::Reset { .. }), "{page:?}");
}

#[tokio::test]
async fn position_is_continued_by_next_process() {
    let repository = Repository::new();
    let position = start(&repository.store()).await;
    let unchanged = page(&repository.store(), Some(position)).await;
    assert_eq!((ids(&unchanged), unchanged.position()), (BTreeSet::new(), position));
    // No process runs.
    let [changed, removed, item, removed_item, section, removed_section] = documents();
    for id in [&changed, &item, &section] {
        repository.project.write(repository.project.file(id), "# New text");
    }
    for id in [&removed, &removed_item, &removed_section] {
        fs::remove_file(repository.project.file(id)).unwrap();
    }
    let next = page(&repository.store(), Some(position)).await;
    assert_eq!(ids(&next), BTreeSet::from(documents()));
    assert_ne!(next.position().writer_id, position.writer_id);
    // Every earlier position is still known.
    let store = repository.store();
    assert!(ids(&page(&store, Some(next.position())).await).is_empty());
    assert_eq!(ids(&page(&store, Some(position)).await), BTreeSet::from(documents()));
}

#[tokio::test]
async fn commit_before_loading_the_cache_is_a_change() {
    let repository = Repository::new();
    let position = start(&repository.store()).await;
    let [entity, _, requirement, _, section, _] = documents();
    let store = repository.store();
    put(&store, &entity, "# New").await.unwrap();
    put(&store, &section, "# New").await.unwrap();
    delete(&store, &requirement).await.unwrap();
    let changes = page(&store, Some(position)).await;
    assert_eq!(ids(&changes), BTreeSet::from([entity, requirement, section]));
}

#[tokio::test]
async fn history_that_a_killed_process_started_is_a_reset() {
    let repository = Repository::new();
    let [entity, ..] = documents();
    // Saves documents, but no history.
    let filter = DocumentFilter::of_kind(entity.kind);
    repository.store().find(&PROJECT(), &filter).await.unwrap();
    let saved = repository.cache();
    let position = start(&repository.store()).await;
    for (file, bytes) in saved {
        fs::write(file, bytes).unwrap();
    }
    repository.project.write(repository.project.file(&entity), "# New");
    check_reset(&page(&repository.store(), Some(position)).await);
}

#[tokio::test]
async fn position_of_killed_process_is_a_reset() {
    let repository = Repository::new();
    let first = start(&repository.store()).await;
    let saved = repository.cache();
    let [entity, ..] = documents();
    let store = repository.store();
    put(&store, &entity, "# Two").await.unwrap();
    let lost = page(&store, Some(first)).await.position();
    drop(store);
    for (file, bytes) in saved {
        fs::write(file, bytes).unwrap();
    }
    let store = repository.store();
    // Also when another writer has given the same revision to another change.
    for text in ["# Three", "# Four", "# Five"] {
        put(&store, &entity, text).await.unwrap();
        check_reset(&page(&store, Some(lost)).await);
        assert_eq!(ids(&page(&store, Some(first)).await), BTreeSet::from([entity.clone()]));
    }
}

#[tokio::test]
async fn positions_of_parallel_processes_are_never_mixed() {
    let repository = Repository::new();
    let base = start(&repository.store()).await;
    let (one, other) = (repository.store(), repository.store());
    let [first, second, ..] = documents();
    put(&one, &first, "# One").await.unwrap();
    put(&other, &second, "# Other").await.unwrap();
    let both = BTreeSet::from([first, second]);
    // Each sees both changes, in an order of its own.
    let (seen, other_seen) = (page(&one, Some(base)).await, page(&other, Some(base)).await);
    assert_eq!((ids(&seen), ids(&other_seen)), (both.clone(), both.clone()));
    check_reset(&page(&one, Some(other_seen.position())).await);
    drop(one);
    drop(other);
    let store = repository.store();
    check_reset(&page(&store, Some(seen.position())).await);
    assert!(ids(&page(&store, Some(other_seen.position())).await).is_empty());
    assert_eq!(ids(&page(&store, Some(base)).await), both);
}

#[tokio::test]
async fn position_without_its_cache_file_is_a_reset() {
    let repository = Repository::new();
    let position = start(&repository.store()).await;
    fs::remove_dir_all(repository.config.cache.as_ref().unwrap()).unwrap();
    let store = repository.store();
    check_reset(&page(&store, Some(position)).await);
    check_reset(&page(&store, Some(position)).await);
    assert!(ids(&page(&store, Some(start(&store).await)).await).is_empty());
}
