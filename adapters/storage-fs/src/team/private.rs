//! Files of this machine and this user alone: mode 0600, and each names itself.
//!
//! What a user or a token may do is decided by what is read here, so a file is believed only if it
//! is a regular one, of ours, that nobody else can read or write, and that says of itself by its
//! inode and the time it was made which file it is. A repository can bring a file of any name and
//! content along, and never one that knows those. The trap: a file that is not believed is refused
//! and not passed over, or the next write would put an empty one in the place of all users.

use std::fs::File;
use std::io::{self, Read, Write};

use cap_std::fs::{Dir, Metadata, MetadataExt};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::file_kind::FileKind;
use super::folder::{give_to_owner, is_ours};
use crate::error::{failed, not_written, refused};
use crate::layout::as_file;
use crate::local::{self, LOCAL};
use crate::read::Stamp;

/// Format and file stand in the first bytes; the rest is read only if they are right.
const HEADER: u64 = 512;
const FILE: Mode = Mode::from_raw_mode(0o600);
const OTHERS: u32 = 0o077;

/// A file in a folder of ours, and what messages call it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) dir: &'a Dir,
    /// The folder below `.reqlore/local`, with a slash behind it; empty for that one itself.
    pub(super) folder: &'a str,
    pub(super) name: &'a str,
}

/// What a file says of itself, before everything else.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Sealed<T> {
    format: String,
    file: String,
    body: T,
}

/// Why a file is not read.
#[derive(Debug)]
pub(super) enum Unread {
    /// It was not written whole.
    Torn(StoreError),
    /// It came with a clone or a copy.
    Foreign(StoreError),
    Other(StoreError),
}

impl From<StoreError> for Unread {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

impl From<Unread> for StoreError {
    fn from(unread: Unread) -> Self {
        let (Unread::Torn(error) | Unread::Foreign(error) | Unread::Other(error)) = unread;
        error
    }
}

impl<'a> Place<'a> {
    pub(super) fn named(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    pub(super) fn shown(&self) -> String {
        format!("{LOCAL}/{}{}", self.folder, self.name)
    }

    pub(super) fn fail(&self, doing: &str, error: impl Into<io::Error>) -> StoreError {
        failed(&self.shown(), doing, error.into())
    }

    pub(super) fn not_written(&self, doing: &str, error: impl Into<io::Error>) -> StoreError {
        not_written(&self.shown(), doing, error.into())
    }

    /// Opens a file that may be ours; what is in it is not believed yet.
    pub(super) fn open(&self, access: OFlags) -> StoreResult<Option<(File, Metadata)>> {
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(self.dir, self.name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => {
                return Err(self.refused("is a symbolic link; it was not followed. Remove it"));
            }
            // A folder that shall be written, or a pipe that nobody reads.
            Err(Errno::ISDIR | Errno::NXIO) => return Err(self.is_no_file()),
            Err(error) => return Err(self.fail("open it", error)),
        };
        let metadata =
            Metadata::from_file(&file).map_err(|error| self.fail("look at it", error))?;
        if !metadata.is_file() {
            return Err(self.is_no_file());
        }
        if !is_ours(metadata.uid(), self.dir) {
            return Err(self.refused(
                "belongs to another user and is not believed; run this as that user, or move it \
                 away",
            ));
        }
        if metadata.mode() & OTHERS != 0 {
            let reason = format!(
                "can be read or written by others than its owner; look whether somebody changed \
                 it, then run `chmod 600 {}`",
                self.shown()
            );
            return Err(self.refused(&reason));
        }
        if metadata.nlink() > 1 {
            return Err(self.refused("has more than one hard link; remove the others"));
        }
        Ok(Some((file, metadata)))
    }

    /// Reads a file that is believed.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        kind: FileKind,
    ) -> StoreResult<Option<(T, Metadata)>> {
        Ok(self.examine(kind)?)
    }

    /// The same for those that can do without it.
    pub(super) fn examine<T: DeserializeOwned>(
        &self,
        kind: FileKind,
    ) -> Result<Option<(T, Metadata)>, Unread> {
        let Some((file, metadata)) = self.open(OFlags::RDONLY)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut read = |most| (&file).take(most).read_to_end(&mut bytes);
        read(HEADER).map_err(|error| self.fail("read it", error))?;
        self.check_header(&bytes, kind, &metadata)?;
        let most = kind.most();
        if metadata.len() > most {
            return Err(self.unreadable("is too large to be a file of ours").into());
        }
        let mut read = |most| (&file).take(most).read_to_end(&mut bytes);
        read(most).map_err(|error| self.fail("read it", error))?;
        let body = self.unseal(&bytes, kind, &metadata)?;
        Ok(Some((body, metadata)))
    }

