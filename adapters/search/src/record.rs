//! What is stored of an item, as bytes: everything that answers show and a restart needs.
//!
//! The trap: bytes come from a file, so a reading that does not fit is `None`, never a panic; and a
//! change of the form needs another [`VERSION`].

use reqlore_domain::document::{DocumentId, Kind, Version};

use crate::chunk::Hash;
use crate::script::Script;

/// An index of another version is built anew.
pub(crate) const VERSION: u32 = 1;

/// An item of a document, or the mark of a document without items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) document: DocumentId,
    pub(crate) version: Version,
    pub(crate) item: Option<Stored<'a>>,
}

/// An item as it is stored; its tags are words only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    pub(crate) reference: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) title: &'a str,
    pub(crate) text: &'a str,
    pub(crate) script: Script,
    pub(crate) chunks: Vec<Hash>,
}

pub(crate) fn encode(document: &DocumentId, version: Version, item: Option<&Stored>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_document(&mut bytes, document, version);
    if let Some(item) = item {
        for text in [item.reference, item.kind, item.title, item.text] {
            put(&mut bytes, text);
        }
        bytes.push(item.script.byte());
        for chunk in &item.chunks {
            bytes.extend_from_slice(chunk);
        }
    }
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Record<'_>> {
    let mut reader = Reader(bytes);
    let (document, version) = reader.document()?;
    if reader.0.is_empty() {
        return Some(Record { document, version, item: None });
    }
    let (reference, kind) = (reader.text()?, reader.text()?);
    let (title, text) = (reader.text()?, reader.text()?);
    let script = Script::from_byte(*reader.take(1)?.first()?)?;
    let (chunks, rest) = reader.0.as_chunks();
    let item = Some(Stored { reference, kind, title, text, script, chunks: chunks.to_vec() });
    rest.is_empty().then_some(Record { document, version, item })
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
        let id = DocumentId { kind, name: self.text()?.to_owned() };
        Some((id, Version::parse(self.text()?)?))
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored() -> Stored<'static> {
        Stored {
            reference: "REQ-1",
            kind: "requirement",
            title: "Заголовок",
            text: "a\nb",
            script: Script::Cyrillic,
            chunks: vec![[7; 16], [8; 16]],
        }
    }

    #[test]
    fn what_was_written_reads_back() {
        let version = Version::of(b"1");
        for kind in Kind::ALL {
            let document = DocumentId { kind, name: "a/b".into() };
            for item in [Some(stored()), None] {
                let bytes = encode(&document, version, item.as_ref());
                let document = document.clone();
                assert_eq!(decode(&bytes), Some(Record { document, version, item }));
            }
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_none_or_a_record(bytes: Vec<u8>, cut in 0usize..80) {
            let _ = decode(&bytes);
            let document = DocumentId::section("x");
            let whole = encode(&document, Version::of(b"1"), Some(&stored()));
            let _ = decode(&whole[..whole.len().saturating_sub(cut)]);
        }
    }
}
