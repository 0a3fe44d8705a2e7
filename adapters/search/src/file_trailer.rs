//! The trailer of each index file: a checksum of index and file name, and one of the content.
//!
//! Opening a file of another project, a renamed file or a truncated file fails the first checksum.
//! The second one detects any other damage, independently of tantivy's formats.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(crate) const TRAILER_BYTES: usize = 8;
const BUFFER_BYTES: usize = 128 * 1024;

/// Identifies a project's index in the trailers of its files. All folders of a project have the
/// same, so that a file may be linked from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexId([u8; 32]);

impl IndexId {
    /// Takes the name of the project's cache folder, which is unique.
    pub(crate) fn of_project(folder: &Path) -> Self {
        let name = folder.file_name().unwrap_or_default();
        Self(*blake3::hash(name.as_encoded_bytes()).as_bytes())
    }

    /// Returns the first half of the trailer, which is verified when a file is opened.
    pub(crate) fn name_sum(self, name: &Path) -> [u8; 4] {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.0);
        hasher.update(name.as_os_str().as_encoded_bytes());
        hasher.finalize().to_le_bytes()
    }

    pub(crate) fn file_trailer(self, name: &Path, content_sum: u32) -> [u8; TRAILER_BYTES] {
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..4].copy_from_slice(&self.name_sum(name));
        trailer[4..].copy_from_slice(&content_sum.to_le_bytes());
        trailer
    }

    /// Appends the trailer to the content of a small file.
    pub(crate) fn with_trailer(self, name: &Path, content: &[u8]) -> Vec<u8> {
        let mut bytes = content.to_vec();
        bytes.extend_from_slice(&self.file_trailer(name, crc32fast::hash(content)));
        bytes
    }

    /// Removes the trailer of a file that was read whole. Fails if the file is damaged.
    pub(crate) fn without_trailer(self, name: &Path, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let Some((content, trailer)) = bytes.split_last_chunk() else {
            return Err(damaged_file(name));
        };
        if *trailer != self.file_trailer(name, crc32fast::hash(content)) {
            return Err(damaged_file(name));
        }
        let length = content.len();
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Verifies a whole file in constant memory.
    pub(crate) fn verify_file(self, folder: &Path, name: &Path) -> io::Result<()> {
        let mut file = File::open(folder.join(name))?;
        let Some(mut left) = file.metadata()?.len().checked_sub(TRAILER_BYTES as u64) else {
            return Err(damaged_file(name));
        };
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
            file.read_exact(&mut buffer[..length])?;
            hasher.update(&buffer[..length]);
            left -= length as u64;
        }
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact(&mut trailer)?;
        if trailer != self.file_trailer(name, hasher.finalize()) {
            return Err(damaged_file(name));
        }
        Ok(())
    }
}

pub(crate) fn damaged_file(name: &Path) -> io::Error {
    let message = format!("{} is damaged or of another index", name.display());
    io::Error::new(io::ErrorKind::InvalidData, message)
}
