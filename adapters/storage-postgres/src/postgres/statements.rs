//! SQL text and parameters of queries and changes, generic over the tables.
//!
//! The text depends on the shape of a query only, so that a connection prepares few of them.

use std::borrow::Cow;
use std::fmt::Write as _;

use tokio_postgres::types::ToSql;

use super::errors::DatabaseError;
use super::rows::{UnionLayout, escape};
use reqlore_row_store::row::{RowKey, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{Column, ColumnType, Table};

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
        let mut select = SelectText::default();
        for (number, query) in queries.iter().enumerate() {
            if number > 0 {
                select.text.push_str(" UNION ALL ");
            }
            if queries.len() > 1 {
                select.text.push('(');
            }
            let columns = layout.columns(query.wanted).join(", ");
            let _ =
                write!(select.text, "SELECT {number}::bigint, {columns} FROM {}", query.table.name);
            select.restrict(query)?;
            if queries.len() > 1 {
                select.text.push(')');
            }
        }
        let SelectText { text, parameters, .. } = select;
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

#[derive(Default)]
struct SelectText<'a> {
    text: String,
    parameters: Vec<Parameter<'a>>,
    /// `WHERE` or `AND`.
    conjunction: &'static str,
}

impl<'a> SelectText<'a> {
    /// Adds the conditions, the order and the limit of a query.
    fn restrict(&mut self, query: &'a RowQuery) -> Result<(), DatabaseError> {
        self.conjunction = "WHERE";
        match query.tuples.as_slice() {
            [] => self.condition("FALSE"),
            [tuple] => {
                for (column, value) in query.columns.iter().zip(tuple.values()) {
                    self.compare(column, "=", scalar(value));
                }
            }
            tuples => {
                let tuples: Vec<_> = tuples.iter().collect();
                let condition = is_in(&mut self.parameters, query.table, &query.columns, &tuples)?;
                self.condition(&condition);
            }
        }
        if let Some((column, range)) = &query.range {
            self.compare(column, ">=", scalar(range.start.value(0)));
            self.compare(column, "<", scalar(range.end.value(0)));
        }
        if let Some(column) = query.not_null {
            self.condition(&format!("{column} IS NOT NULL"));
        }
        let mut word = " ORDER BY ";
        for column in &query.order {
            self.text.push_str(word);
            self.text.push_str(column);
            if query.is_descending {
                self.text.push_str(" DESC");
            }
            word = ", ";
        }
        if let Some(limit) = query.limit {
            self.parameters.push(Box::new(i64::try_from(limit).unwrap_or(i64::MAX)));
            let _ = write!(self.text, " LIMIT ${}", self.parameters.len());
        }
        Ok(())
    }

    fn condition(&mut self, condition: &str) {
        let _ = write!(self.text, " {} {condition}", self.conjunction);
        self.conjunction = "AND";
    }

    fn compare(&mut self, column: &str, operator: &str, value: Parameter<'a>) {
        self.parameters.push(value);
        let number = self.parameters.len();
        self.condition(&format!("{column} {operator} ${number}"));
    }
}

fn names(columns: &[Column]) -> Vec<&'static str> {
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

fn scalar(value: Value<'_>) -> Parameter<'_> {
    match value {
        // No comparison with null is true.
        Value::Null => Box::new(None::<i64>),
        Value::Integer(number) => Box::new(number),
        Value::Text(text) => Box::new(escape(text)),
        Value::Binary(bytes) => Box::new(bytes),
    }
}

/// The values of one column.
enum ColumnArray<'a> {
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<Cow<'a, str>>>),
    Binaries(Vec<Option<&'a [u8]>>),
}

impl<'a> ColumnArray<'a> {
    fn new(kind: ColumnType, capacity: usize) -> Self {
        match kind {
            ColumnType::Integer => Self::Integers(Vec::with_capacity(capacity)),
            ColumnType::Text => Self::Texts(Vec::with_capacity(capacity)),
            ColumnType::Binary => Self::Binaries(Vec::with_capacity(capacity)),
        }
    }

    /// Returns false if the value does not fit the column.
    fn push(&mut self, value: Value<'a>) -> bool {
        match (self, value) {
            (Self::Integers(values), Value::Integer(number)) => values.push(Some(number)),
            (Self::Texts(values), Value::Text(text)) => values.push(Some(escape(text))),
            (Self::Binaries(values), Value::Binary(bytes)) => values.push(Some(bytes)),
            (Self::Integers(values), Value::Null) => values.push(None),
            (Self::Texts(values), Value::Null) => values.push(None),
            (Self::Binaries(values), Value::Null) => values.push(None),
            _ => return false,
        }
        true
    }

    fn into_parameter(self) -> Parameter<'a> {
        match self {
            Self::Integers(values) => Box::new(values),
            Self::Texts(values) => Box::new(values),
            Self::Binaries(values) => Box::new(values),
        }
    }
}

/// Adds one array per column.
fn push_arrays<'a>(
    parameters: &mut Vec<Parameter<'a>>,
    table: &Table,
    columns: &[&str],
    tuples: &[&'a TableRow],
) -> Result<(), DatabaseError> {
    let mut arrays = Vec::with_capacity(columns.len());
    for name in columns {
        arrays.push(ColumnArray::new(column_of(table, name)?.kind, tuples.len()));
    }
    for tuple in tuples {
        let mut values = tuple.values();
        for (array, name) in arrays.iter_mut().zip(columns) {
            if !values.next().is_some_and(|value| array.push(value)) {
                return Err(mismatch(table, name));
            }
        }
    }
    parameters.extend(arrays.into_iter().map(ColumnArray::into_parameter));
    Ok(())
}

pub(crate) fn sql_type(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Integer => "bigint",
        ColumnType::Text => "text",
        ColumnType::Binary => "bytea",
    }
}

fn column_of<'t>(table: &'t Table, name: &str) -> Result<&'t Column, DatabaseError> {
    table.columns.iter().find(|column| column.name == name).ok_or_else(|| mismatch(table, name))
}

fn mismatch(table: &Table, column: &str) -> DatabaseError {
    DatabaseError::internal(format!("table {}: a value does not fit column {column}", table.name))
}
