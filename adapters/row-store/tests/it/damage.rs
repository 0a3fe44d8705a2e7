//! A driver that returns wrong rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use reqlore_contract::{Storage, run};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::archive::Archive as _;
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, StoreResult};
use reqlore_domain::ports::identity::IdentityRepository as _;
use reqlore_domain::ports::record_list::{RecordCounts, RecordQuery};
use reqlore_domain::ports::storage_health::StorageHealth as _;
use reqlore_domain::project_key::ProjectKey;
use reqlore_row_store::database::{CommitOutcome, Database, RowSource, WriteSession};
use reqlore_row_store::row::{RowChange, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{BODIES, ColumnType, DOCUMENTS, Table};
use reqlore_row_store::{LIST_TABLES, RowStore};
use reqlore_storage_memory::database::MemoryDatabase;

/// A database that finds each row of a table by each query, while it is damaged.
#[derive(Debug)]
struct WrongIndexes {
    database: Arc<dyn Database>,
    is_damaged: AtomicBool,
}

impl WrongIndexes {
    fn of(database: Arc<dyn Database>) -> Arc<Self> {
        Arc::new(Self { database, is_damaged: AtomicBool::new(true) })
    }
}

fn without_conditions(queries: &[RowQuery]) -> Vec<RowQuery> {
    let all =
        |query: &RowQuery| RowQuery { is_narrow: query.is_narrow, ..RowQuery::all(query.table) };
    queries.iter().map(all).collect()
}

#[async_trait]
impl RowSource for WrongIndexes {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        let is_damaged = self.is_damaged.load(Ordering::Relaxed);
        self.database.read(if is_damaged { without_conditions(&queries) } else { queries }).await
    }
}

#[async_trait]
impl Database for WrongIndexes {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        self.database.begin_snapshot().await
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        self.database.open_session()
    }
}

#[test]
fn row_that_does_not_match_its_query_is_damage() {
    let database: Arc<dyn Database> = MemoryDatabase::new(1, None);
    let store = run(RowStore::start(Arc::clone(&database))).unwrap();
    let storage = Storage::in_memory(store);
    let ids = ["a", "b"].map(DocumentId::section);
    run(storage.put(&ids[0], "# A"));
    let wrong = run(RowStore::start(WrongIndexes::of(database))).unwrap();
    // Both find the only document.
    run(wrong.get(&storage.project, &ids[..1])).unwrap();
    let error = run(wrong.get(&storage.project, &ids[1..])).unwrap_err().to_string();
    assert!(error.contains("is damaged (its structure: an index of table documents)"), "{error}");
    let none =
        DocumentFilter { after_name: Some("a".into()), ..DocumentFilter::of_kind(ids[0].kind) };
    run(wrong.find(&storage.project, &none)).unwrap_err();
}

/// Damage of an index may hide rows, that of a text does not.
#[test]
fn damaged_index_stops_answers_that_may_lack_rows() {
    let database: Arc<dyn Database> = MemoryDatabase::new(1, None);
    let storage = Storage::in_memory(run(RowStore::start(Arc::clone(&database))).unwrap());
    let (project, ids) = (&storage.project, ["a", "b"].map(DocumentId::section));
    run(storage.put(&ids[0], "# A"));
    let indexes = WrongIndexes::of(database);
    let wrong = run(RowStore::start(Arc::clone(&indexes) as Arc<dyn Database>)).unwrap();
    let sections = DocumentFilter::of_kind(DocumentKind::Section);
    let mut export = run(wrong.export()).unwrap();
    assert_eq!(run(wrong.find(project, &sections)).unwrap().metadata.len(), 1);
    run(wrong.get(project, &ids[1..])).unwrap_err();
    indexes.is_damaged.store(false, Ordering::Relaxed);

    let items = RecordQuery::of_items(ItemKind::Epic, 0);
    let kinds = RecordQuery::of_entities(None, 0).count_by(RecordCounts::Kind);
    let answers = [
        run(wrong.find(project, &sections)).map(drop),
        run(wrong.list(project, &items)).map(drop),
        run(wrong.list(project, &kinds)).map(drop),
        run(wrong.lookup(project, ids[0].kind, &["a".to_owned()])).map(drop),
        run(wrong.list_users()).map(drop),
        run(export.next_batch()).map(drop),
        run(async { wrong.export().await?.next_batch().await.map(drop) }),
    ];
    for answer in answers {
        let error = answer.unwrap_err().to_string();
        assert_eq!(Some(error), wrong.known_damage());
    }
    assert!(run(wrong.get(project, &ids[..1])).unwrap()[0].is_some(), "all rows were found");
    run(wrong.find_damage()).unwrap();
}

