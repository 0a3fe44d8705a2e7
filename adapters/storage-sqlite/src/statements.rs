//! SQL text of queries and changes, generic over the tables.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use reqlore_row_store::row::RowQuery;
use reqlore_row_store::tables::{
    AUDIT, BODIES, Column, ColumnType, DOCUMENTS, Index, PENDING, TABLES, TEXTS, Table,
};

/// How a query finds its rows. Chosen here, because SQLite has no statistics and would prefer an
/// index in the order of the result to one with all compared columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryPlan {
    /// `None` for the key, or for all rows.
    pub(crate) index: Option<&'static Index>,
    pub(crate) uses_key: bool,
    /// No row is read that is not in the result.
    pub(crate) is_exact: bool,
}

/// How well the columns of an index serve a query: the number of compared columns, then a range,
/// then the order.
type Fit = (usize, bool, bool);

fn fit(query: &RowQuery, index: &[&str]) -> Fit {
    let compared = index.iter().take_while(|name| query.columns.contains(name)).count();
    let next = index.get(compared);
    let has_range = query.range.as_ref().is_some_and(|(column, _)| next == Some(column));
    let mut order = query.order.iter().filter(|name| !query.columns.contains(name));
    // SQLite sorts rows with the same first value by the rest, and stops at the limit.
    let is_ordered = order.next().is_none_or(|name| next == Some(name));
    (compared, has_range, is_ordered)
}

impl QueryPlan {
    pub(crate) fn of(query: &RowQuery) -> Self {
        let table = query.table;
        let key = names(&table.columns[..table.key_width]);
        let (mut best, mut index) = (fit(query, &key), None);
        for one in table.indexes {
            let is_implied = one.condition.is_none_or(|condition| {
                let has_range = query.range.as_ref().is_some_and(|(name, _)| *name == condition);
                query.columns.contains(&condition) || query.not_null == Some(condition) || has_range
            });
            let fit = fit(query, one.columns);
            if is_implied && fit > best {
                (best, index) = (fit, Some(one));
            }
        }
        let (compared, has_range, is_ordered) = best;
        let is_exact =
            compared == query.columns.len() && has_range == query.range.is_some() && is_ordered;
        Self { index, uses_key: compared > 0 || has_range, is_exact }
    }

    /// How SQLite names the chosen index; empty if it has no choice.
    fn append_index(self, text: &mut String, table: &Table) {
        let _ = match self.index {
            Some(index) => write!(text, " INDEXED BY {}", index.name),
            None if self.uses_key && !table.indexes.is_empty() => {
                write!(text, " INDEXED BY sqlite_autoindex_{}_1", table.name)
            }
            None => Ok(()),
        };
    }
}

/// The text of a query for one tuple. The first column is the checksum. The parameters are the
/// compared values, the ends of the range and the limit.
pub(crate) fn select_text(query: &RowQuery, plan: QueryPlan) -> String {
    let mut text = String::with_capacity(512);
    text.push_str("SELECT checksum");
    for column in query.wanted() {
        text.push_str(", ");
        text.push_str(column.name);
    }
    text.push_str(" FROM ");
    text.push_str(query.table.name);
    plan.append_index(&mut text, query.table);
    let (mut number, mut conjunction) = (0, " WHERE ");
    let mut compare = |text: &mut String, column: &str, operator: &str| {
        number += 1;
        let _ = write!(text, "{conjunction}{column} {operator} ?{number}");
        conjunction = " AND ";
    };
    for column in &query.columns {
        compare(&mut text, column, "=");
    }
    if let Some((column, _)) = &query.range {
        compare(&mut text, column, ">=");
        compare(&mut text, column, "<");
    }
    if let Some(column) = query.not_null {
        let _ = write!(text, "{conjunction}{column} IS NOT NULL");
    }
    let mut separator = " ORDER BY ";
    for column in &query.order {
        text.push_str(separator);
        text.push_str(column);
        if query.is_descending {
            text.push_str(" DESC");
        }
        separator = ", ";
    }
    if query.limit.is_some() {
        let _ = write!(text, " LIMIT ?{}", number + 1);
    }
    text
}

