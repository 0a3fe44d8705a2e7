//! Rows and queries in the terms of this storage, without SQL.

use std::fmt::{self, Write as _};
use std::ops::Range;

use bytes::{BufMut as _, Bytes};
use reqlore_domain::ports::documents::StoreResult;

use crate::tables::{BODIES, Column, ColumnType, Table};

/// A value of a column. The order of values is that of the database: texts and bytes by their
/// bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value<'a> {
    #[default]
    Null,
    Integer(i64),
    Text(&'a str),
    Binary(&'a [u8]),
}

impl<'a> Value<'a> {
    fn append_to(self, bytes: &mut Vec<u8>) {
        let (kind, content) = match self {
            Self::Null => return bytes.put_u8(b'n'),
            Self::Integer(number) => {
                bytes.put_u8(b'i');
                return bytes.put_i64(number);
            }
            Self::Text(text) => (b't', text.as_bytes()),
            Self::Binary(binary) => (b'b', binary),
        };
        bytes.put_u8(kind);
        // No value reaches 4 GiB: a message of the database is limited to 1 GiB.
        bytes.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
        bytes.put_slice(content);
    }

    /// The bytes after the first of these encoded values.
    fn skip_first(bytes: &[u8]) -> Option<&[u8]> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            b'n' => Some(rest),
            b'i' => rest.get(8..),
            _ => {
                let (length, rest) = rest.split_first_chunk()?;
                rest.get(u32::from_be_bytes(*length) as usize..)
            }
        }
    }

    /// The first of these encoded values, and the bytes after it.
    fn split_first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (kind, rest) = bytes.split_first()?;
        if *kind == b'n' {
            return Some((Self::Null, rest));
        }
        if *kind == b'i' {
            let (number, rest) = rest.split_first_chunk()?;
            return Some((Self::Integer(i64::from_be_bytes(*number)), rest));
        }
        let (length, rest) = rest.split_first_chunk()?;
        let (content, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        match kind {
            b't' => Some((Self::Text(str::from_utf8(content).ok()?), rest)),
            _ => Some((Self::Binary(content), rest)),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Binary(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row in one buffer: a value for each column of its table, the key first. Each value is encoded
/// as its type, its length and its content, so that no two rows have the same bytes, and a key is
/// the beginning of its rows.
///
/// Clones share the buffer. The order is that of the bytes: different from the database's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use]
pub struct TableRow(Bytes);

/// The values of the key columns of a row, or of the first of them.
pub type RowKey = TableRow;

/// The table and the key of a row.
pub type RowAddress = (&'static Table, RowKey);

impl TableRow {
    pub fn of(values: &[Value<'_>]) -> Self {
        Self(Bytes::new()).with(values)
    }

    /// A copy that does not keep the buffer of a longer row in memory.
    pub(crate) fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// This row with further values.
    pub fn with(&self, values: &[Value<'_>]) -> Self {
        let size = |value: &Value<'_>| match value {
            Value::Null => 1,
            Value::Integer(_) => 9,
            Value::Text(text) => 5 + text.len(),
            Value::Binary(binary) => 5 + binary.len(),
        };
        let size = values.iter().map(size).sum::<usize>();
        let mut bytes = Vec::with_capacity(self.0.len() + size);
        bytes.extend_from_slice(&self.0);
        for value in values {
            value.append_to(&mut bytes);
        }
        Self(bytes.into())
    }

    /// The encoded values.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn values(&self) -> Values<'_> {
        Values { rest: &self.0 }
    }

    /// The value of a column; null after the last one.
    pub fn value(&self, column: usize) -> Value<'_> {
        let mut values = self.values();
        values.skip_values(column);
        values.next().unwrap_or_default()
    }

    /// The first values.
    pub fn prefix(&self, width: usize) -> RowKey {
        Self(self.0.slice(..self.prefix_bytes(width).len()))
    }

    /// The first values, encoded.
    pub fn prefix_bytes(&self, width: usize) -> &[u8] {
        let mut values = self.values();
        values.skip_values(width);
        &self.0[..self.0.len() - values.rest.len()]
    }

    /// The values of these columns.
    pub fn select(&self, columns: &[usize]) -> Self {
        if columns.iter().copied().eq(0..columns.len()) {
            return self.prefix(columns.len());
        }
        let values: Vec<_> = columns.iter().map(|&column| self.value(column)).collect();
        Self::of(&values)
    }

    pub fn starts_with(&self, prefix: &RowKey) -> bool {
        self.0.starts_with(&prefix.0)
    }

    /// This row with another value of a column.
    pub fn replace(&self, column: usize, value: Value<'_>) -> Self {
        let mut values: Vec<_> = self.values().collect();
        if let Some(old) = values.get_mut(column) {
            *old = value;
        }
        Self::of(&values)
    }

    /// Shares the bytes of a value of this row.
    pub fn share(&self, binary: &[u8]) -> Bytes {
        self.0.slice_ref(binary)
    }
}

impl fmt::Debug for TableRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.values()).finish()
    }
}

