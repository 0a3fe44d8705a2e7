//! Exports all projects as an archive, and imports one into empty projects.
//!
//! The locks stop Reqlore's writers during an export, but not editors. Audit rows are appended at
//! the same time, so a copy ends at the row that was the newest when it began. A marker file in
//! `.reqlore/local` marks an import as incomplete until everything is durable. The path in a record
//! never decides where its document is written.

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
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::SYNCS_FILE_SYSTEMS;
use reqlore_durable_fs::folder::{open_to_list, sync_folder};
use reqlore_local_state as local;
use reqlore_local_state::LOCAL_STATE_DIR;
use reqlore_local_state::error::{failed, not_written, refused};

use crate::layout::{DocumentArea, FileLocation, ProjectRoot, ProjectTree};
use crate::list_files::CopyObstacles;
use crate::lock::ProjectLock;
use crate::read_file::read_complete;
use crate::sequence::HighWaterMarks;
use crate::store_inner::StoreInner;
use crate::{FsStore, journal, list_files};

/// Limits of one batch of documents.
const BATCH_BYTES: usize = 2 * 1024 * 1024;
const BATCH_FILES: usize = 1_000;
/// The number of reads of a file that looks partially saved. Each takes 0.15 s, so together they
/// take longer than the three seconds after which a file's stamp is reliable.
const PARTIAL_RETRIES: usize = 26;
/// The number of obstacles that an error lists.
const MAX_LISTED_OBSTACLES: usize = 20;

impl FsStore {
    async fn lock_all(&self) -> StoreResult<Vec<ProjectLock>> {
        let mut locks = Vec::new();
        // Always in the order of the keys, so that two copies can't wait for each other.
        for (project, _) in self.inner.folders.iter() {
            locks.push(self.lock(project).await?);
        }
        Ok(locks)
    }

    /// Locks a project and recovers its interrupted commits.
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
    /// Rejects a project with an incomplete import.
    pub(crate) fn check_complete(&self, project: &ProjectKey) -> StoreResult<()> {
        let root = self.open_root(project)?;
        let Some(local) = local::open_existing(&root.dir).map_err(marker_not_read)? else {
            return Ok(());
        };
        match local.symlink_metadata(INCOMPLETE_MARKER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(marker_not_read(error)),
            Ok(_) => Err(refused(
                &format!("{LOCAL_STATE_DIR}/{INCOMPLETE_MARKER}"),
                "marks these files as incomplete: a copy into this folder did not finish. Remove \
                 what was copied and this file, and copy again",
            )),
        }
    }

    /// Lists all documents in the order of an archive, and adds the obstacles to copying them.
    fn list_all(
        &self,
        root: &ProjectRoot,
        obstacles: &mut CopyObstacles,
    ) -> StoreResult<VecDeque<DocumentId>> {
        let tree = ProjectTree::new(root, &self.layout);
        let mut ids = VecDeque::new();
        ids.extend(check_present(&tree, DocumentId::instructions(), obstacles)?);
        let mut sections = list_files::list_copied_sections(tree.requirements()?, obstacles)?;
        sections.sort_unstable();
        ids.extend(sections);
        ids.extend(check_present(&tree, DocumentId::docsets(), obstacles)?);
        ids.extend(check_present(&tree, DocumentId::schema(), obstacles)?);
        for id in list_files::template_ids(root)? {
            ids.extend(check_present(&tree, id, obstacles)?);
        }
        for area in DocumentArea::ALL {
            let listed = list_files::list_documents(root, area, Some(obstacles), &mut |_, _| ())?;
            ids.extend(listed.documents.into_iter().map(|file| file.id));
        }
        Ok(ids)
    }
}

fn marker_not_read(error: io::Error) -> StoreError {
    failed(LOCAL_STATE_DIR, "inspect it", error)
}

/// Returns the ID if the document's file exists. Adds an obstacle if it can't be copied.
fn check_present(
    tree: &ProjectTree<'_>,
    id: DocumentId,
    obstacles: &mut CopyObstacles,
) -> StoreResult<Option<DocumentId>> {
    let location = match tree.locate(&id) {
        Err(StoreError::Refused { subject, reason }) => {
            obstacles.push(format!("{subject}: {reason}"));
            return Ok(None);
        }
        location => location?,
    };
    let Some(FileLocation { dir, name, display_path }) = location else { return Ok(None) };
    let exists = list_files::check_copyable(&dir, name.as_ref(), &display_path, obstacles);
    Ok(if exists { Some(id) } else { None })
}

