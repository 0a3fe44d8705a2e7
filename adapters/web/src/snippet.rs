//! Texts of search hits: without the marks of Markdown, and with the words of the query marked.

use reqlore_domain::function_words::is_function_word;
use reqlore_domain::name_form::fold_name;

/// A shorter word of a text is not taken for the stem of a word of the query.
const MIN_STEM_CHARS: usize = 4;

/// The text of a passage of Markdown on one line, which may begin and end within a mark.
pub(crate) fn plain_text(passage: &str) -> String {
    let mut text = String::with_capacity(passage.len());
    let mut rest = passage;
    while let Some(letter) = rest.chars().next() {
        let before = text.chars().next_back();
        let mark = mark_length(rest, letter, before);
        if mark == 0 && !(letter.is_whitespace() && before.is_none_or(char::is_whitespace)) {
            text.push(letter);
        }
        rest = &rest[mark.max(letter.len_utf8())..];
    }
    text
}

/// Number of bytes of the mark at the start of a text; 0 if the letter belongs to the text.
fn mark_length(rest: &str, letter: char, before: Option<char>) -> usize {
    let run = rest.len() - rest.trim_start_matches(letter).len();
    let after = rest[run..].chars().next();
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let is_gap = |letter: Option<char>| letter.is_none_or(char::is_whitespace);
    let is_mark = match letter {
        '`' | '|' => true,
        '*' | '_' | '~' => run > 1 || is_word(before) != is_word(after),
        '#' | '>' => is_gap(before) && is_gap(after),
        '-' => run > 2 || (run > 1 && matches!(after, Some(':' | '|'))),
        // The alignment of a table's column.
        ':' => after == Some('|') || rest.starts_with(":--"),
        '!' => after == Some('['),
        '[' | ']' => run > 1,
        _ => false,
    };
    match letter {
        '[' if ["[ ] ", "[x] "].iter().any(|task| rest.starts_with(task)) => 4,
        _ if is_mark => run,
        '[' if rest.find(']').is_none_or(|end| rest[end..].starts_with("](")) => 1,
        ']' if after == Some('(') => {
            rest.find(')').map_or_else(|| rest.find(' ').unwrap_or(rest.len()), |end| end + 1)
        }
        _ => 0,
    }
}

/// The folded words of a query to mark, without function words if it has others.
pub(crate) fn query_words(query: &str) -> Vec<String> {
    let query = fold_name(query);
    let mut words: Vec<String> = query
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|one| !one.is_empty())
        .map(str::to_owned)
        .collect();
    if !words.iter().all(|word| is_function_word(word)) {
        words.retain(|word| !is_function_word(word));
    }
    words
}

/// The parts of a text; true for a word that is one of [`query_words`] or begins with one.
pub(crate) fn mark_words<'t>(text: &'t str, words: &[String]) -> Vec<(bool, &'t str)> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let is_word = rest.starts_with(char::is_alphanumeric);
        let end = rest.find(|letter: char| letter.is_alphanumeric() != is_word);
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        let name = fold_name(part);
        let is_stem = name.chars().count() >= MIN_STEM_CHARS;
        let is_same =
            |word: &String| name.starts_with(word) || (is_stem && word.starts_with(&*name));
        parts.push((is_word && words.iter().any(is_same), part));
        rest = after;
    }
    parts
}

/// True if each word of the text begins a word of the name. `text` is folded.
pub(crate) fn has_words(name: &str, text: &str) -> bool {
    let name = fold_name(name);
    let begins = |word: &str| {
        name.match_indices(word).any(|(at, _)| !name[..at].ends_with(char::is_alphanumeric))
    };
    text.split_whitespace().all(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippet_has_no_marks_of_markdown() {
        for (passage, expected) in [
            ("## Goal Pay **without** `an account`.", "Goal Pay without an account."),
            ("see [the plan](../plan.md) and ![x](y.png)", "see the plan and x"),
            ("see [[REQ-001]] - [ ] open - [x] done", "see REQ-001 - open - done"),
            (
                "*any* bank (_soon_), snake_case 5 * 3 #12 a > b",
                "any bank (soon), snake_case 5 * 3 #12 a b",
            ),
            ("| a | b | |:--|--:| | ~~c~~ | d |", "a b c d "),
            ("](https://example.org) cut [link](https://exa", " cut link"),
            ("array[3] (x) [note] <b>é</b> \u{202e}", "array[3] (x) [note] <b>é</b> \u{202e}"),
            ("> quote # **", "quote "),
            ("", ""),
        ] {
            assert_eq!(plain_text(passage), expected.trim_start(), "{passage}");
        }
    }

    #[test]
    fn words_of_the_query_are_marked() {
        let marked = |text, query| -> String {
            let parts = mark_words(text, &query_words(query)).into_iter();
            parts
                .map(
                    |(is_marked, part)| {
                        if is_marked { format!("[{part}]") } else { part.to_owned() }
                    },
                )
                .collect()
        };
        for (text, query, expected) in [
            ("Paying a guest, the Payment", "pay", "[Paying] a guest, the [Payment]"),
            ("Payment of pay", "payments", "[Payment] of pay"),
            ("The guest and the card", "the card", "The guest and the [card]"),
            ("To be", "to be", "[To] [be]"),
            ("ÜBER <b> REQ-048", "über req-048", "[ÜBER] <b> [REQ]-[048]"),
            ("a", "", "a"),
        ] {
            assert_eq!(marked(text, query), expected, "{query}");
        }
    }

    #[test]
    fn names_are_found_by_the_beginnings_of_their_words() {
        for (name, text, expected) in [
            ("US-001 Pay as a guest", "gue pay", true),
            ("US-001 Pay as a guest", "us-0", true),
            ("US-001 Pay as a guest", "est", false),
            ("Übersicht", "über", true),
            ("Any", "", true),
        ] {
            assert_eq!(has_words(name, text), expected, "{text}");
        }
    }
}
