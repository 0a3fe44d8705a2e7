//! BM25 over the postings, term by term, as a share of its upper bound.
//!
//! Terms are added in the query's order, so equal content gives equal scores to the last bit.

use tantivy::collector::{Count, TopDocs};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{BooleanQuery, BoostQuery, ConstScoreQuery, Occur, Query, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocId, DocSet, SegmentReader, TERMINATED, Term};

use super::searcher::{LexicalSearcher, SegmentWords, to_f32, to_usize};

/// The usual parameters of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// A longer query has several sentences, and a text answers a part of it.
const LONG_QUERY_WORDS: f32 = 16.0;
/// Counts saturate later for a long query: of many matching words, the repeated ones are the
/// subject of a text. Measured by benches/context.
const LONG_QUERY_K1: f32 = 3.0;

/// The words of a query as terms of the index.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct LexicalQuery {
    /// Terms with postings, in the query's order.
    pub(crate) terms: Vec<QueryTerm>,
    /// Number of words, with repeats, of which no item has the term.
    pub(crate) absent_words: f32,
}

impl LexicalQuery {
    /// Number of words, with repeats.
    pub(crate) fn word_count(&self) -> f32 {
        let exact = self.terms.iter().filter(|term| !term.is_replacement);
        self.absent_words + exact.map(|term| term.weight).sum::<f32>()
    }

    pub(crate) fn is_long(&self) -> bool {
        self.word_count() > LONG_QUERY_WORDS
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) text: String,
    pub(crate) weight: f32,
    /// True for a term that is similar to an absent word.
    pub(crate) is_replacement: bool,
}

/// The lexical evidence for one item.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LexicalMatch {
    /// BM25 as a share of its upper bound for the query, below 1; 0 without a term.
    pub(crate) score: f32,
    /// The share of the query's words that the item has, weighted by their rarity.
    pub(crate) coverage: f32,
}

/// Scores the items of one index snapshot for one query.
pub(crate) struct LexicalScorer<'a> {
    searcher: &'a LexicalSearcher,
    terms: Vec<WeightedTerm>,
    /// The weights of all words.
    total: f32,
    /// The length normalization for each length code of tantivy.
    length_norms: [f32; 256],
}

struct WeightedTerm {
    term: Term,
    /// Of the query; rarity is not included.
    boost: f32,
    weight: f32,
    covered: f32,
}

impl<'a> LexicalScorer<'a> {
    pub(crate) fn new(
        searcher: &'a LexicalSearcher,
        query: &LexicalQuery,
    ) -> tantivy::Result<Self> {
        let item_count = searcher.item_count();
        // An absent word has the highest rarity, and no item can reach its weight.
        let mut total = query.absent_words * inverse_document_frequency(item_count, 0);
        let mut terms = Vec::with_capacity(query.terms.len());
        for query_term in &query.terms {
            let term = searcher.fields.word_term(&query_term.text);
            let rarity = inverse_document_frequency(item_count, searcher.live_count(&term)?);
            let weight = query_term.weight * rarity;
            // A replacement ranks lower, but it covers its word as a whole.
            let covered = if query_term.is_replacement { rarity } else { weight };
            if !query_term.is_replacement {
                total += weight;
            }
            terms.push(WeightedTerm { term, boost: query_term.weight, weight, covered });
        }
        let k1 = if query.is_long() { LONG_QUERY_K1 } else { K1 };
        let length_norms = length_norms(searcher, k1);
        Ok(Self { searcher, terms, total, length_norms })
    }

