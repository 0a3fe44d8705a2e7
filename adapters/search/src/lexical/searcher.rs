//! The searchable snapshot of the last commit: live record counts, columns and stored items.

use std::cell::OnceCell;
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::search::IncompleteDocuments;
use tantivy::columnar::BytesColumn;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::SegmentPostings;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::termdict::TermMerger;
use tantivy::{
    DocAddress, DocId, DocSet, Searcher, SegmentReader, TERMINATED, TantivyDocument, Term,
};

use super::schema::{
    CHUNKS, DIGEST, INCOMPLETE, NO_ITEM, RANK_KEY, SchemaFields, StoredItem, document_from_key,
    document_key, mix_version, script_value,
};
use crate::checksummed_file::first_bytes;
use crate::chunk::ChunkHash;
use crate::script::Script;

/// Up to this number of items, every match is scored, so ranks do not depend on the history of the
/// index. Above it, tantivy selects the best matches.
pub(crate) const MAX_SCORED_ITEMS: usize = if cfg!(test) { 40 } else { 50_000 };
/// In a larger segment, statistics include deleted records until a merge.
const MAX_COUNTED_RECORDS: usize = 50_000;

pub(crate) struct LexicalSearcher {
    pub(super) snapshot: Searcher,
    pub(super) segments: Vec<SegmentWords>,
    pub(crate) fields: SchemaFields,
    item_count: usize,
    /// Number of terms of all items, in the precision of tantivy's field norms.
    pub(super) total_terms: u64,
    /// See [`LexicalSearcher::content_state`].
    content_state: OnceCell<u64>,
}

pub(super) struct SegmentWords {
    pub(super) index: Arc<InvertedIndexReader>,
    /// The length of each record.
    pub(super) norms: FieldNormReader,
}

impl LexicalSearcher {
    pub(super) fn new(snapshot: Searcher, fields: SchemaFields) -> tantivy::Result<Self> {
        let mut searcher = Self {
            snapshot,
            segments: Vec::new(),
            fields,
            item_count: 0,
            total_terms: 0,
            content_state: OnceCell::new(),
        };
        for reader in searcher.snapshot.segment_readers() {
            let norms = reader.get_fieldnorms_reader(fields.words)?;
            let index = reader.inverted_index(fields.words)?;
            if counts_live_only(reader) {
                // From the field norms, so that a merge does not change the sum.
                for doc in reader.doc_ids_alive() {
                    searcher.total_terms += u64::from(norms.fieldnorm(doc));
                }
                searcher.item_count += to_usize(reader.num_docs());
            } else {
                searcher.total_terms += index.total_num_tokens();
                searcher.item_count += to_usize(reader.max_doc());
            }
            searcher.segments.push(SegmentWords { index, norms });
        }
        let without_item = searcher.live_count(&fields.filter_term(NO_ITEM))?;
        searcher.item_count = searcher.item_count.saturating_sub(without_item);
        Ok(searcher)
    }

    /// Number of items for the statistics.
    pub(crate) fn item_count(&self) -> usize {
        self.item_count
    }

    /// True if every match is scored.
    pub(crate) fn is_scored_whole(&self) -> bool {
        usize::try_from(self.snapshot.num_docs()).is_ok_and(|count| count <= MAX_SCORED_ITEMS)
    }

    pub(crate) fn segment_readers(&self) -> &[SegmentReader] {
        self.snapshot.segment_readers()
    }

    /// Number of records with a term: of live ones, unless a segment is large.
    pub(crate) fn live_count(&self, term: &Term) -> tantivy::Result<usize> {
        let mut count = 0;
        for reader in self.segment_readers() {
            let index = reader.inverted_index(term.field())?;
            let Some(info) = index.get_term_info(term)? else { continue };
            if reader.has_deletes() && counts_live_only(reader) {
                let option = IndexRecordOption::Basic;
                let postings = index.read_postings_from_terminfo(&info, option)?;
                count += live_docs(reader, postings).count();
            } else {
                count += to_usize(info.doc_freq);
            }
        }
        Ok(count)
    }

