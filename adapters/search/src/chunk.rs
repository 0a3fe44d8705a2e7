//! Splits texts for embedding models: at headings, and after about 180 words.
//!
//! A chunk begins with its title and headings, which name its subject. Equal chunks of two items
//! share one vector.

use std::ops::Range;

use reqlore_domain::sections::heading;

/// The hash of a chunk's text.
pub(crate) type ChunkHash = [u8; 16];

/// Maximum words of a chunk without its headings: about the input limit of models.
const MAX_CHUNK_WORDS: usize = 180;
/// The rest of a longer item has no vectors.
const MAX_CHUNKS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) hash: ChunkHash,
    /// With title and headings.
    pub(crate) text: String,
    /// Its part of the item's text.
    pub(crate) range: Range<usize>,
}

struct ItemText<'a> {
    title: &'a str,
    text: &'a str,
}

/// The chunks of an item; none if it has neither title nor text.
pub(crate) fn split_item(title: &str, text: &str) -> Vec<Chunk> {
    let item = &ItemText { title: title.trim(), text };
    let mut chunks = Vec::new();
    let mut path: Vec<(usize, &str)> = Vec::new();
    let (mut start, mut at, mut words, mut fenced) = (0, 0, 0, false);
    for line in item.text.split_inclusive('\n') {
        let bare = line.trim();
        fenced ^= bare.starts_with("```") || bare.starts_with("~~~");
        let heading = if fenced { None } else { heading(bare) };
        let count = line.split_whitespace().count();
        if heading.is_some() || words + count > MAX_CHUNK_WORDS {
            push_chunk(&mut chunks, item, &path, start..at);
            (start, words) = (at, 0);
        }
        if let Some((level, name)) = heading {
            path.retain(|(above, _)| *above < level);
            path.push((level, name));
            start = at + line.len();
        } else if count > MAX_CHUNK_WORDS {
            start = split_long_line(&mut chunks, item, &path, at..at + line.len());
            words = item.text[start..at + line.len()].split_whitespace().count();
        } else {
            words += count;
        }
        at += line.len();
    }
    push_chunk(&mut chunks, item, &path, start..at);
    if chunks.is_empty() && !item.title.is_empty() {
        push_any_chunk(&mut chunks, item, &path, 0..0);
    }
    chunks.truncate(MAX_CHUNKS);
    chunks
}

/// Splits a line of many words. Returns the start of its last, unfinished chunk.
fn split_long_line(
    chunks: &mut Vec<Chunk>,
    item: &ItemText,
    path: &[(usize, &str)],
    line: Range<usize>,
) -> usize {
    let (mut start, mut words, mut inside) = (line.start, 0, false);
    for (at, c) in item.text[line.clone()].char_indices() {
        let begins = !c.is_whitespace() && !inside;
        inside = !c.is_whitespace();
        if begins && words == MAX_CHUNK_WORDS {
            push_chunk(chunks, item, path, start..line.start + at);
            (start, words) = (line.start + at, 0);
        }
        words += usize::from(begins);
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
        push_any_chunk(chunks, item, path, range);
    }
}

fn push_any_chunk(
    chunks: &mut Vec<Chunk>,
    item: &ItemText,
    path: &[(usize, &str)],
    range: Range<usize>,
) {
    let mut text = item.title.to_owned();
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
    fn chunks_begin_with_title_and_headings() {
        assert_eq!(texts("", " \n"), Vec::<String>::new());
        assert_eq!(texts("T", ""), ["T\n"]);
        assert_eq!(texts("T", "a\nb\n"), ["T\na\nb"]);
        assert_eq!(
            texts("T", "# T\nintro\n## A\na\n### B\nb\n## C ##\n```\n# code\n```"),
            ["T\nintro", "T — A\na", "T — A — B\nb", "T — C\n```\n# code\n```"]
        );
    }

    #[test]
    fn long_texts_are_cut_between_words() {
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
