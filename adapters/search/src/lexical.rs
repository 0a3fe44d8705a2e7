//! The lexical index of all items, kept by tantivy in memory.
//!
//! Tantivy's own queries count deleted items into a word's rarity until segments merge, so equal
//! content would rank differently by its history. Therefore [`score`] reads the postings itself.

pub(crate) mod bm25;
pub(crate) mod query_expansion;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tantivy::directory::RamDirectory;
use tantivy::fastfield::AliveBitSet;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::{IndexSettings, InvertedIndexReader};
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::{
    DocAddress, Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, Term,
};

use reqlore_domain::search::SearchItem;

use crate::analyzer::Analyzer;
use crate::item_table::{self, ItemTable};

/// An index of another version is rebuilt.
pub(crate) const VERSION: u32 = 2;

/// Times that a title's words are counted, as it names the subject.
const TITLE_WEIGHT: usize = 2;
/// Tantivy's memory before it writes a segment; its minimum.
const WRITER_MEMORY_BYTES: usize = 15_000_000;
const ANALYZER_NAME: &str = "reqlore";

pub(crate) struct LexicalIndex {
    pub(crate) index: Index,
    pub(crate) directory: RamDirectory,
    writer: IndexWriter,
    reader: IndexReader,
    fields: SchemaFields,
    /// Changed since the last commit.
    is_dirty: bool,
    searcher: LexicalSearcher,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaFields {
    slot: Field,
    words: Field,
    /// Title and text, as answers show them.
    stored: Field,
}

impl std::fmt::Debug for LexicalIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("dirty", &self.is_dirty).finish_non_exhaustive()
    }
}

impl LexicalIndex {
    pub(crate) fn create(analyzer: &Analyzer) -> tantivy::Result<Self> {
        let (schema, _) = build_schema();
        let settings = IndexSettings {
            // Single texts are read, so small blocks; and no thread for each segment.
            docstore_blocksize: 4096,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let directory = RamDirectory::create();
        Self::from_tantivy(Index::create(directory.clone(), schema, settings)?, directory, analyzer)
    }

    /// Opens the index of an earlier process.
    pub(crate) fn open(directory: RamDirectory, analyzer: &Analyzer) -> tantivy::Result<Self> {
        Self::from_tantivy(Index::open(directory.clone())?, directory, analyzer)
    }

    fn from_tantivy(
        index: Index,
        directory: RamDirectory,
        analyzer: &Analyzer,
    ) -> tantivy::Result<Self> {
        let (expected, fields) = build_schema();
        if index.schema() != expected {
            return Err(tantivy::TantivyError::SchemaError("of another version".to_owned()));
        }
        index.tokenizers().register(ANALYZER_NAME, analyzer.clone());
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .num_merge_threads(1)
            .memory_budget_per_thread(WRITER_MEMORY_BYTES)
            .build();
        let writer = index.writer_with_options(options)?;
        writer.set_merge_policy(Box::new(merge_policy()));
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let view = LexicalSearcher::new(&reader.searcher(), fields)?;
        Ok(Self { index, directory, writer, reader, fields, is_dirty: false, searcher: view })
    }

    /// Adds an item to a free slot.
    pub(crate) fn add(&mut self, slot: u32, item: &SearchItem) -> tantivy::Result<()> {
        self.is_dirty = true;
        let mut document = TantivyDocument::default();
        document.add_u64(self.fields.slot, u64::from(slot));
        for text in [&item.title, &item.text] {
            document.add_text(self.fields.stored, text);
        }
        for _ in 0..TITLE_WEIGHT {
            document.add_text(self.fields.words, &item.title);
        }
        let told = [&item.reference, &item.text].into_iter();
        for text in told.chain(&item.tags).chain(&item.links) {
            document.add_text(self.fields.words, text);
        }
        self.writer.add_document(document).map(|_| ())
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.is_dirty = true;
        self.writer.delete_term(Term::from_field_u64(self.fields.slot, u64::from(slot)));
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Makes all changes visible.
    pub(crate) fn commit(&mut self) -> tantivy::Result<()> {
        if self.is_dirty {
            self.writer.commit()?;
            self.reader.reload()?;
            self.searcher = LexicalSearcher::new(&self.reader.searcher(), self.fields)?;
            self.is_dirty = false;
        }
        Ok(())
    }

    pub(crate) fn searcher(&self) -> &LexicalSearcher {
        &self.searcher
    }
}

fn build_schema() -> (Schema, SchemaFields) {
    let mut builder = Schema::builder();
    let words = TextOptions::default().set_indexing_options(
        TextFieldIndexing::default()
            .set_tokenizer(ANALYZER_NAME)
            .set_index_option(IndexRecordOption::WithFreqs),
    );
    let fields = SchemaFields {
        slot: builder.add_u64_field("slot", FAST | INDEXED),
        words: builder.add_text_field("words", words),
        stored: builder.add_text_field("stored", STORED),
    };
    (builder.build(), fields)
}

/// Small segments merge early, so that a search reads few. A large one merges after a third of it
/// was deleted.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_layer_size(256);
    policy.set_min_num_segments(6);
    policy.set_del_docs_ratio_before_merge(0.33);
    policy
}

/// The segments of the last commit, and the address of each slot.
pub(crate) struct LexicalSearcher {
    searcher: Searcher,
    segments: Vec<SegmentPostings>,
    /// By slot.
    addresses: Vec<Option<DocAddress>>,
    /// The number of words of all items, as far as segments record it.
    total_terms: u64,
    words: Field,
    stored: Field,
}

struct SegmentPostings {
    terms: Arc<InvertedIndexReader>,
    /// Slot and length of each document.
    slots: Vec<u32>,
    norms: FieldNormReader,
    alive: Option<AliveBitSet>,
}

impl LexicalSearcher {
    fn new(searcher: &Searcher, fields: SchemaFields) -> tantivy::Result<Self> {
        let mut view = Self {
            searcher: searcher.clone(),
            segments: Vec::new(),
            addresses: Vec::new(),
            total_terms: 0,
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
                let at = item_table::slot_index(slots[item_table::slot_index(doc)]);
                if at >= view.addresses.len() {
                    view.addresses.resize(at + 1, None);
                }
                view.addresses[at] = Some(DocAddress::new(ordinal, doc));
                view.total_terms += u64::from(norms.fieldnorm(doc));
            }
            view.segments.push(SegmentPostings {
                terms: reader.inverted_index(fields.words)?,
                slots,
                norms,
                alive: reader.alive_bitset().cloned(),
            });
        }
        Ok(view)
    }

    /// Title and text of the item in a slot.
    pub(crate) fn stored_text(&self, slot: u32) -> tantivy::Result<Option<(String, String)>> {
        let Some(Some(address)) = self.addresses.get(item_table::slot_index(slot)) else {
            return Ok(None);
        };
        let document: TantivyDocument = self.searcher.doc(*address)?;
        let mut values = document.get_all(self.stored).map(|value| value.as_str());
        let mut next = || values.next().flatten().unwrap_or_default().to_owned();
        Ok(Some((next(), next())))
    }

    /// True if the same slots have items in this table.
    pub(crate) fn matches_table(&self, table: &ItemTable) -> bool {
        self.addresses.iter().flatten().count() == table.item_count()
            && table.iter().all(|(slot, _)| {
                matches!(self.addresses.get(item_table::slot_index(slot)), Some(Some(_)))
            })
    }
}
