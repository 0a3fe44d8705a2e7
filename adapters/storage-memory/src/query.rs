//! Queries on rows in memory.

use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_row_store::row::{RowKey, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{Column, Table};

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
    let meets = query.matcher();
    let mut found = Vec::new();
    for prefix in key_prefixes(query) {
        let old = rows.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let unchanged = old.filter(|(key, _)| !pending.contains_key(key)).map(|(_, row)| row);
        let new = pending.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let all = unchanged.chain(new.filter_map(|(_, row)| row.as_ref()));
        found.extend(all.filter(|row| meets(row)).map(|row| row.prefix(query.wanted().len())));
    }
    random.shuffle(&mut found);
    for column in query.order.iter().filter_map(|name| query.table.index_of(name)) {
        if found.len() > 1 && found.iter().any(|row| row.value(column) == Value::Null) {
            return Err(bug(format!("{}: the order of null", query.table.name)));
        }
    }
    query.sort(&mut found);
    found.truncate(query.limit.unwrap_or(usize::MAX));
    Ok(found)
}

/// The beginnings that the keys of the rows can have.
fn key_prefixes(query: &RowQuery) -> BTreeSet<RowKey> {
    let key = &query.table.columns[..query.table.key_width];
    let pairs = query.columns.iter().zip(key);
    let width = pairs.take_while(|(name, column)| **name == column.name).count();
    query.tuples.iter().map(|tuple| tuple.prefix(width)).collect()
}

/// The rows of a table by their key.
pub(crate) type Rows = BTreeMap<RowKey, TableRow>;

/// An error that no caller of the seam may cause.
pub(crate) fn bug(message: impl Into<String>) -> StoreError {
    StoreError::Internal(message.into())
}
