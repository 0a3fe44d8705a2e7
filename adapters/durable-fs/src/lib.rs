//! Writes files atomically, durably and privately; used by all crates that write to disk.
//!
//! Code that differs between operating systems is in `system`.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub mod commit_counter;
pub mod folder;
mod system;

/// The contents that survive a power cut after [`atomic_write`] has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// None. For caches that validate their contents.
    Cache,
    /// Either the old or the new contents, complete.
    Contents,
    /// The new contents.
    Full,
}

/// Options of [`atomic_write`].
#[derive(Debug, Clone, Copy)]
pub struct AtomicWrite<'a> {
    /// Prefix of the temporary file's name in the target's directory. Callers use it to find the
    /// temporary files of killed processes.
    pub temp_prefix: &'a OsStr,
    pub durability: Durability,
    /// Makes a new file accessible to its owner only. An existing file keeps its mode and owner.
    pub is_private: bool,
}

/// Returns the first path that is a link, a pipe or a device. In a cloned repository, a pipe would
/// block a process, and a link would lead out of the repository. Missing files are fine.
pub fn find_special_file<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Option<P> {
    paths.into_iter().find(|path| match path.as_ref().symlink_metadata() {
        Ok(metadata) => !metadata.is_file() && !metadata.is_dir(),
        // Opening it will report the error.
        Err(_) => false,
    })
}

/// Replaces or creates a file. Readers see either the old contents or the new ones.
pub fn atomic_write(path: &Path, contents: &[u8], options: AtomicWrite<'_>) -> io::Result<()> {
    let dir = parent_dir(path);
    let old = match fs::metadata(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut temp = tempfile::Builder::new();
    temp.prefix(options.temp_prefix);
    // Until it gets the old file's mode, the new file must not be readable by more users.
    set_temp_mode(&mut temp, if options.is_private || old.is_some() { 0o600 } else { 0o666 });
    // In the target's directory, because a rename can't cross file systems.
    let mut temp = temp.tempfile_in(dir)?;
    temp.write_all(contents)?;
    if let Some(old) = old {
        keep_mode_and_owner(&old, temp.as_file())?;
    }
    // Before the rename: otherwise a power cut may leave the new name with partial contents.
    if options.durability != Durability::Cache {
        temp.as_file().sync_all()?;
    }
    temp.persist(path)?;
    // The rename changes the directory, whose new entry is on disk only after this.
    if options.durability == Durability::Full {
        sync_dir(dir)?;
    }
    Ok(())
}

/// Gives a new file the mode of the old one and, if this process may change it, the owner.
pub fn keep_mode_and_owner(old: &Metadata, new: &File) -> io::Result<()> {
    // Only root may change the owner. Without that right the write is still worth more.
    let _ = system::keep_owner(old, new);
    // After the owner, because changing the owner may clear bits of the mode.
    new.set_permissions(old.permissions())
}

/// The directory that holds `path`; `.` for a bare file name.
pub fn parent_dir(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

/// Sets the mode of files and directories that the builder creates. Windows has no modes: they get
/// the rights of their directory.
pub fn set_temp_mode(temp: &mut tempfile::Builder<'_, '_>, mode: u32) {
    system::set_temp_mode(temp, mode);
}

/// Opens an existing file to sync it.
pub fn open_to_sync(path: &Path) -> io::Result<File> {
    system::open_to_sync(path)
}

/// Syncs a directory, so that created, renamed and removed names survive a power cut.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    system::sync_dir(path)
}

/// Reads at an offset. The position of the handle may change.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    system::read_exact_at(file, bytes, offset)
}

/// Writes at an offset. The position of the handle may change.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    system::write_all_at(file, bytes, offset)
}

/// False on Windows, where [`sync_file_system`] does nothing and each file must be synced.
pub const SYNCS_FILE_SYSTEMS: bool = cfg!(unix);

/// Syncs the whole file system that holds `dir`, if [`SYNCS_FILE_SYSTEMS`].
pub fn sync_file_system(dir: &File) -> io::Result<()> {
    system::sync_file_system(dir)
}

/// Creates a directory and its missing parents, accessible to their owner only. Returns the
/// directories that the caller must sync for them to survive a power cut.
pub fn create_private_dirs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let path = std::path::absolute(path)?;
    let missing = path.ancestors().take_while(|dir| fs::symlink_metadata(dir).is_err()).count();
    if missing == 0 {
        return Ok(Vec::new());
    }
    private_dirs().create(&path)?;
    // The entry of the topmost new directory is in its parent, which existed.
    Ok(path.ancestors().take(missing + 1).map(Path::to_owned).collect())
}

/// Creates directories with their missing parents, accessible to their owner only.
pub fn private_dirs() -> DirBuilder {
    system::private_dirs()
}

/// Options to create a file that is accessible to its owner only.
pub fn owner_only_options() -> OpenOptions {
    system::owner_only_file()
}

/// Like [`owner_only_options`], without following a symbolic link.
pub fn private_open_options() -> OpenOptions {
    system::private_file()
}

/// Removes the access of all users but the owner. Leaves a symbolic link as it is.
pub fn make_private(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    // Changing the mode would follow the link to a file elsewhere.
    if metadata.is_symlink() || is_private(&metadata) {
        return Ok(());
    }
    system::make_private(path, &metadata)
}

