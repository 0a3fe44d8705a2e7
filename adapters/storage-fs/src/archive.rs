//! The project's files as one archive: exported under the locks, or imported into an empty project.
//!
//! The lock stops Reqlore's writers during an export; editors are not stopped. Audit rows are
//! appended meanwhile, so a copy ends at the row that was the newest when it began. A marker file
//! in `.reqlore/local` says that an import is incomplete until everything is durable. A record's
//! own path never decides where its document is written.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, FileTimes};
use std::io;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use cap_std::fs::{Dir, OpenOptions};
use reqlore_domain::document::{Document, DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, IdentityRecords, RecordReader,
    RecordWriter,
};
use reqlore_domain::ports::documents::{Refresh, StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_local_state::as_file;

use crate::error::{failed, not_written, refused};
use crate::layout::{DocumentArea, FileLocation, ProjectRoot, ProjectTree};
use crate::list_files::CopyObstacles;
use crate::local::LOCAL_STATE_DIR;
use crate::lock::ProjectLock;
use crate::read_file::{FileContent, FileStamp, read_complete};
use crate::sequence::HighWaterMarks;
use crate::store_inner::StoreInner;
use crate::{FsStore, journal, list_files, local};

/// Limits of one batch of documents.
const BATCH_BYTES: usize = 2 * 1024 * 1024;
const BATCH_FILES: usize = 1_000;
/// A file that looks half saved is read again, for a seventh of a second each time. In all that is
/// longer than the three seconds after which a file is old enough to be trusted.
const PARTIAL_RETRIES: usize = 26;
/// The most obstacles that an error lists.
const MAX_LISTED_OBSTACLES: usize = 20;

impl FsStore {
    async fn lock_all(&self) -> StoreResult<Vec<ProjectLock>> {
        let mut locks = Vec::new();
        for (project, _) in self.inner.folders.iter() {
            locks.push(self.lock(project).await?);
        }
        Ok(locks)
    }

    /// Locks a project, and recovers its interrupted commits.
    pub(crate) async fn lock(&self, project: &ProjectKey) -> StoreResult<ProjectLock> {
        let lock = self.inner.locks.lock(project, self.inner.project_path(project)).await?;
        let project = project.clone();
        self.run_blocking(move |store| {
            journal::recover(&store.layout, &lock)?;
            store.recover_project(&project, &lock);
            Ok(lock)
        })
        .await
    }
}

impl StoreInner {
    /// Rejects a project whose import was not finished.
    pub(crate) fn check_complete(&self, project: &ProjectKey) -> StoreResult<()> {
        let fail = |error| failed(LOCAL_STATE_DIR, "look into it", error);
        let Some(local) = local::open_existing(&self.open_root(project)?.dir).map_err(fail)? else {
            return Ok(());
        };
        match local.symlink_metadata(INCOMPLETE_MARKER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fail(error)),
            Ok(_) => Err(refused(
                &format!("{LOCAL_STATE_DIR}/{INCOMPLETE_MARKER}"),
                "says that these files are incomplete: a copy into this folder did not finish. \
                 Remove what was copied and this file, and copy again",
            )),
        }
    }

    /// All documents in the order of an archive, and the obstacles to copying them.
    fn all(
        &self,
        root: &ProjectRoot,
        obstacles: &mut CopyObstacles,
    ) -> StoreResult<VecDeque<DocumentId>> {
        let tree = ProjectTree::new(root, &self.layout);
        let mut all = VecDeque::new();
        all.extend(check_present(&tree, DocumentId::instructions(), obstacles)?);
        let mut sections = list_files::list_sections(tree.requirements()?, Some(obstacles))?;
        sections.sort_unstable();
        all.extend(sections);
        all.extend(check_present(&tree, DocumentId::docsets(), obstacles)?);
        for area in DocumentArea::ALL {
            let listed = list_files::list_documents(root, area, Some(obstacles), &mut |_, _| ())?;
            all.extend(listed.into_iter().map(|listed| listed.id));
        }
        Ok(all)
    }
}

