//! The chunks of one segment, and the rows of their vectors for each model.

use tantivy::index::SegmentId;
use tantivy::{DocId, SegmentReader};

use super::vector_set::VectorSet;
use crate::chunk::ChunkHash;
use crate::lexical::searcher;

/// The row of a chunk without a vector.
const NO_ROW: u32 = u32::MAX;

/// Derived once for each segment, because a segment is immutable except for its deletions.
#[derive(Debug)]
pub(crate) struct SegmentChunks {
    pub(crate) id: SegmentId,
    /// Record, position in its item, and hash.
    chunks: Vec<(DocId, u32, ChunkHash)>,
    /// For each model.
    models: Vec<ModelRows>,
}

#[derive(Debug, Clone)]
struct ModelRows {
    /// The row of each chunk, or [`NO_ROW`].
    rows: Vec<u32>,
    /// Number of vectors at the last lookup of rows.
    vector_count: Option<usize>,
}

impl SegmentChunks {
    /// Reads the chunks of live items, and stops above `limit`.
    pub(crate) fn read(
        reader: &SegmentReader,
        model_count: usize,
        limit: usize,
    ) -> tantivy::Result<Self> {
        let chunks = searcher::read_chunks(reader, limit)?;
        let rows = ModelRows { rows: vec![NO_ROW; chunks.len()], vector_count: None };
        Ok(Self { id: reader.segment_id(), chunks, models: vec![rows; model_count] })
    }

    pub(crate) fn live_count(&self, reader: &SegmentReader) -> usize {
        self.live_hashes(reader).count()
    }

    pub(crate) fn live_hashes(&self, reader: &SegmentReader) -> impl Iterator<Item = ChunkHash> {
        let live = self.chunks.iter().filter(|(doc, ..)| !reader.is_deleted(*doc));
        live.map(|(_, _, hash)| *hash)
    }

    /// The record, position and row of each chunk with a vector, also of deleted items.
    pub(crate) fn rows(&self, model: usize) -> impl Iterator<Item = (DocId, u32, u32)> {
        let rows = self.chunks.iter().zip(&self.models[model].rows);
        rows.filter(|(_, row)| **row != NO_ROW)
            .map(|((doc, position, _), row)| (*doc, *position, *row))
    }

    /// The live chunks without a vector, the newest first.
    pub(crate) fn missing(
        &self,
        model: usize,
        reader: &SegmentReader,
    ) -> impl Iterator<Item = (DocId, u32, ChunkHash)> {
        let rows = self.chunks.iter().zip(&self.models[model].rows).rev();
        rows.filter(|((doc, ..), row)| **row == NO_ROW && !reader.is_deleted(*doc))
            .map(|(chunk, _)| *chunk)
    }

    /// Looks up missing rows again if the set of vectors has changed.
    pub(crate) fn find_rows(&mut self, model: usize, vectors: &VectorSet) {
        let ModelRows { rows, vector_count } = &mut self.models[model];
        if vector_count.replace(vectors.len()) == Some(vectors.len()) {
            return;
        }
        for ((_, _, hash), row) in self.chunks.iter().zip(rows) {
            if *row == NO_ROW {
                *row = vectors.row(hash).unwrap_or(NO_ROW);
            }
        }
    }

    pub(crate) fn forget_rows(&mut self, model: usize) {
        let ModelRows { rows, vector_count } = &mut self.models[model];
        rows.fill(NO_ROW);
        *vector_count = None;
    }
}
