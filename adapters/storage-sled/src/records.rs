//! Keys and values of the trees. Keys sort as the names in them do; every value has the version of
//! the schema and a checksum.
//!
//! A page of sled that grows beyond 128 KiB becomes a file of its own, which nothing syncs. A page
//! holds up to 17 values, so no value is large: long ones are cut into pieces, and metadata that is
//! too large is not stored but made from the body.
//!
//! A name is any text, NUL included. So it is the end of a key, or only a number of fixed length
//! follows. The parts before it (numbers, kinds, references) hold no NUL.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sled::IVec;

use crate::database::{OVERFLOW, SledDatabase, TREE_NAMES, TreeBatch};
use crate::error::{damaged_database, from_sled};

/// The schema of all values; a database with a newer one is refused.
pub(crate) const SCHEMA_VERSION: u8 = 1;
/// The most bytes of a piece of a long value, of a place, and of stored metadata with its place.
pub(crate) const PIECE_BYTES: usize = 4096;
/// The most bytes of a document's name and of a project's key.
pub(crate) const MAX_NAME_BYTES: usize = 1000;

/// A project. Postcard stores no names of fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ProjectRow {
    /// From 1; 0 for a project that is not stored.
    pub(crate) id: u32,
    pub(crate) revision: u64,
    /// The number of documents by [`DocumentKind::name`].
    pub(crate) counts: BTreeMap<String, u64>,
    /// The number of remembered deletions.
    pub(crate) deletions: u64,
    /// Deletions up to this revision may be forgotten.
    pub(crate) complete_from: u64,
    /// High-water marks by [`ItemKind::name`].
    pub(crate) marks: BTreeMap<String, u32>,
}

impl ProjectRow {
    pub(crate) fn document_count(&self, kind: DocumentKind) -> u64 {
        self.counts.get(kind.name()).copied().unwrap_or_default()
    }

    pub(crate) fn high_water_mark(&self, kind: ItemKind) -> Option<u32> {
        self.marks.get(kind.name()).copied()
    }

    /// The lowest number that no item of this kind ever had.
    pub(crate) fn free_number(&self, kind: ItemKind) -> u32 {
        self.high_water_mark(kind).map_or(1, |mark| mark.saturating_add(1))
    }

    pub(crate) fn raise_high_water_mark(&mut self, kind: ItemKind, number: u32) {
        let mark = self.marks.entry(kind.name().to_owned()).or_default();
        *mark = number.max(*mark);
    }

    /// Raises the mark to a document's number, if it has one.
    pub(crate) fn raise_mark_to(&mut self, id: &DocumentId) {
        if let Some(Reference { kind, number }) = Reference::of_document(id) {
            self.raise_high_water_mark(kind, number);
        }
    }
}

/// A document without its body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DocumentRow {
    pub(crate) version: Version,
    pub(crate) revision: u64,
    pub(crate) modified: Timestamp,
    pub(crate) place: Option<Arc<str>>,
    /// Of the body, in bytes.
    pub(crate) length: u64,
    /// Not decoded from the metadata, which may be of an older format.
    pub(crate) reference: Option<String>,
    /// The encoded [`DocumentMeta`]; empty when it is too large.
    pub(crate) meta: Vec<u8>,
}

impl DocumentRow {
    pub(crate) fn set_meta(&mut self, meta: &DocumentMeta) {
        let encoded = postcard::to_allocvec(meta).unwrap_or_default();
        let place = self.place.as_ref().map_or(0, |place| place.len());
        let fits = encoded.len() + place <= PIECE_BYTES;
        self.meta = if fits { encoded } else { Vec::new() };
        // A document is found by its name without this.
        let reference = meta.reference().filter(|r| *r != meta.id.name && !r.contains('\0'));
        self.reference = reference.map(Cow::into_owned);
    }

    /// The number of pieces of the body.
    pub(crate) fn body_pieces(&self) -> u32 {
        piece_count(self.length)
    }