fn check_present(
    tree: &ProjectTree<'_>,
    id: DocumentId,
    obstacles: &mut CopyObstacles,
) -> StoreResult<Option<DocumentId>> {
    let place = match tree.locate(&id) {
        Err(StoreError::Refused { place, reason }) => {
            obstacles.push(format!("{place}: {reason}"));
            return Ok(None);
        }
        place => place?,
    };
    let Some(FileLocation { dir, name, display_path: shown }) = place else { return Ok(None) };
    Ok(list_files::check_copyable(&dir, name.as_str(), &shown, obstacles).then_some(id))
}

/// Rejects a copy that could not be complete.
fn reject_obstacles(mut obstacles: CopyObstacles) -> StoreResult<()> {
    if obstacles.is_empty() {
        return Ok(());
    }
    obstacles.sort_unstable();
    let count = obstacles.len();
    let noun = if count == 1 { "entry" } else { "entries" };
    let mut reason = format!("{count} {noun} can't be copied, so nothing is:");
    for obstacle in obstacles.iter().take(MAX_LISTED_OBSTACLES) {
        // Writing to a string does not fail.
        let _ = write!(reason, "\n- {obstacle}");
    }
    if count > MAX_LISTED_OBSTACLES {
        let _ = write!(reason, "\nand {} more", count - MAX_LISTED_OBSTACLES);
    }
    Err(refused("the project's folder", &reason))
}

/// A project's folder in messages.
fn folder_display_name(project: &ProjectKey) -> String {
    if project.is_default() {
        return "the project's folder".to_owned();
    }
    format!("the folder of the project {project}")
}

#[async_trait]
impl Archive for FsStore {
    async fn read(&self) -> StoreResult<Box<dyn RecordReader>> {
        let locks = self.lock_all().await?;
        let listing = self.run_blocking(|store| {
            let (mut all, mut obstacles) = (VecDeque::new(), CopyObstacles::new());
            for (project, _) in store.folders.iter() {
                store.check_complete(project)?;
                let mut found = CopyObstacles::new();
                let ids = store.all(&store.open_root(project)?, &mut found)?;
                all.extend(ids.into_iter().map(|id| (project.clone(), id)));
                if !project.is_default() {
                    let whose = folder_display_name(project);
                    for found in &mut found {
                        *found = format!("in {whose}: {found}");
                    }
                }
                obstacles.append(&mut found);
            }
            reject_obstacles(obstacles)?;
            Ok((all, store.audit_span()?))
        });
        let (ids, rows) = listing.await?;
        let (store, total) = (self.clone(), ids.len());
        let is_past_tokens = false;
        Ok(Box::new(ExportReader { store, total, ids, is_past_tokens, rows, _locks: locks }))
    }

    async fn fill(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let locks = self.lock_all().await?;
        let marking = self.run_blocking(|store| {
            for (project, _) in store.folders.iter() {
                store.check_complete(project)?;
                let mut obstacles = CopyObstacles::new();
                let all = store.all(&store.open_root(project)?, &mut obstacles)?;
                let found = all.front().map(ToString::to_string).or_else(|| obstacles.pop());
                if let Some(found) = found {
                    let reason = format!("is not empty: it holds {found}. Name an empty one");
                    return Err(refused(&folder_display_name(project), &reason));
                }
            }
            store.check_no_team()?;
            for (project, _) in store.folders.iter() {
                mark_incomplete(&store.open_root(project)?)?;
            }
            Ok(())
        });
        marking.await?;
        Ok(Box::new(ImportWriter { store: self.clone(), locks: Arc::new(locks) }))
    }
}

struct ExportReader {
    store: FsStore,
    ids: VecDeque<(ProjectKey, DocumentId)>,
    total: usize,
    /// Marks, users and tokens were read.
    is_past_tokens: bool,
    /// The next audit row, and the newest one when the export began.
    rows: Option<(u64, u64)>,
    _locks: Vec<ProjectLock>,
}

