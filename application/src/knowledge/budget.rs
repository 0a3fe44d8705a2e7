//! `max_tokens`: how much text an answer may hold, and what was left out.

use reqlore_domain::bounded::BoundedInt;
use serde::Serialize;

/// How many tokens an answer may have at most; four characters count as one.
pub(crate) type MaxTokens = BoundedInt<1, 262_144>;

/// Counts down while an answer is put together.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In characters.
    left: usize,
    cut: Vec<String>,
}

const CHARACTERS_A_TOKEN: usize = 4;
/// About a mebibyte of text.
const DEFAULT_TOKENS: usize = 262_144;

impl Budget {
    pub(crate) fn new(max_tokens: Option<MaxTokens>) -> Self {
        let tokens = max_tokens.map_or(DEFAULT_TOKENS, MaxTokens::get);
        Self { left: tokens * CHARACTERS_A_TOKEN, cut: Vec::new() }
    }

    /// As much of a text as fits, cut at the end of a line or else of a word.
    pub(crate) fn cut<'a>(&mut self, what: &str, text: &'a str) -> &'a str {
        // Bytes are never fewer than characters.
        if text.len() <= self.left {
            self.left -= text.len();
            return text;
        }
        let Some((end, _)) = text.char_indices().nth(self.left) else {
            self.left -= text.chars().count();
            return text;
        };
        let head = &text[..end];
        let line = head.rfind('\n').filter(|at| *at * 2 > end);
        let end = line.or_else(|| head.rfind(char::is_whitespace)).unwrap_or(end);
        let kept_text = text[..end].trim_end();
        let (kept, all) = (kept_text.chars().count(), text.chars().count());
        self.cut.push(format!("{what}: the first {kept} of {all} characters"));
        self.left = 0;
        kept_text
    }

    /// Takes as many leading items as fit by their size as JSON.
    pub(crate) fn keep<T: Serialize>(&mut self, what: &str, items: &mut Vec<T>) {
        let all = items.len();
        let mut kept = 0;
        for item in &*items {
            let size = serde_json::to_string(item).map_or(0, |json| json.chars().count());
            if size > self.left {
                break;
            }
            self.left -= size;
            kept += 1;
        }
        if kept < all {
            items.truncate(kept);
            self.left = 0;
            self.cut.push(format!("{what}: the first {kept} of {all}"));
        }
    }

    /// Something was left out for another reason.
    pub(crate) fn note(&mut self, what: String) {
        self.cut.push(what);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// What was cut, in words; empty when nothing was.
    pub(crate) fn into_cut(self) -> Vec<String> {
        self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(characters: usize) -> Budget {
        Budget { left: characters, cut: Vec::new() }
    }

    #[test]
    fn texts_are_cut_at_lines_or_words_and_it_is_said() {
        for (left, text, kept, cut) in [
            (9, "all of it", "all of it", vec![]),
            (8, "all of it", "all of", vec!["x: the first 6 of 9 characters"]),
            (9, "line one\nline two", "line one", vec!["x: the first 8 of 17 characters"]),
            (4, "🦀🦀🦀🦀", "🦀🦀🦀🦀", vec![]),
            (3, "🦀🦀🦀🦀", "🦀🦀🦀", vec!["x: the first 3 of 4 characters"]),
            (0, "x", "", vec!["x: the first 0 of 1 characters"]),
        ] {
            let mut budget = budget(left);
            assert_eq!(budget.cut("x", text), kept, "{left} {text}");
            assert_eq!(budget.into_cut(), cut);
        }
    }

    #[test]
    fn items_are_kept_as_long_as_they_fit() {
        let mut budget = budget(10);
        let mut items = vec!["abc", "def", "g"];
        budget.keep("hits", &mut items);
        assert_eq!(items, ["abc", "def"]);
        assert_eq!(budget.into_cut(), ["hits: the first 2 of 3"]);
    }
}