    /// The key in [`crate::database::REFERENCES`].
    pub(crate) fn reference_key(&self, project: u32, id: &DocumentId) -> Option<Vec<u8>> {
        let prefix = reference_prefix(project, id.kind, self.reference.as_ref()?);
        Some([&prefix, id.name.as_bytes()].concat())
    }
}

/// Starts the keys of all documents of a kind.
pub(crate) fn kind_prefix(project: u32, kind: DocumentKind) -> Vec<u8> {
    [&project.to_be_bytes()[..], kind.name().as_bytes(), b"\0"].concat()
}

pub(crate) fn document_key(project: u32, id: &DocumentId) -> Vec<u8> {
    [&kind_prefix(project, id.kind), id.name.as_bytes()].concat()
}

/// One piece of the value with this key.
pub(crate) fn piece_key(key: &[u8], piece: u32) -> Vec<u8> {
    [key, &piece.to_be_bytes()].concat()
}

/// Starts the keys of all documents with this reference.
pub(crate) fn reference_prefix(project: u32, kind: DocumentKind, reference: &str) -> Vec<u8> {
    [&kind_prefix(project, kind), reference.as_bytes(), b"\0"].concat()
}

/// Starts the keys of all documents of a kind that may link to a target. A target is text of any
/// length, so its hash of fixed length is in the key, and readers check the metadata.
pub(crate) fn link_prefix(project: u32, kind: DocumentKind, target: &str) -> Vec<u8> {
    let hash = Version::of(target.as_bytes()).to_string();
    [&kind_prefix(project, kind), hash.as_bytes()].concat()
}

pub(crate) fn link_keys(project: u32, meta: &DocumentMeta) -> BTreeSet<Vec<u8>> {
    let key = |target: &str| {
        let prefix = link_prefix(project, meta.id.kind, target);
        [&prefix, meta.id.name.as_bytes()].concat()
    };
    meta.links().iter().map(|(_, target)| key(target)).collect()
}

/// The newest change of a stored document.
pub(crate) fn history_key(project: u32, id: &DocumentId, revision: u64) -> Vec<u8> {
    [&kind_prefix(project, id.kind), &revision.to_be_bytes()[..], id.name.as_bytes()].concat()
}

/// Starts the keys of all deletions in this revision.
pub(crate) fn deletions_prefix(project: u32, revision: u64) -> Vec<u8> {
    [&project.to_be_bytes()[..], &revision.to_be_bytes()].concat()
}

pub(crate) fn deletion_key(project: u32, revision: u64, id: &DocumentId) -> Vec<u8> {
    let prefix = deletions_prefix(project, revision);
    [&prefix, id.kind.name().as_bytes(), b"\0", id.name.as_bytes()].concat()
}

/// The revision and the document of a [`deletion_key`].
pub(crate) fn parse_deletion_key(key: &[u8]) -> Option<(u64, DocumentId)> {
    let (revision, rest) = key.get(4..)?.split_first_chunk()?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let kind = DocumentKind::from_name(std::str::from_utf8(&rest[..end]).ok()?)?;
    let name = parse_name(&rest[end + 1..])?;
    Some((u64::from_be_bytes(*revision), DocumentId { kind, name }))
}

/// Starts the keys of all pieces of a value in [`OVERFLOW`]. It holds the key's length, so no key
/// is the beginning of another one.
pub(crate) fn overflow_prefix(tree: usize, key: &[u8]) -> Vec<u8> {
    let length = u16::try_from(key.len()).unwrap_or(u16::MAX);
    [TREE_NAMES[tree].as_bytes(), &[0], &length.to_be_bytes(), key].concat()
}

pub(crate) fn parse_name(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn piece_count(length: u64) -> u32 {
    u32::try_from(length.div_ceil(PIECE_BYTES as u64)).unwrap_or(u32::MAX)
}

/// Adds the schema and a checksum, which covers the key too: a value in the wrong place is damage.
pub(crate) fn seal_value(key: &[u8], payload: &[u8]) -> IVec {
    [&[SCHEMA_VERSION], &checksum(key, payload)[..], payload].concat().into()
}

/// `None` if the value is damaged.
pub(crate) fn unseal_value<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (start, payload) = value.split_at_checked(5)?;
    (start[0] == SCHEMA_VERSION && start[1..] == checksum(key, payload)).then_some(payload)
}

