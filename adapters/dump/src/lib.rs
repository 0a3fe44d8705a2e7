//! A dump: everything that a storage keeps, in one file that can be read without Reqlore.
//!
//! JSON Lines: a header, one line per [`ArchiveRecord`], and an end line with the number of lines
//! and the SHA-256 of all bytes before it (`head -n -1 FILE | sha256sum` prints the same).
//! [`Dump::read`] verifies the whole file before it returns anything, so a damaged file changes
//! nothing. Each line is checked again when it is returned, because the file may change meanwhile.
//!
//! [`ArchiveRecord`]: reqlore_domain::ports::archive::ArchiveRecord

mod lines;
mod order_check;
mod read;
mod write;

use std::path::PathBuf;

use async_trait::async_trait;
use reqlore_domain::ports::archive::{Archive, RecordReader, RecordWriter};
use reqlore_domain::ports::documents::{StoreError, StoreResult};

/// The path of a dump, existing or to be written.
#[derive(Debug, Clone)]
pub struct Dump {
    path: PathBuf,
}

impl Dump {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

#[async_trait]
impl Archive for Dump {
    async fn read(&self) -> StoreResult<Box<dyn RecordReader>> {
        let path = self.path.clone();
        Ok(Box::new(blocking(move || read::DumpReader::open(&path)).await?))
    }

    /// The file appears once it is complete, and never replaces another one.
    async fn fill(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let path = self.path.clone();
        Ok(Box::new(blocking(move || write::DumpWriter::begin(path)).await?))
    }
}

/// Runs file operations where blocking is allowed; a panic becomes an error.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
}
