//! Rows and queries in the terms of this storage, without SQL.

use std::ops::Range;

use bytes::Bytes;

use crate::tables::Table;

/// A value of a column. The order of values is that of the database: texts and bytes by their
/// bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    #[default]
    Null,
    Integer(i64),
    Text(String),
    Binary(Bytes),
}

impl Value {
    /// The approximate memory.
    pub(crate) fn size_bytes(&self) -> usize {
        let content = match self {
            Self::Null | Self::Integer(_) => 0,
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        };
        size_of::<Self>() + content
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row: a value for each column of its table, the key first.
pub(crate) type TableRow = Vec<Value>;

/// The values of the key columns of a row.
pub(crate) type RowKey = Vec<Value>;

/// Selects the rows of one table that meet all conditions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RowQuery {
    pub(crate) table: &'static Table,
    /// The columns that [`Self::tuples`] compare.
    pub(crate) columns: Vec<&'static str>,
    /// A row must have the values of one of these tuples. One empty tuple accepts every row.
    /// A query with several tuples has no range, order or limit.
    pub(crate) tuples: Vec<Vec<Value>>,
    /// A column and the half-open range of its values. Null is in no range.
    pub(crate) range: Option<(&'static str, Range<Value>)>,
    /// A column that is not null.
    pub(crate) not_null: Option<&'static str>,
    /// The columns to sort by.
    pub(crate) order: Vec<&'static str>,
    pub(crate) is_descending: bool,
    /// Maximum number of rows.
    pub(crate) limit: Option<usize>,
}

impl RowQuery {
    /// All rows with these values.
    pub(crate) fn equal(
        table: &'static Table,
        columns: &[&'static str],
        values: Vec<Value>,
    ) -> Self {
        Self {
            table,
            columns: columns.to_vec(),
            tuples: vec![values],
            range: None,
            not_null: None,
            order: Vec::new(),
            is_descending: false,
            limit: None,
        }
    }

    /// The rows with these keys, or with keys that begin with these values.
    pub(crate) fn keys(table: &'static Table, keys: Vec<RowKey>) -> Self {
        let width = keys.first().map_or(0, Vec::len);
        let mut columns = Vec::with_capacity(width);
        columns.extend(table.columns.iter().take(width).map(|column| column.name));
        Self { tuples: keys, ..Self::equal(table, &columns, Vec::new()) }
    }

    /// All rows of a table.
    pub(crate) fn all(table: &'static Table) -> Self {
        Self::equal(table, &[], Vec::new())
    }

    pub(crate) fn sorted_by(self, order: &[&'static str]) -> Self {
        Self { order: order.to_vec(), ..self }
    }

    pub(crate) fn limited_to(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Sorts rows of the table as the database does.
    pub(crate) fn sort(&self, rows: &mut [TableRow]) {
        let mut order = Vec::with_capacity(self.order.len());
        order.extend(self.order.iter().filter_map(|name| self.table.index_of(name)));
        rows.sort_by(|a, b| {
            let ascending =
                order.iter().map(|&column| &a[column]).cmp(order.iter().map(|&column| &b[column]));
            if self.is_descending { ascending.reverse() } else { ascending }
        });
    }

    pub(crate) fn within(self, column: &'static str, range: Range<Value>) -> Self {
        Self { range: Some((column, range)), ..self }
    }
}

/// A change of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowChange {
    /// Inserts a row, or replaces the one with the same key.
    Put(TableRow),
    Delete(RowKey),
}
