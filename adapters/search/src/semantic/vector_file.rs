//! The file of one model's vectors: a first line, then appended records with checksums.
//!
//! A killed process may leave a partial record. Records from the first invalid one on are dropped
//! and computed again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use reqlore_domain::ports::embedder::ModelProfile;

use super::vector_set::{QuantizedVector, VectorSet};
use crate::checksummed_file;
use crate::chunk::ChunkHash;

const HASH_BYTES: usize = 16;
/// A record's bytes besides its numbers: hash, scale, checksum.
const RECORD_OVERHEAD_BYTES: usize = HASH_BYTES + 4 + 4;

/// The file and its unsaved records.
#[derive(Debug)]
pub(crate) struct VectorFile {
    path: PathBuf,
    first_line: String,
    /// True if this process is the writer.
    is_writer: bool,
    unsaved: Vec<u8>,
    /// The file is invalid and must be rewritten.
    must_rewrite: bool,
}

impl VectorFile {
    pub(crate) fn new(folder: &crate::cache_dir::CacheDir, profile: &ModelProfile) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = profile.name.chars().take(64).map(plain).collect();
        let identity = blake3::hash(profile.id.as_bytes()).to_hex();
        Self {
            path: folder.path(&format!("vectors-{name}.bin")),
            first_line: format!("reqlore vectors 1 {} {}\n", identity, profile.dimension),
            is_writer: folder.is_writer(),
            unsaved: Vec::new(),
            must_rewrite: false,
        }
    }

    /// The valid vectors in the file.
    pub(crate) fn load(&mut self, dimension: usize) -> VectorSet {
        let mut vectors = VectorSet::new(dimension);
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %self.path.display(), %error, "vectors can't be read");
                }
                self.must_rewrite = true;
                return vectors;
            }
        };
        let Some(records) = bytes.strip_prefix(self.first_line.as_bytes()) else {
            tracing::info!(path = %self.path.display(), "vectors of another model or version");
            self.must_rewrite = true;
            return vectors;
        };
        let chunks = records.chunks_exact(RECORD_OVERHEAD_BYTES + dimension);
        self.must_rewrite = !chunks.remainder().is_empty();
        for record in chunks {
            let Some((hash, row)) = decode_record(record) else {
                self.must_rewrite = true;
                break;
            };
            vectors.insert(hash, &row);
        }
        if self.must_rewrite {
            tracing::info!(path = %self.path.display(), "a damaged end of the vectors is dropped");
        }
        vectors
    }

    /// Becomes the writer, and adds the vectors of the former one.
    pub(crate) fn take_over(&mut self, vectors: &mut VectorSet, dimension: usize) {
        for (hash, row) in self.load(dimension).iter() {
            vectors.insert(hash, &row);
        }
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
        if !self.is_writer
            || (self.unsaved.is_empty() && (!self.must_rewrite || vectors.len() == 0))
        {
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
            // The next reader drops a partial record.
            let result = File::options().append(true).open(&self.path);
            result.and_then(|mut file| file.write_all(&self.unsaved)).inspect_err(|_| {
                self.must_rewrite = true;
            })?;
        }
        self.unsaved.clear();
        Ok(())
    }
}

fn encode_record(hash: &ChunkHash, row: &QuantizedVector) -> Vec<u8> {
    let mut bytes = hash.to_vec();
    bytes.extend_from_slice(&row.scale.to_le_bytes());
    bytes.extend(row.numbers.iter().map(|number| number.cast_unsigned()));
    let sum = crc32fast::hash(&bytes);
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
