//! The audit on files: rows in JSON, one a line, in files named by the number of their first row.
//!
//! Several processes and projects append to one chain, so whoever appends holds a lock on the
//! folder, for as long as it takes to read the newest row, append and sync. What is appended is
//! told to nobody before it is synced. The traps: a file below its limit is the newest one, which
//! is what lets a cached end of the chain be believed; and a last line that is torn was never
//! acknowledged and is cut off, while any other line that can't be read is an error.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use cap_std::fs::{Dir, Metadata};
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead, UNCONFIRMED};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::time::Timestamp;
use rustix::fs::OFlags;

use super::file_kind::FileKind;
use super::folder;
use super::private::Place;
use super::segment::{self, Segment};
use crate::error::not_written;
use crate::failpoint::{Step, reached, synced};
use crate::lock;
use crate::read::Stamp;

/// The folder below `.reqlore/local`.
const FOLDER: &str = "audit";
const BELOW: &str = "audit/";
const SHOWN: &str = ".reqlore/local/audit";
/// What a new file is called until it is whole.
const TEMP: &str = ".new";
/// A file of so many bytes gets no further rows.
const LIMIT: u64 = if cfg!(test) { 16 * 1024 } else { 8 * 1024 * 1024 };
/// So many files are pruned at once; nobody appends meanwhile.
const AT_ONCE: usize = 16;
/// How often a reader starts over because files went while it looked.
const ATTEMPTS: usize = 3;

/// The end of the chain as this process last saw it, and its turn to append.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    end: Mutex<Option<End>>,
}

#[derive(Debug)]
struct End {
    name: String,
    stamp: Stamp,
    head: ChainHead,
}

/// The file that the next row goes to, if there is one.
struct Tail {
    open: Option<(String, File, Metadata)>,
    head: ChainHead,
}

impl Chain {
    /// Appends what `make` seals behind the newest row; all of it durably, or nothing.
    pub(super) fn append(
        &self,
        local: &Dir,
        make: impl FnOnce(ChainHead) -> StoreResult<Vec<AuditRow>>,
    ) -> StoreResult<Vec<AuditRow>> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = folder::create(local, FOLDER)?;
        let _lock = lock::hold(&dir, SHOWN, "the audit")?;
        append_locked(&dir, &mut end, make)
    }

    /// As above, for those that append nothing else.
    pub(super) fn record(
        &self,
        local: &Dir,
        entries: Vec<AuditEvent>,
    ) -> StoreResult<Vec<AuditRow>> {
        self.append(local, |head| Ok(sealed(head, entries)))
    }

    /// Appends the row that says that the change of another one never came, once.
    pub(super) fn take_back(&self, local: &Dir, number: u64, at: Timestamp) -> StoreResult<()> {
        let step = |step| reached(step).map_err(|error| not_written(SHOWN, "append a row", error));
        step(Step::Withdrawing)?;
        let told = number.to_string();
        let later = rows(local, number + 1, usize::MAX)?;
        let mut later = later.iter().filter_map(AuditRow::entry);
        if !later.any(|entry| entry.action == UNCONFIRMED && entry.reason == told) {
            self.record(local, vec![AuditEvent::unconfirmed(number, at)])?;
        }
        step(Step::Withdrawn)
    }

    /// Removes rows from the beginning while they are older than this, of a few files at most.
    pub(super) fn prune(
        &self,
        local: &Dir,
        older_than: Timestamp,
        now: Timestamp,
    ) -> StoreResult<u64> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(dir) = folder::find(local, FOLDER)? else { return Ok(0) };
        let _lock = lock::hold(&dir, SHOWN, "the audit")?;
        let is_old = |row: &AuditRow| row.entry().is_some_and(|entry| entry.at < older_than);
        let mut last = None;
        let mut whole = Vec::new();
        let mut rest = None;
        let names = segment::names(&dir, SHOWN)?;
        let newest = names.last().cloned();
        for name in names.into_iter().take(AT_ONCE) {
            let rows = rows_of(&dir, &name, Some(&name) == newest.as_ref())?;
            let old = rows.iter().take_while(|row| is_old(row)).count();
            last = rows[..old].last().map(|row| row.number).or(last);
            if old < rows.len() {
                rest = (old > 0).then_some((name, old as u64));
                break;
            }
            whole.push((name, old as u64));
        }
        let Some(last) = last else { return Ok(0) };
        // First: whoever finds rows missing must find the reason.
        append_locked(&dir, &mut end, |head| {
            Ok(vec![AuditRow::after(head, AuditEvent::pruned(last, now))])
        })?;
        // The newest one has got a row that stays.
        if let Some(End { name, .. }) = end.take()
            && whole.last().is_some_and(|(newest, _)| *newest == name)
        {
            rest = whole.pop();
        }
        remove(&dir, &whole, rest.as_ref(), last)
    }
}