fn names(columns: &[Column]) -> Vec<&'static str> {
    columns.iter().map(|column| column.name).collect()
}

/// The parameters are all columns and the checksum.
pub(crate) fn insert_text(table: &'static Table) -> &'static str {
    // The longest text, and that of most changes.
    static TEXTS: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
        let tables = TABLES.into_iter().chain([&COMMIT_COUNTER, &PENDING]);
        tables.map(|table| (table.name, new_insert_text(table))).collect()
    });
    TEXTS.get(table.name).map_or("", String::as_str)
}

fn new_insert_text(table: &Table) -> String {
    let mut columns = names(table.columns);
    columns.push("checksum");
    let numbers: Vec<_> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    // Without other indexes, replacing is cheaper than a search for a row with the same key.
    let may_replace = table.indexes.is_empty() && *table != AUDIT;
    let replace = if may_replace { " OR REPLACE" } else { "" };
    let (name, columns, numbers) = (table.name, columns.join(", "), numbers.join(", "));
    format!("INSERT{replace} INTO {name} ({columns}) VALUES ({numbers})")
}

/// Changes some columns of a row. The parameters are their values, the checksum and the key.
pub(crate) fn update_text(table: &Table, changed: &[&Column]) -> String {
    let mut text = format!("UPDATE {} SET ", table.name);
    for (at, column) in changed.iter().enumerate() {
        let _ = write!(text, "{} = ?{}, ", column.name, at + 1);
    }
    let _ = write!(text, "checksum = ?{}", changed.len() + 1);
    append_key(&mut text, table, changed.len() + 2);
    text
}

pub(crate) fn delete_text(table: &Table) -> String {
    let mut text = format!("DELETE FROM {}", table.name);
    append_key(&mut text, table, 1);
    text
}

fn append_key(text: &mut String, table: &Table, first: usize) {
    let mut conjunction = "WHERE";
    for (at, name) in names(&table.columns[..table.key_width]).into_iter().enumerate() {
        let _ = write!(text, " {conjunction} {name} = ?{}", first + at);
        conjunction = "AND";
    }
}

/// The statements that create a table and its indexes.
pub(crate) fn create_text(table: &Table) -> String {
    let mut text = format!("CREATE TABLE {} (", table.name);
    for column in table.columns {
        let kind = match column.kind {
            ColumnType::Integer => "INTEGER",
            ColumnType::Text => "TEXT",
            ColumnType::Binary => "BLOB",
        };
        let not_null = if column.is_nullable { "" } else { " NOT NULL" };
        let _ = write!(text, "{} {kind}{not_null}, ", column.name);
    }
    let key = names(&table.columns[..table.key_width]).join(", ");
    let _ = write!(text, "checksum INTEGER NOT NULL, PRIMARY KEY ({key})) STRICT");
    if is_clustered(table) {
        text.push_str(", WITHOUT ROWID");
    }
    text.push(';');
    for Index { name, columns, condition } in table.indexes {
        let _ = write!(text, "CREATE INDEX {name} ON {} ({})", table.name, columns.join(", "));
        if let Some(condition) = condition {
            let _ = write!(text, " WHERE {condition} IS NOT NULL");
        }
        text.push(';');
    }
    text
}

/// True if the rows are in the tree of the key. An integer is the row ID itself, and large rows
/// would fill the inner pages of the tree.
fn is_clustered(table: &Table) -> bool {
    let has_row_id = table.key_width == 1 && table.columns[0].kind == ColumnType::Integer;
    let is_large = [&DOCUMENTS, &BODIES, &TEXTS].contains(&table);
    !has_row_id && !is_large
}

/// One row: the random ID of this file (16 bytes), the number of its commits (8 bytes) and the
/// highest issued numbers (text). One value, so that it is found in a page of the log.
pub(crate) static COMMIT_COUNTER: Table = Table {
    name: "commit_counter",
    key_width: 1,
    indexes: &[],
    columns: &[column("id", ColumnType::Integer), column("value", ColumnType::Binary)],
};

const fn column(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, is_nullable: false, is_wide: false }
}
