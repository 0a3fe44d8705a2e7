//! A dump: everything that a storage keeps, in one file that can be read without Reqlore.
//!
//! JSON Lines: a header, one line per [`ArchiveRecord`], and an end line with the number of lines
//! and the SHA-256 of all bytes before it (`head -n -1 FILE | sha256sum` prints the same).
//! [`Dump::read`] verifies the whole file before it returns anything, so a damaged file changes
//! nothing. Each line is checked again when it is returned, because the file may change meanwhile.

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
        Ok(Box::new(BlockingState(Some(run_blocking(move || DumpReader::open(&path)).await?))))
    }

    /// The file appears once it is complete, and never replaces another one.
    async fn fill(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let path = self.path.clone();
        Ok(Box::new(BlockingState(Some(run_blocking(move || DumpWriter::begin(path)).await?))))
    }
}

/// A reader or writer that works where blocking is allowed. `None` after an error or a panic.
struct BlockingState<T>(Option<T>);

impl<T: Send + 'static> BlockingState<T> {
    fn take(&mut self) -> StoreResult<T> {
        let gone = || StoreError::Internal("a dump is used after an error".to_owned());
        self.0.take().ok_or_else(gone)
    }

    async fn run<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut T) -> StoreResult<R> + Send + 'static,
    ) -> StoreResult<R> {
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
    fn total(&self) -> Option<usize> {
        self.0.as_ref().map(|reader| reader.total)
    }

    async fn next(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        self.run(DumpReader::next_batch).await
    }
}

#[async_trait]
impl RecordWriter for BlockingState<DumpWriter> {
    async fn put(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        self.run(move |writer| records.iter().try_for_each(|record| writer.add_record(record)))
            .await
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let writer = self.take()?;
        run_blocking(move || writer.finish()).await
    }
}

/// Runs file operations where blocking is allowed; a panic becomes an error.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
}