/// Rejects a copy that would be incomplete.
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

/// The name of a project's folder in messages.
fn folder_display_name(project: &ProjectKey) -> String {
    if project.is_default() {
        return "the project's folder".to_owned();
    }
    format!("the folder of the project {project}")
}

/// Lists the documents of all projects, and the first and the newest audit row.
fn list_archive(store: &StoreInner) -> StoreResult<ArchiveListing> {
    let mut ids = VecDeque::new();
    let mut all_obstacles = CopyObstacles::new();
    for (project, _) in store.folders.iter() {
        store.check_complete(project)?;
        store.check_checked_out(project, DocumentKind::ALL)?;
        let mut obstacles = CopyObstacles::new();
        for id in store.list_all(&store.open_root(project)?, &mut obstacles)? {
            ids.push_back((project.clone(), id));
        }
        for obstacle in obstacles {
            all_obstacles.push(if project.is_default() {
                obstacle
            } else {
                format!("in {}: {obstacle}", folder_display_name(project))
            });
        }
    }
    reject_obstacles(all_obstacles)?;
    Ok((ids, store.audit_span()?))
}

type ArchiveListing = (VecDeque<(ProjectKey, DocumentId)>, Option<(u64, u64)>);

/// Rejects an import if a project has documents or team data, then marks all as incomplete.
fn prepare_import(store: &StoreInner) -> StoreResult<()> {
    for (project, _) in store.folders.iter() {
        store.check_complete(project)?;
        store.check_checked_out(project, DocumentKind::ALL)?;
        let mut obstacles = CopyObstacles::new();
        let ids = store.list_all(&store.open_root(project)?, &mut obstacles)?;
        let first = match ids.front() {
            Some(id) => Some(id.to_string()),
            // A file that can't be copied is content, too.
            None => obstacles.pop(),
        };
        if let Some(first) = first {
            let reason = format!("is not empty: it holds {first}. Name an empty one");
            return Err(refused(&folder_display_name(project), &reason));
        }
    }
    // All folders are checked before the first is marked, so a rejected import changes nothing.
    store.check_no_team()?;
    for (project, _) in store.folders.iter() {
        mark_incomplete(&store.open_root(project)?)?;
    }
    Ok(())
}

#[async_trait]
impl Archive for FsStore {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        let locks = self.lock_all().await?;
        let (ids, rows) = self.run_blocking(list_archive).await?;
        Ok(Box::new(ExportReader {
            store: self.clone(),
            total: ids.len(),
            ids,
            are_identities_read: false,
            rows,
            _locks: locks,
        }))
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let locks = self.lock_all().await?;
        self.run_blocking(prepare_import).await?;
        Ok(Box::new(ImportWriter { store: self.clone(), locks: Arc::new(locks) }))
    }

    fn keeps_history(&self) -> bool {
        false
    }
}

struct ExportReader {
    store: FsStore,
    ids: VecDeque<(ProjectKey, DocumentId)>,
    total: usize,
    /// High-water marks, users and tokens were read.
    are_identities_read: bool,
    /// The next audit row, and the newest one when the export began.
    rows: Option<(u64, u64)>,
    _locks: Vec<ProjectLock>,
}

#[async_trait]
impl RecordReader for ExportReader {
    fn total_documents(&self) -> Option<usize> {
        Some(self.total)
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        // The order of an archive: documents, high-water marks and identities, audit rows.
        let documents = self.next_documents().await?;
        if !documents.is_empty() {
            return Ok(documents);
        }
        if !self.are_identities_read {
            self.are_identities_read = true;
            let mut records = self.store.run_blocking(sequence_records).await?;
            let identities = self.store.run_blocking(StoreInner::all_identities).await?;
            records.extend(identities.into_records());
            if !records.is_empty() {
                return Ok(records);
            }
        }
        let Some((from, to)) = self.rows else { return Ok(Vec::new()) };
        if from > to {
            return Ok(Vec::new());
        }
        let rows = self.store.run_blocking(move |store| store.copied_rows(from, to)).await?;
        self.rows = rows.last().map(|row| (row.number + 1, to));
        Ok(rows.into_iter().map(ArchiveRecord::AuditRow).collect())
    }
}

