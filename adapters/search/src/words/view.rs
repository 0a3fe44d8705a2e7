//! A state of the index as searches read it: segments, and where each slot is.

use std::sync::Arc;

use tantivy::fastfield::AliveBitSet;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::schema::{Field, Value};
use tantivy::{DocAddress, Searcher, TantivyDocument};

use super::Fields;
use crate::table::{self, Table};

pub(crate) struct View {
    searcher: Searcher,
    pub(super) segments: Vec<Segment>,
    /// By slot.
    addresses: Vec<Option<DocAddress>>,
    /// How many words all items have together, as far as segments remember.
    pub(super) total_words: u64,
    pub(super) words: Field,
    stored: Field,
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
            stored: fields.stored,
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

    /// Title and text of the item in a slot.
    pub(crate) fn text(&self, slot: u32) -> tantivy::Result<Option<(String, String)>> {
        let Some(Some(address)) = self.addresses.get(table::index(slot)) else { return Ok(None) };
        let document: TantivyDocument = self.searcher.doc(*address)?;
        let mut values = document.get_all(self.stored).map(|value| value.as_str());
        let mut next = || values.next().flatten().unwrap_or_default().to_owned();
        Ok(Some((next(), next())))
    }

    /// Is there an item in exactly the slots of this table?
    pub(crate) fn fits(&self, table: &Table) -> bool {
        self.addresses.iter().flatten().count() == table.items()
            && table
                .all()
                .all(|(slot, _)| matches!(self.addresses.get(table::index(slot)), Some(Some(_))))
    }
}
