//! Who may read and write what.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqlore_storage_fs::check_writable;

use super::finding::{Area, Findings};
use super::shown;
use crate::config::Config;
use crate::storage::{LOCAL, Storage};

/// What is secret in the folder of what is this machine's alone.
const SECRET: [&str; 5] = ["identity.json", "audit", "reqlore.db", "reqlore.db-wal", "sled"];
const OTHERS: u32 = 0o077;

pub(super) fn look(config: &Config, findings: &mut Findings) {
    let before = findings.count_of(Area::Permissions);
    writable(config, findings);
    private(&config.root, findings);
    if let Some(cache) = &config.cache
        && let Err(error) = check(cache)
    {
        findings.warning(
            Area::Permissions,
            format!("the cache {} can't be written: {error}", shown(cache)),
            "every start builds the index anew; name another folder with REQLORE_CACHE",
        );
    }
    if findings.count_of(Area::Permissions) == before {
        findings.ok(Area::Permissions, "what has to be written can be, and secrets are private");
    }
}

fn writable(config: &Config, findings: &mut Findings) {
    if config.read_only {
        return;
    }
    let folder = match &config.storage {
        Storage::Sqlite(file) => file.parent().unwrap_or(file),
        Storage::Fs(folder) | Storage::Sled(folder) => folder,
    };
    if let Err(error) = check(folder) {
        findings.problem(
            Area::Permissions,
            format!("{} can't be written: {error}", shown(folder)),
            "give yourself the right to write there, or serve with --read-only",
        );
    }
}

/// May the folder be written to, or else be made?
fn check(folder: &Path) -> io::Result<()> {
    match folder.ancestors().find(|folder| folder.symlink_metadata().is_ok()) {
        Some(there) if !there.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        Some(there) => check_writable(there),
        None => Ok(()),
    }
}

fn private(root: &Path, findings: &mut Findings) {
    let local = root.join(LOCAL);
    let found = match local.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            let message = format!("{LOCAL} can't be looked at: {error}");
            let next = "give yourself the right to it";
            return findings.problem(Area::Permissions, message, next);
        }
        Ok(found) => found,
    };
    if !found.is_dir() {
        return findings.problem(
            Area::Permissions,
            format!("{LOCAL} is a symbolic link or a file where a folder must be"),
            "remove it; the server makes the folder",
        );
    }
    open_to_others(LOCAL, &found, 700, findings);
    for name in SECRET {
        if let Ok(found) = local.join(name).symlink_metadata() {
            let mode = if found.is_dir() { 700 } else { 600 };
            open_to_others(&format!("{LOCAL}/{name}"), &found, mode, findings);
        }
    }
}

fn open_to_others(name: &str, found: &Metadata, mode: u32, findings: &mut Findings) {
    if !found.is_symlink() && found.permissions().mode() & OTHERS != 0 {
        findings.warning(
            Area::Permissions,
            format!("others than its owner may use {name}"),
            &format!("run `chmod {mode} {name}` in the project, and ask who read it meanwhile"),
        );
    }
}
