//! Values of rows as the database stores them: escaped texts and checksums.

use std::borrow::Cow;

use bytes::Bytes;
use tokio_postgres::Row;

use super::errors::DatabaseError;
use crate::row::{TableRow, Value};
use crate::tables::{ColumnType, Table};

/// Escapes NUL, which PostgreSQL cannot store in a text. The order of texts stays the same.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte > 1) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0"))
}

fn unescape(text: &str) -> String {
    if !text.contains('\u{1}') {
        return text.to_owned();
    }
    text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}")
}

/// Reads a row, whose last column is the checksum of the others.
pub(crate) fn decode(table: &Table, row: &Row) -> Result<TableRow, DatabaseError> {
    let mut values = Vec::with_capacity(table.columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        values.push(match column.kind {
            ColumnType::Integer => row.try_get::<_, Option<i64>>(index)?.into(),
            ColumnType::Text => row.try_get::<_, Option<&str>>(index)?.map(unescape).into(),
            ColumnType::Binary => {
                row.try_get::<_, Option<&[u8]>>(index)?.map(Bytes::copy_from_slice).into()
            }
        });
    }
    if row.try_get::<_, Option<i64>>(values.len())? != Some(row_checksum(table.name, &values)) {
        return Err(DatabaseError::damaged_row(table.name));
    }
    Ok(values)
}

/// The CRC32 of the table's name and of all values. Each has its type and its length in front, so
/// that no two rows have the same bytes. It detects damage and careless edits. An attacker can
/// compute it too.
///
/// It covers the columns of version 1 of the schema: servers of that version verify it as long as
/// they may run.
pub(crate) fn row_checksum(table: &str, values: &[Value]) -> i64 {
    // Copied to one slice, because CRC32 of many small pieces is slower than the copy.
    let mut bytes = Vec::with_capacity(512);
    append(&mut bytes, b't', table.as_bytes());
    for value in values {
        match value {
            Value::Null => bytes.push(b'n'),
            Value::Integer(number) => append(&mut bytes, b'i', &number.to_le_bytes()),
            Value::Text(text) => append(&mut bytes, b't', text.as_bytes()),
            Value::Binary(binary) => append(&mut bytes, b'b', binary),
        }
    }
    crc32fast::hash(&bytes).into()
}

fn append(bytes: &mut Vec<u8>, value_type: u8, value: &[u8]) {
    bytes.push(value_type);
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn escaped_text_keeps_its_order_and_comes_back(
            one in "[\u{0}-\u{3}01a]{0,6}",
            two in "[\u{0}-\u{3}01a]{0,6}",
        ) {
            prop_assert!(!escape(&one).contains('\0'));
            prop_assert_eq!(unescape(&escape(&one)), one.as_str());
            prop_assert_eq!(one.cmp(&two), escape(&one).cmp(&escape(&two)));
        }
    }
}
