//! Side file of a database with its identity and its number of acknowledged commits.
//!
//! The database stores both as well. The file is written after the sync of a commit, without a sync
//! of its own: it may lag behind the database and is never ahead of it. So a database behind its
//! file lost acknowledged commits, and one with another identity does not belong to the file.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::private_open_options;

/// Random identity of a database. A copy in another storage gets its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreId(pub [u8; 16]);

impl StoreId {
    /// Fails if the operating system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The content of the file: identity, number of commits and a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitCounter {
    pub store: StoreId,
    /// The database contains at least this number of commits.
    pub commits: u64,
}

impl CommitCounter {
    const BYTES: usize = 28;

    /// `None` if the file is missing or damaged. Never follows a symbolic link.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match private_open_options().read(true).open(path) {
            Ok(file) => Self::read_file(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_file(file: &File) -> io::Result<Option<Self>> {
        if file.metadata()?.len() != Self::BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; Self::BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self::decode(&bytes))
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (commits, checksum) = rest.split_first_chunk()?;
        let counter = Self { store: StoreId(*id), commits: u64::from_be_bytes(*commits) };
        (counter.encode()[24..] == *checksum).then_some(counter)
    }

    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.store.0);
        bytes[16..24].copy_from_slice(&self.commits.to_be_bytes());
        // The checksum shows a write that was cut off.
        let checksum = crc32fast::hash(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

/// The open file of a [`CommitCounter`].
#[derive(Debug)]
pub struct CounterFile(File);

impl CounterFile {
    /// Opens the file, or creates it empty and accessible to its owner only.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = private_open_options();
        options.read(true).write(true).create(true).truncate(false);
        Ok(Self(options.open(path)?))
    }

    /// Replaces the content without a sync: one write of a few bytes.
    pub fn write(&self, counter: CommitCounter) -> io::Result<()> {
        self.0.write_all_at(&counter.encode(), 0)
    }

    /// Makes the last write durable.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_file_with_any_damage_holds_no_counter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acknowledged");
        assert_eq!(CommitCounter::read(&path).unwrap(), None);
        let file = CounterFile::open(&path).unwrap();
        assert_eq!(CommitCounter::read(&path).unwrap(), None, "it is empty");
        let store = StoreId::random().unwrap();
        assert_ne!(store, StoreId::random().unwrap());
        for commits in [u64::MAX, 7] {
            file.write(CommitCounter { store, commits }).unwrap();
            file.sync().unwrap();
            let read = CommitCounter::read(&path).unwrap();
            assert_eq!(read, Some(CommitCounter { store, commits }));
        }
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            for damaged in [&damaged[..], &bytes[..at]] {
                std::fs::write(&path, damaged).unwrap();
                assert_eq!(CommitCounter::read(&path).unwrap(), None, "{at}");
            }
        }
        std::fs::write(&path, [0; 28]).unwrap();
        assert_eq!(CommitCounter::read(&path).unwrap(), None, "zeroed");
    }

    #[test]
    fn counter_file_follows_no_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("target"), &link).unwrap();
        CounterFile::open(&link).unwrap_err();
        CommitCounter::read(&link).unwrap_err();
        std::fs::symlink_metadata(dir.path().join("target")).unwrap_err();
    }
}
