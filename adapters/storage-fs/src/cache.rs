//! The heads of an area's documents on disk, so that a new process need not read every file.
//!
//! It lies in the user's cache folder and is believed only where a file's stamp is the same and was
//! settled. Anything else than a match (another format, a torn file) is no cache.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{DocumentMeta, Version};
use serde::{Deserialize, Serialize};

use crate::area::Area;
use crate::read::Stamp;

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
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&folder)?;
            remove_leftovers(&folder);
            let mut file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(&folder)?;
            file.write_all(&magic())?;
            file.write_all(Version::of(&body).to_string().as_bytes())?;
            file.write_all(&body)?;
            file.persist(folder.join(area.cache()))?;
            Ok(())
        };
        if let Err(error) = write() {
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
