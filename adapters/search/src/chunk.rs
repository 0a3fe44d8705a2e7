//! Splits the text of an item into chunks for embedding models: at headings and after 180 words.
//!
//! A chunk begins with its title and headings, which name its subject. Equal chunks of two items
//! share one vector.

use std::ops::Range;

use reqlore_domain::sections::parse_heading;

/// The first 16 bytes of the BLAKE3 hash of a chunk's text.
pub(crate) type ChunkHash = [u8; 16];

/// Maximum words of a chunk without its headings; more would exceed the models' input.
const MAX_CHUNK_WORDS: usize = 180;
/// The rest of a longer item is not embedded.
const MAX_CHUNKS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) hash: ChunkHash,
    /// The text that is embedded, with title and headings.
    pub(crate) text: String,
    /// The bytes of the item's text.
    pub(crate) range: Range<usize>,
}

struct ItemText<'a> {
    title: &'a str,
    text: &'a str,
}

/// Splits an item into chunks; none if it has neither title nor text.
pub(crate) fn split_item(title: &str, text: &str) -> Vec<Chunk> {
    let item = &ItemText { title: title.trim(), text };
    let mut chunks = Vec::new();
    let mut path: Vec<(usize, &str)> = Vec::new();
    let (mut start, mut offset, mut words, mut is_code) = (0, 0, 0, false);
    for line in item.text.split_inclusive('\n') {
        let trimmed = line.trim();
        // A `#` line inside a code block is not a heading.
        is_code ^= trimmed.starts_with("```") || trimmed.starts_with("~~~");
        let section = if is_code { None } else { parse_heading(trimmed) };
        let count = line.split_whitespace().count();
        // A chunk does not span sections, as each has its own subject.
        if section.is_some() || words + count > MAX_CHUNK_WORDS {
            push_chunk(&mut chunks, item, &path, start..offset);
            (start, words) = (offset, 0);
        }
        if let Some((level, name)) = section {
            // A heading ends all sections of its level and below.
            path.retain(|(parent, _)| *parent < level);
            path.push((level, name));
            start = offset + line.len();
        } else if count > MAX_CHUNK_WORDS {
            start = split_long_line(&mut chunks, item, &path, offset..offset + line.len());
            words = item.text[start..offset + line.len()].split_whitespace().count();
        } else {
            words += count;
        }
        offset += line.len();
    }
    push_chunk(&mut chunks, item, &path, start..offset);
    if chunks.is_empty() && !item.title.is_empty() {
        // An item without text is found by its title.
        push_possibly_empty(&mut chunks, item, &path, 0..0);
    }
    chunks.truncate(MAX_CHUNKS);
    chunks
}

/// Splits a line of more than [`MAX_CHUNK_WORDS`]. Returns the start of its last, unfinished chunk.
fn split_long_line(
    chunks: &mut Vec<Chunk>,
    item: &ItemText,
    path: &[(usize, &str)],
    line: Range<usize>,
) -> usize {
    let (mut start, mut words, mut in_word) = (line.start, 0, false);
    for (offset, c) in item.text[line.clone()].char_indices() {
        let starts_word = !c.is_whitespace() && !in_word;
        in_word = !c.is_whitespace();
        if starts_word && words == MAX_CHUNK_WORDS {
            push_chunk(chunks, item, path, start..line.start + offset);
            (start, words) = (line.start + offset, 0);
        }
        words += usize::from(starts_word);
    }
    start
}

fn push_chunk(
    chunks: &mut Vec<Chunk>,
    item: &ItemText,
    path: &[(usize, &str)],
    range: Range<usize>,
) {
    if !item.text[range.clone()].trim().is_empty() && chunks.len() < MAX_CHUNKS {
        push_possibly_empty(chunks, item, path, range);
    }
}

fn push_possibly_empty(
    chunks: &mut Vec<Chunk>,
    item: &ItemText,
    path: &[(usize, &str)],
    range: Range<usize>,
) {
    let mut text = item.title.to_owned();
    // A heading that repeats the title adds nothing to the meaning.
    for (_, name) in path.iter().filter(|(_, name)| *name != item.title) {
        if !text.is_empty() {
            text.push_str(" — ");
        }
        text.push_str(name);
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(item.text[range.clone()].trim());
    // 128 bits are enough to identify a text.
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    chunks.push(Chunk { hash, text, range });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(title: &str, text: &str) -> Vec<String> {
        split_item(title, text).into_iter().map(|chunk| chunk.text).collect()
    }

    #[test]
    fn chunk_text_begins_with_title_and_headings() {
        assert_eq!(texts("", " \n"), Vec::<String>::new());
        assert_eq!(texts("T", ""), ["T\n"]);
        assert_eq!(texts("T", "a\nb\n"), ["T\na\nb"]);
        assert_eq!(
            texts("T", "# T\nintro\n## A\na\n### B\nb\n## C ##\n```\n# code\n```"),
            ["T\nintro", "T — A\na", "T — A — B\nb", "T — C\n```\n# code\n```"]
        );
    }

    #[test]
    fn chunk_over_word_limit_is_split_between_words() {
        let long = (0..1000).map(|i| i.to_string()).collect::<Vec<_>>();
        for text in [long.join(" "), long.join("\n"), format!("a\n{}\nb", long.join(" "))] {
            let chunks = texts("", &text);
            let longest = chunks.iter().map(|chunk| chunk.split_whitespace().count()).max();
            assert_eq!(longest, Some(MAX_CHUNK_WORDS));
            let words: Vec<_> = chunks.iter().flat_map(|chunk| chunk.split_whitespace()).collect();
            assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
        }
    }
}
