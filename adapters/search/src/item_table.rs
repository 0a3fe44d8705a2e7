//! The indexed documents with their versions, and their items by slot.
//!
//! A *slot* is the number of an item in all lists of this crate: scores, vectors, postings. It is
//! reused after the item is removed, so it is valid only until the table changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::RandomState;
use reqlore_domain::document::{DocumentId, Version};
use smallvec::SmallVec;

use crate::checksummed_file::{ByteReader, put_document, put_length, put_text};
use crate::chunk::ChunkHash;
use crate::filter::FacetNumbers;
use crate::script::Script;

/// Nearly always one slot, which needs no allocation.
type Slots = SmallVec<[u32; 1]>;

/// A table of another version is rebuilt.
pub(crate) const VERSION: u32 = 4;

#[derive(Debug, Default)]
pub(crate) struct ItemTable {
    items_by_slot: Vec<Option<IndexedItem>>,
    free_slots: Vec<u32>,
    documents: BTreeMap<Arc<DocumentId>, IndexedDocument>,
    /// Usually empty, so a search can read all of it.
    incomplete: BTreeSet<Arc<DocumentId>>,
    /// Candidate slots by the hash of the lower-case reference.
    slots_by_reference: HashMap<u64, Slots, RandomState>,
    /// Interned, because there are only a few kinds.
    kinds: BTreeSet<Arc<str>>,
    pub(crate) facets: FacetNumbers,
    item_count: usize,
    script_counts: [usize; Script::COUNT],
    revision: u64,
    /// See [`ItemTable::content_hash`].
    content_hash: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedItem {
    pub(crate) document: Arc<DocumentId>,
    pub(crate) reference: Box<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) title: Box<str>,
    pub(crate) chunks: Box<[ChunkHash]>,
    /// Numbers of the table's [`FacetNumbers`].
    pub(crate) facets: Box<[u32]>,
    pub(crate) script: Script,
}

#[derive(Debug)]
struct IndexedDocument {
    version: Version,
    slots: Slots,
}

impl ItemTable {
    /// The upper bound of all slots.
    pub(crate) fn slot_count(&self) -> usize {
        self.items_by_slot.len()
    }

    pub(crate) fn item_count(&self) -> usize {
        self.item_count
    }

    /// Changes with each change of the table; derived data is valid while it is the same.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Equal for equal documents and versions, also in another process.
    pub(crate) fn content_hash(&self) -> u64 {
        self.content_hash
    }

    pub(crate) fn main_script(&self) -> Script {
        Script::most_frequent(&self.script_counts)
    }

    pub(crate) fn item(&self, slot: u32) -> Option<&IndexedItem> {
        self.items_by_slot.get(slot_index(slot))?.as_ref()
    }

