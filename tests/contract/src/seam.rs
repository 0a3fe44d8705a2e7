//! Rules of the seam, for every database: [`seam_suite!`](crate::seam_suite), and a comparison with
//! the one in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, mpsc};

use reqlore_domain::ports::documents::StoreError;
use tokio::runtime::{Builder, Runtime};

use reqlore_row_store::database::{CommitOutcome, Database, SessionError, WriteSession};
use reqlore_row_store::row::{RowChange, RowKey, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{ColumnType, DOCUMENTS, HISTORY, LINKS, PROJECTS, Table};
use reqlore_storage_memory::database::MemoryDatabase;
use reqlore_storage_memory::seeded_random::SeededRandom;

/// Generates a test of each rule: `seam_suite!(open())`, where `open()` returns an
/// `Arc<dyn Database>` and a guard.
#[macro_export]
macro_rules! seam_suite {
    ($open:expr) => {
        $crate::seam_cases! { $open; writer_waits_for_the_other_writer
        writes_show_after_the_commit rolled_back_writes_are_undone snapshot_keeps_its_state
        invalid_rows_are_refused queries_match_the_memory_database }
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! seam_cases {
    ($open:expr; $($case:ident)+) => {
        $(#[test]
        fn $case() {
            let (database, _guard) = $open;
            $crate::seam::$case(&database);
        })+
    };
}

fn new_runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn link(name: &str) -> TableRow {
    TableRow::of(&["p", "t", "k", name, "r"].map(Value::from))
}

fn delete(key: RowKey) -> RowChange {
    RowChange::Delete { key, before: None }
}

fn no_rows() -> Vec<TableRow> {
    Vec::new()
}

fn put(row: TableRow) -> Vec<(&'static Table, Vec<RowChange>)> {
    vec![(&LINKS, vec![RowChange::Insert(row)])]
}

fn read(database: &Arc<dyn Database>, query: RowQuery) -> Vec<TableRow> {
    let reading = async { database.read(vec![query]).await.unwrap().remove(0) };
    new_runtime().block_on(reading)
}

fn commit(session: &mut dyn WriteSession) {
    assert!(matches!(session.commit(), CommitOutcome::Committed));
}

pub fn writer_waits_for_the_other_writer(database: &Arc<dyn Database>) {
    let mut one = database.open_session();
    one.begin(&[]).unwrap();
    let (sender, began) = mpsc::channel();
    let mut two = database.open_session();
    let other = std::thread::spawn(move || {
        sender.send(()).unwrap();
        let rows = two.begin(&[RowQuery::all(&LINKS)]).unwrap();
        sender.send(()).unwrap();
        two.roll_back();
        rows
    });
    began.recv().unwrap();
    one.write(put(link("a"))).unwrap();
    assert!(began.try_recv().is_err(), "the other transaction began");
    commit(&mut *one);
    assert_eq!(other.join().unwrap().rows, [vec![link("a")]]);
}

pub fn writes_show_after_the_commit(database: &Arc<dyn Database>) {
    let mut session = database.open_session();
    assert_eq!(session.begin(&[RowQuery::all(&LINKS)]).unwrap().rows, [no_rows()]);
    session.write(put(link("a"))).unwrap();
    session.write(put(link("a"))).unwrap();
    assert_eq!(session.read(&[RowQuery::all(&LINKS)]).unwrap(), [vec![link("a")]]);
    assert!(read(database, RowQuery::all(&LINKS)).is_empty());
    commit(&mut *session);
    assert_eq!(read(database, RowQuery::all(&LINKS)), [link("a")]);
    session.begin(&[]).unwrap();
    session.write(vec![(&LINKS, ["a", "b"].map(|name| delete(link(name))).to_vec())]).unwrap();
    commit(&mut *session);
    assert!(read(database, RowQuery::all(&LINKS)).is_empty());
}

pub fn rolled_back_writes_are_undone(database: &Arc<dyn Database>) {
    let mut session = database.open_session();
    session.roll_back();
    session.begin(&[]).unwrap();
    session.write(put(link("a"))).unwrap();
    session.roll_back();
    session.roll_back();
    session.begin(&[]).unwrap();
    session.write(put(link("b"))).unwrap();
    // Ends the connection, and so the transaction.
    drop(session);
    let mut session = database.open_session();
    assert_eq!(session.begin(&[RowQuery::all(&LINKS)]).unwrap().rows, [no_rows()]);
}

pub fn snapshot_keeps_its_state(database: &Arc<dyn Database>) {
    let all = || vec![RowQuery::all(&LINKS)];
    // The runtime stays alive, because a snapshot may need it until its end.
    let runtime = new_runtime();
    let snapshot = runtime.block_on(database.begin_snapshot()).unwrap();
    assert_eq!(runtime.block_on(snapshot.read(all())).unwrap(), [no_rows()]);
    let mut session = database.open_session();
    let mut write = || {
        session.begin(&[])?;
        session.write(put(link("a"))).unwrap();
        commit(&mut *session);
        Ok(())
    };
    let written = write();
    assert_eq!(runtime.block_on(snapshot.read(all())).unwrap(), [no_rows()]);
    drop(snapshot);
    // A database may have no snapshots: then no transaction begins meanwhile.
    if let Err(refused) = written {
        assert!(matches!(refused, SessionError::Failed(StoreError::Busy { .. })), "{refused:?}");
        write().unwrap();
    }
    assert_eq!(read(database, RowQuery::all(&LINKS)), [link("a")]);
}

pub fn invalid_rows_are_refused(database: &Arc<dyn Database>) {
    let mut session = database.open_session();
    assert!(session.write(put(link("a"))).is_err(), "outside a transaction");
    let number = TableRow::of(&["p".into(), "1".into(), 0.into(), 0.into()]);
    let null = TableRow::of(&["p".into(), Value::Null, 0.into(), 0.into()]);
    for row in [number, null, TableRow::of(&["p".into()])] {
        session.begin(&[]).unwrap();
        let change = vec![(&PROJECTS, vec![RowChange::Insert(row.clone())])];
        assert!(session.write(change).is_err(), "{row:?}");
        session.roll_back();
    }
    session.begin(&[]).unwrap();
    let row = RowChange::Insert(TableRow::of(&["p".into(), 0.into(), 0.into(), 0.into()]));
    assert!(session.write(vec![(&PROJECTS, vec![row.clone(), row])]).is_err(), "a key twice");
    session.roll_back();
    assert!(read(database, RowQuery::all(&LINKS)).is_empty());
}

/// Writes random rows into both databases, and compares the answers of random queries.
pub fn queries_match_the_memory_database(database: &Arc<dyn Database>) {
    let mut random = SeededRandom::new(20);
    let memory: Arc<dyn Database> = MemoryDatabase::new(20, None);
    let tables = [&DOCUMENTS, &HISTORY, &LINKS];
    let mut stored = BTreeMap::new();
    for _ in 0..6 {
        let mut changes = Vec::new();
        for table in tables {
            let mut rows = BTreeMap::new();
            for _ in 0..80 {
                let values: Vec<Value<'_>> = (0..table.columns.len())
                    .map(|column| random_value(&mut random, table, column, true))
                    .collect();
                let row = TableRow::of(&values);
                let key = row.prefix(table.key_width);
                rows.insert(key, random.per_mille(800).then_some(row));
            }
            let mut of_table = Vec::new();
            for (key, row) in rows {
                let before = stored.remove(&(table.name, key.clone()));
                of_table.push(match (row.clone(), before) {
                    (Some(row), Some(before)) => RowChange::Update { row, before },
                    (Some(row), None) => RowChange::Insert(row),
                    (None, before) => RowChange::Delete { key: key.clone(), before },
                });
                stored.extend(row.map(|row| ((table.name, key), row)));
            }
            changes.push((table, of_table));
        }
        let mut queries = Vec::new();
        for _ in 0..60 {
            queries.push(random_query(&mut random, tables));
        }
        let mut answers = Vec::new();
        for database in [database, &memory] {
            let mut session = database.open_session();
            session.begin(&[]).unwrap();
            session.write(changes.clone()).unwrap();
            let mut both = vec![session.read(&queries).unwrap()];
            commit(&mut *session);
            let reading = async { database.read(queries.clone()).await.unwrap() };
            both.push(new_runtime().block_on(reading));
            answers.push(both);
        }
        for (real, expected) in answers[0].iter().zip(&answers[1]) {
            for ((query, real), expected) in queries.iter().zip(real).zip(expected) {
                compare(query, real, expected);
            }
        }
    }
}

fn compare(query: &RowQuery, real: &[TableRow], expected: &[TableRow]) {
    let order: Vec<usize> =
        query.order.iter().map(|name| query.table.index_of(name).unwrap()).collect();
    let sort_keys = |rows: &[TableRow]| -> Vec<RowKey> {
        let key = |row: &TableRow| {
            TableRow::of(&order.iter().map(|column| row.value(*column)).collect::<Vec<_>>())
        };
        rows.iter().map(key).collect()
    };
    assert_eq!(sort_keys(real), sort_keys(expected), "{query:?}");
    // The database chooses which rows a limit leaves out.
    if query.limit.is_none() {
        let (mut real, mut expected) = (real.to_vec(), expected.to_vec());
        real.sort();
        expected.sort();
        assert_eq!(real, expected, "{query:?}");
    }
}

fn random_value(
    random: &mut SeededRandom,
    table: &Table,
    column: usize,
    may_be_null: bool,
) -> Value<'static> {
    const INTEGERS: [i64; 6] = [i64::MIN, -1, 0, 1, 300, i64::MAX];
    const TEXTS: [&str; 12] =
        ["", "a", "B", "b", "ab", "a\0", "a\0b", "\u{1}", "\\", "%'\"", "\u{e4}", "\u{10ffff}"];
    const BINARIES: [&[u8]; 5] = [b"", b"\0", b"\0\xff", b"a", b"\\x61"];
    let column = &table.columns[column];
    if may_be_null && column.is_nullable && random.per_mille(300) {
        return Value::Null;
    }
    match column.kind {
        ColumnType::Integer => INTEGERS[random.within(0..INTEGERS.len())].into(),
        ColumnType::Text => TEXTS[random.within(0..TEXTS.len())].into(),
        ColumnType::Binary => BINARIES[random.within(0..BINARIES.len())].into(),
    }
}

fn random_query(random: &mut SeededRandom, tables: [&'static Table; 3]) -> RowQuery {
    let table = tables[random.within(0..tables.len())];
    let names: Vec<&'static str> = table.columns.iter().map(|column| column.name).collect();
    let mut columns: Vec<usize> = if random.per_mille(600) {
        (0..random.within(0..table.key_width + 1)).collect()
    } else {
        vec![random.within(0..names.len()), random.within(0..names.len())]
    };
    columns.dedup();
    let mut tuples = Vec::new();
    let count = [1, 1, 0, 7][random.within(0..4)];
    if columns.is_empty() && count > 1 {
        columns.push(1);
    }
    for _ in 0..count {
        let mut tuple = Vec::new();
        for column in &columns {
            tuple.push(random_value(random, table, *column, false));
        }
        tuples.push(TableRow::of(&tuple));
    }
    let is_plain = tuples.len() > 1;
    let columns: Vec<_> = columns.iter().map(|column| names[*column]).collect();
    let mut query = RowQuery::any_of(table, &columns, tuples);
    if is_plain {
        return query;
    }
    if random.per_mille(400) {
        let column = random.within(0..names.len());
        let [start, end] = [0, 1].map(|_| random_value(random, table, column, false));
        query = query.within(names[column], Range { start, end });
    }
    if random.per_mille(300) {
        query.not_null = Some(names[random.within(0..names.len())]);
    }
    for _ in 0..random.within(0..3) {
        // The order of null differs between databases.
        let column = random.within(0..names.len());
        if !table.columns[column].is_nullable || query.not_null == Some(names[column]) {
            query.order.push(names[column]);
        }
    }
    query.is_descending = !query.order.is_empty() && random.per_mille(500);
    query.limit = random.per_mille(300).then(|| random.within(0..9));
    query
}
