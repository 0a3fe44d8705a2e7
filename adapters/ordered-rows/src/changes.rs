//! The changes of an open transaction, and the tree as they leave it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem::swap;
use std::ops::Bound;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::error::{damaged, refused};
use reqlore_row_store::row::{RowChange, TableRow, Value};
use reqlore_row_store::tables::Table;

use crate::keys::{index_columns, piece_key, push_value, tree_key};
use crate::ordered_tree::OrderedTree;

/// The value of a key before and after a transaction, `None` for none.
#[derive(Debug, Clone)]
pub struct Change<B> {
    pub before: Option<B>,
    pub after: Option<B>,
}

/// The changes of an open transaction by key.
#[derive(Debug, Clone)]
pub struct Changes<B>(BTreeMap<B, Change<B>>);

impl<B> Default for Changes<B> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<B: Borrow<[u8]> + Ord + Clone + From<Vec<u8>>> Changes<B> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&B, &Change<B>)> {
        self.0.iter()
    }

    /// The changes that undo these.
    #[must_use]
    pub fn inverted(mut self) -> Self {
        self.0.values_mut().for_each(|change| swap(&mut change.before, &mut change.after));
        self
    }

    /// The tree with these changes.
    pub fn on<'a, T: OrderedTree<Bytes = B>>(&'a self, tree: &'a T) -> ChangedTree<'a, T> {
        ChangedTree { tree, changes: self }
    }

    /// Adds changes of a table. A key must not occur twice in a row.
    pub fn add<T: OrderedTree<Bytes = B>>(
        &mut self,
        tree: &T,
        table: &'static Table,
        changes: &[RowChange],
    ) -> StoreResult<()> {
        let mut last = None;
        for change in changes {
            let (row, before, key) = match change {
                RowChange::Insert(row) => (Some(row), None, row),
                RowChange::Update { row, before } => (Some(row), Some(before), row),
                RowChange::Delete { key, before } => (None, before.as_ref(), key),
            };
            if let Some(row) = row {
                table.check_values(row)?;
            }
            let mut row_key = tree_key(table, 0);
            for value in key.values().take(table.key_width) {
                push_value(&mut row_key, value);
            }
            check_length::<T>(table, &row_key)?;
            if last.as_ref() == Some(&row_key) {
                return Err(StoreError::Internal(format!(
                    "table {}: a key occurs twice",
                    table.name
                )));
            }
            let existed = self.put_row(tree, table, &row_key, row)?;
            // Without the row before, the entries of an existing row would stay in the indexes.
            let needs_no_before = existed && table.indexes.is_empty();
            if existed != before.is_some() && !needs_no_before {
                return Err(damaged(&format!("a row of table {}", table.name)));
            }
            self.replace_entries::<T>(table, before, row)?;
            last = Some(row_key);
        }
        Ok(())
    }

    /// Replaces a row and its pieces. Returns true if it existed.
    fn put_row<T: OrderedTree<Bytes = B>>(
        &mut self,
        tree: &T,
        table: &Table,
        key: &[u8],
        row: Option<&TableRow>,
    ) -> StoreResult<bool> {
        let value = row.map_or_else(Vec::new, |row| {
            let content = &row.as_bytes()[row.prefix_bytes(table.key_width).len()..];
            let mut checksum = crc32fast::Hasher::new();
            checksum.update(key);
            checksum.update(content);
            [&checksum.finalize().to_be_bytes(), content].concat()
        });
        let mut pieces = value.chunks(T::MAX_VALUE_BYTES);
        let (mut existed, mut may_exist) = (false, true);
        for number in 0.. {
            let key = piece_key(key, number);
            let before = if may_exist { self.on(tree).get(&key)? } else { None };
            may_exist = before.as_ref().is_some_and(|one| one.borrow().len() == T::MAX_VALUE_BYTES);
            existed |= before.is_some();
            let after = pieces.next().map(|piece| piece.to_vec().into());
            if before.is_none() && after.is_none() {
                break;
            }
            self.set(key, before, after);
        }
        Ok(existed)
    }

    /// Replaces the entries of a row in the indexes that differ.
    fn replace_entries<T: OrderedTree>(
        &mut self,
        table: &Table,
        before: Option<&TableRow>,
        after: Option<&TableRow>,
    ) -> StoreResult<()> {
        if table.indexes.is_empty() {
            return Ok(());
        }
        let [before, after] = [before, after].map(|row| index_keys(table, row));
        for (before, after) in before.into_iter().zip(after) {
            if before != after {
                let value = || Some(Vec::new().into());
                if let Some(key) = before {
                    self.set(key, value(), None);
                }
                if let Some(key) = after {
                    check_length::<T>(table, &key)?;
                    self.set(key, None, value());
                }
            }
        }
        Ok(())
    }

    /// Changes the value of a key. `before` is its present one.
    pub fn set(&mut self, key: Vec<u8>, before: Option<B>, after: Option<B>) {
        match self.0.entry(key.into()) {
            Entry::Vacant(entry) => drop(entry.insert(Change { before, after })),
            Entry::Occupied(mut entry) => entry.get_mut().after = after,
        }
    }
}

