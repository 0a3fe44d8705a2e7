//! Read-only inspection of a project's cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reqlore_domain::project_key::ProjectKey;

use crate::cache_dir::has_valid_index;
use crate::project_cache::cache_dir_name;

/// The cache of one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub folder: PathBuf,
    /// False if the next search rebuilds the lexical index.
    pub words: bool,
    /// Models with vectors.
    pub models: Vec<String>,
}

/// Inspects the cache; `None` without a cache of the project.
pub fn look(cache: &Path, store: &str, key: &ProjectKey) -> io::Result<Option<Kept>> {
    let folder = cache.join(cache_dir_name(store, key));
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut models = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let model = name.strip_prefix("vectors-").and_then(|name| name.strip_suffix(".bin"));
        models.extend(model.map(str::to_owned));
    }
    models.sort();
    let words = has_valid_index(&folder);
    Ok(Some(Kept { folder, words, models }))
}
