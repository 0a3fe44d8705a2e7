//! A project's folder of cache files, which one process writes.
//!
//! Files are read and never mapped: a truncated mapped file would kill the process, a truncated
//! read only fails its checksum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tantivy::Directory;
use tantivy::directory::RamDirectory;

use crate::checksummed_file::{self, ByteReader, put_length, put_text};
use crate::{analyzer, item_table, lexical};

const META_FILE: &str = "meta.json";
const MANAGED_FILE: &str = ".managed.json";
/// Attempts of a reader while a writer removes old files.
const MAX_LOAD_ATTEMPTS: usize = 3;

/// The folder; tantivy's files are in the folder `words` below it.
#[derive(Debug)]
pub(crate) struct CacheDir {
    path: PathBuf,
    /// `None` if another process writes.
    lock: Option<File>,
    /// The files in the manifest with their checksums. They never change.
    saved_files: BTreeMap<String, u32>,
}

impl CacheDir {
    /// Creates the folder and tries to become its writer.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(path.join("words"))?;
        let lock = try_lock(&path);
        Ok(Self { path, lock, saved_files: BTreeMap::new() })
    }

    /// Becomes the writer if there is none. True if it was not before.
    pub(crate) fn take_over(&mut self) -> bool {
        if self.is_writer() {
            return false;
        }
        self.lock = try_lock(&self.path);
        // The files are of the former writer.
        self.saved_files.clear();
        self.is_writer()
    }

    pub(crate) fn is_writer(&self) -> bool {
        self.lock.is_some()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The last saved index, in memory, and its table.
    pub(crate) fn load_index(&mut self) -> Option<(RamDirectory, Vec<u8>)> {
        for _ in 0..MAX_LOAD_ATTEMPTS {
            let manifest = checksummed_file::read(&self.path("manifest"), &manifest_format())?;
            let (files, table, meta) = decode_manifest(&manifest)?;
            if let Some(directory) = self.read_files(&files, &meta) {
                self.saved_files = files;
                return Some((directory, table));
            }
        }
        let path = self.path.display();
        tracing::info!(%path, "the search index is damaged and is built anew");
        None
    }

    fn read_files(&self, files: &BTreeMap<String, u32>, meta: &str) -> Option<RamDirectory> {
        let directory = RamDirectory::create();
        let mut managed = vec![format!("\"{META_FILE}\"")];
        for (name, sum) in files {
            let bytes = fs::read(self.path("words").join(name)).ok()?;
            if crc32fast::hash(&bytes) != *sum {
                return None;
            }
            directory.atomic_write(Path::new(name), &bytes).ok()?;
            managed.push(format!("\"{name}\""));
        }
        directory.atomic_write(Path::new(META_FILE), meta.as_bytes()).ok()?;
        let managed = format!("[{}]", managed.join(","));
        directory.atomic_write(Path::new(MANAGED_FILE), managed.as_bytes()).ok()?;
        Some(directory)
    }

    /// Saves the committed index: new files, then the manifest that lists them, then the removal of
    /// old files. `false` if the index changed meanwhile and must be saved later.
    pub(crate) fn save_index(
        &mut self,
        index: &tantivy::Index,
        directory: &RamDirectory,
        table: &[u8],
    ) -> io::Result<bool> {
        if !self.is_writer() {
            return Ok(true);
        }
        let meta = directory.atomic_read(Path::new(META_FILE)).map_err(io::Error::other)?;
        let candidates = index.load_metas().map_err(io::Error::other)?.list_segment_files();
        let mut files = BTreeMap::new();
        for path in candidates {
            let (Some(name), Ok(slice)) = (path.to_str(), directory.open_read(&path)) else {
                continue;
            };
            let sum = if let Some(sum) = self.saved_files.get(name) {
                *sum
            } else {
                let bytes = slice.read_bytes()?;
                fs::write(self.path("words").join(name), bytes.as_slice())?;
                crc32fast::hash(bytes.as_slice())
            };
            files.insert(name.to_owned(), sum);
        }
        if directory.atomic_read(Path::new(META_FILE)).map_err(io::Error::other)? != meta {
            return Ok(false);
        }
        checksummed_file::write(
            &self.path("manifest"),
            &manifest_format(),
            &encode_manifest(&files, table, &meta),
        )?;
        self.saved_files = files;
        self.remove_unlisted()?;
        Ok(true)
    }

    /// Removes tantivy's files that the manifest does not list.
    fn remove_unlisted(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path("words"))? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| self.saved_files.contains_key(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes the saved index.
    pub(crate) fn clear_index(&mut self) -> io::Result<()> {
        self.saved_files.clear();
        if !self.is_writer() {
            return Ok(());
        }
        match fs::remove_file(self.path("manifest")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.remove_unlisted(),
        }
    }
}

/// True if there is a valid manifest and all files that it lists.
pub(crate) fn has_valid_index(folder: &Path) -> bool {
    let manifest = checksummed_file::read(&folder.join("manifest"), &manifest_format());
    let listed = manifest.as_deref().and_then(decode_manifest);
    listed.is_some_and(|(files, ..)| {
        files.keys().all(|name| fs::metadata(folder.join("words").join(name)).is_ok())
    })
}

fn try_lock(folder: &Path) -> Option<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(path);
    file.ok().filter(|file| file.try_lock().is_ok())
}

/// The versions of all saved parts. An index of another version is rebuilt.
fn manifest_format() -> String {
    format!("words {}.{}.{}", analyzer::VERSION, item_table::VERSION, lexical::VERSION)
}

fn encode_manifest(files: &BTreeMap<String, u32>, table: &[u8], meta: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    put_length(&mut body, files.len());
    for (name, sum) in files {
        put_text(&mut body, name);
        body.extend_from_slice(&sum.to_le_bytes());
    }
    put_length(&mut body, table.len());
    body.extend_from_slice(table);
    body.extend_from_slice(meta);
    body
}

fn decode_manifest(body: &[u8]) -> Option<(BTreeMap<String, u32>, Vec<u8>, String)> {
    let mut reader = ByteReader(body);
    let mut files = BTreeMap::new();
    for _ in 0..reader.take_length()? {
        let name = reader.take_text()?;
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
        if !plain || name.starts_with('.') {
            return None;
        }
        let sum = u32::from_le_bytes(reader.take(4)?.try_into().ok()?);
        files.insert(name.to_owned(), sum);
    }
    let length = reader.take_length()?;
    let table = reader.take(length)?.to_vec();
    let meta = String::from_utf8(reader.0.to_vec()).ok()?;
    Some((files, table, meta))
}
