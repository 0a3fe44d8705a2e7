//! A project's folder of cache files, and the one process that writes it.
//!
//! The trap: nothing in here is truth, and nothing is ever mapped into memory: a mapped file that
//! somebody cuts short kills the process, a read one is a checksum that does not fit.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tantivy::Directory;
use tantivy::directory::RamDirectory;

use crate::cache_file::{self, Reader, put, put_length};
use crate::{analyzer, table, words};

const META: &str = "meta.json";
const MANAGED: &str = ".managed.json";
/// How often a reader begins anew because the writer tidied up meanwhile.
const ATTEMPTS: usize = 3;

/// The folder; files of words are kept in a folder of their own below it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as this process writes here.
    lock: Option<File>,
    /// What the manifest lists, with checksums: such files never change.
    written: BTreeMap<String, u32>,
}

impl Folder {
    /// Makes the folder and tries to become its writer. Without being able to write, it is read.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(path.join("words"))?;
        let lock = lock(&path);
        Ok(Self { path, lock, written: BTreeMap::new() })
    }

    /// Becomes the writer if it is not and nobody else is any more; did it just now?
    pub(crate) fn take_over(&mut self) -> bool {
        if self.writes() {
            return false;
        }
        self.lock = lock(&self.path);
        // What is there now is another one's.
        self.written.clear();
        self.writes()
    }

    pub(crate) fn writes(&self) -> bool {
        self.lock.is_some()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What was last saved: words, in memory, and the table that goes with them.
    pub(crate) fn load(&mut self) -> Option<(RamDirectory, Vec<u8>)> {
        for _ in 0..ATTEMPTS {
            let manifest = cache_file::read(&self.path("manifest"), &form())?;
            let (files, table, meta) = parse(&manifest)?;
            if let Some(directory) = self.read_all(&files, &meta) {
                self.written = files;
                return Some((directory, table));
            }
        }
        let path = self.path.display();
        tracing::info!(%path, "the search index is damaged and is built anew");
        None
    }

    fn read_all(&self, files: &BTreeMap<String, u32>, meta: &str) -> Option<RamDirectory> {
        let directory = RamDirectory::create();
        let mut managed = vec![format!("\"{META}\"")];
        for (name, sum) in files {
            let bytes = fs::read(self.path("words").join(name)).ok()?;
            if crc32fast::hash(&bytes) != *sum {
                return None;
            }
            directory.atomic_write(Path::new(name), &bytes).ok()?;
            managed.push(format!("\"{name}\""));
        }
        directory.atomic_write(Path::new(META), meta.as_bytes()).ok()?;
        let managed = format!("[{}]", managed.join(","));
        directory.atomic_write(Path::new(MANAGED), managed.as_bytes()).ok()?;
        Some(directory)
    }

    /// Saves what is committed: new files first, then the manifest that makes them count, then the
    /// old ones go. `false` if the index changed under our hands; another time will do.
    pub(crate) fn save(
        &mut self,
        index: &tantivy::Index,
        directory: &RamDirectory,
        table: &[u8],
    ) -> io::Result<bool> {
        if !self.writes() {
            return Ok(true);
        }
        let meta = directory.atomic_read(Path::new(META)).map_err(io::Error::other)?;
        let candidates = index.load_metas().map_err(io::Error::other)?.list_segment_files();
        let mut files = BTreeMap::new();
        for path in candidates {
            let (Some(name), Ok(slice)) = (path.to_str(), directory.open_read(&path)) else {
                continue;
            };
            let sum = if let Some(sum) = self.written.get(name) {
                *sum
            } else {
                let bytes = slice.read_bytes()?;
                fs::write(self.path("words").join(name), bytes.as_slice())?;
                crc32fast::hash(bytes.as_slice())
            };
            files.insert(name.to_owned(), sum);
        }
        if directory.atomic_read(Path::new(META)).map_err(io::Error::other)? != meta {
            return Ok(false);
        }
        cache_file::write(&self.path("manifest"), &form(), &compose(&files, table, &meta))?;
        self.written = files;
        self.tidy()?;
        Ok(true)
    }

    /// Removes files of words that the manifest does not list.
    fn tidy(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path("words"))? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| self.written.contains_key(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes all words.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.written.clear();
        if !self.writes() {
            return Ok(());
        }
        match fs::remove_file(self.path("manifest")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.tidy(),
        }
    }
}

/// Is there a manifest that this program wrote, and all that it lists?
pub(crate) fn is_whole(folder: &Path) -> bool {
    let manifest = cache_file::read(&folder.join("manifest"), &form());
    let listed = manifest.as_deref().and_then(parse);
    listed.is_some_and(|(files, ..)| {
        files.keys().all(|name| fs::metadata(folder.join("words").join(name)).is_ok())
    })
}

fn lock(folder: &Path) -> Option<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(path);
    file.ok().filter(|file| file.try_lock().is_ok())
}

/// The forms of everything that is kept with words; another one is another index.
fn form() -> String {
    format!("words {}.{}.{}", analyzer::VERSION, table::VERSION, words::VERSION)
}

fn compose(files: &BTreeMap<String, u32>, table: &[u8], meta: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    put_length(&mut body, files.len());
    for (name, sum) in files {
        put(&mut body, name);
        body.extend_from_slice(&sum.to_le_bytes());
    }
    put_length(&mut body, table.len());
    body.extend_from_slice(table);
    body.extend_from_slice(meta);
    body
}

fn parse(body: &[u8]) -> Option<(BTreeMap<String, u32>, Vec<u8>, String)> {
    let mut reader = Reader(body);
    let mut files = BTreeMap::new();
    for _ in 0..reader.length()? {
        let name = reader.text()?;
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
        if !plain || name.starts_with('.') {
            return None;
        }
        let sum = u32::from_le_bytes(reader.take(4)?.try_into().ok()?);
        files.insert(name.to_owned(), sum);
    }
    let length = reader.length()?;
    let table = reader.take(length)?.to_vec();
    let meta = String::from_utf8(reader.0.to_vec()).ok()?;
    Some((files, table, meta))
}
