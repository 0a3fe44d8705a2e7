//! The simplest store of documents: maps in memory, and lists that are computed from all documents.
//! It shares no code with the storages, which are compared with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, HistoryRecord, RecordReader,
    RecordWriter,
};
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, CommitResult, DocumentChange, DocumentFilter, DocumentRepository,
    MetadataPage, Refresh, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::ports::history::{PastContent, PastEntry, PresentEntry};
use reqlore_domain::ports::record_list::{OrderField, RecordPage, RecordQuery, list_position};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::values::value_key;

#[derive(Debug, Default)]
pub struct ModelStore(Mutex<BTreeMap<ProjectKey, ModelProject>>);

#[derive(Debug, Default)]
struct ModelProject {
    documents: BTreeMap<DocumentId, DocumentRecord>,
    /// The earlier versions of each document, oldest first.
    history: BTreeMap<DocumentId, Vec<PastEntry>>,
    marks: BTreeMap<ItemKind, u32>,
    /// The last change of each document.
    changed: BTreeMap<DocumentId, Revision>,
    revision: Revision,
}

impl ModelStore {
    fn with<T>(&self, project: &ProjectKey, action: impl FnOnce(&mut ModelProject) -> T) -> T {
        action(self.0.lock().unwrap().entry(project.clone()).or_default())
    }
}

impl ModelProject {
    fn get(&self, ids: &[DocumentId]) -> Vec<Option<Document>> {
        let find = |id| self.documents.get(id).map(|record| record.document.clone());
        ids.iter().map(find).collect()
    }

    fn metadata(&self, kind: DocumentKind) -> Vec<Arc<DocumentMeta>> {
        let records = self.documents.values().filter(|record| record.document.id.kind == kind);
        let meta = |record: &DocumentRecord| {
            Arc::new(DocumentMeta::from_document(&record.document, record.modified))
        };
        records.map(meta).collect()
    }

    fn backlinks(&self, query: &BacklinkQuery) -> Vec<Vec<Arc<DocumentMeta>>> {
        let kinds = DocumentKind::ALL.into_iter().filter(|kind| query.kinds.contains(kind));
        let all: Vec<_> = kinds.flat_map(|kind| self.metadata(kind)).collect();
        let sources = |target: &String| {
            let links = |meta: &&Arc<DocumentMeta>| meta.links().iter().any(|(_, to)| to == target);
            all.iter().filter(links).cloned().collect()
        };
        query.targets.iter().map(sources).collect()
    }

    fn mark(&self, kind: ItemKind) -> u32 {
        self.marks.get(&kind).copied().unwrap_or_default()
    }

    fn apply(&mut self, project: &ProjectKey, change: &DocumentChange, made: &WriteContext) {
        let id = change.id();
        self.changed.insert(id.clone(), self.revision);
        if let Some(Reference { kind, number }) = Reference::from_document(id) {
            self.marks.insert(kind, number.max(self.mark(kind)));
        }
        let (at, origin) = (made.at, made.origin());
        let old = self.documents.get(id);
        let version = change.version();
        // The same text is no new version.
        if old.map(|old| old.document.version) == version {
            return;
        }
        let past = self.history.entry(id.clone()).or_default();
        let path = old.and_then(|old| old.path.clone());
        if let Some(DocumentRecord { document, modified, entry, .. }) = self.documents.remove(id) {
            let PresentEntry { number, origin } = entry;
            let text = PastContent::Text(document.body);
            past.push(PastEntry { number, at: modified, ended: at, origin, content: text });
        }
        let number = past.len() as u64 + 1;
        match change {
            DocumentChange::Put { document } => {
                let (project, document) = (project.clone(), document.clone());
                let entry = PresentEntry { number, origin };
                let record = DocumentRecord { project, document, modified: at, path, entry };
                self.documents.insert(id.clone(), record);
            }
            DocumentChange::Delete { .. } => {
                let deleted = PastContent::Deleted;
                past.push(PastEntry { number, at, ended: at, origin, content: deleted });
            }
        }
    }
}

#[async_trait]
impl DocumentRepository for ModelStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        Ok(self.with(project, |project| project.get(ids)))
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let documents = self.with(project, |project| project.get(ids));
        Ok(documents.iter().map(|found| found.as_ref().map(|found| found.version)).collect())
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let all = self.with(project, |project| project.metadata(filter.kind));
        Ok(MetadataPage::select(all, filter))
    }

    async fn list(&self, project: &ProjectKey, query: &RecordQuery) -> StoreResult<RecordPage> {
        let all = self.with(project, |project| project.metadata(query.kind));
        let has_fields = !query.filter.fields.is_empty();
        let is_custom = matches!(query.order.field, OrderField::Custom(_));
        let is_item = matches!(query.kind, DocumentKind::Item(_));
        if is_item && (is_custom || has_fields && query.order.field == OrderField::default()) {
            return Ok(filter_items(all, query));
        }
        Ok(RecordPage::select(all, query))
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let all = self.with(project, |project| project.metadata(kind));
        let named = |word: &String| {
            let has_name = |meta: &&Arc<DocumentMeta>| {
                meta.id.name == *word || meta.reference().as_deref() == Some(word)
            };
            all.iter().filter(has_name).cloned().collect()
        };
        Ok(words.iter().map(named).collect())
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        Ok(self.with(project, |project| project.backlinks(links)))
    }

    async fn commit(
        &self,
        key: &ProjectKey,
        mut commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        self.with(key, |project| {
            let reads = &commit.read_set;
            let titles = reads.titles_of.map(|kind| project.metadata(kind)).unwrap_or_default();
            let title = |meta: &Arc<DocumentMeta>| (meta.id.name.clone(), meta.title.clone());
            let snapshot = Snapshot {
                documents: project.get(&reads.documents),
                titles: titles.iter().map(title).collect(),
                backlinks: project.backlinks(&reads.backlinks),
                next_numbers: reads.sequences.iter().map(|kind| project.mark(*kind) + 1).collect(),
            };
            let changes = commit.decide(key, &snapshot)?.changes;
            project.revision.0 += u64::from(!changes.is_empty());
            for change in DocumentChange::last_of_each(&changes) {
                project.apply(key, change, &commit.context);
            }
            let versions = changes.iter().map(DocumentChange::version).collect();
            Ok(CommitResult { revision: project.revision, versions })
        })
    }

    async fn changes_since(
        &self,
        project: &ProjectKey,
        since: Option<ChangePosition>,
        _: usize,
        _: Refresh,
    ) -> StoreResult<ChangePage> {
        Ok(self.with(project, |project| {
            let revision = project.revision;
            let position = ChangePosition { store_id: 1, writer_id: 1, revision };
            let Some(since) = since else { return ChangePage::Reset { position } };
            let is_newer = |change: &(&DocumentId, &Revision)| *change.1 > since.revision;
            let changed = project.changed.iter().filter(is_newer);
            let ids = changed.map(|(id, _)| id.clone()).collect();
            ChangePage::Since { ids, position, has_more: false }
        }))
    }
}

