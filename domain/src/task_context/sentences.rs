//! The ends of the sentences of a stored text, by the Unicode rules for sentences (UAX 29).

use unicode_segmentation::UnicodeSegmentation;

use crate::search::truncate_text;

/// The text after a sentence that decides about its end.
const LOOK_AHEAD_BYTES: usize = 4_096;

/// The first sentences of a text, at most `max_bytes` of them.
pub fn first_sentences(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let known = truncate_text(text, max_bytes.saturating_add(LOOK_AHEAD_BYTES));
    let mut ends = sentence_ends(known).into_iter();
    let last = ends.rfind(|end| *end <= max_bytes && *end < known.len());
    &text[..last.unwrap_or_default()]
}

/// The ends of the sentences of Markdown, the end of the text last. A line break within a paragraph
/// ends no sentence.
pub fn sentence_ends(text: &str) -> Vec<usize> {
    let joined = join_wrapped_lines(text);
    let mut ends = Vec::new();
    for (start, sentence) in joined.split_sentence_bound_indices() {
        let end = start + sentence.len();
        if sentence.trim().is_empty() && ends.pop().is_some() {
            ends.push(end);
            continue;
        }
        // The number of a list and the rule below a heading belong to the text after or above.
        let last_line = text[..end].trim_end().rsplit('\n').next().unwrap_or_default();
        if end == text.len() || last_line.contains(char::is_alphabetic) {
            ends.push(end);
        }
    }
    ends
}

/// Replaces the line breaks within paragraphs by spaces, so that all positions stay.
fn join_wrapped_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let is_wrapped = !line.trim().is_empty()
            && !line.trim_start().starts_with('#')
            && lines.peek().is_some_and(|next| continues_paragraph(next));
        let content = line.trim_end_matches(['\r', '\n']);
        if is_wrapped {
            joined.push_str(content);
            joined.extend(std::iter::repeat_n(' ', line.len() - content.len()));
        } else {
            joined.push_str(line);
        }
    }
    joined
}

/// False for a blank line and for the first line of a heading, list, quote, table or code block.
fn continues_paragraph(line: &str) -> bool {
    let line = line.trim_start();
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_number.len() < line.len() && after_number.starts_with(['.', ')']);
    !line.is_empty()
        && !is_numbered
        && !line.starts_with(['#', '-', '*', '+', '>', '|'])
        && !["```", "~~~"].iter().any(|fence| line.starts_with(fence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        let mut start = 0;
        let mut sentences = Vec::new();
        for end in sentence_ends(text) {
            sentences.push(text[start..end].trim());
            start = end;
        }
        sentences
    }

    #[test]
    fn sentences_end_in_every_script() {
        assert_eq!(sentences("Version 1.2 holds. It ends!"), ["Version 1.2 holds.", "It ends!"]);
        assert_eq!(sentences("支付。完成？"), ["支付。", "完成？"]);
        assert_eq!(sentences("यह है। वह था।"), ["यह है।", "वह था।"]);
        assert_eq!(sentences("ما هذا؟ نعم."), ["ما هذا؟", "نعم."]);
        assert_eq!(sentences(""), Vec::<&str>::new());
    }

    #[test]
    fn wrapped_line_ends_no_sentence() {
        assert_eq!(
            sentences("The shop\nSHALL ask\r\nonce. Then\nit ends."),
            ["The shop\nSHALL ask\r\nonce.", "Then\nit ends."]
        );
        assert_eq!(
            sentences("# Head\nText\n\nMore\n- a\n2. b\n"),
            ["# Head", "Text", "More", "- a", "2. b"]
        );
        assert_eq!(sentences("a | b\n|---|---|\n| c | d |\n"), ["a | b", "|---|---|\n| c | d |"]);
    }
}
