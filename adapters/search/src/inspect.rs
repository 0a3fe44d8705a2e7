//! Read-only inspection of a project's cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reqlore_domain::project_key::ProjectKey;

use crate::cache_dir::cache_dir_name;
use crate::index_folder;
use crate::rebuild;

/// The cache of one project, as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStatus {
    pub folder: PathBuf,
    /// Size of the newest complete index in bytes; `None` if the next search builds it. All
    /// indexes of a project share most of their files.
    pub index_bytes: Option<u64>,
    /// Names of the models with saved vectors, sorted.
    pub models: Vec<String>,
}

/// Inspects the cache of a project; `None` if there is none.
pub fn inspect_cache(
    cache: &Path,
    store: &str,
    key: &ProjectKey,
) -> io::Result<Option<CacheStatus>> {
    let folder = cache.join(cache_dir_name(store, key));
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut models = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(rest) = name.strip_prefix("vectors-")
            && let Some(model) = rest.strip_suffix(".bin")
        {
            models.push(model.to_owned());
        }
    }
    // The order of a directory listing is arbitrary.
    models.sort();
    let index_bytes = index_folder::inspect_size(&folder, &rebuild::folder_format(&folder));
    Ok(Some(CacheStatus { folder, index_bytes, models }))
}