impl ExportReader {
    async fn next_documents(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let mut ids = std::mem::take(&mut self.ids);
        let read = move |store: &StoreInner| Ok((read_batch(store, &mut ids)?, ids));
        let (records, rest) = self.store.run_blocking(read).await?;
        self.ids = rest;
        Ok(records)
    }
}

/// Reads the next documents of one project, and removes them from `ids`.
fn read_batch(
    store: &StoreInner,
    ids: &mut VecDeque<(ProjectKey, DocumentId)>,
) -> StoreResult<Vec<ArchiveRecord>> {
    let Some((project, _)) = ids.front().cloned() else { return Ok(Vec::new()) };
    let root = store.open_root(&project)?;
    let tree = ProjectTree::new(&root, &store.layout);
    let (mut records, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES && records.len() < BATCH_FILES {
        let Some((owner, id)) = ids.pop_front() else { break };
        // A batch has documents of one project, whose root is open.
        if owner != project {
            ids.push_front((owner, id));
            break;
        }
        let record = document_record(&project, &tree, id)?;
        bytes += record.document.body.len();
        records.push(ArchiveRecord::Document(record));
    }
    Ok(records)
}

/// Returns the high-water marks of all projects.
fn sequence_records(store: &StoreInner) -> StoreResult<Vec<ArchiveRecord>> {
    let mut records = Vec::new();
    for (project, _) in store.folders.iter() {
        let root = store.open_root(project)?;
        let tree = ProjectTree::new(&root, &store.layout);
        // The stored marks cover removed files; the index covers the existing ones.
        let mut marks = HighWaterMarks::load(&root);
        let kinds = DocumentArea::Backlog.kinds();
        store.query_refreshed(project, &tree, kinds, Refresh::Full, |index| {
            marks.merge(&index.high_water_marks());
        })?;
        for (kind, number) in marks.iter() {
            let project = project.clone();
            records.push(ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }));
        }
    }
    Ok(records)
}

fn document_record(
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    id: DocumentId,
) -> StoreResult<DocumentRecord> {
    let location = tree.locate(&id)?.ok_or_else(|| removed_since(&id))?;
    let mut content = read_complete(&location)?.ok_or_else(|| removed_since(&id))?;
    // A file that is not UTF-8 may be so on purpose. Once its stamp is reliable, it is complete.
    for _ in 0..PARTIAL_RETRIES {
        if !content.is_partial {
            break;
        }
        content = read_complete(&location)?.ok_or_else(|| removed_since(&id))?;
    }
    if content.is_partial {
        return Err(StoreError::Busy { reason: format!("{id} is just being saved; try again.") });
    }
    Ok(DocumentRecord {
        project: project.clone(),
        modified: content.stamp.modified_at(),
        path: Some(location.display_path.into()),
        document: Document::new(id, content.bytes),
        entry: PresentEntry::default(),
    })
}

fn removed_since(id: &DocumentId) -> StoreError {
    refused(&id.to_string(), "was removed during the copy; try again")
}

/// The file in `.reqlore/local` that marks an incomplete import.
pub(crate) const INCOMPLETE_MARKER: &str = "incomplete";

/// Marks a project as incomplete, durably.
pub(crate) fn mark_incomplete(root: &ProjectRoot) -> StoreResult<()> {
    let local = local::open_or_create(&root.dir)?;
    write_marker(&local).map_err(|error| not_written(LOCAL_STATE_DIR, "mark the folder", error))
}

fn write_marker(local: &Dir) -> io::Result<()> {
    let text = "This folder is being filled by `reqlore copy` or `restore`.\n";
    let mut marker = local.create(INCOMPLETE_MARKER)?;
    marker.write_all(text.as_bytes())?;
    marker.sync_all()?;
    sync_folder(local)
}

/// Makes all projects durable, then removes their markers.
fn finish_import(store: &StoreInner) -> StoreResult<()> {
    for (project, _) in store.folders.iter() {
        let root = store.open_root(project)?;
        let synced = open_to_list(&root.dir)
            .and_then(|folder| reqlore_durable_fs::sync_file_system(&folder.into_std_file()));
        synced.map_err(|error| failed("the project's folder", "make it durable", error))?;
    }
    // Not before all projects are durable: an archive is imported completely or not at all.
    for (project, _) in store.folders.iter() {
        remove_marker(&store.open_root(project)?)?;
    }
    Ok(())
}

