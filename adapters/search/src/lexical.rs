//! The lexical index of all items: a tantivy index in memory.
//!
//! Tantivy's own queries count deleted items into a term's frequency until segments merge, so the
//! ranking would depend on the history. Therefore [`bm25`] reads the postings itself.

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
use crate::item_table::{ItemTable, slot_index};

/// An index of another version is rebuilt.
pub(crate) const VERSION: u32 = 2;

/// A title names the subject, so its words are indexed this many times.
const TITLE_WEIGHT: usize = 2;
/// Memory in which tantivy buffers changes; this is its minimum.
const WRITER_MEMORY_BYTES: usize = 15_000_000;
const ANALYZER_NAME: &str = "reqlore";

pub(crate) struct LexicalIndex {
    pub(crate) index: Index,
    pub(crate) directory: RamDirectory,
    writer: IndexWriter,
    reader: IndexReader,
    fields: SchemaFields,
    /// True if there are uncommitted changes.
    is_dirty: bool,
    /// Bytes of the texts that were added since the last flush.
    queued_bytes: usize,
    searcher: LexicalSearcher,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaFields {
    slot: Field,
    words: Field,
    /// Title and text, for snippets.
    stored: Field,
}

impl std::fmt::Debug for LexicalIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LexicalIndex").field("dirty", &self.is_dirty).finish_non_exhaustive()
    }
}