    /// Iterates over all items in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &IndexedItem)> {
        (0..).zip(&self.items_by_slot).filter_map(|(slot, item)| Some((slot, item.as_ref()?)))
    }

    /// Returns the slots of a reference in any case, in the order of their documents.
    pub(crate) fn slots_of_reference(&self, reference: &str) -> Vec<u32> {
        let wanted = reference.to_lowercase();
        let Some(candidates) = self.slots_by_reference.get(&self.reference_hash(&wanted)) else {
            return Vec::new();
        };
        let mut matches = Vec::new();
        for slot in candidates {
            // Two references may have the same hash.
            if let Some(item) = self.item(*slot)
                && item.reference.to_lowercase() == wanted
            {
                matches.push((&item.document, *slot));
            }
        }
        matches.sort_by_key(|(document, _)| *document);
        matches.into_iter().map(|(_, slot)| slot).collect()
    }

    pub(crate) fn versions(
        &self,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Vec<(DocumentId, Version)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut versions = Vec::new();
        for (id, document) in self.documents.range::<DocumentId, _>((start, Bound::Unbounded)) {
            if versions.len() == limit {
                break;
            }
            versions.push((DocumentId::clone(id), document.version));
        }
        versions
    }

    /// Removes a document and returns its items with their slots.
    pub(crate) fn remove_document(&mut self, document: &DocumentId) -> Vec<(u32, IndexedItem)> {
        let Some(indexed) = self.documents.remove(document) else { return Vec::new() };
        self.incomplete.remove(document);
        self.revision += 1;
        let removed_hash = document_hash(document, indexed.version);
        // The inverse of the addition in `add_document`.
        self.content_hash = self.content_hash.wrapping_sub(removed_hash);
        let mut removed = Vec::new();
        for slot in indexed.slots {
            let Some(item) = self.items_by_slot[slot_index(slot)].take() else { continue };
            self.free_slots.push(slot);
            self.item_count -= 1;
            self.script_counts[item.script.index()] -= 1;
            self.forget_reference(&item.reference, slot);
            removed.push((slot, item));
        }
        removed
    }

    fn forget_reference(&mut self, reference: &str, slot: u32) {
        let hash = self.reference_hash(&reference.to_lowercase());
        let Some(slots) = self.slots_by_reference.get_mut(&hash) else { return };
        slots.retain(|other| *other != slot);
        if slots.is_empty() {
            self.slots_by_reference.remove(&hash);
        }
    }

    fn reference_hash(&self, reference: &str) -> u64 {
        self.slots_by_reference.hasher().hash_one(reference)
    }

    /// Returns the shared text of a kind.
    pub(crate) fn intern_kind(&mut self, kind: &str) -> Arc<str> {
        if let Some(interned) = self.kinds.get(kind) {
            return Arc::clone(interned);
        }
        let kind: Arc<str> = kind.into();
        self.kinds.insert(Arc::clone(&kind));
        kind
    }

    /// Adds a document without items.
    pub(crate) fn add_document(
        &mut self,
        document: DocumentId,
        version: Version,
    ) -> Arc<DocumentId> {
        self.revision += 1;
        let document = Arc::new(document);
        let indexed = IndexedDocument { version, slots: Slots::new() };
        // A sum of hashes does not depend on the order of the changes.
        self.content_hash = self.content_hash.wrapping_add(document_hash(&document, version));
        if let Some(replaced) = self.documents.insert(Arc::clone(&document), indexed) {
            let replaced = document_hash(&document, replaced.version);
            self.content_hash = self.content_hash.wrapping_sub(replaced);
        }
        document
    }

    /// Marks an added document as indexed in part or not at all.
    pub(crate) fn mark_incomplete(&mut self, document: &Arc<DocumentId>) {
        self.incomplete.insert(Arc::clone(document));
    }

    /// Iterates over the documents that are indexed in part or not at all.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = &Arc<DocumentId>> {
        self.incomplete.iter()
    }

    /// Adds an item of an added document and returns its slot.
    pub(crate) fn add_item(&mut self, item: IndexedItem) -> u32 {
        // Reused, because every search allocates lists of all slots.
        let slot = if let Some(slot) = self.free_slots.pop() {
            slot
        } else {
            self.items_by_slot.push(None);
            u32::try_from(self.items_by_slot.len() - 1).unwrap_or(u32::MAX)
        };
        self.insert_at(slot, item);
        slot
    }

    fn insert_at(&mut self, slot: u32, item: IndexedItem) {
        self.revision += 1;
        self.item_count += 1;
        self.script_counts[item.script.index()] += 1;
        let hash = self.reference_hash(&item.reference.to_lowercase());
        // The hash alone, because the item has the text already.
        self.slots_by_reference.entry(hash).or_default().push(slot);
        if let Some(indexed) = self.documents.get_mut(&item.document) {
            indexed.slots.push(slot);
        }
        self.items_by_slot[slot_index(slot)] = Some(item);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_length(&mut bytes, self.items_by_slot.len());
        for (document, indexed) in &self.documents {
            put_document(&mut bytes, document, indexed.version);
            bytes.push(u8::from(self.incomplete.contains(document)));
            put_length(&mut bytes, indexed.slots.len());
            for slot in &indexed.slots {
                let Some(item) = self.item(*slot) else { continue };
                bytes.extend_from_slice(&slot.to_le_bytes());
                for text in [&*item.reference, &*item.kind, &*item.title] {
                    put_text(&mut bytes, text);
                }
                bytes.push(item.script.to_byte());
                put_length(&mut bytes, item.chunks.len());
                bytes.extend(item.chunks.as_flattened());
                put_length(&mut bytes, item.facets.len());
                for facet in &item.facets {
                    // As text, because numbers are valid in one table only.
                    put_text(&mut bytes, self.facets.text(*facet));
                }
            }
        }
        bytes
    }

    /// Decodes bytes of [`ItemTable::encode`]; `None` if they are inconsistent.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(bytes);
        let mut table = Self::default();
        let slot_count = reader.take_length()?;
        // A free slot takes no bytes in the file, but memory. This bounds it for damaged input.
        if slot_count > bytes.len() + (1 << 20) {
            return None;
        }
        table.items_by_slot.resize_with(slot_count, || None);
        while !reader.0.is_empty() {
            let (document, version) = reader.take_document()?;
            let document = table.add_document(document, version);
            if *reader.take(1)?.first()? != 0 {
                table.mark_incomplete(&document);
            }
            for _ in 0..reader.take_length()? {
                let (slot, item) = table.decode_item(&mut reader, &document)?;
                // Each slot has one item.
                if table.items_by_slot.get(slot_index(slot))?.is_some() {
                    return None;
                }
                table.insert_at(slot, item);
            }
        }
        for (slot, item) in (0..).zip(&table.items_by_slot) {
            if item.is_none() {
                table.free_slots.push(slot);
            }
        }
        Some(table)
    }

    fn decode_item(
        &mut self,
        reader: &mut ByteReader,
        document: &Arc<DocumentId>,
    ) -> Option<(u32, IndexedItem)> {
        let slot = u32::try_from(reader.take_length()?).ok()?;
        let reference = reader.take_text()?.into();
        let kind = self.intern_kind(reader.take_text()?);
        let title = reader.take_text()?.into();
        let script = Script::from_byte(*reader.take(1)?.first()?)?;
        let length = reader.take_length()?.checked_mul(size_of::<ChunkHash>())?;
        let chunks = reader.take(length)?.as_chunks().0.into();
        let document = Arc::clone(document);
        let mut facets = Vec::new();
        for _ in 0..reader.take_length()? {
            facets.push(self.facets.assign(reader.take_text()?));
        }
        let facets = facets.into();
        Some((slot, IndexedItem { document, reference, kind, title, chunks, facets, script }))
    }
}