    /// The matches of all records of a segment, by record.
    pub(crate) fn match_segment(&self, segment: usize) -> tantivy::Result<Vec<LexicalMatch>> {
        let reader = &self.searcher.segment_readers()[segment];
        let mut matches = vec![LexicalMatch::default(); to_usize(reader.max_doc())];
        self.add_terms(segment, |postings, add| {
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                if !reader.is_deleted(doc) {
                    add(&mut matches[to_usize(doc)], doc, postings.term_freq());
                }
                postings.advance();
            }
        })?;
        for matched in &mut matches {
            self.scale(matched);
        }
        Ok(matches)
    }

    /// The matches of these items, in their order.
    pub(crate) fn match_items(&self, items: &[DocAddress]) -> tantivy::Result<Vec<LexicalMatch>> {
        let mut matches = vec![LexicalMatch::default(); items.len()];
        for segment in 0..self.searcher.segment_readers().len() {
            let mut wanted = Vec::new();
            for (position, item) in items.iter().enumerate() {
                if to_usize(item.segment_ord) == segment {
                    wanted.push((item.doc_id, position));
                }
            }
            // Postings can only be read forwards.
            wanted.sort_unstable();
            if wanted.is_empty() {
                continue;
            }
            self.add_terms(segment, |postings, add| {
                for (doc, position) in &wanted {
                    if postings.doc() < *doc {
                        postings.seek(*doc);
                    }
                    if postings.doc() == *doc {
                        add(&mut matches[*position], *doc, postings.term_freq());
                    }
                }
            })?;
        }
        for matched in &mut matches {
            self.scale(matched);
        }
        Ok(matches)
    }

    /// Calls `visit` with the postings of each term in a segment. Its second argument adds the
    /// term to the match of a record.
    fn add_terms(
        &self,
        segment: usize,
        mut visit: impl FnMut(&mut SegmentPostings, &dyn Fn(&mut LexicalMatch, DocId, u32)),
    ) -> tantivy::Result<()> {
        let SegmentWords { index, norms } = &self.searcher.segments[segment];
        for WeightedTerm { term, weight, covered, .. } in &self.terms {
            let option = IndexRecordOption::WithFreqs;
            let Some(mut postings) = index.read_postings(term, option)? else { continue };
            visit(&mut postings, &|matched, doc, count| {
                let count = to_f32(to_usize(count));
                let length_norm = self.length_norms[usize::from(norms.fieldnorm_id(doc))];
                matched.score += weight * count / (count + length_norm);
                matched.coverage += covered;
            });
        }
        Ok(())
    }

    fn scale(&self, matched: &mut LexicalMatch) {
        if self.total > 0.0 {
            // Several replacements of one word may exceed the word's weight.
            matched.score = (matched.score / self.total).min(1.0);
            matched.coverage = (matched.coverage / self.total).min(1.0);
        }
    }

    /// Returns the best items that pass the filter, and the total number of matching items.
    pub(crate) fn best_items(
        &self,
        filter: Option<&dyn Query>,
        count: usize,
    ) -> tantivy::Result<(Vec<DocAddress>, usize)> {
        if self.terms.is_empty() || count == 0 {
            return Ok((Vec::new(), 0));
        }
        let mut words: Vec<(Occur, Box<dyn Query>)> = Vec::with_capacity(self.terms.len());
        for WeightedTerm { term, boost, .. } in &self.terms {
            let query = TermQuery::new(term.clone(), IndexRecordOption::WithFreqs);
            words.push((Occur::Should, Box::new(BoostQuery::new(Box::new(query), *boost))));
        }
        let mut query: Box<dyn Query> = Box::new(BooleanQuery::new(words));
        if let Some(filter) = filter {
            // Without a score, so that a filter does not change the weights of words.
            let filter = ConstScoreQuery::new(filter.box_clone(), 0.0);
            query = Box::new(BooleanQuery::intersection(vec![query, Box::new(filter)]));
        }
        // With the count, tantivy cannot skip any match, so the best ones are exact.
        let best = TopDocs::with_limit(count).order_by_score();
        let snapshot = &self.searcher.snapshot;
        let (best, total) =
            snapshot.search_with_statistics_provider(&query, &(best, Count), self.searcher)?;
        Ok((best.into_iter().map(|(_, address)| address).collect(), total))
    }
}

/// The records of a segment that pass a filter. Callers query them in ascending order.
pub(crate) struct FilterCursor(Option<Box<dyn tantivy::query::Scorer>>);

impl FilterCursor {
    pub(crate) fn new(
        searcher: &LexicalSearcher,
        filter: Option<&dyn Query>,
        reader: &SegmentReader,
    ) -> tantivy::Result<Self> {
        let Some(filter) = filter else { return Ok(Self(None)) };
        let scoring = tantivy::query::EnableScoring::disabled_from_searcher(&searcher.snapshot);
        Ok(Self(Some(filter.weight(scoring)?.scorer(reader, 1.0)?)))
    }

    pub(crate) fn includes(&mut self, doc: DocId) -> bool {
        let Some(scorer) = &mut self.0 else { return true };
        if scorer.doc() < doc {
            scorer.seek(doc);
        }
        scorer.doc() == doc
    }
}

/// The weight of a term by the number of items with it.
fn inverse_document_frequency(item_count: usize, frequency: usize) -> f32 {
    // Keeps the logarithm positive, also if the index is inconsistent.
    let (items, frequency) = (to_f32(item_count.max(frequency)), to_f32(frequency));
    (1.0 + (items - frequency + 0.5) / (frequency + 0.5)).ln()
}

fn length_norms(searcher: &LexicalSearcher, k1: f32) -> [f32; 256] {
    let total = to_f32(usize::try_from(searcher.total_terms).unwrap_or(usize::MAX));
    let average = (total / to_f32(searcher.item_count().max(1))).max(1.0);
    let mut norms = [0.0; 256];
    for (code, norm) in (0..=u8::MAX).zip(&mut norms) {
        let length = to_f32(to_usize(FieldNormReader::id_to_fieldnorm(code)));
        *norm = k1 * (1.0 - B + B * length / average);
    }
    norms
}
