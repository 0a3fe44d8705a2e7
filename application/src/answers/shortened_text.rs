//! Long texts, cut at the end of a line or sentence.

/// The positions after each sentence and line of a text.
pub(crate) fn text_borders(text: &str) -> Vec<usize> {
    let mut borders = Vec::new();
    let mut ends_sentence = false;
    for (position, character) in text.char_indices() {
        if character == '\n' || (ends_sentence && character == ' ') {
            borders.push(position + 1);
        }
        // With the full stops of Devanagari, Arabic, Chinese and Japanese.
        ends_sentence = matches!(character, '.' | '!' | '?' | '।' | '؟' | '。' | '！' | '？');
        if matches!(character, '。' | '！' | '？') {
            borders.push(position + character.len_utf8());
        }
    }
    if borders.last() != Some(&text.len()) {
        borders.push(text.len());
    }
    borders
}

/// Bytes of the current text in a conflict, which fit into the default size of answers.
const MAX_CONFLICT_BYTES: usize = 7_000;

/// The current text in a conflict, or its beginning.
pub(crate) fn shorten_current(text: &str) -> String {
    let border = text_borders(text).into_iter().rfind(|border| *border <= MAX_CONFLICT_BYTES);
    if border == Some(text.len()) {
        return text.to_owned();
    }
    let (shown, tokens) = (text[..border.unwrap_or_default()].trim_end(), text.len().div_ceil(4));
    format!(
        "{shown}\n\nNote: the text is cut; get_item with max_tokens: {} returns all of it",
        tokens + 400
    )
}
