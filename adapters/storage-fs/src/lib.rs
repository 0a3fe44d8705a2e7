//! Stores documents as Markdown files beneath one root, which editors and Git use as well.
//!
//! A write is one commit under a lock on the project's root folder: read, decide, stage complete
//! files, sync, exchange, check the old files, sync the folder, respond. Editors take no locks; the
//! check after the exchange detects a save in between. The kernel resolves paths beneath the root's
//! handle; path strings are never compared. A section must not be a symbolic link. AGENTS.md may
//! be a link to a file inside the root.

mod archive;
mod claims;
mod clone_numbers;
mod commit;
mod config;
mod failpoint;
mod file_stamp;
mod folder_names;
mod history;
mod images;
#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
#[path = "inotify_unsupported.rs"]
mod inotify;
mod journal;
mod layout;
mod list_files;
mod lock;
mod metadata_index;
mod open_indexes;
mod project_cache;
mod projects;
mod read_file;
mod root_search;
mod sequence;
mod sparse_checkout;
mod stage_and_swap;
mod stale_temp_files;
mod store;
mod store_inner;
mod system;
mod system_folders;
mod team;
mod two_threads;
mod unread_files;
mod watch_events;

pub use config::Config;
pub use projects::FsProjects;
pub use root_search::{FoundRoot, RootSearch};
pub use store::{FsStore, create_local_state_dir};
pub use system_folders::is_system_folder;

#[cfg(test)]
mod tests;