impl Column {
    /// False for a value of another type, or null in a column that is never null.
    pub fn fits(&self, value: Value<'_>) -> bool {
        match value {
            Value::Null => self.is_nullable,
            Value::Integer(_) => self.kind == ColumnType::Integer,
            Value::Text(_) => self.kind == ColumnType::Text,
            Value::Binary(_) => self.kind == ColumnType::Binary,
        }
    }
}

impl Table {
    /// The CRC32 of the table's name and of all values of a row except wide ones. It detects damage
    /// and careless edits. An attacker can compute it too.
    pub fn checksum(&self, row: &TableRow) -> i64 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(self.name.as_bytes());
        hasher.update(row.prefix_bytes(self.narrow_columns().len()));
        hasher.finalize().into()
    }

    /// Fails if a row does not have one value of the right type for each column.
    pub fn check_values(&self, row: &TableRow) -> StoreResult<()> {
        let (mut values, mut columns) = (row.values(), self.columns.iter());
        loop {
            match (values.next(), columns.next()) {
                (None, None) => return Ok(()),
                (Some(value), Some(column)) if column.fits(value) => {}
                _ => return Err(self.mismatch()),
            }
        }
    }

    /// Names a row by its key, for a report.
    pub fn name_row(&self, row: &TableRow) -> String {
        let mut name = "row".to_owned();
        for value in row.values().take(self.key_width) {
            let _ = match value {
                Value::Integer(number) => write!(name, " {number}"),
                Value::Text(text) => write!(name, " {:.100}", text.escape_debug().to_string()),
                Value::Null | Value::Binary(_) => write!(name, " ?"),
            };
        }
        format!("{name} of table {}", self.name)
    }
}

/// The values of a row.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    rest: &'a [u8],
}

impl Values<'_> {
    /// Skips values without reading them.
    pub fn skip_values(&mut self, count: usize) {
        for _ in 0..count {
            self.rest = Value::skip_first(self.rest).unwrap_or_default();
        }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (value, rest) = Value::split_first(self.rest)?;
        self.rest = rest;
        Some(value)
    }
}

/// Encodes rows, one after another.
#[derive(Debug)]
pub struct RowBuffer(Vec<u8>);

impl Default for RowBuffer {
    fn default() -> Self {
        // Enough for most rows.
        Self(Vec::with_capacity(1_024))
    }
}

impl RowBuffer {
    pub fn push(&mut self, value: Value<'_>) {
        value.append_to(&mut self.0);
    }

    /// Adds encoded values.
    pub fn extend(&mut self, values: &[u8]) {
        self.0.extend_from_slice(values);
    }

    /// Forgets the values of an unfinished row.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Ends a row.
    pub fn take(&mut self) -> TableRow {
        let row = TableRow(Bytes::copy_from_slice(&self.0));
        self.0.clear();
        row
    }
}

