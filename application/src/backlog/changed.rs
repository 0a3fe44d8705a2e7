//! Did anything change of which resources speak?

use std::collections::HashMap;

use reqlore_domain::document::Kind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::{Changes, Look, Revision};
use reqlore_domain::project::ProjectKey;
use tokio::sync::Mutex;

use crate::Ports;

/// Counts the looks that found something new.
#[derive(Default)]
pub(crate) struct Changed {
    seen: Mutex<(u64, HashMap<Kind, Revision>)>,
}

impl Changed {
    /// The count after a look at everything that resources speak of.
    pub(crate) async fn count(&self, ports: &Ports) -> Result<u64> {
        let mut seen = self.seen.lock().await;
        let (count, revisions) = &mut *seen;
        let project = ProjectKey::default();
        for kind in Kind::ITEMS.into_iter().chain([Kind::Deleted, Kind::Entity]) {
            let since = revisions.get(&kind).copied().unwrap_or_default();
            let changes = ports.documents.changes(&project, kind, since, Look::Changed).await?;
            let (revision, is_new) = match changes {
                Changes::Since { revision, ids } => (revision, !ids.is_empty()),
                Changes::Reset { revision } => (revision, true),
            };
            *count += u64::from(is_new);
            revisions.insert(kind, revision);
        }
        Ok(*count)
    }
}