/// Refuses a key that the engine cannot keep.
fn check_length<T: OrderedTree>(table: &Table, key: &[u8]) -> StoreResult<()> {
    if key.len() <= T::MAX_KEY_BYTES {
        return Ok(());
    }
    let (name, limit) = (table.name, T::MAX_KEY_BYTES);
    let reason = format!("the key of a row of {name} is longer than {limit} bytes");
    Err(refused(format!("{reason}; choose shorter names")))
}

/// The keys of a row in all indexes, `None` in those that do not have it.
fn index_keys(table: &Table, row: Option<&TableRow>) -> Vec<Option<Vec<u8>>> {
    let values: Vec<_> = row.map_or_else(Vec::new, |row| row.values().collect());
    let value = |column: usize| values.get(column).copied().unwrap_or_default();
    let mut keys = Vec::with_capacity(table.indexes.len());
    for (tree, index) in (1..).zip(table.indexes) {
        let condition = index.condition.and_then(|name| table.index_of(name));
        let is_in = row.is_some() && condition.is_none_or(|column| value(column) != Value::Null);
        keys.push(is_in.then(|| {
            let mut key = tree_key(table, tree);
            for column in index_columns(table, index) {
                push_value(&mut key, value(column));
            }
            key
        }));
    }
    keys
}

/// A tree with the changes of an open transaction.
#[derive(Debug)]
pub struct ChangedTree<'a, T: OrderedTree> {
    tree: &'a T,
    changes: &'a Changes<T::Bytes>,
}

impl<T: OrderedTree> OrderedTree for ChangedTree<'_, T> {
    type Bytes = T::Bytes;

    const MAX_KEY_BYTES: usize = T::MAX_KEY_BYTES;
    const MAX_VALUE_BYTES: usize = T::MAX_VALUE_BYTES;

    fn get(&self, key: &[u8]) -> StoreResult<Option<T::Bytes>> {
        match self.changes.0.get(key) {
            Some(change) => Ok(change.after.clone()),
            None => self.tree.get(key),
        }
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        is_descending: bool,
    ) -> impl Iterator<Item = StoreResult<(T::Bytes, T::Bytes)>> {
        let mut stored = self.tree.scan(start, end, is_descending).peekable();
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let mut changed = self.changes.0.range::<[u8], _>(bounds);
        let mut next_change =
            move || if is_descending { changed.next_back() } else { changed.next() };
        let mut change = next_change();
        std::iter::from_fn(move || {
            loop {
                let order = match (stored.peek(), change) {
                    (_, None) | (Some(Err(_)), _) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some(Ok((key, _))), Some((changed, _))) if is_descending => changed.cmp(key),
                    (Some(Ok((key, _))), Some((changed, _))) => key.cmp(changed),
                };
                if order == Ordering::Less {
                    return stored.next();
                }
                if order == Ordering::Equal {
                    stored.next();
                }
                let (key, after) = change.map(|(key, change)| (key, &change.after))?;
                change = next_change();
                if let Some(after) = after {
                    return Some(Ok((key.clone(), after.clone())));
                }
            }
        })
    }
}
