//! The cache directory of one project. One process is its writer, the other processes only read.
//!
//! Files are read and never mapped: a truncated mapped file would kill the process. A truncated
//! file that is read fails its checksum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tantivy::Directory;
use tantivy::directory::RamDirectory;

use crate::checksummed_file::{self, ByteReader, put_length, put_text};
use crate::{analyzer, item_table, lexical};

const MANIFEST_FILE: &str = "manifest";
/// The folder of tantivy's files.
const SEGMENT_FOLDER: &str = "words";
const META_FILE: &str = "meta.json";
const MANAGED_FILE: &str = ".managed.json";
/// A reader tries again because the writer may just have removed old files.
const MAX_LOAD_ATTEMPTS: usize = 3;

#[derive(Debug)]
pub(crate) struct CacheDir {
    path: PathBuf,
    /// `None` if another process is the writer.
    lock: Option<File>,
    /// The checksums of the files in the manifest. These files never change.
    saved_files: BTreeMap<String, u32>,
}

impl CacheDir {
    /// Creates the directory and tries to become its writer.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(path.join(SEGMENT_FOLDER))?;
        let lock = try_lock(&path);
        Ok(Self { path, lock, saved_files: BTreeMap::new() })
    }

    /// Tries to become the writer. True if this process was not the writer before and now is.
    pub(crate) fn take_over(&mut self) -> bool {
        if self.is_writer() {
            return false;
        }
        self.lock = try_lock(&self.path);
        // The former writer may have replaced the files.
        self.saved_files.clear();
        self.is_writer()
    }

    pub(crate) fn is_writer(&self) -> bool {
        self.lock.is_some()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Loads the last saved tantivy index into memory, and the encoded item table.
    pub(crate) fn load_index(&mut self) -> Option<(RamDirectory, Vec<u8>)> {
        for _ in 0..MAX_LOAD_ATTEMPTS {
            let manifest = checksummed_file::read(&self.path(MANIFEST_FILE), &manifest_format())?;
            let (files, table, meta) = decode_manifest(&manifest)?;
            // Fails if the writer has replaced the files since this process read the manifest.
            if let Some(directory) = self.read_files(&files, &meta) {
                self.saved_files = files;
                return Some((directory, table));
            }
        }
        let path = self.path.display();
        tracing::info!(%path, "search index: the saved files are damaged; it is rebuilt");
        None
    }

    fn read_files(&self, files: &BTreeMap<String, u32>, meta: &str) -> Option<RamDirectory> {
        let directory = RamDirectory::create();
        // Tantivy removes only files that this list contains.
        let mut managed = vec![format!("\"{META_FILE}\"")];
        for (name, sum) in files {
            let bytes = fs::read(self.path(SEGMENT_FOLDER).join(name)).ok()?;
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

    /// Saves the committed index: writes new files, then the manifest, then removes old files.
    /// `false` if a merge changed the index meanwhile; then it must be saved again.
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
        // After `meta`, which the comparison below needs as the older state.
        let candidates = index.load_metas().map_err(io::Error::other)?.list_segment_files();
        let mut files = BTreeMap::new();
        for path in candidates {
            // The list has all possible files of a segment; not all of them exist.
            let (Some(name), Ok(slice)) = (path.to_str(), directory.open_read(&path)) else {
                continue;
            };
            // A file with a known checksum is saved and never changes.
            let sum = if let Some(sum) = self.saved_files.get(name) {
                *sum
            } else {
                let bytes = slice.read_bytes()?;
                fs::write(self.path(SEGMENT_FOLDER).join(name), bytes.as_slice())?;
                crc32fast::hash(bytes.as_slice())
            };
            files.insert(name.to_owned(), sum);
        }
        // If a merge has ended meanwhile, the files may be of two states.
        if directory.atomic_read(Path::new(META_FILE)).map_err(io::Error::other)? != meta {
            return Ok(false);
        }
        checksummed_file::write(
            &self.path(MANIFEST_FILE),
            &manifest_format(),
            &encode_manifest(&files, table, &meta),
        )?;
        self.saved_files = files;
        self.remove_unlisted()?;
        Ok(true)
    }

    /// Removes segment files that the manifest does not list.
    fn remove_unlisted(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path(SEGMENT_FOLDER))? {
            let entry = entry?;
            let name = entry.file_name();
            let is_listed = match name.to_str() {
                Some(name) => self.saved_files.contains_key(name),
                None => false,
            };
            if !is_listed {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes the saved index. The manifest goes first, so that it never lists missing files.
    pub(crate) fn clear_index(&mut self) -> io::Result<()> {
        self.saved_files.clear();
        if !self.is_writer() {
            return Ok(());
        }
        match fs::remove_file(self.path(MANIFEST_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.remove_unlisted(),
        }
    }
}

/// True if there is a valid manifest and all files that it lists exist.
pub(crate) fn has_valid_index(folder: &Path) -> bool {
    let Some(manifest) = checksummed_file::read(&folder.join(MANIFEST_FILE), &manifest_format())
    else {
        return false;
    };
    let Some((files, ..)) = decode_manifest(&manifest) else { return false };
    // Existence suffices for a report; loading checks the sums.
    for name in files.keys() {
        if fs::metadata(folder.join(SEGMENT_FOLDER).join(name)).is_err() {
            return false;
        }
    }
    true
}

fn try_lock(folder: &Path) -> Option<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
    // Never waits: without the lock, this process reads the cache and keeps changes in memory.
    file.try_lock().ok()?;
    Some(file)
}

/// Names the versions of all saved parts. An index of another version is rebuilt.
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
        // A name with a separator could leave the folder.
        let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
        if !is_plain || name.starts_with('.') {
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