fn checksum(key: &[u8], payload: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize().to_le_bytes()
}

pub(crate) fn encode(key: &[u8], value: &impl Serialize) -> IVec {
    // Encoding to memory does not fail; an empty payload would be reported as damage.
    seal_value(key, &postcard::to_allocvec(value).unwrap_or_default())
}

/// `None` if the value is damaged.
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Option<T> {
    postcard::from_bytes(unseal_value(key, value)?).ok()
}

/// Values of any length: a row holds the length and the first piece, [`OVERFLOW`] the others.
///
/// Pieces may be left after a value that became shorter twice in one transaction. They are never
/// read, and the next value of that key removes them.
impl SledDatabase {
    pub(crate) fn long_value(&self, tree: usize, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        self.get(tree, key)?.map(|row| self.join_pieces(tree, key, &row)).transpose()
    }

    /// The value that starts in this row.
    pub(crate) fn join_pieces(&self, tree: usize, key: &[u8], row: &[u8]) -> StoreResult<Vec<u8>> {
        let (length, first) = first_piece(key, row).ok_or_else(|| damaged_row(tree))?;
        let mut value = first.to_vec();
        let prefix = overflow_prefix(tree, key);
        for piece in 1..piece_count(length) {
            let key = piece_key(&prefix, piece);
            let row = self.get(OVERFLOW, &key)?;
            let payload = row.as_ref().and_then(|row| unseal_value(&key, row));
            value.extend_from_slice(payload.ok_or_else(|| damaged_row(tree))?);
        }
        if value.len() as u64 == length { Ok(value) } else { Err(damaged_row(tree)) }
    }

    pub(crate) fn put_long(
        &self,
        batch: &mut TreeBatch,
        tree: usize,
        key: &[u8],
        value: &[u8],
    ) -> StoreResult<()> {
        self.remove_long(batch, tree, key)?;
        put_new_long(batch, tree, key, value);
        Ok(())
    }

    pub(crate) fn remove_long(
        &self,
        batch: &mut TreeBatch,
        tree: usize,
        key: &[u8],
    ) -> StoreResult<()> {
        batch.remove(tree, key);
        for piece in self.tree(OVERFLOW).scan_prefix(overflow_prefix(tree, key)).keys() {
            batch.remove(OVERFLOW, piece.map_err(from_sled)?);
        }
        Ok(())
    }
}

/// Puts a value under a key that was never used before.
pub(crate) fn put_new_long(batch: &mut TreeBatch, tree: usize, key: &[u8], value: &[u8]) {
    let (first, rest) = value.split_at(value.len().min(PIECE_BYTES));
    let length = (value.len() as u64).to_be_bytes();
    batch.put(tree, key, seal_value(key, &[&length, first].concat()));
    let prefix = overflow_prefix(tree, key);
    for (number, bytes) in (1..).zip(rest.chunks(PIECE_BYTES)) {
        let key = piece_key(&prefix, number);
        let row = seal_value(&key, bytes);
        batch.put(OVERFLOW, key, row);
    }
}

/// The length of a long value, and its first piece.
pub(crate) fn first_piece<'a>(key: &[u8], row: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (length, first) = unseal_value(key, row)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*length), first))
}

/// JSON, because postcard can't read structures that leave out absent fields.
pub(crate) fn to_json(value: &impl Serialize) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| StoreError::Internal(error.to_string()))
}

pub(crate) fn from_json<T: DeserializeOwned>(tree: usize, value: &[u8]) -> StoreResult<T> {
    serde_json::from_slice(value).map_err(|_| damaged_row(tree))
}

pub(crate) fn damaged_row(tree: usize) -> StoreError {
    damaged_database(&format!(
        "a value in the tree {} does not match its checksum",
        TREE_NAMES[tree]
    ))
}
