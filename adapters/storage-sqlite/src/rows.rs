//! Runs queries and changes on a connection.

use reqlore_domain::ports::documents::StoreError;
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::row::{RowBuffer, RowChange, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{Column, Table};
use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_ROWID};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Row, ToSql};

use crate::error::QueryError;
use crate::statements::{QueryPlan, delete_text, insert_text, select_text, update_text};

/// The rows of several queries.
pub(crate) type QueriedRows = Vec<Vec<TableRow>>;

/// A value as a parameter.
struct Parameter<'a>(Value<'a>);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Binary(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Binds values to the parameters from `first` on. Returns the next number.
fn bind<'a>(
    statement: &mut CachedStatement<'_>,
    first: usize,
    values: impl Iterator<Item = Value<'a>>,
) -> rusqlite::Result<usize> {
    let mut number = first;
    for value in values {
        statement.raw_bind_parameter(number, Parameter(value))?;
        number += 1;
    }
    Ok(number)
}

/// Runs queries. Returns `None` if their rows exceed the limit in all.
pub(crate) fn select(
    connection: &Connection,
    queries: &[RowQuery],
    mut limit: ReadLimit,
) -> Result<Option<QueriedRows>, QueryError> {
    let mut results = Vec::with_capacity(queries.len());
    for query in queries {
        let mut rows = Vec::new();
        if !select_into(&mut rows, connection, query, &mut limit)? {
            return Ok(None);
        }
        results.push(rows);
    }
    Ok(Some(results))
}

/// Adds the rows of a query. False if there are more.
fn select_into(
    found: &mut Vec<TableRow>,
    connection: &Connection,
    query: &RowQuery,
    read_limit: &mut ReadLimit,
) -> Result<bool, QueryError> {
    let Some(tuples) = distinct(&query.tuples) else { return Ok(true) };
    let text = select_text(query, QueryPlan::of(query));
    let mut statement = connection.prepare_cached(&text)?;
    #[cfg(test)]
    crate::tests::plans::check(connection, query, &text);
    let mut buffer = RowBuffer::default();
    for tuple in tuples {
        let mut next = bind(&mut statement, 1, tuple.values())?;
        if next != query.columns.len() + 1 {
            return Err(query.table.mismatch().into());
        }
        if let Some((_, range)) = &query.range {
            next = bind(&mut statement, next, range.start.values().chain(range.end.values()))?;
        }
        if let Some(limit) = query.limit {
            statement.raw_bind_parameter(next, i64::try_from(limit).unwrap_or(i64::MAX))?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let row = decode(query.table, query.wanted(), row, &mut buffer)?;
            if !read_limit.count(&row) {
                return Ok(false);
            }
            found.push(row);
        }
    }
    #[cfg(test)]
    crate::tests::visits::add(&statement, found.len() + query.tuples.len());
    Ok(true)
}

/// Each tuple once; `None` for no tuple.
fn distinct(tuples: &[TableRow]) -> Option<Vec<&TableRow>> {
    let mut distinct: Vec<_> = tuples.iter().collect();
    if !distinct.is_sorted_by(|a, b| a < b) {
        distinct.sort_unstable();
        distinct.dedup();
    }
    (!distinct.is_empty()).then_some(distinct)
}

/// Reads a row after its checksum, and verifies it.
fn decode(
    table: &Table,
    columns: &[Column],
    row: &Row<'_>,
    buffer: &mut RowBuffer,
) -> Result<TableRow, QueryError> {
    let damaged = || QueryError::damaged(&name_row(table, row));
    for (at, column) in columns.iter().enumerate() {
        let value = match row.get_ref(at + 1)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Text(text) => Value::Text(str::from_utf8(text).map_err(|_| damaged())?),
            ValueRef::Blob(bytes) => Value::Binary(bytes),
            ValueRef::Real(_) => return Err(damaged()),
        };
        if !column.fits(value) {
            return Err(damaged());
        }
        buffer.push(value);
    }
    let found = buffer.take();
    match row.get_ref(0)? {
        ValueRef::Integer(checksum) if checksum == table.checksum(&found) => Ok(found),
        _ => Err(damaged()),
    }
}

