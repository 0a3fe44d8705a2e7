//! Values of any length: a row holds the beginning, and the rest lies in pieces in [`OVERFLOW`].
//!
//! For what is JSON, because it leaves out what is not there, which postcard can't read back. The
//! trap: pieces that nobody counts any more may lie behind a value that became shorter twice in one
//! transaction. The next one that is put there takes them out, and nobody reads them before.

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::{Base, Batch, NAMES, OVERFLOW};
use crate::error::{damaged, of_sled};
use crate::keys;
use crate::values::{PIECE_BYTES, pieces, seal, unseal};

impl Base {
    /// The value with this key.
    pub(crate) fn long(&self, tree: usize, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        let row = self.tree(tree).get(key).map_err(of_sled)?;
        row.map(|row| self.whole(tree, key, &row)).transpose()
    }

    /// The value that this row begins.
    pub(crate) fn whole(&self, tree: usize, key: &[u8], row: &[u8]) -> StoreResult<Vec<u8>> {
        let found = beginning(key, row).ok_or_else(|| damaged_row(tree))?;
        let (length, mut value) = (found.0, found.1.to_vec());
        let prefix = keys::overflow(NAMES[tree], key);
        for piece in 1..pieces(length) {
            let key = keys::piece(&prefix, piece);
            let row = self.tree(OVERFLOW).get(&key).map_err(of_sled)?;
            let payload = row.as_ref().and_then(|row| unseal(&key, row));
            value.extend_from_slice(payload.ok_or_else(|| damaged_row(tree))?);
        }
        if value.len() as u64 == length { Ok(value) } else { Err(damaged_row(tree)) }
    }

    pub(crate) fn put_long(
        &self,
        batch: &mut Batch,
        tree: usize,
        key: &[u8],
        value: &[u8],
    ) -> StoreResult<()> {
        self.remove_long(batch, tree, key)?;
        put_new(batch, tree, key, value);
        Ok(())
    }

    pub(crate) fn remove_long(
        &self,
        batch: &mut Batch,
        tree: usize,
        key: &[u8],
    ) -> StoreResult<()> {
        batch.remove(tree, key);
        for piece in self.tree(OVERFLOW).scan_prefix(keys::overflow(NAMES[tree], key)).keys() {
            batch.remove(OVERFLOW, piece.map_err(of_sled)?);
        }
        Ok(())
    }

    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        tree: usize,
        key: &[u8],
    ) -> StoreResult<Option<T>> {
        self.long(tree, key)?.map(|value| read(tree, &value)).transpose()
    }

    /// All values of a tree, by their keys.
    pub(crate) fn all_json<T: DeserializeOwned>(&self, tree: usize) -> StoreResult<Vec<T>> {
        let value = |entry: sled::Result<_>| {
            let (key, row): (sled::IVec, sled::IVec) = entry.map_err(of_sled)?;
            read(tree, &self.whole(tree, &key, &row)?)
        };
        self.tree(tree).iter().map(value).collect()
    }

    pub(crate) fn put_json(
        &self,
        batch: &mut Batch,
        tree: usize,
        key: &[u8],
        value: &impl Serialize,
    ) -> StoreResult<()> {
        self.put_long(batch, tree, key, &json(value)?)
    }
}

/// Puts a value with a key that nothing has, so nothing needs to be looked for and taken out.
pub(crate) fn put_new(batch: &mut Batch, tree: usize, key: &[u8], value: &[u8]) {
    let (first, rest) = value.split_at(value.len().min(PIECE_BYTES));
    let length = (value.len() as u64).to_be_bytes();
    batch.put(tree, key, seal(key, &[&length, first].concat()));
    let prefix = keys::overflow(NAMES[tree], key);
    for (piece, bytes) in (1..).zip(rest.chunks(PIECE_BYTES)) {
        let key = keys::piece(&prefix, piece);
        let row = seal(&key, bytes);
        batch.put(OVERFLOW, key, row);
    }
}

/// The length of a whole value, and its first bytes.
pub(crate) fn beginning<'a>(key: &[u8], row: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (length, first) = unseal(key, row)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*length), first))
}

pub(crate) fn json(value: &impl Serialize) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| StoreError::Internal(error.to_string()))
}

pub(crate) fn read<T: DeserializeOwned>(tree: usize, value: &[u8]) -> StoreResult<T> {
    serde_json::from_slice(value).map_err(|_| damaged_row(tree))
}

pub(crate) fn damaged_row(tree: usize) -> StoreError {
    damaged(&format!("a value in the tree {} does not match its checksum", NAMES[tree]))
}
