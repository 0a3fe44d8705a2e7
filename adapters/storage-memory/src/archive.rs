//! The store as a whole: all of it at once, since it is in memory anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::audit::AuditRow;
use reqlore_domain::ports::archive::{Archive, Identities, Mark, Record, Sink, Source};
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
    async fn read(&self) -> StoreResult<Box<dyn Source>> {
        self.check_complete()?;
        let State { projects, team } = &*self.state();
        let records = projects.iter().flat_map(|(key, project)| {
            project.documents.values().map(|document| {
                let Origin { modified, place } =
                    project.origins.get(&document.id).cloned().unwrap_or_default();
                Record { project: key.clone(), document: document.clone(), modified, place }
            })
        });
        let records: Vec<Record> = records.collect();
        let marks = projects.iter().flat_map(|(key, project)| {
            let marks = project.marks.iter();
            marks.map(|(kind, number)| Mark { project: key.clone(), kind: *kind, number: *number })
        });
        let users = team.users.values().cloned().collect();
        Ok(Box::new(All {
            total: records.len(),
            records,
            marks: marks.collect(),
            identities: Identities { users, tokens: team.by_age() },
            rows: team.rows.clone(),
        }))
    }

    async fn fill(&self) -> StoreResult<Box<dyn Sink>> {
        self.check_complete()?;
        let State { projects, team } = &*self.state();
        let has_documents = projects.values().any(|project| !project.documents.is_empty());
        let has_identities = !team.users.is_empty() || !team.tokens.is_empty();
        if has_documents || has_identities || !team.rows.is_empty() {
            return Err(refused("is not empty"));
        }
        self.incomplete.store(true, Ordering::Relaxed);
        Ok(Box::new(Filling {
            state: Arc::clone(&self.state),
            incomplete: Arc::clone(&self.incomplete),
        }))
    }
}

struct All {
    records: Vec<Record>,
    total: usize,
    marks: Vec<Mark>,
    identities: Identities,
    rows: Vec<AuditRow>,
}

#[async_trait]
impl Source for All {
    fn total(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next(&mut self) -> StoreResult<Vec<Record>> {
        Ok(std::mem::take(&mut self.records))
    }

    async fn marks(&mut self) -> StoreResult<Vec<Mark>> {
        Ok(std::mem::take(&mut self.marks))
    }

    async fn identities(&mut self) -> StoreResult<Identities> {
        Ok(std::mem::take(&mut self.identities))
    }

    async fn audit(&mut self) -> StoreResult<Vec<AuditRow>> {
        Ok(std::mem::take(&mut self.rows))
    }
}

struct Filling {
    state: Arc<Mutex<State>>,
    incomplete: Arc<AtomicBool>,
}

impl Filling {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for Filling {
    async fn put(&mut self, records: Vec<Record>) -> StoreResult<()> {
        let projects = &mut self.state().projects;
        for Record { project, document, modified, place } in records {
            let project = projects.entry(project).or_default();
            project.revision.0 += 1;
            let (id, revision) = (document.id.clone(), project.revision);
            project.mark(&id);
            project.changed.insert(id.clone(), revision);
            project.origins.insert(id.clone(), Origin { modified, place });
            project.documents.insert(id, document);
        }
        Ok(())
    }

    async fn mark(&mut self, marks: Vec<Mark>) -> StoreResult<()> {
        let projects = &mut self.state().projects;
        for Mark { project, kind, number } in marks {
            let mark = projects.entry(project).or_default().marks.entry(kind).or_default();
            *mark = (*mark).max(number);
        }
        Ok(())
    }

    async fn identities(&mut self, identities: Identities) -> StoreResult<()> {
        let team = &mut self.state().team;
        team.users.extend(identities.users.into_iter().map(|user| (user.name.key(), user)));
        team.tokens.extend(identities.tokens.into_iter().map(|token| (token.id.clone(), token)));
        Ok(())
    }

    async fn audit(&mut self, rows: Vec<AuditRow>) -> StoreResult<()> {
        self.state().team.rows.extend(rows);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.incomplete.store(false, Ordering::Relaxed);
        Ok(())
    }
}
