//! Changes that wait for a commit, and how they become one segment.
//!
//! Tantivy's own writer takes a table of several megabytes and a new thread for each segment, which
//! costs more than the rest of a small commit. So a segment is written here.

use std::collections::HashSet;
use std::mem;

use reqlore_domain::document::DocumentId;
use tantivy::index::{SegmentId, SegmentMeta, SegmentReader};
use tantivy::indexer::{AddOperation, SegmentWriter};
use tantivy::query::{
    BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight,
};
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet, Index, Score, TERMINATED, TantivyDocument, Term};

use super::schema::SchemaFields;
use super::searcher::LexicalSearcher;

/// Memory for the words of a segment grows with it; this is where its table begins.
const MIN_SEGMENT_MEMORY: usize = 1_000_000;
const MAX_SEGMENT_MEMORY: usize = 15_000_000;

/// Changed documents, the newest last.
#[derive(Default)]
pub(super) struct PendingDocuments {
    documents: Vec<PendingDocument>,
    /// Bytes of their texts.
    bytes: usize,
}

/// The new records of a document; none if it was removed.
struct PendingDocument {
    document: DocumentId,
    records: Vec<TantivyDocument>,
}

impl PendingDocuments {
    pub(super) fn add(
        &mut self,
        document: DocumentId,
        records: Vec<TantivyDocument>,
        bytes: usize,
    ) {
        self.documents.push(PendingDocument { document, records });
        self.bytes += bytes;
    }

    pub(super) fn len(&self) -> usize {
        self.documents.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the changes and writes their records. `None` if they have none.
    pub(super) fn write_segment(
        &mut self,
        index: &Index,
        searcher: &LexicalSearcher,
        fields: SchemaFields,
    ) -> tantivy::Result<WrittenSegment> {
        let Self { documents, bytes } = mem::take(self);
        let mut seen = HashSet::with_capacity(documents.len());
        let mut former = Vec::new();
        let mut newest = Vec::with_capacity(documents.len());
        for PendingDocument { document, records } in documents.into_iter().rev() {
            let term = fields.document_term(&document);
            if seen.insert(document) {
                if searcher.has_live_record(&term)? {
                    former.push(term);
                }
                newest.push(records);
            }
        }
        if newest.iter().all(Vec::is_empty) {
            return Ok(WrittenSegment { meta: None, former });
        }
        let segment = index.new_segment();
        let memory = bytes.clamp(MIN_SEGMENT_MEMORY, MAX_SEGMENT_MEMORY);
        let mut writer = SegmentWriter::for_segment(memory, segment.clone())?;
        for document in newest.into_iter().rev().flatten() {
            // The deletions of this commit do not look into its segment.
            writer.add_document(AddOperation { opstamp: 0, document })?;
        }
        let count = writer.max_doc();
        writer.finalize()?;
        let meta = segment.with_max_doc(count).meta().clone();
        meta.untrack_temp_docstore();
        Ok(WrittenSegment { meta: Some(meta), former })
    }
}

/// The segment of a commit.
pub(super) struct WrittenSegment {
    /// `None` if documents were only removed.
    pub(super) meta: Option<SegmentMeta>,
    /// The changed documents that have records in other segments.
    former: Vec<Term>,
}

impl WrittenSegment {
    /// Selects the records that this segment replaces; `None` if there are none.
    pub(super) fn replaced_records(&mut self) -> Option<Box<dyn Query>> {
        let documents = mem::take(&mut self.former);
        let segment = self.meta.as_ref().map(SegmentMeta::id);
        if documents.is_empty() {
            return None;
        }
        Some(Box::new(ReplacedRecords { documents, segment }))
    }
}

/// The records of documents in other segments than this one.
#[derive(Debug, Clone)]
struct ReplacedRecords {
    documents: Vec<Term>,
    segment: Option<SegmentId>,
}

impl Query for ReplacedRecords {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for ReplacedRecords {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let mut records = BitSet::with_max_value(reader.max_doc());
        if self.segment != Some(reader.segment_id()) {
            for document in &self.documents {
                let index = reader.inverted_index(document.field())?;
                let postings = index.read_postings(document, IndexRecordOption::Basic)?;
                let Some(mut postings) = postings else { continue };
                while postings.doc() != TERMINATED {
                    records.insert(postings.doc());
                    postings.advance();
                }
            }
        }
        Ok(Box::new(ConstScorer::new(BitSetDocSet::from(records), boost)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Ok(Explanation::new("a record of a changed document", 1.0))
    }
}
