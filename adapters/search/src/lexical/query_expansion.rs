//! Query expansion: the terms to search for, and similar terms for those that no item has.
//!
//! Only the beginning of a query and its rarest terms are used, so the cost of a query is bounded.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::bm25::{LexicalQuery, QueryTerm};
use super::searcher::LexicalSearcher;
use crate::analyzer::Analyzer;
use reqlore_domain::function_words;
use reqlore_domain::search::truncate_text;

/// The rest of a longer query is ignored.
pub(crate) const MAX_QUERY_BYTES: usize = 16 * 1024;
/// Maximum different terms of a query, of which ...
const MAX_DISTINCT_TERMS: usize = 256;
/// ... the rarest are searched for.
const MAX_SEARCHED_TERMS: usize = 64;
/// Maximum replacements of a missing term.
const MAX_EXPANSIONS: usize = 8;
const EXPANSION_WEIGHT: f32 = 0.5;
/// Maximum terms of the index that are compared for one query.
const MAX_COMPARED_TERMS: usize = 8192;
/// Number of first letters that a replacement shares with the missing term.
const SHARED_PREFIX_CHARS: usize = 2;
/// Shorter terms are not replaced, because too many terms are similar to them.
const MIN_EXPANDED_CHARS: usize = 4;

/// Function words as terms of the analyzer.
static FUNCTION_TERMS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut terms = HashSet::new();
    for words in [function_words::ENGLISH, function_words::RUSSIAN] {
        Analyzer::new().for_each_word(words, |word| {
            terms.insert(word.to_owned());
        });
    }
    terms
});

/// Returns the terms to search for. A repeated term has a higher weight. Function words are dropped
/// from a query that has other words. The last word of an unfinished query also stands for those
/// that begin with it.
pub(crate) fn expand_query(
    searcher: &LexicalSearcher,
    analyzer: &Analyzer,
    query: &str,
    is_unfinished: bool,
) -> tantivy::Result<LexicalQuery> {
    let query = truncate_text(query, MAX_QUERY_BYTES);
    let mut terms: Vec<QueryTerm> = Vec::new();
    analyzer.for_each_word(query, |word| {
        if let Some(term) = terms.iter_mut().find(|term| term.text == word) {
            term.weight += 1.0;
        // Terms beyond the limit are dropped; repeats of earlier ones still count.
        } else if terms.len() < MAX_DISTINCT_TERMS {
            terms.push(QueryTerm { text: word.to_owned(), weight: 1.0, is_replacement: false });
        }
    });
    // A query of function words alone still searches for them.
    if terms.iter().any(|term| !FUNCTION_TERMS.contains(&term.text)) {
        terms.retain(|term| !FUNCTION_TERMS.contains(&term.text));
    }
    if terms.len() > MAX_SEARCHED_TERMS {
        terms = rarest_terms(searcher, terms)?;
    }
    if is_unfinished {
        // The parts of an identifier such as `REQ-04`, which follow it, are in too many items.
        let ending = query.to_lowercase();
        let ends = (0..terms.len()).filter(|end| ending.ends_with(&terms[*end].text));
        if let Some(end) = ends.max_by_key(|end| terms[*end].text.len()) {
            terms.truncate(end + 1);
        }
    }
    let last = terms.len().saturating_sub(1);
    let mut expanded = LexicalQuery::default();
    let mut budget = MAX_COMPARED_TERMS;
    for (position, term) in terms.into_iter().enumerate() {
        let is_begun = is_unfinished && position == last;
        let is_present = searcher.has_live_record(&searcher.fields.word_term(&term.text))?;
        if is_begun || (!is_present && is_expandable(&term.text)) {
            let similar = similar_terms(searcher, &term, position == last, &mut budget)?;
            expanded.terms.extend(similar);
        }
        if is_present {
            expanded.terms.push(term);
        } else {
            expanded.absent_words += term.weight;
        }
    }
    Ok(expanded)
}

/// False for short terms and for identifiers, which a similar term would not replace.
fn is_expandable(term: &str) -> bool {
    term.chars().count() >= MIN_EXPANDED_CHARS && !term.contains(|c: char| c.is_numeric())
}

