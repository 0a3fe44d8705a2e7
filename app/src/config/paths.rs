//! Paths in settings, and variables of the environment.

use std::path::{Component, Path, PathBuf};

use reqlore_domain::identity::redact_echo;
use reqlore_domain::unreplaced_variable::check_replaced;
use reqlore_storage_postgres::PasswordSources;

use crate::exit::{CommandError, Result};
use crate::system::{LOCAL_DATA_VARIABLE, PROFILE_VARIABLE};

/// Rejects a variable that was not replaced, and a URL where a path is expected. As a path a URL
/// would lose a slash, and messages mask a password only in a URL.
pub(crate) fn check_path(name: &str, text: &str) -> Result<()> {
    check_replaced(text).map_err(|error| CommandError::usage_error(format!("{name}: {error}")))?;
    if !text.contains("://") {
        return Ok(());
    }
    let shown = redact_echo(text);
    Err(CommandError::usage_error(format!("{name}: {shown:?} is a URL; pass a path")))
}

/// True if a path stays in the resolved folder, also after all its links.
pub(crate) fn is_inside(path: &Path, folder: &Path) -> bool {
    let mut has_parent = false;
    for part in path.components() {
        has_parent |= part == Component::ParentDir;
    }
    // A missing folder before `..` can't be resolved. Its target is not known yet.
    if has_parent {
        return dunce::canonicalize(path).is_ok_and(|path| path.starts_with(folder));
    }
    for part in path.ancestors() {
        // The file that it leads to would be created there.
        if part.is_symlink() && dunce::canonicalize(part).is_err() {
            return false;
        }
    }
    resolve_links(path).starts_with(folder)
}

/// Resolves symbolic links in the existing part of a path.
pub(crate) fn resolve_links(place: &Path) -> PathBuf {
    if let Ok(resolved) = dunce::canonicalize(place) {
        return resolved;
    }
    match (place.parent(), place.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent).join(name),
        _ => place.to_owned(),
    }
}

/// Reads an environment variable; `None` if it is empty, or a relative path to a folder of the
/// user, which the XDG specification ignores.
#[expect(clippy::disallowed_methods, reason = "all other code takes settings as values")]
pub(crate) fn env_variable(name: &str) -> Option<String> {
    let is_folder =
        matches!(name, "HOME" | "USERPROFILE" | "LOCALAPPDATA") || name.starts_with("XDG_");
    std::env::var(name)
        .ok()
        .filter(|value| !value.is_empty() && (!is_folder || Path::new(value).is_absolute()))
}

/// The user's home folder.
pub(crate) fn home_folder() -> Option<PathBuf> {
    folder_variable(Some("HOME")).or_else(|| folder_variable(PROFILE_VARIABLE))
}

/// The folder of the user's caches and state on Windows.
pub(crate) fn local_data_folder() -> Option<PathBuf> {
    folder_variable(LOCAL_DATA_VARIABLE)
}

fn folder_variable(name: Option<&str>) -> Option<PathBuf> {
    env_variable(name?).map(PathBuf::from)
}

/// Rejects a database on Windows that other users of the machine may read: its files get the rights
/// of their folder, and only those of the user's profile are known.
pub(crate) fn check_private_place(file: &Path) -> Result<()> {
    let Some(name) = PROFILE_VARIABLE else { return Ok(()) };
    let profile = folder_variable(PROFILE_VARIABLE).map(|folder| resolve_links(&folder));
    if profile.is_some_and(|profile| resolve_links(file).starts_with(profile)) {
        return Ok(());
    }
    Err(CommandError::usage_error(format!(
        "storage: other users may read {}, which is not below {name}; move it there, or use \
         --transport stdio",
        file.display()
    )))
}

/// Passwords of databases, from the variables that their own programs use.
pub(crate) fn password_sources() -> PasswordSources {
    PasswordSources {
        password: env_variable("PGPASSWORD"),
        password_file: env_variable("PGPASSFILE").map(PathBuf::from),
        home: home_folder(),
    }
}
