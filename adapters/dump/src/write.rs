//! Writes a dump file, which gets its name when it is complete and durable.
//!
//! Until then it is a temporary file in the same folder, readable only by its owner and removed on
//! drop. The next dump in the folder removes the temporary files of killed writers.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use reqlore_domain::ports::archive::ArchiveRecord;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs as durable_fs;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::lines::{DumpHeader, MAX_LINE_BYTES, encode_line};
use crate::order_check::OrderCheck;

/// Prefix and suffix of a temporary file. The storages use other ones.
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
        // An early refusal; `publish_file` never replaces a file in any case.
        match fs::symlink_metadata(&path) {
            Ok(_) => return Err(already_exists(&path)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(write_error(&path, error)),
        }
        let folder = durable_fs::parent_dir(&path);
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
        // A dump that could not be read back must not be written.
        self.order.check_next(record).map_err(StoreError::Internal)?;
        encode_line(record, &mut self.line).map_err(StoreError::Internal)?;
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
        match publish_file(file, &path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(already_exists(&path)),
            Err(error) => Err(write_error(&path, error)),
        }
    }
}

/// Makes a complete file durable under its final name. Never replaces an existing file.
fn publish_file(file: BufWriter<NamedTempFile>, path: &Path) -> io::Result<()> {
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    // The data must be durable before the name.
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    durable_fs::sync_dir(durable_fs::parent_dir(path))
}

/// Creates a temporary file. Its lock shows other writers that this process is running.
fn create_temporary_file(folder: &Path) -> io::Result<NamedTempFile> {
    loop {
        let mut named = tempfile::Builder::new();
        let file = named.prefix(TEMPORARY.0).suffix(TEMPORARY.1).tempfile_in(folder)?;
        // A failure is harmless: without locks, no writer removes files.
        let _ = file.as_file().lock();
        // Another writer may have removed the file before it was locked.
        if file.path().try_exists()? {
            return Ok(file);
        }
    }
}

/// Removes temporary files of killed writers. After a failure the next dump tries again.
fn remove_stale_files(folder: &Path, ours: &File) {
    let (Ok(ours), Ok(entries)) = (ours.metadata(), fs::read_dir(folder)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if !name.starts_with(TEMPORARY.0) || !name.ends_with(TEMPORARY.1) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        // The name alone proves nothing: another user may have created the file.
        if !metadata.is_file() || !durable_fs::have_same_owner(&metadata, &ours) {
            continue;
        }
        // A running writer holds the lock of its file. So do we, by another handle of our own file.
        if let Ok(file) = File::options().read(true).write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn already_exists(path: &Path) -> StoreError {
    let reason = "already exists; name another file or remove it".to_owned();
    StoreError::Refused { subject: path.display().to_string(), reason }
}

fn write_error(path: &Path, error: io::Error) -> StoreError {
    let (subject, reason) = (path.display().to_string(), format!("cannot be written: {error}"));
    StoreError::Unavailable { subject, reason, source: Some(error) }
}
