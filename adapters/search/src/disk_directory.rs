//! A tantivy directory on disk that reads ranges of its files through one bounded cache.
//!
//! Files are read and never mapped: truncation of a mapped file kills the process. Each file ends
//! with a trailer that names its index and itself, so that a file of another index is refused.
//! Tantivy's own checksums cover the content of segment files; `meta.json` gets one here.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

use lru::LruCache;
use reqlore_durable_fs as durable_fs;
use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, META_LOCK, OwnedBytes,
    TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use crate::checksummed_file;
use crate::file_trailer::{IndexId, TRAILER_BYTES, damaged_file};
use crate::private_files;

/// Tantivy's list of its files.
pub(crate) const MANAGED_FILE: &str = ".managed.json";
/// Estimated memory of a cache entry besides its range, in bytes.
const ENTRY_BYTES: usize = 160;
/// A range above this share of the budget is not cached, so that it cannot empty the cache.
const MAX_RANGE_SHARE: usize = 8;
/// Bytes that a merge reads at a time.
const MERGE_BLOCK_BYTES: usize = 32 * 1024;

/// LRU cache of byte ranges from the files of all open indexes.
#[derive(Debug)]
pub(crate) struct ByteCache {
    /// Maximum size in bytes.
    budget: usize,
    ranges: Mutex<CachedRanges>,
    next_file: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A range by the number of its file, start and end.
type RangeKey = (u64, usize, usize);

#[derive(Debug)]
struct CachedRanges {
    by_use: LruCache<RangeKey, OwnedBytes>,
    bytes: usize,
}

impl ByteCache {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            budget,
            // Unbounded: `insert` bounds the bytes, not the number of ranges.
            ranges: Mutex::new(CachedRanges { by_use: LruCache::unbounded(), bytes: 0 }),
            next_file: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Numbers of cache hits and misses.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    fn get(&self, key: RangeKey) -> Option<OwnedBytes> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let found = ranges.by_use.get(&key).cloned();
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn insert(&self, key: RangeKey, bytes: &OwnedBytes) {
        let cost = bytes.len() + ENTRY_BYTES;
        if cost > self.budget / MAX_RANGE_SHARE {
            return;
        }
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(replaced) = ranges.by_use.put(key, bytes.clone()) {
            ranges.bytes -= replaced.len() + ENTRY_BYTES;
        }
        ranges.bytes += cost;
        while ranges.bytes > self.budget
            && let Some((_, oldest)) = ranges.by_use.pop_lru()
        {
            ranges.bytes -= oldest.len() + ENTRY_BYTES;
        }
    }
}

/// The files of one index. Clones share them. Its owner locks the folder, so tantivy's own locks,
/// which a killed process leaves behind, are not files.
#[derive(Clone, Debug)]
pub(crate) struct DiskDirectory {
    folder: Arc<Path>,
    cache: Arc<ByteCache>,
    /// Identifies the index in the trailers of its files.
    id: IndexId,
    files: Arc<Mutex<HashMap<PathBuf, KnownFile>>>,
    meta_lock: Arc<MetaLock>,
    is_closed: Arc<AtomicBool>,
}

/// A file that was read before. Reloaded readers reopen it and reuse cached ranges.
#[derive(Debug)]
struct KnownFile {
    /// Its number in the cache.
    number: u64,
    /// Readers and the writer share it.
    opened: Weak<DiskFile>,
}

/// Held while a reader opens the files of `meta.json`, so that none is removed meanwhile, and while
/// unused files are listed.
#[derive(Debug, Default)]
struct MetaLock {
    is_held: Mutex<bool>,
    released: Condvar,
}

struct MetaGuard(Arc<MetaLock>);

impl Drop for MetaGuard {
    fn drop(&mut self) {
        *self.0.is_held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.released.notify_one();
    }
}

impl DiskDirectory {
    pub(crate) fn new(folder: &Path, id: IndexId, cache: Arc<ByteCache>) -> Self {
        Self {
            folder: folder.into(),
            cache,
            id,
            files: Arc::default(),
            meta_lock: Arc::default(),
            is_closed: Arc::default(),
        }
    }

