//! Watches the folders of an area with inotify, so that a call need not inspect every file.
//!
//! The queue is drained before each answer, and the kernel adds an event before the write that
//! caused it returns. So no change before a call is missed. Where the kernel can miss changes
//! (overflow, network file systems, no watches left, new and removed folders) the answer is
//! [`News::Lost`], and the caller lists everything.

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
use crate::metadata_index::WatchEvents;

/// File systems of this machine alone: ext, XFS, Btrfs, F2FS, bcachefs, ZFS, JFS, tmpfs, ramfs,
/// overlay, FAT, exFAT, NTFS. On others a change by another machine causes no event.
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

/// With more changed files, listing everything is faster.
const MAX_CHANGED: usize = 1_000;

/// Device and inode.
type FileId = (u64, u64);

/// A watch on the top of an area, all folders of documents in it, and the root, where the top, or
/// the folder that it lies in, may come and go.
#[derive(Debug)]
pub(crate) struct TreeWatcher {
    queue: OwnedFd,
    /// The root's path, and the folder that was opened there.
    root: (PathBuf, FileId),
    /// The area's top, and the file or folder that is there, if any.
    top: (PathBuf, Option<(FileId, FileType)>),
    /// The folder in the root that leads to the top.
    top_parent: &'static str,
    /// The watched folders: the kind of their documents, and the beginning of their names.
    folders: HashMap<i32, (Option<DocumentKind>, String)>,
    root_watch: i32,
    /// Some folder could not be watched.
    is_incomplete: bool,
}

impl TreeWatcher {
    /// Watches the root; the folders are added as they are listed. `None` where nothing can be
    /// watched.
    pub(crate) fn start(root: &ProjectRoot, path: &Path, area: DocumentArea) -> Option<Self> {
        if !is_local(&root.dir) {
            return None;
        }
        let root_identity = folder_id(&root.dir)?;
        let top = path.join(area.top_folder());
        let there = stat_path(&top);
        // Changes of a link's target cause no event.
        if there.is_some_and(|(_, file_type)| file_type == FileType::Symlink) {
            return None;
        }
        let top = (top, there);
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let folder = reqlore_local_state::as_file(&root.dir).ok()?;
        let root_number = inotify::add_watch(&queue, proc_path(&folder), folder_events()).ok()?;
        Some(Self {
            queue,
            root: (path.to_owned(), root_identity),
            top,
            top_parent: area.top_folder().split('/').next().unwrap_or_default(),
            folders: HashMap::new(),
            root_watch: root_number,
            is_incomplete: false,
        })
    }

    /// Watches one more folder. Must be called before it is listed.
    pub(crate) fn add_folder(&mut self, folder: &OwnedFd, what: &ListedFolder<'_>) {
        if what.is_top {
            self.top.1 = folder_id(folder).map(|identity| (identity, FileType::Directory));
            self.is_incomplete |= stat_path(&self.top.0) != self.top.1;
        }
        if self.is_incomplete || !is_local(folder) {
            self.is_incomplete = true;
            return;
        }
        let events = folder_events() | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        match inotify::add_watch(&self.queue, proc_path(folder), events) {
            Ok(watch) => {
                // A folder in two places causes events for one of them.
                let what = (what.kind, what.path.to_owned());
                let other = self.folders.insert(watch, what.clone());
                self.is_incomplete = other.is_some_and(|other| other != what);
            }
            Err(_) => self.is_incomplete = true,
        }
    }

    /// True if all folders that were added are watched.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Drains the queue.
    pub(crate) fn drain_events(&mut self) -> WatchEvents {
        let (root, top) = (target_folder_id(&self.root.0), stat_path(&self.top.0));
        if self.is_incomplete || root != Some(self.root.1) || top != self.top.1 {
            return WatchEvents::Invalidated;
        }
        let mut touched = BTreeSet::new();
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => return WatchEvents::Invalidated,
            };
            let name = event.file_name().map(|name| name.to_str());
            let gone = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::IGNORED
                | ReadFlags::UNMOUNT
                | ReadFlags::QUEUE_OVERFLOW;
            if event.events().intersects(gone) {
                return WatchEvents::Invalidated;
            }
            // The rights of a watched folder itself.
            if event.events().contains(ReadFlags::ATTRIB) && name.is_none() {
                return WatchEvents::Invalidated;
            }
            if event.wd() == self.root_watch {
                if name == Some(Ok(self.top_parent)) {
                    return WatchEvents::Invalidated;
                }
                continue;
            }
            let Some(Ok(name)) = name else { continue };
            let Some((kind, folder)) = self.folders.get(&event.wd()) else { continue };
            if name.starts_with('.') {
                continue;
            }
            if event.events().contains(ReadFlags::ISDIR) {
                return WatchEvents::Invalidated;
            }
            if let (Some(kind), Some(stem)) = (*kind, name.strip_suffix(".md")) {
                touched.insert(DocumentId { kind, name: format!("{folder}{stem}") });
            }
            if touched.len() > MAX_CHANGED {
                return WatchEvents::Invalidated;
            }
        }
        if touched.is_empty() { WatchEvents::None } else { WatchEvents::Changed(touched) }
    }
}

/// Names that come and go in a folder, and changes of the folder itself.
fn folder_events() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
}

/// An open folder's path that can't be swapped.
fn proc_path(folder: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())
}

/// The folder at the end of a path, also of a link.
fn target_folder_id(path: &Path) -> Option<FileId> {
    id_of_folder_stat(&rustix::fs::statat(CWD, path, AtFlags::empty()).ok()?)
}

/// The file, folder or link at a path.
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