fn document_hash(document: &DocumentId, version: Version) -> u64 {
    let mut bytes = Vec::new();
    put_document(&mut bytes, document, version);
    first_bytes(&blake3::hash(&bytes))
}

/// Returns the first bytes of a hash as a number.
pub(crate) fn first_bytes(hash: &blake3::Hash) -> u64 {
    let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

pub(crate) fn slot_index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(document: &Arc<DocumentId>, reference: &str, facet: u32) -> IndexedItem {
        IndexedItem {
            document: Arc::clone(document),
            reference: reference.into(),
            kind: "note".into(),
            title: "Заголовок".into(),
            chunks: [[1; 16], [2; 16]].into(),
            script: Script::Cyrillic,
            facets: [facet].into(),
        }
    }

    #[test]
    fn table_round_trips_and_truncated_bytes_are_rejected() {
        let mut table = ItemTable::default();
        for name in ["a", "b", "c"] {
            let document =
                table.add_document(DocumentId::entity(name), Version::of_bytes(name.as_bytes()));
            for reference in ["x", "Y"] {
                let facet = table.facets.assign(reference);
                table.add_item(item(&document, &format!("{name}:{reference}"), facet));
            }
        }
        table.remove_document(&DocumentId::entity("b"));
        let empty = table.add_document(DocumentId::docsets(), Version::of_bytes(b"empty"));
        table.mark_incomplete(&empty);
        let bytes = table.encode();
        let decoded = ItemTable::decode(&bytes).unwrap();
        assert_eq!(decoded.versions(None, 9), table.versions(None, 9));
        assert_eq!(decoded.content_hash(), table.content_hash());
        assert!(decoded.iter().eq(table.iter()));
        assert!(decoded.incomplete().eq([&empty]));
        assert_eq!(decoded.facets.text(decoded.iter().next().unwrap().1.facets[0]), "x");
        assert_eq!((decoded.item_count(), decoded.main_script()), (4, Script::Cyrillic));
        assert_eq!(decoded.slots_of_reference("C:y").len(), 1);
        assert_eq!(decoded.free_slots.len(), 2);
        let mut decodable = 0;
        for length in 0..bytes.len() {
            decodable += usize::from(ItemTable::decode(&bytes[..length]).is_some());
        }
        // Only a cut between two documents gives a table; the checksum of the file detects it.
        assert_eq!(decodable, 3);
    }
}
