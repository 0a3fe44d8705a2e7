//! Watches the folders of an area with inotify, so that a call need not inspect every file.
//!
//! The queue is drained before each query, and the kernel queues an event before the write that
//! caused it returns. So no change before a call is missed. If the kernel may miss changes
//! (overflow, network file systems, no watches left, new and removed folders) the result is
//! [`WatchEvents::Invalidated`], and the caller scans the area.
//!
//! All trees share one queue: the kernel needs up to 20 ms to close one, and a user may have 128.
//! A call that drains it delivers the events of all trees, under one lock, so no event is missed.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::fs::Dir;
use reqlore_domain::document::{DocumentId, DocumentKind};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;

use crate::layout::{DocumentArea, ProjectRoot};
use crate::list_files::ListedFolder;
use crate::unread_files;
use crate::watch_events::WatchEvents;

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

/// One part in this many of the user's inotify watches is for one store. Editors need the rest.
const MAX_WATCHES_SHARE: usize = 2;
/// The maximum number of watches if the user's limit is unknown.
const DEFAULT_MAX_WATCHES: usize = 4_096;

/// The inotify queue that all watched trees of a store share. Clones are the same queue.
#[derive(Debug, Default, Clone)]
pub(crate) struct WatchQueue {
    shared: Arc<Mutex<SharedQueue>>,
}

#[derive(Debug, Default)]
struct SharedQueue {
    /// Opened by the first tree.
    queue: Option<OwnedFd>,
    max_watches: usize,
    last_tree: u64,
    trees: HashMap<u64, TreeEvents>,
    /// Watched folders by watch descriptor, for each tree that they belong to.
    folders: HashMap<i32, Vec<(u64, WatchedFolder)>>,
}

/// Events of a tree that were read from the queue.
#[derive(Debug, Default)]
struct TreeEvents {
    changed: BTreeSet<DocumentId>,
    is_invalidated: bool,
    watches: Vec<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum WatchedFolder {
    /// A project's root, with the name in it on the path to the area's top folder.
    Root(&'static str),
    /// The kind and the name prefix of the documents in a folder.
    Documents(Option<DocumentKind>, String),
}

/// The effect of an event on a tree.
enum EventEffect {
    None,
    Changed(DocumentId),
    Invalidated,
}

impl WatchQueue {
    fn lock(&self) -> MutexGuard<'_, SharedQueue> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a queue for at most this number of watches.
    #[cfg(test)]
    pub(crate) fn with_max_watches(max_watches: usize) -> Self {
        let queue = Self::default();
        queue.lock().max_watches = max_watches;
        queue.lock().queue = open_queue();
        queue
    }

    /// The number of watches and of trees.
    #[cfg(test)]
    pub(crate) fn watch_usage(&self) -> (usize, usize) {
        let queue = self.lock();
        (queue.folders.len(), queue.trees.len())
    }
}

fn open_queue() -> Option<OwnedFd> {
    inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()
}

impl SharedQueue {
    /// Adds a tree; `None` if inotify is not usable or all watches are used.
    fn add_tree(&mut self) -> Option<u64> {
        if self.queue.is_none() {
            self.queue = Some(open_queue()?);
            self.max_watches = max_user_watches() / MAX_WATCHES_SHARE;
        }
        // Older events of folders that other trees watch too must not reach the new tree.
        self.read_events();
        if self.folders.len() >= self.max_watches {
            return None;
        }
        self.last_tree += 1;
        self.trees.insert(self.last_tree, TreeEvents::default());
        Some(self.last_tree)
    }

    /// Watches a folder for a tree. False if that is not possible, for example because the user's
    /// limit of watches is reached.
    fn add_watch(
        &mut self,
        tree: u64,
        folder: &impl AsFd,
        events: WatchFlags,
        meaning: WatchedFolder,
    ) -> bool {
        let Some(queue) = &self.queue else { return false };
        let Some(tree_events) = self.trees.get_mut(&tree) else { return false };
        // The folder may have a watch already, as part of another tree that needs other events.
        let events = events | WatchFlags::MASK_ADD;
        let Ok(watch) = inotify::add_watch(queue, proc_path(folder), events) else { return false };
        if !self.folders.contains_key(&watch) && self.folders.len() >= self.max_watches {
            let _ = inotify::remove_watch(queue, watch);
            return false;
        }
        let meanings = self.folders.entry(watch).or_default();
        // A folder that is mounted at two paths of a tree has one watch, so one path gets no
        // event.
        if let Some((_, other)) = meanings.iter().find(|(other, _)| *other == tree) {
            return *other == meaning;
        }
        meanings.push((tree, meaning));
        tree_events.watches.push(watch);
        true
    }

    fn remove_tree(&mut self, tree: u64) {
        let Some(TreeEvents { watches, .. }) = self.trees.remove(&tree) else { return };
        for watch in watches {
            let Some(meanings) = self.folders.get_mut(&watch) else { continue };
            meanings.retain(|(other, _)| *other != tree);
            if !meanings.is_empty() {
                continue;
            }
            self.folders.remove(&watch);
            if let Some(queue) = &self.queue {
                // Fails if the folder was removed meanwhile, and its watch with it.
                let _ = inotify::remove_watch(queue, watch);
            }
        }
    }

    /// Reads all events of the queue and delivers them to their trees.
    fn read_events(&mut self) {
        let Some(queue) = &self.queue else { return };
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut reader = Reader::new(queue, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                // The queue is empty.
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => {
                    invalidate_all(&mut self.trees);
                    break;
                }
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                invalidate_all(&mut self.trees);
                continue;
            }
            // Events of trees that were removed may follow.
            let Some(meanings) = self.folders.get(&event.wd()) else { continue };
            let is_of_folder = event.file_name().is_none();
            let name = event.file_name().and_then(|name| name.to_str().ok());
            for (tree, meaning) in meanings {
                if let Some(tree) = self.trees.get_mut(tree) {
                    tree.record(meaning.effect_of(event.events(), name, is_of_folder));
                }
            }
            // The kernel has removed the watch.
            if event.events().contains(ReadFlags::IGNORED) {
                self.folders.remove(&event.wd());
            }
        }
    }
}

impl TreeEvents {
    fn record(&mut self, effect: EventEffect) {
        match effect {
            EventEffect::None => {}
            EventEffect::Changed(id) => {
                self.changed.insert(id);
            }
            EventEffect::Invalidated => self.is_invalidated = true,
        }
        if self.is_invalidated || self.changed.len() > MAX_CHANGED {
            self.is_invalidated = true;
            self.changed.clear();
        }
    }
}

impl WatchedFolder {
    /// The effect of an event of a name in this folder, or of the folder itself. The name is `None`
    /// if it is not UTF-8.
    fn effect_of(&self, events: ReadFlags, name: Option<&str>, is_of_folder: bool) -> EventEffect {
        let invalidating =
            ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        if events.intersects(invalidating) {
            return EventEffect::Invalidated;
        }
        // The access rights of a watched folder itself changed.
        if events.contains(ReadFlags::ATTRIB) && is_of_folder {
            return EventEffect::Invalidated;
        }
        let (kind, folder) = match self {
            // In the root only the path to the top folder matters.
            Self::Root(entry) if name == Some(*entry) => return EventEffect::Invalidated,
            Self::Root(_) => return EventEffect::None,
            Self::Documents(kind, folder) => (*kind, folder),
        };
        let Some(name) = name else { return EventEffect::None };
        // Hidden files are not documents.
        if name.starts_with('.') {
            return EventEffect::None;
        }
        // The content of a new or removed folder causes no events.
        if events.contains(ReadFlags::ISDIR) {
            return EventEffect::Invalidated;
        }
        match (kind, name.strip_suffix(".md")) {
            (Some(kind), Some(stem)) => {
                EventEffect::Changed(DocumentId { kind, name: format!("{folder}{stem}") })
            }
            // The next listing reports the file or no longer reports it.
            (kind, _) if unread_files::may_be_reported(kind, name) => EventEffect::Invalidated,
            _ => EventEffect::None,
        }
    }
}

fn invalidate_all(trees: &mut HashMap<u64, TreeEvents>) {
    for tree in trees.values_mut() {
        tree.record(EventEffect::Invalidated);
    }
}

/// The user's limit of inotify watches, in all processes.
fn max_user_watches() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    let limit = limit.ok().and_then(|limit| limit.trim().parse().ok());
    limit.unwrap_or(DEFAULT_MAX_WATCHES * MAX_WATCHES_SHARE)
}