/// Returns the rarest terms of the index, in the query's order. Terms without items are dropped.
fn rarest_terms(
    searcher: &LexicalSearcher,
    terms: Vec<QueryTerm>,
) -> tantivy::Result<Vec<QueryTerm>> {
    let mut counted = Vec::with_capacity(terms.len());
    for (position, term) in terms.into_iter().enumerate() {
        let frequency = searcher.live_count(&searcher.fields.word_term(&term.text))?;
        if frequency > 0 {
            counted.push((frequency, position, term));
        }
    }
    // The position breaks ties, so that equal queries search for equal terms.
    counted.sort_by_key(|(frequency, position, _)| (*frequency, *position));
    counted.truncate(MAX_SEARCHED_TERMS);
    counted.sort_by_key(|(_, position, _)| *position);
    Ok(counted.into_iter().map(|(_, _, term)| term).collect())
}

/// Returns replacements of a missing or unfinished term, the most frequent first.
///
/// The last term of a query may be unfinished, so terms that begin with it are preferred. Otherwise
/// replacements differ in one letter after the shared prefix.
fn similar_terms(
    searcher: &LexicalSearcher,
    missing: &QueryTerm,
    is_last: bool,
    budget: &mut usize,
) -> tantivy::Result<Vec<QueryTerm>> {
    let mut candidates = Vec::new();
    if is_last {
        let is_longer = |candidate: &str| candidate != missing.text;
        collect_terms(searcher, &missing.text, budget, &mut candidates, is_longer)?;
    }
    if candidates.is_empty() {
        let letters: Vec<char> = missing.text.chars().collect();
        let prefix: String = letters.iter().take(SHARED_PREFIX_CHARS).collect();
        collect_terms(searcher, &prefix, budget, &mut candidates, |candidate| {
            is_one_letter_off(&letters, candidate)
        })?;
    }
    let mut counted = Vec::with_capacity(candidates.len());
    for text in candidates {
        let frequency = searcher.live_count(&searcher.fields.word_term(&text))?;
        if frequency > 0 {
            counted.push((frequency, text));
        }
    }
    // The text breaks ties, so that the result does not depend on the segments.
    counted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    counted.truncate(MAX_EXPANSIONS);
    let weight = missing.weight * EXPANSION_WEIGHT;
    let replacement = |(_, text)| QueryTerm { text, weight, is_replacement: true };
    Ok(counted.into_iter().map(replacement).collect())
}

/// Adds the matching terms with this prefix to `terms`, without repeats.
fn collect_terms(
    searcher: &LexicalSearcher,
    prefix: &str,
    budget: &mut usize,
    terms: &mut Vec<String>,
    is_match: impl Fn(&str) -> bool,
) -> tantivy::Result<()> {
    for segment in &searcher.segments {
        let mut stream = segment.index.terms().range().ge(prefix).into_stream()?;
        while *budget > 0
            && let Some((term, _)) = stream.next()
        {
            *budget -= 1;
            if !term.starts_with(prefix.as_bytes()) {
                break;
            }
            let Ok(term) = std::str::from_utf8(term) else { continue };
            if is_match(term) && !terms.iter().any(|known| known == term) {
                terms.push(term.to_owned());
            }
        }
    }
    Ok(())
}

/// True if one letter was added, removed or replaced, or two neighbours were swapped.
fn is_one_letter_off(missing: &[char], candidate: &str) -> bool {
    let length = candidate.chars().count();
    if length.abs_diff(missing.len()) > 1 {
        return false;
    }
    let candidate: Vec<char> = candidate.chars().collect();
    let same = missing.iter().zip(&candidate).take_while(|(a, b)| a == b).count();
    // The rest begins with the first difference.
    match (&missing[same..], &candidate[same..]) {
        ([_, a @ ..], [_, b @ ..]) if a == b => true,
        ([_, a @ ..], b) if a == b => true,
        (a, [_, b @ ..]) if a == b => true,
        ([a1, a2, a @ ..], [b1, b2, b @ ..]) => a1 == b2 && a2 == b1 && a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_similar(a: &str, b: &str) -> bool {
        is_one_letter_off(&a.chars().collect::<Vec<_>>(), b)
    }

    #[test]
    fn similar_terms_differ_in_one_letter() {
        for (a, b) in
            [("word", "ward"), ("word", "words"), ("word", "wod"), ("word", "wrod"), ("ёж", "ёжи")]
        {
            assert!(is_similar(a, b) && is_similar(b, a), "{a} {b}");
        }
        for (a, b) in [("word", "word"), ("word", "wards"), ("word", ""), ("abcd", "badc")] {
            assert!(!is_similar(a, b) && !is_similar(b, a), "{a} {b}");
        }
    }
}
