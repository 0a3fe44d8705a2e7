//! The list of writers is shortened after a million revisions.

use reqlore_contract::{Storage, run};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{Refresh, Revision};
use reqlore_row_store::RowStore;
use reqlore_row_store::database::Database;
use reqlore_row_store::row::{RowChange, TableRow, Value};
use reqlore_row_store::tables::{PROJECTS, WRITERS};
use reqlore_storage_memory::database::MemoryDatabase;

const REVISIONS: i64 = 1_000_000;

#[test]
fn old_writers_are_removed_and_their_positions_unknown() {
    let database = MemoryDatabase::new(1, None);
    let storage = Storage::in_memory(run(RowStore::start(database.clone())).unwrap());
    let project = Value::from(storage.project.as_str());
    let insert = |values: &[Value<'_>]| RowChange::Insert(TableRow::of(values));
    let last = REVISIONS + 999;
    let writers = [1, 400, 800, last]
        .map(|first| insert(&[project, Value::Integer(first), Value::Integer(first)]));
    let projects = insert(&[project, Value::Integer(last), 0.into(), Value::Integer(last)]);
    let mut session = database.open_session();
    session.begin(&[]).unwrap();
    session.write(vec![(&WRITERS, writers.into()), (&PROJECTS, vec![projects])]).unwrap();
    session.commit();
    run(storage.put(&DocumentId::section("a"), "one"));
    let rows = database.rows(&WRITERS);
    let firsts: Vec<Value<'_>> = rows.keys().map(|key| key.value(1)).collect();
    assert_eq!(firsts, [800, last, last + 1].map(Value::Integer));
    let ChangePosition { store_id, .. } = run(changes(&storage, None)).position();
    for (revision, is_known) in [(799, false), (800, true)] {
        let writer_id = if is_known { 800 } else { 400 };
        let position = ChangePosition { store_id, writer_id, revision: Revision(revision) };
        let page = run(changes(&storage, Some(position)));
        assert_eq!(matches!(page, ChangePage::Since { .. }), is_known, "{page:?}");
    }
}

async fn changes(storage: &Storage, since: Option<ChangePosition>) -> ChangePage {
    let changes = storage.store.changes_since(&storage.project, since, 9, Refresh::Incremental);
    changes.await.unwrap()
}