/// Selects the rows of one table that meet all conditions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[must_use]
pub struct RowQuery {
    pub table: &'static Table,
    /// The columns that [`Self::tuples`] compare.
    pub columns: Vec<&'static str>,
    /// A row must have the values of one of these tuples, which are sorted. One empty tuple accepts
    /// every row. A query with several tuples has no range, order or limit.
    pub tuples: Vec<TableRow>,
    /// A column and the half-open range of its values, each a row of one value. Null is in no
    /// range.
    pub range: Option<(&'static str, Range<TableRow>)>,
    /// A column that is not null.
    pub not_null: Option<&'static str>,
    /// The columns to sort by.
    pub order: Vec<&'static str>,
    pub is_descending: bool,
    /// Maximum number of rows.
    pub limit: Option<usize>,
    /// The rows have no wide columns.
    pub is_narrow: bool,
}

impl RowQuery {
    /// The rows that have the values of one of these tuples in these columns.
    pub fn any_of(
        table: &'static Table,
        columns: &[&'static str],
        mut tuples: Vec<TableRow>,
    ) -> Self {
        tuples.sort_unstable();
        tuples.dedup();
        Self {
            table,
            columns: columns.to_vec(),
            tuples,
            range: None,
            not_null: None,
            order: Vec::new(),
            is_descending: false,
            limit: None,
            is_narrow: false,
        }
    }

    /// The rows with these keys, or with keys that begin with these values.
    pub fn keys(table: &'static Table, keys: Vec<RowKey>) -> Self {
        let width = keys.first().map_or(0, |key| key.values().count());
        let mut columns = Vec::with_capacity(width);
        columns.extend(table.columns.iter().take(width).map(|column| column.name));
        Self::any_of(table, &columns, keys)
    }

    /// All rows of a table.
    pub fn all(table: &'static Table) -> Self {
        Self::any_of(table, &[], vec![TableRow::of(&[])])
    }

    pub fn sorted_by(self, order: &[&'static str]) -> Self {
        Self { order: order.to_vec(), ..self }
    }

    pub fn descending(self) -> Self {
        Self { is_descending: true, ..self }
    }

    pub fn limited_to(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Leaves the wide columns out of the rows.
    pub fn narrow(self) -> Self {
        Self { is_narrow: true, ..self }
    }

    /// The columns of the rows.
    pub fn wanted(&self) -> &'static [Column] {
        if self.is_narrow { self.table.narrow_columns() } else { self.table.columns }
    }

    /// Sorts rows of the table as the database does.
    pub fn sort(&self, rows: &mut [TableRow]) {
        let mut order = Vec::with_capacity(self.order.len());
        order.extend(self.order.iter().filter_map(|name| self.table.index_of(name)));
        if order.is_empty() {
            return;
        }
        rows.sort_by(|a, b| {
            let ascending = order
                .iter()
                .map(|&column| a.value(column))
                .cmp(order.iter().map(|&column| b.value(column)));
            if self.is_descending { ascending.reverse() } else { ascending }
        });
    }

    /// Tells which rows of the table meet all conditions.
    pub fn matcher(&self) -> impl Fn(&TableRow) -> bool {
        let position = |name: &&str| self.table.index_of(name);
        let columns: Vec<_> = self.columns.iter().filter_map(position).collect();
        let leads = columns.iter().copied().eq(0..columns.len());
        let has_tuple = |row: &[u8]| self.tuples.binary_search_by(|one| one.0[..].cmp(row)).is_ok();
        let range = self.range.as_ref().map(|(column, range)| {
            (self.table.index_of(column), range.start.value(0)..range.end.value(0))
        });
        let not_null = self.not_null.and_then(|column| self.table.index_of(column));
        move |row| {
            let is_wanted = match &*self.tuples {
                [] => false,
                [tuple] if leads => row.starts_with(tuple),
                _ if leads => has_tuple(row.prefix_bytes(columns.len())),
                _ => has_tuple(row.select(&columns).as_bytes()),
            };
            let is_in_range = range.as_ref().is_none_or(|(column, range)| {
                column.is_some_and(|column| range.contains(&row.value(column)))
            });
            let has_value = not_null.is_none_or(|column| row.value(column) != Value::Null);
            is_wanted && is_in_range && has_value
        }
    }

    /// Fails if a row does not meet the conditions: an index led to a wrong row.
    pub fn check_rows(&self, rows: &[TableRow]) -> StoreResult<()> {
        if rows.iter().all(self.matcher()) { Ok(()) } else { Err(self.table.damaged_index()) }
    }

    /// True if these rows include one for each key, so that none is hidden.
    pub fn is_complete(&self, rows: &[TableRow]) -> bool {
        // A missing part of a text fails its comparison with the version.
        let is_key = self.columns.len() == self.table.key_width;
        *self.table == BODIES || (is_key && rows.len() >= self.tuples.len())
    }

    pub fn within(self, column: &'static str, range: Range<Value<'_>>) -> Self {
        let range = TableRow::of(&[range.start])..TableRow::of(&[range.end]);
        Self { range: Some((column, range)), ..self }
    }
}

/// A change of one row. The row before lets a database write only the columns that differ, and
/// find the entries of its indexes. It is known in tables with indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// Inserts a row. In a table without indexes, it may replace one with the same key.
    Insert(TableRow),
    /// Replaces the row with the same key.
    Update { row: TableRow, before: TableRow },
    /// Deletes a row. There may be none.
    Delete { key: RowKey, before: Option<TableRow> },
}