/// Applies changes of a table. No key may follow itself.
pub(crate) fn apply(
    connection: &Connection,
    table: &'static Table,
    changes: &[RowChange],
) -> Result<(), QueryError> {
    let (mut last, mut insert) = (None, None);
    for change in changes {
        let (RowChange::Insert(row)
        | RowChange::Update { row, .. }
        | RowChange::Delete { key: row, .. }) = change;
        let key = row.prefix_bytes(table.key_width);
        if last.replace(key) == Some(key) {
            return Err(StoreError::Internal(format!("{}: a key twice", table.name)).into());
        }
        match change {
            RowChange::Insert(row) => {
                // A `STRICT` table converts values.
                table.check_values(row)?;
                let insert = match &mut insert {
                    Some(insert) => insert,
                    none => none.insert(connection.prepare_cached(insert_text(table))?),
                };
                let checksum = Value::Integer(table.checksum(row));
                bind(insert, 1, row.values().chain([checksum]))?;
                insert.raw_execute().map_err(|error| insert_error(table, error))?;
            }
            RowChange::Update { row, before } => update(connection, table, row, before)?,
            RowChange::Delete { key, .. } => {
                let mut delete = connection.prepare_cached(&delete_text(table))?;
                bind(&mut delete, 1, key.values())?;
                delete.raw_execute()?;
            }
        }
    }
    Ok(())
}

/// The store inserts only rows that are missing, so a row with the key is damage.
fn insert_error(table: &Table, error: rusqlite::Error) -> QueryError {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(SQLITE_CONSTRAINT_PRIMARYKEY | SQLITE_CONSTRAINT_ROWID) => {
            QueryError::damaged(&format!("the order of table {}", table.name))
        }
        _ => error.into(),
    }
}

/// Writes the columns that differ. An index whose columns stay the same is not written.
fn update(
    connection: &Connection,
    table: &Table,
    row: &TableRow,
    before: &TableRow,
) -> Result<(), QueryError> {
    table.check_values(row)?;
    let (mut changed, mut values) = (Vec::new(), Vec::new());
    for (column, (value, old)) in table.columns.iter().zip(row.values().zip(before.values())) {
        if value != old {
            changed.push(column);
            values.push(value);
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    values.push(Value::Integer(table.checksum(row)));
    let mut update = connection.prepare_cached(&update_text(table, &changed))?;
    values.extend(row.values().take(table.key_width));
    bind(&mut update, 1, values.into_iter())?;
    match update.raw_execute()? {
        1 => Ok(()),
        _ => Err(QueryError::damaged(&format!("a row of table {}", table.name))),
    }
}

/// Reads all rows of a table without wide columns. Returns the keys of damaged ones.
pub(crate) fn find_damaged_rows(
    connection: &Connection,
    table: &'static Table,
    limit: usize,
) -> Result<Vec<String>, QueryError> {
    let query = RowQuery::all(table).narrow();
    let mut statement = connection.prepare(&select_text(&query, QueryPlan::of(&query)))?;
    let (mut rows, mut buffer) = (statement.query([])?, RowBuffer::default());
    let mut damage = Vec::new();
    while let Some(row) = rows.next()?
        && damage.len() < limit
    {
        match decode(table, query.wanted(), row, &mut buffer) {
            Ok(_) => {}
            Err(error) if error.is_damage() => {
                buffer = RowBuffer::default();
                damage.push(name_row(table, row));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(damage)
}

/// Names a row by its key, for a report.
fn name_row(table: &Table, row: &Row<'_>) -> String {
    let mut words = vec!["row".to_owned()];
    for column in 1..=table.key_width {
        match row.get_ref(column) {
            Ok(ValueRef::Integer(number)) => words.push(number.to_string()),
            // The bytes may be anything, so they are printed escaped.
            Ok(ValueRef::Text(bytes)) if !bytes.is_empty() => {
                words.push(format!("{:.100}", bytes.escape_ascii().to_string()));
            }
            _ => {}
        }
    }
    format!("{} of table {}", words.join(" "), table.name)
}
