//! Keys and values of the trees. Keys sort like the names in them. Every value starts with a
//! checksum.
//!
//! sled moves a page above 128 KiB to a file of its own, which is never synced. A page holds up to
//! 17 values, so values must be small: long values are split into pieces, and metadata that is too
//! large is derived from the body.
//!
//! A name may contain NUL. So it comes last in a key, followed at most by a number of fixed length.
//! The parts before it (numbers, kinds, references) contain no NUL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::history::{ChangeOrigin, PresentEntry};
use reqlore_domain::timestamp::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sled::IVec;

use crate::database::{OVERFLOW, SledDatabase, TREE_NAMES, TreeBatch};
use crate::error::{damaged_database, from_sled};
use crate::item_list::ItemCounts;

/// Maximum size of a piece of a long value, of a place, and of stored metadata with its place.
pub(crate) const PIECE_BYTES: usize = 4096;
/// Maximum size of a document's name and of a project's key.
pub(crate) const MAX_NAME_BYTES: usize = 1000;

/// A stored project. Postcard stores fields by position: their order must not change.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ProjectRow {
    /// At least 1; 0 if the project is not stored.
    pub(crate) id: u32,
    pub(crate) revision: u64,
    /// Number of documents, by [`DocumentKind::name`].
    pub(crate) counts: BTreeMap<String, u64>,
    /// Number of deletions in the history.
    pub(crate) deletions: u64,
    /// Deletions up to this revision, and writers before it, may be missing from the history.
    pub(crate) complete_from: u64,
    /// High-water marks, by [`ItemKind::name`].
    pub(crate) marks: BTreeMap<String, u32>,
    pub(crate) item_counts: ItemCounts,
    /// The writer of `revision`.
    pub(crate) writer_id: u64,
}

impl ProjectRow {
    /// Returns `None` if the value is damaged.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        decode(key, value)
    }

    pub(crate) fn high_water_mark(&self, kind: ItemKind) -> Option<u32> {
        self.marks.get(kind.name()).copied()
    }

    /// Returns the lowest number that no item of this kind ever had.
    pub(crate) fn free_number(&self, kind: ItemKind) -> u32 {
        let mark = self.high_water_mark(kind).unwrap_or_default();
        mark.saturating_add(1)
    }

    pub(crate) fn raise_high_water_mark(&mut self, kind: ItemKind, number: u32) {
        let mark = self.marks.entry(kind.name().to_owned()).or_default();
        *mark = number.max(*mark);
    }

    /// Raises the high-water mark to the document's number, if it has one.
    pub(crate) fn raise_mark_to(&mut self, id: &DocumentId) {
        if let Some(Reference { kind, number }) = Reference::from_document(id) {
            self.raise_high_water_mark(kind, number);
        }
    }
}

/// A stored document without its body. The order of its fields must not change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DocumentRow {
    pub(crate) version: Version,
    pub(crate) revision: u64,
    pub(crate) modified: Timestamp,
    pub(crate) place: Option<Arc<str>>,
    /// Size of the body in bytes.
    pub(crate) length: u64,
    /// The encoded [`DocumentMeta`]; empty if it is too large.
    pub(crate) meta: Vec<u8>,
    /// [`PresentEntry::number`].
    pub(crate) number: u64,
    pub(crate) origin: OriginRow,
}

/// User, tool and reason. A tuple, because postcard cannot skip absent fields.
pub(crate) type OriginRow = (Option<String>, Option<String>, Option<String>);

pub(crate) fn origin_row(origin: ChangeOrigin) -> OriginRow {
    (origin.user, origin.tool, origin.reason)
}

pub(crate) fn origin_of_row((user, tool, reason): OriginRow) -> ChangeOrigin {
    ChangeOrigin { user, tool, reason }
}

/// A stored entry of a history. The order of its fields must not change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct VersionRow {
    /// `None` for a deletion.
    pub(crate) hash: Option<[u8; 32]>,
    pub(crate) at: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) origin: OriginRow,
    pub(crate) is_purged: bool,
}

