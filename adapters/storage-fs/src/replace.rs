//! One file on its way from old to new: staged beside its target, exchanged with it, and put back
//! when somebody else turns out to have written meanwhile.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};

use bytes::Bytes;
use cap_std::fs::{Metadata, MetadataExt};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};

use crate::error::not_written;
use crate::failpoint::{Step, reached};
use crate::layout::Place;
use crate::scan::{self, Found};

/// Why nothing was applied.
pub(crate) enum Failed {
    /// Somebody else wrote since the decision was made.
    ChangedSince,
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// One file on its way from old to new. After the exchange the temporary name holds the old one.
pub(crate) struct Replacement<'a> {
    pub(crate) place: Place,
    temp: String,
    /// What was read; `None` when the file was not there.
    old: Option<&'a Bytes>,
    /// What shall be there; `None` to delete.
    new: Option<&'a Bytes>,
}

impl<'a> Replacement<'a> {
    pub(crate) fn new(place: Place, old: Option<&'a Bytes>, new: Option<&'a Bytes>) -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self { place, temp: format!("{TEMP_PREFIX}{random:016x}{TEMP_SUFFIX}"), old, new }
    }

    /// Writes the complete new file under the temporary name and syncs it.
    pub(crate) fn stage(&self, body: &Bytes, found: Option<&Found>) -> StoreResult<()> {
        let write = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666);
            let fd = rustix::fs::openat(&self.place.dir, self.temp.as_str(), flags, mode)?;
            let mut file = File::from(fd);
            reached(Step::TempCreated)?;
            if let Some(found) = found {
                keep_mode_and_owner(&file, found)?;
            }
            file.write_all(body)?;
            reached(Step::TempWritten)?;
            file.sync_all()?;
            reached(Step::TempSynced)
        };
        write().map_err(|error| self.not_written("write it", error))
    }

    /// Puts the new state in place of the old one and looks at what came out.
    pub(crate) fn exchange(&self) -> Result<(), Failed> {
        let moved = match (self.old, self.new) {
            (Some(_), Some(_)) => self.rename(&self.temp, &self.place.name, RenameFlags::EXCHANGE),
            (None, _) => self.rename(&self.temp, &self.place.name, RenameFlags::NOREPLACE),
            (Some(_), None) => self.rename(&self.place.name, &self.temp, RenameFlags::NOREPLACE),
        };
        match moved {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::EXIST) => {
                return Err(Failed::ChangedSince);
            }
            Err(error) => return Err(self.not_written("put it in place", error.into()).into()),
        }
        self.reached(Step::Exchanged)?;
        if self.is_overtaken() {
            return Err(Failed::ChangedSince);
        }
        self.reached(Step::Checked)?;
        Ok(())
    }

    /// Undoes an exchange that may or may not have happened.
    pub(crate) fn put_back(&self) {
        let name = &self.place.name;
        let undone = match (self.old, self.new) {
            (Some(_), Some(new)) => self.exchange_back(new),
            (None, Some(new)) if self.holds(name, new) => {
                self.rename(name, &self.temp, RenameFlags::NOREPLACE)
            }
            (Some(_), None) => self.rename(&self.temp, name, RenameFlags::NOREPLACE),
            _ => Ok(()),
        };
        if let Err(error) = undone
            && error != rustix::io::Errno::NOENT
        {
            let place = &self.place.shown;
            tracing::error!(place, %error, "the old file could not be put back");
        }
    }

    /// Gives the place back to whoever wrote there last. Each exchange may take out a save that
    /// came after the one before; then that one is put back instead.
    fn exchange_back(&self, new: &Bytes) -> rustix::io::Result<()> {
        const SAVES: usize = 100;
        let mut in_place = new.clone();
        for _ in 0..SAVES {
            let Some(aside) = self.content(&self.temp) else { return Ok(()) };
            if aside == in_place {
                return Ok(());
            }
            self.rename(&self.temp, &self.place.name, RenameFlags::EXCHANGE)?;
            if self.holds(&self.temp, &in_place) {
                return Ok(());
            }
            in_place = aside;
        }
        Err(rustix::io::Errno::BUSY)
    }

    fn rename(&self, from: &str, to: &str, how: RenameFlags) -> rustix::io::Result<()> {
        let dir = &self.place.dir;
        match rustix::fs::renameat_with(dir, from, dir, to, how) {
            // Not every file system can exchange; then only the moment before is checked.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                self.rename_plainly(from, to, how)
            }
            done => done,
        }
    }

    fn rename_plainly(&self, from: &str, to: &str, how: RenameFlags) -> rustix::io::Result<()> {
        let dir = &self.place.dir;
        if how == RenameFlags::NOREPLACE {
            return match rustix::fs::statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(rustix::io::Errno::NOENT) => rustix::fs::renameat(dir, from, dir, to),
                Ok(_) => Err(rustix::io::Errno::EXIST),
                Err(error) => Err(error),
            };
        }
        let aside = format!("{}{TEMP_SUFFIX}", self.temp);
        rustix::fs::renameat(dir, to, dir, &aside)?;
        rustix::fs::renameat(dir, from, dir, to)?;
        rustix::fs::renameat(dir, &aside, dir, from)
    }

    fn content(&self, name: &str) -> Option<Bytes> {
        let found = scan::read_file(&self.place.dir, name, &self.place.shown).ok()??;
        Some(found.bytes)
    }

    fn holds(&self, name: &str, expected: &Bytes) -> bool {
        self.content(name).is_some_and(|content| content == *expected)
    }

    /// Does what came out still hold what was read? An editor that had the old file open may have
    /// saved into it after the exchange.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.old.is_some_and(|old| !self.holds(&self.temp, old))
    }

    pub(crate) fn remove_temp(&self) {
        match rustix::fs::unlinkat(&self.place.dir, self.temp.as_str(), AtFlags::empty()) {
            // It is gone, or was never made.
            Ok(()) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::ROFS) => {}
            Err(error) => {
                let place = &self.place.shown;
                tracing::warn!(place, %error, "a temporary file was left behind");
            }
        }
        // Whatever happens from here on, the commit stands.
        let _ = reached(Step::OldRemoved);
    }

    pub(crate) fn reached(&self, step: Step) -> StoreResult<()> {
        reached(step).map_err(|error| self.not_written("commit", error))
    }

    pub(crate) fn not_written(&self, doing: &str, error: io::Error) -> StoreError {
        not_written(&self.place.shown, doing, error)
    }
}

fn keep_mode_and_owner(file: &File, found: &Found) -> io::Result<()> {
    let (old, new) = (&found.metadata, Metadata::from_file(file)?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
        if let Err(error) = rustix::fs::fchown(file, Some(uid), Some(gid)) {
            tracing::debug!(%error, "the owner could not be kept");
        }
    }
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(old.mode() & 0o7777))?)
}

const TEMP_PREFIX: &str = ".reqlore-";
const TEMP_SUFFIX: &str = ".tmp";

/// Is this a name that only we give?
pub(crate) fn is_temp(name: &str) -> bool {
    let random = name.strip_prefix(TEMP_PREFIX).and_then(|name| name.strip_suffix(TEMP_SUFFIX));
    random.is_some_and(|random| {
        random.len() >= 16 && random.bytes().take(16).all(|b| b.is_ascii_hexdigit())
    })
}
