//! Reads rows.

use std::borrow::Borrow;
use std::iter::{Empty, Peekable};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::error::damaged;
use reqlore_row_store::row::{RowBuffer, RowQuery, TableRow};
use reqlore_row_store::tables::{TABLES, Table};

use crate::keys::{
    ESCAPE, FIRST_FREE_BYTE, TREE_BYTES, decode_value, piece_key, push_value, row_key, split_value,
    tree_key,
};
use crate::ordered_tree::OrderedTree;
use crate::plan::QueryPlan;

/// The rows of each query.
type QueriedRows = Vec<Vec<TableRow>>;

/// Runs queries. Returns `None` if they visit more rows than the limit allows.
pub fn select(
    tree: &impl OrderedTree,
    queries: &[RowQuery],
    limit: ReadLimit,
) -> StoreResult<Option<QueriedRows>> {
    let mut reader = RowReader { tree, limit, buffer: RowBuffer::default() };
    let mut results = Vec::with_capacity(queries.len());
    for query in queries {
        let Some(rows) = reader.rows_of(query)? else { return Ok(None) };
        results.push(rows);
    }
    Ok(Some(results))
}

/// Reads all rows. Returns the names of at most `limit` damaged ones.
pub fn find_damaged_rows(tree: &impl OrderedTree, limit: usize) -> StoreResult<Vec<String>> {
    let mut reader = RowReader { tree, limit: ReadLimit::NONE, buffer: RowBuffer::default() };
    let mut damaged = Vec::new();
    let mut entries = tree.scan(&[], &[FIRST_FREE_BYTE], false).peekable();
    while let Some(entry) = entries.next() {
        let (key, value) = entry?;
        let key = key.borrow();
        let table = key.first().and_then(|table| TABLES.get(usize::from(*table)));
        let is_damaged = match table {
            None => true,
            // The row of an entry of an index is read with its table.
            Some(_) if key.get(1) != Some(&0) => false,
            Some(table) => match reader.decode(table, key, value.borrow(), Some(&mut entries)) {
                Ok(_) => false,
                Err(StoreError::Unreadable { .. }) => true,
                Err(error) => return Err(error),
            },
        };
        if is_damaged {
            damaged.push(name_row(table.copied(), key));
            if damaged.len() >= limit {
                break;
            }
        }
    }
    Ok(damaged)
}

/// Names a row by its key, for a report.
fn name_row(table: Option<&Table>, key: &[u8]) -> String {
    let Some(table) = table else { return "a row of no table".to_owned() };
    let mut buffer = RowBuffer::default();
    let mut rest = key.get(TREE_BYTES..).unwrap_or_default();
    while let Some((value, next)) = split_value(rest)
        && decode_value(value, &mut buffer).is_some()
    {
        rest = next;
    }
    table.name_row(&buffer.take())
}

type Entry<T> = StoreResult<(<T as OrderedTree>::Bytes, <T as OrderedTree>::Bytes)>;

struct RowReader<'t, T> {
    tree: &'t T,
    limit: ReadLimit,
    buffer: RowBuffer,
}

