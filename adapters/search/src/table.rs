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

use crate::cache_file::{Reader, put, put_document, put_length};
use crate::chunk::Hash;
use crate::filter::Facets;
use crate::script::Script;

/// Nearly always one slot, which then needs no allocation.
type Slots = SmallVec<[u32; 1]>;

/// A table of another version is rebuilt.
pub(crate) const VERSION: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    documents: BTreeMap<Arc<DocumentId>, Known>,
    /// The slots that may have a reference, by the hash of its lower case.
    references: HashMap<u64, Slots, RandomState>,
    /// Each once: there are few of them.
    kinds: BTreeSet<Arc<str>>,
    pub(crate) facets: Facets,
    items: usize,
    scripts: [usize; Script::COUNT],
    changes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) document: Arc<DocumentId>,
    pub(crate) reference: Box<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) title: Box<str>,
    pub(crate) chunks: Box<[Hash]>,
    /// Numbers of the table's [`Facets`].
    pub(crate) facets: Box<[u32]>,
    pub(crate) script: Script,
}

#[derive(Debug)]
struct Known {
    version: Version,
    slots: Slots,
}

impl Table {
    /// Slots are below this number.
    pub(crate) fn width(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// Grows with each change. Data derived from the table is valid while it stays.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The script of most items.
    pub(crate) fn script(&self) -> Script {
        Script::most(&self.scripts)
    }

    pub(crate) fn item(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(index(slot))?.as_ref()
    }

    /// All items with their slots, in the order of slots.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..).zip(&self.entries).filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// Slots of a reference, in the order of their documents.
    pub(crate) fn named(&self, reference: &str) -> Vec<u32> {
        let wanted = reference.to_lowercase();
        let slots = self.references.get(&self.hash(&wanted)).map_or(&[][..], SmallVec::as_slice);
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
    pub(crate) fn remove(&mut self, document: &DocumentId) -> Vec<(u32, Entry)> {
        let Some(known) = self.documents.remove(document) else { return Vec::new() };
        self.changes += 1;
        let mut removed = Vec::new();
        for slot in known.slots {
            let Some(entry) = self.entries[index(slot)].take() else { continue };
            self.free.push(slot);
            self.items -= 1;
            self.scripts[entry.script.index()] -= 1;
            self.forget_reference(&entry.reference, slot);
            removed.push((slot, entry));
        }
        removed
    }

    fn forget_reference(&mut self, reference: &str, slot: u32) {
        let hash = self.hash(&reference.to_lowercase());
        let Some(slots) = self.references.get_mut(&hash) else { return };
        slots.retain(|other| *other != slot);
        if slots.is_empty() {
            self.references.remove(&hash);
        }
    }

    fn hash(&self, reference: &str) -> u64 {
        self.references.hasher().hash_one(reference)
    }

    /// The shared text of a kind.
    pub(crate) fn kind(&mut self, kind: &str) -> Arc<str> {
        if let Some(known) = self.kinds.get(kind) {
            return Arc::clone(known);
        }
        let kind: Arc<str> = kind.into();
        self.kinds.insert(Arc::clone(&kind));
        kind
    }

    /// Takes a document in, so far without items.
    pub(crate) fn know(&mut self, document: DocumentId, version: Version) -> Arc<DocumentId> {
        self.changes += 1;
        let document = Arc::new(document);
        self.documents.insert(Arc::clone(&document), Known { version, slots: Slots::new() });
        document
    }

    /// Takes an item of a known document in; gives its slot.
    pub(crate) fn add(&mut self, entry: Entry) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.put(slot, entry);
        slot
    }

    fn put(&mut self, slot: u32, entry: Entry) {
        self.changes += 1;
        self.items += 1;
        self.scripts[entry.script.index()] += 1;
        let hash = self.hash(&entry.reference.to_lowercase());
        self.references.entry(hash).or_default().push(slot);
        if let Some(known) = self.documents.get_mut(&entry.document) {
            known.slots.push(slot);
        }
        self.entries[index(slot)] = Some(entry);
    }

    pub(crate) fn compose(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_length(&mut bytes, self.entries.len());
        for (document, known) in &self.documents {
            put_document(&mut bytes, document, known.version);
            put_length(&mut bytes, known.slots.len());
            for slot in &known.slots {
                let Some(entry) = self.item(*slot) else { continue };
                bytes.extend_from_slice(&slot.to_le_bytes());
                for text in [&*entry.reference, &*entry.kind, &*entry.title] {
                    put(&mut bytes, text);
                }
                bytes.push(entry.script.byte());
                put_length(&mut bytes, entry.chunks.len());
                bytes.extend(entry.chunks.as_flattened());
                put_length(&mut bytes, entry.facets.len());
                entry.facets.iter().for_each(|facet| put(&mut bytes, self.facets.text(*facet)));
            }
        }
        bytes
    }

    /// Reads what [`Table::compose`] wrote; `None` for what does not fit together.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut table = Self::default();
        let width = reader.length()?;
        // A slot that nothing has is a gap of a few bytes in memory; so many gaps are no table.
        if width > bytes.len() + (1 << 20) {
            return None;
        }
        table.entries.resize_with(width, || None);
        while !reader.0.is_empty() {
            let (document, version) = reader.document()?;
            let document = table.know(document, version);
            for _ in 0..reader.length()? {
                let (slot, entry) = table.parse_entry(&mut reader, &document)?;
                if table.entries.get(index(slot))?.is_some() {
                    return None;
                }
                table.put(slot, entry);
            }
        }
        let free = (0..).zip(&table.entries).filter(|(_, entry)| entry.is_none());
        table.free = free.map(|(slot, _)| slot).collect();
        Some(table)
    }