#[async_trait]
impl RecordReader for ExportReader {
    fn total(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let documents = self.next_documents().await?;
        if !documents.is_empty() {
            return Ok(documents);
        }
        if !std::mem::replace(&mut self.is_past_tokens, true) {
            let mut records = self.store.run_blocking(sequence_records).await?;
            records
                .extend(self.store.run_blocking(StoreInner::all_identities).await?.into_records());
            if !records.is_empty() {
                return Ok(records);
            }
        }
        let Some((from, to)) = self.rows.filter(|(from, to)| from <= to) else {
            return Ok(Vec::new());
        };
        let rows = self.store.run_blocking(move |store| store.copied_rows(from, to)).await?;
        self.rows = rows.last().map(|row| (row.number + 1, to));
        Ok(rows.into_iter().map(ArchiveRecord::AuditRow).collect())
    }
}

impl ExportReader {
    async fn next_documents(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let mut ids = std::mem::take(&mut self.ids);
        let (records, rest) = self
            .store
            .run_blocking(move |store| {
                let Some((project, _)) = ids.front().cloned() else { return Ok((Vec::new(), ids)) };
                let root = store.open_root(&project)?;
                let tree = ProjectTree::new(&root, &store.layout);
                let (mut records, mut bytes) = (Vec::new(), 0);
                while bytes < BATCH_BYTES && records.len() < BATCH_FILES {
                    let Some((of, id)) = ids.pop_front() else { break };
                    if of != project {
                        ids.push_front((of, id));
                        break;
                    }
                    let record = document_record(&project, &tree, id)?;
                    bytes += record.document.body.len();
                    records.push(ArchiveRecord::Document(record));
                }
                Ok((records, ids))
            })
            .await?;
        self.ids = rest;
        Ok(records)
    }
}

fn sequence_records(store: &StoreInner) -> StoreResult<Vec<ArchiveRecord>> {
    let mut all = Vec::new();
    for (project, _) in store.folders.iter() {
        let root = store.open_root(project)?;
        let tree = ProjectTree::new(&root, &store.layout);
        let mut marks = HighWaterMarks::load(&root);
        let kinds = DocumentArea::Backlog.kinds();
        store.query_refreshed(project, &tree, kinds, Refresh::Full, |known| {
            marks.merge(&known.high_water_marks());
        })?;
        for (kind, number) in marks.iter() {
            let project = project.clone();
            all.push(ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }));
        }
    }
    Ok(all)
}

fn document_record(
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    id: DocumentId,
) -> StoreResult<DocumentRecord> {
    let gone = || refused(&id.to_string(), "went away while everything was read; try again");
    let place = tree.locate(&id)?.ok_or_else(gone)?;
    let mut content = read_complete(&place)?.ok_or_else(gone)?;
    // What is no text may be so on purpose: in a moment it is old enough to tell.
    for _ in 0..PARTIAL_RETRIES {
        if !content.is_partial {
            break;
        }
        content = read_complete(&place)?.ok_or_else(gone)?;
    }
    let FileContent { bytes, metadata, is_partial: torn, .. } = content;
    if torn {
        return Err(StoreError::Busy { reason: format!("{id} is just being saved; try again.") });
    }
    Ok(DocumentRecord {
        project: project.clone(),
        modified: FileStamp::from_metadata(&metadata).modified_at(),
        place: Some(place.display_path.into()),
        document: Document::new(id, bytes),
    })
}

/// The marker file of an import.
pub(crate) const INCOMPLETE_MARKER: &str = "incomplete";

/// Marks a project as incomplete, durably.
pub(crate) fn mark_incomplete(root: &ProjectRoot) -> StoreResult<()> {
    let local = local::open_or_create(&root.dir)?;
    let write = || {
        local.write(
            INCOMPLETE_MARKER,
            "This folder is being filled by `reqlore copy` or `restore`.\n",
        )?;
        local.open(INCOMPLETE_MARKER)?.sync_all()?;
        as_file(&local)?.sync_all()
    };
    write().map_err(|error| not_written(LOCAL_STATE_DIR, "mark the folder", error))
}

pub(crate) struct ImportWriter {
    store: FsStore,
    /// The default project's is the first.
    locks: Arc<Vec<ProjectLock>>,
}

