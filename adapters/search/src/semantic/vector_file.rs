//! The file of one model's vectors: a first line, then appended records with checksums.
//!
//! A killed process may leave a partial record. The first invalid record and all after it are
//! dropped and computed again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use reqlore_domain::ports::embedder::ModelProfile;

use super::vector_set::{QuantizedVector, VectorSet};
use crate::cache_dir::CacheDir;
use crate::checksummed_file;
use crate::chunk::ChunkHash;

const HASH_BYTES: usize = 16;
const MAX_NAME_CHARS: usize = 64;
/// Bytes of a record besides its numbers: hash, scale and checksum.
const RECORD_OVERHEAD_BYTES: usize = HASH_BYTES + 4 + 4;

#[derive(Debug)]
pub(crate) struct VectorFile {
    path: PathBuf,
    first_line: String,
    is_writer: bool,
    /// Encoded records that are not in the file yet.
    unsaved: Vec<u8>,
    /// The file is missing or invalid.
    must_rewrite: bool,
}

impl VectorFile {
    pub(crate) fn new(cache_dir: &CacheDir, profile: &ModelProfile) -> Self {
        let mut name = String::new();
        for c in profile.name.chars().take(MAX_NAME_CHARS) {
            // Only characters that are valid in file names.
            name.push(if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' });
        }
        // The ID has no limits on its length and characters, its hash has.
        let identity = blake3::hash(profile.id.as_bytes()).to_hex();
        Self {
            path: cache_dir.path(&format!("vectors-{name}.bin")),
            first_line: format!("reqlore vectors 1 {} {}\n", identity, profile.dimension),
            is_writer: cache_dir.is_writer(),
            unsaved: Vec::new(),
            must_rewrite: false,
        }
    }

    /// Reads the valid vectors of the file.
    pub(crate) fn load(&mut self, dimension: usize) -> VectorSet {
        let mut vectors = VectorSet::new(dimension);
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let path = self.path.display();
                    tracing::warn!(%path, %error, "search cache: cannot read vectors");
                }
                // The first save creates the file.
                self.must_rewrite = true;
                return vectors;
            }
        };
        let Some(records) = bytes.strip_prefix(self.first_line.as_bytes()) else {
            let path = self.path.display();
            tracing::info!(%path, "search cache: vectors of another model are computed again");
            self.must_rewrite = true;
            return vectors;
        };
        let records = records.chunks_exact(RECORD_OVERHEAD_BYTES + dimension);
        self.must_rewrite = !records.remainder().is_empty();
        for record in records {
            let Some((hash, row)) = decode_record(record) else {
                self.must_rewrite = true;
                break;
            };
            vectors.insert(hash, &row);
        }
        if self.must_rewrite {
            let path = self.path.display();
            tracing::info!(%path, "search cache: dropped damaged vectors; they are computed again");
        }
        vectors
    }

    /// Adds the vectors of the file, which its writer may have saved since.
    pub(crate) fn add_saved(&mut self, vectors: &mut VectorSet, dimension: usize) {
        for (hash, row) in self.load(dimension).iter() {
            vectors.insert(hash, &row);
        }
    }

    /// Becomes the writer, and adds the vectors of the former writer.
    pub(crate) fn take_over(&mut self, vectors: &mut VectorSet, dimension: usize) {
        self.add_saved(vectors, dimension);
        // Vectors that this process computed before are not in the file.
        self.is_writer = true;
        self.must_rewrite = true;
    }

    pub(crate) fn push(&mut self, hash: &ChunkHash, row: &QuantizedVector) {
        if self.is_writer {
            self.unsaved.extend(encode_record(hash, row));
        }
    }

    /// The next save rewrites the file.
    pub(crate) fn rewrite_on_save(&mut self) {
        self.must_rewrite = true;
    }

    pub(crate) fn save(&mut self, vectors: &VectorSet) -> io::Result<()> {
        // Without vectors, only an existing file has to change.
        let must_rewrite =
            self.must_rewrite && (vectors.len() > 0 || self.path.symlink_metadata().is_ok());
        if !self.is_writer || (self.unsaved.is_empty() && !must_rewrite) {
            return Ok(());
        }
        if self.must_rewrite {
            let mut bytes = self.first_line.clone().into_bytes();
            for (hash, row) in vectors.iter() {
                bytes.extend(encode_record(&hash, &row));
            }
            checksummed_file::replace_file(&self.path.with_extension("new"), &self.path, &bytes)?;
            self.must_rewrite = false;
        } else {
            // A failed write may leave a partial record, so the next save writes the whole file.
            self.must_rewrite = true;
            File::options().append(true).open(&self.path)?.write_all(&self.unsaved)?;
            self.must_rewrite = false;
        }
        // Frees the memory, unlike `clear`.
        self.unsaved = Vec::new();
        Ok(())
    }
}

fn encode_record(hash: &ChunkHash, row: &QuantizedVector) -> Vec<u8> {
    let mut bytes = hash.to_vec();
    bytes.extend_from_slice(&row.scale.to_le_bytes());
    bytes.extend(row.numbers.iter().map(|number| number.cast_unsigned()));
    let sum = crc32fast::hash(&bytes);
    // A checksum of each record, because appending cannot update one of the file.
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode_record(record: &[u8]) -> Option<(ChunkHash, QuantizedVector)> {
    let (body, sum) = record.split_last_chunk::<4>()?;
    if crc32fast::hash(body).to_le_bytes() != *sum {
        return None;
    }
    let (hash, rest) = body.split_first_chunk::<HASH_BYTES>()?;
    let (scale, numbers) = rest.split_first_chunk::<4>()?;
    let numbers = numbers.iter().map(|byte| byte.cast_signed()).collect();
    Some((*hash, QuantizedVector { scale: f32::from_le_bytes(*scale), numbers }))
}
