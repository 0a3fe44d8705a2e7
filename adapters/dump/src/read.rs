//! From a dump's file to records, bounded in memory whatever the file holds.
//!
//! The last line is the end, and no other one is: so a file that was cut between two lines is told
//! from a whole one.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use async_trait::async_trait;
use reqlore_domain::audit::AuditRow;
use reqlore_domain::ports::archive::{Identities, Mark, Record, Source};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use sha2::{Digest, Sha256};

use crate::blocking;
use crate::format::{End, Foreign, Header, LINE_BYTES, Line};
use crate::sequence::Sequence;

const HEADER_BYTES: usize = 4096;
/// As many bytes of documents or rows come at a time, and at most one of them more.
const BATCH_BYTES: usize = 2 << 20;
/// What a record or a row takes beside its bytes, roughly.
const BESIDE_BYTES: usize = 256;
/// As many characters of a reason are told.
const REASON: usize = 500;

/// A dump that was found sound, from its first record on.
pub(crate) struct Records {
    total: usize,
    /// `None` after an error.
    reader: Option<Reader>,
}

impl Records {
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        let place = path.display().to_string();
        let unavailable = |error| unavailable(&place, error);
        // What is no file could block, and can't be read twice.
        if !fs::metadata(path).map_err(unavailable)?.is_file() {
            let reason = "it is no file; name a dump that `reqlore backup` wrote".to_owned();
            return Err(StoreError::Refused { place, reason });
        }
        let file = File::open(path).map_err(unavailable)?;
        let again = file.try_clone().map_err(unavailable)?;
        let total = Reader::new(place.clone(), file).and_then(Reader::drain);
        let total = total.map_err(nothing_changed)?;
        (&again).rewind().map_err(unavailable)?;
        Ok(Self { total, reader: Some(Reader::new(place, again)?) })
    }
}

#[async_trait]
impl Source for Records {
    fn total(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next(&mut self) -> StoreResult<Vec<Record>> {
        self.read(Reader::records).await
    }

    async fn marks(&mut self) -> StoreResult<Vec<Mark>> {
        Ok(std::mem::take(&mut self.behind()?.marks))
    }

    async fn identities(&mut self) -> StoreResult<Identities> {
        Ok(std::mem::take(&mut self.behind()?.identities))
    }

    async fn audit(&mut self) -> StoreResult<Vec<AuditRow>> {
        self.behind()?;
        self.read(Reader::rows).await
    }
}

impl Records {
    async fn read<T: Send + 'static>(
        &mut self,
        read: impl FnOnce(&mut Reader) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let Some(mut reader) = self.reader.take() else {
            return Err(StoreError::Internal("a dump is read on after an error".to_owned()));
        };
        let (reader, found) = blocking(move || {
            let found = read(&mut reader)?;
            Ok((reader, found))
        })
        .await?;
        self.reader = Some(reader);
        Ok(found)
    }

    /// Behind all records.
    fn behind(&mut self) -> StoreResult<&mut Reader> {
        let early =
            || StoreError::Internal("the rest of a dump stands behind its records".to_owned());
        self.reader.as_mut().filter(|reader| reader.behind).ok_or_else(early)
    }
}

struct Reader {
    place: String,
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    /// Of all lines before [`Reader::line`].
    hash: Sha256,
    sequence: Sequence,
    /// These are read when the records end, and with them the first row of the audit.
    marks: Vec<Mark>,
    identities: Identities,
    row: Option<AuditRow>,
    /// All of these were read.
    behind: bool,
    ended: bool,
}

impl Reader {
    fn new(place: String, file: File) -> StoreResult<Self> {
        let mut new = Self {
            place,
            file: BufReader::new(file),
            line: Vec::new(),
            number: 0,
            hash: Sha256::new(),
            sequence: Sequence::default(),
            marks: Vec::new(),
            identities: Identities::default(),
            row: None,
            behind: false,
            ended: false,
        };
        new.read_line(HEADER_BYTES)?;
        match Header::check(&new.line) {
            Ok(()) => {}
            Err(Foreign::Newer(reason)) => {
                return Err(StoreError::Refused { place: new.place, reason });
            }
            Err(Foreign::Unreadable(reason)) => return Err(new.damaged(&reason)),
        }
        if new.at_end()? {
            return Err(new.damaged("the file ends behind this line; it was cut off"));
        }
        Ok(new)
    }

