//! Small checksummed files of the cache, written whole, and the encoding of values in them.
//!
//! A file may be torn after a power failure; then it counts as absent. A change of the encoding
//! needs another version where the form of the file is named.

use std::fs;
use std::io;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};

/// The start of every file.
const FILE_SIGNATURE: &str = "reqlore search cache";

/// Replaces the file atomically, without a sync.
pub(crate) fn write(path: &Path, form: &str, body: &[u8]) -> io::Result<()> {
    write_and_rename(&path.with_extension("new"), path, form, body)
}

/// The same for a file that other processes write as well. The last writer wins.
pub(crate) fn write_shared(path: &Path, form: &str, body: &[u8]) -> io::Result<()> {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{number}.new", process::id()));
    write_and_rename(&beside, path, form, body).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

fn write_and_rename(beside: &Path, path: &Path, form: &str, body: &[u8]) -> io::Result<()> {
    let mut bytes = format!("{FILE_SIGNATURE} {form}\n").into_bytes();
    bytes.extend_from_slice(body);
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    replace_file(beside, path, &bytes)
}

/// Writes the bytes to `beside` and moves it to `path`.
pub(crate) fn replace_file(beside: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(beside, bytes)?;
    fs::rename(beside, path)
}

/// The body of a file of this form. `None` if the file is missing, old or damaged.
pub(crate) fn read(path: &Path, form: &str) -> Option<Vec<u8>> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "a file of the search cache can't be read");
            return None;
        }
    };
    let body = bytes
        .len()
        .checked_sub(4)
        .filter(|end| bytes[*end..] == crc32fast::hash(&bytes[..*end]).to_le_bytes());
    let first_line = format!("{FILE_SIGNATURE} {form}\n");
    match body {
        Some(end) if bytes[..end].starts_with(first_line.as_bytes()) => {
            bytes.truncate(end);
            Some(bytes.split_off(first_line.len()))
        }
        _ => {
            tracing::info!(path = %path.display(), "a file of the search cache is old or damaged");
            None
        }
    }
}

/// A number never changes; a new kind gets the next one.
fn kind_byte(kind: DocumentKind) -> u8 {
    match kind {
        DocumentKind::Instructions => 0,
        DocumentKind::Section => 1,
        DocumentKind::Docsets => 2,
        DocumentKind::Entity => 3,
        DocumentKind::Item(ItemKind::Epic) => 4,
        DocumentKind::Item(ItemKind::UserStory) => 5,
        DocumentKind::Item(ItemKind::Requirement) => 6,
        DocumentKind::Item(ItemKind::AcceptanceCriteria) => 7,
        DocumentKind::Deleted => 8,
    }
}

fn kind_from_byte(byte: u8) -> Option<DocumentKind> {
    DocumentKind::ALL.into_iter().find(|kind| kind_byte(*kind) == byte)
}

/// A document has at most eight megabytes, so 32 bits suffice.
pub(crate) fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_length(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_document(bytes: &mut Vec<u8>, document: &DocumentId, version: Version) {
    bytes.push(kind_byte(document.kind));
    put_text(bytes, &document.name);
    put_text(bytes, &version.to_string());
}

/// Reads [`put_document`], [`put`] and [`put_length`]. A mismatch is `None`: the bytes come from a
/// file.
pub(crate) struct ByteReader<'a>(pub(crate) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn take_length(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    pub(crate) fn take_document(&mut self) -> Option<(DocumentId, Version)> {
        let kind = kind_from_byte(*self.take(1)?.first()?)?;
        let id = DocumentId { kind, name: self.take_text()?.to_owned() };
        Some((id, Version::parse(self.take_text()?)?))
    }

    pub(crate) fn take_text(&mut self) -> Option<&'a str> {
        let length = self.take_length()?;
        str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_all_kinds_read_back() {
        for kind in DocumentKind::ALL {
            let (id, version) = (DocumentId { kind, name: "a/б".to_owned() }, Version::of(b"1"));
            let mut bytes = Vec::new();
            put_document(&mut bytes, &id, version);
            assert_eq!(ByteReader(&bytes).take_document(), Some((id, version)));
            assert_eq!(ByteReader(&bytes[..bytes.len() - 1]).take_document(), None);
        }
    }
}
