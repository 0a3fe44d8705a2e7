//! The cache folder of one project: vectors and checkpoints, which all its processes share, and an
//! index folder for each process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use reqlore_domain::project_key::ProjectKey;

use crate::private_files;

const LOCK_FILE: &str = "lock";

#[derive(Debug)]
pub(crate) struct CacheDir {
    path: PathBuf,
    /// `None` if another process writes the vectors.
    lock: Option<File>,
}

impl CacheDir {
    /// Creates the folder and tries to become the writer of its vectors.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        private_files::create_folder(&path)?;
        let lock = try_lock(&path);
        Ok(Self { path, lock })
    }

    /// Tries to become the writer. True if this process was not the writer before and now is.
    pub(crate) fn take_over(&mut self) -> bool {
        if self.is_writer() {
            return false;
        }
        self.lock = try_lock(&self.path);
        self.is_writer()
    }

    pub(crate) fn is_writer(&self) -> bool {
        self.lock.is_some()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn try_lock(folder: &Path) -> Option<File> {
    let path = folder.join(LOCK_FILE);
    let options = &mut private_files::options();
    let file = options.create(true).truncate(false).write(true).open(path).ok()?;
    // Never waits: without the lock, this process keeps new vectors in memory.
    file.try_lock().ok()?;
    Some(file)
}

/// Returns the name of a project's cache directory. A folder of documents has one cache, both as a
/// key that is a path and as the default project of its store.
pub(crate) fn cache_dir_name(store: &str, key: &ProjectKey) -> String {
    let mut name = blake3::Hasher::new();
    if key.is_default() {
        name.update(store.as_bytes());
    } else if key.as_str().starts_with('/') {
        name.update(key.as_str().as_bytes());
    } else {
        // The NUL keeps different pairs of store and key from the same name.
        name.update(store.as_bytes()).update(b"\0").update(key.as_str().as_bytes());
    }
    // 128 bits are enough to tell stores and keys apart.
    name.finalize().to_hex()[..32].to_owned()
}
