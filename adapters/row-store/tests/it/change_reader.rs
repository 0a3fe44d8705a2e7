//! A reader that keeps the versions of all documents by following changes.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{Refresh, StoreResult, read_all};
use reqlore_domain::project_key::ProjectKey;

/// The versions of the documents of the default project.
pub(crate) type Versions = BTreeMap<DocumentId, Version>;

#[derive(Debug, Default)]
pub(crate) struct ChangeReader {
    position: Option<ChangePosition>,
    pub(crate) versions: Versions,
}

impl ChangeReader {
    /// Reads a page of changes. Returns true if there are more.
    pub(crate) async fn follow(&mut self, store: &dyn Store, limit: usize) -> StoreResult<bool> {
        let project = ProjectKey::default();
        let page = store.changes_since(&project, self.position, limit, Refresh::Incremental);
        let page = page.await?;
        let position = page.position();
        let has_more = match page {
            ChangePage::Reset { .. } => {
                self.versions = read_versions(store, &project).await?;
                true
            }
            ChangePage::Since { ids, has_more, .. } => {
                let versions = store.versions(&project, &ids).await?;
                for (id, version) in ids.into_iter().zip(versions) {
                    match version {
                        Some(version) => self.versions.insert(id, version),
                        None => self.versions.remove(&id),
                    };
                }
                has_more
            }
        };
        self.position = Some(position);
        Ok(has_more)
    }
}

/// Reads the versions of all documents.
pub(crate) async fn read_versions(
    store: &dyn Store,
    project: &ProjectKey,
) -> StoreResult<Versions> {
    let mut versions = Versions::new();
    for kind in DocumentKind::ALL {
        let (all, _) = read_all(store, project, kind).await?;
        let ids: Vec<DocumentId> = all.iter().map(|meta| meta.id.clone()).collect();
        for (id, version) in ids.iter().zip(store.versions(project, &ids).await?) {
            versions.extend(version.map(|version| (id.clone(), version)));
        }
    }
    Ok(versions)
}
