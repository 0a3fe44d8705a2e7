//! Small checksummed files of the cache, and the encoding of values in them.
//!
//! A damaged file is treated as missing. A change of the encoding needs a new version in the format
//! name, which is the file's first line.

use std::fs;
use std::io;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqlore_domain::document::{DocumentId, DocumentKind, Version};

use crate::private_files;

/// The start of the first line.
const FILE_SIGNATURE: &str = "reqlore search cache";

/// Replaces the file atomically. Without a sync: the checksum detects a torn file.
pub(crate) fn write(path: &Path, format: &str, body: &[u8]) -> io::Result<()> {
    write_and_rename(&path.with_extension("new"), path, format, body)
}

/// Replaces a file that other processes write as well. The last writer wins.
pub(crate) fn write_shared(path: &Path, format: &str, body: &[u8]) -> io::Result<()> {
    static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
    // Two threads of a process must not share a temporary file either.
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.new", process::id()));
    let result = write_and_rename(&temporary, path, format, body);
    if result.is_err() {
        // The first error is the cause.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_and_rename(temporary: &Path, path: &Path, format: &str, body: &[u8]) -> io::Result<()> {
    let mut bytes = format!("{FILE_SIGNATURE} {format}\n").into_bytes();
    bytes.extend_from_slice(body);
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    replace_file(temporary, path, &bytes)
}

/// Writes the bytes to the temporary file and renames it to `path`.
pub(crate) fn replace_file(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Never in place, because another process may be reading the file.
    private_files::write(temporary, bytes)?;
    fs::rename(temporary, path)
}

/// Returns the body of a file of this format; `None` if it is missing, damaged or of another
/// format.
pub(crate) fn read(path: &Path, format: &str) -> Option<Vec<u8>> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "search cache: cannot read a file");
            return None;
        }
    };
    let first_line = format!("{FILE_SIGNATURE} {format}\n");
    if let Some((content, sum)) = bytes.split_last_chunk::<4>()
        && crc32fast::hash(content).to_le_bytes() == *sum
        && content.starts_with(first_line.as_bytes())
    {
        let end = content.len();
        bytes.truncate(end);
        return Some(bytes.split_off(first_line.len()));
    }
    tracing::info!(path = %path.display(), "search cache: a file is damaged or of another version");
    None
}

/// Returns the first bytes of a hash as a number.
pub(crate) fn first_bytes(hash: &blake3::Hash) -> u64 {
    let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

/// Appends a length as 32 bits: a document has at most 8 MB.
pub(crate) fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_length(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_document(bytes: &mut Vec<u8>, document: &DocumentId, version: Version) {
    put_text(bytes, document.kind.name());
    put_text(bytes, &document.name);
    put_text(bytes, &version.to_string());
}

/// Reads values of [`put_document`], [`put_text`] and [`put_length`]; `None` if they do not match.
pub(crate) struct ByteReader<'a>(pub(crate) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        // Checked, because a damaged length must not panic.
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn take_length(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    pub(crate) fn take_document(&mut self) -> Option<(DocumentId, Version)> {
        let kind = DocumentKind::from_name(self.take_text()?)?;
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
    fn documents_of_all_kinds_round_trip() {
        for kind in DocumentKind::ALL {
            let (id, version) =
                (DocumentId { kind, name: "a/б".to_owned() }, Version::of_bytes(b"1"));
            let mut bytes = Vec::new();
            put_document(&mut bytes, &id, version);
            assert_eq!(ByteReader(&bytes).take_document(), Some((id, version)));
            assert_eq!(ByteReader(&bytes[..bytes.len() - 1]).take_document(), None);
        }
    }
}
