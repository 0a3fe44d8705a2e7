//! Model test: random histories of operations give the same answers as [`ModelStore`].
//!
//! `REQLORE_MODEL_OPERATIONS` sets the number of operations, 300 by default. A failing history is
//! shrunk to the shortest one that still differs.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, DocumentChange, DocumentFilter, DocumentRepository, MetadataPage,
    ReadSet, Refresh, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::ports::record_list::{
    AssigneeFilter, DetailFilter, FieldOrder, OrderField, RecordCounts, RecordFilter, RecordOrder,
    RecordPage, RecordQuery, RecordSelection, SortField, list_position,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::values::value_key;

use crate::archive::read_records;
use crate::model_store::{ModelStore, sort_keys};
use crate::{OpenStorage, test_context};

/// Maximum length of a history.
const MAX_OPERATIONS: usize = 40;

#[derive(Debug, Clone)]
enum StoreOperation {
    Commit { project: bool, changes: Vec<(usize, Option<usize>)>, refuse: bool },
    Get { project: bool, ids: Vec<usize> },
    Find { project: bool, kind: DocumentKind, after: Option<usize>, limit: usize },
    Items { project: bool, kind: ItemKind, filter: usize, order: RecordOrder, limit: usize },
    Diagnostics { project: bool, kind: DocumentKind, limit: usize },
    Entities { project: bool, kind: usize, word: usize, limit: usize },
    Lookup { project: bool, kind: DocumentKind, words: Vec<usize> },
    Backlinks { project: bool, kinds: Vec<DocumentKind>, words: Vec<usize> },
    Create { project: bool, kind: ItemKind },
    Changes { limit: usize },
    Export,
    Restart,
}

fn document_ids() -> Vec<DocumentId> {
    let entities = ["a", "decisions/dec-1d2c8f", "decisions/b", "n\u{f6}te/deep/x"];
    let mut ids = vec![DocumentId::instructions(), DocumentId::docsets(), DocumentId::schema()];
    ids.extend(["epic", "requirement-b"].map(DocumentId::template));
    ids.extend(["a", "b", "Z9"].map(DocumentId::section));
    ids.extend(entities.map(DocumentId::entity));
    let item = |(kind, name): (usize, &str)| DocumentId {
        kind: DocumentKind::ITEMS.get(kind).copied().unwrap_or(DocumentKind::Deleted),
        name: name.to_owned(),
    };
    ids.extend(
        [(0, "EP-001"), (1, "US-003-3f9a1c"), (2, "REQ-001"), (2, "REQ-001-3f9a1c")].map(item),
    );
    ids.extend([(2, "notes"), (3, "AC-002"), (4, "REQ-001"), (4, "US-009-aaaaaa")].map(item));
    ids
}

/// The last one is so long that a database may split it.
const BODIES: [&str; 11] = [
    ITEM,
    "---\ntitle: S\nstatus: Active\npriority: 1\ntype_name: Data\nuser_story: US-003\n\
     created_at: 2026-01-03\nupdated_at: 2026-01-03\nrisk: high\neffort: 10\n---\n",
    "---\ntitle: S\nstatus: Obsolete\npriority: 1\nrank: Z\n\
     created_at: 1960-01-01\nupdated_at: 2026-01-03\nrisk: [odd, High]\n---\n",
    "---\ntitle: T\nuser_story: US-3\ncreated_at: 2026-01-01\nupdated_at: 2026-01-01\n\
     risk: Low\neffort: 9\n---\n",
    "# Title\r\n\r\n**1.** text\r\n",
    "---\nid: dec-1d2c8f\ntags: [x, y]\nlinks: [iss-aaaa, dec-1d2c8f]\n---\nbody\n",
    "---\nid: a\ntitle: \u{fc}\n---\n",
    "---\nid: [\n---\nbroken",
    "\u{feff}no end",
    "docsets:\n  react:\n",
    LONG,
];

const ITEM: &str = "---\ntitle: I\nepic: EP-1\nuser_story: US-003\ndepends_on: [REQ-1]\n\
                    created_at: 2026-01-01\nupdated_at: 2026-01-02\nrisk: high\n---\nSee dec-1d2c8f, EP-001.\n";

const LONG: &str = match std::str::from_utf8(&[b'x'; 20_000]) {
    Ok(long) => long,
    Err(_) => "",
};

const WORDS: [&str; 11] = [
    "dec-1d2c8f",
    "a",
    "decisions/b",
    "iss-aaaa",
    "",
    "n\u{f6}te/deep/x",
    "EP-001",
    "REQ-001",
    "US-003",
    "US-003-3f9a1c",
    "notes",
];

const ENTITY_KINDS: [Option<&str>; 3] = [None, Some("decision"), Some("a")];

fn item_filters() -> [RecordFilter; 16] {
    let none = RecordFilter::default();
    let [active, obsolete] = [Some(Status::Active), Some(Status::Obsolete)];
    let (first, data) = (Priority::new(1), Some(RequirementType::Data));
    let story = Reference { kind: ItemKind::UserStory, number: 3 };
    let fields = |fields: &[(&str, &str)]| {
        fields.iter().map(|(name, value)| ((*name).to_owned(), value_key(value))).collect()
    };
    let text = |text: &str| DetailFilter { text: Some(text.to_owned()), ..DetailFilter::default() };
    [
        none.clone(),
        RecordFilter { status: active, ..none.clone() },
        RecordFilter { status: obsolete, requirement_type: data, ..none.clone() },
        RecordFilter { priority: first, ..none.clone() },
        RecordFilter { status: active, priority: first, ..none.clone() },
        RecordFilter { requirement_type: data, ..none.clone() },
        RecordFilter { parents: Some([story].into()), ..none.clone() },
        RecordFilter { parents: Some([story].into()), priority: first, ..none.clone() },
        RecordFilter { details: text("-00"), ..none.clone() },
        RecordFilter { status: active, details: text("s"), ..none.clone() },
        RecordFilter { fields: fields(&[("risk", "high")]), ..none.clone() },
        RecordFilter { status: active, fields: fields(&[("risk", "high")]), ..none.clone() },
        RecordFilter { priority: first, fields: fields(&[("risk", "HIGH")]), ..none.clone() },
        RecordFilter { fields: fields(&[("risk", "high"), ("effort", "10")]), ..none.clone() },
        RecordFilter {
            parents: Some([story].into()),
            fields: fields(&[("effort", "10.0")]),
            ..none.clone()
        },
        RecordFilter {
            details: DetailFilter { assignee: Some(AssigneeFilter::Unassigned), ..text("i") },
            ..none
        },
    ]
}

fn order_fields() -> Vec<OrderField> {
    let mut fields: Vec<_> = SortField::ALL.map(OrderField::Builtin).into();
    for (name, choices) in [
        ("risk", &["Low", "High"][..]),
        ("risk", &[]),
        ("effort", &[]),
        ("status", &["Active", "Draft"]),
    ] {
        let choices = choices.iter().map(|choice| value_key(choice)).collect();
        fields.push(OrderField::Custom(FieldOrder { name: name.to_owned(), choices }));
    }
    fields
}

fn operations() -> impl Strategy<Value = Vec<StoreOperation>> {
    let id = 0..document_ids().len();
    let kind = proptest::sample::select(DocumentKind::ALL.to_vec());
    let item_kind = proptest::sample::select(ItemKind::ALL.to_vec());
    let filter = 0..item_filters().len();
    let field = proptest::sample::select(order_fields());
    let order =
        (field, any::<bool>()).prop_map(|(field, is_reversed)| RecordOrder { field, is_reversed });
    let words = proptest::collection::vec(0..WORDS.len(), 0..4);
    let change = (id.clone(), option::weighted(0.8, 0..BODIES.len()));
    let changes = proptest::collection::vec(change, 0..4);
    let operation = prop_oneof![
        8 => (any::<bool>(), changes, proptest::bool::weighted(0.1)).prop_map(
            |(project, changes, refuse)| StoreOperation::Commit { project, changes, refuse }
        ),
        3 => (any::<bool>(), proptest::collection::vec(id.clone(), 0..5))
            .prop_map(|(project, ids)| StoreOperation::Get { project, ids }),
        3 => (any::<bool>(), kind.clone(), option::of(id), 1..5usize)
            .prop_map(|(project, kind, after, limit)| {
                StoreOperation::Find { project, kind, after, limit }
            }),
        3 => (any::<bool>(), item_kind.clone(), filter, order, 1..4usize)
            .prop_map(|(project, kind, filter, order, limit)| {
                StoreOperation::Items { project, kind, filter, order, limit }
            }),
        1 => (any::<bool>(), kind.clone(), 0..3usize)
            .prop_map(|(project, kind, limit)| StoreOperation::Diagnostics { project, kind, limit }),
        3 => (any::<bool>(), 0..ENTITY_KINDS.len(), 0..WORDS.len(), 0..3usize)
            .prop_map(|(project, kind, word, limit)| {
                StoreOperation::Entities { project, kind, word, limit }
            }),
        3 => (any::<bool>(), kind.clone(), words.clone())
            .prop_map(|(project, kind, words)| StoreOperation::Lookup { project, kind, words }),
        3 => (any::<bool>(), proptest::collection::vec(kind.clone(), 0..9), words)
            .prop_map(|(project, kinds, words)| {
                StoreOperation::Backlinks { project, kinds, words }
            }),
        2 => (any::<bool>(), item_kind)
            .prop_map(|(project, kind)| StoreOperation::Create { project, kind }),
        3 => (1..4usize).prop_map(|limit| StoreOperation::Changes { limit }),
        1 => Just(StoreOperation::Export),
        1 => Just(StoreOperation::Restart),
    ];
    proptest::collection::vec(operation, 1..MAX_OPERATIONS)
}

/// Runs histories on fresh stores until enough operations were compared.
pub fn check_histories(open: impl Fn() -> OpenStorage) {
    let wanted = operation_count();
    let compared = std::cell::Cell::new(0);
    let cases = u32::try_from(wanted / (MAX_OPERATIONS / 2) + 1).unwrap();
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let outcome = TestRunner::new(config).run(&operations(), |history| {
        compared.set(compared.get() + history.len());
        // Shown even if the search for a shorter history takes too long.
        let result = crate::run(run_history(open(), &history));
        result.inspect_err(|reason| println!("{reason}")).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => println!("{} operations, no difference", compared.get()),
        Err(TestError::Fail(reason, history)) => panic!("{reason}\nafter {history:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment sets the length of the test")]
fn operation_count() -> usize {
    let count = std::env::var("REQLORE_MODEL_OPERATIONS").ok();
    count.and_then(|count| count.parse().ok()).unwrap_or(300)
}

/// One of the two compared stores, with the revisions that it returned.
struct ModelSide {
    store: Arc<dyn DocumentRepository>,
    archive: Arc<dyn Archive>,
    projects: [ProjectKey; 2],
    /// Both stores keep the history of documents.
    with_history: bool,
    /// The position after which changes are requested.
    since: Option<ChangePosition>,
    /// The last position that was returned.
    latest: Option<ChangePosition>,
}

async fn run_history(open: OpenStorage, history: &[StoreOperation]) -> Result<(), String> {
    let storage = open.await;
    let projects = [storage.project.clone(), storage.other.clone()];
    let with_history = storage.store.keeps_history();
    let model = Arc::new(ModelStore::default());
    let mut expected = ModelSide::new(model.clone(), model.clone(), projects.clone(), with_history);
    let mut found =
        ModelSide::new(storage.store.clone(), storage.store.clone(), projects, with_history);
    for (at, operation) in history.iter().enumerate() {
        if let (StoreOperation::Restart, Some(reopen)) = (operation, &storage.reopen) {
            (found.store, found.archive) = (model.clone(), model.clone());
            let reopened = reopen().await.map_err(|error| format!("reopen: {error}"))?;
            (found.store, found.archive) = (reopened.clone(), reopened);
            continue;
        }
        let answers = (expected.answer(operation).await, found.answer(operation).await);
        if let (RESET, _) | (_, RESET) = (answers.0.as_str(), answers.1.as_str()) {
            // After a reset both stores start at their latest position.
            for side in [&mut expected, &mut found] {
                side.since = side.latest;
            }
        } else if answers.0 != answers.1 {
            let (expected, found) = answers;
            return Err(format!("step {at}, {operation:?}: {found}\nbut the model: {expected}"));
        }
    }
    Ok(())
}

const RESET: &str = "reset";

impl ModelSide {
    fn new(
        store: Arc<dyn DocumentRepository>,
        archive: Arc<dyn Archive>,
        projects: [ProjectKey; 2],
        with_history: bool,
    ) -> Self {
        Self { store, archive, projects, with_history, since: None, latest: None }
    }

    fn project(&self, first: bool) -> &ProjectKey {
        &self.projects[usize::from(!first)]
    }

    /// Returns the answer as text, without values that may differ: revisions, times and places.
    async fn answer(&mut self, operation: &StoreOperation) -> String {
        let all = document_ids();
        match operation {
            StoreOperation::Commit { project, changes, refuse } => {
                let commit = changes_commit(changes, *refuse);
                let committed = self.store.commit(self.project(*project), commit).await;
                answer_text(committed.map(|committed| committed.versions))
            }
            StoreOperation::Get { project, ids } => {
                let ids: Vec<DocumentId> = ids.iter().map(|at| all[*at].clone()).collect();
                let project = self.project(*project);
                let documents = self.store.get(project, &ids).await;
                format!(
                    "{} {}",
                    answer_text(documents),
                    answer_text(self.store.versions(project, &ids).await)
                )
            }
            StoreOperation::Find { project, kind, after, limit } => {
                let after = after.map(|at| all[at].name.clone());
                let filter = DocumentFilter { kind: *kind, after_name: after, limit: *limit };
                let page = self.store.find(self.project(*project), &filter).await;
                answer_text(page.map(|page| MetadataPage {
                    metadata: page.metadata.iter().map(without_times).collect(),
                    ..page
                }))
            }
            StoreOperation::Items { project, kind, filter, order, limit } => {
                let (filter, order) = (item_filters()[*filter].clone(), order.clone());
                let query = RecordQuery { filter, order, ..RecordQuery::of_items(*kind, *limit) };
                self.items(self.project(*project), query).await
            }
            StoreOperation::Diagnostics { project, kind, limit } => {
                let selection = RecordSelection::WithDiagnostic;
                let query = RecordQuery::select(*kind, selection, *limit);
                let diagnostics = self.store.list(self.project(*project), &query).await;
                answer_text(diagnostics.map(|diagnostics| {
                    let ids = diagnostics.metadata.iter().map(|meta| meta.id.clone());
                    (ids.collect::<Vec<_>>(), diagnostics.total)
                }))
            }
            StoreOperation::Entities { project, kind, word, limit } => {
                let (project, kind) = (self.project(*project), ENTITY_KINDS[*kind]);
                self.entities(project, kind, WORDS[*word], *limit).await
            }
            StoreOperation::Lookup { project, kind, words } => {
                let words: Vec<String> = words.iter().map(|at| WORDS[*at].to_owned()).collect();
                let named = self.store.lookup(self.project(*project), *kind, &words).await;
                answer_text::<Vec<Vec<Arc<DocumentMeta>>>>(all_without_times(named))
            }
            StoreOperation::Backlinks { project, kinds, words } => {
                let targets = words.iter().map(|at| WORDS[*at].to_owned()).collect();
                let links = BacklinkQuery { kinds: kinds.clone(), targets };
                answer_text(all_without_times(
                    self.store.backlinks(self.project(*project), &links).await,
                ))
            }
            StoreOperation::Create { project, kind } => {
                let commit = create_commit(*kind);
                let committed = self.store.commit(self.project(*project), commit).await;
                answer_text(committed.map(|committed| committed.versions))
            }
            StoreOperation::Changes { limit } => self.changes(*limit).await,
            StoreOperation::Export => {
                let first = &self.projects[0];
                answer_text(export_project(&*self.archive, first, self.with_history).await)
            }
            StoreOperation::Restart => String::new(),
        }
    }

    /// Reads all pages. Returns the names sorted, because an item without a time has that of its
    /// file, the values of a custom field in the order of the list, and whether items with the same
    /// value are in the order of lists. Adds the statuses of children.
    async fn items(&self, project: &ProjectKey, mut query: RecordQuery) -> String {
        let parents = [(ItemKind::Epic, 1), (ItemKind::UserStory, 3)];
        let parents = parents.map(|(kind, number)| Reference { kind, number });
        let mut children = RecordQuery::select(query.kind, RecordSelection::Listed, 0);
        children.filter.parents = Some(parents.into());
        let children = children.count_by(RecordCounts::ChildStatus);
        let children = self.store.list(project, &children).await;
        let children = answer_text(children.map(|page| page.by_parent));
        let field = match &query.order.field {
            OrderField::Builtin(_) => None,
            OrderField::Custom(order) => Some(order.name.clone()),
        };
        let value = |meta: &Arc<DocumentMeta>| {
            field.as_ref().and_then(|field| sort_keys(meta, field).into_iter().next())
        };
        let (mut places, mut totals) = (Vec::new(), Vec::new());
        loop {
            let page = match self.store.list(project, &query).await {
                Ok(page) => page,
                Err(error) => return format!("failed: {error}"),
            };
            let place = |meta| Some((value(meta), list_position(meta)?));
            places.extend(page.metadata.iter().filter_map(place));
            totals.push((page.total, page.by_status));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        let is_whole = field.is_some() || query.order == RecordOrder::default();
        let is_sorted = places.is_sorted_by(|a, b| a.0 != b.0 || a.1 <= b.1);
        let values: Vec<_> = places.iter().map(|(value, _)| value).collect();
        let mut names: Vec<&str> = places.iter().map(|(_, position)| &*position.3).collect();
        names.sort_unstable();
        format!("{names:?} {values:?} {totals:?} {} {children}", is_sorted || !is_whole)
    }

    /// Returns the answers to all questions about entities.
    async fn entities(
        &self,
        project: &ProjectKey,
        kind: Option<&str>,
        word: &str,
        limit: usize,
    ) -> String {
        let all = RecordQuery::of_entities(None, limit);
        let of_kind = RecordQuery::of_entities(kind.map(str::to_owned), limit);
        let word = word.to_uppercase();
        let [spelled, similar] =
            [RecordSelection::Spelled(word.clone()), RecordSelection::Similar(word)];
        let order =
            RecordOrder { field: order_fields().remove(SortField::ALL.len()), is_reversed: true };
        let mut answers = String::new();
        for query in [
            all.clone().count_by(RecordCounts::Kind),
            of_kind.clone().count_by(RecordCounts::Tag),
            RecordQuery { selection: RecordSelection::Untagged, ..of_kind.clone() },
            RecordQuery { selection: spelled, ..all.clone() },
            RecordQuery { selection: similar, ..all },
            RecordQuery { order, ..of_kind },
        ] {
            let page = self.store.list(project, &query).await;
            answers += &answer_text(page.map(|page| RecordPage { unread: Vec::new(), ..page }));
        }
        answers
    }

    /// Returns the changes in the first project after the position in `since`, in pages.
    async fn changes(&mut self, limit: usize) -> String {
        let project = &self.projects[0];
        let (mut since, mut changed) = (self.since, BTreeSet::new());
        loop {
            let page = self.store.changes_since(project, since, limit, Refresh::Incremental).await;
            match page {
                Err(error) => return format!("failed: {error}"),
                Ok(ChangePage::Reset { position }) => {
                    self.latest = Some(position);
                    return RESET.to_owned();
                }
                Ok(ChangePage::Since { ids, position, has_more }) => {
                    changed.extend(ids);
                    since = Some(position);
                    if !has_more {
                        self.latest = since;
                        return format!("{changed:?}");
                    }
                }
            }
        }
    }
}

fn changes_commit(changes: &[(usize, Option<usize>)], refuse: bool) -> CommitRequest {
    let all = document_ids();
    let mut documents: Vec<DocumentId> = Vec::new();
    let mut decided = Vec::new();
    for (at, body) in changes {
        let id = all[*at].clone();
        // A document changes at most once in a commit.
        if documents.contains(&id) {
            continue;
        }
        documents.push(id.clone());
        decided.push(match body {
            Some(body) => DocumentChange::put(id, BODIES[*body]),
            None => DocumentChange::Delete { id },
        });
    }
    let decide = move |_: &_| {
        if refuse {
            return Err(Error::new(ErrorKind::Conflict, "refused"));
        }
        Ok(decided.clone())
    };
    CommitRequest {
        read_set: ReadSet {
            documents,
            titles_of: Some(DocumentKind::Section),
            ..ReadSet::default()
        },
        decide: Box::new(decide),
        context: test_context(),
    }
}

/// Creates an item with the next free number, which is also in its text.
fn create_commit(kind: ItemKind) -> CommitRequest {
    let decide = move |snapshot: &Snapshot| {
        let reference = Reference { kind, number: snapshot.next_numbers[0] };
        let text = format!("---\ntitle: {reference}\ncreated_at: 2026-01-01\n---\n");
        Ok(vec![DocumentChange::put(reference.document_id("", "cccccc"), text)])
    };
    let reads = ReadSet { sequences: vec![kind], ..ReadSet::default() };
    CommitRequest { read_set: reads, decide: Box::new(decide), context: test_context() }
}

/// Removes the times, which may come from the file.
fn without_times(meta: &Arc<DocumentMeta>) -> Arc<DocumentMeta> {
    let mut meta = DocumentMeta::clone(meta);
    if let Some(item) = &mut meta.item {
        let item = Arc::make_mut(item);
        (item.created_at, item.updated_at) = Default::default();
    }
    Arc::new(meta)
}

fn all_without_times(
    named: StoreResult<Vec<Vec<Arc<DocumentMeta>>>>,
) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    Ok(named?.iter().map(|list| list.iter().map(without_times).collect()).collect())
}

/// Returns the documents, marks and history of the first project, as an export contains them.
async fn export_project(
    store: &dyn Archive,
    first: &ProjectKey,
    with_history: bool,
) -> StoreResult<Vec<String>> {
    let mut all = Vec::new();
    for record in read_records(store).await? {
        match record {
            ArchiveRecord::Document(record) if record.project == *first => {
                all.push(format!("{:?}", record.document));
                if with_history {
                    all.push(format!("{:?}", record.entry));
                }
            }
            ArchiveRecord::History(record) if with_history && record.project == *first => {
                all.push(format!("{record:?}"));
            }
            ArchiveRecord::HighWaterMark(mark) if mark.project == *first => {
                all.push(format!("{:?} {}", mark.kind, mark.number));
            }
            _ => {}
        }
    }
    Ok(all)
}

fn answer_text<T: std::fmt::Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(StoreError::Decided(error)) => format!("refused: {error}"),
        Err(error) => format!("failed: {error}"),
    }
}
