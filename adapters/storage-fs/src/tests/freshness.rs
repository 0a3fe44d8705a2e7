//! Compares a store that caches everything with a new store, after random edits on disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, DocumentFilter, DocumentRepository, Refresh, StoreResult,
};
use reqlore_domain::ports::record_list::{RecordCounts, RecordPage, RecordQuery, RecordSelection};

use super::disk_edits::{Disk, Edit, FILES, FOLDERS, TEXTS, edits, files as any_file};
use super::{PROJECT, Project, commit, files};
use crate::FsStore;
use crate::folder_names::RequirementsLayout;
use crate::inotify::WatchQueue;
use crate::layout::{DocumentArea, ProjectRoot, ProjectTree};
use crate::list_files;
use crate::metadata_index::MetadataIndex;
use crate::read_file::{FileContent, read_once};

#[derive(Debug, Clone)]
enum Call {
    Changes(Refresh),
    Find,
    Counts,
    Backlinks,
    Get,
    Put((usize, usize), usize),
    Delete((usize, usize)),
    Reopen,
    /// The process dies without saving its cache.
    Kill,
    EditCache(CacheEdit),
}

/// A change of the cache file, which the next process loads.
#[derive(Debug, Clone)]
enum CacheEdit {
    Cut,
    Flip,
    Remove,
    /// Keeps a copy.
    Copy,
    /// Puts the copy back, as after a power cut.
    PutBack,
}

#[derive(Debug, Clone)]
enum Step {
    Edit(Edit),
    /// The index of the store, and the call.
    Call(usize, Call),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cache_edit = prop_oneof![
        Just(CacheEdit::Cut),
        Just(CacheEdit::Flip),
        Just(CacheEdit::Remove),
        Just(CacheEdit::Copy),
        Just(CacheEdit::PutBack),
    ];
    let call = prop_oneof![
        6 => Just(Call::Changes(Refresh::Incremental)),
        1 => Just(Call::Changes(Refresh::Full)),
        3 => Just(Call::Find),
        2 => Just(Call::Counts),
        2 => Just(Call::Backlinks),
        3 => Just(Call::Get),
        1 => (any_file(), 0..TEXTS.len()).prop_map(|(file, text)| Call::Put(file, text)),
        1 => any_file().prop_map(Call::Delete),
        3 => Just(Call::Reopen),
        1 => Just(Call::Kill),
        2 => cache_edit.prop_map(Call::EditCache),
    ];
    let step = prop_oneof![
        edits().prop_map(Step::Edit),
        (0..2_usize, call).prop_map(|(store, call)| Step::Call(store, call)),
    ];
    prop::collection::vec(step, 1..50)
}

/// All documents that any step may create.
fn ids(disk: &Disk) -> Vec<DocumentId> {
    let all = (0..FOLDERS).flat_map(|folder| (0..FILES - 1).map(move |file| (folder, file)));
    let mut ids: Vec<DocumentId> = all.map(|file| disk.id(file)).collect();
    if disk.kinds() == [DocumentKind::Entity] {
        ids.extend(["a/b/b/p", "a/b/b/q", "c/b/p", "c/b/x"].map(DocumentId::entity));
    }
    ids
}

type MetadataById = BTreeMap<DocumentId, Arc<DocumentMeta>>;

async fn find(store: &FsStore, kinds: &[DocumentKind]) -> StoreResult<MetadataById> {
    let mut all = MetadataById::new();
    for kind in kinds {
        let page = store.find(&PROJECT(), &DocumentFilter::of_kind(*kind)).await?;
        all.extend(page.metadata.into_iter().map(|metadata| (metadata.id.clone(), metadata)));
    }
    Ok(all)
}

