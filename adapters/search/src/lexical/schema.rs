//! The fields of the tantivy index, and the records of documents in them.
//!
//! Each item is a record. A document without items has one empty record, which stores its version.

use std::iter;

use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::search::{DocumentProjection, SearchFacet, SearchItem};
use tantivy::schema::{
    FAST, Field, IndexRecordOption, STORED, Schema, SchemaBuilder, TextFieldIndexing, TextOptions,
    Value,
};
use tantivy::{TantivyDocument, Term};

use crate::checksummed_file::first_bytes;
use crate::chunk::Chunk;
use crate::script::Script;

pub(super) const ANALYZER_NAME: &str = "reqlore";
/// A title names the subject, so its words are indexed this many times.
pub(super) const TITLE_WEIGHT: usize = 2;
/// Names of columns, which readers access without a `Field`.
pub(super) const RANK_KEY: &str = "rank_key";
pub(super) const CHUNKS: &str = "chunks";
pub(super) const DIGEST: &str = "digest";
/// Values of the filter field in addition to kinds, facets and scripts.
pub(super) const NO_ITEM: &str = "empty";
pub(super) const INCOMPLETE: &str = "incomplete";

#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaFields {
    /// The document of each record, in the order of [`DocumentId`].
    pub(super) document: Field,
    /// In lower case.
    reference: Field,
    /// Kinds, facets, script and marks, each with a prefix.
    filter: Field,
    pub(super) words: Field,
    /// Document, version, reference, kind, title, text, facets.
    stored: Field,
    /// Orders records of equal score: reference, then document.
    rank_key: Field,
    /// The hashes of the item's chunks.
    chunks: Field,
    /// On the first record of a document: its version, mixed with its ID. The sum of all values
    /// identifies the content of the index, and each value can be decoded to its version.
    digest: Field,
}

/// The stored values of a record.
#[derive(Debug, Default)]
pub(crate) struct StoredItem {
    pub(crate) document: Option<DocumentId>,
    pub(crate) version: Option<Version>,
    pub(crate) reference: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) facets: Vec<SearchFacet>,
}

pub(super) fn build_schema() -> (Schema, SchemaFields) {
    let mut builder = Schema::builder();
    let words = TextOptions::default().set_indexing_options(
        TextFieldIndexing::default()
            .set_tokenizer(ANALYZER_NAME)
            .set_index_option(IndexRecordOption::WithFreqs),
    );
    let fields = SchemaFields {
        document: add_raw_field(&mut builder, "document"),
        reference: add_raw_field(&mut builder, "reference"),
        filter: add_raw_field(&mut builder, "filter"),
        words: builder.add_text_field("words", words),
        stored: builder.add_text_field("stored", STORED),
        rank_key: builder.add_bytes_field(RANK_KEY, FAST),
        chunks: builder.add_bytes_field(CHUNKS, FAST),
        digest: builder.add_u64_field(DIGEST, FAST),
    };
    (builder.build(), fields)
}

/// A field of exact values.
fn add_raw_field(builder: &mut SchemaBuilder, name: &str) -> Field {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::Basic);
    builder.add_text_field(name, TextOptions::default().set_indexing_options(indexing))
}

impl SchemaFields {
    pub(super) fn document_term(self, document: &DocumentId) -> Term {
        Term::from_field_text(self.document, &document_key(document))
    }

    pub(super) fn reference_term(self, reference: &str) -> Term {
        Term::from_field_text(self.reference, &reference.to_lowercase())
    }

    pub(super) fn word_term(self, word: &str) -> Term {
        Term::from_field_text(self.words, word)
    }

    pub(crate) fn filter_term(self, value: &str) -> Term {
        Term::from_field_text(self.filter, value)
    }

    /// The records of a document, at least one. `chunks` are those of its items.
    pub(super) fn records(
        self,
        projection: &DocumentProjection,
        version: Version,
        chunks: &[Vec<Chunk>],
    ) -> Vec<TantivyDocument> {
        let mut records = Vec::with_capacity(projection.items.len().max(1));
        let document = &projection.document;
        let key = document_key(document);
        for (item, chunks) in projection.items.iter().zip(chunks) {
            let mut record = TantivyDocument::default();
            record.add_text(self.document, &key);
            record.add_text(self.filter, document_kind_value(document.kind));
            record.add_text(self.stored, &key);
            record.add_text(self.stored, version.to_string());
            self.add_item(&mut record, &key, item, chunks);
            records.push(record);
        }
        if records.is_empty() {
            let mut record = TantivyDocument::default();
            record.add_text(self.document, &key);
            record.add_text(self.filter, NO_ITEM);
            record.add_text(self.filter, document_kind_value(document.kind));
            record.add_text(self.stored, &key);
            records.push(record);
        }
        if let Some(first) = records.first_mut() {
            first.add_u64(self.digest, mix_version(&key, version.to_bits()));
            if projection.is_incomplete {
                first.add_text(self.filter, INCOMPLETE);
            }
        }
        for record in &mut records {
            // It waits for a commit.
            record.shrink_to_fit();
        }
        records
    }