impl LexicalIndex {
    pub(crate) fn create(analyzer: &Analyzer) -> tantivy::Result<Self> {
        let (schema, _) = build_schema();
        let settings = IndexSettings {
            // Snippets read single texts: small blocks, and no thread for each segment.
            docstore_blocksize: 4096,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let directory = RamDirectory::create();
        Self::from_tantivy(Index::create(directory.clone(), schema, settings)?, directory, analyzer)
    }

    /// Opens a loaded index; an error if its schema is of another version.
    pub(crate) fn open(directory: RamDirectory, analyzer: &Analyzer) -> tantivy::Result<Self> {
        Self::from_tantivy(Index::open(directory.clone())?, directory, analyzer)
    }

    fn from_tantivy(
        index: Index,
        directory: RamDirectory,
        analyzer: &Analyzer,
    ) -> tantivy::Result<Self> {
        let (expected, fields) = build_schema();
        // The field numbers are those of `build_schema`, so another schema would mix them up.
        if index.schema() != expected {
            return Err(tantivy::TantivyError::SchemaError(
                "the schema is of another version".to_owned(),
            ));
        }
        index.tokenizers().register(ANALYZER_NAME, analyzer.clone());
        let options = IndexWriterOptions::builder()
            // Each open project has a writer, so more threads would add up.
            .num_worker_threads(1)
            .num_merge_threads(1)
            .memory_budget_per_thread(WRITER_MEMORY_BYTES)
            .build();
        let writer = index.writer_with_options(options)?;
        writer.set_merge_policy(Box::new(merge_policy()));
        // Reloaded by `commit`: an automatic reload would need a thread for each project.
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let view = LexicalSearcher::new(&reader.searcher(), fields)?;
        Ok(Self {
            index,
            directory,
            writer,
            reader,
            fields,
            is_dirty: false,
            queued_bytes: 0,
            searcher: view,
        })
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
        for text in [&item.reference, &item.text] {
            document.add_text(self.fields.words, text);
        }
        for text in item.tags.iter().chain(&item.links) {
            document.add_text(self.fields.words, text);
        }
        self.queued_bytes += item.title.len() + item.text.len();
        self.writer.add_document(document)?;
        Ok(())
    }

    /// Bytes of the texts that may still wait in tantivy's queue, which it does not limit by size.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Waits until all added texts are in the index. They become visible by the next commit.
    pub(crate) fn flush(&mut self) -> tantivy::Result<()> {
        self.writer.commit()?;
        self.queued_bytes = 0;
        Ok(())
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.is_dirty = true;
        self.writer.delete_term(Term::from_field_u64(self.fields.slot, u64::from(slot)));
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Makes all changes visible to the searcher.
    pub(crate) fn commit(&mut self) -> tantivy::Result<()> {
        if self.is_dirty {
            // The order matters: the reader sees only what is committed.
            self.flush()?;
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

/// Merges small segments early, so that a search reads only a few. A large segment merges after a
/// third of it was deleted.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_layer_size(256);
    policy.set_min_num_segments(6);
    policy.set_del_docs_ratio_before_merge(0.33);
    policy
}

/// The state of the last commit: its segments, and the tantivy address of each slot.
pub(crate) struct LexicalSearcher {
    snapshot: Searcher,
    segments: Vec<SegmentPostings>,
    /// By slot.
    addresses: Vec<Option<DocAddress>>,
    /// Number of terms of all items, in the precision of tantivy's field norms.
    total_terms: u64,
    words: Field,
    stored: Field,
}

struct SegmentPostings {
    terms: Arc<InvertedIndexReader>,
    /// The slot of each tantivy document.
    slots: Vec<u32>,
    /// The length of each tantivy document.
    norms: FieldNormReader,
    /// `None` if no document was deleted.
    alive: Option<AliveBitSet>,
}

impl LexicalSearcher {
    fn new(snapshot: &Searcher, fields: SchemaFields) -> tantivy::Result<Self> {
        let mut searcher = Self {
            snapshot: snapshot.clone(),
            segments: Vec::new(),
            addresses: Vec::new(),
            total_terms: 0,
            words: fields.words,
            stored: fields.stored,
        };
        for (ordinal, reader) in (0..).zip(snapshot.segment_readers()) {
            let norms = reader.get_fieldnorms_reader(fields.words)?;
            let column = reader.fast_fields().u64("slot")?.first_or_default_col(0);
            let mut slots = Vec::with_capacity(slot_index(reader.max_doc()));
            for doc in 0..reader.max_doc() {
                slots.push(u32::try_from(column.get_val(doc)).unwrap_or(u32::MAX));
            }
            for doc in reader.doc_ids_alive() {
                let index = slot_index(slots[slot_index(doc)]);
                if index >= searcher.addresses.len() {
                    searcher.addresses.resize(index + 1, None);
                }
                searcher.addresses[index] = Some(DocAddress::new(ordinal, doc));
                // Only live documents, so that deleted ones do not change the average length.
                searcher.total_terms += u64::from(norms.fieldnorm(doc));
            }
            searcher.segments.push(SegmentPostings {
                terms: reader.inverted_index(fields.words)?,
                slots,
                norms,
                alive: reader.alive_bitset().cloned(),
            });
        }
        Ok(searcher)
    }

    /// Returns the title and the text of the item in a slot.
    pub(crate) fn stored_text(&self, slot: u32) -> tantivy::Result<Option<(String, String)>> {
        let Some(Some(address)) = self.addresses.get(slot_index(slot)) else {
            return Ok(None);
        };
        let document: TantivyDocument = self.snapshot.doc(*address)?;
        // The field holds the title first, then the text; see `add`.
        let mut texts = document.get_all(self.stored).filter_map(|value| value.as_str());
        let title = texts.next().unwrap_or_default().to_owned();
        let text = texts.next().unwrap_or_default().to_owned();
        Ok(Some((title, text)))
    }

    /// Returns the number of terms of the item in a slot, in the precision of a field norm.
    pub(crate) fn term_count(&self, slot: u32) -> f32 {
        let Some(Some(address)) = self.addresses.get(slot_index(slot)) else { return 0.0 };
        match self.segments.get(slot_index(address.segment_ord)) {
            Some(segment) => bm25::to_f32(slot_index(segment.norms.fieldnorm(address.doc_id))),
            None => 0.0,
        }
    }

    /// True if this table has items in the same slots.
    pub(crate) fn matches_table(&self, table: &ItemTable) -> bool {
        if self.addresses.iter().flatten().count() != table.item_count() {
            return false;
        }
        for (slot, _) in table.iter() {
            if !matches!(self.addresses.get(slot_index(slot)), Some(Some(_))) {
                return false;
            }
        }
        true
    }
}
