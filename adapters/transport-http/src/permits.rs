//! Permits of one token and of all tokens.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Permits of one token's limit and of the limit of all tokens.
pub(crate) type PermitPair = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Waits until `due` for `count` permits of both semaphores.
pub(crate) async fn acquire_both(
    of_token: &Arc<Semaphore>,
    of_all: &Arc<Semaphore>,
    count: u32,
    due: Instant,
) -> Option<PermitPair> {
    let acquiring = async {
        // The token's permits first, so that a token at its limit does not delay other tokens.
        let token_permit = of_token.clone().acquire_many_owned(count).await.ok()?;
        let shared_permit = of_all.clone().acquire_many_owned(count).await.ok()?;
        Some((token_permit, shared_permit))
    };
    timeout_at(due, acquiring).await.unwrap_or(None)
}
