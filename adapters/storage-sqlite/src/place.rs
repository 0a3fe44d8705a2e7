//! Where the database lies: its folder, its file system, and whether it still is the file that was
//! opened.
//!
//! The trap: this process must never open the database's files by itself, since closing such a
//! descriptor drops SQLite's locks. Everything here goes by path.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_durable_fs as durable_fs;
use reqlore_sqlite_team::error::{RESTORE, refused, unavailable};

use crate::error::{DATABASE, system};

/// No database is shorter than its header, in bytes.
const HEADER: u64 = 100;

#[derive(Debug)]
pub(crate) struct Place {
    /// As it was given, for messages of opening.
    pub(crate) shown: String,
    pub(crate) file: PathBuf,
    wal: PathBuf,
    shm: PathBuf,
    /// Of the three files, as they were opened.
    opened: OnceLock<[Option<Identity>; 3]>,
}

/// The device and the number that a path leads to.
type Identity = (u64, u64);

impl Place {
    /// Makes the folder where there is none, and refuses what can't hold a database.
    pub(crate) fn prepare(given: &Path) -> StoreResult<Self> {
        let shown = given.display().to_string();
        let fail = |doing| move |error| system(&given.display().to_string(), doing, error);
        let file = std::path::absolute(given).map_err(fail("find it"))?;
        let Some(folder) = file.parent() else {
            return Err(refused(&shown, "is no file; name one"));
        };
        let created = durable_fs::create_private_dirs(folder)
            .and_then(|created| created.iter().try_for_each(|dir| durable_fs::sync_dir(dir)));
        created.map_err(fail("create its folder"))?;
        let is_network = durable_fs::is_network_fs(folder);
        if is_network.map_err(fail("inspect its file system"))? {
            return Err(refused(
                &shown,
                "lies on a network file system, where a database can't be locked; put it on a \
                 disk of this machine",
            ));
        }
        let beside = |suffix: &str| {
            let mut path = file.clone().into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        };
        let (wal, shm) = (beside("-wal"), beside("-shm"));
        let place = Self { shown, wal, shm, file, opened: OnceLock::new() };
        place.check_links().map_err(fail("look at it"))??;
        let is_empty = match fs::metadata(&place.file) {
            Ok(found) if !found.is_file() => {
                return Err(refused(&place.shown, "is no regular file; name another one"));
            }
            Ok(found) if durable_fs::has_hard_links(&found) => {
                let reason = "has a second name (a hard link); its log goes by the name, so by two \
                              names it would lose commits. Remove the other name";
                return Err(refused(&place.shown, reason));
            }
            // SQLite takes a file of a byte for an empty one.
            Ok(found) if (1..HEADER).contains(&found.len()) => {
                let reason = "is not an SQLite database; it was not touched. Name another file";
                return Err(refused(&place.shown, reason));
            }
            Ok(found) => found.len() == 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(fail("look at it")(error)),
        };
        // SQLite would throw away what was not moved into the database yet.
        if is_empty && place.has_wal() {
            let reason = format!(
                "is missing or empty, and the -wal file beside it is not; put the database back, \
                 or {RESTORE}"
            );
            return Err(refused(&place.shown, reason));
        }
        Ok(place)
    }

    /// Whoever opens a database here has resolved the path, so what is left is a link to nothing:
    /// SQLite would make a file wherever it leads.
    fn check_links(&self) -> io::Result<StoreResult<()>> {
        for (path, _) in self.files() {
            match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => {
                    let reason = format!(
                        "is not used, because {} is a symbolic link; it was not followed. Remove \
                         it, or name another file",
                        path.file_name().unwrap_or_default().display()
                    );
                    return Ok(Err(refused(&self.shown, reason)));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(Ok(()))
    }

    pub(crate) fn is_there(&self) -> bool {
        fs::metadata(&self.file).is_ok()
    }

    /// Is there something that was not moved into the database itself?
    pub(crate) fn has_wal(&self) -> bool {
        fs::metadata(&self.wal).is_ok_and(|found| found.len() > 0)
    }

    /// Is there a log at all, if an empty one? Then somebody may be about to write to it; and may
    /// it be read as it is, which takes the file that processes share?
    pub(crate) fn has_log(&self) -> Option<bool> {
        fs::metadata(&self.wal).ok().map(|_| fs::metadata(&self.shm).is_ok())
    }

    /// Nobody else may read it. SQLite gives the files beside it the same rights.
    pub(crate) fn make_private(&self) -> StoreResult<()> {
        let set = durable_fs::make_private(&self.file);
        set.map_err(|error| system(&self.shown, "set its rights", error))
    }

    /// Makes the names in its folder durable.
    pub(crate) fn sync_folder(&self) -> StoreResult<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        durable_fs::sync_dir(folder).map_err(|error| system(&self.shown, "sync its folder", error))
    }

    /// From now on these are the files.
    pub(crate) fn remember(&self) {
        let _ = self.opened.set(self.files().map(|(path, least)| identity(path, least)));
    }

    /// Is the database still at its place? What was deleted or replaced would be read in vain.
    pub(crate) fn check(&self) -> StoreResult<()> {
        self.check_first(1)
    }

    /// The same, with the files beside it: what is written goes through them.
    pub(crate) fn check_all(&self) -> StoreResult<()> {
        self.check_first(3)
    }

    fn check_first(&self, count: usize) -> StoreResult<()> {
        let opened = self.opened.get().into_iter().flatten();
        let gone = |((path, least), opened): ((&Path, u64), &Option<Identity>)| {
            opened.is_some() && *opened != identity(path, least)
        };
        if !self.files().into_iter().zip(opened).take(count).any(gone) {
            return Ok(());
        }
        Err(unavailable(
            DATABASE,
            "its file was deleted, emptied, moved or replaced while it was open. Nothing was \
             written; put it back, or start reqlore again to use what is there now",
        ))
    }

    /// Each with the fewest bytes that it has.
    fn files(&self) -> [(&Path, u64); 3] {
        [(&self.file, 1), (&self.wal, 0), (&self.shm, 0)]
    }
}

fn identity(path: &Path, least: u64) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    (found.len() >= least).then(|| durable_fs::file_id(&found))
}
