//! What decides where clients' files lie, for the commands that look at them.
//!
//! It needs none of the settings but the root: these commands are for those whose settings may be
//! wrong, so no configuration file is read here.

use std::path::PathBuf;

use reqlore_client_config::{Platform, Surroundings};

use crate::Failure;
use crate::config::{existing, variable};
use crate::settings::Flags;

/// The project is the root that a server started here would have.
pub(crate) fn surroundings(flags: &Flags) -> Result<Surroundings, Failure> {
    let root = flags.root.clone().or_else(|| variable("REQLORE_ROOT").map(PathBuf::from));
    let project = existing(&root.unwrap_or_else(|| PathBuf::from(".")))?;
    let home = variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute()).ok_or_else(|| {
        Failure::refused("HOME names no folder; set it to yours, clients' files are found from it")
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