async fn counts(store: &FsStore) -> StoreResult<[RecordPage; 3]> {
    let (project, query) = (PROJECT(), RecordQuery::of_entities(None, 2));
    Ok([
        store.list(&project, &query.clone().count_by(RecordCounts::Kind)).await?,
        store.list(&project, &query.clone().count_by(RecordCounts::Tag)).await?,
        store
            .list(&project, &RecordQuery { selection: RecordSelection::Untagged, ..query })
            .await?,
    ])
}

async fn backlinks(
    store: &FsStore,
    kinds: &[DocumentKind],
) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    let targets = ["US-001", "US-002", "US-003"].map(String::from).to_vec();
    store.backlinks(&PROJECT(), &BacklinkQuery { kinds: kinds.to_vec(), targets }).await
}

/// A store, and a copy of its metadata that is updated by its changes.
struct Reader {
    store: FsStore,
    since: Option<ChangePosition>,
    copy: MetadataById,
}

impl Reader {
    fn new(disk: &Disk) -> Self {
        Self { store: FsStore::new(&disk.config(true)), since: None, copy: MetadataById::new() }
    }

    /// Compares a call on the store with the same call on a new one, which reads everything.
    async fn call(&mut self, disk: &Disk, call: &Call) -> TestCaseResult {
        let kinds = disk.kinds();
        let new = FsStore::new(&disk.config(false));
        match call {
            Call::Changes(refresh) => self.changes(disk, *refresh).await?,
            Call::Find => {
                let (found, fresh) = (find(&self.store, kinds).await, find(&new, kinds).await);
                prop_assert_eq!(found.ok(), fresh.ok());
            }
            Call::Counts => {
                let (found, fresh) = (counts(&self.store).await, counts(&new).await);
                prop_assert_eq!(found.ok(), fresh.ok());
            }
            Call::Backlinks => {
                let found = backlinks(&self.store, kinds).await;
                prop_assert_eq!(found.ok(), backlinks(&new, kinds).await.ok());
            }
            Call::Get => {
                for id in ids(disk) {
                    let versions = self.store.versions(&PROJECT(), std::slice::from_ref(&id)).await;
                    let (ours, theirs) = (get(&self.store, &id).await, get(&new, &id).await);
                    prop_assert_eq!(&ours, &theirs, "{}", id);
                    let expected = ours.map(|found| vec![found.map(|found| found.version)]);
                    prop_assert_eq!(versions.ok(), expected, "{}", id);
                }
            }
            Call::Put(file, text) => {
                acknowledge(&self.store, DocumentChange::put(disk.id(*file), TEXTS[*text])).await?;
            }
            Call::Delete(file) => {
                acknowledge(&self.store, DocumentChange::Delete { id: disk.id(*file) }).await?;
            }
            Call::Reopen => self.store = FsStore::new(&disk.config(true)),
            Call::Kill => {
                let saved = cache_file(disk).map(|file| (fs::read(&file).unwrap(), file));
                self.store = FsStore::new(&disk.config(true));
                match (saved, cache_file(disk)) {
                    (Some((bytes, file)), _) => fs::write(file, bytes).unwrap(),
                    (None, Some(file)) => fs::remove_file(file).unwrap(),
                    (None, None) => {}
                }
            }
            Call::EditCache(edit) => {
                if let Some(file) = cache_file(disk) {
                    edit_cache(&file, edit);
                }
            }
        }
        Ok(())
    }

    async fn changes(&mut self, disk: &Disk, refresh: Refresh) -> TestCaseResult {
        loop {
            let changes = self.store.changes_since(&PROJECT(), self.since, 3, refresh).await;
            let fresh = find(&FsStore::new(&disk.config(false)), disk.kinds()).await;
            let (Ok(changes), Ok(fresh)) = (&changes, &fresh) else {
                prop_assert_eq!(changes.is_err(), fresh.is_err());
                return Ok(());
            };
            self.since = Some(changes.position());
            let ChangePage::Since { ids, has_more, .. } = changes else {
                self.copy.clone_from(fresh);
                return Ok(());
            };
            for id in ids {
                match fresh.get(id) {
                    Some(metadata) => self.copy.insert(id.clone(), Arc::clone(metadata)),
                    None => self.copy.remove(id),
                };
            }
            if !has_more {
                prop_assert_eq!(&self.copy, fresh);
                return Ok(());
            }
        }
    }
}

