//! Export and import of the whole store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, Identities, RecordReader, RecordWriter,
};
use reqlore_domain::ports::documents::{StoreError, StoreResult};

use crate::{MemoryStore, Origin, State};

impl MemoryStore {
    fn check_complete(&self) -> StoreResult<()> {
        if self.incomplete.load(Ordering::Relaxed) {
            return Err(refused("is incomplete; what filled it did not finish"));
        }
        Ok(())
    }
}

fn refused(reason: &str) -> StoreError {
    StoreError::Refused { place: "the memory".to_owned(), reason: reason.to_owned() }
}

#[async_trait]
impl Archive for MemoryStore {
    async fn read(&self) -> StoreResult<Box<dyn RecordReader>> {
        self.check_complete()?;
        let State { projects, team } = &*self.state();
        let documents = projects.iter().flat_map(|(key, project)| {
            project.documents.values().map(|document| {
                let Origin { modified, place } =
                    project.origins.get(&document.id).cloned().unwrap_or_default();
                let (project, document) = (key.clone(), document.clone());
                ArchiveRecord::Document(DocumentRecord { project, document, modified, place })
            })
        });
        let mut records: Vec<ArchiveRecord> = documents.collect();
        let total = records.len();
        for (key, project) in projects {
            for (kind, number) in &project.marks {
                let (project, kind, number) = (key.clone(), *kind, *number);
                records.push(ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }));
            }
        }
        let users = team.users.values().cloned().collect();
        records.extend(Identities { users, tokens: team.by_age() }.into_records());
        records.extend(team.rows.iter().cloned().map(ArchiveRecord::AuditRow));
        Ok(Box::new(MemoryReader { records, total }))
    }

    async fn fill(&self) -> StoreResult<Box<dyn RecordWriter>> {
        self.check_complete()?;
        let State { projects, team } = &*self.state();
        let has_documents = projects.values().any(|project| !project.documents.is_empty());
        let has_identities = !team.users.is_empty() || !team.tokens.is_empty();
        if has_documents || has_identities || !team.rows.is_empty() {
            return Err(refused("is not empty"));
        }
        self.incomplete.store(true, Ordering::Relaxed);
        Ok(Box::new(MemoryWriter {
            state: Arc::clone(&self.state),
            incomplete: Arc::clone(&self.incomplete),
        }))
    }
}

struct MemoryReader {
    records: Vec<ArchiveRecord>,
    total: usize,
}

#[async_trait]
impl RecordReader for MemoryReader {
    fn total(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        Ok(std::mem::take(&mut self.records))
    }
}

struct MemoryWriter {
    state: Arc<Mutex<State>>,
    incomplete: Arc<AtomicBool>,
}

impl MemoryWriter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RecordWriter for MemoryWriter {
    async fn put(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let State { projects, team } = &mut *self.state();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => {
                    let DocumentRecord { project, document, modified, place } = record;
                    let project = projects.entry(project).or_default();
                    project.revision.0 += 1;
                    let (id, revision) = (document.id.clone(), project.revision);
                    project.mark(&id);
                    project.changed.insert(id.clone(), revision);
                    project.origins.insert(id.clone(), Origin { modified, place });
                    project.documents.insert(id, document);
                }
                ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }) => {
                    let marks = &mut projects.entry(project).or_default().marks;
                    let mark = marks.entry(kind).or_default();
                    *mark = (*mark).max(number);
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
        self.incomplete.store(false, Ordering::Relaxed);
        Ok(())
    }
}
