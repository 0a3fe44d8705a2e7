//! Query expansion: the words to search for, and similar words for missing ones.
//!
//! Only the beginning of a query and its rarest words are used, so all queries cost about the same.

use tantivy::Term;

use super::LexicalSearcher;
use super::bm25::{self, QueryTerm};
use crate::analyzer::{Analyzer, truncate_to};

/// Maximum bytes of a query; the rest is ignored.
pub(crate) const MAX_QUERY_BYTES: usize = 16 * 1024;
/// Maximum different words of a query, of which ...
const MAX_DISTINCT_TERMS: usize = 256;
/// ... the rarest are searched for.
const MAX_SEARCHED_TERMS: usize = 64;
/// Maximum replacements of a missing word.
const MAX_EXPANSIONS: usize = 8;
const EXPANSION_WEIGHT: f32 = 0.5;
/// Maximum words of the index compared for one query.
const MAX_COMPARED_TERMS: usize = 8192;
/// Number of first letters that a replacement has in common.
const SHARED_PREFIX_CHARS: usize = 2;
/// Shorter words are not replaced, as too many words are similar.
const MIN_EXPANDED_CHARS: usize = 4;

/// The words to search for, in the query's order.
pub(crate) fn expand_query(
    view: &LexicalSearcher,
    analyzer: &Analyzer,
    query: &str,
) -> tantivy::Result<Vec<QueryTerm>> {
    let query = truncate_to(query, MAX_QUERY_BYTES);
    let mut asked: Vec<QueryTerm> = Vec::new();
    analyzer.for_each_word(query, |word| {
        if let Some(known) = asked.iter_mut().find(|known| known.text == word) {
            known.weight += 1.0;
        } else if asked.len() < MAX_DISTINCT_TERMS {
            asked.push(QueryTerm { text: word.to_owned(), weight: 1.0 });
        }
    });
    if asked.len() > MAX_SEARCHED_TERMS {
        asked = rarest_terms(view, asked)?;
    }
    let last = asked.len().saturating_sub(1);
    let mut sought = Vec::new();
    let mut budget = MAX_COMPARED_TERMS;
    for (at, word) in asked.into_iter().enumerate() {
        let guessable = word.text.chars().count() >= MIN_EXPANDED_CHARS
            && !word.text.contains(|c: char| c.is_numeric());
        if bm25::has_postings(view, &word.text)? {
            sought.push(word);
        } else if guessable {
            sought.extend(similar_terms(view, &word, at == last, &mut budget)?);
        }
    }
    Ok(sought)
}

/// The rarest words of the index, in the query's order.
fn rarest_terms(view: &LexicalSearcher, asked: Vec<QueryTerm>) -> tantivy::Result<Vec<QueryTerm>> {
    let mut counted = Vec::new();
    for (at, word) in asked.into_iter().enumerate() {
        let having = document_frequency(view, &word.text)?;
        if having > 0 {
            counted.push((having, at, word));
        }
    }
    counted.sort_by_key(|(having, at, _)| (*having, *at));
    counted.truncate(MAX_SEARCHED_TERMS);
    counted.sort_by_key(|(_, at, _)| *at);
    Ok(counted.into_iter().map(|(_, _, word)| word).collect())
}

/// Number of items with a word, including some deleted ones.
fn document_frequency(view: &LexicalSearcher, word: &str) -> tantivy::Result<u32> {
    let term = Term::from_field_text(view.words, word);
    let mut count = 0;
    for segment in &view.segments {
        count += segment.terms.get_term_info(&term)?.map_or(0, |info| info.doc_freq);
    }
    Ok(count)
}

/// Words of the index that begin with this one, if it is the last of the query and may be
/// unfinished; else words that differ in one letter after the first two.
fn similar_terms(
    view: &LexicalSearcher,
    asked: &QueryTerm,
    last: bool,
    budget: &mut usize,
) -> tantivy::Result<Vec<QueryTerm>> {
    let mut found = Vec::new();
    if last {
        collect_terms(view, &asked.text, budget, &mut found, |_| true)?;
    }
    if found.is_empty() {
        let letters: Vec<char> = asked.text.chars().collect();
        let beginning: String = letters.iter().take(SHARED_PREFIX_CHARS).collect();
        collect_terms(view, &beginning, budget, &mut found, |word| one_letter_off(&letters, word))?;
    }
    let mut counted = Vec::new();
    for word in found {
        let mut having = 0_usize;
        bm25::for_each_posting(view, &word, |_, _, _| having += 1)?;
        if having > 0 {
            counted.push((having, word));
        }
    }
    counted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    counted.truncate(MAX_EXPANSIONS);
    let weight = asked.weight * EXPANSION_WEIGHT;
    Ok(counted.into_iter().map(|(_, word)| QueryTerm { text: word, weight }).collect())
}

/// Collects words with this beginning.
fn collect_terms(
    view: &LexicalSearcher,
    beginning: &str,
    budget: &mut usize,
    found: &mut Vec<String>,
    fits: impl Fn(&str) -> bool,
) -> tantivy::Result<()> {
    for segment in &view.segments {
        let mut stream = segment.terms.terms().range().ge(beginning).into_stream()?;
        while *budget > 0
            && let Some((word, _)) = stream.next()
        {
            *budget -= 1;
            if !word.starts_with(beginning.as_bytes()) {
                break;
            }
            let Ok(word) = std::str::from_utf8(word) else { continue };
            if fits(word) && !found.iter().any(|known| known == word) {
                found.push(word.to_owned());
            }
        }
    }
    Ok(())
}

/// True for one added, missing or other letter, or two swapped neighbours.
fn one_letter_off(asked: &[char], word: &str) -> bool {
    let length = word.chars().count();
    if length.abs_diff(asked.len()) > 1 {
        return false;
    }
    let word: Vec<char> = word.chars().collect();
    let same = asked.iter().zip(&word).take_while(|(a, b)| a == b).count();
    let (asked, word) = (&asked[same..], &word[same..]);
    let swapped = asked.len() > 1
        && word.len() > 1
        && (asked[0], asked[1]) == (word[1], word[0])
        && asked[2..] == word[2..];
    let (after_asked, after_word) = (asked.get(1..), word.get(1..));
    let other = after_asked.is_some() && after_asked == after_word;
    let less = after_asked == Some(word);
    let more = after_word == Some(asked);
    swapped || other || less || more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_one_letter_off() {
        let off = |a: &str, b: &str| one_letter_off(&a.chars().collect::<Vec<_>>(), b);
        for (a, b) in
            [("word", "ward"), ("word", "words"), ("word", "wod"), ("word", "wrod"), ("ёж", "ёжи")]
        {
            assert!(off(a, b) && off(b, a), "{a} {b}");
        }
        for (a, b) in [("word", "word"), ("word", "wards"), ("word", ""), ("abcd", "badc")] {
            assert!(!off(a, b) && !off(b, a), "{a} {b}");
        }
    }
}
