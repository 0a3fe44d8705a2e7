//! Files that init edits: where links lead, what is in them, and atomic replacement.
//!
//! A cloned repository may contain links. A project's file is written only inside the project.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};

use crate::commands::untrusted_text;
use crate::storage::resolved;

const MAX_BYTES: u64 = 64 * 1024 * 1024;
const MAX_LINKS: usize = 32;
const GROUP_AND_OTHERS: u32 = 0o077;

/// A file before it is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetFile {
    /// The path behind all links.
    pub(super) path: PathBuf,
    /// `None` if there is no file.
    pub(super) text: Option<String>,
}

/// Reads a file; links may not lead out of `within`. Errors do not name the file.
pub(super) fn open(path: &Path, within: Option<&Path>) -> Result<TargetFile, String> {
    let path = link_target(path)?;
    if within.is_some_and(|folder| !path.starts_with(folder)) {
        return Err(format!(
            "it is a link that leads out of the project, to {}; make it a file of the project",
            path.display()
        ));
    }
    if path.to_str().is_none() {
        return Err("it is a link to a file whose name is not UTF-8; rename that".into());
    }
    let text = read(&path)?;
    Ok(TargetFile { path, text })
}

pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    untrusted_text::read(path, MAX_BYTES)
}

/// Follows links, including one to a file that does not exist yet.
fn link_target(path: &Path) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else {
            let resolved = resolved(&path);
            let is_dangling = resolved.components().any(|part| part == Component::ParentDir);
            return if is_dangling { Err("it is a dangling link".into()) } else { Ok(resolved) };
        };
        path = path.parent().map_or(next.clone(), |folder| folder.join(&next));
    }
    Err("it is a link to itself".into())
}

/// Refuses read-only files and folders, although a rename would replace such a file.
pub(super) fn check_writable(target: &Path) -> Result<(), String> {
    let is_read_only = |path: &Path| fs::metadata(path).is_ok_and(|m| m.permissions().readonly());
    if is_read_only(target) {
        return Err("it is read-only; make it writable with chmod u+w".into());
    }
    let mut folders = target.ancestors().skip(1);
    match folders.find(|folder| fs::metadata(folder).is_ok()) {
        Some(folder) if !folder.is_dir() => {
            Err(format!("{} is not a folder; move it away", folder.display()))
        }
        Some(folder) if is_read_only(folder) => Err(format!(
            "its folder {} is read-only; make it writable with chmod u+w",
            folder.display()
        )),
        _ => Ok(()),
    }
}

/// The missing folders of a file, the outermost first.
pub(super) fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let folders = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let missing = folders.take_while(|folder| fs::metadata(folder).is_err());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Replaces the whole text atomically and durably. Mode and owner of an existing file stay; a new
/// one is private if its folder is, or if `is_private`.
pub(super) fn replace(target: &Path, text: &str, is_private: bool) -> io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let before = fs::metadata(target).ok();
    let is_private = is_private || before.is_some();
    let mut file = tempfile::Builder::new()
        .prefix(&temporary_prefix(target))
        .permissions(Permissions::from_mode(if is_private { 0o600 } else { 0o666 }))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Some(before) = before {
        let now = file.as_file().metadata()?;
        if (before.uid(), before.gid()) != (now.uid(), now.gid()) {
            // Only root may change owners; without that right the new text is still written.
            let _ = fchown(file.as_file(), Some(before.uid()), Some(before.gid()));
        }
        file.as_file().set_permissions(before.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}

/// Removes the temporary files of an interrupted [`replace`].
pub(super) fn remove_leftovers(target: &Path) {
    let prefix = temporary_prefix(target);
    let entries = target.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn temporary_prefix(target: &Path) -> OsString {
    let mut prefix = OsString::from(".reqlore-");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push("-");
    prefix
}

pub(super) fn is_private(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & GROUP_AND_OTHERS == 0)
}
