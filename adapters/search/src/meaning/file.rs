//! The file of one model's vectors: a first line, then appended records with checksums.
//!
//! A killed process may leave a partial record. Records from the first invalid one on are dropped
//! and computed again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use reqlore_domain::ports::embedder::ModelProfile;

use super::vectors::{Row, Vectors};
use crate::cache_file;
use crate::chunk::Hash;

const HASH: usize = 16;
/// A record's bytes besides its numbers: hash, scale, checksum.
const AROUND: usize = HASH + 4 + 4;

/// The file and its unsaved records.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    first_line: String,
    /// True if this process is the writer.
    writes: bool,
    unsaved: Vec<u8>,
    /// The file is invalid and must be rewritten.
    stale: bool,
}

impl Store {
    pub(crate) fn new(folder: &crate::folder::Folder, profile: &ModelProfile) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = profile.name.chars().take(64).map(plain).collect();
        let identity = blake3::hash(profile.id.as_bytes()).to_hex();
        Self {
            path: folder.path(&format!("vectors-{name}.bin")),
            first_line: format!("reqlore vectors 1 {} {}\n", identity, profile.dimension),
            writes: folder.writes(),
            unsaved: Vec::new(),
            stale: false,
        }
    }

    /// The valid vectors in the file.
    pub(crate) fn load(&mut self, dimension: usize) -> Vectors {
        let mut vectors = Vectors::new(dimension);
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %self.path.display(), %error, "vectors can't be read");
                }
                self.stale = true;
                return vectors;
            }
        };
        let Some(records) = bytes.strip_prefix(self.first_line.as_bytes()) else {
            tracing::info!(path = %self.path.display(), "vectors of another model or version");
            self.stale = true;
            return vectors;
        };
        let chunks = records.chunks_exact(AROUND + dimension);
        self.stale = !chunks.remainder().is_empty();
        for record in chunks {
            let Some((hash, row)) = decode(record) else {
                self.stale = true;
                break;
            };
            vectors.insert(hash, &row);
        }
        if self.stale {
            tracing::info!(path = %self.path.display(), "a damaged end of the vectors is dropped");
        }
        vectors
    }

    /// Becomes the writer, and adds the vectors of the former one.
    pub(crate) fn take_over(&mut self, vectors: &mut Vectors, dimension: usize) {
        for (hash, row) in self.load(dimension).all() {
            vectors.insert(hash, &row);
        }
        self.writes = true;
        self.stale = true;
    }

    pub(crate) fn push(&mut self, hash: &Hash, row: &Row) {
        if self.writes {
            self.unsaved.extend(encode(hash, row));
        }
    }

    /// The next save rewrites the file.
    pub(crate) fn renew(&mut self) {
        self.stale = true;
    }

    pub(crate) fn save(&mut self, vectors: &Vectors) -> io::Result<()> {
        if !self.writes || (self.unsaved.is_empty() && (!self.stale || vectors.len() == 0)) {
            return Ok(());
        }
        if self.stale {
            let mut bytes = self.first_line.clone().into_bytes();
            for (hash, row) in vectors.all() {
                bytes.extend(encode(&hash, &row));
            }
            cache_file::replace(&self.path.with_extension("new"), &self.path, &bytes)?;
            self.stale = false;
        } else {
            // The next reader drops a partial record.
            let result = File::options().append(true).open(&self.path);
            result.and_then(|mut file| file.write_all(&self.unsaved)).inspect_err(|_| {
                self.stale = true;
            })?;
        }
        self.unsaved.clear();
        Ok(())
    }
}

fn encode(hash: &Hash, row: &Row) -> Vec<u8> {
    let mut bytes = hash.to_vec();
    bytes.extend_from_slice(&row.scale.to_le_bytes());
    bytes.extend(row.numbers.iter().map(|number| number.cast_unsigned()));
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(record: &[u8]) -> Option<(Hash, Row)> {
    let (body, sum) = record.split_last_chunk::<4>()?;
    if crc32fast::hash(body).to_le_bytes() != *sum {
        return None;
    }
    let (hash, rest) = body.split_first_chunk::<HASH>()?;
    let (scale, numbers) = rest.split_first_chunk::<4>()?;
    let numbers = numbers.iter().map(|byte| byte.cast_signed()).collect();
    Some((*hash, Row { scale: f32::from_le_bytes(*scale), numbers }))
}
