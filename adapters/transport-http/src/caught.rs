//! What panics outside of a tool is answered too, with the name under which the log has it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::FutureExt;

use crate::refusal::{INTERNAL, Refusal};

/// The answer, or a refusal in place of one that panicked. The panic's own words are in the log by
/// the hook of the process; the client gets none of them.
pub(crate) async fn caught<T>(
    request_id: &Arc<str>,
    answering: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    // What is shared is behind locks that mend themselves, and counts that are dropped.
    AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_else(|_| Err(broken(request_id)))
}

/// Something broke that no client can mend.
pub(crate) fn broken(request_id: &Arc<str>) -> Refusal {
    tracing::error!(id = &**request_id, "a request broke");
    let message = "Internal error. An operator finds it in the log by its correlation_id.";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, message).correlated(request_id)
}