/// Removes files with so many rows each, the oldest first, and rows up to the last one of the file
/// behind them. A file that can't be removed ends it, or there would be a gap behind it; it is told
/// if nothing went. How many rows went.
fn remove(
    dir: &Dir,
    whole: &[(String, u64)],
    rest: Option<&(String, u64)>,
    last: u64,
) -> StoreResult<u64> {
    let mut gone = 0;
    for (name, count) in whole {
        let place = place(dir, name);
        match place.unlink() {
            Err(error) if gone > 0 => {
                tracing::warn!(%error, "rows that are too old stay");
                return Ok(gone);
            }
            removed => removed?,
        }
        // One after the other, also after a power cut: no gap opens in between.
        place.sync_folder()?;
        gone += count;
    }
    if let Some((name, count)) = rest {
        let mut rows = rows_of(dir, name, false)?;
        rows.retain(|row| row.number > last);
        segment::rewrite(place(dir, name), TEMP, &rows)?;
        gone += count;
    }
    Ok(gone)
}

/// Rows of these entries, one behind the other.
pub(super) fn sealed(mut head: ChainHead, entries: Vec<AuditEvent>) -> Vec<AuditRow> {
    let seal = |entry| {
        let row = AuditRow::after(head, entry);
        head = row.head();
        row
    };
    entries.into_iter().map(seal).collect()
}

/// The rows from this number on, by number, at most so many.
pub(super) fn rows(local: &Dir, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
    read(local, |dir, names| {
        let first = names.partition_point(|name| segment::first(name) <= Some(from));
        let names = names.get(first.saturating_sub(1)..).unwrap_or_default();
        let mut found: Vec<AuditRow> = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let rows = rows_of(dir, name, at + 1 == names.len())?;
            let rows = rows.into_iter().filter(|row| row.number >= from);
            found.extend(rows.take(limit - found.len()));
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    })
    .map(Option::unwrap_or_default)
}

/// The newest row, or the beginning of the chain.
pub(super) fn newest(local: &Dir) -> StoreResult<ChainHead> {
    read(local, |dir, names| {
        for (at, name) in names.iter().enumerate().rev() {
            let Some(segment) = Segment::open(place(dir, name), OFlags::RDONLY)? else {
                return Err(gone(name));
            };
            if let Some(row) = segment.last(at + 1 == names.len())?.row {
                return Ok(row.head());
            }
        }
        Ok(ChainHead::default())
    })
    .map(Option::unwrap_or_default)
}

/// Reads without a lock: what vanishes meanwhile was too old, and the reader looks again.
fn read<T>(
    local: &Dir,
    look: impl Fn(&Dir, &[String]) -> StoreResult<T>,
) -> StoreResult<Option<T>> {
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(None) };
    let mut tries = 0;
    loop {
        let names = segment::names(&dir, SHOWN)?;
        match look(&dir, &names) {
            Err(StoreError::Busy { .. }) if tries < ATTEMPTS => tries += 1,
            looked => return looked.map(Some),
        }
    }
}