    /// Ends all changes of the folder: a running merge fails at its next write.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn open_file(&self, name: &Path) -> io::Result<Arc<DiskFile>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.get(name);
        if let Some(file) = known.and_then(|known| known.opened.upgrade()) {
            return Ok(file);
        }
        let file = File::open(self.folder.join(name))?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let Some(length) = length.checked_sub(TRAILER_BYTES) else {
            return Err(damaged_file(name));
        };
        let mut name_sum = [0; 4];
        durable_fs::read_exact_at(&file, &mut name_sum, length as u64)?;
        if name_sum != self.id.name_sum(name) {
            return Err(damaged_file(name));
        }
        let number = match known {
            Some(known) => known.number,
            None => self.cache.next_file.fetch_add(1, Ordering::Relaxed),
        };
        let (cache, merge_block) = (Arc::clone(&self.cache), Mutex::new((0, OwnedBytes::empty())));
        let file = Arc::new(DiskFile { file, length, number, cache, merge_block });
        files.insert(name.to_owned(), KnownFile { number, opened: Arc::downgrade(&file) });
        Ok(file)
    }

    /// A name may be reused with other content, a number is never reused.
    fn forget_file(&self, name: &Path) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl Directory for DiskDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        match self.open_file(path) {
            Ok(file) => Ok(file),
            Err(error) => Err(read_error(error, path)),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.forget_file(path);
        let removed =
            check_open(&self.is_closed).and_then(|()| fs::remove_file(self.folder.join(path)));
        removed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.folder.join(path).try_exists().map_err(|error| read_error(error, path))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        self.forget_file(path);
        let target = self.folder.join(path);
        let created = private_files::options().write(true).create_new(true).open(target);
        let file = match created {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(OpenWriteError::FileAlreadyExists(path.to_owned()));
            }
            Err(error) => return Err(OpenWriteError::wrap_io_error(error, path.to_owned())),
        };
        let (name, id, is_closed) = (path.to_owned(), self.id, Arc::clone(&self.is_closed));
        let writer = DiskWriter { file, name, id, is_closed, hasher: crc32fast::Hasher::new() };
        Ok(io::BufWriter::new(Box::new(writer)))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        fs::read(self.folder.join(path))
            .and_then(|bytes| self.id.without_trailer(path, bytes))
            .map_err(|error| read_error(error, path))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        // The next process lists the files of the folder. Tantivy would write the list for each
        // file of a commit.
        if path == Path::new(MANAGED_FILE) {
            return Ok(());
        }
        check_open(&self.is_closed)?;
        let target = self.folder.join(path);
        // One process writes the folder, and tantivy replaces one file at a time.
        let temporary = target.with_extension("new");
        checksummed_file::replace_file(&temporary, &target, &self.id.with_trailer(path, data))
    }

    /// The folder's owner syncs a state that the next process should trust.
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        if lock.filepath != META_LOCK.filepath {
            // There is one writer, and no other process uses the folder.
            return Ok(DirectoryLock::from(Box::new(())));
        }
        let MetaLock { is_held, released } = &*self.meta_lock;
        let held = is_held.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = released.wait_while(held, |is_held| *is_held);
        *waited.unwrap_or_else(PoisonError::into_inner) = true;
        Ok(DirectoryLock::from(Box::new(MetaGuard(Arc::clone(&self.meta_lock)))))
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        // Readers are reloaded after each commit, without a watcher.
        Ok(WatchHandle::empty())
    }
}

fn check_open(is_closed: &AtomicBool) -> io::Result<()> {
    if is_closed.load(Ordering::Relaxed) {
        return Err(io::Error::other("the index is closed"));
    }
    Ok(())
}

fn read_error(error: io::Error, path: &Path) -> OpenReadError {
    match error.kind() {
        io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
        _ => OpenReadError::wrap_io_error(error, path.to_owned()),
    }
}

/// A complete file without its trailer.
#[derive(Debug)]
struct DiskFile {
    file: File,
    length: usize,
    /// Its number in the cache.
    number: u64,
    cache: Arc<ByteCache>,
    /// The last bytes that a merge has read, and their start.
    merge_block: Mutex<(usize, OwnedBytes)>,
}

