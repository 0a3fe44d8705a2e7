//! The index folders of a project: one for each process that has the project open.
//!
//! A process locks its folder, so no process waits for another one. Segment files never change,
//! so a new folder starts with hard links to the files of another one.

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use reqlore_durable_fs as durable_fs;
use tantivy::Directory;
use tantivy::directory::RamDirectory;

use crate::checksummed_file;
use crate::disk_directory::{ByteCache, DiskDirectory, MANAGED_FILE};
use crate::file_trailer::IndexId;
use crate::index_cost::{IndexCost, MEMORY_READERS};
use crate::lock::lock;
use crate::private_files;
use crate::system::OUT_OF_FILES;

pub(crate) const META_FILE: &str = "meta.json";
/// Identifies the last synced commit; see [`IndexFolder::mark_clean`].
const MARKER_FILE: &str = "marker";
const MARKER_FORMAT: &str = "marker 1";
/// The extension of a file that replaces another one when it is complete.
const TEMPORARY_EXTENSION: &str = "new";
pub(crate) const FOLDER_PREFIX: &str = "index-";
pub(crate) const ASIDE_PREFIX: &str = "aside-";
const LOCK_SUFFIX: &str = ".lock";
/// Maximum number of processes with a folder. Further processes keep their index in memory.
const MAX_FOLDERS: usize = 64;
/// A folder that no process has locked for this time is removed.
const UNUSED_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// A copy is repeated if its source changed during the copy.
const MAX_COPY_ATTEMPTS: usize = 3;
/// Free disk space required to create a new index folder after a failure.
const PROBE_BYTES: usize = 1 << 20;

/// Estimated number of open files of a segment.
const FILES_PER_SEGMENT: usize = 7;

/// The locked index folder of this process. The lock ends with the value.
#[derive(Debug)]
pub(crate) struct IndexFolder {
    /// The project's cache folder.
    project: PathBuf,
    /// The format of the index and the number of the folder.
    name: String,
    lock: File,
    id: IndexId,
    state: Mutex<FolderState>,
}

#[derive(Debug, Default)]
struct FolderState {
    /// Segment files that are known to be synced.
    synced: HashSet<PathBuf>,
    /// True until the index that replaces a damaged one is complete.
    is_replacing: bool,
    /// Held while this process builds the index; see [`IndexFolder::lock_build`].
    build_lock: Option<File>,
}

