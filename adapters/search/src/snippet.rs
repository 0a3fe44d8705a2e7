//! Snippets: the part of a text with the words of the query.
//!
//! Only the beginning of a text is searched, as a page may have a hundred texts of megabytes.

use std::collections::HashMap;
use std::ops::Range;

use crate::analyzer::tokenizer::is_digit;
use crate::analyzer::{Analyzer, truncate_to};
use crate::lexical::bm25::QueryTerm;

/// Maximum characters of a snippet.
const MAX_SNIPPET_CHARS: usize = 240;
/// Searched bytes of a text.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;
const MAX_MATCHES: usize = 256;
/// Maximum characters before the first word of the query.
const MAX_LEAD_CHARS: usize = MAX_SNIPPET_CHARS / 6;

/// The passage with most of the words, else the text at `fallback`.
pub(crate) fn best_snippet(
    analyzer: &Analyzer,
    text: &str,
    words: &[QueryTerm],
    fallback: impl FnOnce() -> usize,
) -> String {
    let places = find_matches(analyzer, text, words);
    let Some(best) = best_passage(text, &places) else {
        return truncate_line(text, fallback());
    };
    let mut start = best.start;
    let mut line_start = false;
    for (at, c) in text[..best.start].char_indices().rev().take(MAX_LEAD_CHARS) {
        line_start = c == '\n';
        if line_start {
            break;
        }
        start = at;
    }
    // Only a very long word is cut.
    if start > 0 && !line_start {
        let inside = text[..start].chars().next_back().is_some_and(|c| !c.is_whitespace());
        let blank = text[start..best.start].find(char::is_whitespace);
        start += blank.filter(|_| inside).unwrap_or(0);
    }
    truncate_line(text, start)
}

struct TermMatch {
    range: Range<usize>,
    term: usize,
}

fn find_matches(analyzer: &Analyzer, text: &str, words: &[QueryTerm]) -> Vec<TermMatch> {
    let by_word: HashMap<&str, usize> =
        words.iter().enumerate().map(|(at, weighted)| (weighted.text.as_str(), at)).collect();
    let mut places = Vec::new();
    if by_word.is_empty() {
        return places;
    }
    let text = truncate_to(text, MAX_SEARCHED_BYTES);
    let beginnings: Vec<char> = words.iter().filter_map(|word| word.text.chars().next()).collect();
    let may_have = |compound: &str| may_contain_term(compound, &beginnings);
    analyzer.for_each_word_of(text, may_have, |range, word| {
        if let Some(word) = by_word.get(word)
            && places.len() < MAX_MATCHES
        {
            places.push(TermMatch { range, term: *word });
        }
    });
    places
}

/// False if no word of a compound begins with one of these letters. Stems keep the first letter, so
/// most of a text need not be analyzed.
fn may_contain_term(compound: &str, beginnings: &[char]) -> bool {
    let mut before = ' ';
    compound.chars().any(|c| {
        let begins = !before.is_alphanumeric() || is_digit(c) || is_digit(before);
        let begins = begins || c.is_uppercase();
        before = c;
        match c {
            'Ё' | 'ё' => begins && beginnings.contains(&'е'),
            'a'..='z' | 'а'..='я' | '0'..='9' => begins && beginnings.contains(&c),
            'A'..='Z' | 'А'..='Я' => c.to_lowercase().any(|c| beginnings.contains(&c)),
            _ => !c.is_ascii(),
        }
    })
}

/// The first range with the most different words.
fn best_passage(text: &str, places: &[TermMatch]) -> Option<Range<usize>> {
    let mut best: Option<(usize, usize, Range<usize>)> = None;
    let lengths = end_offsets(text, places);
    for (first, place) in places.iter().enumerate() {
        let start = place.range.start;
        let within = places[first..].iter().zip(&lengths[first..]);
        let mut seen = Vec::new();
        let (mut count, mut end) = (0, place.range.end);
        for (place, length) in within {
            if length - lengths[first] > MAX_SNIPPET_CHARS - MAX_LEAD_CHARS {
                break;
            }
            count += 1;
            end = place.range.end;
            if !seen.contains(&place.term) {
                seen.push(place.term);
            }
        }
        let better = best
            .as_ref()
            .is_none_or(|(different, most, _)| (seen.len(), count) > (*different, *most));
        if better {
            best = Some((seen.len(), count, start..end));
        }
    }
    best.map(|(_, _, range)| range)
}

/// Number of characters before the end of each place.
fn end_offsets(text: &str, places: &[TermMatch]) -> Vec<usize> {
    let (mut at, mut length) = (0, 0);
    let count = |place: &TermMatch| {
        if place.range.end > at {
            length += text[at..place.range.end].chars().count();
            at = place.range.end;
        }
        length
    };
    places.iter().map(count).collect()
}

/// One line of at most [`LENGTH`] characters from `start`, cut between words.
fn truncate_line(text: &str, start: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    let before = !text[..start].trim().is_empty();
    if before {
        line.push('…');
        length += 1;
    }
    for word in text[start..].split_whitespace() {
        let room = MAX_SNIPPET_CHARS.saturating_sub(length + 2);
        let size = word.chars().take(MAX_SNIPPET_CHARS + 1).count();
        if size > room {
            if length <= 1 {
                line.extend(word.chars().take(room));
            }
            line.push('…');
            break;
        }
        if length > usize::from(before) {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += size;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snippet(text: &str, words: &[&str]) -> String {
        let words: Vec<_> =
            words.iter().map(|word| QueryTerm { text: (*word).to_owned(), weight: 1.0 }).collect();
        best_snippet(&Analyzer::new(), text, &words, || 0)
    }

    #[test]
    fn shows_the_words_in_any_form() {
        let filler = "lorem ipsum ".repeat(60);
        let text = format!("{filler}\n- it Connected\n  twice {filler}");
        let found = snippet(&text, &["connect"]);
        assert!(found.starts_with("…- it Connected twice lorem"), "{found}");
        assert!(found.ends_with("ipsum…") || found.ends_with("lorem…"), "{found}");
        assert!(found.chars().count() <= MAX_SNIPPET_CHARS, "{found}");
    }

    #[test]
    fn prefers_the_place_with_more_words() {
        let filler = "lorem ipsum ".repeat(60);
        let found = snippet(&format!("alpha {filler} alpha beta {filler}"), &["alpha", "beta"]);
        assert!(found.contains("alpha beta"), "{found}");
    }

    #[test]
    fn begins_at_the_beginning_where_nothing_matches() {
        assert_eq!(snippet("", &["a"]), "");
        assert_eq!(snippet("one\n two", &["three"]), "one two");
        assert_eq!(snippet(&"ж".repeat(9000), &[]).chars().count(), MAX_SNIPPET_CHARS - 1);
    }
}