impl DiskFile {
    fn read_file(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let mut bytes = vec![0; range.len()];
        durable_fs::read_exact_at(&self.file, &mut bytes, range.start as u64)?;
        Ok(OwnedBytes::new(bytes))
    }

    /// A merge reads a file once and in order: a block at a time, and without the cache, which
    /// would lose what searches need.
    fn read_for_merge(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        if range.len() >= MERGE_BLOCK_BYTES {
            return self.read_file(range);
        }
        let mut block = self.merge_block.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, bytes) = &*block;
        if range.start < *start || range.end > start + bytes.len() {
            let end = (range.start + MERGE_BLOCK_BYTES).min(self.length);
            *block = (range.start, self.read_file(range.start..end)?);
        }
        let (start, bytes) = &*block;
        Ok(bytes.slice(range.start - start..range.end - start))
    }
}

impl HasLen for DiskFile {
    fn len(&self) -> usize {
        self.length
    }
}

impl FileHandle for DiskFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        // Tantivy reads offsets from files, which may be damaged.
        if range.start > range.end || range.end > self.length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a range is outside its file"));
        }
        // The name that tantivy gives the thread.
        if thread::current().name().is_some_and(|name| name.starts_with("merge_thread")) {
            return self.read_for_merge(range);
        }
        let key = (self.number, range.start, range.end);
        if let Some(bytes) = self.cache.get(key) {
            return Ok(bytes);
        }
        let bytes = self.read_file(range)?;
        self.cache.insert(key, &bytes);
        Ok(bytes)
    }
}

/// Writes a file and its trailer. Without its trailer a file is damaged.
struct DiskWriter {
    file: File,
    name: PathBuf,
    id: IndexId,
    /// See [`DiskDirectory::close`].
    is_closed: Arc<AtomicBool>,
    /// Of the content.
    hasher: crc32fast::Hasher,
}

impl Write for DiskWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_open(&self.is_closed)?;
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for DiskWriter {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.file.write_all(&self.id.file_trailer(&self.name, self.hasher.clone().finalize()))
    }
}

#[cfg(test)]
mod tests {
    use tantivy::collector::{Count, TopDocs};
    use tantivy::index::IndexSettings;
    use tantivy::query::TermQuery;
    use tantivy::schema::{IndexRecordOption, STRING, Schema};
    use tantivy::{Index, ReloadPolicy, Term, doc};

    use super::*;

    fn directory(folder: &Path, index: u64) -> DiskDirectory {
        let id = IndexId::of_project(Path::new(&index.to_string()));
        DiskDirectory::new(folder, id, Arc::new(ByteCache::new(1 << 20)))
    }

    fn schema() -> Schema {
        let mut builder = Schema::builder();
        builder.add_text_field("word", STRING);
        builder.build()
    }

    /// Adds documents with these words in one commit.
    fn add(index: &Index, words: &[&str]) {
        let word = index.schema().get_field("word").unwrap();
        let mut writer = index.writer_with_num_threads::<tantivy::TantivyDocument>(1, 15_000_000);
        let writer = writer.as_mut().unwrap();
        for text in words {
            writer.add_document(doc!(word => *text)).unwrap();
        }
        writer.commit().unwrap();
    }

    fn count(index: &Index, text: &str) -> tantivy::Result<usize> {
        let word = index.schema().get_field("word")?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let query = TermQuery::new(Term::from_field_text(word, text), IndexRecordOption::Basic);
        let top = TopDocs::with_limit(10).order_by_score();
        let (_, count) = reader.searcher().search(&query, &(top, Count))?;
        Ok(count)
    }