    /// The number of records.
    fn drain(mut self) -> StoreResult<usize> {
        let mut count = 0;
        while self.record()?.is_some() {
            count += 1;
        }
        while !self.rows()?.is_empty() {}
        Ok(count)
    }

    /// Empty at the end.
    fn records(&mut self) -> StoreResult<Vec<Record>> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let Some(record) = self.record()? else { break };
            bytes += record.document.body.len() + BESIDE_BYTES;
            records.push(record);
        }
        Ok(records)
    }

    fn record(&mut self) -> StoreResult<Option<Record>> {
        while !self.behind {
            match self.next()? {
                Some(Line::Record(record)) => return Ok(Some(record)),
                Some(Line::Mark(mark)) => self.marks.push(mark),
                Some(Line::User(user)) => self.identities.users.push(user),
                Some(Line::Token(token)) => self.identities.tokens.push(token),
                Some(Line::AuditRow(row)) => (self.row, self.behind) = (Some(row), true),
                None => self.behind = true,
            }
        }
        Ok(None)
    }

    /// Of the audit; empty at the end.
    fn rows(&mut self) -> StoreResult<Vec<AuditRow>> {
        let mut rows = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let line = match self.row.take() {
                Some(row) => Some(Line::AuditRow(row)),
                None => self.next()?,
            };
            // Nothing else stands behind a row.
            let Some(Line::AuditRow(row)) = line else { break };
            bytes += row.text.len() + BESIDE_BYTES;
            rows.push(row);
        }
        Ok(rows)
    }

    /// What the next line holds; `None` at an end that is true of all before it.
    fn next(&mut self) -> StoreResult<Option<Line>> {
        if self.ended {
            return Ok(None);
        }
        self.hash.update(&self.line);
        self.read_line(LINE_BYTES)?;
        if self.at_end()? {
            self.check_end()?;
            self.ended = true;
            return Ok(None);
        }
        let line = Line::decode(&self.line).map_err(|why| self.damaged(&why))?;
        self.sequence.add(&line).map_err(|why| self.damaged(&why))?;
        Ok(Some(line))
    }

    fn check_end(&self) -> StoreResult<()> {
        let Ok(end) = serde_json::from_slice::<End>(&self.line) else {
            return Err(self.damaged("this should be the end and is not; the file was cut off"));
        };
        if let Some(why) = end.miscount(self.sequence.counts) {
            return Err(self.damaged(&why));
        }
        let found = End::new(self.sequence.counts, self.hash.clone());
        if end.sha256 != found.sha256 {
            return Err(self.damaged("the checksum is another one; a line above was changed"));
        }
        Ok(())
    }

    fn read_line(&mut self, most: usize) -> StoreResult<()> {
        self.line.clear();
        self.number += 1;
        let mut part = (&mut self.file).take(most as u64);
        let read = part.read_until(b'\n', &mut self.line);
        read.map_err(|error| unavailable(&self.place, error))?;
        if self.line.ends_with(b"\n") {
            return Ok(());
        }
        if self.line.len() == most {
            return Err(self.damaged(&format!("it is longer than {most} bytes")));
        }
        Err(self.damaged("it does not end; the file was cut off"))
    }

    fn at_end(&mut self) -> StoreResult<bool> {
        let rest = self.file.fill_buf().map_err(|error| unavailable(&self.place, error))?;
        Ok(rest.is_empty())
    }

    fn damaged(&self, why: &str) -> StoreError {
        // It may repeat what the line holds, which may be long.
        let cut = why.char_indices().nth(REASON).map(|(at, _)| format!("{}\u{2026}", &why[..at]));
        let reason = format!("line {}: {}", self.number, cut.as_deref().unwrap_or(why));
        StoreError::Unreadable { place: self.place.clone(), reason }
    }
}

/// True of what was found before anything was given.
fn nothing_changed(error: StoreError) -> StoreError {
    match error {
        StoreError::Unreadable { place, reason } => {
            StoreError::Unreadable { place, reason: format!("{reason}; nothing was changed") }
        }
        error => error,
    }
}

fn unavailable(place: &str, error: io::Error) -> StoreError {
    let (place, reason) = (place.to_owned(), format!("it can't be read: {error}"));
    StoreError::Unavailable { place, reason, source: Some(error) }
}
