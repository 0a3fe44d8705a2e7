//! What lies in the trees: every value with the version of its schema and a checksum.
//!
//! The trap: a page of sled that grows beyond 128 KiB goes to a file of its own that nobody syncs.
//! A page holds up to 17 values, so values are small: bodies are cut into pieces, and a head that
//! is too large together with its document's place is not kept but made from the body.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sled::IVec;

/// Of all values; a store with a newer one is refused.
pub(crate) const SCHEMA: u8 = 1;
/// The longest piece of a body, the longest place, and the largest head that is kept; head and
/// place together are no longer.
pub(crate) const PIECE_BYTES: usize = 4096;

/// What is known of a project.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ProjectRow {
    pub(crate) id: u32,
    pub(crate) revision: u64,
    /// How many documents there are of each kind, by [`Kind::name`].
    pub(crate) counts: BTreeMap<String, u64>,
    /// How many deletions are remembered.
    pub(crate) deletions: u64,
    /// Deletions up to this revision may be forgotten.
    pub(crate) complete_from: u64,
    /// The highest number that items of a kind ever had, by [`ItemKind::name`]. Here, and in no
    /// tree of their own, because a group keeps this row while it is not yet written.
    pub(crate) marks: BTreeMap<String, u32>,
}

impl ProjectRow {
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.counts.get(kind.name()).copied().unwrap_or_default()
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(crate) fn mark(&self, kind: ItemKind) -> Option<u32> {
        self.marks.get(kind.name()).copied()
    }

    /// The lowest number that no item of this kind ever had.
    pub(crate) fn free(&self, kind: ItemKind) -> u32 {
        self.mark(kind).map_or(1, |mark| mark.saturating_add(1))
    }

    /// No later item gets this number.
    pub(crate) fn raise(&mut self, kind: ItemKind, number: u32) {
        let mark = self.marks.entry(kind.name().to_owned()).or_default();
        *mark = number.max(*mark);
    }

    /// Counts a document's number, if it has one.
    pub(crate) fn count_number(&mut self, id: &DocumentId) {
        if let Some(Reference { kind, number }) = Reference::of(id) {
            self.raise(kind, number);
        }
    }
}

/// What is known of a document beside its bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) version: Version,
    pub(crate) revision: u64,
    pub(crate) modified: Timestamp,
    pub(crate) place: Option<Arc<str>>,
    /// Of the body, in bytes.
    pub(crate) length: u64,
    /// Where the document stands among the references; not decoded from a head, because that may
    /// be of an older format.
    pub(crate) reference: Option<String>,
    /// The [`DocumentMeta`]; empty when it is too large.
    pub(crate) head: Vec<u8>,
}

impl Row {
    pub(crate) fn set_head(&mut self, head: &DocumentMeta) {
        let head_bytes = postcard::to_allocvec(head).unwrap_or_default();
        let place = self.place.as_ref().map_or(0, |place| place.len());
        let fits = head_bytes.len() + place <= PIECE_BYTES;
        self.head = if fits { head_bytes } else { Vec::new() };
        // By its name it is found anyway.
        let reference = head.reference().filter(|r| *r != head.id.name && !r.contains('\0'));
        self.reference = reference.map(Cow::into_owned);
    }

    pub(crate) fn pieces(&self) -> u32 {
        pieces(self.length)
    }
}

pub(crate) fn pieces(length: u64) -> u32 {
    u32::try_from(length.div_ceil(PIECE_BYTES as u64)).unwrap_or(u32::MAX)
}

/// The checksum is over the key as well, so a value in the wrong place is found out.
pub(crate) fn seal(key: &[u8], payload: &[u8]) -> IVec {
    let mut value = Vec::with_capacity(5 + payload.len());
    value.push(SCHEMA);
    value.extend(checksum(key, payload));
    value.extend(payload);
    value.into()
}

/// `None` when it is damaged.
pub(crate) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (head, payload) = value.split_at_checked(5)?;
    (head[0] == SCHEMA && head[1..] == checksum(key, payload)).then_some(payload)
}

pub(crate) fn encode(key: &[u8], value: &impl Serialize) -> IVec {
    // Into memory nothing can fail; an empty payload would be found out as damage.
    seal(key, &postcard::to_allocvec(value).unwrap_or_default())
}

pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Option<T> {
    postcard::from_bytes(unseal(key, value)?).ok()
}

fn checksum(key: &[u8], payload: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize().to_le_bytes()
}