#[async_trait]
impl RecordWriter for ImportWriter {
    async fn put(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let (mut documents, mut marks, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut identities = IdentityRecords::default();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => documents.push(record),
                ArchiveRecord::HighWaterMark(mark) => marks.push(mark),
                ArchiveRecord::User(user) => identities.users.push(user),
                ArchiveRecord::Token(token) => identities.tokens.push(token),
                ArchiveRecord::AuditRow(row) => rows.push(row),
            }
        }
        let locks = Arc::clone(&self.locks);
        let writing = move |store: &StoreInner| {
            documents.iter().try_for_each(|record| store.import_document(record))?;
            marks.iter().try_for_each(|mark| store.import_mark(mark))?;
            locks.first().map_or(Ok(()), |lock| store.import_team(&identities, &rows, lock))
        };
        self.store.run_blocking(writing).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        let finishing = |store: &StoreInner| {
            let failed = |error| failed("the project's folder", "make it durable", error);
            for (project, _) in store.folders.iter() {
                let root = store.open_root(project)?;
                let synced =
                    as_file(&root.dir).and_then(|dir| reqlore_durable_fs::sync_file_system(&dir));
                synced.map_err(failed)?;
            }
            for (project, _) in store.folders.iter() {
                remove_marker(&store.open_root(project)?)?;
            }
            Ok(())
        };
        self.store.run_blocking(finishing).await
    }
}

fn remove_marker(root: &ProjectRoot) -> StoreResult<()> {
    let local = local::open_or_create(&root.dir)?;
    let removed = local.remove_file(INCOMPLETE_MARKER).and_then(|()| as_file(&local)?.sync_all());
    removed.map_err(|error| failed(LOCAL_STATE_DIR, "remove the mark", error))
}

impl StoreInner {
    fn check_keyed(&self, project: &ProjectKey, shown: &str) -> StoreResult<()> {
        if self.folders.has_key(project) {
            return Ok(());
        }
        let reason = format!(
            "is of the project {project}, which has no folder; configure it as \
             [projects.{project}] in reqlore.toml, or copy into a database"
        );
        Err(refused(shown, &reason))
    }

    fn import_mark(&self, mark: &HighWaterMark) -> StoreResult<()> {
        self.check_keyed(&mark.project, &format!("the mark of {}", mark.kind.prefix()))?;
        let root = self.open_root(&mark.project)?;
        let mut marks = HighWaterMarks::load(&root);
        marks.raise(mark.kind, mark.number);
        marks.save(&root)
    }

    fn import_document(&self, record: &DocumentRecord) -> StoreResult<()> {
        let DocumentRecord { project, document, modified, place } = record;
        let id = &document.id;
        self.check_keyed(project, &id.to_string())?;
        let no_file = |why: &str| {
            let reason = format!("can't be a file; copy it into a database instead{why}");
            refused(&id.to_string(), &reason)
        };
        id.check().map_err(|why| no_file(&format!(" ({why})")))?;
        let root = self.open_root(project)?;
        let mut tree = ProjectTree::new(&root, &self.layout);
        if id.kind == DocumentKind::Instructions {
            tree.prefer_requirements(place.as_deref());
        }
        tree.create_folder(id)?;
        let place = tree.locate(id)?.ok_or_else(|| no_file(""))?;
        create_file(&place.dir, &place.name, &document.body, *modified)
            .map_err(|error| failed(&place.display_path, "write it", error))
    }
}

fn create_file(dir: &Dir, name: &str, body: &[u8], modified: Timestamp) -> io::Result<()> {
    let new = OpenOptions::new().write(true).create_new(true).to_owned();
    let mut file: File = dir.open_with(name, &new)?.into_std();
    file.write_all(body)?;
    let since_epoch = Duration::from_nanos(modified.0.unsigned_abs());
    let time = if modified.0 < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(since_epoch)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    };
    match time {
        Some(time) => file.set_times(FileTimes::new().set_modified(time)),
        None => Ok(()),
    }
}
