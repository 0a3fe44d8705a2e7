//! The indexed documents with their versions, and items by their slots.
//!
//! A *slot* is an item's number in all lists of this crate (scores, vectors, postings). It is
//! reused after the item is removed, so it is valid within one state only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use reqlore_domain::document::{DocumentId, Version};
use smallvec::SmallVec;

use crate::checksummed_file::{ByteReader, put_document, put_length, put_text};
use crate::chunk::ChunkHash;
use crate::filter::FacetNumbers;
use crate::script::Script;

/// Nearly always one slot, which then needs no allocation.
type Slots = SmallVec<[u32; 1]>;

/// A table of another version is rebuilt.
pub(crate) const VERSION: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct ItemTable {
    items_by_slot: Vec<Option<IndexedItem>>,
    free_slots: Vec<u32>,
    documents: BTreeMap<Arc<DocumentId>, IndexedDocument>,
    /// The slots that may have a reference, by the hash of its lower case.
    slots_by_reference: HashMap<u64, Slots, RandomState>,
    /// Each once: there are few of them.
    kinds: BTreeSet<Arc<str>>,
    pub(crate) facets: FacetNumbers,
    item_count: usize,
    script_counts: [usize; Script::COUNT],
    revision: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedItem {
    pub(crate) document: Arc<DocumentId>,
    pub(crate) reference: Box<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) title: Box<str>,
    pub(crate) chunks: Box<[ChunkHash]>,
    /// Numbers of the table's [`Facets`].
    pub(crate) facets: Box<[u32]>,
    pub(crate) script: Script,
}

#[derive(Debug)]
struct IndexedDocument {
    version: Version,
    slots: Slots,
}

impl ItemTable {
    /// Slots are below this number.
    pub(crate) fn slot_count(&self) -> usize {
        self.items_by_slot.len()
    }

    pub(crate) fn item_count(&self) -> usize {
        self.item_count
    }

    /// Grows with each change. Data derived from the table is valid while it stays.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The script of most items.
    pub(crate) fn main_script(&self) -> Script {
        Script::most_frequent(&self.script_counts)
    }

    pub(crate) fn item(&self, slot: u32) -> Option<&IndexedItem> {
        self.items_by_slot.get(slot_index(slot))?.as_ref()
    }

    /// All items with their slots, in the order of slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &IndexedItem)> {
        (0..).zip(&self.items_by_slot).filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// Slots of a reference, in the order of their documents.
    pub(crate) fn slots_of_reference(&self, reference: &str) -> Vec<u32> {
        let wanted = reference.to_lowercase();
        let slots = self
            .slots_by_reference
            .get(&self.reference_hash(&wanted))
            .map_or(&[][..], SmallVec::as_slice);
        let has_it = |slot: &u32| {
            self.item(*slot).is_some_and(|entry| entry.reference.to_lowercase() == wanted)
        };
        let mut slots: Vec<u32> = slots.iter().copied().filter(has_it).collect();
        slots.sort_by_key(|slot| self.item(*slot).map(|entry| &entry.document));
        slots
    }

    pub(crate) fn versions(&self) -> BTreeMap<DocumentId, Version> {
        self.documents.iter().map(|(id, known)| (DocumentId::clone(id), known.version)).collect()
    }

    /// Removes a document. Returns its items with their slots.
    pub(crate) fn remove_document(&mut self, document: &DocumentId) -> Vec<(u32, IndexedItem)> {
        let Some(known) = self.documents.remove(document) else { return Vec::new() };
        self.revision += 1;
        let mut removed = Vec::new();
        for slot in known.slots {
            let Some(entry) = self.items_by_slot[slot_index(slot)].take() else { continue };
            self.free_slots.push(slot);
            self.item_count -= 1;
            self.script_counts[entry.script.index()] -= 1;
            self.forget_reference(&entry.reference, slot);
            removed.push((slot, entry));
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

    /// The shared text of a kind.
    pub(crate) fn intern_kind(&mut self, kind: &str) -> Arc<str> {
        if let Some(known) = self.kinds.get(kind) {
            return Arc::clone(known);
        }
        let kind: Arc<str> = kind.into();
        self.kinds.insert(Arc::clone(&kind));
        kind
    }

    /// Takes a document in, so far without items.
    pub(crate) fn add_document(
        &mut self,
        document: DocumentId,
        version: Version,
    ) -> Arc<DocumentId> {
        self.revision += 1;
        let document = Arc::new(document);
        self.documents
            .insert(Arc::clone(&document), IndexedDocument { version, slots: Slots::new() });
        document
    }

    /// Takes an item of a known document in; gives its slot.
    pub(crate) fn add_item(&mut self, entry: IndexedItem) -> u32 {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.items_by_slot.push(None);
            u32::try_from(self.items_by_slot.len() - 1).unwrap_or(u32::MAX)
        });
        self.insert_at(slot, entry);
        slot
    }