#[async_trait]
impl Archive for ModelStore {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        let mut records = Vec::new();
        for (key, project) in &*self.0.lock().unwrap() {
            records.extend(project.documents.values().cloned().map(ArchiveRecord::Document));
            for (&kind, &number) in &project.marks {
                let mark = HighWaterMark { project: key.clone(), kind, number };
                records.push(ArchiveRecord::HighWaterMark(mark));
            }
            for (id, entry) in project
                .history
                .iter()
                .flat_map(|(id, past)| past.iter().map(move |entry| (id.clone(), entry.clone())))
            {
                let record = HistoryRecord { project: key.clone(), document: id, entry };
                records.push(ArchiveRecord::History(record));
            }
        }
        records.sort_by_key(ArchiveRecord::key);
        let is_document = |record: &&_| matches!(record, ArchiveRecord::Document(_));
        let total = records.iter().filter(is_document).count();
        Ok(Box::new(ModelRecords { records, total }))
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        Err(StoreError::Internal("no test imports into it".to_owned()))
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

struct ModelRecords {
    records: Vec<ArchiveRecord>,
    total: usize,
}

#[async_trait]
impl RecordReader for ModelRecords {
    fn total_documents(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        Ok(std::mem::take(&mut self.records))
    }
}

/// The keys of the values of a custom field or the status of an item.
pub(crate) fn sort_keys(meta: &DocumentMeta, name: &str) -> Vec<String> {
    let item = meta.item.as_ref().unwrap();
    match name {
        "status" => item.status.iter().map(|status| value_key(status.name())).collect(),
        _ => item.custom.get(name).iter().map(|text| value_key(text)).collect(),
    }
}

/// Filters and sorts items by custom fields in the plainest way.
fn filter_items(all: Vec<Arc<DocumentMeta>>, query: &RecordQuery) -> RecordPage {
    let filter = &query.filter;
    let mut page = RecordPage::default();
    let mut found: Vec<_> = Vec::new();
    for meta in all {
        let Some(item) = meta.item.as_ref().filter(|item| item.reference.is_some()) else {
            continue;
        };
        let matches = [
            filter.priority.is_none_or(|one| item.priority == Some(one)),
            filter.requirement_type.is_none_or(|one| item.requirement_type == Some(one)),
            filter.parents.iter().all(|all| item.parent.is_some_and(|one| all.contains(&one))),
            filter.fields.iter().all(|(name, key)| sort_keys(&meta, name).contains(key)),
            filter.matches_any_status(&meta),
        ];
        if matches != [true; 5] {
            continue;
        }
        if let Some(status) = item.status {
            *page.by_status.entry(status).or_default() += 1;
        }
        if filter.status.is_none() || filter.status == item.status {
            found.push(meta);
        }
    }
    page.total = found.len();
    found.sort_by_key(list_position_of);
    if let OrderField::Custom(order) = &query.order.field
        && filter.fields.iter().all(|(name, _)| *name != order.name)
    {
        let rank = |meta: &Arc<DocumentMeta>| sort_keys(meta, &order.name).first().cloned();
        let choice = |key: &String| order.choices.iter().position(|choice| choice == key);
        let mut choices: Vec<_> = order.choices.iter().cloned().map(Some).collect();
        let mut others: Vec<_> = found.iter().filter_map(rank).collect();
        others.retain(|key| choice(key).is_none());
        others.sort_unstable();
        others.dedup();
        if query.order.is_reversed {
            choices.reverse();
            others.reverse();
        }
        let values: Vec<_> = choices.into_iter().chain(others.into_iter().map(Some)).collect();
        let place = |meta: &Arc<DocumentMeta>| {
            let value = rank(meta);
            values.iter().position(|one| *one == value).unwrap_or(values.len())
        };
        found.sort_by_key(place);
    } else if query.order.is_reversed && query.order.field == OrderField::default() {
        found.reverse();
    }
    let last = query.after.as_ref().map(|(.., name)| name);
    let start = last.and_then(|last| found.iter().position(|meta| meta.id.name == *last));
    found.drain(..start.map_or(0, |last| last + 1));
    let has_more = found.len() > query.limit;
    found.truncate(query.limit);
    page.next = found.last().filter(|_| has_more).and_then(|last| query.position(last));
    page.metadata = found;
    page
}

fn list_position_of(meta: &Arc<DocumentMeta>) -> impl Ord + use<> {
    list_position(meta)
}
