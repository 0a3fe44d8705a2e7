//! Metadata in memory: decoded for a small kind, encoded for a large one to use a quarter of the
//! memory.

use std::borrow::Cow;
use std::sync::Arc;

use reqlore_domain::backlog::ItemMeta;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::sections::mentions::MentionSource;
use reqlore_domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// Further documents of a kind are kept encoded. Decoding one takes half a microsecond, which lists
/// of typical projects avoid.
pub(super) const MAX_DECODED: usize = if cfg!(test) { 2 } else { 8_192 };

/// The metadata of a document whose name is known.
#[derive(Debug)]
pub(crate) enum StoredMetadata {
    Decoded(Arc<DocumentMeta>),
    /// A [`RowHead`] and a [`RowBody`], in the format of the cache file.
    Encoded(Box<[u8]>),
}

/// The part of a row that is needed without the metadata.
#[derive(Serialize, Deserialize)]
struct RowHead {
    kind: DocumentKind,
    version: Version,
    hashes: LookupHashes,
}

/// The other metadata.
type RowBody = (
    Option<String>,
    Option<Arc<Entity>>,
    Option<Arc<ItemMeta>>,
    Vec<MentionSource>,
    Option<Diagnostic>,
);

/// Hashes of the words that find a document.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LookupHashes {
    pub(crate) reference: Option<u64>,
    /// Without duplicates.
    pub(crate) link_targets: Vec<u64>,
}

impl LookupHashes {
    pub(crate) fn of_metadata(metadata: &DocumentMeta) -> Self {
        let reference = metadata.reference().map(|reference| hash_word(&reference));
        let mut link_targets = Vec::new();
        for (_, target) in metadata.links() {
            link_targets.push(hash_word(&target));
        }
        link_targets.sort_unstable();
        link_targets.dedup();
        Self { reference, link_targets }
    }
}

/// FNV-1a: the cache file needs a hash that is the same in each process. Different words may have
/// the same hash, so callers compare the word itself.
pub(crate) fn hash_word(word: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in word.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

impl StoredMetadata {
    /// Stores metadata in an index of a kind that has `count` other documents.
    pub(crate) fn new(metadata: DocumentMeta, count: usize) -> Self {
        if count >= MAX_DECODED
            && let Some(row) = encode_row(&metadata)
        {
            return Self::Encoded(row.into());
        }
        Self::Decoded(Arc::new(metadata))
    }

    /// Stores a row of the cache file. `None` if it is invalid.
    pub(crate) fn from_row(name: &str, row: &[u8], count: usize) -> Option<Self> {
        if count < MAX_DECODED {
            return Some(Self::Decoded(Arc::new(decode_row(name, row)?)));
        }
        Some(Self::Encoded(row.into()))
    }

    pub(crate) fn to_metadata(&self, name: &str) -> Arc<DocumentMeta> {
        match self {
            Self::Decoded(metadata) => Arc::clone(metadata),
            Self::Encoded(row) => {
                Arc::new(decode_row(name, row).unwrap_or_else(|| invalid_metadata(name, row)))
            }
        }
    }

    pub(crate) fn version(&self) -> Version {
        match self {
            Self::Decoded(metadata) => metadata.version,
            Self::Encoded(row) => {
                read_head(row).map_or(Version::UNREADABLE, |(head, _)| head.version)
            }
        }
    }

    pub(crate) fn lookup_hashes(&self) -> LookupHashes {
        match self {
            Self::Decoded(metadata) => LookupHashes::of_metadata(metadata),
            Self::Encoded(row) => read_head(row).map(|(head, _)| head.hashes).unwrap_or_default(),
        }
    }

    /// The row of the cache file; `None` if it can't be encoded.
    pub(crate) fn row(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Decoded(metadata) => encode_row(metadata).map(Cow::Owned),
            Self::Encoded(row) => Some(Cow::Borrowed(row)),
        }
    }

    pub(crate) fn is_equal(&self, metadata: &DocumentMeta) -> bool {
        match self {
            Self::Decoded(other) => **other == *metadata,
            // The same metadata always has the same encoding.
            Self::Encoded(row) => encode_row(metadata).is_some_and(|other| **row == *other),
        }
    }
}

fn encode_row(metadata: &DocumentMeta) -> Option<Vec<u8>> {
    let DocumentMeta { id, title, version, entity, item, mentions, diagnostic } = metadata;
    let hashes = LookupHashes::of_metadata(metadata);
    let head = RowHead { kind: id.kind, version: *version, hashes };
    // As a `RowBody`, without copies.
    let body = (title, entity, item, mentions, diagnostic);
    postcard::to_allocvec(&(head, body)).ok()
}

fn read_head(row: &[u8]) -> Option<(RowHead, &[u8])> {
    postcard::take_from_bytes(row).ok()
}

fn decode_row(name: &str, row: &[u8]) -> Option<DocumentMeta> {
    let (RowHead { kind, version, .. }, body) = read_head(row)?;
    let (title, entity, item, mentions, diagnostic): RowBody = postcard::from_bytes(body).ok()?;
    let id = DocumentId { kind, name: name.to_owned() };
    Some(DocumentMeta { id, title, version, entity, item, mentions, diagnostic })
}

/// The metadata of a row that can't be decoded, because its format changed but the number in the
/// cache file did not.
fn invalid_metadata(name: &str, row: &[u8]) -> DocumentMeta {
    let kind = read_head(row).map_or(DocumentKind::Entity, |(head, _)| head.kind);
    let id = DocumentId { kind, name: name.to_owned() };
    let reason = "the metadata cache is invalid; remove the cache folder".to_owned();
    DocumentMeta::placeholder(id, Version::UNREADABLE, Timestamp::default(), reason)
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::Document;

    use super::*;

    fn metadata(text: &str) -> DocumentMeta {
        let document = Document::new(DocumentId::entity("a/b"), text.to_owned().into());
        DocumentMeta::from_document(&document, Timestamp::default())
    }

    #[test]
    fn encoded_metadata_answers_like_decoded() {
        let text = "---\nid: dec-0001\nrelates_to: [US-7, dec-2, US-007]\n---\n# One\n";
        let (one, other) = (metadata(text), metadata(&text.replace("One", "Two")));
        let decoded = StoredMetadata::new(one.clone(), 0);
        let encoded = StoredMetadata::new(one.clone(), MAX_DECODED);
        assert!(matches!(encoded, StoredMetadata::Encoded(_)), "{encoded:?}");
        for stored in [&decoded, &encoded] {
            assert_eq!(*stored.to_metadata("a/b"), one);
            assert_eq!(stored.version(), one.version);
            assert_eq!(stored.row(), encoded.row());
            assert!(stored.is_equal(&one) && !stored.is_equal(&other));
            let hashes = stored.lookup_hashes();
            assert_eq!(hashes.reference, Some(hash_word("dec-0001")));
            let mut targets = vec![hash_word("US-007"), hash_word("dec-2")];
            targets.sort_unstable();
            assert_eq!(hashes.link_targets, targets);
        }
    }

    #[test]
    fn undecodable_row_has_a_diagnostic() {
        let row = StoredMetadata::new(metadata("# One\n"), MAX_DECODED).row().unwrap().into_owned();
        for length in 0..row.len() {
            let cut = &row[..length];
            assert!(StoredMetadata::from_row("a/b", cut, 0).is_none());
            let stored = StoredMetadata::from_row("a/b", cut, MAX_DECODED).unwrap();
            let (found, _) = (stored.to_metadata("a/b"), stored.lookup_hashes());
            assert_eq!((found.id.name.as_str(), found.diagnostic.is_some()), ("a/b", true));
        }
    }
}
