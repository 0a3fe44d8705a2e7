//! What is indexed, in memory: documents with their versions, items by their slots.
//!
//! The trap: a *slot* is an item's number in all lists of this crate (scores, vectors, postings). It
//! is given anew after the item is gone, so a slot means something only within one state.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::document::{DocumentId, Version};

use crate::chunk::Hash;
use crate::record::Stored;
use crate::script::Script;

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

/// An item, or the mark of a document without items.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) document: DocumentId,
    pub(crate) reference: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) chunks: Vec<Hash>,
    pub(crate) script: Script,
    mark: bool,
}

impl Entry {
    pub(crate) fn new(document: DocumentId, item: Option<Stored>) -> Self {
        let mark = item.is_none();
        let (reference, kind, title) =
            item.as_ref().map_or(("", "", ""), |item| (item.reference, item.kind, item.title));
        let (reference, kind, title) = (reference.to_owned(), kind.to_owned(), title.to_owned());
        let script = item.as_ref().map_or(Script::None, |item| item.script);
        let chunks = item.map(|item| item.chunks).unwrap_or_default();
        Self { document, reference, kind, title, chunks, script, mark }
    }
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
        self.entry(slot).filter(|entry| !entry.mark)
    }

    pub(crate) fn entry(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(index(slot))?.as_ref()
    }

    /// All items with their slots, in the order of slots.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..).zip(&self.entries).filter_map(|(slot, entry)| {
            entry.as_ref().filter(|entry| !entry.mark).map(|entry| (slot, entry))
        })
    }

    /// Slots of a reference, in the order of their documents.
    pub(crate) fn named(&self, reference: &str) -> Vec<u32> {
        let mut slots = self.references.get(&reference.to_lowercase()).cloned().unwrap_or_default();
        slots.sort_by_key(|slot| self.entry(*slot).map(|entry| &entry.document));
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
            if !entry.mark {
                self.items -= 1;
                self.scripts[entry.script.index()] -= 1;
                self.forget_reference(&entry.reference, slot);
            }
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

    /// Takes an item of a document in; gives its slot.
    pub(crate) fn add(&mut self, version: Version, entry: Entry) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.put(slot, version, entry);
        slot
    }

    /// Fills an empty table with what was stored; `None` if two items claim one slot or one
    /// document has two versions.
    pub(crate) fn restore(stored: Vec<(u32, Version, Entry)>) -> Option<Self> {
        let mut table = Self::default();
        let width = stored.iter().map(|(slot, ..)| index(*slot) + 1).max().unwrap_or(0);
        if width > stored.len().saturating_mul(64).saturating_add(1 << 16) {
            return None;
        }
        table.entries.resize_with(width, || None);
        for (slot, version, entry) in stored {
            let known = table.documents.get(&entry.document);
            if table.entry(slot).is_some() || known.is_some_and(|known| known.version != version) {
                return None;
            }
            table.put(slot, version, entry);
        }
        let free = (0..).zip(&table.entries).filter(|(_, entry)| entry.is_none());
        table.free = free.map(|(slot, _)| slot).collect();
        Some(table)
    }

    fn put(&mut self, slot: u32, version: Version, entry: Entry) {
        self.changes += 1;
        if !entry.mark {
            self.items += 1;
            self.scripts[entry.script.index()] += 1;
            self.references.entry(entry.reference.to_lowercase()).or_default().push(slot);
        }
        let known = self.documents.entry(entry.document.clone());
        known.or_insert(Known { version, slots: Vec::new() }).slots.push(slot);
        self.entries[index(slot)] = Some(entry);
    }
}

/// A slot as an index.
pub(crate) fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}
