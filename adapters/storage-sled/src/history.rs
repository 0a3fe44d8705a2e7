//! Earlier versions of documents.

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, Version};
use reqlore_domain::ports::documents::{DocumentRepository, StoreError, StoreResult};
use reqlore_domain::ports::history::{
    ChangeOrigin, DocumentHistory, HistoryEntry, HistoryPage, HistoryQuery,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::SledStore;

#[async_trait]
impl DocumentHistory for SledStore {
    async fn history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        _: &HistoryQuery,
    ) -> StoreResult<HistoryPage> {
        let mut page = HistoryPage::default();
        if let Some(Some(version)) = self.versions(project, std::slice::from_ref(id)).await?.pop() {
            page.entries.push(HistoryEntry {
                version: Some(version),
                at: Timestamp::default(),
                origin: ChangeOrigin::default(),
                is_purged: false,
            });
        }
        Ok(page)
    }

    async fn document_at(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>> {
        let document = self.get(project, std::slice::from_ref(id)).await?.pop().flatten();
        Ok(document.filter(|document| document.version == version))
    }

    async fn purge_history(
        &self,
        _: &ProjectKey,
        id: &DocumentId,
        _: Option<Version>,
        _: WriteContext,
    ) -> StoreResult<u64> {
        let reason = "has its history in Git, which Reqlore does not change; remove the text there";
        Err(StoreError::Refused { place: id.to_string(), reason: reason.to_owned() })
    }

    async fn prune_history(&self, _: Timestamp) -> StoreResult<u64> {
        Ok(0)
    }
}
