//! Export and import of the whole store.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, HistoryRecord, IdentityRecords,
    RecordReader, RecordWriter,
};
use reqlore_domain::ports::documents::{StoreError, StoreResult};

use crate::{MemoryStore, StoreState, StoredDocument};

impl StoreState {
    fn check_complete(&self) -> StoreResult<()> {
        if self.is_incomplete {
            return Err(refusal("is incomplete: a copy into it did not finish"));
        }
        Ok(())
    }
}

fn refusal(reason: &str) -> StoreError {
    StoreError::Refused { place: "the memory".to_owned(), reason: reason.to_owned() }
}

#[async_trait]
impl Archive for MemoryStore {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        let state = self.lock_state();
        state.check_complete()?;
        let StoreState { projects, team, .. } = &*state;
        let (mut records, mut marks, mut history) = (Vec::new(), Vec::new(), Vec::new());
        for (key, project) in projects {
            for stored in project.documents.values() {
                records.push(ArchiveRecord::Document(DocumentRecord {
                    project: key.clone(),
                    document: stored.document.clone(),
                    modified: stored.modified,
                    path: stored.place.clone(),
                    entry: stored.entry.clone(),
                }));
            }
            for (id, entries) in &project.history {
                for entry in entries.values() {
                    let (project, document) = (key.clone(), id.clone());
                    let entry = entry.clone();
                    history.push(ArchiveRecord::History(HistoryRecord {
                        project,
                        document,
                        entry,
                    }));
                }
            }
            for (kind, number) in &project.marks {
                let (project, kind, number) = (key.clone(), *kind, *number);
                marks.push(ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }));
            }
        }
        let total = records.len();
        records.append(&mut marks);
        records.append(&mut history);
        let users = team.users.values().cloned().collect();
        records.extend(IdentityRecords { users, tokens: team.tokens_by_age() }.into_records());
        records.extend(team.rows.iter().cloned().map(ArchiveRecord::AuditRow));
        Ok(Box::new(MemoryReader { records, total }))
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let mut state = self.lock_state();
        state.check_complete()?;
        let StoreState { projects, team, .. } = &*state;
        let has_documents = projects.values().any(|project| !project.documents.is_empty());
        let has_identities = !team.users.is_empty() || !team.tokens.is_empty();
        let has_history = projects.values().any(|project| !project.history.is_empty());
        if has_documents || has_history || has_identities || !team.rows.is_empty() {
            return Err(refusal("is not empty"));
        }
        // Reset by `finish`; an import that is dropped leaves the store incomplete.
        state.is_incomplete = true;
        Ok(Box::new(MemoryWriter(MemoryStore { state: Arc::clone(&self.state) })))
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

struct MemoryReader {
    records: Vec<ArchiveRecord>,
    total: usize,
}

#[async_trait]
impl RecordReader for MemoryReader {
    fn total_documents(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        Ok(std::mem::take(&mut self.records))
    }
}

struct MemoryWriter(MemoryStore);

#[async_trait]
impl RecordWriter for MemoryWriter {
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let StoreState { projects, team, .. } = &mut *self.0.lock_state();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => {
                    let DocumentRecord { project, document, modified, path: place, entry } = record;
                    let project = projects.entry(project).or_default();
                    project.revision.0 += 1;
                    let (id, revision) = (document.id.clone(), project.revision);
                    project.raise_mark_to(&id);
                    project.changed.insert(id.clone(), revision);
                    let stored = StoredDocument { document, modified, place, entry };
                    project.documents.insert(id, stored);
                }
                ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }) => {
                    projects.entry(project).or_default().raise_high_water_mark(kind, number);
                }
                ArchiveRecord::History(HistoryRecord { project, document, entry }) => {
                    projects.entry(project).or_default().insert_entry(document, entry);
                }
                ArchiveRecord::User(user) => {
                    team.users.insert(user.name.key(), user);
                }
                ArchiveRecord::Token(token) => {
                    team.tokens.insert(token.id.clone(), token);
                }
                ArchiveRecord::AuditRow(row) => team.rows.push(row),
            }
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.0.lock_state().is_incomplete = false;
        Ok(())
    }
}
