//! Encoding of the metadata of a document in its row.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::backlog::ItemMeta;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentMeta, Version};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::sections::mentions::MentionSource;

use crate::error::damaged;

/// The format of metadata and lists in the database.
pub const METADATA_FORMAT: i64 = DocumentMeta::FORMAT as i64;

/// Stored metadata of a document, without what its row has: title, entity, item, mentions,
/// diagnostic, and further fields, which do not change the format.
type StoredMeta = (
    Option<String>,
    Option<Arc<Entity>>,
    Option<Arc<ItemMeta>>,
    Vec<MentionSource>,
    Option<Diagnostic>,
    BTreeMap<String, String>,
);

pub(crate) fn encode_meta(meta: &DocumentMeta) -> StoreResult<Bytes> {
    let DocumentMeta { id, title, version, entity, item, mentions, diagnostic } = meta;
    // As `StoredMeta`, without copies.
    let fields = BTreeMap::<&str, &str>::new();
    let bytes = postcard::to_allocvec(&(title, entity, item, mentions, diagnostic, fields));
    let mut bytes = bytes.map_err(|error| StoreError::Internal(error.to_string()))?;
    bytes.extend(meta_checksum(&bytes, id, *version));
    Ok(bytes.into())
}

/// The CRC32 at the end of stored metadata. It also covers the row to which it belongs.
fn meta_checksum(bytes: &[u8], id: &DocumentId, version: Version) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes);
    hasher.update(id.kind.name().as_bytes());
    hasher.update(id.name.as_bytes());
    hasher.update(&version.to_bits().to_be_bytes());
    hasher.finalize().to_le_bytes()
}

/// `id` and `version` are those of the row.
pub(crate) fn decode_meta(
    bytes: &[u8],
    id: DocumentId,
    version: Version,
) -> StoreResult<DocumentMeta> {
    let stored = bytes.split_last_chunk().and_then(|(bytes, checksum)| {
        let is_intact = *checksum == meta_checksum(bytes, &id, version);
        is_intact.then(|| postcard::from_bytes::<StoredMeta>(bytes).ok())?
    });
    let Some((title, entity, item, mentions, diagnostic, _)) = stored else {
        return Err(damaged(&format!("the metadata of {id}")));
    };
    Ok(DocumentMeta { id, title, version, entity, item, mentions, diagnostic })
}

#[cfg(test)]
mod tests {
    use reqlore_domain::backlog::ItemKind;
    use reqlore_domain::document::{Document, DocumentKind};
    use reqlore_domain::timestamp::Timestamp;

    use super::*;

    #[test]
    fn stored_metadata_has_names_and_is_read_as_it_was() {
        let item = "---\ntitle: One\nstatus: Active\npriority: 2\ntype_name: Non-Functional\n\
                    user_story: US-7\ndepends_on: [REQ-2]\ntags: [a]\n---\n\nSee REQ-003.\n";
        let entity = "---\nid: dec-1d2c8f\ntitle: Two\nstatus: open\nblocks: [REQ-1]\n---\n";
        let requirement = DocumentKind::Item(ItemKind::Requirement);
        for (id, text) in [
            (DocumentId { kind: requirement, name: "REQ-001-one".to_owned() }, item),
            (DocumentId { kind: requirement, name: "REQ-002".to_owned() }, "---\nstatus: [\n---\n"),
            (DocumentId::entity("decisions/dec-1d2c8f"), entity),
            (DocumentId::section("a"), "# A\n\n**1.** See REQ-001.\n"),
        ] {
            let document = Document::new(id.clone(), text.into());
            let meta = DocumentMeta::from_document(&document, Timestamp::default());
            let bytes = encode_meta(&meta).unwrap();
            if text == item {
                let stored = String::from_utf8_lossy(&bytes);
                for name in ["Active", "Non-Functional", "depends_on", "requirement", "US-007"] {
                    assert!(stored.contains(name), "{name} in {stored}");
                }
            }
            let read = decode_meta(&bytes, id.clone(), document.version);
            assert_eq!(read.unwrap(), meta);
            decode_meta(&bytes[..bytes.len() - 1], id, document.version).unwrap_err();
        }
    }
}