fn rows_of(dir: &Dir, name: &str, is_newest: bool) -> StoreResult<Vec<AuditRow>> {
    let segment = Segment::open(place(dir, name), OFlags::RDONLY)?;
    segment.ok_or_else(|| gone(name))?.rows(is_newest)
}

fn gone(name: &str) -> StoreError {
    StoreError::Busy { reason: format!("{SHOWN}/{name} went while it was read; try again.") }
}

fn place<'a>(dir: &'a Dir, name: &'a str) -> Place<'a> {
    Place { dir, folder: BELOW, name }
}

fn append_locked(
    dir: &Dir,
    end: &mut Option<End>,
    make: impl FnOnce(ChainHead) -> StoreResult<Vec<AuditRow>>,
) -> StoreResult<Vec<AuditRow>> {
    let Tail { open, head } = tail(dir, end.take())?;
    let rows = make(head)?;
    let Some(first) = rows.first() else { return Ok(rows) };
    let (name, mut file, metadata) = match open {
        Some(open) if Stamp::of(&open.2).size() < LIMIT => open,
        _ => begin(dir, first.number)?,
    };
    let before = Stamp::of(&metadata).size();
    let at = place(dir, &name);
    let mut bytes = Vec::new();
    for row in &rows {
        segment::line(row, &mut bytes).map_err(|error| at.not_written("write it", error))?;
    }
    let mut write = || -> io::Result<Stamp> {
        file.write_all(&bytes)?;
        reached(Step::RowWritten)?;
        synced(Step::RowSynced, &file)?;
        Ok(Stamp::of(&Metadata::from_file(&file)?))
    };
    match write() {
        Ok(stamp) => {
            let head = rows.last().map_or(head, AuditRow::head);
            *end = Some(End { name, stamp, head });
            Ok(rows)
        }
        Err(error) => {
            // Or the next row would stand behind one that nobody was told of.
            if let Err(error) = file.set_len(before).and_then(|()| file.sync_all()) {
                tracing::error!(%error, "a row that was not written whole could not be cut off");
            }
            Err(at.not_written("append a row", error))
        }
    }
}

/// A new file for the row of this number and those behind it.
fn begin(dir: &Dir, first: u64) -> StoreResult<(String, File, Metadata)> {
    let name = segment::name(first);
    let staged = place(dir, TEMP);
    staged.remove();
    drop(staged.create(FileKind::Audit, &(), None)?);
    let begun = reached(Step::SegmentBegun);
    begun.map_err(|error| place(dir, &name).not_written("begin it", error))?;
    staged.rename(&name)?;
    place(dir, &name).sync_folder()?;
    let opened = place(dir, &name).open(OFlags::RDWR | OFlags::APPEND)?;
    let (file, metadata) = opened.ok_or_else(|| gone(&name))?;
    Ok((name, file, metadata))
}

/// Finds the end of the chain, and cuts off what a killed process left behind it.
fn tail(dir: &Dir, known: Option<End>) -> StoreResult<Tail> {
    if let Some(End { name, stamp, head }) = known
        && let Some((file, metadata)) = place(dir, &name).open(OFlags::RDWR | OFlags::APPEND)?
        && Stamp::of(&metadata) == stamp
        && stamp.size() < LIMIT
    {
        return Ok(Tail { open: Some((name, file, metadata)), head });
    }
    let mut open = None;
    for name in segment::names(dir, SHOWN)?.into_iter().rev() {
        let is_newest = open.is_none();
        let at = place(dir, &name);
        let found = Segment::open(at, OFlags::RDWR | OFlags::APPEND)?;
        let mut segment = found.ok_or_else(|| gone(&name))?;
        let last = segment.last(is_newest)?;
        if is_newest {
            if last.end < Stamp::of(&segment.metadata).size() {
                tracing::warn!(place = at.shown(), "a row was torn by a crash; it is cut off");
                segment.cut(last.end)?;
            }
            open = Some((name.clone(), segment.file, segment.metadata));
        }
        if let Some(row) = last.row {
            return Ok(Tail { open, head: row.head() });
        }
    }
    Ok(Tail { open, head: ChainHead::default() })
}
