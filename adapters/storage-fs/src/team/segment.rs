//! One file of the audit: a line that names the file, then rows.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use cap_std::fs::{Dir, Metadata};
use reqlore_domain::audit::AuditRow;
use reqlore_domain::ports::documents::StoreResult;
use rustix::fs::OFlags;

use super::file_kind::FileKind;
use super::private::Place;
use crate::error::failed;
use crate::read::Stamp;

/// What the first line says it is.
const SUFFIX: &str = ".jsonl";
/// So much is looked at for the last row, and then twice as much each time.
const LOOK: u64 = 16 * 1024;
/// The first line is shorter.
const HEADER: u64 = 512;

/// The files, the oldest first; anything else there is none of ours.
pub(super) fn names(dir: &Dir, shown: &str) -> StoreResult<Vec<String>> {
    let fail = |error| failed(shown, "list it", error);
    let mut names = Vec::new();
    for entry in dir.entries().map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        names.extend(name.into_string().ok().filter(|name| first(name).is_some()));
    }
    names.sort_unstable();
    Ok(names)
}

pub(super) fn name(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

/// The number that a file's rows begin with, or with a later one where old rows went.
pub(super) fn first(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SUFFIX).filter(|number| number.len() == 20)?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok()).flatten()
}

/// Writes a row as a line.
pub(super) fn line(row: &AuditRow, bytes: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *bytes, row)?;
    bytes.push(b'\n');
    Ok(())
}

pub(super) struct Segment<'a> {
    place: Place<'a>,
    pub(super) file: File,
    pub(super) metadata: Metadata,
    /// Where the first row begins.
    start: u64,
}

/// The last row of a file, and where it ends.
pub(super) struct Last {
    pub(super) row: Option<AuditRow>,
    pub(super) end: u64,
}

impl<'a> Segment<'a> {
    /// Opens a file that is believed.
    pub(super) fn open(place: Place<'a>, access: OFlags) -> StoreResult<Option<Self>> {
        let Some((file, metadata)) = place.open(access)? else { return Ok(None) };
        let size = Stamp::of(&metadata).size();
        let begin = read(&file, 0, HEADER.min(size)).map_err(|e| place.fail("read it", e))?;
        let length = begin.iter().position(|byte| *byte == b'\n').unwrap_or(begin.len());
        place.unseal::<()>(&begin[..length], FileKind::Audit, &metadata)?;
        Ok(Some(Self { place, file, metadata, start: length as u64 + 1 }))
    }

    /// All rows; of the newest file the last line may be one that is just being written.
    pub(super) fn rows(&self, is_newest: bool) -> StoreResult<Vec<AuditRow>> {
        let size = Stamp::of(&self.metadata).size();
        let bytes =
            read(&self.file, self.start, size).map_err(|e| self.place.fail("read it", e))?;
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let mut rows = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            match parse(line) {
                Some(row) => rows.push(row),
                None if is_newest && at + 1 == lines.len() => {}
                None => return Err(self.unreadable(at + 2)),
            }
        }
        Ok(rows)
    }

    /// The last row; of the newest file, of those that were written whole.
    pub(super) fn last(&self, is_newest: bool) -> StoreResult<Last> {
        let size = Stamp::of(&self.metadata).size();
        let mut look = LOOK;
        loop {
            let from = size.saturating_sub(look).max(self.start);
            let bytes = read(&self.file, from, size).map_err(|e| self.place.fail("read it", e))?;
            let mut end = from + bytes.len() as u64;
            let mut torn = 0;
            for line in bytes.split_inclusive(|byte| *byte == b'\n').rev() {
                let is_whole = from == self.start || end - (line.len() as u64) > from;
                if !is_whole {
                    break;
                }
                if let Some(row) = parse(line) {
                    return Ok(Last { row: Some(row), end });
                }
                torn += 1;
                if torn > usize::from(is_newest) {
                    return Err(self.unreadable(self.line_at(end)?));
                }
                end -= line.len() as u64;
            }
            if from == self.start {
                return Ok(Last { row: None, end: end.max(self.start.min(size)) });
            }
            look *= 2;
        }
    }

    /// The number of the line that ends here.
    fn line_at(&self, end: u64) -> StoreResult<usize> {
        let bytes = read(&self.file, 0, end).map_err(|e| self.place.fail("read it", e))?;
        Ok(bytes.split_inclusive(|byte| *byte == b'\n').count())
    }

    /// Cuts off what stands behind this place.
    pub(super) fn cut(&mut self, end: u64) -> StoreResult<()> {
        let cut = self.file.set_len(end).and_then(|()| self.file.sync_all());
        let cut = cut.and_then(|()| Metadata::from_file(&self.file));
        self.metadata = cut.map_err(|e| self.place.not_written("cut off a torn row", e))?;
        Ok(())
    }

    fn unreadable(&self, line: usize) -> reqlore_domain::ports::documents::StoreError {
        self.place.unreadable(&format!(
            "line {line} is no row of the audit; somebody changed it, or the disk is damaged. \
             Restore it from a backup, or move the folder away to begin a new chain"
        ))
    }
}

/// Puts these rows alone into a file, in one step.
pub(super) fn rewrite(place: Place<'_>, temp: &str, rows: &[AuditRow]) -> StoreResult<()> {
    let staged = place.named(temp);
    staged.remove();
    let mut file = staged.create(FileKind::Audit, &(), None)?;
    let mut bytes = Vec::new();
    let lines = rows.iter().try_for_each(|row| line(row, &mut bytes));
    let written = lines.and_then(|()| file.write_all(&bytes)).and_then(|()| file.sync_all());
    written.map_err(|error| place.not_written("remove old rows", error))?;
    staged.rename(place.name)?;
    place.sync_folder()
}

fn parse(line: &[u8]) -> Option<AuditRow> {
    serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
}

/// The bytes between two places; fewer where the file ends before.
fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or_default()];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], from + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
