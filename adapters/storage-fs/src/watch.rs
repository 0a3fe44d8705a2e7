//! A kernel watch over the entities' folders: it vouches for what was read, so that a call need not
//! look at every file.
//!
//! The queue is drained before each answer, and an event is in it before the write that caused it
//! returns; so nothing that happened before a call goes unseen. Where the kernel can't vouch
//! (overflow, network file systems, no watches left, folders that come and go) the answer is
//! [`News::Lost`], and the caller looks at everything.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

use crate::layout::{KNOWLEDGE, Root};

/// File systems whose changes may come from elsewhere: NFS, SMB (three kinds), 9P, FUSE, Ceph, AFS.
const REMOTE: [i64; 8] =
    [0x6969, 0x517B, 0xFE53_4D42, 0xFF53_4D42, 0x0102_1997, 0x6573_5546, 0x00C3_6400, 0x5346_414F];

/// So many changed files are better found by listing everything.
const MANY: usize = 1_000;

/// What happened since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Quiet,
    /// The documents with these names changed, came or went.
    Touched(BTreeSet<String>),
    /// The watch can't tell; it is of no use any more.
    Lost,
}

/// A watch on `.ixchel`, all folders in it, and the root, where `.ixchel` may come and go.
#[derive(Debug)]
pub(crate) struct Watch {
    queue: OwnedFd,
    root: PathBuf,
    identity: (u64, u64),
    /// The watched folders below `.ixchel`, each with a slash at its end.
    folders: HashMap<i32, String>,
    /// The number of the watch on the root.
    top: i32,
    /// Some folder could not be watched.
    blind: bool,
}

impl Watch {
    /// Watches the root; the folders are added as they are listed. `None` where nothing can be
    /// watched.
    pub(crate) fn start(root: &Root, path: &Path) -> Option<Self> {
        let identity = identity(path)?;
        let remote = rustix::fs::fstatfs(&root.dir).ok()?;
        let link = rustix::fs::statat(&root.dir, KNOWLEDGE, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = link.is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink
        });
        if is_link || REMOTE.contains(&remote.f_type) {
            return None;
        }
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let events = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let folder = crate::layout::as_file(&root.dir).ok()?;
        let top = inotify::add_watch(&queue, proc_path(&folder), events).ok()?;
        let folders = HashMap::new();
        Some(Self { queue, root: path.to_owned(), identity, folders, top, blind: false })
    }

    /// Watches one more folder; to be called before it is listed.
    pub(crate) fn add(&mut self, folder: &OwnedFd, path: &str) {
        let events = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.queue, proc_path(folder), events) {
            Ok(watch) => {
                self.folders.insert(watch, path.to_owned());
            }
            Err(_) => self.blind = true,
        }
    }

    /// Can it vouch for all folders that were added?
    pub(crate) fn sees_all(&self) -> bool {
        !self.blind
    }

    /// Drains the queue.
    pub(crate) fn news(&mut self) -> News {
        if self.blind || identity(&self.root) != Some(self.identity) {
            return News::Lost;
        }
        let mut touched = BTreeSet::new();
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => return News::Lost,
            };
            let name = event.file_name().map(|name| name.to_str());
            let gone = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::IGNORED
                | ReadFlags::UNMOUNT
                | ReadFlags::QUEUE_OVERFLOW;
            if event.events().intersects(gone) {
                return News::Lost;
            }
            if event.wd() == self.top {
                if name == Some(Ok(KNOWLEDGE)) {
                    return News::Lost;
                }
                continue;
            }
            let (Some(Ok(name)), Some(folder)) = (name, self.folders.get(&event.wd())) else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            if event.events().contains(ReadFlags::ISDIR) {
                return News::Lost;
            }
            if let Some(stem) = name.strip_suffix(".md") {
                touched.insert(format!("{folder}{stem}"));
            }
            if touched.len() > MANY {
                return News::Lost;
            }
        }
        if touched.is_empty() { News::Quiet } else { News::Touched(touched) }
    }
}

/// An open folder's path that can't be swapped.
fn proc_path(folder: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::empty()).ok()?;
    let is_folder =
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    is_folder.then_some((stat.st_dev, stat.st_ino))
}
