//! Reading: one document, and the heads of all of a kind.
//!
//! Heads are kept between calls and believed only as long as `stat` says that the file is the same
//! one, unchanged. A file that was written less than two seconds before it was read is read again:
//! within the clock's grain two writes can look alike.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cap_std::fs::{Dir, Metadata, MetadataExt};
use reqlore_domain::document::{self, Document, DocumentId, Head, Kind, Version};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project::ProjectKey;
use rustix::fs::{Mode, OFlags};

use crate::error::{failed, refused};
use crate::history::Versions;
use crate::layout::{Place, Requirements, section_of};

/// The largest file that is read.
const MAX_BYTES: u64 = document::MAX_BYTES as u64;
/// A save in place truncates first; what looks torn is read again so often, so far apart.
const RETRIES: (u32, Duration) = (3, Duration::from_millis(50));
/// Below this age a file's times can't be trusted to show the next change.
const SETTLED: Duration = Duration::from_secs(2);

/// A document and the file it came from.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) document: Document,
    pub(crate) metadata: Metadata,
    torn: bool,
}

/// Documents that were read already; `None` where there was none.
pub(crate) type Base = HashMap<DocumentId, Option<Found>>;

/// A file's bytes and what `stat` said before they were read.
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    metadata: Metadata,
    /// Nobody wrote while they were read.
    steady: bool,
    /// It looks as if somebody were still writing.
    torn: bool,
}

/// Reads a file; what looks like a save in place that is not finished is read again.
fn read_settled(place: &Place) -> StoreResult<Option<Content>> {
    let mut tries = 0;
    loop {
        let Some(mut content) = read_file(&place.dir, &place.name, &place.shown)? else {
            return Ok(None);
        };
        let looks_torn = content.bytes.is_empty() || std::str::from_utf8(&content.bytes).is_err();
        content.torn = looks_torn && !is_settled(&content.metadata);
        if !content.torn || tries == RETRIES.0 {
            return Ok(Some(content));
        }
        tries += 1;
        std::thread::sleep(RETRIES.1);
    }
}

/// A regular file's bytes; `shown` is what messages call it.
pub(crate) fn read_file(dir: &Dir, name: &str, shown: &str) -> StoreResult<Option<Content>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let fail = |error: io::Error| failed(shown, "read it", error);
    let mut file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        // A name that no file system can hold names nothing.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NAMETOOLONG) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => {
            return Err(refused(
                shown,
                "is a symbolic link; put a regular file there. It was not followed",
            ));
        }
        Err(error) => return Err(fail(error.into())),
    };
    let metadata = Metadata::from_file(&file).map_err(fail)?;
    if !metadata.is_file() {
        return Err(refused(shown, "is no regular file; put one there or remove it"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(too_large(shown));
    }
    let size = usize::try_from(metadata.len()).unwrap_or_default();
    let mut bytes = Vec::with_capacity(size + 1);
    let limit = MAX_BYTES + 1;
    let length = file.by_ref().take(limit).read_to_end(&mut bytes).map_err(fail)?;
    if length as u64 == limit {
        return Err(too_large(shown));
    }
    let after = Metadata::from_file(&file).map_err(fail)?;
    let steady = Stamp::of(&after) == Stamp::of(&metadata);
    Ok(Some(Content { bytes: bytes.into(), metadata, steady, torn: false }))
}

fn too_large(place: &str) -> StoreError {
    StoreError::Unreadable {
        place: place.to_owned(),
        reason: format!("larger than {} MiB; split it into smaller files", MAX_BYTES >> 20),
    }
}

/// The heads of a project, believed while their files look unchanged.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: Mutex<HashMap<ProjectKey, Known>>,
}

type Known = HashMap<DocumentId, (Stamp, Head)>;

