//! Splits texts into compounds, and compounds into words.
//!
//! A *compound* is text between spaces and punctuation (`REQ-048`, `main.rs`), a *part* is a piece
//! of it. A path or `general:2.1` is several compounds, as `/` and `:` separate.

use unicode_normalization::char::is_combining_mark;

/// A compound with more runs of letters and digits is a hash, which stays whole.
const MAX_PIECE_RUNS: usize = 3;

/// The next compound from `at` on. Moves `at` to its end.
pub(crate) fn next_compound<'a>(text: &'a str, at: &mut usize) -> Option<&'a str> {
    let mut start = None;
    let mut end = *at;
    let mut joined = false;
    while let Some((char, next)) = char_at(text, end) {
        match (char_class(char), start) {
            (CharClass::Word, None) => start = Some(end),
            (CharClass::Word, Some(_)) => joined = false,
            // Two joints in a row end a word, as in `a..b` or `--`.
            (CharClass::Joint, Some(_)) if !joined => joined = true,
            (CharClass::Ideograph, None) => {
                *at = next;
                return Some(&text[end..next]);
            }
            (_, Some(_)) => break,
            (_, None) => {}
        }
        end = next;
    }
    *at = end;
    let found = &text[start?..end];
    Some(found.trim_end_matches(|c| char_class(c) == CharClass::Joint))
}

fn char_at(text: &str, at: usize) -> Option<(char, usize)> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        return Some((char::from(byte), at + 1));
    }
    let char = text[at..].chars().next()?;
    Some((char, at + char.len_utf8()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Word,
    /// Joins two words.
    Joint,
    /// A word of its own: these scripts have no spaces.
    Ideograph,
    Other,
}

fn char_class(c: char) -> CharClass {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '\u{400}'..='\u{481}' => CharClass::Word,
        '-' | '_' | '.' | '\'' | '’' => CharClass::Joint,
        '\0'..='\x7f' => CharClass::Other,
        '\u{3040}'..='\u{309f}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => {
            CharClass::Ideograph
        }
        '\u{20000}'..='\u{3ffff}' => CharClass::Ideograph,
        _ if c.is_alphanumeric() || is_combining_mark(c) => CharClass::Word,
        _ => CharClass::Other,
    }
}

/// The words of a compound: itself and its parts. The second argument of `take` is true for words
/// of letters alone, which are stemmed.
pub(crate) fn split_compound(compound: &str, mut take: impl FnMut(&str, bool)) {
    let named = |c: char| c == '_' || c == '.' || is_digit(c);
    let parted = |c: char| matches!(c, '-' | '_' | '.');
    let plain = !compound.contains(|c| c == '-' || named(c));
    if plain {
        take(compound, true);
        split_piece(compound, &mut take);
        return;
    }
    // `well-known` is two words of a language, `well_known` and `req-7` are names.
    if compound.contains(named) {
        take(compound, false);
    }
    for piece in compound.split(parted).filter(|piece| !piece.is_empty()) {
        let digits = piece.contains(is_digit);
        if piece.len() < compound.len() {
            take(piece, !digits);
        }
        let bare = piece.trim_start_matches('0');
        if bare.len() < piece.len() && piece.bytes().all(|b| b.is_ascii_digit()) {
            take(if bare.is_empty() { "0" } else { bare }, false);
        }
        split_piece(piece, &mut take);
    }
}

/// The parts of a piece at the borders of `camelCase` and of letters and digits, if it has any.
fn split_piece(piece: &str, take: &mut impl FnMut(&str, bool)) {
    if !piece.contains(|c: char| c.is_uppercase() || is_digit(c)) {
        return;
    }
    let runs = split_runs(piece);
    let alternations = runs.iter().filter(|run| run.contains(is_digit)).count();
    let hash = alternations > 0 && runs.len() > MAX_PIECE_RUNS;
    if runs.len() < 2 || hash {
        return;
    }
    for run in runs {
        take(run, !run.contains(is_digit));
    }
}

/// Numbers of all scripts. From `À` up to Arabic there are none, and looking letters up is slow.
pub(crate) fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || !(c.is_ascii() || matches!(c, '\u{c0}'..='\u{65f}')) && c.is_numeric()
}

fn split_runs(piece: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = piece.char_indices().collect();
    let mut runs = Vec::new();
    let mut start = 0;
    for i in 1..chars.len() {
        let (before, (at, here)) = (chars[i - 1].1, chars[i]);
        let after = chars.get(i + 1).map(|(_, c)| *c);
        let digit = is_digit(before) != is_digit(here)
            && !is_combining_mark(before)
            && !is_combining_mark(here);
        let hump = before.is_lowercase() && here.is_uppercase();
        // `HTTPServer`: the last capital belongs to what follows.
        let acronym =
            before.is_uppercase() && here.is_uppercase() && after.is_some_and(char::is_lowercase);
        if digit || hump || acronym {
            runs.push(&piece[start..at]);
            start = at;
        }
    }
    runs.push(&piece[start..]);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digit_is_what_is_numeric() {
        assert!(('\0'..=char::MAX).all(|c| is_digit(c) == c.is_numeric()));
    }
}