/// Watches an area's top folder, all document folders in it, and the project's root, to detect when
/// the top folder or its parent is created or removed. Dropping it removes the watches.
#[derive(Debug)]
pub(crate) struct TreeWatcher {
    queue: WatchQueue,
    tree: u64,
    /// The root's path and the identity of the folder that was opened there.
    root: (PathBuf, FileId),
    /// The path of the area's top folder, and the file or folder at that path.
    top: (PathBuf, Option<(FileId, FileType)>),
    /// A folder could not be watched.
    is_incomplete: bool,
}

impl TreeWatcher {
    /// Starts to watch the root; folders are added while they are listed. `None` if inotify is not
    /// usable here.
    pub(crate) fn start(
        queue: &WatchQueue,
        root: &ProjectRoot,
        path: &Path,
        area: DocumentArea,
    ) -> Option<Self> {
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
        let folder = reqlore_durable_fs::folder::open_to_list(&root.dir).ok()?;
        let tree = queue.lock().add_tree()?;
        // Made before the first watch, because dropping it removes the tree.
        let mut watcher = Self {
            queue: queue.clone(),
            tree,
            root: (path.to_owned(), root_identity),
            top: (top, top_stat),
            is_incomplete: false,
        };
        let entry = area.top_folder().split('/').next().unwrap_or_default();
        watcher.add_watch(&folder, folder_events(), WatchedFolder::Root(entry));
        watcher.is_complete().then_some(watcher)
    }

    /// Adds a folder. Must be called before the folder is listed, so that no change is missed.
    pub(crate) fn add_folder(&mut self, handle: &Dir, folder: &ListedFolder<'_>) {
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
        let meaning = WatchedFolder::Documents(folder.kind, folder.name_prefix.to_owned());
        self.add_watch(handle, events, meaning);
    }

    fn add_watch(&mut self, folder: &impl AsFd, events: WatchFlags, meaning: WatchedFolder) {
        self.is_incomplete |= !self.queue.lock().add_watch(self.tree, folder, events, meaning);
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
        let mut queue = self.queue.lock();
        queue.read_events();
        let Some(events) = queue.trees.get_mut(&self.tree) else { return WatchEvents::Invalidated };
        if events.is_invalidated {
            return WatchEvents::Invalidated;
        }
        let changed = std::mem::take(&mut events.changed);
        if changed.is_empty() { WatchEvents::None } else { WatchEvents::Changed(changed) }
    }
}

impl Drop for TreeWatcher {
    fn drop(&mut self) {
        self.queue.lock().remove_tree(self.tree);
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