fn cache_file(disk: &Disk) -> Option<PathBuf> {
    let all = files(disk.config(true).cache.as_ref().filter(|cache| cache.is_dir())?);
    all.into_iter().find(|file| file.extension().is_some_and(|extension| extension == "bin"))
}

fn edit_cache(file: &Path, edit: &CacheEdit) {
    let copy = file.with_extension("copy");
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    match edit {
        CacheEdit::Cut => bytes.truncate(middle),
        CacheEdit::Flip => bytes[middle] ^= 1,
        CacheEdit::Remove => return fs::remove_file(file).unwrap(),
        CacheEdit::Copy => return fs::write(copy, bytes).unwrap(),
        CacheEdit::PutBack => match fs::read(copy) {
            Ok(copied) => bytes = copied,
            Err(_) => return,
        },
    }
    fs::write(file, bytes).unwrap();
}

async fn get(store: &FsStore, id: &DocumentId) -> Option<Option<Document>> {
    let found = store.get(&PROJECT(), std::slice::from_ref(id)).await;
    found.ok().map(|found| found.into_iter().next().flatten())
}

/// Checks that an acknowledged commit is on disk.
async fn acknowledge(store: &FsStore, change: DocumentChange) -> TestCaseResult {
    let (id, version) = (change.id().clone(), change.version());
    if store.commit(&PROJECT(), commit(vec![change])).await.is_ok() {
        let found = get(store, &id).await.flatten();
        prop_assert_eq!(found.map(|document| document.version), version, "{}", id);
    }
    Ok(())
}

fn play(area: DocumentArea, steps: &[Step]) -> TestCaseResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let disk = Disk::new(area);
        let mut readers = [Reader::new(&disk), Reader::new(&disk)];
        for step in steps {
            match step {
                Step::Edit(edit) => disk.apply(edit),
                Step::Call(store, call) => readers[*store].call(&disk, call).await?,
            }
        }
        for reader in &mut readers {
            reader.call(&disk, &Call::Changes(Refresh::Incremental)).await?;
            reader.call(&disk, &Call::Find).await?;
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn random_knowledge_edits_are_visible_to_next_call(steps in steps()) {
        play(DocumentArea::Knowledge, &steps)?;
    }

    #[test]
    fn random_backlog_edits_are_visible_to_next_call(steps in steps()) {
        play(DocumentArea::Backlog, &steps)?;
    }
}

#[test]
fn cached_body_is_returned_only_for_same_stamp() {
    let (project, id, layout) =
        (Project::new(), DocumentId::section("a"), RequirementsLayout::new(None));
    project.write(project.file(&DocumentId::instructions()), "# Agents");
    project.write(project.file(&id), "old");
    let root = ProjectRoot::open(&project.root).unwrap();
    let location = ProjectTree::new(&root, &layout).locate(&id).unwrap().unwrap();
    let content = read_once(&location).unwrap().unwrap();
    let stamp = content.stamp;
    let mut index = MetadataIndex::new(WatchQueue::default());
    // The stamp of a new file is not reliable.
    index.record_read(&id, &content);
    assert_eq!(index.cached_document(&id, stamp), None);
    let reliable = FileContent { is_stamp_reliable: true, ..content };
    for _ in 0..2 {
        index.record_read(&id, &reliable);
    }
    assert_eq!(index.cached_document(&id, stamp).unwrap().body, "old");
    project.write(project.file(&id), "newer");
    let changed = list_files::stat_file(&location.dir, &location.name).unwrap();
    assert_eq!(index.cached_document(&id, changed), None);
}
