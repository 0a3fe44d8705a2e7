//! From a dump's file to records, bounded in memory whatever the file holds.
//!
//! The last line is the end, and no other one is: so a file that was cut between two lines is told
//! from a whole one.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use async_trait::async_trait;
use reqlore_domain::ports::archive::{Mark, Record, Source};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use sha2::{Digest, Sha256};

use crate::blocking;
use crate::format::{End, Foreign, Header, LINE_BYTES, Sequence, decode, decode_mark, is_mark};

const HEADER_BYTES: usize = 4096;
/// As many bytes of documents come at a time, and at most one document more.
const BATCH_BYTES: usize = 2 << 20;
/// What a record takes beside its bytes, roughly.
const RECORD_BYTES: usize = 256;
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
        let Some(mut reader) = self.reader.take() else {
            return Err(StoreError::Fault("a dump is read on after an error".to_owned()));
        };
        let (reader, batch) = blocking(move || {
            let batch = reader.batch()?;
            Ok((reader, batch))
        })
        .await?;
        self.reader = Some(reader);
        Ok(batch)
    }

    async fn marks(&mut self) -> StoreResult<Vec<Mark>> {
        match &mut self.reader {
            Some(reader) if reader.ended => Ok(std::mem::take(&mut reader.marks)),
            _ => Err(StoreError::Fault("marks of a dump stand behind its records".to_owned())),
        }
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
    /// They are read with the end, which tells whether they may be given.
    marks: Vec<Mark>,
    ended: bool,
}

impl Reader {
    fn new(place: String, file: File) -> StoreResult<Self> {
        let (hash, sequence) = <(Sha256, Sequence)>::default();
        let (line, marks, file) = (Vec::new(), Vec::new(), BufReader::new(file));
        let mut new = Self { place, file, line, number: 0, hash, sequence, marks, ended: false };
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
        Ok(count)
    }

    /// Empty at the end.
    fn batch(&mut self) -> StoreResult<Vec<Record>> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let Some(record) = self.record()? else { break };
            bytes += record.document.body.len() + RECORD_BYTES;
            records.push(record);
        }
        Ok(records)
    }

    fn record(&mut self) -> StoreResult<Option<Record>> {
        if self.ended {
            return Ok(None);
        }
        loop {
            self.hash.update(&self.line);
            self.read_line(LINE_BYTES)?;
            if self.at_end()? {
                self.check_end()?;
                self.ended = true;
                return Ok(None);
            }
            if !is_mark(&self.line) {
                let record = decode(&self.line).map_err(|why| self.damaged(&why))?;
                self.sequence.add(&record).map_err(|why| self.damaged(&why))?;
                return Ok(Some(record));
            }
            let mark = decode_mark(&self.line).map_err(|why| self.damaged(&why))?;
            self.sequence.add_mark(&mark).map_err(|why| self.damaged(&why))?;
            self.marks.push(mark);
        }
    }

    fn check_end(&self) -> StoreResult<()> {
        let Ok(end) = serde_json::from_slice::<End>(&self.line) else {
            return Err(self.damaged("this should be the end and is not; the file was cut off"));
        };
        let found = End::new(self.sequence.count, self.hash.clone());
        if end.records != found.records {
            let (told, found) = (end.records, found.records);
            return Err(self.damaged(&format!("there are {found} records, not {told}")));
        }
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
