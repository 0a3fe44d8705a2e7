//! Earlier versions of documents, in memory.

use async_trait::async_trait;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::document::{Document, DocumentId, Version};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::{
    DocumentHistory, HistoryEntry, HistoryPage, HistoryQuery, PastContent, PastEntry, RecentChange,
    TextHash, check_purge,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::{MemoryStore, StoreState, StoredDocument, StoredProject};

impl StoredProject {
    /// Returns the number of the next entry of a document that does not exist.
    pub(crate) fn next_number(&self, id: &DocumentId) -> u64 {
        let last = self.history.get(id).and_then(|entries| entries.last_key_value());
        last.map_or(1, |(number, _)| number + 1)
    }

    /// Ends the present version of a document, which a change replaces or deletes.
    pub(crate) fn end_version(&mut self, stored: &StoredDocument, ended: Timestamp) {
        let entry = PastEntry {
            number: stored.entry.number,
            at: stored.modified,
            ended,
            origin: stored.entry.origin.clone(),
            content: PastContent::Text(stored.document.body.clone()),
        };
        self.insert_entry(stored.document.id.clone(), entry);
    }

    pub(crate) fn insert_entry(&mut self, id: DocumentId, entry: PastEntry) {
        self.history.entry(id).or_default().insert(entry.number, entry);
    }

    fn history_page(&self, id: &DocumentId, before: u64, limit: usize) -> HistoryPage {
        let mut entries = Vec::new();
        if let Some(stored) = self.documents.get(id)
            && stored.entry.number < before
        {
            entries.push((stored.entry.number, stored.to_history_entry()));
        }
        if let Some(past) = self.history.get(id) {
            for (number, entry) in past.range(..before).rev() {
                entries.push((*number, entry.to_history_entry()));
            }
        }
        HistoryPage::from_numbered(entries, limit)
    }

    fn document_at(&self, id: &DocumentId, version: Version) -> Option<Document> {
        if let Some(stored) = self.documents.get(id)
            && stored.document.version == version
        {
            return Some(stored.document.clone());
        }
        for entry in self.history.get(id)?.values().rev() {
            if let PastContent::Text(body) = &entry.content
                && entry.content.version() == Some(version)
            {
                return Some(Document::new(id.clone(), body.clone()));
            }
        }
        None
    }

    fn purge(&mut self, id: &DocumentId, version: Option<Version>) -> StoreResult<u64> {
        let present = self.documents.get(id).map(|stored| stored.document.version);
        check_purge(id, present, version)?;
        let mut count = 0;
        for entry in self.history.get_mut(id).into_iter().flat_map(|past| past.values_mut()) {
            let entry_version = entry.content.version();
            // The present text stays readable, even if it is also an earlier text.
            if entry_version.is_none()
                || entry_version == present
                || version.is_some() && entry_version != version
            {
                continue;
            }
            if let PastContent::Text(body) = &entry.content {
                entry.content = PastContent::Purged(TextHash::of_bytes(body));
            }
            count += 1;
        }
        Ok(count)
    }

    fn prune(&mut self, ended_before: Timestamp) -> u64 {
        let mut count = 0;
        for entries in self.history.values_mut() {
            let before = entries.len();
            entries.retain(|_, entry| entry.ended >= ended_before);
            count += (before - entries.len()) as u64;
        }
        self.history.retain(|_, entries| !entries.is_empty());
        count
    }
}

impl StoredDocument {
    fn to_history_entry(&self) -> HistoryEntry {
        HistoryEntry {
            version: Some(self.document.version),
            at: self.modified,
            origin: self.entry.origin.clone(),
            is_purged: false,
        }
    }
}

#[async_trait]
impl DocumentHistory for MemoryStore {
    async fn history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        query: &HistoryQuery,
    ) -> StoreResult<HistoryPage> {
        let before = query.before_number()?;
        Ok(self.with_project(project, |project| project.history_page(id, before, query.limit)))
    }

    async fn document_at(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>> {
        Ok(self.with_project(project, |project| project.document_at(id, version)))
    }

    async fn recent_changes(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<RecentChange>> {
        let mut changes = Vec::new();
        self.with_project(project, |project| {
            for (id, stored) in &project.documents {
                changes.push((id.clone(), stored.entry.number, stored.to_history_entry()));
            }
            for (id, past) in project
                .history
                .iter()
                .flat_map(|(id, past)| past.values().map(move |one| (id, one)))
            {
                changes.push((id.clone(), past.number, past.to_history_entry()));
            }
        });
        changes.retain(|(_, _, entry)| entry.at >= since);
        Ok(RecentChange::newest_first(changes, limit))
    }

    async fn purge_history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: WriteContext,
    ) -> StoreResult<u64> {
        let StoreState { projects, team, .. } = &mut *self.lock_state();
        let count = projects.entry(project.clone()).or_default().purge(id, version)?;
        if count > 0 {
            for record in team.idempotency_records.values_mut() {
                record.answer = None;
            }
            let target = AuditTarget { name: id.to_string(), before: version, after: version };
            team.append_events(context.audit_event(Some(project), vec![target]));
        }
        Ok(count)
    }

    async fn prune_history(&self, ended_before: Timestamp) -> StoreResult<u64> {
        let mut count = 0;
        for project in self.lock_state().projects.values_mut() {
            count += project.prune(ended_before);
        }
        Ok(count)
    }
}
