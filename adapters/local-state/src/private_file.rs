//! Files and folders that only this user may access, opened without following links.
//!
//! These files decide what users and tokens may do. An untrusted file is rejected, not ignored:
//! otherwise the next write would replace all users with an empty list.

use std::fs::{File, Metadata};
use std::io::{self, Write};

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs::folder::{
    FileAccess, OpenedFile, create_file, open_file, open_file_has_hard_links, remove_file, rename,
    sync_folder,
};
use reqlore_durable_fs::is_private;

use crate::error::{failed, not_written, refused};
use crate::{LOCAL_STATE_DIR, file_identity, system};

/// Opens `.reqlore/local` to read; `None` if it is missing or a link.
pub fn local_folder(root: &Dir) -> StoreResult<Option<Dir>> {
    match crate::open_existing(root) {
        Ok(Some(local)) => check_folder(root, local).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(failed(LOCAL_STATE_DIR, "open it", error)),
    }
}

/// Opens `.reqlore/local` to write. Creates it if needed and removes the rights of other users.
pub fn writable_local_folder(root: &Dir) -> StoreResult<Dir> {
    let local = check_folder(root, crate::open_or_create(root)?)?;
    system::make_folder_private(&local)
        .map_err(|error| not_written(LOCAL_STATE_DIR, "remove other users' rights", error))?;
    Ok(local)
}

/// Rejects a folder that another user with write access to the project may have created.
fn check_folder(root: &Dir, local: Dir) -> StoreResult<Dir> {
    let is_ours = system::is_own_folder(&local, root)
        .map_err(|error| failed(LOCAL_STATE_DIR, "inspect it", error))?;
    if is_ours { Ok(local) } else { Err(owned_by_another_user(LOCAL_STATE_DIR)) }
}

fn owned_by_another_user(subject: &str) -> StoreError {
    refused(subject, "belongs to another user; run this as that user, or move it away")
}

/// An open file and the identity that its content must begin with.
#[derive(Debug)]
pub struct IdentifiedFile {
    pub file: File,
    pub metadata: Metadata,
    pub identity: String,
}

/// A file in `.reqlore/local`.
#[derive(Debug, Clone, Copy)]
pub struct PrivateFile<'a> {
    pub(crate) dir: &'a Dir,
    pub(crate) name: &'a str,
}

impl<'a> PrivateFile<'a> {
    pub fn new(local: &'a Dir, name: &'a str) -> Self {
        Self { dir: local, name }
    }

    pub(crate) fn display_path(&self) -> String {
        format!("{LOCAL_STATE_DIR}/{}", self.name)
    }

    /// Opens the file to read after `check`. The caller must still compare its identity.
    pub fn open(&self) -> StoreResult<Option<IdentifiedFile>> {
        self.open_with(FileAccess::Read)
    }

    /// Like [`Self::open`], to append.
    pub fn open_to_append(&self) -> StoreResult<Option<IdentifiedFile>> {
        self.open_with(FileAccess::Append)
    }

    fn open_with(&self, access: FileAccess) -> StoreResult<Option<IdentifiedFile>> {
        let file = match open_file(self.dir, self.name, access) {
            Ok(OpenedFile::File(file)) => file,
            Ok(OpenedFile::Missing) => return Ok(None),
            // It could lead to another project's file.
            Ok(OpenedFile::Link) => return Err(self.refused(IS_LINK)),
            Err(error) => return Err(self.failed("open it", error)),
        };
        let inspected = file.metadata().and_then(|metadata| {
            let has_hard_links = open_file_has_hard_links(&file, &metadata)?;
            let identity = file_identity(&file, &metadata)?;
            Ok((has_hard_links, IdentifiedFile { file, metadata, identity }))
        });
        let (has_hard_links, opened) =
            inspected.map_err(|error| self.failed("inspect it", error))?;
        self.check(&opened.metadata, has_hard_links)?;
        Ok(Some(opened))
    }

    /// Rejects a file that another user may have written or can read.
    pub(crate) fn check(&self, metadata: &Metadata, has_hard_links: bool) -> StoreResult<()> {
        if metadata.is_symlink() {
            return Err(self.refused(IS_LINK));
        }
        if !metadata.is_file() {
            return Err(self.refused("is not a regular file; remove it"));
        }
        if !system::is_own_file(metadata, self.dir) {
            return Err(owned_by_another_user(&self.display_path()));
        }
        if !is_private(metadata) {
            let reason = format!(
                "is accessible to other users; check whether it was changed, then run \
                 `chmod 600 {}`",
                self.display_path()
            );
            return Err(self.refused(&reason));
        }
        if has_hard_links {
            return Err(self.refused("has more than one hard link; remove the other links"));
        }
        Ok(())
    }

    /// Creates and syncs the file and returns its identity. `content` builds the bytes from it.
    pub fn create(&self, content: impl FnOnce(&str) -> io::Result<Vec<u8>>) -> StoreResult<String> {
        self.write_new(content).map_err(|error| self.not_written("write it", error))
    }

    fn write_new(&self, content: impl FnOnce(&str) -> io::Result<Vec<u8>>) -> io::Result<String> {
        let mut file = create_file(self.dir, self.name, 0o600)?;
        system::set_mode_and_owner(&file, self.dir)?;
        let identity = file_identity(&file, &file.metadata()?)?;
        file.write_all(&content(&identity)?)?;
        file.sync_all()?;
        Ok(identity)
    }

    /// Renames the file, replaces a file with the new name, and syncs the folder.
    pub fn rename(&self, name: &str) -> StoreResult<()> {
        // The sync makes the new name survive a power cut.
        let renamed = rename(self.dir, self.name, name);
        let target = PrivateFile { dir: self.dir, name };
        renamed
            .and_then(|()| sync_folder(self.dir))
            .map_err(|error| target.not_written("put it in place", error))
    }

    /// Removes the file if it is there.
    pub fn remove(&self) -> StoreResult<()> {
        match remove_file(self.dir, self.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.not_written("remove it", error))
            }
            _ => Ok(()),
        }
    }

    pub fn failed(&self, doing: &str, error: io::Error) -> StoreError {
        failed(&self.display_path(), doing, error)
    }

    pub(crate) fn not_written(&self, doing: &str, error: io::Error) -> StoreError {
        not_written(&self.display_path(), doing, error)
    }

    pub(crate) fn refused(&self, reason: &str) -> StoreError {
        refused(&self.display_path(), reason)
    }

    /// The error of a file that contains another file's identity.
    pub(crate) fn foreign_identity(&self) -> StoreError {
        self.refused(
            "came with a clone or a copy and is rejected: anyone who can commit could add users \
             this way. Move it away and use `reqlore backup` and `reqlore restore`",
        )
    }
}

const IS_LINK: &str = "is a symbolic link; remove it. It was not followed";
