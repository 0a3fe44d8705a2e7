//! Values as bytes in the files of the cache.
//!
//! The trap: bytes come from a file, so what does not fit is `None`, never a panic; and a change of
//! the form needs another version where the file's form is named.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, Kind, Version};

/// A number stays what it is; a new kind gets the next one.
fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Instructions => 0,
        Kind::Section => 1,
        Kind::Docsets => 2,
        Kind::Entity => 3,
        Kind::Item(ItemKind::Epic) => 4,
        Kind::Item(ItemKind::UserStory) => 5,
        Kind::Item(ItemKind::Requirement) => 6,
        Kind::Item(ItemKind::AcceptanceCriteria) => 7,
        Kind::Deleted => 8,
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
    use super::*;

    #[test]
    fn documents_of_all_kinds_read_back() {
        for kind in Kind::ALL {
            let (id, version) = (DocumentId { kind, name: "a/б".to_owned() }, Version::of(b"1"));
            let mut bytes = Vec::new();
            put_document(&mut bytes, &id, version);
            assert_eq!(Reader(&bytes).document(), Some((id, version)));
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).document(), None);
        }
    }
}
