//! SQLite runs each query as the driver plans it, without statistics of the data.
//!
//! Checked for each query of each test, so that the contract suite finds a new one.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_row_store::row::RowQuery;
use reqlore_row_store::tables::{BODIES, ColumnType, DOCUMENTS, TEXTS};
use rusqlite::Connection;

use crate::statements::QueryPlan;

/// Set by tests with random queries.
pub(super) static ALLOWS_ANY_QUERY: AtomicBool = AtomicBool::new(false);

static CHECKED_TEXTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Asserts that a query reads only rows of its result, and runs as planned.
pub(crate) fn check(connection: &Connection, query: &RowQuery, text: &str) {
    let is_new = CHECKED_TEXTS.lock().unwrap().insert(text.to_owned());
    if !is_new || ALLOWS_ANY_QUERY.load(Ordering::Relaxed) {
        return;
    }
    let plan = QueryPlan::of(query);
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
    let (mut rows, mut steps) = (explain.raw_query(), Vec::new());
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get::<_, String>(3).unwrap());
    }
    assert_eq!(steps.remove(0), expected_access(query, plan), "{text}");
    for step in steps {
        // Rows with the same first value are sorted by the rest.
        let is_partial = step.starts_with("USE TEMP B-TREE FOR LAST");
        assert!(is_partial || !plan.is_exact, "{text}: {step}");
    }
    assert!(plan.is_exact || is_rare(query), "no key or index serves {text}");
}

/// How SQLite describes the access to the table.
fn expected_access(query: &RowQuery, plan: QueryPlan) -> String {
    let table = query.table;
    let has_row_id = table.key_width == 1 && table.columns[0].kind == ColumnType::Integer;
    let keys: Vec<_> = table.columns[..table.key_width].iter().map(|one| one.name).collect();
    let (mut name, mut columns) = ("PRIMARY KEY".to_owned(), &*keys);
    if let Some(index) = plan.index {
        (name, columns) = (format!("INDEX {}", index.name), index.columns);
    } else if !plan.uses_key {
        return format!("SCAN {}", table.name);
    } else if has_row_id {
        name.insert_str(0, "INTEGER ");
    } else if [&DOCUMENTS, &BODIES, &TEXTS].contains(&table) {
        name = format!("INDEX sqlite_autoindex_{}_1", table.name);
    }
    let (mut conditions, mut conjunction) = (String::new(), "");
    let mut add = |column: &str, operator: &str| {
        let column = if has_row_id && plan.index.is_none() { "rowid" } else { column };
        let _ = write!(conditions, "{conjunction}{column}{operator}?");
        conjunction = " AND ";
    };
    let mut rest = columns.iter();
    for column in rest.by_ref() {
        if query.columns.contains(column) {
            add(column, "=");
            continue;
        }
        if query.range.as_ref().is_some_and(|(ranged, _)| ranged == column) {
            add(column, ">");
            add(column, "<");
        }
        break;
    }
    if conditions.is_empty() {
        return format!("SCAN {} USING {name}", table.name);
    }
    format!("SEARCH {} USING {name} ({conditions})", table.name)
}

/// Queries that visit rows outside of their result, and why they may.
const RARE_QUERIES: [(&str, &[&str], &[&str]); 6] = [
    // Searches for what to undo, and for what changed.
    ("documents", &["project"], &["modified"]),
    ("history", &["project"], &["at"]),
    // Within the versions of one document.
    ("history", &["project", "kind", "name"], &["number"]),
    ("history", &["project", "kind", "name", "version", "purged"], &["number"]),
    // Empty, except in a database of several servers.
    ("server_groups", &[], &[]),
    // Returns all rows.
    ("tokens", &[], &["created", "id"]),
];

fn is_rare(query: &RowQuery) -> bool {
    RARE_QUERIES.contains(&(query.table.name, &query.columns, &query.order))
}