impl<T: OrderedTree> RowReader<'_, T> {
    fn rows_of(&mut self, query: &RowQuery) -> StoreResult<Option<Vec<TableRow>>> {
        let plan = QueryPlan::of(query);
        let mut rows = Vec::new();
        let is_match = (!plan.is_exact).then(|| query.matcher());
        let mut add = |row: TableRow| {
            if is_match.as_ref().is_none_or(|is_match| is_match(&row)) {
                rows.push(row.prefix(query.wanted().len()));
            }
            plan.is_ordered && query.limit.is_some_and(|limit| rows.len() >= limit)
        };
        for prefix in prefixes(query, &plan)? {
            if !self.read_prefix(query, &plan, prefix, &mut add)? {
                return Ok(None);
            }
        }
        if !plan.is_ordered {
            query.sort(&mut rows);
            rows.truncate(query.limit.unwrap_or(usize::MAX));
        }
        Ok(Some(rows))
    }

    /// Adds the rows with keys that begin with `prefix`, until `add` returns true. False if there
    /// are too many.
    fn read_prefix(
        &mut self,
        query: &RowQuery,
        plan: &QueryPlan,
        prefix: Vec<u8>,
        add: &mut impl FnMut(TableRow) -> bool,
    ) -> StoreResult<bool> {
        let (table, tree) = (query.table, self.tree);
        if query.limit == Some(0) {
            return Ok(true);
        }
        if plan.tree == 0 && plan.compared == table.key_width {
            let Some(value) = tree.get(&prefix)? else { return Ok(true) };
            let row = self.decode::<Empty<_>>(table, &prefix, value.borrow(), None)?;
            let is_within = row.as_ref().is_none_or(|row| self.limit.count(row));
            row.map(add);
            return Ok(is_within);
        }
        let (mut start, mut end) = (prefix.clone(), prefix);
        match &query.range {
            Some((_, range)) if plan.has_range => {
                push_value(&mut start, range.start.value(0));
                push_value(&mut end, range.end.value(0));
            }
            _ => end.push(ESCAPE),
        }
        if start >= end {
            return Ok(true);
        }
        let mut entries = tree.scan(&start, &end, query.is_descending).peekable();
        while let Some(entry) = entries.next() {
            let (key, value) = entry?;
            let key = key.borrow();
            let row = if plan.tree > 0 {
                let damaged = || table.damaged_index();
                let key = row_key(table, &plan.columns, key).ok_or_else(damaged)?;
                let value = tree.get(&key)?.ok_or_else(damaged)?;
                self.decode::<Empty<_>>(table, &key, value.borrow(), None)?
            } else {
                let rest = (!query.is_descending).then_some(&mut entries);
                self.decode(table, key, value.borrow(), rest)?
            };
            let Some(row) = row else { continue };
            if !self.limit.count(&row) {
                return Ok(false);
            }
            if add(row) {
                break;
            }
        }
        Ok(true)
    }

    /// Reads and verifies a row with its later pieces: the next entries of an ascending scan.
    /// Returns `None` for a later piece itself.
    fn decode<I: Iterator<Item = Entry<T>>>(
        &mut self,
        table: &Table,
        key: &[u8],
        value: &[u8],
        rest_of_scan: Option<&mut Peekable<I>>,
    ) -> StoreResult<Option<TableRow>> {
        let decoded = self.decode_key(table, key);
        if decoded == Some(false) {
            return Ok(None);
        }
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(key);
        let (stored, rest) = value.split_first_chunk().unwrap_or((&[0; 4], &[]));
        checksum.update(rest);
        self.buffer.extend(rest);
        if value.len() == T::MAX_VALUE_BYTES {
            let mut add_piece = |piece: Entry<T>| {
                let (_, piece) = piece?;
                checksum.update(piece.borrow());
                self.buffer.extend(piece.borrow());
                Ok(())
            };
            if let Some(rest) = rest_of_scan {
                let is_piece = |entry: &Entry<T>| {
                    entry.as_ref().is_ok_and(|(piece, _)| piece.borrow().starts_with(key))
                };
                while let Some(piece) = rest.next_if(is_piece) {
                    add_piece(piece)?;
                }
            } else {
                let (start, end) = (piece_key(key, 1), [key, &[ESCAPE]].concat());
                self.tree.scan(&start, &end, false).try_for_each(add_piece)?;
            }
        }
        let row = self.buffer.take();
        if decoded.is_none() || checksum.finalize().to_be_bytes() != *stored {
            return Err(damaged(&name_row(Some(table), key)));
        }
        Ok(Some(row))
    }

    /// Returns false for the key of a later piece, `None` if it is damaged.
    fn decode_key(&mut self, table: &Table, key: &[u8]) -> Option<bool> {
        self.buffer.clear();
        let mut rest = key.get(TREE_BYTES..)?;
        for _ in 0..table.key_width {
            let value;
            (value, rest) = split_value(rest)?;
            decode_value(value, &mut self.buffer)?;
        }
        Some(rest.is_empty())
    }
}

/// The beginnings of the keys that may be in a result, each once.
fn prefixes(query: &RowQuery, plan: &QueryPlan) -> StoreResult<Vec<Vec<u8>>> {
    let mut prefixes = Vec::with_capacity(query.tuples.len());
    let mut order = Vec::with_capacity(plan.compared);
    for column in &plan.columns[..plan.compared] {
        let name = query.table.columns[*column].name;
        order.extend(query.columns.iter().position(|one| *one == name));
    }
    for tuple in &query.tuples {
        let mut prefix = tree_key(query.table, plan.tree);
        let values: Vec<_> = tuple.values().collect();
        if values.len() != query.columns.len() {
            return Err(query.table.mismatch());
        }
        for at in &order {
            push_value(&mut prefix, values[*at]);
        }
        prefixes.push(prefix);
    }
    if !prefixes.is_sorted_by(|a, b| a < b) {
        prefixes.sort_unstable();
        prefixes.dedup();
    }
    Ok(prefixes)
}
