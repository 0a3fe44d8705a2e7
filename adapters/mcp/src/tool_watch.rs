//! Notifies a client when its list of tools changes: with the custom fields of the project.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::service::ToolSchemas;

use crate::request_context::GuardedService;

/// A change by hand is rare, and a model does not wait for it.
const PAUSE: Duration = Duration::from_secs(1);

/// The schemas that the client last listed or was last notified of; `None` before that.
#[derive(Debug, Default)]
pub(crate) struct ToolWatch(Mutex<Option<ToolSchemas>>);

impl ToolWatch {
    /// Notes what the client knows. True if it knew nothing before.
    pub(crate) fn note(&self, schemas: ToolSchemas) -> bool {
        self.replace(schemas).is_none()
    }

    fn replace(&self, schemas: ToolSchemas) -> Option<ToolSchemas> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(schemas)
    }

    /// Notifies each change until the client closes the connection or there is no service.
    pub(crate) async fn run<Notified: Future<Output = bool>>(
        &self,
        find: impl Fn() -> Option<GuardedService>,
        notify: impl Fn() -> Notified,
    ) {
        loop {
            tokio::time::sleep(PAUSE).await;
            let Some(guarded) = find() else { return };
            // An unreadable schema is read again.
            let Ok(schemas) = guarded.tool_schemas().await else { continue };
            let is_same = self.replace(schemas.clone()).is_none_or(|last| last == schemas);
            if !is_same && !notify().await {
                return;
            }
        }
    }
}
