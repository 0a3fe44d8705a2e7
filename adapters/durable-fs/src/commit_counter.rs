//! Side file of a database with its ID and its number of acknowledged commits.
//!
//! The database stores both as well. The file is written after the sync of a commit, without a sync
//! of its own: it may lag behind the database and is never ahead of it. So a database behind its
//! file lost acknowledged commits, and one with another ID does not belong to the file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::{private_open_options, read_exact_at, write_all_at};

/// Random ID of a database. A copy in another storage gets its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DatabaseId(pub [u8; 16]);

impl DatabaseId {
    /// Fails if the operating system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The content of the file besides the issued numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitCounter {
    pub database_id: DatabaseId,
    /// The database contains at least this number of commits.
    pub commits: u64,
}

/// The highest number that each kind of item has in any project of a database, by its name.
pub type IssuedNumbers = BTreeMap<String, u32>;

/// Renders the numbers: a line for each kind.
pub fn numbers_text(numbers: &IssuedNumbers) -> String {
    let lines: Vec<String> =
        numbers.iter().map(|(kind, number)| format!("{kind} {number}")).collect();
    lines.join("\n")
}

/// Parses a [`numbers_text`].
pub fn parse_numbers(text: &[u8]) -> Option<IssuedNumbers> {
    let mut numbers = IssuedNumbers::new();
    for line in str::from_utf8(text).ok()?.lines() {
        let (kind, number) = line.split_once(' ')?;
        numbers.insert(kind.to_owned(), number.parse().ok()?);
    }
    Some(numbers)
}

/// Counter, text of the numbers up to the first zero byte, and checksum.
const SLOT_BYTES: usize = 512;
const CHECKSUM_START: usize = SLOT_BYTES - 4;
/// Distance of the two slots. They are written in turn and lie in different pages, so a write that
/// was cut off damages only one.
const SLOT_DISTANCE: u64 = 4096;
/// Reads are retried, because another process may be writing the file.
const MAX_READS: usize = 3;

impl CommitCounter {
    /// Compares the counter of a database with that of its side file, which messages name. Returns
    /// why the database may lack commits.
    pub fn find_loss(self, recorded: Option<Self>, file: &str) -> Option<String> {
        let Self { database_id, commits } = self;
        match recorded {
            None => Some(format!("its {file} is missing or damaged, so commits may be missing")),
            Some(recorded) if recorded.database_id != database_id => {
                Some(format!("its {file} belongs to another database, so commits may be missing"))
            }
            Some(Self { commits: recorded, .. }) => (commits < recorded).then(|| {
                format!(
                    "it lacks changes that were acknowledged: it has {commits} of {recorded} \
                     commits"
                )
            }),
        }
    }