    #[test]
    fn reopened_index_finds_what_was_committed() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::create(directory(folder.path(), 1), schema(), IndexSettings::default());
        let index = index.unwrap();
        add(&index, &["one", "two"]);
        add(&index, &["two"]);
        let reopened = Index::open(directory(folder.path(), 1)).unwrap();
        assert_eq!((count(&reopened, "one").unwrap(), count(&reopened, "two").unwrap()), (1, 2));
        assert!(reopened.validate_checksum().unwrap().is_empty());
    }

    #[test]
    fn file_of_another_index_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::create(directory(folder.path(), 1), schema(), IndexSettings::default());
        add(&index.unwrap(), &["one"]);
        Index::open(directory(folder.path(), 2)).unwrap_err();
    }

    #[test]
    fn file_cut_anywhere_is_refused_or_answers_right() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::create(directory(folder.path(), 1), schema(), IndexSettings::default());
        add(&index.unwrap(), &["one", "two"]);
        for entry in fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            for length in 0..bytes.len() {
                fs::write(&path, &bytes[..length]).unwrap();
                let found =
                    Index::open(directory(folder.path(), 1)).and_then(|index| count(&index, "two"));
                // Tantivy does not read every file for this query.
                assert!(matches!(found, Err(_) | Ok(1)), "{path:?} {length}: {found:?}");
            }
            fs::write(&path, &bytes).unwrap();
        }
    }

    #[test]
    fn file_cut_under_an_open_reader_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let directory = directory(folder.path(), 1);
        let mut writer = directory.open_write(Path::new("file")).unwrap();
        writer.write_all(&[7; 1_000]).unwrap();
        writer.terminate().unwrap();
        let file = directory.get_file_handle(Path::new("file")).unwrap();
        File::options().write(true).open(folder.path().join("file")).unwrap().set_len(10).unwrap();
        assert_eq!(&file.read_bytes(0..10).unwrap()[..], &[7; 10]);
        file.read_bytes(500..600).unwrap_err();
    }

    #[test]
    fn closed_directory_is_not_changed_by_a_merge() {
        let folder = tempfile::tempdir().unwrap();
        let directory = directory(folder.path(), 1);
        let mut writer = directory.open_write(Path::new("file")).unwrap();
        directory.clone().close();
        assert!(writer.write_all(&vec![7; 1 << 20]).is_err());
        directory.atomic_write(Path::new("meta.json"), b"{}").unwrap_err();
        directory.delete(Path::new("file")).unwrap_err();
    }

    #[test]
    fn merge_reads_the_same_bytes_as_a_search() {
        let folder = tempfile::tempdir().unwrap();
        let directory = directory(folder.path(), 1);
        let content: Vec<u8> = (0..=250).cycle().take(3 * MERGE_BLOCK_BYTES).collect();
        let mut writer = directory.open_write(Path::new("file")).unwrap();
        writer.write_all(&content).unwrap();
        writer.terminate().unwrap();
        let read_all = move || {
            let file = directory.get_file_handle(Path::new("file")).unwrap();
            for (start, end) in
                [(0, 9), (5, 40_000), (39_000, 39_999), (0, 90_000), (98_000, 98_304)]
            {
                assert_eq!(&file.read_bytes(start..end).unwrap()[..], &content[start..end]);
            }
            assert!(file.read_bytes(0..1 << 20).is_err());
        };
        thread::Builder::new()
            .name("merge_thread_0".into())
            .spawn(read_all)
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn byte_cache_stays_within_its_budget() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Arc::new(ByteCache::new(64 * 1024));
        let directory = DiskDirectory::new(
            folder.path(),
            IndexId::of_project(folder.path()),
            Arc::clone(&cache),
        );
        let mut writer = directory.open_write(Path::new("file")).unwrap();
        writer.write_all(&vec![7; 1 << 20]).unwrap();
        writer.terminate().unwrap();
        let file = directory.get_file_handle(Path::new("file")).unwrap();
        for start in (0..1 << 20).step_by(4096) {
            file.read_bytes(start..start + 4096).unwrap();
            assert!(cache.ranges.lock().unwrap().bytes <= 64 * 1024);
        }
        file.read_bytes(0..1 << 20).unwrap();
        let misses = cache.counts().1;
        // The last range that fits is still there, although a large one was read after it.
        file.read_bytes((1 << 20) - 4096..1 << 20).unwrap();
        assert_eq!(cache.counts(), (1, misses));
    }
}