impl IndexFolder {
    /// Locks the first free folder of this format. Fails if the project's folder cannot be
    /// written. The folder has the files of an earlier index or none.
    pub(crate) fn open(project: &Path, format: &str) -> io::Result<Self> {
        private_files::create_folder(project)?;
        for number in 0..MAX_FOLDERS {
            let name = format!("{format}-{number}");
            let Some(lock) = try_lock(project, &name)? else { continue };
            // Its modification time records the last use.
            durable_fs::write_all_at(&lock, b"\n", 0)?;
            let (project, id) = (project.to_owned(), IndexId::of_project(project));
            let folder = Self { project, name, lock, id, state: Mutex::default() };
            if let Err(error) = folder.remove_unused() {
                tracing::info!(%error, "search cache: cannot remove an unused folder");
            }
            folder.prepare(format)?;
            return Ok(folder);
        }
        Err(io::Error::other("too many processes have this project open"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.project.join(format!("{FOLDER_PREFIX}{}", self.name))
    }

    /// Fills a folder without an index with the newest complete one. Lists its files for tantivy.
    fn prepare(&self, format: &str) -> io::Result<()> {
        let path = self.path();
        private_files::create_folder(&path)?;
        if !path.join(META_FILE).try_exists()? {
            // A process was killed while it filled the folder, or a file was removed.
            for attempt in 1..=MAX_COPY_ATTEMPTS {
                clear_folder(&path)?;
                let Some(source) = newest_complete(&self.project, format) else { break };
                let is_copied = link_index(&source, &path);
                match is_copied {
                    Ok(true) => break,
                    Err(error) if is_out_of_files(&error) => return Err(error),
                    _ => {}
                }
                // An empty index is complete later, a folder with missing files never.
                if attempt == MAX_COPY_ATTEMPTS || is_copied.is_err() {
                    clear_folder(&path)?;
                    break;
                }
            }
        }
        let files = segment_files(&path)?;
        // Tantivy removes only files of this list. Listed files that a killed process left behind
        // are removed when the index is opened.
        let mut managed = vec![format!("\"{META_FILE}\"")];
        for file in &files {
            managed.push(format!("\"{}\"", file.display()));
        }
        let managed = format!("[{}]", managed.join(","));
        let managed = self.id.with_trailer(Path::new(MANAGED_FILE), managed.as_bytes());
        let target = path.join(MANAGED_FILE);
        checksummed_file::replace_file(
            &target.with_extension(TEMPORARY_EXTENSION),
            &target,
            &managed,
        )?;
        if self.is_clean() {
            lock(&self.state).synced = files.into_iter().collect();
        }
        Ok(())
    }

    /// True if the committed index is the one that was synced last. Otherwise a power cut may have
    /// damaged it, and all files must be verified before the first answer.
    pub(crate) fn is_clean(&self) -> bool {
        is_marked_clean(&self.path())
    }

    /// Verifies the committed files unless the index is clean, and removes files that a killed
    /// process left behind. Call it before the first read of a segment.
    fn check_files(&self, index: &mut tantivy::Index) -> tantivy::Result<()> {
        let mut files = index.load_metas()?.list_segment_files();
        if !self.is_clean() {
            for file in &files {
                // The list has all possible files of a segment. Tantivy reports missing ones.
                self.verify_file(file)?;
            }
        }
        files.insert(PathBuf::from(META_FILE));
        index.directory_mut().garbage_collect(|| files)?;
        Ok(())
    }

    /// Verifies the content of a file. A file that does not exist is not damaged: it may have been
    /// merged meanwhile.
    pub(crate) fn verify_file(&self, file: &Path) -> io::Result<()> {
        match self.id.verify_file(&self.path(), file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Fails if this process no longer owns the folder, because a user has removed the cache.
    /// Call it before a commit.
    pub(crate) fn check_lock(&self) -> io::Result<()> {
        let path = lock_path(&self.project, &self.name);
        if durable_fs::is_same_file(&self.lock, &path)? {
            return Ok(());
        }
        Err(io::Error::other("the folder was removed"))
    }

    /// Syncs the committed index and marks it as clean, and as complete if it has all documents.
    ///
    /// The marker names one state of the index, so the next commit makes it invalid. Searches and
    /// commits do not wait for it.
    pub(crate) fn mark_clean(&self, is_complete: bool) -> io::Result<()> {
        // The folder must not be set aside meanwhile.
        let mut state = lock(&self.state);
        self.check_lock()?;
        let path = self.path();
        let is_marked_complete = read_marker(&path).is_some_and(|(_, is_complete)| is_complete);
        let is_complete = is_complete || is_marked_complete;
        if self.is_clean() && is_complete == is_marked_complete {
            return Ok(());
        }
        // Before the files: a commit meanwhile must not be marked.
        let meta = fs::read(path.join(META_FILE))?;
        let mut synced = HashSet::new();
        for file in segment_files(&path)? {
            if !state.synced.contains(&file) {
                match durable_fs::open_to_sync(&path.join(&file)) {
                    // A merge has removed it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    opened => opened?.sync_data()?,
                }
            }
            synced.insert(file);
        }
        durable_fs::open_to_sync(&path.join(META_FILE))?.sync_data()?;
        durable_fs::sync_dir(&path)?;
        state.synced = synced;
        // Not synced: without the marker the files are only verified.
        let mut marker = crc32fast::hash(&meta).to_le_bytes().to_vec();
        marker.push(u8::from(is_complete));
        checksummed_file::write(&path.join(MARKER_FILE), MARKER_FORMAT, &marker)?;
        if is_complete {
            remove_folder(&self.aside_path())?;
            state.is_replacing = false;
        }
        Ok(())
    }

    /// Renames the folder of a damaged index and starts an empty one, which is never linked: the
    /// files of other folders may be the same damaged ones. All readers must be closed.
    fn set_aside(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        self.check_lock()?;
        let path = self.path();
        if !path.try_exists()? {
            // It was erased.
            private_files::create_folder(&path)?;
            *state = FolderState::default();
            return Ok(());
        }
        if state.is_replacing {
            return Err(io::Error::other("the new index is damaged as well"));
        }
        self.probe()?;
        // At most one such folder is kept per project.
        for (name, path) in entries(&self.project)? {
            if name.starts_with(ASIDE_PREFIX) {
                remove_folder(&path)?;
            }
        }
        fs::rename(&path, self.aside_path())?;
        private_files::create_folder(&path)?;
        *state = FolderState { is_replacing: true, ..FolderState::default() };
        Ok(())
    }

    /// Locks the build of a project's index, which takes long, until it is complete. False while
    /// another process has the lock.
    pub(crate) fn lock_build(&self, format: &str) -> io::Result<bool> {
        let mut state = lock(&self.state);
        if state.build_lock.is_none() {
            state.build_lock = try_lock(&self.project, &format!("{format}-build"))?;
        }
        Ok(state.build_lock.is_some())
    }

    pub(crate) fn is_build_locked(&self) -> bool {
        lock(&self.state).build_lock.is_some()
    }

    pub(crate) fn unlock_build(&self) {
        lock(&self.state).build_lock = None;
    }

    /// True if another folder has a complete index of this format.
    pub(crate) fn has_source(&self, format: &str) -> bool {
        newest_complete(&self.project, format).is_some_and(|source| source != self.path())
    }

    /// Replaces the folder's index by a copy of a complete one. All readers must be closed.
    pub(crate) fn copy_source(&self, format: &str) -> io::Result<()> {
        clear_folder(&self.path())?;
        self.prepare(format)
    }

    /// Fails if the disk is full or read-only.
    fn probe(&self) -> io::Result<()> {
        let probe = self.path().join("probe.new");
        let result = private_files::write(&probe, &vec![0; PROBE_BYTES]);
        // The first error is the cause.
        let _ = fs::remove_file(&probe);
        result
    }

    fn aside_path(&self) -> PathBuf {
        self.project.join(format!("{ASIDE_PREFIX}{}", self.name))
    }

    /// Removes folders that no process has locked for a week, of all formats.
    fn remove_unused(&self) -> io::Result<()> {
        // The clock of the file system, which may be another computer's.
        let now = self.lock.metadata()?.modified()?;
        for (file, path) in entries(&self.project)? {
            let Some(name) = file.strip_suffix(LOCK_SUFFIX) else { continue };
            if name == self.name || !is_older(&path, now, UNUSED_AGE)? {
                continue;
            }
            // The lock file stays: a process that has just opened it would lock a removed file.
            if let Some(_lock) = try_lock(&self.project, name)? {
                remove_folder(&self.project.join(format!("{FOLDER_PREFIX}{name}")))?;
                remove_folder(&self.project.join(format!("{ASIDE_PREFIX}{name}")))?;
            }
        }
        Ok(())
    }
}

/// The location of an index: the folder of this process, or memory if there is none.
#[derive(Debug)]
pub(crate) enum IndexLocation {
    /// Shared with the thread that verifies and syncs it.
    Folder(Arc<IndexFolder>),
    Memory(RamDirectory),
}

impl IndexLocation {
    pub(crate) fn in_memory() -> Self {
        Self::Memory(RamDirectory::create())
    }

    /// Opens the index folder of the project. Without a writable one, copies the newest complete
    /// index into memory if it has at most `max_memory` bytes. Fails without a file descriptor.
    pub(crate) fn open(
        project: Option<&Path>,
        format: &str,
        max_memory: usize,
    ) -> io::Result<Self> {
        let Some(project) = project else { return Ok(Self::in_memory()) };
        match IndexFolder::open(project, format) {
            Ok(folder) => Ok(Self::Folder(Arc::new(folder))),
            Err(error) if is_out_of_files(&error) => Err(error),
            Err(error) => Ok(Self::copy_to_memory(project, format, max_memory, &error)),
        }
    }

    /// Replaces an index that is damaged or cannot be written. All readers must be closed. The
    /// new one is empty, or has the last state that was saved.
    pub(crate) fn replace(&mut self, format: &str, max_memory: usize, cause: &dyn fmt::Display) {
        let Self::Folder(folder) = self else {
            *self = Self::in_memory();
            return;
        };
        match folder.set_aside() {
            Ok(()) => {
                let (path, cause) = (folder.path(), cause.to_string());
                let message = "search index: damaged; rebuilding it";
                tracing::info!(path = %path.display(), cause, message);
            }
            Err(error) => {
                let project = folder.project.clone();
                *self = Self::copy_to_memory(&project, format, max_memory, &error);
            }
        }
    }

    /// The cost of an open index with this number of segments.
    pub(crate) fn cost(&self, segments: usize) -> IndexCost {
        match self {
            Self::Folder(_) => IndexCost {
                files: 1 + FILES_PER_SEGMENT * segments,
                readers: 1,
                ..IndexCost::default()
            },
            Self::Memory(_) => IndexCost { readers: MEMORY_READERS, ..IndexCost::default() },
        }
    }

    /// The directory for tantivy, and the same one to close it. One in memory needs no end.
    pub(crate) fn directory(
        &self,
        cache: &Arc<ByteCache>,
    ) -> (Box<dyn Directory>, Option<DiskDirectory>) {
        match self {
            Self::Folder(folder) => {
                let directory = DiskDirectory::new(&folder.path(), folder.id, Arc::clone(cache));
                (Box::new(directory.clone()), Some(directory))
            }
            Self::Memory(directory) => (Box::new(directory.clone()), None),
        }
    }

    /// Makes sure that the files of an opened index may be read. Fails if one is damaged.
    pub(crate) fn check_files(&self, index: &mut tantivy::Index) -> tantivy::Result<()> {
        match self {
            Self::Folder(folder) => folder.check_files(index),
            Self::Memory(_) => Ok(()),
        }
    }

    /// Size of the files on disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.folder().map_or(0, |folder| folder_bytes(&folder.path()).unwrap_or_default())
    }

    pub(crate) fn folder(&self) -> Option<&Arc<IndexFolder>> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Memory(_) => None,
        }
    }

    fn copy_to_memory(project: &Path, format: &str, max_memory: usize, cause: &io::Error) -> Self {
        let message = "search cache: cannot be written; the index is in memory";
        tracing::warn!(path = %project.display(), error = %cause, message);
        let source = newest_complete(project, format);
        let copy = source
            .and_then(|source| copy_to_memory(&source, IndexId::of_project(project), max_memory));
        Self::Memory(copy.unwrap_or_default())
    }
}

/// True if there was no free file descriptor. Then nothing is damaged.
pub(crate) fn is_out_of_files(error: &dyn fmt::Debug) -> bool {
    // Tantivy wraps the error at several depths.
    let error = format!("{error:?}");
    OUT_OF_FILES.iter().any(|code| error.contains(&format!("code: {code},")))
}

/// Takes the lock of a folder. `None` if another process has it.
fn try_lock(project: &Path, name: &str) -> io::Result<Option<File>> {
    let path = lock_path(project, name);
    let lock = private_files::options().create(true).truncate(false).write(true).open(path)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Locks are next to the folders, so that they stay while a folder is set aside or removed.
fn lock_path(project: &Path, name: &str) -> PathBuf {
    project.join(format!("{name}{LOCK_SUFFIX}"))
}

/// Returns the folder of this format whose complete index was committed last.
fn newest_complete(project: &Path, format: &str) -> Option<PathBuf> {
    let prefix = format!("{FOLDER_PREFIX}{format}-");
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for (name, path) in entries(project).ok()? {
        if !name.starts_with(&prefix) || !read_marker(&path).is_some_and(|(_, complete)| complete) {
            continue;
        }
        let Ok(meta) = fs::metadata(path.join(META_FILE)) else { continue };
        let committed = meta.modified().ok()?;
        if newest.as_ref().is_none_or(|(time, _)| committed > *time) {
            newest = Some((committed, path));
        }
    }
    newest.map(|(_, path)| path)
}

/// Returns the size of the newest complete index in bytes; `None` if there is none or its list of
/// files is damaged.
pub(crate) fn inspect_size(project: &Path, format: &str) -> Option<u64> {
    let folder = newest_complete(project, format)?;
    let meta = fs::read(folder.join(META_FILE)).ok()?;
    IndexId::of_project(project).without_trailer(Path::new(META_FILE), meta).ok()?;
    folder_bytes(&folder).ok()
}

/// Returns the size of the files in an index folder.
pub(crate) fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut size = 0;
    for (_, path) in entries(folder)? {
        // A running process may just have removed it.
        size += fs::metadata(path).map_or(0, |file| file.len());
    }
    Ok(size)
}

/// Links the files of an index that another process may modify. False if it was modified.
fn link_index(source: &Path, target: &Path) -> io::Result<bool> {
    // Before the files: tantivy removes files only after it has replaced this one.
    let meta = fs::read(source.join(META_FILE))?;
    for file in segment_files(source)? {
        let (from, to) = (source.join(&file), target.join(&file));
        let linked = match fs::hard_link(&from, &to) {
            // Some file systems have no links.
            Err(error) if error.kind() != io::ErrorKind::NotFound => fs::copy(&from, &to).map(drop),
            linked => linked,
        };
        match linked {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Removed by a merge, or of a commit that has not ended.
            _ => {}
        }
    }
    let marker = fs::read(source.join(MARKER_FILE))?;
    private_files::write(&target.join(MARKER_FILE), &marker)?;
    if fs::read(source.join(META_FILE))? != meta {
        return Ok(false);
    }
    // Last, because it makes the index complete.
    let path = target.join(META_FILE);
    checksummed_file::replace_file(&path.with_extension(TEMPORARY_EXTENSION), &path, &meta)?;
    Ok(true)
}

/// Copies an index into memory without its trailers; `None` if it is too large or damaged.
fn copy_to_memory(source: &Path, id: IndexId, max_bytes: usize) -> Option<RamDirectory> {
    let meta = fs::read(source.join(META_FILE)).ok()?;
    let directory = RamDirectory::create();
    let mut left = max_bytes;
    let mut managed = vec![format!("\"{META_FILE}\"")];
    for file in segment_files(source).ok()? {
        let length = fs::metadata(source.join(&file)).ok()?.len();
        left = left.checked_sub(usize::try_from(length).ok()?)?;
        // An incomplete file is not part of a commit.
        let Ok(content) = id.without_trailer(&file, fs::read(source.join(&file)).ok()?) else {
            continue;
        };
        directory.atomic_write(&file, &content).ok()?;
        managed.push(format!("\"{}\"", file.display()));
    }
    let managed = format!("[{}]", managed.join(","));
    directory.atomic_write(Path::new(MANAGED_FILE), managed.as_bytes()).ok()?;
    if fs::read(source.join(META_FILE)).ok()? != meta {
        return None;
    }
    let meta_file = Path::new(META_FILE);
    directory.atomic_write(meta_file, &id.without_trailer(meta_file, meta).ok()?).ok()?;
    Some(directory)
}

/// True if the marker names the committed state.
fn is_marked_clean(folder: &Path) -> bool {
    let Ok(meta) = fs::read(folder.join(META_FILE)) else { return false };
    read_marker(folder).is_some_and(|(sum, _)| sum == crc32fast::hash(&meta))
}

/// Returns the checksum of the marked state and whether the index has been complete.
fn read_marker(folder: &Path) -> Option<(u32, bool)> {
    let marker = checksummed_file::read(&folder.join(MARKER_FILE), MARKER_FORMAT)?;
    let (sum, is_complete) = marker.split_first_chunk()?;
    Some((u32::from_le_bytes(*sum), *is_complete == [1]))
}

/// Returns the names of the files that never change once they are written.
fn segment_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, _) in entries(folder)? {
        // Other names would need escapes in the JSON list.
        let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
        let is_other = name.starts_with('.') || name == META_FILE || name == MARKER_FILE;
        let file = PathBuf::from(name);
        let is_temporary = file.extension().is_some_and(|end| end == TEMPORARY_EXTENSION);
        if is_plain && !is_other && !is_temporary {
            files.push(file);
        }
    }
    Ok(files)
}

/// Names and paths in a folder. Skips names that are not Unicode, which Reqlore never writes.
pub(crate) fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string() {
            entries.push((name, entry.path()));
        }
    }
    Ok(entries)
}

fn is_older(file: &Path, now: SystemTime, age: Duration) -> io::Result<bool> {
    let modified = fs::metadata(file)?.modified()?;
    // A time in the future is not old.
    Ok(now.duration_since(modified).is_ok_and(|unused| unused > age))
}

fn clear_folder(folder: &Path) -> io::Result<()> {
    remove_folder(folder)?;
    private_files::create_folder(folder)
}

pub(crate) fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