#[test]
fn damaged_text_stops_no_list() {
    let (database, store) = database_with_lists();
    let row = database.rows(&BODIES).values().next().unwrap().clone();
    let changed = row.replace(BODIES.columns.len() - 1, Value::Binary(b"other"));
    write(&database, &BODIES, RowChange::Update { row: changed, before: row });
    let (project, id) = (ProjectKey::default(), DocumentId::entity("ideas/a"));
    run(store.get(&project, &[id])).unwrap_err();
    assert!(store.known_damage().is_some());
    let entities = DocumentFilter::of_kind(DocumentKind::Entity);
    assert_eq!(run(store.find(&project, &entities)).unwrap().metadata.len(), 2);
}

const REQUIREMENT_PATH: &str = ".reqlore/backlog/requirements/REQ-001.md";

/// A database with three requirements, of which one has a diagnostic, and two entities, of which
/// one has a tag. All rows are intact.
fn database_with_lists() -> (Arc<MemoryDatabase>, RowStore) {
    let database = MemoryDatabase::new(1, None);
    let shared: Arc<dyn Database> = Arc::clone(&database) as _;
    let store = run(RowStore::start(shared)).unwrap();
    let storage = Storage::in_memory(store.clone());
    let requirement = DocumentKind::Item(ItemKind::Requirement);
    for (kind, name, text) in [
        (requirement, "REQ-001", "---\ntitle: A\nstatus: Active\nuser_story: US-001\n---\n"),
        (requirement, "REQ-002", "---\ntitle: B\n---\n"),
        (requirement, "REQ-003", "---\ntitle: [\n---\n"),
        (DocumentKind::Entity, "ideas/a", "---\ntags: [x]\n---\n"),
        (DocumentKind::Entity, "ideas/b", ""),
    ] {
        run(storage.put(&DocumentId { kind, name: name.to_owned() }, text));
    }
    (database, store)
}

/// Writes a change of a row past the store.
fn write(database: &Arc<MemoryDatabase>, table: &'static Table, change: RowChange) {
    let mut session = database.open_session();
    session.begin(&[]).unwrap();
    session.write(vec![(table, vec![change])]).unwrap();
    assert!(matches!(session.commit(), CommitOutcome::Committed));
}

#[test]
fn lists_that_differ_from_the_documents_are_damage() {
    for table in LIST_TABLES {
        let last = table.columns.len() - 1;
        let other = match table.columns[last].kind {
            ColumnType::Integer => Value::Integer(7),
            ColumnType::Binary => Value::Binary(b"other"),
            ColumnType::Text => Value::Text("other"),
        };
        let changes: [&dyn Fn(TableRow) -> RowChange; 3] = [
            &|row| RowChange::Delete { key: row.prefix(table.key_width), before: Some(row) },
            &|row| RowChange::Insert(row.replace(last, other)),
            &|row| RowChange::Insert(row.replace(1, "other".into())),
        ];
        for change in changes {
            let (database, store) = database_with_lists();
            assert_eq!(run(store.find_damage()).unwrap(), Vec::<String>::new());
            let change = change(database.rows(table).values().next().unwrap().clone());
            write(&database, table, change.clone());
            let expected = format!("the list {} differs from the documents", table.name);
            assert_eq!(run(store.find_damage()).unwrap(), [expected], "{change:?}");
        }
    }
}

#[test]
fn columns_that_differ_from_the_metadata_are_damage() {
    for (column, value) in [
        ("reference", Value::Text("REQ-009")),
        ("position", Value::Binary(b"\0")),
        ("status", Value::Text("Obsolete")),
        ("type", Value::Text("Data")),
    ] {
        let (database, store) = database_with_lists();
        let rows = database.rows(&DOCUMENTS);
        let before = rows.values().find(|row| row.value(2) == Value::Text("REQ-001")).unwrap();
        let row = before.replace(DOCUMENTS.index_of(column).unwrap(), value);
        write(&database, &DOCUMENTS, RowChange::Update { row, before: before.clone() });
        let expected = [format!("the row of {REQUIREMENT_PATH} differs from its metadata")];
        assert_eq!(run(store.find_damage()).unwrap(), expected, "{column}");
    }
}

#[test]
fn check_lists_each_damaged_document() {
    let (database, store) = database_with_lists();
    for row in database.rows(&BODIES).values().take(3).cloned() {
        let changed = row.replace(BODIES.columns.len() - 1, Value::Binary(b"other"));
        write(&database, &BODIES, RowChange::Update { row: changed, before: row });
    }
    let paths = [".ixchel/ideas/a.md", ".ixchel/ideas/b.md", REQUIREMENT_PATH];
    assert_eq!(run(store.find_damage()).unwrap(), paths);
}