    fn add_item(
        self,
        record: &mut TantivyDocument,
        document_key: &str,
        item: &SearchItem,
        chunks: &[Chunk],
    ) {
        record.add_text(self.reference, item.reference.to_lowercase());
        record.add_text(self.filter, item_kind_value(&item.kind));
        record.add_text(self.filter, script_value(Script::detect(&[&item.title, &item.text])));
        for text in [&item.reference, &item.kind, &item.title, &item.text] {
            record.add_text(self.stored, text);
        }
        for facet in &item.facets {
            record.add_text(self.filter, facet_value(facet));
            record.add_text(self.stored, facet.as_str());
        }
        for text in iter::repeat_n(&item.title, TITLE_WEIGHT)
            .chain([&item.reference, &item.text])
            .chain(&item.tags)
            .chain(&item.links)
        {
            record.add_text(self.words, text);
        }
        // The NUL sorts before any other character, so a reference comes before its extensions.
        record.add_bytes(self.rank_key, format!("{}\0{document_key}", item.reference).as_bytes());
        let mut hashes = Vec::with_capacity(chunks.len() * size_of::<crate::chunk::ChunkHash>());
        for chunk in chunks {
            hashes.extend_from_slice(&chunk.hash);
        }
        if !hashes.is_empty() {
            record.add_bytes(self.chunks, &hashes);
        }
    }

    /// Decodes the stored values of a record.
    pub(super) fn stored_item(self, record: &TantivyDocument) -> StoredItem {
        let mut texts = record.get_all(self.stored).filter_map(|value| value.as_str());
        let mut next = || texts.next().unwrap_or_default().to_owned();
        let (document, version) = (document_from_key(&next()), Version::parse(&next()));
        let (reference, kind, title, text) = (next(), next(), next(), next());
        let facets = texts.map(SearchFacet::from_text).collect();
        StoredItem { document, version, reference, kind, title, text, facets }
    }
}

pub(crate) fn document_kind_value(kind: DocumentKind) -> String {
    format!("d:{}", kind.name())
}

pub(crate) fn item_kind_value(kind: &str) -> String {
    format!("k:{kind}")
}

pub(crate) fn facet_value(facet: &SearchFacet) -> String {
    format!("f:{}", facet.as_str())
}

pub(crate) fn script_value(script: Script) -> String {
    format!("s:{}", script.index())
}

/// Sorts like [`DocumentId`]. The version of the index contains the number of kinds, because their
/// order is a part of the key.
pub(super) fn document_key(document: &DocumentId) -> String {
    let letter = ('a'..).zip(DocumentKind::ALL).find(|(_, kind)| *kind == document.kind);
    format!("{}{}", letter.map_or('a', |(letter, _)| letter), document.name)
}

pub(super) fn document_from_key(key: &str) -> Option<DocumentId> {
    let (first, name) = key.split_at_checked(1)?;
    let (_, kind) =
        ('a'..).zip(DocumentKind::ALL).find(|(letter, _)| first.starts_with(*letter))?;
    Some(DocumentId { kind, name: name.to_owned() })
}

/// Mixes a version with a document's ID. Applied twice, it returns the version.
pub(super) fn mix_version(document_key: &str, version: u64) -> u64 {
    first_bytes(&blake3::hash(document_key.as_bytes())) ^ version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_keys_sort_like_documents_and_round_trip() {
        let mut documents = Vec::new();
        for kind in DocumentKind::ALL {
            for name in ["", "B", "a", "a-1", "a/б"] {
                documents.push(DocumentId { kind, name: name.to_owned() });
            }
        }
        documents.sort();
        let keys: Vec<_> = documents.iter().map(document_key).collect();
        assert!(keys.is_sorted());
        for (document, key) in documents.iter().zip(keys) {
            assert_eq!(document_from_key(&key).as_ref(), Some(document));
        }
    }
}
