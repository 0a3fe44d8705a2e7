//! Splits texts into compounds, and compounds into words.
//!
//! A *compound* is text between spaces and punctuation, such as `REQ-048` or `main.rs`. A *piece*
//! is a part of it between joints, a *run* a part of a piece. `/` and `:` separate compounds.

use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// A piece with digits and more runs is taken for a hash and is not split.
const MAX_PIECE_RUNS: usize = 3;

/// Returns the next compound from `offset` on, and moves `offset` to its end.
pub(crate) fn next_compound<'a>(text: &'a str, offset: &mut usize) -> Option<&'a str> {
    let mut start = None;
    let mut end = *offset;
    let mut after_joint = false;
    while let Some((char, next)) = char_at(text, end) {
        match (char_class(char), start) {
            (CharClass::Word, None) => start = Some(end),
            (CharClass::Word, Some(_)) => after_joint = false,
            // Two joints in a row end a compound, as in `a..b` or `a--b`.
            (CharClass::Joint, Some(_)) if !after_joint => after_joint = true,
            (CharClass::Ideograph, None) => {
                *offset = next;
                return Some(&text[end..next]);
            }
            (CharClass::Paired, None) => {
                let first = cluster_end(text, end);
                let second = cluster_end(text, first);
                // The last letter is in the last pair, unless it is the only one.
                *offset = if cluster_end(text, second) == second { second } else { first };
                return Some(&text[end..second]);
            }
            (_, Some(_)) => break,
            (_, None) => {}
        }
        end = next;
    }
    *offset = end;
    let compound = &text[start?..end];
    Some(compound.trim_end_matches(|c| char_class(c) == CharClass::Joint))
}

fn char_at(text: &str, offset: usize) -> Option<(char, usize)> {
    let byte = *text.as_bytes().get(offset)?;
    if byte.is_ascii() {
        return Some((char::from(byte), offset + 1));
    }
    let char = text[offset..].chars().next()?;
    Some((char, offset + char.len_utf8()))
}

/// Returns the end of the paired letter at the offset with its marks; the offset if there is none.
fn cluster_end(text: &str, offset: usize) -> usize {
    let mut end = offset;
    while let Some((char, next)) = char_at(text, end) {
        let belongs = if end == offset {
            char_class(char) == CharClass::Paired
        } else {
            is_combining_mark(char)
        };
        if !belongs {
            break;
        }
        end = next;
    }
    end
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Word,
    /// Joins two words.
    Joint,
    /// A word of its own: a letter of a script without spaces, or a symbol.
    Ideograph,
    /// Forms a word with the next letter: these scripts join words, and one letter is too short.
    Paired,
    Other,
}

fn char_class(c: char) -> CharClass {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '\u{400}'..='\u{481}' => CharClass::Word,
        '-' | '_' | '.' | '\'' | '’' => CharClass::Joint,
        // Guillemets, dashes and quotes; box drawing; variation selectors.
        '\0'..='\x7f'
        | '«'
        | '»'
        | '\u{2010}'..='\u{206f}'
        | '\u{2500}'..='\u{259f}'
        | '\u{fe00}'..='\u{fe0f}' => CharClass::Other,
        '\u{3040}'..='\u{309f}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => {
            CharClass::Ideograph
        }
        '\u{20000}'..='\u{3ffff}' => CharClass::Ideograph,
        // Thai and Lao, Myanmar, Hangul, Khmer, Katakana.
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1100}'..='\u{11ff}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{30a0}'..='\u{30ff}'
        | '\u{ac00}'..='\u{d7af}'
            if c.is_alphabetic() && !is_combining_mark(c) =>
        {
            CharClass::Paired
        }
        _ if c.is_alphanumeric() || is_combining_mark(c) => CharClass::Word,
        _ if c.general_category() == GeneralCategory::OtherSymbol => CharClass::Ideograph,
        _ => CharClass::Other,
    }
}

/// Calls `take` with the compound and its parts, and with true for a word of letters, which is
/// stemmed.
pub(crate) fn split_compound(compound: &str, mut take: impl FnMut(&str, bool)) {
    if !compound.contains(|c| c == '-' || is_name_char(c)) {
        take(compound, true);
        split_piece(compound, &mut take);
        return;
    }
    // `well-known` is two words of a language; `well_known` and `req-7` are names.
    if compound.contains(is_name_char) {
        take(compound, false);
    }
    for piece in compound.split(['-', '_', '.']) {
        if piece.is_empty() {
            continue;
        }
        if piece.len() < compound.len() {
            take(piece, !piece.contains(is_digit));
        }
        // `REQ-048` is also found as `48`.
        let number = piece.trim_start_matches('0');
        if number.len() < piece.len() && piece.bytes().all(|b| b.is_ascii_digit()) {
            take(if number.is_empty() { "0" } else { number }, false);
        }
        split_piece(piece, &mut take);
    }
}

/// True for characters that occur in names, but not in words of a language.
fn is_name_char(c: char) -> bool {
    c == '_' || c == '.' || is_digit(c)
}

/// Calls `take` with the runs of a piece, unless it is a single run or a hash.
fn split_piece(piece: &str, take: &mut impl FnMut(&str, bool)) {
    if !piece.contains(|c: char| c.is_uppercase() || is_digit(c)) {
        return;
    }
    let runs = split_runs(piece);
    let is_hash = runs.len() > MAX_PIECE_RUNS && runs.iter().any(|run| run.contains(is_digit));
    if runs.len() < 2 || is_hash {
        return;
    }
    for run in runs {
        take(run, !run.contains(is_digit));
    }
}

/// True for digits of all scripts. From `À` to Arabic there are none; this saves a slow lookup.
pub(crate) fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || !(c.is_ascii() || matches!(c, '\u{c0}'..='\u{65f}')) && c.is_numeric()
}

/// Splits a piece at the borders of `camelCase` and of letters and digits.
fn split_runs(piece: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = piece.char_indices().collect();
    let mut runs = Vec::new();
    let mut start = 0;
    for i in 1..chars.len() {
        let (before, (offset, here)) = (chars[i - 1].1, chars[i]);
        let after = chars.get(i + 1).map(|(_, c)| *c);
        // A combining mark belongs to the letter or digit before it.
        let is_digit_border = is_digit(before) != is_digit(here)
            && !is_combining_mark(before)
            && !is_combining_mark(here);
        let is_camel_border = before.is_lowercase() && here.is_uppercase();
        // `HTTPServer`: the last capital belongs to the next word.
        let is_acronym_end =
            before.is_uppercase() && here.is_uppercase() && after.is_some_and(char::is_lowercase);
        if is_digit_border || is_camel_border || is_acronym_end {
            runs.push(&piece[start..offset]);
            start = offset;
        }
    }
    runs.push(&piece[start..]);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_digit_equals_is_numeric_for_all_characters() {
        assert!(('\0'..=char::MAX).all(|c| is_digit(c) == c.is_numeric()));
    }
}
