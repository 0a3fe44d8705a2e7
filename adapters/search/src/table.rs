//! What is indexed, in memory: documents with their versions, items by their slots.
//!
//! The trap: a *slot* is an item's number in all lists of this crate (scores, vectors, postings).
//! It is given anew after the item is gone, so a slot means something only within one state.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::document::{DocumentId, Version};

use crate::bytes::{Reader, put, put_document, put_length};
use crate::chunk::Hash;
use crate::script::Script;

/// A table of another version is built anew.
pub(crate) const VERSION: u32 = 1;

#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    documents: BTreeMap<DocumentId, Known>,
    /// Lower-case references, each with the slots that have it.
    references: HashMap<String, Vec<u32>>,
    items: usize,
    scripts: [usize; Script::COUNT],
    changes: u64,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) document: DocumentId,
    pub(crate) reference: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) chunks: Vec<Hash>,
    pub(crate) script: Script,
}

#[derive(Debug)]
struct Known {
    version: Version,
    slots: Vec<u32>,
}

impl Table {
    /// Slots are below this number.
    pub(crate) fn width(&self) -> usize {
        self.entries.len()
    }

    /// How many items there are.
    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// Grows with each change: what is derived from the table is good as long as it stays.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The script of most items.
    pub(crate) fn script(&self) -> Script {
        Script::most(&self.scripts)
    }

    /// The item in a slot.
    pub(crate) fn item(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(index(slot))?.as_ref()
    }

    /// All items with their slots, in the order of slots.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..).zip(&self.entries).filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// Slots of a reference, in the order of their documents.
    pub(crate) fn named(&self, reference: &str) -> Vec<u32> {
        let mut slots = self.references.get(&reference.to_lowercase()).cloned().unwrap_or_default();
        slots.sort_by_key(|slot| self.item(*slot).map(|entry| &entry.document));
        slots
    }

    pub(crate) fn versions(&self) -> BTreeMap<DocumentId, Version> {
        self.documents.iter().map(|(id, known)| (id.clone(), known.version)).collect()
    }

    /// Forgets a document; gives what it had, with its slots.
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
        let name = reference.to_lowercase();
        if let Some(slots) = self.references.get_mut(&name) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.references.remove(&name);
            }
        }
    }

    /// Takes a document in, so far without items.
    pub(crate) fn know(&mut self, document: &DocumentId, version: Version) {
        self.changes += 1;
        self.documents.insert(document.clone(), Known { version, slots: Vec::new() });
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
        self.references.entry(entry.reference.to_lowercase()).or_default().push(slot);
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
                for text in [&entry.reference, &entry.kind, &entry.title] {
                    put(&mut bytes, text);
                }
                bytes.push(entry.script.byte());
                put_length(&mut bytes, entry.chunks.len());
                bytes.extend(entry.chunks.as_flattened());
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
            table.know(&document, version);
            for _ in 0..reader.length()? {
                let (slot, entry) = parse_entry(&mut reader, document.clone())?;
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
}

fn parse_entry(reader: &mut Reader, document: DocumentId) -> Option<(u32, Entry)> {
    let slot = u32::try_from(reader.length()?).ok()?;
    let reference = reader.text()?.to_owned();
    let kind = reader.text()?.to_owned();
    let title = reader.text()?.to_owned();
    let script = Script::from_byte(*reader.take(1)?.first()?)?;
    let length = reader.length()?.checked_mul(size_of::<Hash>())?;
    let chunks = reader.take(length)?.as_chunks().0.to_vec();
    Some((slot, Entry { document, reference, kind, title, chunks, script }))
}

/// A slot as an index.
pub(crate) fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(document: &DocumentId, reference: &str) -> Entry {
        Entry {
            document: document.clone(),
            reference: reference.to_owned(),
            kind: "note".to_owned(),
            title: "Заголовок".to_owned(),
            chunks: vec![[1; 16], [2; 16]],
            script: Script::Cyrillic,
        }
    }

    #[test]
    fn a_table_reads_back_and_its_parts_do_not() {
        let mut table = Table::default();
        for name in ["a", "b", "c"] {
            let document = DocumentId::entity(name);
            table.know(&document, Version::of(name.as_bytes()));
            for reference in ["x", "Y"] {
                table.add(entry(&document, &format!("{name}:{reference}")));
            }
        }
        table.remove(&DocumentId::entity("b"));
        table.know(&DocumentId::docsets(), Version::of(b"empty"));
        let bytes = table.compose();
        let read = Table::parse(&bytes).unwrap();
        assert_eq!(read.versions(), table.versions());
        assert!(read.all().eq(table.all()));
        assert_eq!((read.items(), read.script()), (4, Script::Cyrillic));
        assert_eq!(read.named("C:y").len(), 1);
        assert_eq!(read.free.len(), 2);
        let readable = |length: &usize| Table::parse(&bytes[..*length]).is_some();
        // Only a cut between two documents gives a table; the checksum around it tells.
        assert_eq!((0..bytes.len()).filter(readable).count(), 3);
    }
}
