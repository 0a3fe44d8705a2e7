//! From records to a dump's file, which appears under its name when it is whole and durable.
//!
//! Until then it is a temporary file beside it, readable by its owner alone as the dump is; it goes
//! when this is dropped. What a killed writer left goes with the next dump in the same folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use reqlore_domain::audit::AuditRow;
use reqlore_domain::ports::archive::{Identities, Mark, Record, Sink};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::blocking;
use crate::format::{End, Header, LINE_BYTES, encode, encode_mark};
use crate::line::write_line;
use crate::sequence::Sequence;
use crate::team::{encode_row, encode_token, encode_user};

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
        let file =
            temporary(durable_fs::parent(&path)).map_err(|error| unavailable(&path, error))?;
        clear_up(durable_fs::parent(&path), file.as_file());
        let (hash, sequence) = <(Sha256, Sequence)>::default();
        let (file, line) = (BufWriter::new(file), Vec::new());
        let mut writer = Writer { path, file, line, hash, sequence };
        writer.line(&Header::OURS)?;
        Ok(Self { writer: Some(writer) })
    }

    fn writer(&mut self) -> StoreResult<Writer> {
        let gone = || StoreError::Internal("a dump is written on after an error".to_owned());
        self.writer.take().ok_or_else(gone)
    }

    async fn write(
        &mut self,
        write: impl FnOnce(&mut Writer) -> StoreResult<()> + Send + 'static,
    ) -> StoreResult<()> {
        let mut writer = self.writer()?;
        let writer = blocking(move || write(&mut writer).map(|()| writer)).await?;
        self.writer = Some(writer);
        Ok(())
    }
}

#[async_trait]
impl Sink for Filling {
    async fn put(&mut self, records: Vec<Record>) -> StoreResult<()> {
        self.write(move |writer| {
            let write = |record| writer.add(record, Sequence::add_record, encode);
            records.iter().try_for_each(write)
        })
        .await
    }

    async fn mark(&mut self, marks: Vec<Mark>) -> StoreResult<()> {
        self.write(move |writer| {
            marks.iter().try_for_each(|mark| writer.add(mark, Sequence::add_mark, encode_mark))
        })
        .await
    }

    async fn identities(&mut self, identities: Identities) -> StoreResult<()> {
        self.write(move |writer| {
            let Identities { users, tokens } = identities;
            let user = |user| writer.add(user, Sequence::add_user, encode_user);
            users.iter().try_for_each(user)?;
            let token = |token| writer.add(token, Sequence::add_token, encode_token);
            tokens.iter().try_for_each(token)
        })
        .await
    }

    async fn audit(&mut self, rows: Vec<AuditRow>) -> StoreResult<()> {
        self.write(move |writer| {
            rows.iter().try_for_each(|row| writer.add(row, Sequence::add_row, encode_row))
        })
        .await
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
    /// A line, if it may stand here.
    fn add<T>(
        &mut self,
        what: &T,
        add: impl FnOnce(&mut Sequence, &T) -> Result<(), String>,
        encode: impl FnOnce(&T, &mut Vec<u8>) -> Result<(), String>,
    ) -> StoreResult<()> {
        self.line.clear();
        let added = add(&mut self.sequence, what).and_then(|()| encode(what, &mut self.line));
        added.map_err(StoreError::Internal)?;
        self.write()
    }

    fn line(&mut self, line: &impl Serialize) -> StoreResult<()> {
        self.line.clear();
        write_line(line, &mut self.line).map_err(StoreError::Internal)?;
        self.write()
    }

    fn write(&mut self) -> StoreResult<()> {
        self.line.push(b'\n');
        if self.line.len() > LINE_BYTES {
            return Err(StoreError::Internal(format!("a line is longer than {LINE_BYTES} bytes")));
        }
        self.hash.update(&self.line);
        self.file.write_all(&self.line).map_err(|error| unavailable(&self.path, error))
    }

    fn finish(mut self) -> StoreResult<()> {
        self.line(&End::new(self.sequence.counts, self.hash.clone()))?;
        let Self { path, file, .. } = self;
        let failed = |error| unavailable(&path, error);
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(&path).map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => taken(&path),
            _ => failed(error.error),
        })?;
        durable_fs::sync_dir(durable_fs::parent(&path)).map_err(failed)
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

fn taken(path: &Path) -> StoreError {
    let reason = "it is there already; name another file or remove it".to_owned();
    StoreError::Refused { place: path.display().to_string(), reason }
}

fn unavailable(path: &Path, error: io::Error) -> StoreError {
    let (place, reason) = (path.display().to_string(), format!("it can't be written: {error}"));
    StoreError::Unavailable { place, reason, source: Some(error) }
}