    /// True if a live record has the term.
    pub(crate) fn has_live_record(&self, term: &Term) -> tantivy::Result<bool> {
        for reader in self.segment_readers() {
            if let Some(postings) = read_postings(reader, term)?
                && live_docs(reader, postings).next().is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The live records with a term.
    pub(crate) fn live_records(&self, term: &Term) -> tantivy::Result<Vec<DocAddress>> {
        let mut records = Vec::new();
        for (segment, reader) in (0..).zip(self.segment_readers()) {
            if let Some(postings) = read_postings(reader, term)? {
                records
                    .extend(live_docs(reader, postings).map(|doc| DocAddress::new(segment, doc)));
            }
        }
        Ok(records)
    }

    /// The items of a reference in any case, in the order of their documents.
    pub(crate) fn items_of_reference(&self, reference: &str) -> tantivy::Result<Vec<DocAddress>> {
        let records = self.live_records(&self.fields.reference_term(reference))?;
        let keys = self.rank_keys(&records)?;
        let mut sorted: Vec<_> = keys.into_iter().zip(records).collect();
        // The key begins with the reference, which may differ in case.
        sorted.sort_by(|(a, _), (b, _)| a.get(reference.len()..).cmp(&b.get(reference.len()..)));
        Ok(sorted.into_iter().map(|(_, record)| record).collect())
    }

    /// Documents of these kinds that are partially indexed or not indexed.
    pub(crate) fn incomplete(
        &self,
        includes_kind: impl Fn(reqlore_domain::document::DocumentKind) -> bool,
    ) -> tantivy::Result<IncompleteDocuments> {
        let mut documents = Vec::new();
        for address in self.live_records(&self.fields.filter_term(INCOMPLETE))? {
            documents.extend(self.stored_item(address)?.document);
        }
        documents.sort();
        let mut incomplete = IncompleteDocuments::default();
        for document in documents {
            if includes_kind(document.kind) {
                incomplete.add(&document);
            }
        }
        Ok(incomplete)
    }

    /// The script of most items.
    pub(crate) fn main_script(&self) -> tantivy::Result<Script> {
        let mut counts = [0; Script::COUNT];
        for script in Script::ALL {
            counts[script.index()] =
                self.live_count(&self.fields.filter_term(&script_value(script)))?;
        }
        Ok(Script::most_frequent(&counts))
    }

    /// Returns the versions of documents; `None` for one that is not indexed.
    pub(crate) fn versions_of(
        &self,
        documents: &[DocumentId],
    ) -> tantivy::Result<Vec<Option<Version>>> {
        documents.iter().map(|document| self.version_of(document)).collect()
    }

    fn version_of(&self, document: &DocumentId) -> tantivy::Result<Option<Version>> {
        let key = document_key(document);
        for reader in self.segment_readers() {
            let index = reader.inverted_index(self.fields.document)?;
            let term = Term::from_field_text(self.fields.document, &key);
            let Some(postings) = index.read_postings(&term, IndexRecordOption::Basic)? else {
                continue;
            };
            let digests = reader.fast_fields().u64(DIGEST)?;
            // Only the first record of a document has its version.
            let digest = live_docs(reader, postings).find_map(|record| digests.first(record));
            if let Some(digest) = digest {
                return Ok(Some(Version::from_bits(mix_version(&key, digest))));
            }
        }
        Ok(None)
    }

    /// The documents after `after` with their versions, sorted, at most `limit`.
    pub(crate) fn versions(
        &self,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> tantivy::Result<Vec<(DocumentId, Version)>> {
        let readers = self.segment_readers();
        let (mut indexes, mut digests) = (Vec::new(), Vec::new());
        for reader in readers {
            indexes.push(reader.inverted_index(self.fields.document)?);
            digests.push(reader.fast_fields().u64(DIGEST)?);
        }
        let mut streams = Vec::with_capacity(indexes.len());
        for index in &indexes {
            let range = index.terms().range();
            let range = match after {
                Some(after) => range.gt(document_key(after)),
                None => range,
            };
            streams.push(range.into_stream()?);
        }
        let mut merger = TermMerger::new(streams);
        let mut versions = Vec::new();
        while versions.len() < limit && merger.advance() {
            let infos: Vec<_> = merger.current_segment_ords_and_term_infos().collect();
            for (segment, info) in infos {
                let option = IndexRecordOption::Basic;
                let postings = indexes[segment].read_postings_from_terminfo(&info, option)?;
                // Only the first record of a document has its version.
                let digest = live_docs(&readers[segment], postings)
                    .find_map(|record| digests[segment].first(record));
                if let Some(digest) = digest
                    && let Ok(key) = str::from_utf8(merger.key())
                    && let Some(document) = document_from_key(key)
                {
                    versions.push((document, Version::from_bits(mix_version(key, digest))));
                }
            }
        }
        Ok(versions)
    }

    /// Returns a number that differs if the documents or their order differ. Up to
    /// [`MAX_SCORED_ITEMS`] it is the same in any process with the same documents.
    pub(crate) fn content_state(&self) -> tantivy::Result<u64> {
        if let Some(state) = self.content_state.get() {
            return Ok(*state);
        }
        let state = self.compute_state()?;
        Ok(*self.content_state.get_or_init(|| state))
    }

    fn compute_state(&self) -> tantivy::Result<u64> {
        if !self.is_scored_whole() {
            let mut hasher = blake3::Hasher::new();
            for reader in self.segment_readers() {
                // A segment is immutable except for its deletions.
                hasher.update(reader.segment_id().uuid_string().as_bytes());
                hasher.update(&reader.num_deleted_docs().to_le_bytes());
            }
            return Ok(first_bytes(&hasher.finalize()));
        }
        let mut sum = 0_u64;
        for reader in self.segment_readers() {
            let digests = reader.fast_fields().u64(DIGEST)?;
            for doc in reader.doc_ids_alive() {
                // A sum does not depend on the order.
                sum = sum.wrapping_add(digests.first(doc).unwrap_or(0));
            }
        }
        Ok(sum)
    }

    /// The keys that order items of equal score: reference, then document.
    pub(crate) fn rank_keys(&self, items: &[DocAddress]) -> tantivy::Result<Vec<Vec<u8>>> {
        let mut keys = vec![Vec::new(); items.len()];
        for (segment, reader) in (0..).zip(self.segment_readers()) {
            let mut wanted = Vec::new();
            for (position, item) in items.iter().enumerate() {
                if item.segment_ord == segment {
                    wanted.push((item.doc_id, position));
                }
            }
            read_column(reader, RANK_KEY, &wanted, |position, key| keys[position] = key.to_vec())?;
        }
        Ok(keys)
    }

    pub(crate) fn stored_item(&self, address: DocAddress) -> tantivy::Result<StoredItem> {
        let record: TantivyDocument = self.snapshot.doc(address)?;
        Ok(self.fields.stored_item(&record))
    }

    /// Number of terms of an item, in the precision of a field norm.
    pub(crate) fn term_count(&self, address: DocAddress) -> f32 {
        match self.segments.get(to_usize(address.segment_ord)) {
            Some(segment) => to_f32(to_usize(segment.norms.fieldnorm(address.doc_id))),
            None => 0.0,
        }
    }
}

/// Statistics without deleted items where counting them is cheap.
impl Bm25StatisticsProvider for LexicalSearcher {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(self.total_terms.max(1))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.item_count.max(1) as u64)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        // Tantivy panics if more records have the term than there are.
        Ok(self.live_count(term)?.min(self.item_count) as u64)
    }
}

/// Returns the chunks of the live items of a segment: record, position in its item, and hash. Stops
/// above `limit`.
pub(crate) fn read_chunks(
    reader: &SegmentReader,
    limit: usize,
) -> tantivy::Result<Vec<(DocId, u32, ChunkHash)>> {
    let wanted: Vec<_> = reader.doc_ids_alive().map(|doc| (doc, doc)).collect();
    let mut chunks = Vec::new();
    read_column(reader, CHUNKS, &wanted, |doc, hashes| {
        for (position, hash) in (0..).zip(hashes.as_chunks().0) {
            if chunks.len() <= limit {
                chunks.push((doc, position, *hash));
            }
        }
    })?;
    chunks.sort_unstable_by_key(|(doc, position, _)| (*doc, *position));
    Ok(chunks)
}

/// Calls `take` with the record number and value of each requested record that has a value.
fn read_column<N: Copy + Ord>(
    reader: &SegmentReader,
    name: &str,
    wanted: &[(DocId, N)],
    mut take: impl FnMut(N, &[u8]),
) -> tantivy::Result<()> {
    let column: Option<BytesColumn> = reader.fast_fields().bytes(name)?;
    let Some(column) = column else { return Ok(()) };
    let mut sorted = Vec::with_capacity(wanted.len());
    for (doc, number) in wanted {
        if let Some(value) = column.ords().first(*doc) {
            sorted.push((value, *number));
        }
    }
    // In ascending order, because the values are compressed in blocks.
    sorted.sort_unstable();
    let ords: Vec<u64> = sorted.iter().map(|(ord, _)| *ord).collect();
    let mut numbers = sorted.iter();
    column.dictionary().sorted_ords_to_term_cb(&ords, |value| {
        if let Some((_, number)) = numbers.next() {
            take(*number, value);
        }
    })?;
    Ok(())
}

fn read_postings(reader: &SegmentReader, term: &Term) -> tantivy::Result<Option<SegmentPostings>> {
    let index = reader.inverted_index(term.field())?;
    Ok(index.read_postings(term, IndexRecordOption::Basic)?)
}

/// The live records of postings.
fn live_docs(
    reader: &SegmentReader,
    mut postings: SegmentPostings,
) -> impl Iterator<Item = DocId> + '_ {
    std::iter::from_fn(move || {
        loop {
            let doc = postings.doc();
            if doc == TERMINATED {
                return None;
            }
            postings.advance();
            if !reader.is_deleted(doc) {
                return Some(doc);
            }
        }
    })
}

fn counts_live_only(reader: &SegmentReader) -> bool {
    to_usize(reader.num_docs()) <= MAX_COUNTED_RECORDS
}

pub(crate) fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a score needs no more precision")]
pub(crate) fn to_f32(number: usize) -> f32 {
    number as f32
}