/// True if only the owner has access. On Windows always, because the directory decides.
pub fn is_private(metadata: &Metadata) -> bool {
    system::is_private(metadata)
}

/// True if both files belong to the same user, as far as the owner protects them.
pub fn have_same_owner(one: &Metadata, other: &Metadata) -> bool {
    system::have_same_owner(one, other)
}

/// Returns device and inode, which are equal for all paths to the same file. `metadata` is that of
/// the file at `path`.
pub fn file_id(path: &Path, metadata: &Metadata) -> io::Result<(u64, u64)> {
    system::file_id(path, metadata)
}

/// Like [`folder::unique_file_id`], of the file at `path` with this metadata.
pub fn unique_path_id(path: &Path, metadata: &Metadata) -> io::Result<(u64, u128)> {
    system::unique_path_id(path, metadata)
}

/// True if the file at the path is this open one.
pub fn is_same_file(open: &File, path: &Path) -> io::Result<bool> {
    Ok(system::open_file_id(open)? == system::file_id(path, &fs::metadata(path)?)?)
}

/// True if the file has more than one name.
pub fn has_hard_links(path: &Path, metadata: &Metadata) -> bool {
    system::has_hard_links(path, metadata)
}

/// True if `path` is on a network file system, whose locks and syncs are not reliable.
pub fn is_network_fs(path: &Path) -> io::Result<bool> {
    system::is_network_fs(path)
}

/// Opens the directory at an absolute path; `None` if any part of the path is a symbolic link.
pub fn open_dir_without_links(path: &Path) -> io::Result<Option<File>> {
    system::open_dir_without_links(path)
}

/// Locks a file or directory exclusively until it is closed; false if another handle has the lock.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Fails if this process may not create files in a directory.
pub fn check_writable(dir: &Path) -> io::Result<()> {
    system::check_writable(dir)
}

/// Opens a handle to lock a directory. Creates no lock file, except on Windows, where only files
/// have locks.
pub fn open_dir_to_lock(path: &Path) -> io::Result<File> {
    system::open_dir_to_lock(path)
}

/// Locks a directory until the result is dropped; `None` if another handle has the lock. The kernel
/// releases the lock of a killed process.
pub fn try_lock_dir(path: &Path) -> io::Result<Option<File>> {
    let dir = open_dir_to_lock(path)?;
    Ok(try_lock(&dir)?.then_some(dir))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, contents: &[u8], is_private: bool) -> io::Result<()> {
        let (temp_prefix, durability) = (OsStr::new(".test-"), Durability::Full);
        atomic_write(path, contents, AtomicWrite { temp_prefix, durability, is_private })
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn atomic_write_keeps_mode_of_existing_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        for is_private in [false, true] {
            write(&path, b"new", is_private).unwrap();
            assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), 0o640));
        }
        let new = dir.path().join("new");
        write(&new, b"", true).unwrap();
        assert_eq!(mode(&new), 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "a temporary file is left");
    }

    #[test]
    fn atomic_write_failure_leaves_target_and_no_temp_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("directory");
        fs::create_dir_all(target.join("inner")).unwrap();
        write(&target, b"new", false).unwrap_err();
        assert!(target.join("inner").is_dir());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn create_private_dirs_returns_directories_to_sync() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("a"), dir.path().join("a/b"));
        let to_sync = create_private_dirs(&inner).unwrap();
        assert_eq!(to_sync, [inner.clone(), outer.clone(), dir.path().to_owned()]);
        assert_eq!((mode(&outer), mode(&inner)), (0o700, 0o700));
        assert_eq!(create_private_dirs(&inner).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn make_private_keeps_owner_bits_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o754)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        make_private(&link).unwrap();
        assert_eq!(mode(&path), 0o754);
        private_open_options().read(true).open(&link).unwrap_err();
        make_private(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        assert!(is_private(&fs::metadata(&path).unwrap()));
    }

    #[test]
    fn directory_lock_is_exclusive_until_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let lock = try_lock_dir(dir.path()).unwrap();
        assert!(lock.is_some());
        assert!(try_lock_dir(dir.path()).unwrap().is_none());
        drop(lock);
        assert!(try_lock_dir(dir.path()).unwrap().is_some());
    }

    #[test]
    fn open_dir_without_links_rejects_link_in_any_part() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/inner")).unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        for (path, is_open) in
            [("real", true), ("real/inner", true), ("link", false), ("link/inner", false)]
        {
            for open in [open_dir_without_links, system::open_dir_and_compare_path] {
                let opened = open(&base.join(path)).unwrap();
                assert_eq!(opened.is_some(), is_open, "{path}");
            }
        }
        for open in [open_dir_without_links, system::open_dir_and_compare_path] {
            let error = open(&base.join("missing")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn local_directory_is_not_on_network_fs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let open = File::open(&path).unwrap();
        assert!(!is_network_fs(&path).unwrap());
        assert!(is_same_file(&open, &path).unwrap());
        assert!(!is_same_file(&open, Path::new("/")).unwrap());
        sync_file_system(&open).unwrap();
    }
}
