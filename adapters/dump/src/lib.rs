//! The dump file format: the whole content of a storage, readable without Reqlore.
//!
//! The format is JSON Lines: a header, one line per [`ArchiveRecord`], and an end line with counts
//! and the SHA-256 of all bytes before it (`head -n -1 FILE | sha256sum` prints the same).
//! [`DumpFile::export`](Archive::export) verifies the whole file before it returns a record, so a
//! damaged file changes nothing. Each line is checked again when it is returned, because the file
//! may change meanwhile.

mod lines;
mod order_check;
mod read;
mod write;

use std::path::PathBuf;

use async_trait::async_trait;
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, RecordReader, RecordWriter};
use reqlore_domain::ports::documents::{StoreError, StoreResult};

use crate::read::DumpReader;
use crate::write::DumpWriter;

/// A dump file by its path, existing or to be written.
#[derive(Debug, Clone)]
pub struct DumpFile {
    path: PathBuf,
}

impl DumpFile {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

#[async_trait]
impl Archive for DumpFile {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        let path = self.path.clone();
        Ok(Box::new(BlockingState(Some(run_blocking(move || DumpReader::open(&path)).await?))))
    }

    /// Creates the file when it is complete. Never replaces an existing file.
    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let path = self.path.clone();
        Ok(Box::new(BlockingState(Some(run_blocking(move || DumpWriter::begin(path)).await?))))
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

/// A reader or writer that runs on blocking threads. `None` after an error or a panic.
struct BlockingState<T>(Option<T>);

impl<T: Send + 'static> BlockingState<T> {
    fn take(&mut self) -> StoreResult<T> {
        match self.0.take() {
            Some(state) => Ok(state),
            None => Err(StoreError::Internal("the dump was used after an error".to_owned())),
        }
    }

    async fn run<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut T) -> StoreResult<R> + Send + 'static,
    ) -> StoreResult<R> {
        // Put back only after success, so every call after an error fails.
        let mut state = self.take()?;
        let (state, result) = run_blocking(move || {
            let result = work(&mut state)?;
            Ok((state, result))
        })
        .await?;
        self.0 = Some(state);
        Ok(result)
    }
}

#[async_trait]
impl RecordReader for BlockingState<DumpReader> {
    fn total_documents(&self) -> Option<usize> {
        self.0.as_ref().map(|reader| reader.total)
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        self.run(DumpReader::next_batch).await
    }
}

#[async_trait]
impl RecordWriter for BlockingState<DumpWriter> {
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        self.run(move |writer| {
            for record in &records {
                writer.add_record(record)?;
            }
            Ok(())
        })
        .await
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let writer = self.take()?;
        run_blocking(move || writer.finish()).await
    }
}

/// Runs file operations where blocking is allowed. A panic becomes an error.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
}
