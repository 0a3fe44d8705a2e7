//! Metadata read from files, one or thousands at a time, and its cache on disk.
//!
//! The cache is in the user's cache folder. An entry is valid while the file has the same stamp.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Version};
use reqlore_domain::ports::documents::StoreError;
use reqlore_durable_fs::{AtomicWrite, Durability, atomic_write};
use serde::{Deserialize, Serialize};

use crate::layout::{Area, Tree};
use crate::read::{Now, Stamp, read_once, read_settled_all};
use crate::walk;

/// What reading a file gave; a fault is part of the head.
pub(crate) struct Seen {
    pub(crate) head: DocumentMeta,
    /// `None` where the next look has to read again.
    pub(crate) stamp: Option<Stamp>,
    /// The stamp would show the next change.
    pub(crate) settled: bool,
    /// A watch on its folder would show the next change too.
    pub(crate) watchable: bool,
    torn: bool,
}

/// Why, without the place: whoever shows the head names it.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. }
        | StoreError::Refused { reason, .. }
        | StoreError::Unreadable { reason, .. }
        | StoreError::Busy { reason } => reason.clone(),
        StoreError::Decided(_) | StoreError::Repeated(_) | StoreError::Internal(_) => {
            error.to_string()
        }
    }
}

impl Seen {
    /// What can't be read for a reason that may pass is looked at again; a link or a folder stays
    /// one until it is replaced.
    pub(crate) fn fault(id: &DocumentId, error: &StoreError, stamp: Option<Stamp>) -> Self {
        let passes = matches!(error, StoreError::Unavailable { .. } | StoreError::Internal(_));
        let modified = stamp.map(|stamp| stamp.modified()).unwrap_or_default();
        Self {
            head: DocumentMeta::placeholder(id.clone(), Version::UNREAD, modified, reason(error)),
            stamp: stamp.filter(|_| !passes),
            settled: false,
            watchable: !passes,
            torn: false,
        }
    }
}

/// Reads files, many of them on two threads; `None` for one that is not there.
pub(crate) fn read_all(ids: &[DocumentId], tree: &Tree<'_>) -> Vec<Option<Seen>> {
    const FEW: usize = 64;
    let (root, layout) = tree.parts();
    let tree = &Tree::to_read(root, layout);
    let all = if ids.len() <= FEW {
        ids.iter().map(|id| read(id, tree)).collect()
    } else {
        let (left, right) = ids.split_at(ids.len() / 2);
        let on_another = |ids: &[DocumentId]| {
            let tree = Tree::to_read(root, layout);
            ids.iter().map(|id| read(id, &tree)).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new();
            let other = thread.spawn_scoped(scope, || on_another(right));
            let mut all: Vec<_> = left.iter().map(|id| read(id, tree)).collect();
            all.extend(match other.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(read)) => read,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // There are no threads left.
                Err(_) => on_another(right),
            });
            all
        })
    };
    let is_torn = |seen: &Option<Seen>| seen.as_ref().is_some_and(|seen| seen.torn);
    read_settled_all(ids, all, |id| read(id, tree), is_torn)
}

fn read(id: &DocumentId, tree: &Tree<'_>) -> Option<Seen> {
    let place = match tree.place(id) {
        Ok(place) => place?,
        Err(error) => return Some(Seen::fault(id, &error, None)),
    };
    let now = Now::read();
    let stamp = walk::stamp(&place.dir, &place.name)?;
    let content = match read_once(&place) {
        Ok(content) => content?,
        Err(error) => {
            let seen = Seen::fault(id, &error, Some(stamp));
            return Some(Seen { settled: stamp.is_settled(now), ..seen });
        }
    };
    let stamp = Stamp::of(&content.metadata);
    Some(Seen {
        head: DocumentMeta::of(&Document::new(id.clone(), content.bytes), stamp.modified()),
        stamp: Some(stamp).filter(|_| content.steady),
        settled: content.settled,
        watchable: !stamp.has_other_names(),
        torn: content.torn,
    })
}

/// What unfinished ones are called.
const PREFIX: &str = ".heads-";

/// The folder for caches; without one nothing is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    pub(crate) folder: Option<PathBuf>,
}

/// One document's head, and the file that it was read from.
#[derive(Debug, Deserialize)]
pub(crate) struct Saved {
    pub(crate) head: DocumentMeta,
    pub(crate) stamp: Stamp,
}

#[derive(Serialize)]
struct Saving<'a> {
    head: &'a DocumentMeta,
    stamp: &'a Stamp,
}

/// What a file begins with; the first number changes with the format, the second with what is made
/// of the same bytes.
fn magic() -> Vec<u8> {
    format!("reqlore heads 4.{}, {}\n", DocumentMeta::FORMAT, env!("CARGO_PKG_VERSION"))
        .into_bytes()
}

impl Cache {
    /// What was kept of an area of the project at this path.
    pub(crate) fn load(&self, path: &Path, area: Area) -> Vec<Saved> {
        let bytes = self.folder(path).and_then(|folder| fs::read(folder.join(area.cache())).ok());
        let body = bytes.as_deref().and_then(|bytes| bytes.strip_prefix(magic().as_slice()));
        let Some((sum, body)) = body.and_then(|body| body.split_at_checked(Version::LENGTH)) else {
            return Vec::new();
        };
        if sum != Version::of(body).to_string().as_bytes() {
            tracing::info!("the cache of heads is damaged; it is made anew");
            return Vec::new();
        }
        postcard::from_bytes(body).unwrap_or_default()
    }

    /// Keeps these heads. Failing to do so costs time, nothing else.
    pub(crate) fn save(&self, path: &Path, area: Area, heads: &[(Arc<DocumentMeta>, Stamp)]) {
        let Some(folder) = self.folder(path) else { return };
        let saving = heads.iter().map(|(head, stamp)| Saving { head, stamp });
        let Ok(body) = postcard::to_allocvec(&saving.collect::<Vec<_>>()) else { return };
        let sum = Version::of(&body).to_string();
        let contents = [&magic(), sum.as_bytes(), &body].concat();
        let (temp_prefix, durability) = (OsStr::new(PREFIX), Durability::Cache);
        let options = AtomicWrite { temp_prefix, durability, is_private: true };
        let written = fs::create_dir_all(&folder).and_then(|()| {
            remove_leftovers(&folder);
            atomic_write(&folder.join(area.cache()), &contents, options)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "the cache of heads was not written");
        }
    }

    fn folder(&self, path: &Path) -> Option<PathBuf> {
        let key = Version::of(path.as_os_str().as_encoded_bytes());
        self.folder.as_ref().map(|folder| folder.join(format!("files-{key}")))
    }
}

/// What a killed process left. One that is just being written by another process is made again.
fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
