//! What decides where clients' files and programs lie, for the commands that look at them.
//!
//! It needs none of the settings but the root: these commands are for those whose settings may be
//! wrong, so no configuration file is read here.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqlore_client_config::{Platform, Surroundings};

use crate::config::{existing, variable};
use crate::exit::CommandError;
use crate::settings::Flags;

/// The project is the root that a server started here would have.
pub(crate) fn surroundings(flags: &Flags) -> Result<Surroundings, CommandError> {
    let root = flags.root.clone().or_else(|| variable("REQLORE_ROOT").map(PathBuf::from));
    let project = existing(&root.unwrap_or_else(|| PathBuf::from(".")))?;
    let home = variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute()).ok_or_else(|| {
        CommandError::refused(
            "HOME names no folder; set it to yours, clients' files are found from it",
        )
    })?;
    let path = variable("PATH").unwrap_or_default();
    let value = |name: &str| Some((name.to_owned(), variable(name)?));
    Ok(Surroundings {
        project,
        home,
        platform: platform(),
        path: std::env::split_paths(&path).collect(),
        variables: Surroundings::VARIABLES.iter().copied().filter_map(value).collect(),
    })
}

fn platform() -> Platform {
    if cfg!(windows) {
        Platform::Windows
    } else if cfg!(target_os = "macos") {
        Platform::MacOs
    } else {
        Platform::Linux
    }
}

/// May the file be started?
pub(crate) fn is_program(path: &Path) -> bool {
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The top of the repository that holds a folder. A home that is one as well holds everything of a
/// person, and counts for none.
pub(crate) fn repository_around(folder: &Path) -> Option<PathBuf> {
    let home = variable("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
    let mut folders = folder.ancestors().take_while(|folder| home.as_deref() != Some(*folder));
    let is_top = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    folders.find(is_top).map(Path::to_owned)
}
