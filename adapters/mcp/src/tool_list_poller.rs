//! Polls the tool schemas of a project and notifies the client when they change.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::service::ToolSchemas;

use crate::request_context::GuardedService;

/// Time between two polls. Schemas change rarely, and no call waits for the notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The schemas that the client last listed or was last notified of; `None` before that.
#[derive(Debug, Default)]
pub(crate) struct ToolListPoller(Mutex<Option<ToolSchemas>>);

impl ToolListPoller {
    /// Records the schemas that the client listed. True for its first list.
    pub(crate) fn record_listed(&self, schemas: ToolSchemas) -> bool {
        self.replace(schemas).is_none()
    }

    fn replace(&self, schemas: ToolSchemas) -> Option<ToolSchemas> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(schemas)
    }

    /// Notifies the client of each change, until it closes the connection or `find` returns `None`.
    pub(crate) async fn run<Notified: Future<Output = bool>>(
        &self,
        find: impl Fn() -> Option<GuardedService>,
        notify: impl Fn() -> Notified,
    ) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let Some(guarded) = find() else { return };
            // The next poll repeats a failed read.
            let Ok(schemas) = guarded.tool_schemas().await else { continue };
            let is_same = self.replace(schemas.clone()).is_none_or(|last| last == schemas);
            if !is_same && !notify().await {
                return;
            }
        }
    }
}
