//! Queries on rows in memory.

use std::collections::BTreeMap;

use reqlore_domain::ports::documents::StoreResult;

use reqlore_row_store::row::{RowKey, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{Column, Table};

use crate::database::{Rows, bug};
use crate::seeded_random::SeededRandom;

/// Rejects a value that does not fit its column.
pub(super) fn check_value(table: &Table, column: &Column, value: Value<'_>) -> StoreResult<()> {
    if !column.fits(value) {
        return Err(bug(format!("{}.{}: the value {value:?}", table.name, column.name)));
    }
    Ok(())
}

/// Rejects a query that no database can run, and one that [`RowQuery`] does not define.
pub(super) fn check_query(query: &RowQuery) -> StoreResult<()> {
    let table = query.table;
    let mut compared = Vec::new();
    for name in &query.columns {
        compared.push(column_of(table, name)?);
    }
    for tuple in &query.tuples {
        let count = tuple.values().count();
        if count != compared.len() {
            return Err(bug(format!("{}: {count} of {compared:?}", table.name)));
        }
        for (column, value) in compared.iter().zip(tuple.values()) {
            check_compared(table, column, value)?;
        }
    }
    if let Some((name, range)) = &query.range {
        let column = column_of(table, name)?;
        check_compared(table, column, range.start.value(0))?;
        check_compared(table, column, range.end.value(0))?;
    }
    for name in query.order.iter().chain(&query.not_null) {
        column_of(table, name)?;
    }
    let is_plain = query.range.is_none() && query.order.is_empty() && query.limit.is_none();
    if query.tuples.len() > 1 && (!is_plain || compared.is_empty()) {
        return Err(bug(format!("{}: several tuples and more", table.name)));
    }
    Ok(())
}

fn column_of<'t>(table: &'t Table, name: &str) -> StoreResult<&'t Column> {
    match table.index_of(name) {
        Some(index) => Ok(&table.columns[index]),
        None => Err(bug(format!("{}: no column {name}", table.name))),
    }
}

/// No comparison with null is true in a database.
fn check_compared(table: &Table, column: &Column, value: Value<'_>) -> StoreResult<()> {
    if value == Value::Null {
        return Err(bug(format!("{}.{}: compared with null", table.name, column.name)));
    }
    check_value(table, column, value)
}

/// The rows of a query. Those that its order does not sort are in random order.
pub(super) fn select(
    query: &RowQuery,
    rows: &Rows,
    pending: &BTreeMap<RowKey, Option<TableRow>>,
    random: &mut SeededRandom,
) -> StoreResult<Vec<TableRow>> {
    let mut keys = candidate_keys(query, rows, pending);
    keys.sort_unstable();
    keys.dedup();
    let mut found = Vec::new();
    for key in keys {
        let row = match pending.get(key) {
            Some(changed) => changed.as_ref(),
            None => rows.get(key),
        };
        if let Some(row) = row
            && matches(query, row)
        {
            found.push(row.prefix(query.wanted.len()));
        }
    }
    random.shuffle(&mut found);
    let mut order = Vec::new();
    for name in &query.order {
        order.extend(query.table.index_of(name));
    }
    for &column in &order {
        if found.len() > 1 && found.iter().any(|row| row.value(column) == Value::Null) {
            return Err(bug(format!("{}: the order of null", query.table.name)));
        }
    }
    query.sort(&mut found);
    found.truncate(query.limit.unwrap_or(usize::MAX));
    Ok(found)
}

/// The keys that begin with one of the tuples, or all if these do not compare the key.
fn candidate_keys<'r>(
    query: &RowQuery,
    rows: &'r Rows,
    pending: &'r BTreeMap<RowKey, Option<TableRow>>,
) -> Vec<&'r RowKey> {
    let table = query.table;
    let mut names = table.columns[..table.key_width].iter().map(|column| column.name);
    if !query.columns.iter().all(|compared| names.next() == Some(*compared)) {
        return rows.keys().chain(pending.keys()).collect();
    }
    let mut keys = Vec::new();
    for tuple in &query.tuples {
        let start = tuple.clone();
        let old = rows.range(start.clone()..).map(|(key, _)| key);
        keys.extend(old.take_while(|key| key.starts_with(tuple)));
        let new = pending.range(start..).map(|(key, _)| key);
        keys.extend(new.take_while(|key| key.starts_with(tuple)));
    }
    keys
}

fn matches(query: &RowQuery, row: &TableRow) -> bool {
    let value = |name: &str| row.value(query.table.index_of(name).unwrap());
    let meets_tuple = query.tuples.iter().any(|tuple| {
        query.columns.iter().zip(tuple.values()).all(|(name, expected)| value(name) == expected)
    });
    let is_in_range = query.range.as_ref().is_none_or(|(name, range)| {
        // Null is below all other values, and no range begins with it.
        (range.start.value(0)..range.end.value(0)).contains(&value(name))
    });
    let has_value = query.not_null.is_none_or(|name| value(name) != Value::Null);
    meets_tuple && is_in_range && has_value
}
