//! What can be told of a folder without changing anything in it.
//!
//! The trap: opening a store finishes what killed processes began; who only looks does not.

use std::io;
use std::path::Path;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project::ProjectKey;
use rustix::fs::Access;

use crate::team::Team;
use crate::{Config, FsStore, journal};

impl FsStore {
    /// Opens the files to read them; `None` where a commit is being made or was interrupted, which
    /// opening would finish.
    pub fn look(config: &Config) -> StoreResult<Option<Self>> {
        let store = Self::with_team(config, Team::read_only());
        if journal::is_there(store.shared.folders.base()) {
            return Ok(None);
        }
        store.shared.check_complete(&ProjectKey::default())?;
        Ok(Some(store))
    }
}

/// May this process make files in a folder?
pub fn check_writable(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}