/// What `stat` says about a file's identity and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Heads {
    /// Reads one document; `None` when it is not there. A version that is known is not computed
    /// again.
    pub(crate) fn read(
        &self,
        project: &ProjectKey,
        requirements: &Requirements<'_>,
        id: &DocumentId,
    ) -> StoreResult<Option<Found>> {
        let Some(place) = requirements.place(id)? else { return Ok(None) };
        let Some(content) = read_settled(&place)? else { return Ok(None) };
        let Content { bytes, metadata, steady, torn } = content;
        let stamp = Stamp::of(&metadata);
        let known = self.believed(project, id, stamp).filter(|_| steady);
        let document = if let Some(head) = known {
            Document { id: id.clone(), body: bytes, version: head.version }
        } else {
            let document = Document::new(id.clone(), bytes);
            if steady && is_settled(&metadata) {
                self.remember(project, stamp, Head::of(&document));
            }
            document
        };
        Ok(Some(Found { document, metadata, torn }))
    }

    /// What a commit works on. A file that looks half saved is nobody's to replace.
    pub(crate) fn read_all(
        &self,
        project: &ProjectKey,
        requirements: &Requirements<'_>,
        ids: &[DocumentId],
    ) -> StoreResult<Base> {
        let mut base = Base::new();
        for id in ids {
            let found = self.read(project, requirements, id)?;
            if found.as_ref().is_some_and(|found| found.torn) {
                let reason = format!(
                    "{id} is empty or half written, as if another program were saving it. Nothing \
                     was written; try again in a moment."
                );
                return Err(StoreError::Busy { reason });
            }
            base.insert(id.clone(), found);
        }
        Ok(base)
    }

    /// Heads of one kind; those of `base` are not read again. A file that can't be read has a head
    /// with a fault.
    pub(crate) fn of_kind(
        &self,
        project: &ProjectKey,
        requirements: &Requirements<'_>,
        kind: Kind,
        base: &Base,
    ) -> StoreResult<Vec<Head>> {
        let ids = match kind {
            Kind::Instructions => vec![DocumentId::instructions()],
            Kind::Section => sections(requirements)?,
            Kind::Docsets | Kind::Entity => Vec::new(),
        };
        let mut heads = Vec::with_capacity(ids.len());
        for id in ids {
            heads.extend(match base.get(&id) {
                Some(Some(found)) => Some(Head::of(&found.document)),
                _ => self.head(project, requirements, &id)?,
            });
        }
        Ok(heads)
    }

    /// The versions of everything there is.
    pub(crate) fn versions(
        &self,
        project: &ProjectKey,
        requirements: &Requirements<'_>,
    ) -> StoreResult<Versions> {
        let mut versions = BTreeMap::new();
        for kind in [Kind::Instructions, Kind::Section] {
            let heads = self.of_kind(project, requirements, kind, &Base::new())?;
            versions.extend(heads.into_iter().map(|head| (head.id, head.version)));
        }
        Ok(versions)
    }

    fn head(
        &self,
        project: &ProjectKey,
        requirements: &Requirements<'_>,
        id: &DocumentId,
    ) -> StoreResult<Option<Head>> {
        let Some(place) = requirements.place(id)? else { return Ok(None) };
        let stamp = match place.dir.symlink_metadata(&place.name) {
            Ok(metadata) => Stamp::of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&place.shown, "look at it", error)),
        };
        if let Some(head) = self.believed(project, id, stamp) {
            return Ok(Some(head));
        }
        match self.read(project, requirements, id) {
            Ok(found) => Ok(found.map(|found| Head::of(&found.document))),
            Err(error) => Ok(Some(Head::unread(id.clone(), Version::of(b""), error.to_string()))),
        }
    }

    fn believed(&self, project: &ProjectKey, id: &DocumentId, stamp: Stamp) -> Option<Head> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, head) = known.get(project)?.get(id)?;
        (*known == stamp).then(|| head.clone())
    }

    fn remember(&self, project: &ProjectKey, stamp: Stamp, head: Head) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(project.clone()).or_default().insert(head.id.clone(), (stamp, head));
    }
}

/// Every regular `*.md` directly in the directory, save AGENTS.md and the file it links to.
fn sections(requirements: &Requirements<'_>) -> StoreResult<Vec<DocumentId>> {
    let Some(dir) = requirements.dir() else {
        return Ok(Vec::new());
    };
    let fail = |error| failed(&requirements.shown(""), "list the requirements directory", error);
    let instructions = inode_behind_instructions(dir);
    let mut ids = Vec::new();
    for entry in dir.entries().map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(section_of) else {
            continue;
        };
        // A file that vanishes meanwhile is simply not there.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_file() && instructions != Some(metadata.ino()) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Where AGENTS.md is a link, the inode of what it leads to.
fn inode_behind_instructions(dir: &Dir) -> Option<u64> {
    let is_link = dir.symlink_metadata("AGENTS.md").ok()?.is_symlink();
    is_link.then(|| dir.metadata("AGENTS.md").ok()).flatten().map(|target| target.ino())
}

fn is_settled(metadata: &Metadata) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the age of a file on this machine's clock")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let last = metadata.mtime().max(metadata.ctime());
    now.is_ok_and(|now| now.as_secs().saturating_sub(last.unsigned_abs()) > SETTLED.as_secs())
}
