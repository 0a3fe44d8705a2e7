//! The cache directory of one project. One process is its writer, the other processes keep their
//! index in memory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::Directory;
use tantivy::directory::RamDirectory;

use crate::checksummed_file::first_bytes;
use crate::disk_directory::{ByteCache, DiskDirectory};

/// The folder of tantivy's files.
const INDEX_FOLDER: &str = "index";
const META_FILE: &str = "meta.json";

#[derive(Debug)]
pub(crate) struct CacheDir {
    path: PathBuf,
    /// `None` if another process is the writer.
    lock: Option<File>,
    bytes: Arc<ByteCache>,
}

impl CacheDir {
    /// Creates the directory and tries to become its writer.
    pub(crate) fn open(path: PathBuf, bytes: Arc<ByteCache>) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        let lock = try_lock(&path);
        Ok(Self { path, lock, bytes })
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn open_disk(&self) -> io::Result<DiskDirectory> {
        let folder = self.path(INDEX_FOLDER);
        if !folder.join(META_FILE).try_exists()? {
            remove_folder(&folder)?;
            fs::create_dir(&folder)?;
        }
        Ok(disk_directory(&folder, &self.path, Arc::clone(&self.bytes)))
    }
}

/// Opens the index of a project, in memory if its folder cannot be used.
pub(crate) fn open_directory(cache_dir: Option<&mut CacheDir>) -> Box<dyn Directory> {
    let Some(cache_dir) = cache_dir.filter(|cache_dir| cache_dir.is_writer()) else {
        return Box::new(RamDirectory::create());
    };
    match cache_dir.open_disk() {
        Ok(directory) => Box::new(directory),
        Err(error) => {
            let path = cache_dir.path.display();
            tracing::warn!(%path, %error, "search cache: cannot open; the index is in memory");
            Box::new(RamDirectory::create())
        }
    }
}

/// Removes the index and returns an empty directory.
pub(crate) fn empty_directory(mut cache_dir: Option<&mut CacheDir>) -> Box<dyn Directory> {
    if let Some(cache_dir) = &mut cache_dir
        && cache_dir.is_writer()
        && let Err(error) = remove_folder(&cache_dir.path(INDEX_FOLDER))
    {
        tracing::warn!(%error, "search cache: cannot remove the index; a new one is in memory");
        return Box::new(RamDirectory::create());
    }
    open_directory(cache_dir)
}

/// True if there is a valid list of segments.
pub(crate) fn has_valid_index(project: &Path) -> bool {
    let bytes = Arc::new(ByteCache::new(0));
    let directory = disk_directory(&project.join(INDEX_FOLDER), project, bytes);
    directory.atomic_read(Path::new(META_FILE)).is_ok()
}

/// The name of a project's folder identifies its index.
fn disk_directory(folder: &Path, project: &Path, bytes: Arc<ByteCache>) -> DiskDirectory {
    let name = project.file_name().unwrap_or_default();
    let index_id = first_bytes(&blake3::hash(name.as_encoded_bytes()));
    DiskDirectory::new(folder, index_id, bytes)
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn try_lock(folder: &Path) -> Option<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
    // Never waits.
    file.try_lock().ok()?;
    Some(file)
}
