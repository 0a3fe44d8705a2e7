//! A dump: everything that a storage keeps, in one file that can be read without Reqlore.
//!
//! It is JSON Lines: a header, a line for each record, one for each mark (the highest number that
//! items of a kind had), for each user, token and row of the audit, and an end with their numbers
//! and the SHA-256 of all bytes before it (`head -n -1 FILE | sha256sum` shows the same). Trap:
//! [`Dump::read`] goes through the whole file before it gives anything, so that a torn file changes
//! nothing; the lines are checked again on their way out, because the file may change in between.

mod format;
mod line;
mod read;
mod sequence;
mod team;
mod write;

use std::path::PathBuf;

use async_trait::async_trait;
use reqlore_domain::ports::archive::{Archive, Sink, Source};
use reqlore_domain::ports::documents::{StoreError, StoreResult};

/// A file that is a dump, or shall become one.
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
    async fn read(&self) -> StoreResult<Box<dyn Source>> {
        let path = self.path.clone();
        Ok(Box::new(blocking(move || read::Records::open(&path)).await?))
    }

    /// The file appears when everything is in it, and never replaces one.
    async fn fill(&self) -> StoreResult<Box<dyn Sink>> {
        let path = self.path.clone();
        Ok(Box::new(blocking(move || write::Filling::begin(path)).await?))
    }
}

/// Runs file work where blocking is allowed. A panic there is a fault, not the end.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
}
