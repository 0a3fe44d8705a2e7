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
/// Size of a batch in bytes of the file. One record may exceed it.
const BATCH_BYTES: usize = 2 << 20;
/// Maximum length of a reason in an error message, in characters.
const MAX_REASON_CHARS: usize = 500;

/// Reads a dump after all its lines were verified.
pub(crate) struct DumpReader {
    /// Number of documents.
    pub(crate) total: usize,
    subject: String,
    file: BufReader<File>,
    line: Vec<u8>,
    line_number: u64,
    /// Hash of all lines before `line`.
    hash: Sha256,
    order: OrderCheck,
    has_ended: bool,
}

impl DumpReader {
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        let subject = path.display().to_string();
        let Some(file) = open_regular_file(path).map_err(|error| read_error(&subject, error))?
        else {
            let reason = "is not a regular file; pass a file that `reqlore backup` wrote";
            return Err(StoreError::Refused { subject, reason: reason.to_owned() });
        };
        // The same file is read again, even if the path names another file by then.
        let mut second = file.try_clone().map_err(|error| read_error(&subject, error))?;
        let verified = Self::new(subject.clone(), file).and_then(Self::verify_all);
        let total = verified.map_err(nothing_changed)?;
        second.rewind().map_err(|error| read_error(&subject, error))?;
        Ok(Self { total, ..Self::new(subject, second)? })
    }

    fn new(subject: String, file: File) -> StoreResult<Self> {
        let mut reader = Self {
            total: 0,
            subject,
            file: BufReader::new(file),
            line: Vec::new(),
            line_number: 0,
            hash: Sha256::new(),
            order: OrderCheck::default(),
            has_ended: false,
        };
        reader.read_line(MAX_HEADER_BYTES)?;
        match DumpHeader::check_line(&reader.line) {
            Ok(()) => {}
            Err(HeaderError::Newer(reason)) => {
                return Err(StoreError::Refused { subject: reader.subject, reason });
            }
            Err(HeaderError::Unreadable(reason)) => return Err(reader.damaged_line(&reason)),
        }
        if reader.at_end()? {
            return Err(reader.damaged_line("the file ends after this line; it was cut off"));
        }
        Ok(reader)
    }

    /// Verifies all lines and returns the number of documents.
    fn verify_all(mut self) -> StoreResult<usize> {
        while self.next_record()?.is_some() {}
        usize::try_from(self.order.totals.records)
            .map_err(|error| StoreError::Internal(error.to_string()))
    }

    /// Returns the next records; empty at the end.
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

    /// Returns the next record, or `None` at a valid end line.
    fn next_record(&mut self) -> StoreResult<Option<ArchiveRecord>> {
        if self.has_ended {
            return Ok(None);
        }
        // The previous line: only after reading a line it is known to be the end line.
        self.hash.update(&self.line);
        self.read_line(MAX_LINE_BYTES)?;
        if self.at_end()? {
            self.check_end()?;
            self.has_ended = true;
            return Ok(None);
        }
        let record = decode_line(&self.line).map_err(|reason| self.damaged_line(&reason))?;
        self.order.check_next(&record).map_err(|reason| self.damaged_line(&reason))?;
        Ok(Some(record))
    }

    fn check_end(&self) -> StoreResult<()> {
        let Ok(end) = serde_json::from_slice::<EndLine>(&self.line) else {
            return Err(self.damaged_line("this is not a valid end line; the file may be cut off"));
        };
        let totals = self.order.totals.with_hash(self.hash.clone());
        if let Some(reason) = end.describe_miscount(&totals) {
            return Err(self.damaged_line(&reason));
        }
        if end.sha256 != totals.sha256 {
            return Err(self.damaged_line("the checksum does not match; a line above was changed"));
        }
        Ok(())
    }

    fn read_line(&mut self, max_bytes: usize) -> StoreResult<()> {
        self.line.clear();
        self.line_number += 1;
        let mut limited = (&mut self.file).take(max_bytes as u64);
        let result = limited.read_until(b'\n', &mut self.line);
        result.map_err(|error| read_error(&self.subject, error))?;
        if self.line.ends_with(b"\n") {
            return Ok(());
        }
        if self.line.len() == max_bytes {
            return Err(self.damaged_line(&format!("it is longer than {max_bytes} bytes")));
        }
        Err(self.damaged_line("it has no line break at its end; the file was cut off"))
    }

    fn at_end(&mut self) -> StoreResult<bool> {
        let rest = self.file.fill_buf().map_err(|error| read_error(&self.subject, error))?;
        Ok(rest.is_empty())
    }

    fn damaged_line(&self, reason: &str) -> StoreError {
        let mut text = format!("line {}: ", self.line_number);
        // The reason may quote a long line.
        match reason.char_indices().nth(MAX_REASON_CHARS) {
            Some((end, _)) => {
                text.push_str(&reason[..end]);
                text.push('\u{2026}');
            }
            None => text.push_str(reason),
        }
        StoreError::Unreadable { subject: self.subject.clone(), reason: text }
    }
}

fn open_regular_file(path: &Path) -> io::Result<Option<File>> {
    // Opening a pipe could block, and only a regular file can be read twice.
    if fs::metadata(path)?.is_file() { File::open(path).map(Some) } else { Ok(None) }
}

/// Completes errors that were found before the first record was returned.
fn nothing_changed(error: StoreError) -> StoreError {
    match error {
        StoreError::Unreadable { subject, reason } => {
            StoreError::Unreadable { subject, reason: format!("{reason}; nothing was changed") }
        }
        error => error,
    }
}

fn read_error(subject: &str, error: io::Error) -> StoreError {
    let (subject, reason) = (subject.to_owned(), format!("cannot be read: {error}"));
    StoreError::Unavailable { subject, reason, source: Some(error) }
}