    fn insert_at(&mut self, slot: u32, entry: IndexedItem) {
        self.revision += 1;
        self.item_count += 1;
        self.script_counts[entry.script.index()] += 1;
        let hash = self.reference_hash(&entry.reference.to_lowercase());
        self.slots_by_reference.entry(hash).or_default().push(slot);
        if let Some(known) = self.documents.get_mut(&entry.document) {
            known.slots.push(slot);
        }
        self.items_by_slot[slot_index(slot)] = Some(entry);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_length(&mut bytes, self.items_by_slot.len());
        for (document, known) in &self.documents {
            put_document(&mut bytes, document, known.version);
            put_length(&mut bytes, known.slots.len());
            for slot in &known.slots {
                let Some(entry) = self.item(*slot) else { continue };
                bytes.extend_from_slice(&slot.to_le_bytes());
                for text in [&*entry.reference, &*entry.kind, &*entry.title] {
                    put_text(&mut bytes, text);
                }
                bytes.push(entry.script.to_byte());
                put_length(&mut bytes, entry.chunks.len());
                bytes.extend(entry.chunks.as_flattened());
                put_length(&mut bytes, entry.facets.len());
                entry
                    .facets
                    .iter()
                    .for_each(|facet| put_text(&mut bytes, self.facets.text(*facet)));
            }
        }
        bytes
    }

    /// Reads what [`Table::compose`] wrote; `None` for what does not fit together.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(bytes);
        let mut table = Self::default();
        let width = reader.take_length()?;
        // A slot that nothing has is a gap of a few bytes in memory; so many gaps are no table.
        if width > bytes.len() + (1 << 20) {
            return None;
        }
        table.items_by_slot.resize_with(width, || None);
        while !reader.0.is_empty() {
            let (document, version) = reader.take_document()?;
            let document = table.add_document(document, version);
            for _ in 0..reader.take_length()? {
                let (slot, entry) = table.decode_item(&mut reader, &document)?;
                if table.items_by_slot.get(slot_index(slot))?.is_some() {
                    return None;
                }
                table.insert_at(slot, entry);
            }
        }
        let free = (0..).zip(&table.items_by_slot).filter(|(_, entry)| entry.is_none());
        table.free_slots = free.map(|(slot, _)| slot).collect();
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

/// A slot as an index.
pub(crate) fn slot_index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(document: &Arc<DocumentId>, reference: &str, facet: u32) -> IndexedItem {
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
    fn a_table_reads_back_and_its_parts_do_not() {
        let mut table = ItemTable::default();
        for name in ["a", "b", "c"] {
            let document =
                table.add_document(DocumentId::entity(name), Version::of(name.as_bytes()));
            for reference in ["x", "Y"] {
                let facet = table.facets.assign(reference);
                table.add_item(entry(&document, &format!("{name}:{reference}"), facet));
            }
        }
        table.remove_document(&DocumentId::entity("b"));
        table.add_document(DocumentId::docsets(), Version::of(b"empty"));
        let bytes = table.encode();
        let read = ItemTable::decode(&bytes).unwrap();
        assert_eq!(read.versions(), table.versions());
        assert!(read.iter().eq(table.iter()));
        assert_eq!(read.facets.text(read.iter().next().unwrap().1.facets[0]), "x");
        assert_eq!((read.item_count(), read.main_script()), (4, Script::Cyrillic));
        assert_eq!(read.slots_of_reference("C:y").len(), 1);
        assert_eq!(read.free_slots.len(), 2);
        let readable = |length: &usize| ItemTable::decode(&bytes[..*length]).is_some();
        // Only a cut between two documents gives a table; the checksum around it tells.
        assert_eq!((0..bytes.len()).filter(readable).count(), 3);
    }
}
