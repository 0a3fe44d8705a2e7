//! Everything there is, out and in.
//!
//! The trap: sled can't look back. A copy shows one moment because nothing is written while its
//! source lives; a commit that waits for it too long is told that the database is busy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use reqlore_domain::audit;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, Kind};
use reqlore_domain::ports::archive::{Archive, Identities, Mark, Record, Sink, Source};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project::ProjectKey;

use crate::audit::put_row;
use crate::base::{AUDIT, Base, Batch, EPOCH, FILLING, META, PROJECTS, TOKENS, USERS};
use crate::error::{INCOMPLETE, damaged, damaged_document, of_sled, refused};
use crate::gate::Looking;
use crate::values::{ProjectRow, Row, decode, encode, seal};
use crate::{SledStore, blocking, keys, read, write};

/// A part is given when it has this many records or bytes.
const MOST_RECORDS: usize = 1000;
const MOST_BYTES: usize = 2_000_000;
/// So many users, tokens or rows are one transaction when a storage is filled.
const AT_ONCE: usize = 500;

#[async_trait]
impl Archive for SledStore {
    async fn read(&self) -> StoreResult<Box<dyn Source>> {
        let open = self.opened()?;
        blocking(move || {
            let base = Arc::clone(&open.base);
            let looking = base.gate.copy();
            base.check_complete()?;
            let projects = base.projects()?;
            let total: u64 = projects.iter().map(|(_, row)| row.total()).sum();
            let total = usize::try_from(total).ok();
            let next = Place { project: 0, kind: 0, after: None };
            let source: Box<dyn Source> =
                Box::new(Copy { base, _looking: looking, projects, total, next, row: 0 });
            Ok(source)
        })
        .await
    }

    async fn fill(&self) -> StoreResult<Box<dyn Sink>> {
        let open = self.opened()?;
        blocking(move || {
            let base = Arc::clone(&open.base);
            let looking = base.gate.copy();
            base.check_complete()?;
            base.check_writable()?;
            let has_documents = base.projects()?.iter().any(|(_, row)| row.total() > 0);
            let has_others = [USERS, TOKENS, AUDIT].iter().any(|tree| !base.tree(*tree).is_empty());
            if has_documents || has_others {
                return Err(refused("is not empty; name a new folder"));
            }
            if base.incomplete.swap(true, Ordering::Relaxed) {
                return Err(refused(INCOMPLETE));
            }
            let mut batch = Batch::default();
            batch.put(META, FILLING, seal(FILLING, &[]));
            base.write(batch)?;
            base.settle()?;
            let sink: Box<dyn Sink> = Box::new(Filling { base, looking });
            Ok(sink)
        })
        .await
    }
}

struct Copy {
    base: Arc<Base>,
    _looking: Looking,
    projects: Vec<(ProjectKey, ProjectRow)>,
    total: Option<usize>,
    next: Place,
    /// Where the audit goes on.
    row: u64,
}

/// Where a copy goes on.
#[derive(Clone)]
struct Place {
    project: usize,
    kind: usize,
    after: Option<String>,
}

#[async_trait]
impl Source for Copy {
    fn total(&self) -> Option<usize> {
        self.total
    }

    async fn next(&mut self) -> StoreResult<Vec<Record>> {
        let (base, projects) = (Arc::clone(&self.base), self.projects.clone());
        let mut next = self.next.clone();
        let (records, next) = blocking(move || {
            let mut records = Vec::new();
            let mut bytes = 0;
            while let Some((project, row)) = projects.get(next.project) {
                if records.len() >= MOST_RECORDS || bytes >= MOST_BYTES {
                    break;
                }
                let Some(kind) = Kind::ALL.get(next.kind) else {
                    next = Place { project: next.project + 1, kind: 0, after: None };
                    continue;
                };
                let name = next.after.as_deref();
                let Some(entry) = base.entries(row.id, *kind, name).next() else {
                    next = Place { kind: next.kind + 1, after: None, ..next };
                    continue;
                };
                let (key, value) = entry.map_err(of_sled)?;
                let record = base.record(project, row.id, *kind, &key, &value)?;
                bytes += record.document.body.len();
                next.after = Some(record.document.id.name.clone());
                records.push(record);
            }
            Ok((records, next))
        })
        .await?;
        self.next = next;
        Ok(records)
    }

    async fn marks(&mut self) -> StoreResult<Vec<Mark>> {
        let marks = self.projects.iter().flat_map(|(project, row)| {
            ItemKind::ALL.into_iter().filter_map(|kind| {
                let number = row.mark(kind)?;
                Some(Mark { project: project.clone(), kind, number })
            })
        });
        Ok(marks.collect())
    }

    async fn identities(&mut self) -> StoreResult<Identities> {
        let base = Arc::clone(&self.base);
        blocking(move || Ok(Identities { users: base.users()?, tokens: base.tokens()? })).await
    }

