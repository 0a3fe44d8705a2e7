//! Values of rows as the database stores them: escaped texts and checksums.

use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use reqlore_row_store::row::{RowBuffer, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{Column, ColumnType, Table};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::errors::DatabaseError;

/// Escapes NUL, which PostgreSQL cannot store in a text. The order of texts stays the same.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte > 1) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0"))
}

/// A value of a row as a parameter of a statement.
#[derive(Debug)]
pub(crate) struct SqlValue<'a>(pub(crate) Value<'a>);

impl ToSql for SqlValue<'_> {
    /// Fails if the column has another type.
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) => number.to_sql_checked(kind, out),
            Value::Text(text) => (&*escape(text)).to_sql_checked(kind, out),
            Value::Binary(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1}') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}"))
}

/// The columns of the rows that several queries return together: the number of the query, and for
/// each type as many columns as the table with the most of them. A checksum is the first integer.
#[derive(Debug)]
pub(crate) struct UnionLayout {
    queries: Vec<(&'static Table, &'static [Column])>,
    /// The number of columns of each type.
    widths: [usize; 3],
}

impl UnionLayout {
    pub(crate) fn new(queries: &[RowQuery]) -> Self {
        let (mut all, mut widths) = (Vec::with_capacity(queries.len()), [0; 3]);
        for query in queries {
            all.push((query.table, query.wanted()));
            for (width, kind) in widths.iter_mut().zip(ColumnType::ALL) {
                *width = columns_of(query.wanted(), kind).len().max(*width);
            }
        }
        Self { queries: all, widths }
    }

    /// The terms of columns. They are named, because a later version may have more.
    pub(crate) fn columns(&self, columns: &[Column]) -> Vec<String> {
        let mut terms = Vec::new();
        for (width, kind) in self.widths.iter().zip(ColumnType::ALL) {
            let columns = columns_of(columns, kind);
            let missing = width - columns.len();
            terms.extend(columns.into_iter().map(str::to_owned));
            terms.extend((0..missing).map(|_| format!("NULL::{}", sql_type(kind))));
        }
        terms
    }

    /// Reads a row. Returns the number of its query.
    pub(crate) fn decode(
        &self,
        row: &Row,
        buffer: &mut RowBuffer,
    ) -> Result<(usize, TableRow), DatabaseError> {
        let number = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(usize::MAX);
        let Some((table, columns)) = self.queries.get(number) else {
            return Err(DatabaseError::internal(format!("a row of query {number}")));
        };
        let [integers, texts, _] = self.widths;
        let checksum = row.try_get::<_, Option<i64>>(1)?;
        let mut next = [2, 1 + integers, 1 + integers + texts];
        for column in *columns {
            let next = &mut next[column.kind as usize];
            match column.kind {
                ColumnType::Integer => buffer.push(row.try_get::<_, Option<i64>>(*next)?.into()),
                ColumnType::Text => {
                    let text = row.try_get::<_, Option<&str>>(*next)?.map(unescape);
                    buffer.push(text.as_deref().into());
                }
                ColumnType::Binary => buffer.push(row.try_get::<_, Option<&[u8]>>(*next)?.into()),
            }
            *next += 1;
        }
        let found = buffer.take();
        if checksum != Some(table.checksum(&found)) {
            return Err(DatabaseError::damaged_row(&table.name_row(&found)));
        }
        Ok((number, found))
    }
}

/// The columns of a type, also the checksum.
fn columns_of(columns: &[Column], kind: ColumnType) -> Vec<&'static str> {
    let mut names = Vec::new();
    if kind == ColumnType::Integer {
        names.push("checksum");
    }
    names.extend(columns.iter().filter(|column| column.kind == kind).map(|one| one.name));
    names
}

pub(crate) fn sql_type(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Integer => "bigint",
        ColumnType::Text => "text",
        ColumnType::Binary => "bytea",
    }
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
            let escaped = escape(&one);
            prop_assert_eq!(&*unescape(&escaped), one.as_str());
            prop_assert_eq!(one.cmp(&two), escape(&one).cmp(&escape(&two)));
        }
    }
}
