//! The cache folder of one project: vectors and checkpoints, which all its processes share, and an
//! index folder for each process.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::private_files;

const LOCK_FILE: &str = "lock";
/// The index of version 0.1.0.
const OLD_FOLDER: &str = "words";
const OLD_MANIFEST: &str = "manifest";

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
        let cache_dir = Self { path, lock };
        if cache_dir.is_writer() {
            cache_dir.remove_old();
        }
        Ok(cache_dir)
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

    /// A process of version 0.1.0 would have the lock.
    fn remove_old(&self) {
        let folder = self.path(OLD_FOLDER);
        if let Ok(true) = folder.try_exists() {
            // The next start tries again.
            let _ = fs::remove_dir_all(folder);
            let _ = fs::remove_file(self.path(OLD_MANIFEST));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_of_version_0_1_0_is_removed_when_unused() {
        let project = tempfile::tempdir().unwrap();
        let path = |name| project.path().join(name);
        fs::create_dir(path(OLD_FOLDER)).unwrap();
        fs::write(path(OLD_MANIFEST), "old").unwrap();
        fs::write(path("checkpoints"), "shared").unwrap();
        let old_process = File::create(path(LOCK_FILE)).unwrap();
        old_process.lock().unwrap();
        CacheDir::open(project.path().to_owned()).unwrap();
        assert!(path(OLD_MANIFEST).try_exists().unwrap());
        drop(old_process);
        CacheDir::open(project.path().to_owned()).unwrap();
        assert!(!path(OLD_MANIFEST).try_exists().unwrap());
        assert!(!path(OLD_FOLDER).try_exists().unwrap());
        assert!(path("checkpoints").try_exists().unwrap());
    }
}
