//! From records to a dump's file, which appears under its name when it is whole and durable.
//!
//! Until then it is a temporary file beside it, readable by its owner alone as the dump is; it goes
//! when this is dropped. What a killed writer left goes with the next dump in the same folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use reqlore_domain::ports::archive::{Mark, Record, Sink};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::blocking;
use crate::format::{End, Header, Sequence, encode, encode_mark};

/// How the name of a temporary file begins and ends. Storages have other ones.
const TEMPORARY: (&str, &str) = (".reqlore-backup-", ".tmp");

pub(crate) struct Filling {
    /// `None` after an error.
    writer: Option<Writer>,
}

impl Filling {
    pub(crate) fn begin(path: PathBuf) -> StoreResult<Self> {
        match fs::symlink_metadata(&path) {
            Ok(_) => return Err(taken(&path)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unavailable(&path, error)),
        }
        let file = temporary(folder(&path)).map_err(|error| unavailable(&path, error))?;
        clear_up(folder(&path), file.as_file());
        let (hash, sequence) = <(Sha256, Sequence)>::default();
        let (file, line) = (BufWriter::new(file), Vec::new());
        let mut writer = Writer { path, file, line, hash, sequence };
        writer.line(&Header::OURS)?;
        Ok(Self { writer: Some(writer) })
    }

    fn writer(&mut self) -> StoreResult<Writer> {
        let gone = || StoreError::Fault("a dump is written on after an error".to_owned());
        self.writer.take().ok_or_else(gone)
    }
}

#[async_trait]
impl Sink for Filling {
    async fn put(&mut self, records: Vec<Record>) -> StoreResult<()> {
        let mut writer = self.writer()?;
        let writer = blocking(move || {
            records.iter().try_for_each(|record| writer.record(record))?;
            Ok(writer)
        })
        .await?;
        self.writer = Some(writer);
        Ok(())
    }

    async fn mark(&mut self, marks: Vec<Mark>) -> StoreResult<()> {
        let mut writer = self.writer()?;
        let writer = blocking(move || {
            marks.iter().try_for_each(|mark| writer.mark(mark))?;
            Ok(writer)
        })
        .await?;
        self.writer = Some(writer);
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let writer = self.writer()?;
        blocking(move || writer.finish()).await
    }
}

struct Writer {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    line: Vec<u8>,
    hash: Sha256,
    sequence: Sequence,
}

impl Writer {
    fn record(&mut self, record: &Record) -> StoreResult<()> {
        self.line.clear();
        let added = self.sequence.add(record).and_then(|()| encode(record, &mut self.line));
        added.map_err(StoreError::Fault)?;
        self.write()
    }

    fn mark(&mut self, mark: &Mark) -> StoreResult<()> {
        self.line.clear();
        let added = self.sequence.add_mark(mark).and_then(|()| encode_mark(mark, &mut self.line));
        added.map_err(StoreError::Fault)?;
        self.write()
    }

    fn line(&mut self, line: &impl Serialize) -> StoreResult<()> {
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, line);
        written.map_err(|error| StoreError::Fault(error.to_string()))?;
        self.write()
    }

    fn write(&mut self) -> StoreResult<()> {
        self.line.push(b'\n');
        self.hash.update(&self.line);
        self.file.write_all(&self.line).map_err(|error| unavailable(&self.path, error))
    }

    fn finish(mut self) -> StoreResult<()> {
        self.line(&End::new(self.sequence.count, self.hash.clone()))?;
        let Self { path, file, .. } = self;
        let failed = |error| unavailable(&path, error);
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(&path).map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => taken(&path),
            _ => failed(error.error),
        })?;
        File::open(folder(&path)).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

/// A new temporary file, locked for as long as it is open: it tells that its writer lives.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    loop {
        let mut named = tempfile::Builder::new();
        let file = named.prefix(TEMPORARY.0).suffix(TEMPORARY.1).tempfile_in(folder)?;
        // Not every file system has locks; there nothing is cleared up.
        let _ = file.as_file().lock();
        // Somebody who clears up may have come before the lock.
        if file.path().try_exists()? {
            return Ok(file);
        }
    }
}

/// Removes what writers left that were killed; whatever fails is left for the next one.
fn clear_up(folder: &Path, ours: &File) {
    let (Ok(ours), Ok(entries)) = (ours.metadata(), fs::read_dir(folder)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_temporary = name
            .to_str()
            .is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1));
        let of_us = |found: fs::Metadata| found.is_file() && found.uid() == ours.uid();
        if !is_temporary || !entry.metadata().is_ok_and(of_us) {
            continue;
        }
        let file = File::options().read(true).write(true).open(entry.path());
        // Our own one is locked too, by another handle.
        if let Ok(file) = file
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn taken(path: &Path) -> StoreError {
    let reason = "it is there already; name another file or remove it".to_owned();
    StoreError::Refused { place: path.display().to_string(), reason }
}

fn unavailable(path: &Path, error: io::Error) -> StoreError {
    let (place, reason) = (path.display().to_string(), format!("it can't be written: {error}"));
    StoreError::Unavailable { place, reason, source: Some(error) }
}