    fn parse_entry(
        &mut self,
        reader: &mut Reader,
        document: &Arc<DocumentId>,
    ) -> Option<(u32, Entry)> {
        let slot = u32::try_from(reader.length()?).ok()?;
        let reference = reader.text()?.into();
        let kind = self.kind(reader.text()?);
        let title = reader.text()?.into();
        let script = Script::from_byte(*reader.take(1)?.first()?)?;
        let length = reader.length()?.checked_mul(size_of::<Hash>())?;
        let chunks = reader.take(length)?.as_chunks().0.into();
        let document = Arc::clone(document);
        let mut facets = Vec::new();
        for _ in 0..reader.length()? {
            facets.push(self.facets.number(reader.text()?));
        }
        let facets = facets.into();
        Some((slot, Entry { document, reference, kind, title, chunks, facets, script }))
    }
}

/// A slot as an index.
pub(crate) fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(document: &Arc<DocumentId>, reference: &str, facet: u32) -> Entry {
        Entry {
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
        let mut table = Table::default();
        for name in ["a", "b", "c"] {
            let document = table.know(DocumentId::entity(name), Version::of(name.as_bytes()));
            for reference in ["x", "Y"] {
                let facet = table.facets.number(reference);
                table.add(entry(&document, &format!("{name}:{reference}"), facet));
            }
        }
        table.remove(&DocumentId::entity("b"));
        table.know(DocumentId::docsets(), Version::of(b"empty"));
        let bytes = table.compose();
        let read = Table::parse(&bytes).unwrap();
        assert_eq!(read.versions(), table.versions());
        assert!(read.all().eq(table.all()));
        assert_eq!(read.facets.text(read.all().next().unwrap().1.facets[0]), "x");
        assert_eq!((read.items(), read.script()), (4, Script::Cyrillic));
        assert_eq!(read.named("C:y").len(), 1);
        assert_eq!(read.free.len(), 2);
        let readable = |length: &usize| Table::parse(&bytes[..*length]).is_some();
        // Only a cut between two documents gives a table; the checksum around it tells.
        assert_eq!((0..bytes.len()).filter(readable).count(), 3);
    }
}
