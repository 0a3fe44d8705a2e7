//! SQL text and parameters of queries and changes, generic over the tables.
//!
//! The text depends on the shape of a query only, so that a connection prepares few of them.

use std::borrow::Cow;
use std::fmt::Write as _;

use reqlore_row_store::row::{RowKey, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{Column, Table};
use tokio_postgres::types::ToSql;

use super::errors::DatabaseError;
use super::rows::sql_type;
use super::rows::{SqlValue, UnionLayout};

pub(crate) type Parameter<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement with its parameters.
#[derive(Debug)]
pub(crate) struct SqlStatement<'a> {
    pub(crate) text: Cow<'static, str>,
    pub(crate) parameters: Vec<Parameter<'a>>,
    /// The queries whose rows it returns.
    pub(crate) queries: &'a [RowQuery],
}

impl<'a> SqlStatement<'a> {
    /// A statement without parameters and rows.
    pub(crate) fn fixed(text: &'static str) -> Self {
        Self { text: Cow::Borrowed(text), parameters: Vec::new(), queries: &[] }
    }

    /// All rows of one or more queries. One statement reads one state without a transaction, and
    /// its answer arrives at once.
    pub(crate) fn select(queries: &'a [RowQuery]) -> Result<Self, DatabaseError> {
        let layout = UnionLayout::new(queries);
        let (mut selects, mut parameters) = (Vec::with_capacity(queries.len()), Vec::new());
        for (number, query) in queries.iter().enumerate() {
            let columns = layout.columns(query.wanted()).join(", ");
            let (table, rest) = (query.table.name, restrictions(query, &mut parameters)?);
            selects.push(format!("SELECT {number}::bigint, {columns} FROM {table}{rest}"));
        }
        let text = match &*selects {
            [only] => only.clone(),
            _ => format!("({})", selects.join(") UNION ALL (")),
        };
        Ok(Self { text: text.into(), parameters, queries })
    }

    /// Inserts rows, or replaces those with the same keys.
    pub(crate) fn upsert(
        table: &'static Table,
        rows: &[&'a TableRow],
    ) -> Result<Self, DatabaseError> {
        let mut parameters = Vec::new();
        push_arrays(&mut parameters, table, &names(table.columns), rows)?;
        let checksum = |row: &&TableRow| table.checksum(row);
        parameters.push(Box::new(rows.iter().map(checksum).collect::<Vec<_>>()));
        Ok(Self { text: upsert_text(table).into(), parameters, queries: &[] })
    }

    pub(crate) fn delete(
        table: &'static Table,
        keys: &[&'a RowKey],
    ) -> Result<Self, DatabaseError> {
        let columns = names(&table.columns[..table.key_width]);
        let mut parameters = Vec::new();
        let condition = is_in(&mut parameters, table, &columns, keys)?;
        let text = format!("DELETE FROM {} WHERE {condition}", table.name).into();
        Ok(Self { text, parameters, queries: &[] })
    }
}

/// The conditions, the order and the limit of a query.
fn restrictions<'a>(
    query: &'a RowQuery,
    parameters: &mut Vec<Parameter<'a>>,
) -> Result<String, DatabaseError> {
    let mut conditions = Vec::new();
    let mut compare = |column: &str, operator, value: Value<'a>| {
        parameters.push(Box::new(SqlValue(value)));
        conditions.push(format!("{column} {operator} ${}", parameters.len()));
    };
    if let [tuple] = &*query.tuples {
        for (column, value) in query.columns.iter().zip(tuple.values()) {
            compare(column, "=", value);
        }
    }
    if let Some((column, range)) = &query.range {
        compare(column, ">=", range.start.value(0));
        compare(column, "<", range.end.value(0));
    }
    match &*query.tuples {
        [] => conditions.push("FALSE".to_owned()),
        [_] => {}
        tuples => {
            let tuples: Vec<_> = tuples.iter().collect();
            conditions.push(is_in(parameters, query.table, &query.columns, &tuples)?);
        }
    }
    conditions.extend(query.not_null.map(|column| format!("{column} IS NOT NULL")));
    let mut text = String::new();
    if !conditions.is_empty() {
        let _ = write!(text, " WHERE {}", conditions.join(" AND "));
    }
    if !query.order.is_empty() {
        let direction = if query.is_descending { " DESC" } else { "" };
        let order = query.order.join(&format!("{direction}, "));
        let _ = write!(text, " ORDER BY {order}{direction}");
    }
    if let Some(limit) = query.limit {
        parameters.push(Box::new(i64::try_from(limit).unwrap_or(i64::MAX)));
        let _ = write!(text, " LIMIT ${}", parameters.len());
    }
    Ok(text)
}

pub(crate) fn names(columns: &[Column]) -> Vec<&'static str> {
    let mut names = Vec::with_capacity(columns.len());
    names.extend(columns.iter().map(|column| column.name));
    names
}

fn upsert_text(table: &Table) -> String {
    let columns = names(table.columns);
    let mut arrays = Vec::with_capacity(columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        arrays.push(format!("${}::{}[]", index + 1, sql_type(column.kind)));
    }
    let mut changes = Vec::with_capacity(columns.len());
    for column in &columns[table.key_width..] {
        changes.push(format!("{column} = excluded.{column}"));
    }
    changes.push("checksum = excluded.checksum".to_owned());
    format!(
        "INSERT INTO {} ({}, checksum) SELECT * FROM unnest({}, ${}::bigint[]) \
         ON CONFLICT ({}) DO {}",
        table.name,
        columns.join(", "),
        arrays.join(", "),
        columns.len() + 1,
        columns[..table.key_width].join(", "),
        if changes.len() == 1 {
            "NOTHING".to_owned()
        } else {
            format!("UPDATE SET {}", changes.join(", "))
        },
    )
}

/// The condition that columns have the values of one of the tuples, which are passed as one array
/// per column.
fn is_in<'a>(
    parameters: &mut Vec<Parameter<'a>>,
    table: &Table,
    columns: &[&str],
    tuples: &[&'a TableRow],
) -> Result<String, DatabaseError> {
    let mut arrays = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let kind = sql_type(column_of(table, column)?.kind);
        arrays.push(format!("${}::{kind}[]", parameters.len() + index + 1));
    }
    push_arrays(parameters, table, columns, tuples)?;
    if let [column] = columns {
        return Ok(format!("{column} = ANY({})", arrays[0]));
    }
    let (columns, arrays) = (columns.join(", "), arrays.join(", "));
    Ok(format!("({columns}) IN (SELECT * FROM unnest({arrays}))"))
}

/// Adds one array per column.
fn push_arrays<'a>(
    parameters: &mut Vec<Parameter<'a>>,
    table: &Table,
    columns: &[&str],
    tuples: &[&'a TableRow],
) -> Result<(), DatabaseError> {
    let mut arrays: Vec<_> = columns.iter().map(|_| Vec::with_capacity(tuples.len())).collect();
    for tuple in tuples {
        for (array, value) in arrays.iter_mut().zip(tuple.values()) {
            array.push(SqlValue(value));
        }
    }
    for (array, column) in arrays.into_iter().zip(columns) {
        if array.len() < tuples.len() {
            return Err(mismatch(table, column));
        }
        parameters.push(Box::new(array));
    }
    Ok(())
}

fn column_of<'t>(table: &'t Table, name: &str) -> Result<&'t Column, DatabaseError> {
    table.columns.iter().find(|column| column.name == name).ok_or_else(|| mismatch(table, name))
}

fn mismatch(table: &Table, column: &str) -> DatabaseError {
    DatabaseError::internal(format!("table {}: no value for column {column}", table.name))
}
