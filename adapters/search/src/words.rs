//! The words of all items, kept by tantivy in memory.
//!
//! The trap: tantivy's own queries count what is deleted into a word's rarity until segments merge,
//! so the same content would rank differently depending on its history. [`score`] therefore walks
//! the postings itself; tantivy keeps them, and merges, and finds words.

pub(crate) mod expand;
#[cfg(test)]
mod oracle;
pub(crate) mod score;
pub(crate) mod view;

use tantivy::directory::RamDirectory;
use tantivy::index::IndexSettings;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, Term};

use reqlore_domain::search::Item;

use crate::analyzer::Analyzer;
use view::View;

/// An index of another version is built anew.
pub(crate) const VERSION: u32 = 2;

/// How often a title's words count: it says in a few words what the text is about.
const TITLE_WEIGHT: usize = 2;
/// What tantivy may hold before it makes a segment; its least.
const WRITER_BYTES: usize = 15_000_000;
const ANALYZER: &str = "reqlore";

pub(crate) struct Words {
    pub(crate) index: Index,
    /// Where tantivy keeps its files.
    pub(crate) directory: RamDirectory,
    writer: IndexWriter,
    reader: IndexReader,
    fields: Fields,
    /// Changed since the last commit.
    dirty: bool,
    view: View,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    slot: Field,
    words: Field,
    /// Title and text, as answers show them.
    stored: Field,
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("dirty", &self.dirty).finish_non_exhaustive()
    }
}

impl Words {
    pub(crate) fn empty(analyzer: &Analyzer) -> tantivy::Result<Self> {
        let (schema, _) = schema();
        let settings = IndexSettings {
            // Single texts are read, so small blocks; and no thread for each segment.
            docstore_blocksize: 4096,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let directory = RamDirectory::create();
        Self::with(Index::create(directory.clone(), schema, settings)?, directory, analyzer)
    }

    /// With what was written by a process before.
    pub(crate) fn open(directory: RamDirectory, analyzer: &Analyzer) -> tantivy::Result<Self> {
        Self::with(Index::open(directory.clone())?, directory, analyzer)
    }

    fn with(index: Index, directory: RamDirectory, analyzer: &Analyzer) -> tantivy::Result<Self> {
        let (expected, fields) = schema();
        if index.schema() != expected {
            return Err(tantivy::TantivyError::SchemaError("of another version".to_owned()));
        }
        index.tokenizers().register(ANALYZER, analyzer.clone());
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .num_merge_threads(1)
            .memory_budget_per_thread(WRITER_BYTES)
            .build();
        let writer = index.writer_with_options(options)?;
        writer.set_merge_policy(Box::new(merge_policy()));
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let view = View::new(&reader.searcher(), fields)?;
        Ok(Self { index, directory, writer, reader, fields, dirty: false, view })
    }

    /// Puts an item into a slot that is free.
    pub(crate) fn add(&mut self, slot: u32, item: &Item) -> tantivy::Result<()> {
        self.dirty = true;
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
        self.dirty = true;
        self.writer.delete_term(Term::from_field_u64(self.fields.slot, u64::from(slot)));
    }

    pub(crate) fn dirty(&self) -> bool {
        self.dirty
    }

    /// Makes all changes visible.
    pub(crate) fn commit(&mut self) -> tantivy::Result<()> {
        if self.dirty {
            self.writer.commit()?;
            self.reader.reload()?;
            self.view = View::new(&self.reader.searcher(), self.fields)?;
            self.dirty = false;
        }
        Ok(())
    }

    /// What the last commit made visible.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }
}

fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let words = TextOptions::default().set_indexing_options(
        TextFieldIndexing::default()
            .set_tokenizer(ANALYZER)
            .set_index_option(IndexRecordOption::WithFreqs),
    );
    let fields = Fields {
        slot: builder.add_u64_field("slot", FAST | INDEXED),
        words: builder.add_text_field("words", words),
        stored: builder.add_text_field("stored", STORED),
    };
    (builder.build(), fields)
}

/// Small segments merge early, so that a search reads few; a large one is left alone until a third
/// of it is gone.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_layer_size(256);
    policy.set_min_num_segments(6);
    policy.set_del_docs_ratio_before_merge(0.33);
    policy
}