    /// Is it this very file, and of this format?
    fn check_header(
        &self,
        bytes: &[u8],
        kind: FileKind,
        metadata: &Metadata,
    ) -> Result<(), Unread> {
        let Some((found, file)) = header(bytes) else {
            let reason = "can't be read (its beginning is damaged); restore it from a backup";
            return Err(Unread::Torn(self.unreadable(reason)));
        };
        if file != local::identity(metadata) {
            return Err(Unread::Foreign(self.refused(
                "came with a clone or a copy and is not believed: whoever can put files into a \
                 repository could make users so. Move it away; `reqlore backup` and `reqlore \
                 restore` take users and the audit to another place",
            )));
        }
        if found != format(kind) {
            let reason = format!("is {found:?} of a later version; update Reqlore");
            return Err(self.unreadable(&reason).into());
        }
        Ok(())
    }

    /// What the bytes of this file hold, if it wrote them itself.
    pub(super) fn unseal<T: DeserializeOwned>(
        &self,
        bytes: &[u8],
        kind: FileKind,
        metadata: &Metadata,
    ) -> Result<T, Unread> {
        self.check_header(bytes, kind, metadata)?;
        let sealed: Result<Sealed<T>, _> = serde_json::from_slice(bytes);
        let sealed = sealed.map_err(|error| {
            let reason = format!("can't be read ({error}); restore it from a backup");
            Unread::Torn(self.unreadable(&reason))
        })?;
        Ok(sealed.body)
    }

    /// Writes a whole new file of this name, which must be free, and syncs it. `after` is the stamp
    /// of the one that it will replace: its times are later than that one's, on any clock.
    pub(super) fn create<T: Serialize>(
        &self,
        kind: FileKind,
        body: &T,
        after: Option<&Stamp>,
    ) -> StoreResult<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let write = || -> io::Result<File> {
            let mut file = File::from(rustix::fs::openat(self.dir, self.name, flags, FILE)?);
            rustix::fs::fchmod(&file, FILE)?;
            give_to_owner(self.dir, &file);
            let metadata = Metadata::from_file(&file)?;
            file.write_all(&seal(kind, &metadata, body)?)?;
            if let Some((seconds, nanoseconds)) = after.map(Stamp::next_modified) {
                let found = Stamp::of(&Metadata::from_file(&file)?);
                if !found.is_later_than(seconds, nanoseconds) {
                    set_modified(&file, seconds, nanoseconds)?;
                }
            }
            file.sync_all()?;
            Ok(file)
        };
        write().map_err(|error| {
            self.remove();
            self.not_written("write it", error)
        })
    }

    /// Gives the file this name, over whatever has it.
    pub(super) fn rename(&self, name: &str) -> StoreResult<()> {
        let to = self.named(name);
        rustix::fs::renameat(self.dir, self.name, self.dir, name)
            .map_err(|error| to.not_written("put it in place", error))
    }

    /// Replaces the file whole. Only one may do so at a time; `temp` is a name for this alone.
    pub(super) fn replace<T: Serialize>(
        &self,
        temp: &str,
        kind: FileKind,
        body: &T,
    ) -> StoreResult<()> {
        let staged = self.named(temp);
        staged.remove();
        staged.create(kind, body, None)?;
        staged.rename(self.name)?;
        self.sync_folder()
    }

    pub(super) fn sync_folder(&self) -> StoreResult<()> {
        let synced = as_file(self.dir).and_then(|folder| folder.sync_all());
        synced.map_err(|error| self.not_written("sync its folder", error))
    }

    /// Removes it, if it is there and no folder.
    pub(super) fn remove(&self) {
        if let Err(error) = self.unlink() {
            tracing::warn!(%error, "a file was left behind");
        }
    }

    /// The same for what must be gone.
    pub(super) fn unlink(&self) -> StoreResult<()> {
        match rustix::fs::unlinkat(self.dir, self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.fail("remove it", error)),
        }
    }

    fn is_no_file(&self) -> StoreError {
        self.refused("is no regular file; remove it")
    }

    pub(super) fn refused(&self, reason: &str) -> StoreError {
        refused(&self.shown(), reason)
    }

    pub(super) fn unreadable(&self, reason: &str) -> StoreError {
        StoreError::Unreadable { place: self.shown(), reason: reason.to_owned() }
    }
}

/// The format and the file that the first bytes name, as [`seal`] writes them.
fn header(bytes: &[u8]) -> Option<(&str, &str)> {
    let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'"');
    let rest = bytes.strip_prefix(b"{\"format\":\"")?;
    let (format, rest) = rest.split_at(end(rest)?);
    let rest = rest.strip_prefix(b"\",\"file\":\"")?;
    let file = &rest[..end(rest)?];
    Some((str::from_utf8(format).ok()?, str::from_utf8(file).ok()?))
}

fn format(kind: FileKind) -> String {
    format!("reqlore {} 1", kind.name())
}

/// The bytes of a file that names itself.
pub(super) fn seal<T: Serialize>(kind: FileKind, file: &Metadata, body: &T) -> io::Result<Vec<u8>> {
    let mut bytes =
        serde_json::to_vec(&Sealed { format: format(kind), file: local::identity(file), body })?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn set_modified(file: &File, seconds: i64, nanoseconds: i64) -> io::Result<()> {
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access, last_modification })?)
}
