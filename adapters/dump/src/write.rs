//! Writes a dump file. It gets its name once it is complete and durable.
//!
//! Until then it is a temporary file in the same folder, readable by its owner only and removed on
//! drop. The next dump in the folder removes the temporary files of killed writers.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use reqlore_domain::ports::archive::ArchiveRecord;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::lines::{DumpHeader, MAX_LINE_BYTES, encode_line};
use crate::order_check::OrderCheck;

/// Prefix and suffix of a temporary file, different from those of the storages.
const TEMPORARY: (&str, &str) = (".reqlore-backup-", ".tmp");

pub(crate) struct DumpWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    line: Vec<u8>,
    hash: Sha256,
    order: OrderCheck,
}

impl DumpWriter {
    pub(crate) fn begin(path: PathBuf) -> StoreResult<Self> {
        match fs::symlink_metadata(&path) {
            Ok(_) => return Err(already_exists(&path)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(write_error(&path, error)),
        }
        let folder = durable_fs::parent(&path);
        let file = create_temporary_file(folder).map_err(|error| write_error(&path, error))?;
        remove_stale_files(folder, file.as_file());
        let mut writer = Self {
            path,
            file: BufWriter::new(file),
            line: Vec::new(),
            hash: Sha256::new(),
            order: OrderCheck::default(),
        };
        writer.write_line(&DumpHeader::CURRENT)?;
        Ok(writer)
    }

    pub(crate) fn add_record(&mut self, record: &ArchiveRecord) -> StoreResult<()> {
        self.line.clear();
        let added =
            self.order.check_next(record).and_then(|()| encode_line(record, &mut self.line));
        added.map_err(StoreError::Internal)?;
        self.flush_line()
    }

    fn write_line(&mut self, line: &impl Serialize) -> StoreResult<()> {
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, line);
        written.map_err(|error| StoreError::Internal(error.to_string()))?;
        self.flush_line()
    }

    fn flush_line(&mut self) -> StoreResult<()> {
        self.line.push(b'\n');
        if self.line.len() > MAX_LINE_BYTES {
            return Err(StoreError::Internal(format!(
                "a line is longer than {MAX_LINE_BYTES} bytes"
            )));
        }
        self.hash.update(&self.line);
        self.file.write_all(&self.line).map_err(|error| write_error(&self.path, error))
    }

    pub(crate) fn finish(mut self) -> StoreResult<()> {
        self.write_line(&self.order.totals.with_hash(self.hash.clone()))?;
        let Self { path, file, .. } = self;
        let failed = |error| write_error(&path, error);
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(&path).map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => already_exists(&path),
            _ => failed(error.error),
        })?;
        durable_fs::sync_dir(durable_fs::parent(&path)).map_err(failed)
    }
}

/// Creates a temporary file. Its lock shows other writers that this one is alive.
fn create_temporary_file(folder: &Path) -> io::Result<NamedTempFile> {
    loop {
        let mut named = tempfile::Builder::new();
        let file = named.prefix(TEMPORARY.0).suffix(TEMPORARY.1).tempfile_in(folder)?;
        // On a file system without locks nothing is removed, so a failure here is harmless.
        let _ = file.as_file().lock();
        // Another writer may have removed the file before it was locked.
        if file.path().try_exists()? {
            return Ok(file);
        }
    }
}

/// Removes temporary files of killed writers. What fails is left for the next dump.
fn remove_stale_files(folder: &Path, ours: &File) {
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
        // Our own file is locked by another handle, so it is kept.
        if let Ok(file) = file
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn already_exists(path: &Path) -> StoreError {
    let reason = "already exists; name another file or remove it".to_owned();
    StoreError::Refused { place: path.display().to_string(), reason }
}

fn write_error(path: &Path, error: io::Error) -> StoreError {
    let (place, reason) = (path.display().to_string(), format!("cannot be written: {error}"));
    StoreError::Unavailable { place, reason, source: Some(error) }
}
