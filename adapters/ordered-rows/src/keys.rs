//! Keys whose bytes sort like the values in them.
//!
//! A value is a tag and its content, and shows its own end. So a key that begins with the bytes of
//! some values begins with these values.

use std::borrow::Cow;

use reqlore_row_store::row::{RowBuffer, Value};
use reqlore_row_store::tables::{Index, TABLES, Table};

const NULL: u8 = 0x00;
const BINARY: u8 = 0x01;
const TEXT: u8 = 0x02;
/// The tag of 0. Other numbers have the tag of their number of bytes above or below it.
const ZERO: u8 = 0x14;
/// The end of a text, and of a zero byte in it if [`ESCAPE`] follows.
const END: u8 = 0x00;
/// Above all tags and all first bytes of the number of a piece.
pub(crate) const ESCAPE: u8 = 0xff;
/// The table and the tree of a key: 0 for rows, then the indexes.
pub(crate) const TREE_BYTES: usize = 2;
/// The first byte of keys that no table has.
pub const FIRST_FREE_BYTE: u8 = 0x40;
const _: () = assert!(TABLES.len() <= FIRST_FREE_BYTE as usize);

/// The beginning of all keys of rows, or of entries of an index.
pub(crate) fn tree_key(table: &Table, tree: usize) -> Vec<u8> {
    let position = TABLES.iter().position(|one| *one == table).unwrap_or(TABLES.len());
    let mut key = Vec::with_capacity(64);
    key.extend([position, tree].map(|number| u8::try_from(number).unwrap_or(u8::MAX)));
    key
}

pub(crate) fn push_value(key: &mut Vec<u8>, value: Value<'_>) {
    let (tag, content) = match value {
        Value::Null => return key.push(NULL),
        Value::Integer(number) => {
            // The complement of a negative number.
            let bits = (number ^ (number >> 63)).cast_unsigned();
            let length = 8 - bits.leading_zeros() as usize / 8;
            let tag = u8::try_from(length).unwrap_or_default();
            key.push(if number < 0 { ZERO - 1 - tag } else { ZERO + tag });
            return key.extend_from_slice(&number.to_be_bytes()[8 - length..]);
        }
        Value::Text(text) => (TEXT, text.as_bytes()),
        Value::Binary(bytes) => (BINARY, bytes),
    };
    key.push(tag);
    for (at, part) in content.split(|byte| *byte == END).enumerate() {
        if at > 0 {
            key.extend([END, ESCAPE]);
        }
        key.extend_from_slice(part);
    }
    key.push(END);
}

/// Splits the first value from a key.
pub(crate) fn split_value(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = match *key.first()? {
        NULL => 1,
        BINARY | TEXT => {
            let mut end = 1;
            loop {
                end += key.get(end..)?.iter().position(|byte| *byte == END)? + 1;
                if key.get(end) != Some(&ESCAPE) {
                    break end;
                }
            }
        }
        tag if tag < ZERO => 1 + usize::from(ZERO - 1 - tag),
        tag => 1 + usize::from(tag - ZERO),
    };
    key.split_at_checked(length)
}

/// Adds a value of a key to a row.
pub(crate) fn decode_value(value: &[u8], row: &mut RowBuffer) -> Option<()> {
    let (tag, content) = value.split_first()?;
    match *tag {
        NULL => row.push(Value::Null),
        BINARY => row.push(Value::Binary(&unescape(content)?)),
        TEXT => row.push(Value::Text(str::from_utf8(&unescape(content)?).ok()?)),
        tag => {
            let mut bytes = [if tag < ZERO { 0xff } else { 0 }; 8];
            bytes.get_mut(8_usize.checked_sub(content.len())?..)?.copy_from_slice(content);
            row.push(Value::Integer(i64::from_be_bytes(bytes)));
        }
    }
    Some(())
}

fn unescape(content: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (_, content) = content.split_last()?;
    if !content.contains(&END) {
        return Some(content.into());
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(content.len()), content);
    while let Some(zero) = rest.iter().position(|byte| *byte == END) {
        bytes.extend_from_slice(&rest[..=zero]);
        // Skips the escape.
        rest = rest.get(zero + 2..)?;
    }
    bytes.extend_from_slice(rest);
    Some(bytes.into())
}

/// The positions of the columns in the keys of an index: its own, then the rest of the row's key.
pub(crate) fn index_columns(table: &Table, index: &Index) -> Vec<usize> {
    let mut columns: Vec<_> =
        index.columns.iter().filter_map(|name| table.index_of(name)).collect();
    for column in 0..table.key_width {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// The key of the row of an entry of an index.
pub(crate) fn row_key(table: &Table, columns: &[usize], entry: &[u8]) -> Option<Vec<u8>> {
    let (mut values, mut rest) = (Vec::with_capacity(columns.len()), entry.get(TREE_BYTES..)?);
    for _ in columns {
        let value;
        (value, rest) = split_value(rest)?;
        values.push(value);
    }
    let mut key = tree_key(table, 0);
    for column in 0..table.key_width {
        let at = columns.iter().position(|one| *one == column)?;
        key.extend_from_slice(values[at]);
    }
    rest.is_empty().then_some(key)
}

/// The key of a piece of a value. The first one is that of the row.
pub(crate) fn piece_key(row_key: &[u8], number: u16) -> Vec<u8> {
    if number == 0 { row_key.to_vec() } else { [row_key, &number.to_be_bytes()].concat() }
}
