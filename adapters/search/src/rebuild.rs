//! Rebuilds of an index that a user requests, and its erasure.
//!
//! The project's cache folder stores the number of requests, which is part of index folder names.
//! So no process starts with an index from before the last request.

use std::fs;
use std::io;
use std::path::Path;

use reqlore_domain::project_key::ProjectKey;

use crate::cache_dir::cache_dir_name;
use crate::checksummed_file;
use crate::index_folder::{ASIDE_PREFIX, FOLDER_PREFIX, entries, remove_folder};
use crate::lexical;
use crate::private_files;

const COUNT_FILE: &str = "rebuilds";
const COUNT_FORMAT: &str = "rebuilds 1";

/// Sets the index of a project aside: processes that open it from now on build a new one.
pub fn set_index_aside(cache: &Path, store: &str, key: &ProjectKey) -> io::Result<()> {
    let project = cache.join(cache_dir_name(store, key));
    private_files::create_folder(&project)?;
    let count = requested_rebuilds(&project).wrapping_add(1);
    checksummed_file::write_shared(&project.join(COUNT_FILE), COUNT_FORMAT, &count.to_le_bytes())
}

/// Removes all index folders of a project. A process that has one open starts an empty one with its
/// next change.
pub(crate) fn erase_folders(project: &Path) -> io::Result<()> {
    // Again, because a process may have copied a folder meanwhile.
    for _ in 0..2 {
        let listed = match entries(project) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listed => listed?,
        };
        for (name, path) in listed {
            if !name.starts_with(FOLDER_PREFIX) && !name.starts_with(ASIDE_PREFIX) {
                continue;
            }
            // Renamed first, so that its process cannot add a file.
            let erased = project.join(format!("{ASIDE_PREFIX}erased-{name}"));
            remove_folder(&erased)?;
            match fs::rename(path, &erased) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => {
                    renamed?;
                    remove_folder(&erased)?;
                }
            }
        }
    }
    Ok(())
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
