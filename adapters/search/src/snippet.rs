//! Snippets: the passage of a text with the most terms of the query.

use std::collections::HashMap;
use std::ops::Range;

use reqlore_domain::search::truncate_text;

use crate::analyzer::Analyzer;
use crate::analyzer::tokenizer::is_digit;
use crate::lexical::bm25::QueryTerm;

/// Maximum characters of a snippet.
const MAX_SNIPPET_CHARS: usize = 240;
/// Only the beginning of a text is searched: a page may have a hundred texts of megabytes.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;
const MAX_MATCHES: usize = 256;
/// Maximum characters before the first match.
const MAX_LEAD_CHARS: usize = MAX_SNIPPET_CHARS / 6;

/// Returns the passage with the most terms; without a match the text from `fallback` on.
pub(crate) fn best_snippet(
    analyzer: &Analyzer,
    text: &str,
    terms: &[QueryTerm],
    fallback: impl FnOnce() -> usize,
) -> String {
    let matches = find_matches(analyzer, text, terms);
    let Some(passage) = best_passage(text, &matches) else {
        return truncate_line(text, fallback());
    };
    let mut start = passage.start;
    let mut is_line_start = false;
    for (offset, c) in text[..passage.start].char_indices().rev().take(MAX_LEAD_CHARS) {
        is_line_start = c == '\n';
        if is_line_start {
            break;
        }
        start = offset;
    }
    // Skips a partial word at the start, unless it reaches to the match.
    if !is_line_start
        && text[..start].ends_with(|c: char| !c.is_whitespace())
        && let Some(blank) = text[start..passage.start].find(char::is_whitespace)
    {
        start += blank;
    }
    truncate_line(text, start)
}

/// A compound of the text that contains a term.
struct TermMatch {
    range: Range<usize>,
    /// Position in the query's terms.
    term: usize,
}

fn find_matches(analyzer: &Analyzer, text: &str, terms: &[QueryTerm]) -> Vec<TermMatch> {
    let mut matches = Vec::new();
    if terms.is_empty() {
        return matches;
    }
    let mut positions: HashMap<&str, usize> = HashMap::with_capacity(terms.len());
    for (position, term) in terms.iter().enumerate() {
        positions.insert(&term.text, position);
    }
    let text = truncate_text(text, MAX_SEARCHED_BYTES);
    let initials: Vec<char> = terms.iter().filter_map(|term| term.text.chars().next()).collect();
    analyzer.for_each_word_of(
        text,
        |compound| may_contain_term(compound, &initials),
        |range, word| {
            if let Some(term) = positions.get(word)
                && matches.len() < MAX_MATCHES
            {
                matches.push(TermMatch { range, term: *term });
            }
        },
    );
    matches
}

/// False if no word of the compound begins with one of these letters. Stemming keeps the first
/// letter, so most of a text need not be analyzed.
fn may_contain_term(compound: &str, initials: &[char]) -> bool {
    let mut previous = ' ';
    compound.chars().any(|c| {
        let starts_word =
            !previous.is_alphanumeric() || is_digit(c) || is_digit(previous) || c.is_uppercase();
        previous = c;
        match c {
            // The analyzer replaces `ё` by `е`.
            'Ё' | 'ё' => starts_word && initials.contains(&'е'),
            'a'..='z' | 'а'..='я' | '0'..='9' => starts_word && initials.contains(&c),
            // A capital always starts a word, as in `camelCase`.
            'A'..='Z' | 'А'..='Я' => c.to_lowercase().any(|c| initials.contains(&c)),
            // Normalization may change any other letter.
            _ => !c.is_ascii(),
        }
    })
}

/// Returns the first range with the most different terms; of equals the one with more matches.
fn best_passage(text: &str, matches: &[TermMatch]) -> Option<Range<usize>> {
    let ends = end_offsets(text, matches);
    let (mut best, mut best_counts) = (None, (0, 0));
    let mut distinct = Vec::new();
    for (first, term_match) in matches.iter().enumerate() {
        let mut range = term_match.range.clone();
        let mut count = 0;
        distinct.clear();
        for (other, end) in matches[first..].iter().zip(&ends[first..]) {
            if end - ends[first] > MAX_SNIPPET_CHARS - MAX_LEAD_CHARS {
                break;
            }
            count += 1;
            range.end = other.range.end;
            if !distinct.contains(&other.term) {
                distinct.push(other.term);
            }
        }
        if (distinct.len(), count) > best_counts {
            (best, best_counts) = (Some(range), (distinct.len(), count));
        }
    }
    best
}

/// Number of characters before the end of each match.
fn end_offsets(text: &str, matches: &[TermMatch]) -> Vec<usize> {
    let (mut end, mut chars) = (0, 0);
    let mut offsets = Vec::with_capacity(matches.len());
    for term_match in matches {
        // Several terms may match one compound.
        if term_match.range.end > end {
            chars += text[end..term_match.range.end].chars().count();
            end = term_match.range.end;
        }
        offsets.push(chars);
    }
    offsets
}

/// Returns one line of at most [`MAX_SNIPPET_CHARS`] from `start` on, cut between words.
fn truncate_line(text: &str, start: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    let has_ellipsis = !text[..start].trim().is_empty();
    if has_ellipsis {
        line.push('…');
        length += 1;
    }
    for word in text[start..].split_whitespace() {
        // A blank before the word and an ellipsis after it.
        let free = MAX_SNIPPET_CHARS.saturating_sub(length + 2);
        let size = word.chars().take(MAX_SNIPPET_CHARS + 1).count();
        if size > free {
            // Only a word that is longer than the snippet is cut.
            if length <= 1 {
                line.extend(word.chars().take(free));
            }
            line.push('…');
            break;
        }
        if length > usize::from(has_ellipsis) {
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
        let words: Vec<_> = words
            .iter()
            .map(|word| QueryTerm { text: (*word).to_owned(), weight: 1.0, is_replacement: false })
            .collect();
        best_snippet(&Analyzer::new(), text, &words, || 0)
    }

    #[test]
    fn snippet_shows_terms_in_any_form() {
        let filler = "lorem ipsum ".repeat(60);
        let text = format!("{filler}\n- it Connected\n  twice {filler}");
        let snippet_text = snippet(&text, &["connect"]);
        assert!(snippet_text.starts_with("…- it Connected twice lorem"), "{snippet_text}");
        assert!(
            snippet_text.ends_with("ipsum…") || snippet_text.ends_with("lorem…"),
            "{snippet_text}"
        );
        assert!(snippet_text.chars().count() <= MAX_SNIPPET_CHARS, "{snippet_text}");
    }

    #[test]
    fn snippet_prefers_passage_with_more_terms() {
        let filler = "lorem ipsum ".repeat(60);
        let snippet_text =
            snippet(&format!("alpha {filler} alpha beta {filler}"), &["alpha", "beta"]);
        assert!(snippet_text.contains("alpha beta"), "{snippet_text}");
    }

    #[test]
    fn snippet_without_match_begins_at_fallback() {
        assert_eq!(snippet("", &["a"]), "");
        assert_eq!(snippet("one\n two", &["three"]), "one two");
        assert_eq!(snippet(&"ж".repeat(9000), &[]).chars().count(), MAX_SNIPPET_CHARS - 1);
    }
}
