//! Watches the folders of an area with inotify, so that a call need not inspect every file.
//!
//! The queue is drained before each query, and the kernel queues an event before the write that
//! caused it returns. So no change before a call is missed. If the kernel may miss changes
//! (overflow, network file systems, no watches left, new and removed folders) the result is
//! [`WatchEvents::Invalidated`], and the caller scans the area.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use reqlore_domain::document::{DocumentId, DocumentKind};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;

use crate::layout::{DocumentArea, ProjectRoot};
use crate::list_files::ListedFolder;
use crate::metadata_index::watch_state::WatchEvents;
use crate::unread_files;

/// Magic numbers of local file systems: ext, XFS, Btrfs, F2FS, bcachefs, ZFS, JFS, tmpfs, ramfs,
/// overlay, FAT, exFAT, NTFS. On a shared one, a change by another machine causes no event.
const LOCAL_FILE_SYSTEMS: [i64; 13] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0xCA45_1A4E,
    0x2FC1_2FC1,
    0x3153_464A,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
    0x4D44,
    0x2011_BAB0,
    0x7366_746E,
];

/// With more changed files a scan is faster.
const MAX_CHANGED: usize = 1_000;

/// Device and inode.
type FileId = (u64, u64);

/// Watches an area's top folder, all document folders in it, and the project's root, where the top
/// folder or its parent may be created and removed.
#[derive(Debug)]
pub(crate) struct TreeWatcher {
    queue: OwnedFd,
    /// The root's path and the identity of the folder that was opened there.
    root: (PathBuf, FileId),
    /// The path of the area's top folder, and the file or folder at that path.
    top: (PathBuf, Option<(FileId, FileType)>),
    /// The name in the root on the path to the top folder.
    entry_in_root: &'static str,
    /// Watched folders by watch descriptor: their documents' kind and name prefix.
    folders: HashMap<i32, (Option<DocumentKind>, String)>,
    root_watch: i32,
    /// A folder could not be watched.
    is_incomplete: bool,
}

impl TreeWatcher {
    /// Starts to watch the root; folders are added while they are listed. `None` if inotify is not
    /// usable here.
    pub(crate) fn start(root: &ProjectRoot, path: &Path, area: DocumentArea) -> Option<Self> {
        if !is_local(&root.dir) {
            return None;
        }
        let root_identity = folder_id(&root.dir)?;
        let top = path.join(area.top_folder());
        let top_stat = stat_path(&top);
        // Changes of a link's target cause no event.
        if let Some((_, FileType::Symlink)) = top_stat {
            return None;
        }
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let folder = reqlore_local_state::as_file(&root.dir).ok()?;
        let root_watch = inotify::add_watch(&queue, proc_path(&folder), folder_events()).ok()?;
        Some(Self {
            queue,
            root: (path.to_owned(), root_identity),
            top: (top, top_stat),
            entry_in_root: area.top_folder().split('/').next().unwrap_or_default(),
            folders: HashMap::new(),
            root_watch,
            is_incomplete: false,
        })
    }

    /// Adds a folder. Must be called before the folder is listed, so that no change is missed.
    pub(crate) fn add_folder(&mut self, handle: &OwnedFd, folder: &ListedFolder<'_>) {
        if folder.is_top {
            // The folder may have been created or replaced since `start` inspected its path.
            self.top.1 = folder_id(handle).map(|identity| (identity, FileType::Directory));
            self.is_incomplete |= stat_path(&self.top.0) != self.top.1;
        }
        // Another file system may be mounted inside the project.
        if self.is_incomplete || !is_local(handle) {
            self.is_incomplete = true;
            return;
        }
        // Both, because a program may keep a file open between its writes.
        let events = folder_events() | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        match inotify::add_watch(&self.queue, proc_path(handle), events) {
            Ok(watch) => {
                let documents = (folder.kind, folder.name_prefix.to_owned());
                let other = self.folders.insert(watch, documents.clone());
                // A folder that is mounted in two places has one watch, so one place gets no event.
                self.is_incomplete = other.is_some_and(|other| other != documents);
            }
            // For example, the user's limit of inotify watches is reached.
            Err(_) => self.is_incomplete = true,
        }
    }

    /// True if all folders that were added are watched.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Drains the event queue. After `Invalidated` the watcher must be dropped.
    pub(crate) fn drain_events(&mut self) -> WatchEvents {
        // A replaced folder, or one whose parent was moved, causes no event here.
        let (root, top) = (target_folder_id(&self.root.0), stat_path(&self.top.0));
        if self.is_incomplete || root != Some(self.root.1) || top != self.top.1 {
            return WatchEvents::Invalidated;
        }
        let mut changed = BTreeSet::new();
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                // The queue is empty.
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => return WatchEvents::Invalidated,
            };
            let name = event.file_name().map(|name| name.to_str());
            let invalidating = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::IGNORED
                | ReadFlags::UNMOUNT
                | ReadFlags::QUEUE_OVERFLOW;
            if event.events().intersects(invalidating) {
                return WatchEvents::Invalidated;
            }
            // The access rights of a watched folder itself changed.
            if event.events().contains(ReadFlags::ATTRIB) && name.is_none() {
                return WatchEvents::Invalidated;
            }
            // In the root only the path to the top folder matters.
            if event.wd() == self.root_watch {
                if name == Some(Ok(self.entry_in_root)) {
                    return WatchEvents::Invalidated;
                }
                continue;
            }
            let Some(Ok(name)) = name else { continue };
            let Some((kind, folder)) = self.folders.get(&event.wd()) else { continue };
            // Hidden files are not documents.
            if name.starts_with('.') {
                continue;
            }
            // The content of a new or removed folder causes no events.
            if event.events().contains(ReadFlags::ISDIR) {
                return WatchEvents::Invalidated;
            }
            match (*kind, name.strip_suffix(".md")) {
                (Some(kind), Some(stem)) => {
                    changed.insert(DocumentId { kind, name: format!("{folder}{stem}") });
                }
                // The next listing reports the file or no longer reports it.
                (kind, _) if unread_files::may_be_reported(kind, name) => {
                    return WatchEvents::Invalidated;
                }
                _ => {}
            }
            if changed.len() > MAX_CHANGED {
                return WatchEvents::Invalidated;
            }
        }
        if changed.is_empty() { WatchEvents::None } else { WatchEvents::Changed(changed) }
    }
}

/// Events of created and removed names in a folder, and of the folder itself.
fn folder_events() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
}

/// The path of an open folder, which no rename can redirect.
fn proc_path(folder: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())
}

/// Identifies the folder at a path; follows links.
fn target_folder_id(path: &Path) -> Option<FileId> {
    id_of_folder_stat(&rustix::fs::statat(CWD, path, AtFlags::empty()).ok()?)
}

/// Identifies the file, folder or link at a path; follows no link at its end.
fn stat_path(path: &Path) -> Option<(FileId, FileType)> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(((stat.st_dev, stat.st_ino), FileType::from_raw_mode(stat.st_mode)))
}

fn folder_id(folder: impl AsFd) -> Option<FileId> {
    id_of_folder_stat(&rustix::fs::fstat(folder).ok()?)
}

fn id_of_folder_stat(stat: &Stat) -> Option<FileId> {
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    is_folder.then_some((stat.st_dev, stat.st_ino))
}

fn is_local(folder: impl AsFd) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|system| LOCAL_FILE_SYSTEMS.contains(&system.f_type))
}
