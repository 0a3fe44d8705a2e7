//! Rebuilds of an index that a user requests.
//!
//! The project's cache folder stores the number of requests, which is part of index folder names.
//! So no process starts with an index from before the last request.

use std::fs;
use std::io;
use std::path::Path;

use reqlore_domain::project_key::ProjectKey;

use crate::checksummed_file;
use crate::lexical;
use crate::project_cache::cache_dir_name;

const COUNT_FILE: &str = "rebuilds";
const COUNT_FORMAT: &str = "rebuilds 1";

/// Sets the index of a project aside: processes that open it from now on build a new one.
pub fn set_index_aside(cache: &Path, store: &str, key: &ProjectKey) -> io::Result<()> {
    let project = cache.join(cache_dir_name(store, key));
    fs::create_dir_all(&project)?;
    let count = requested_rebuilds(&project).wrapping_add(1);
    checksummed_file::write_shared(&project.join(COUNT_FILE), COUNT_FORMAT, &count.to_le_bytes())
}

/// Returns the format of the index folders in this cache folder of a project.
pub(crate) fn folder_format(project: &Path) -> String {
    match requested_rebuilds(project) {
        0 => lexical::format(),
        count => format!("{}.{count}", lexical::format()),
    }
}

fn requested_rebuilds(project: &Path) -> u64 {
    // Without a valid count, an older index is safe to use, because it catches up.
    let count = checksummed_file::read(&project.join(COUNT_FILE), COUNT_FORMAT);
    count.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?))).unwrap_or_default()
}
