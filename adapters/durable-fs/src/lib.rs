//! Atomic, durable and private files, the same for every crate that writes to disk.
//!
//! Everything that differs between operating systems is in `unix.rs`, behind these functions.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[cfg(unix)]
#[path = "unix.rs"]
mod system;

/// What survives a power cut once [`atomic_write`] has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: for caches that verify what they read.
    Cache,
    /// Either the old or the new contents, complete.
    Contents,
    /// The new contents.
    Full,
}

/// How [`atomic_write`] writes.
#[derive(Debug, Clone, Copy)]
pub struct AtomicWrite<'a> {
    /// Start of the temporary file's name, in the target's directory. Callers that remove the
    /// leftovers of killed processes recognize them by it.
    pub temp_prefix: &'a OsStr,
    pub durability: Durability,
    /// A new file is readable by its owner only. An existing file keeps mode and owner.
    pub is_private: bool,
}

/// Replaces or creates a file. Readers see the old contents or the new ones, never a part.
pub fn atomic_write(path: &Path, contents: &[u8], options: AtomicWrite<'_>) -> io::Result<()> {
    let dir = parent(path);
    let old = match fs::metadata(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut temp = tempfile::Builder::new();
    temp.prefix(options.temp_prefix);
    temp.permissions(system::initial_permissions(options.is_private || old.is_some()));
    let mut temp = temp.tempfile_in(dir)?;
    temp.write_all(contents)?;
    if let Some(old) = old {
        keep_mode_and_owner(&old, temp.as_file())?;
    }
    if options.durability != Durability::Cache {
        temp.as_file().sync_all()?;
    }
    temp.persist(path)?;
    if options.durability == Durability::Full {
        sync_dir(dir)?;
    }
    Ok(())
}

/// Gives `file` the mode and, where the process may, the owner of another file.
pub fn keep_mode_and_owner(of: &Metadata, file: &File) -> io::Result<()> {
    // Only root may give files away. The contents are worth more than the owner.
    let _ = system::keep_owner(of, file);
    file.set_permissions(of.permissions())
}

/// The directory that holds `path`; `.` for a bare file name.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

/// Makes created, renamed and removed names of a directory survive a power cut.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes everything of the file system that holds `dir` to disk.
pub fn sync_file_system(dir: &File) -> io::Result<()> {
    system::sync_file_system(dir)
}

/// Creates a directory and its missing parents for their owner only. Returns the directories to
/// sync for them to survive a power cut: none if it existed.
pub fn create_private_dirs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let path = std::path::absolute(path)?;
    let is_missing = |dir: &&Path| fs::symlink_metadata(dir).is_err();
    let missing = path.ancestors().take_while(is_missing).count();
    if missing == 0 {
        return Ok(Vec::new());
    }
    system::private_dirs().create(&path)?;
    Ok(path.ancestors().take(missing + 1).map(Path::to_owned).collect())
}

/// Options to open a file that is not a symbolic link; one that is created is for its owner only.
pub fn private_file() -> OpenOptions {
    system::private_file()
}

/// Takes every access to a file or directory from all but its owner. Does not follow links.
pub fn make_private(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_symlink() || is_private(&found) {
        return Ok(());
    }
    fs::set_permissions(path, system::owner_only(&found))
}

/// True if only the owner has access.
pub fn is_private(metadata: &Metadata) -> bool {
    system::is_private(metadata)
}

/// Device and inode: equal for two paths to the same file.
pub fn file_id(metadata: &Metadata) -> (u64, u64) {
    system::file_id(metadata)
}

/// True if a file has a second name.
pub fn has_hard_links(metadata: &Metadata) -> bool {
    system::has_hard_links(metadata)
}

/// True if `path` is on a file system of another machine, whose locks and syncs are not reliable.
pub fn is_network_fs(path: &Path) -> io::Result<bool> {
    system::is_network_fs(path)
}

/// Opens the directory at an absolute path; `None` if any part of the path is a symbolic link.
pub fn open_dir_without_links(path: &Path) -> io::Result<Option<File>> {
    system::open_dir_without_links(path)
}

/// Locks a file or directory exclusively until it is closed; `false` if another handle has it.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Locks a directory until the file is dropped; `None` if another handle has it. No lock file is
/// created, and the kernel releases the lock of a killed process.
pub fn try_lock_dir(path: &Path) -> io::Result<Option<File>> {
    let dir = File::open(path)?;
    Ok(try_lock(&dir)?.then_some(dir))
}

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
    fn atomic_write_keeps_the_mode_of_an_existing_file() {
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
    fn atomic_write_that_fails_leaves_the_target_and_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("directory");
        fs::create_dir_all(target.join("inner")).unwrap();
        write(&target, b"new", false).unwrap_err();
        assert!(target.join("inner").is_dir());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn create_private_dirs_returns_the_directories_to_sync() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("a"), dir.path().join("a/b"));
        let to_sync = create_private_dirs(&inner).unwrap();
        assert_eq!(to_sync, [inner.clone(), outer.clone(), dir.path().to_owned()]);
        assert_eq!((mode(&outer), mode(&inner)), (0o700, 0o700));
        assert_eq!(create_private_dirs(&inner).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn make_private_keeps_the_owners_bits_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o754)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        make_private(&link).unwrap();
        assert_eq!(mode(&path), 0o754);
        private_file().read(true).open(&link).unwrap_err();
        make_private(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        assert!(is_private(&fs::metadata(&path).unwrap()));
    }

    #[test]
    fn a_directory_lock_excludes_others_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let lock = try_lock_dir(dir.path()).unwrap();
        assert!(lock.is_some());
        assert!(try_lock_dir(dir.path()).unwrap().is_none());
        drop(lock);
        assert!(try_lock_dir(dir.path()).unwrap().is_some());
    }

    #[test]
    fn open_dir_without_links_rejects_a_link_in_any_part_of_the_path() {
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
    fn a_directory_is_on_a_local_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let open = File::open(&path).unwrap();
        assert!(!is_network_fs(&path).unwrap());
        assert_eq!(file_id(&open.metadata().unwrap()), file_id(&fs::metadata(&path).unwrap()));
        sync_file_system(&open).unwrap();
    }
}