impl DocumentRow {
    /// Returns `None` if the value is damaged.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        decode(key, value)
    }

    pub(crate) fn entry(&self) -> PresentEntry {
        PresentEntry { number: self.number, origin: origin_of_row(self.origin.clone()) }
    }

    pub(crate) fn set_meta(&mut self, meta: &DocumentMeta) {
        let encoded = postcard::to_allocvec(meta).unwrap_or_default();
        let place_bytes = self.place.as_ref().map_or(0, |place| place.len());
        let fits = encoded.len() + place_bytes <= PIECE_BYTES;
        self.meta = if fits { encoded } else { Vec::new() };
    }

    pub(crate) fn body_pieces(&self) -> u32 {
        piece_count(self.length)
    }
}

/// Common prefix of the keys of all documents of a kind.
pub(crate) fn kind_prefix(project: u32, kind: DocumentKind) -> Vec<u8> {
    [&project.to_be_bytes()[..], kind.name().as_bytes(), b"\0"].concat()
}

pub(crate) fn document_key(project: u32, id: &DocumentId) -> Vec<u8> {
    [&kind_prefix(project, id.kind), id.name.as_bytes()].concat()
}

pub(crate) fn piece_key(key: &[u8], piece: u32) -> Vec<u8> {
    [key, &piece.to_be_bytes()].concat()
}

/// Common prefix of the keys of all documents with this reference.
pub(crate) fn reference_prefix(project: u32, kind: DocumentKind, reference: &str) -> Vec<u8> {
    [&kind_prefix(project, kind), reference.as_bytes(), b"\0"].concat()
}

/// Returns the document's key in [`crate::database::REFERENCES`].
pub(crate) fn reference_key(project: u32, meta: &DocumentMeta) -> Option<Vec<u8>> {
    let DocumentId { kind, name } = &meta.id;
    // A lookup by name needs no reference, and NUL would end it too early in its key.
    let reference = meta.reference().filter(|text| text != name && !text.contains('\0'))?;
    Some([&reference_prefix(project, *kind, &reference)[..], name.as_bytes()].concat())
}

/// Common prefix of the keys of all documents of a kind that may link to a target. A target has
/// any length, so the key holds its hash, and readers check the metadata.
pub(crate) fn link_prefix(project: u32, kind: DocumentKind, target: &str) -> Vec<u8> {
    let hash = Version::of_bytes(target.as_bytes()).to_string();
    [&kind_prefix(project, kind), hash.as_bytes()].concat()
}

pub(crate) fn link_keys(project: u32, meta: &DocumentMeta) -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    for (_, target) in meta.links() {
        let prefix = link_prefix(project, meta.id.kind, &target);
        keys.insert([&prefix, meta.id.name.as_bytes()].concat());
    }
    keys
}

/// Common prefix of the keys of all changes of a project in this revision.
pub(crate) fn revision_prefix(project: u32, revision: u64) -> Vec<u8> {
    [&project.to_be_bytes()[..], &revision.to_be_bytes()].concat()
}

/// Key of the last change of a document, or of its deletion.
pub(crate) fn change_key(project: u32, revision: u64, id: &DocumentId) -> Vec<u8> {
    let prefix = revision_prefix(project, revision);
    [&prefix, id.kind.name().as_bytes(), b"\0", id.name.as_bytes()].concat()
}

/// Common prefix of the keys of a document in the trees of versions and texts.
///
/// NUL ends the name, and a NUL in it is followed by 0xff. So no other document has keys with this
/// prefix, because numbers start with 0, and keys sort by name and number.
pub(crate) fn versions_prefix(project: u32, id: &DocumentId) -> Vec<u8> {
    let mut prefix = kind_prefix(project, id.kind);
    for byte in id.name.bytes() {
        prefix.push(byte);
        if byte == 0 {
            prefix.push(0xff);
        }
    }
    prefix.push(0);
    prefix
}

pub(crate) fn version_key(project: u32, id: &DocumentId, number: u64) -> Vec<u8> {
    [&versions_prefix(project, id)[..], &number.to_be_bytes()].concat()
}

/// Returns the name and the number in a [`version_key`] after its [`kind_prefix`].
pub(crate) fn parse_version_key(rest: &[u8]) -> Option<(String, u64)> {
    let (name, number) = rest.split_last_chunk()?;
    let mut bytes = Vec::new();
    let mut escaped = name.strip_suffix(b"\0")?.iter();
    while let Some(byte) = escaped.next() {
        bytes.push(*byte);
        if *byte == 0 && escaped.next() != Some(&0xff) {
            return None;
        }
    }
    Some((parse_name(&bytes)?, u64::from_be_bytes(*number)))
}

