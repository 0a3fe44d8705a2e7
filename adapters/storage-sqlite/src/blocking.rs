//! Blocking work outside of the runtime.

/// Runs work on a thread that may block.
pub(crate) async fn run_blocking<T: Send + 'static, E: Into<QueryError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> StoreResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(call_error),
        Err(error) => Err(StoreError::Internal(error.to_string())),
    }
}
use reqlore_domain::ports::store_error::{StoreError, StoreResult};

use crate::error::QueryError;
use crate::error::call_error;
