//! A state of the index as searches read it: segments, and where each slot is.

use std::sync::Arc;

use tantivy::fastfield::AliveBitSet;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::schema::{Field, Value};
use tantivy::{DocAddress, Searcher, TantivyDocument};

use super::Fields;
use crate::record::{self, Record};
use crate::table;

pub(crate) struct View {
    searcher: Searcher,
    pub(super) segments: Vec<Segment>,
    /// By slot.
    addresses: Vec<Option<DocAddress>>,
    /// How many words all items have together, as far as segments remember.
    pub(super) total_words: u64,
    pub(super) words: Field,
    record: Field,
}

pub(super) struct Segment {
    pub(super) index: Arc<InvertedIndexReader>,
    /// Slot and length of each document.
    pub(super) slots: Vec<u32>,
    pub(super) norms: FieldNormReader,
    pub(super) alive: Option<AliveBitSet>,
}

impl View {
    pub(super) fn new(searcher: &Searcher, fields: Fields) -> tantivy::Result<Self> {
        let mut view = Self {
            searcher: searcher.clone(),
            segments: Vec::new(),
            addresses: Vec::new(),
            total_words: 0,
            words: fields.words,
            record: fields.record,
        };
        for (ordinal, reader) in (0..).zip(searcher.segment_readers()) {
            let norms = reader.get_fieldnorms_reader(fields.words)?;
            let column = reader.fast_fields().u64("slot")?.first_or_default_col(0);
            let slots: Vec<u32> = (0..reader.max_doc())
                .map(|doc| u32::try_from(column.get_val(doc)).unwrap_or(u32::MAX))
                .collect();
            for doc in reader.doc_ids_alive() {
                let at = table::index(slots[table::index(doc)]);
                if at >= view.addresses.len() {
                    view.addresses.resize(at + 1, None);
                }
                view.addresses[at] = Some(DocAddress::new(ordinal, doc));
                view.total_words += u64::from(norms.fieldnorm(doc));
            }
            view.segments.push(Segment {
                index: reader.inverted_index(fields.words)?,
                slots,
                norms,
                alive: reader.alive_bitset().cloned(),
            });
        }
        Ok(view)
    }

    /// Reads what is stored in a slot.
    pub(crate) fn record<T>(
        &self,
        slot: u32,
        take: impl FnOnce(&Record) -> T,
    ) -> tantivy::Result<Option<T>> {
        let Some(Some(address)) = self.addresses.get(table::index(slot)) else { return Ok(None) };
        let document: TantivyDocument = self.searcher.doc(*address)?;
        Ok(self.read(&document).map(|record| take(&record)))
    }

    /// Reads everything stored, with its slots; `None` if something can't be read.
    pub(crate) fn records<T>(
        &self,
        mut take: impl FnMut(u32, Record) -> T,
    ) -> tantivy::Result<Option<Vec<T>>> {
        let mut taken = Vec::new();
        for (segment, reader) in self.segments.iter().zip(self.searcher.segment_readers()) {
            let store = reader.get_store_reader(1)?;
            let alive = segment.alive.as_ref();
            let documents = store.iter::<TantivyDocument>(alive);
            for (doc, document) in reader.doc_ids_alive().zip(documents) {
                let document = document?;
                let Some(record) = self.read(&document) else { return Ok(None) };
                taken.push(take(segment.slots[table::index(doc)], record));
            }
        }
        Ok(Some(taken))
    }

    fn read<'a>(&self, document: &'a TantivyDocument) -> Option<Record<'a>> {
        record::decode(document.get_first(self.record)?.as_bytes()?)
    }
}
