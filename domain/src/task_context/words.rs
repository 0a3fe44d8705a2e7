//! The words of a task and of changed paths.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use crate::function_words::is_function_word;
use crate::search::truncate_text;

/// Shorter numbers, and words of scripts with lower case, say too little.
const MIN_WORD_CHARS: usize = 3;
/// The end of a longer word may be an inflection.
const MIN_STEM_CHARS: usize = 5;
const MAX_PATH_BYTES: usize = 4_000;

/// The words of a task in lower case, without function words and inflections.
pub fn task_words(task: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in task.to_lowercase().unicode_words() {
        let count = word.chars().count();
        let is_plain = word.chars().all(|c| c.is_ascii() || c.is_lowercase());
        let is_short = count < MIN_WORD_CHARS && is_plain;
        if is_short || is_function_word(word) {
            continue;
        }
        let stem_chars = count.saturating_sub(2).max(MIN_STEM_CHARS).min(count);
        words.push(word.chars().take(stem_chars).collect());
    }
    words
}

/// True if a text has one of these words.
pub fn has_word(words: &[String], text: &str) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|word| text.contains(&**word))
}

/// The names of folders and files, each once, as the text of a search; `None` if there are none.
pub fn path_words<'p>(paths: impl IntoIterator<Item = &'p str>) -> Option<String> {
    let mut known = HashSet::new();
    let mut words = String::new();
    for path in paths {
        let path = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        for name in path.split(['/', '\\']) {
            if name.chars().any(char::is_alphanumeric) && known.insert(name) {
                words.extend([name, " "]);
            }
        }
    }
    let words = truncate_text(&words, MAX_PATH_BYTES).trim_end();
    (!words.is_empty()).then(|| words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_words_are_found_in_other_forms() {
        let words = task_words("Pay the payments as a guest, REQ-7");
        assert_eq!(words, ["pay", "paymen", "guest", "req"]);
        assert!(has_word(&words, "A Payment fails") && !has_word(&words, "Refunds"));
        assert!(has_word(&task_words("支付"), "用户支付"));
    }

    #[test]
    fn path_words_have_each_name_once() {
        let paths = ["src/pay/guest_form.rs", "src\\pay\\mod.rs", "/.."];
        assert_eq!(path_words(paths).as_deref(), Some("src pay guest_form mod"));
        assert_eq!(path_words(["/"]), None);
    }
}