    /// `None` if the file is missing or damaged. Never follows a symbolic link.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        Ok(Self::read_with_numbers(path)?.map(|(counter, _)| counter))
    }

    /// Like [`Self::read`], with the numbers of [`CounterFile::write_with_numbers`].
    pub fn read_with_numbers(path: &Path) -> io::Result<Option<(Self, IssuedNumbers)>> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Opening a pipe would block.
            Ok(metadata) if !metadata.is_file() && !metadata.is_symlink() => return Ok(None),
            _ => {}
        }
        let file = private_open_options().read(true).open(path)?;
        for _ in 0..MAX_READS {
            if let Some(newest) = Self::read_slots(&file)? {
                return Ok(Some(newest));
            }
        }
        Ok(None)
    }

    fn read_slots(file: &File) -> io::Result<Option<(Self, IssuedNumbers)>> {
        let mut newest = None;
        for offset in [0, SLOT_DISTANCE] {
            let mut slot = [0; SLOT_BYTES];
            match read_exact_at(file, &mut slot, offset) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                read => read?,
            }
            if let Some(read) = Self::decode(&slot)
                && newest
                    .as_ref()
                    .is_none_or(|(newest, _): &(Self, _)| newest.commits < read.0.commits)
            {
                newest = Some(read);
            }
        }
        Ok(newest)
    }

    fn decode(slot: &[u8; SLOT_BYTES]) -> Option<(Self, IssuedNumbers)> {
        let (id, rest) = slot.split_first_chunk()?;
        let (commits, rest) = rest.split_first_chunk()?;
        let counter = Self { database_id: DatabaseId(*id), commits: u64::from_be_bytes(*commits) };
        let numbers = parse_numbers(rest.split(|byte| *byte == 0).next()?)?;
        let is_whole = counter.encode(&numbers).is_ok_and(|encoded| encoded == *slot);
        is_whole.then_some((counter, numbers))
    }

    fn encode(self, numbers: &IssuedNumbers) -> io::Result<[u8; SLOT_BYTES]> {
        let mut slot = [0; SLOT_BYTES];
        slot[..16].copy_from_slice(&self.database_id.0);
        slot[16..24].copy_from_slice(&self.commits.to_be_bytes());
        let text = numbers_text(numbers);
        let Some(place) = slot[24..CHECKSUM_START].get_mut(..text.len()) else {
            return Err(io::Error::other("too many kinds of numbers"));
        };
        place.copy_from_slice(text.as_bytes());
        // The checksum shows a write that was cut off.
        let checksum = crc32fast::hash(&slot[..CHECKSUM_START]);
        slot[CHECKSUM_START..].copy_from_slice(&checksum.to_be_bytes());
        Ok(slot)
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

    /// Writes the content of a new or empty file and makes it durable, except for the name.
    pub fn fill(path: &Path, counter: CommitCounter, numbers: &IssuedNumbers) -> io::Result<()> {
        let file = Self::open(path)?;
        file.write_with_numbers(counter, numbers)?;
        file.sync()
    }

    /// Records a commit without a sync: one write of a few bytes. Processes may write in another
    /// order than they commit; the file then lags behind by a few commits.
    pub fn write(&self, counter: CommitCounter) -> io::Result<()> {
        self.write_with_numbers(counter, &IssuedNumbers::default())
    }

    /// Like [`Self::write`], with the numbers that must not be issued again after a loss.
    pub fn write_with_numbers(
        &self,
        counter: CommitCounter,
        numbers: &IssuedNumbers,
    ) -> io::Result<()> {
        let offset = counter.commits % 2 * SLOT_DISTANCE;
        write_all_at(&self.0, &counter.encode(numbers)?, offset)
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
        let database_id = DatabaseId::random().unwrap();
        assert_ne!(database_id, DatabaseId::random().unwrap());
        for commits in [3, 4, 5] {
            let last = u32::try_from(commits).unwrap();
            let numbers = [("epic".to_owned(), 1), ("user_story".to_owned(), last)].into();
            file.write_with_numbers(CommitCounter { database_id, commits }, &numbers).unwrap();
            file.sync().unwrap();
            let read = CommitCounter::read_with_numbers(&path).unwrap();
            assert_eq!(read, Some((CommitCounter { database_id, commits }, numbers)));
        }
        let bytes = std::fs::read(&path).unwrap();
        let older = CommitCounter { database_id, commits: 4 };
        for at in 4096..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            for damaged in [&damaged[..], &bytes[..at]] {
                std::fs::write(&path, damaged).unwrap();
                assert_eq!(CommitCounter::read(&path).unwrap(), Some(older), "{at}");
            }
            damaged[at - 4096] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert_eq!(CommitCounter::read(&path).unwrap(), None, "both slots at {at}");
        }
        std::fs::write(&path, [0; 5000]).unwrap();
        assert_eq!(CommitCounter::read(&path).unwrap(), None, "zeroed");
    }

    #[test]
    fn late_write_of_another_process_loses_one_commit_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acknowledged");
        let (file, database_id) =
            (CounterFile::open(&path).unwrap(), DatabaseId::random().unwrap());
        for commits in [9, 11, 12, 10] {
            file.write(CommitCounter { database_id, commits }).unwrap();
        }
        assert_eq!(CommitCounter::read(&path).unwrap().unwrap().commits, 11);
    }

    #[cfg(unix)]
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