pub(crate) struct ImportWriter {
    store: FsStore,
    /// The lock of the default project is the first.
    locks: Arc<Vec<ProjectLock>>,
}

#[async_trait]
impl RecordWriter for ImportWriter {
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let (mut documents, mut marks, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut identities = IdentityRecords::default();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => documents.push(record),
                ArchiveRecord::HighWaterMark(mark) => marks.push(mark),
                // Files have the history of their Git repository.
                ArchiveRecord::History(_) => {}
                ArchiveRecord::User(user) => identities.users.push(user),
                ArchiveRecord::Token(token) => identities.tokens.push(token),
                ArchiveRecord::AuditRow(row) => rows.push(row),
            }
        }
        let locks = Arc::clone(&self.locks);
        let write = move |store: &StoreInner| {
            for record in &documents {
                store.import_document(record)?;
            }
            for mark in &marks {
                store.import_mark(mark)?;
            }
            if locks.is_empty() { Ok(()) } else { store.import_team(identities, rows) }
        };
        self.store.run_blocking(write).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.store.run_blocking(finish_import).await
    }
}

fn remove_marker(root: &ProjectRoot) -> StoreResult<()> {
    let local = local::open_or_create(&root.dir)?;
    let removed = local.remove_file(INCOMPLETE_MARKER).and_then(|()| sync_folder(&local));
    removed.map_err(|error| failed(LOCAL_STATE_DIR, "remove the marker", error))
}

impl StoreInner {
    fn check_configured(&self, project: &ProjectKey, subject: &str) -> StoreResult<()> {
        if self.folders.has_key(project) {
            return Ok(());
        }
        let reason = format!(
            "belongs to the project {project}, which has no folder; configure it as \
             [projects.{project}] in reqlore.toml, or copy into a database"
        );
        Err(refused(subject, &reason))
    }

    fn import_mark(&self, mark: &HighWaterMark) -> StoreResult<()> {
        self.check_configured(
            &mark.project,
            &format!("the high-water mark of {}", mark.kind.prefix()),
        )?;
        let root = self.open_root(&mark.project)?;
        let mut marks = HighWaterMarks::load(&root);
        marks.raise(mark.kind, mark.number);
        marks.save(&root)
    }

    fn import_document(&self, record: &DocumentRecord) -> StoreResult<()> {
        let DocumentRecord { project, document, modified, path, .. } = record;
        let id = &document.id;
        self.check_configured(project, &id.to_string())?;
        // An archive of a database may have names that no file can have.
        if let Err(reason) = id.check() {
            let reason = format!("can't be a file; copy it into a database instead ({reason})");
            return Err(refused(&id.to_string(), &reason));
        }
        let root = self.open_root(project)?;
        let mut tree = ProjectTree::new(&root, &self.layout);
        if id.kind == DocumentKind::Instructions {
            tree.prefer_requirements(path.as_deref());
        }
        tree.create_folder(id)?;
        let Some(location) = tree.locate(id)? else {
            return Err(refused(
                &id.to_string(),
                "can't be a file; copy it into a database instead",
            ));
        };
        create_file(&location.dir, &location.name, &document.body, *modified)
            .map_err(|error| failed(&location.display_path, "write it", error))
    }
}

fn create_file(dir: &Dir, name: &str, body: &[u8], modified: Timestamp) -> io::Result<()> {
    // Never replaces a file that another program created since the check.
    let options = OpenOptions::new().write(true).create_new(true).to_owned();
    let mut file: File = dir.open_with(name, &options)?.into_std();
    file.write_all(body)?;
    // Metadata contains the modification time, so the copy keeps it.
    let since_epoch = Duration::from_nanos(modified.0.unsigned_abs());
    let time = if modified.0 < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(since_epoch)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    };
    // A time that the system can't represent is not worth a failed copy.
    if let Some(time) = time {
        file.set_times(FileTimes::new().set_modified(time))?;
    }
    // Elsewhere all files are synced at the end, which is faster.
    if SYNCS_FILE_SYSTEMS { Ok(()) } else { file.sync_all() }
}
