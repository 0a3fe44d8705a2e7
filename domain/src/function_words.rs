//! Function words of English and Russian, which give a sentence its structure and not its subject.
//!
//! A search ignores them in a query that has other words. They stay searchable in texts.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Separated by white space, in lower case. Contractions are in parts: `don` and `t`.
pub const ENGLISH: &str = include_str!("function_words/english.txt");

/// Separated by white space, in lower case, with `е` for `ё`. Without the prepositions that
/// have a meaning of their own, such as `без`.
pub const RUSSIAN: &str = include_str!("function_words/russian.txt");

static WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| ENGLISH.split_whitespace().chain(RUSSIAN.split_whitespace()).collect());

/// True for a function word of either language in lower case.
pub fn is_function_word(word: &str) -> bool {
    WORDS.contains(word)
}
