//! Reads a dump file with bounded memory.
//!
//! The end line is required and must be the last one, so a file cut between two lines is detected.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use reqlore_domain::ports::archive::ArchiveRecord;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use sha2::{Digest, Sha256};

use crate::lines::{DumpHeader, EndLine, HeaderError, MAX_LINE_BYTES, decode_line};
use crate::order_check::OrderCheck;

const MAX_HEADER_BYTES: usize = 4096;
/// The size of a batch, counted in bytes of the file. One record may exceed it.
const BATCH_BYTES: usize = 2 << 20;
/// The longest reason in an error message, in characters.
const MAX_REASON_CHARS: usize = 500;

/// A dump whose lines were all verified.
pub(crate) struct DumpReader {
    /// The number of documents.
    pub(crate) total: usize,
    place: String,
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    /// Hash of all lines before `line`.
    hash: Sha256,
    order: OrderCheck,
    ended: bool,
}

impl DumpReader {
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        let place = path.display().to_string();
        let unavailable = |error| read_error(&place, error);
        // Anything but a regular file could block, and cannot be read twice.
        if !fs::metadata(path).map_err(unavailable)?.is_file() {
            let reason = "it is not a file; name a dump that `reqlore backup` wrote".to_owned();
            return Err(StoreError::Refused { place, reason });
        }
        let file = File::open(path).map_err(unavailable)?;
        let again = file.try_clone().map_err(unavailable)?;
        let total = Self::new(place.clone(), file).and_then(Self::verify_all);
        let total = total.map_err(nothing_changed)?;
        (&again).rewind().map_err(unavailable)?;
        Ok(Self { total, ..Self::new(place, again)? })
    }

    fn new(place: String, file: File) -> StoreResult<Self> {
        let mut new = Self {
            total: 0,
            place,
            file: BufReader::new(file),
            line: Vec::new(),
            number: 0,
            hash: Sha256::new(),
            order: OrderCheck::default(),
            ended: false,
        };
        new.read_line(MAX_HEADER_BYTES)?;
        match DumpHeader::check_line(&new.line) {
            Ok(()) => {}
            Err(HeaderError::Newer(reason)) => {
                return Err(StoreError::Refused { place: new.place, reason });
            }
            Err(HeaderError::Unreadable(reason)) => return Err(new.damaged_line(&reason)),
        }
        if new.at_end()? {
            return Err(new.damaged_line("the file ends after this line; it was cut off"));
        }
        Ok(new)
    }

    /// Verifies all lines and returns the number of documents.
    fn verify_all(mut self) -> StoreResult<usize> {
        while self.next_record()?.is_some() {}
        usize::try_from(self.order.totals.records)
            .map_err(|error| StoreError::Internal(error.to_string()))
    }

    /// The next records; empty at the end.
    pub(crate) fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let Some(record) = self.next_record()? else { break };
            bytes += self.line.len();
            records.push(record);
        }
        Ok(records)
    }

    /// The next record; `None` at a valid end line.
    fn next_record(&mut self) -> StoreResult<Option<ArchiveRecord>> {
        if self.ended {
            return Ok(None);
        }
        self.hash.update(&self.line);
        self.read_line(MAX_LINE_BYTES)?;
        if self.at_end()? {
            self.check_end()?;
            self.ended = true;
            return Ok(None);
        }
        let record = decode_line(&self.line).map_err(|why| self.damaged_line(&why))?;
        self.order.check_next(&record).map_err(|why| self.damaged_line(&why))?;
        Ok(Some(record))
    }

    fn check_end(&self) -> StoreResult<()> {
        let Ok(end) = serde_json::from_slice::<EndLine>(&self.line) else {
            return Err(self.damaged_line("this is not an end line; the file was cut off"));
        };
        let found = self.order.totals.with_hash(self.hash.clone());
        if let Some(why) = end.describe_miscount(&found) {
            return Err(self.damaged_line(&why));
        }
        if end.sha256 != found.sha256 {
            return Err(self.damaged_line("the checksum does not match; a line above was changed"));
        }
        Ok(())
    }

    fn read_line(&mut self, most: usize) -> StoreResult<()> {
        self.line.clear();
        self.number += 1;
        let mut part = (&mut self.file).take(most as u64);
        let read = part.read_until(b'\n', &mut self.line);
        read.map_err(|error| read_error(&self.place, error))?;
        if self.line.ends_with(b"\n") {
            return Ok(());
        }
        if self.line.len() == most {
            return Err(self.damaged_line(&format!("it is longer than {most} bytes")));
        }
        Err(self.damaged_line("it does not end; the file was cut off"))
    }

    fn at_end(&mut self) -> StoreResult<bool> {
        let rest = self.file.fill_buf().map_err(|error| read_error(&self.place, error))?;
        Ok(rest.is_empty())
    }

    fn damaged_line(&self, why: &str) -> StoreError {
        // The reason may quote a long line.
        let cut = why
            .char_indices()
            .nth(MAX_REASON_CHARS)
            .map(|(at, _)| format!("{}\u{2026}", &why[..at]));
        let reason = format!("line {}: {}", self.number, cut.as_deref().unwrap_or(why));
        StoreError::Unreadable { place: self.place.clone(), reason }
    }
}

/// For errors found before the first record was returned.
fn nothing_changed(error: StoreError) -> StoreError {
    match error {
        StoreError::Unreadable { place, reason } => {
            StoreError::Unreadable { place, reason: format!("{reason}; nothing was changed") }
        }
        error => error,
    }
}

fn read_error(place: &str, error: io::Error) -> StoreError {
    let (place, reason) = (place.to_owned(), format!("cannot be read: {error}"));
    StoreError::Unavailable { place, reason, source: Some(error) }
}
