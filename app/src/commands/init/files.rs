//! Files of others: where links lead, what stands there, and a new text in the place of the old.
//!
//! Trap: a repository that somebody cloned may hold links. A file of the project is only written
//! where it lies in the project.

use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};

use crate::storage::resolved;

/// No configuration is longer.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
const MAX_LINKS: usize = 32;
/// What a mode gives to others than the owner.
const OTHERS: u32 = 0o077;

/// A file as it is before anything is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Where links lead.
    pub(super) target: PathBuf,
    /// `None` where there is no file.
    pub(super) text: Option<String>,
}

/// Looks at a file; `within` is the folder that links may not lead out of. The reason is a sentence
/// without the file's name.
pub(super) fn see(path: &Path, within: Option<&Path>) -> Result<Seen, String> {
    let target = target(path)?;
    if within.is_some_and(|folder| !target.starts_with(folder)) {
        let target = target.display();
        return Err(format!(
            "it is a link that leads out of the project, to {target}; make it a file of the project"
        ));
    }
    if target.to_str().is_none() {
        return Err("it is a link to a file whose name is no UTF-8; rename that".into());
    }
    let text = read(&target)?;
    Ok(Seen { target, text })
}

/// Follows links, also one that leads to a file which is not there yet.
fn target(path: &Path) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else {
            let resolved = resolved(&path);
            let climbs = resolved.components().any(|part| part == Component::ParentDir);
            return if climbs {
                Err("it is a link that leads nowhere".into())
            } else {
                Ok(resolved)
            };
        };
        path = path.parent().map_or(next.clone(), |folder| folder.join(&next));
    }
    Err("it is a link that leads to itself".into())
}

/// The text of a file; `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("it can't be looked at: {error}")),
    };
    if !metadata.is_file() {
        return Err("it is no file; move it away".into());
    }
    let unreadable = |error: io::Error| format!("it can't be read: {error}");
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {} MB", MAX_BYTES >> 20));
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| "it is no UTF-8 text; save it as UTF-8".into())
}

/// May it be written? A file that can't be is somebody's wish, though a rename would get round it.
pub(super) fn check_writable(target: &Path) -> Result<(), String> {
    for path in target.ancestors() {
        let Ok(metadata) = fs::metadata(path) else { continue };
        if path == target {
            if metadata.permissions().readonly() {
                return Err("it is read-only; make it writable with chmod u+w".into());
            }
            continue;
        }
        let path = path.display();
        return match metadata.permissions() {
            _ if !metadata.is_dir() => Err(format!("{path} is no folder; move it away")),
            mode if mode.readonly() => {
                Err(format!("its folder {path} is read-only; make it writable with chmod u+w"))
            }
            _ => Ok(()),
        };
    }
    Ok(())
}

/// The folders that are missing for a file, the outermost first.
pub(super) fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let folders = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let mut missing: Vec<PathBuf> =
        folders.take_while(|folder| fs::metadata(folder).is_err()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Puts a whole text in the place of a file, never a part of it. Mode and owner stay.
pub(super) fn replace(target: &Path, text: &str, is_private: bool) -> io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let before = fs::metadata(target).ok();
    let mode = if is_private || before.is_some() { 0o600 } else { 0o666 };
    let mut file = tempfile::Builder::new()
        .prefix(&unfinished(target))
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Some(before) = before {
        keep(&before, file.as_file())?;
    }
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}

/// Removes what a write that was interrupted left beside the file.
pub(super) fn clear(target: &Path) {
    let unfinished = unfinished(target);
    let folder = target.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in folder.into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(unfinished.as_encoded_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// How the name of a new text begins until it is whole, so that it is found after a crash.
fn unfinished(target: &Path) -> OsString {
    let mut name = OsString::from(".reqlore-");
    name.push(target.file_name().unwrap_or_default());
    name.push("-");
    name
}

fn keep(before: &Metadata, file: &fs::File) -> io::Result<()> {
    let now = file.metadata()?;
    if (before.uid(), before.gid()) != (now.uid(), now.gid()) {
        // Only the system's administrator may give files away; the text is worth more than that.
        let _ = fchown(file, Some(before.uid()), Some(before.gid()));
    }
    file.set_permissions(before.permissions())
}

/// Is a folder for its owner alone?
pub(super) fn is_private(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & OTHERS == 0)
}
