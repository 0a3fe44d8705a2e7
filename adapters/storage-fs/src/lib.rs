//! Stores documents as Markdown files beneath one root, which editors and Git use as well.
//!
//! A write is one commit under a lock on the project's root folder: read, decide, stage complete
//! files, sync, exchange, check the old files, sync the folder, respond. Editors take no locks; the
//! check after the exchange detects a save in between. The kernel resolves paths beneath the root's
//! handle; path strings are never compared. A section must not be a symbolic link. AGENTS.md may
//! be a link to a file inside the root.
//!
//! The store itself needs Unix. Other systems only find and resolve projects.

#[cfg(unix)]
mod archive;
#[cfg(unix)]
mod claims;
#[cfg(unix)]
mod clone_numbers;
#[cfg(unix)]
mod commit;
mod config;
#[cfg(unix)]
mod failpoint;
mod folder_names;
#[cfg(unix)]
mod history;
#[cfg(unix)]
mod images;
#[cfg(target_os = "linux")]
mod inotify;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "inotify_unsupported.rs"]
mod inotify;
#[cfg(unix)]
mod journal;
#[cfg(unix)]
mod layout;
#[cfg(unix)]
mod list_files;
#[cfg(unix)]
mod lock;
#[cfg(unix)]
mod metadata_index;
#[cfg(unix)]
mod open_indexes;
#[cfg(unix)]
mod project_cache;
mod projects;
#[cfg(unix)]
mod read_file;
mod root_search;
#[cfg(unix)]
mod sequence;
#[cfg(unix)]
mod sparse_checkout;
#[cfg(unix)]
mod stage_and_swap;
#[cfg(unix)]
mod stale_temp_files;
#[cfg(unix)]
mod store;
#[cfg(unix)]
mod store_inner;
mod system;
mod system_folders;
#[cfg(unix)]
mod team;
#[cfg(unix)]
mod two_threads;
#[cfg(unix)]
mod unread_files;
#[cfg(unix)]
mod watch_events;

pub use config::Config;
pub use projects::FsProjects;
pub use root_search::{FoundRoot, RootSearch};
#[cfg(unix)]
pub use store::{FsStore, create_local_state_dir};
pub use system_folders::is_system_folder;

#[cfg(unix)]
#[cfg(test)]
mod tests;
