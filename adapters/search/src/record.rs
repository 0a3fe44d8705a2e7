//! What is stored of an item, as bytes: everything that answers show and a restart needs.
//!
//! The trap: bytes come from a file, so a reading that does not fit is `None`, never a panic; and a
//! change of the form needs another [`VERSION`].

use reqlore_domain::document::{DocumentId, Kind, Version};
use reqlore_domain::search::Item;

use crate::chunk::Hash;

/// An index of another version is built anew.
pub(crate) const VERSION: u32 = 1;

/// An item of a document, or the mark of a document without items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) document: DocumentId,
    pub(crate) version: Version,
    pub(crate) item: Option<Item>,
    pub(crate) chunks: Vec<Hash>,
}

pub(crate) fn encode(
    document: &DocumentId,
    version: Version,
    item: Option<(&Item, &[Hash])>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_document(&mut bytes, document, version);
    if let Some((item, chunks)) = item {
        for text in [&item.reference, &item.kind, &item.title, &item.text] {
            put(&mut bytes, text);
        }
        put_length(&mut bytes, item.tags.len());
        for tag in &item.tags {
            put(&mut bytes, tag);
        }
        put_length(&mut bytes, chunks.len());
        for chunk in chunks {
            bytes.extend_from_slice(chunk);
        }
    }
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
    let mut reader = Reader(bytes);
    let (document, version) = reader.document()?;
    if reader.0.is_empty() {
        return Some(Record { document, version, item: None, chunks: Vec::new() });
    }
    let (reference, kind) = (reader.text()?, reader.text()?);
    let (title, text) = (reader.text()?, reader.text()?);
    let mut tags = Vec::new();
    for _ in 0..reader.length()? {
        tags.push(reader.text()?);
    }
    let mut chunks = Vec::new();
    for _ in 0..reader.length()? {
        chunks.push(reader.take(16)?.try_into().ok()?);
    }
    let item = Some(Item { reference, kind, title, text, tags });
    reader.0.is_empty().then_some(Record { document, version, item, chunks })
}

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Instructions => 0,
        Kind::Section => 1,
        Kind::Docsets => 2,
        Kind::Entity => 3,
    }
}

fn kind_of(byte: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind_byte(*kind) == byte)
}

/// Lengths are 32 bits: a document has at most eight megabytes, so what is longer is cut.
pub(crate) fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

pub(crate) fn put(bytes: &mut Vec<u8>, text: &str) {
    put_length(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_document(bytes: &mut Vec<u8>, document: &DocumentId, version: Version) {
    bytes.push(kind_byte(document.kind));
    put(bytes, &document.name);
    put(bytes, &version.to_string());
}

/// Reads what [`put_document`], [`put`] and [`put_length`] wrote.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn length(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    pub(crate) fn document(&mut self) -> Option<(DocumentId, Version)> {
        let kind = kind_of(*self.take(1)?.first()?)?;
        let id = DocumentId { kind, name: self.text()? };
        Some((id, Version::parse(&self.text()?)?))
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item() -> Item {
        Item {
            reference: "REQ-1".into(),
            kind: "requirement".into(),
            title: "Заголовок".into(),
            text: "a\nb".into(),
            tags: vec!["x".into(), String::new()],
        }
    }

    #[test]
    fn what_was_written_reads_back() {
        let (version, chunks) = (Version::of(b"1"), [[7; 16], [8; 16]]);
        for kind in Kind::ALL {
            let document = DocumentId { kind, name: "a/b".into() };
            let bytes = encode(&document, version, Some((&item(), &chunks)));
            let expected = Record {
                document: document.clone(),
                version,
                item: Some(item()),
                chunks: chunks.to_vec(),
            };
            assert_eq!(decode(&bytes), Some(expected));
            let mark = decode(&encode(&document, version, None)).unwrap();
            assert_eq!((mark.document, mark.item), (document, None));
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_none_or_a_record(bytes: Vec<u8>, cut in 0usize..80) {
            let _ = decode(&bytes);
            let document = DocumentId::section("x");
            let whole = encode(&document, Version::of(b"1"), Some((&item(), &[[7; 16]])));
            if cut > 0 && cut < whole.len() {
                let _ = decode(&whole[..whole.len() - cut]);
            }
        }
    }
}