    async fn audit(&mut self) -> StoreResult<Vec<audit::AuditRow>> {
        let (base, from) = (Arc::clone(&self.base), self.row);
        let rows = blocking(move || {
            let (mut rows, mut bytes) = (Vec::new(), 0);
            for row in base.audit(from).take(MOST_RECORDS) {
                let row = row?;
                bytes += row.text.len();
                rows.push(row);
                if bytes >= MOST_BYTES {
                    break;
                }
            }
            Ok(rows)
        })
        .await?;
        self.row = rows.last().map_or(from, |row: &audit::AuditRow| row.number + 1);
        Ok(rows)
    }
}

impl Base {
    /// All projects by key.
    fn projects(&self) -> StoreResult<Vec<(ProjectKey, ProjectRow)>> {
        let project = |entry: sled::Result<_>| {
            let (key, value): (sled::IVec, sled::IVec) = entry.map_err(of_sled)?;
            let row = decode(&key, &value);
            let project = keys::name(&key).map(ProjectKey::new);
            project.zip(row).ok_or_else(|| damaged("a project's row"))
        };
        self.tree(PROJECTS).iter().map(project).collect()
    }

    fn record(
        &self,
        project: &ProjectKey,
        number: u32,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) -> StoreResult<Record> {
        let id = read::id(number, kind, key)?;
        let row: Row = decode(key, value).ok_or_else(|| damaged_document(&id))?;
        let body = self.body(key, &row, &id)?;
        let document = Document { id, body, version: row.version };
        let (modified, place) = (row.modified, row.place);
        Ok(Record { project: project.clone(), document, modified, place })
    }

    fn take_in(&self, record: Record) -> StoreResult<()> {
        let Record { project, document, modified, place } = record;
        let mut row = self.project(&project)?.unwrap_or_default();
        self.next_revision(&project, &mut row)?;
        let old = self.old(row.id, &keys::document(row.id, &document.id), &document.id)?;
        let mut batch = Batch::default();
        write::put(&mut batch, &mut row, old, &document, modified, place)?;
        let key = project.as_str().as_bytes();
        batch.put(PROJECTS, key, encode(key, &row));
        self.write(batch)
    }

    fn take_mark(&self, mark: &Mark) -> StoreResult<()> {
        let mut row = self.project(&mark.project)?.unwrap_or_default();
        self.next_revision(&mark.project, &mut row)?;
        row.raise(mark.kind, mark.number);
        let mut batch = Batch::default();
        let key = mark.project.as_str().as_bytes();
        batch.put(PROJECTS, key, encode(key, &row));
        self.write(batch)
    }

    fn take_identities(&self, identities: &Identities) -> StoreResult<()> {
        for users in identities.users.chunks(AT_ONCE) {
            let mut batch = Batch::default();
            users.iter().try_for_each(|user| self.put_user(&mut batch, user))?;
            self.write(batch)?;
        }
        for tokens in identities.tokens.chunks(AT_ONCE) {
            let mut batch = Batch::default();
            tokens.iter().try_for_each(|token| self.put_token(&mut batch, token))?;
            self.write(batch)?;
        }
        let epoch = self.epoch.load(Ordering::Acquire) + 1;
        let mut batch = Batch::default();
        batch.put(META, EPOCH, encode(EPOCH, &epoch));
        self.write(batch)?;
        self.epoch.store(epoch, Ordering::Release);
        Ok(())
    }

    /// The writer finds them in the trees: it keeps no newest row while there is none.
    fn take_rows(&self, rows: &[audit::AuditRow]) -> StoreResult<()> {
        for rows in rows.chunks(AT_ONCE) {
            let mut batch = Batch::default();
            for row in rows {
                put_row(&mut batch, row);
            }
            self.write(batch)?;
        }
        Ok(())
    }
}

/// Commits wait while this lives; a storage that is being filled is nobody else's.
struct Filling {
    base: Arc<Base>,
    looking: Looking,
}

#[async_trait]
impl Sink for Filling {
    async fn put(&mut self, records: Vec<Record>) -> StoreResult<()> {
        let base = Arc::clone(&self.base);
        blocking(move || {
            base.check_writable()?;
            records.into_iter().try_for_each(|record| base.take_in(record))?;
            base.flush()
        })
        .await
    }

    async fn mark(&mut self, marks: Vec<Mark>) -> StoreResult<()> {
        let base = Arc::clone(&self.base);
        blocking(move || {
            base.check_writable()?;
            marks.iter().try_for_each(|mark| base.take_mark(mark))
        })
        .await
    }

    async fn identities(&mut self, identities: Identities) -> StoreResult<()> {
        let base = Arc::clone(&self.base);
        blocking(move || {
            base.check_writable()?;
            base.take_identities(&identities)
        })
        .await
    }

    async fn audit(&mut self, rows: Vec<audit::AuditRow>) -> StoreResult<()> {
        let base = Arc::clone(&self.base);
        blocking(move || {
            base.check_writable()?;
            base.take_rows(&rows)?;
            base.flush()
        })
        .await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        let Self { base, looking } = *self;
        blocking(move || {
            base.check_writable()?;
            base.settle()?;
            let mut batch = Batch::default();
            batch.remove(META, FILLING);
            base.write(batch)?;
            base.settle()?;
            base.incomplete.store(false, Ordering::Relaxed);
            drop(looking);
            Ok(())
        })
        .await
    }
}