pub(crate) fn text_key(project: u32, id: &DocumentId, hash: &[u8; 32]) -> Vec<u8> {
    [&versions_prefix(project, id)[..], hash].concat()
}

/// Key of an entry in the order of the times when versions ended.
pub(crate) fn version_end_key(ended: Timestamp, version_key: &[u8]) -> Vec<u8> {
    [&version_end_prefix(ended)[..], version_key].concat()
}

pub(crate) fn version_end_prefix(ended: Timestamp) -> [u8; 8] {
    // With the sign bit inverted, times before 1970 come first.
    (ended.0 ^ i64::MIN).to_be_bytes()
}

/// Returns the revision and the document of a [`change_key`].
pub(crate) fn parse_change_key(key: &[u8]) -> Option<(u64, DocumentId)> {
    let (revision, rest) = key.get(4..)?.split_first_chunk()?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let kind = DocumentKind::from_name(std::str::from_utf8(&rest[..end]).ok()?)?;
    let name = parse_name(&rest[end + 1..])?;
    Some((u64::from_be_bytes(*revision), DocumentId { kind, name }))
}

/// Common prefix of the keys of all pieces of a value in [`OVERFLOW`]. It contains the key's
/// length, so no prefix matches the pieces of another value.
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

/// Adds a checksum. It covers the key too, so a value under a wrong key is detected as damaged.
pub(crate) fn seal_value(key: &[u8], payload: &[u8]) -> IVec {
    [&checksum(key, payload)[..], payload].concat().into()
}

/// Returns the payload, or `None` if the value is damaged.
pub(crate) fn unseal_value<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (stored, payload) = value.split_first_chunk()?;
    (*stored == checksum(key, payload)).then_some(payload)
}

fn checksum(key: &[u8], payload: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize().to_le_bytes()
}

pub(crate) fn encode(key: &[u8], value: &impl Serialize) -> IVec {
    // Encoding to memory does not fail. An empty payload would be reported as damaged.
    seal_value(key, &postcard::to_allocvec(value).unwrap_or_default())
}

/// Returns `None` if the value is damaged.
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Option<T> {
    postcard::from_bytes(unseal_value(key, value)?).ok()
}

/// Values of any length: a row holds the length and the first piece, [`OVERFLOW`] the rest.
///
/// A value that becomes shorter twice in one transaction may leave pieces. They are never read, and
/// the next value of that key removes them.
impl SledDatabase {
    pub(crate) fn long_value(&self, tree: usize, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        match self.get(tree, key)? {
            Some(row) => Ok(Some(self.join_pieces(tree, key, &row)?)),
            None => Ok(None),
        }
    }

    /// Returns the value that starts in this row.
    pub(crate) fn join_pieces(&self, tree: usize, key: &[u8], row: &[u8]) -> StoreResult<Vec<u8>> {
        let Some((length, first)) = first_piece(key, row) else { return Err(damaged_row(tree)) };
        let mut value = first.to_vec();
        let prefix = overflow_prefix(tree, key);
        for piece in 1..piece_count(length) {
            let key = piece_key(&prefix, piece);
            let Some(row) = self.get(OVERFLOW, &key)? else { return Err(damaged_row(tree)) };
            let Some(payload) = unseal_value(&key, &row) else { return Err(damaged_row(tree)) };
            value.extend_from_slice(payload);
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
        // By prefix instead of by length, because older pieces may be left.
        for piece in self.tree(OVERFLOW).scan_prefix(overflow_prefix(tree, key)).keys() {
            batch.remove(OVERFLOW, piece.map_err(from_sled)?);
        }
        Ok(())
    }
}

/// Stores a value under a key that was never used before.
pub(crate) fn put_new_long(batch: &mut TreeBatch, tree: usize, key: &[u8], value: &[u8]) {
    // The length in the first piece reveals missing pieces.
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

/// Returns the length of a long value and its first piece.
pub(crate) fn first_piece<'a>(key: &[u8], row: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (length, first) = unseal_value(key, row)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*length), first))
}

/// Encodes as JSON, because postcard cannot read structures that skip absent fields.
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
