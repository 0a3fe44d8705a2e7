//! Imports the entity files of the workspace root into a database.
//!
//! The storage's history tells a text that came from a file from one that a tool wrote. A tool's
//! text is kept while its file is unchanged, so an entity that a tool created is never deleted.

use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{
    DocumentChange, DocumentFilter, DocumentRepository, ReadSet, Refresh, Snapshot, StoreError,
};
use reqlore_domain::ports::history::{HistoryEntry, HistoryQuery};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;

use crate::documents::get_one;
use crate::ports::ApplicationPorts;
use crate::writes::transaction::commit_decision;

/// have it as their origin.
pub(super) const SYNC_NAME: &str = "ixchel_sync";
/// Limits of one commit. A call can be cancelled between two commits.
const BATCH_DOCUMENTS: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Documents per page when metadata is listed.
/// Newest versions of an entity that are searched for one from a file.
const MAX_VERSIONS: usize = 100;

/// The result of an import.
#[derive(Debug, Default)]
pub(super) struct ImportReport {
    /// Number of skipped files that the storage has no version of.
    pub(super) skipped_files: usize,
    pub(super) warnings: Vec<String>,
}

/// Imports the entities of `tree`. An unreadable file is reported and its stored version stays.
pub(super) struct FileImport<'a> {
    pub(super) ports: &'a ApplicationPorts,
    pub(super) tree: &'a dyn DocumentRepository,
    pub(super) project: &'a ProjectKey,
    pub(super) act: &'a WriteContext,
}

/// An entity whose file differs from the stored text.
struct DifferingEntity {
    id: DocumentId,
    /// `None` without a file.
    file: Option<Version>,
    /// `None` if it is not stored.
    stored: Option<Version>,
}

/// The decision of an import on an entity.
enum ImportVerdict {
    Import,
    /// Imports the file, although a tool changed the stored text after the last import.
    Replace,
    /// Keeps the stored text, or the deletion, of a tool.
    Keep,
    KeepWithWarning(&'static str),
}

/// A change of an entity that has this version.
#[derive(Clone)]
struct ImportChange {
    change: DocumentChange,
    stored: Option<Version>,
}

impl FileImport<'_> {
    pub(super) async fn run(&self, progress: &dyn ProgressSink) -> Result<ImportReport> {
        let Self { ports, tree, project, .. } = *self;
        // A full refresh examines every file, also those that the watcher missed.
        tree.changes_since(project, None, 1, Refresh::Full).await?;
        let (files, problems) = entity_versions(tree, project).await?;
        let mut report = ImportReport::default();
        for problem in problems {
            report.warnings.push(format!("{problem}; the file was not imported"));
        }
        // Nothing is deleted: an empty root may be the wrong folder.
        if files.is_empty() {
            return Ok(report);
        }
        let (stored, _) = entity_versions(&*ports.documents, project).await?;
        for (id, version) in &files {
            if *version == Version::UNREADABLE && !stored.contains_key(id) {
                report.skipped_files += 1;
            }
        }
        let differing = list_differing(files, &stored);
        // A large project has many versions, and the rest of the import needs none.
        drop(stored);
        let deleted = self.deleted_entities().await?;
        let total = differing.len();
        let mut remaining = differing.into_iter();
        while remaining.len() > 0 {
            if progress.is_cancelled() {
                let message = "Cancelled; the files imported so far remain in the storage.";
                return Err(Error::new(ErrorKind::Cancelled, message));
            }
            let (mut changes, mut bytes) = (Vec::new(), 0);
            while changes.len() < BATCH_DOCUMENTS && bytes < BATCH_BYTES {
                let Some(entity) = remaining.next() else { break };
                if !self.is_imported(&entity, &deleted, &mut report).await? {
                    continue;
                }
                let stored = entity.stored;
                let Some(change) = read_change(tree, project, entity.id).await? else { continue };
                if let DocumentChange::Put { document } = &change {
                    bytes += document.body.len();
                }
                changes.push(ImportChange { change, stored });
            }
            self.commit_batch(changes, &mut report).await?;
            progress.progress(total - remaining.len(), total, "imported");
        }
        Ok(report)
    }

    /// The names of the entities that a tool deleted.
    async fn deleted_entities(&self) -> Result<BTreeSet<String>> {
        let mut filter = DocumentFilter::of_kind(DocumentKind::Deleted);
        let mut names = BTreeSet::new();
        loop {
            let page = self.ports.documents.find(self.project, &filter).await?;
            for meta in &page.metadata {
                names.extend(meta.id.deleted_entity().map(str::to_owned));
            }
            let Some(next) = page.next_name else { return Ok(names) };
            filter.after_name = Some(next);
        }
    }

    /// True if the file of an entity, or its absence, replaces the stored text.
    async fn is_imported(
        &self,
        entity: &DifferingEntity,
        deleted: &BTreeSet<String>,
        report: &mut ImportReport,
    ) -> Result<bool> {
        let id = &entity.id;
        // Fast path: most files of a first import are new.
        if entity.stored.is_none() && !deleted.contains(&id.name) {
            return Ok(true);
        }
        match self.compare(entity).await? {
            ImportVerdict::Import => Ok(true),
            ImportVerdict::Keep => Ok(false),
            ImportVerdict::Replace => {
                let message = "a tool and the file changed it; the file was imported, and \
                               get_history shows the other text";
                report.warnings.push(format!("{id}: {message}"));
                Ok(true)
            }
            ImportVerdict::KeepWithWarning(reason) => {
                report.warnings.push(format!("{id}: {reason}"));
                Ok(false)
            }
        }
    }

    async fn compare(&self, entity: &DifferingEntity) -> Result<ImportVerdict> {
        let query = HistoryQuery { after: None, limit: MAX_VERSIONS };
        let page = self.ports.history.history(self.project, &entity.id, &query).await?;
        let mut entries = page.entries.iter();
        let present = entries.next();
        if present.is_none_or(is_from_file) {
            return Ok(ImportVerdict::Import);
        }
        // The last version that the storage and the file had in common.
        let common = entries.find(|entry| is_from_file(entry)).and_then(|entry| entry.version);
        Ok(match (entity.file, common) {
            (None, None) => ImportVerdict::Keep,
            (None, Some(_)) => ImportVerdict::KeepWithWarning(
                "it has no file any more, but a tool changed it; delete_item deletes it",
            ),
            (Some(file), Some(common)) if file == common => ImportVerdict::Keep,
            (Some(_), Some(_)) => ImportVerdict::Replace,
            (Some(_), None) => ImportVerdict::KeepWithWarning(
                "a tool wrote the stored text; the file was not imported",
            ),
        })
    }

    /// Commits all changes at once. If the storage rejects one, commits each one separately.
    async fn commit_batch(
        &self,
        changes: Vec<ImportChange>,
        report: &mut ImportReport,
    ) -> Result<()> {
        match self.commit_changes(changes.clone(), report).await {
            // Falls through to single commits, so that one invalid file does not stop the import.
            Err(error) if error.kind == ErrorKind::Refused => {}
            outcome => return outcome,
        }
        for change in changes {
            match self.commit_changes(vec![change], report).await {
                Err(error) if error.kind == ErrorKind::Refused => {
                    report.skipped_files += 1;
                    report.warnings.push(format!("{}; the file was not imported", error.message));
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Skips an entity that another call changed after its version was read.
    async fn commit_changes(
        &self,
        changes: Vec<ImportChange>,
        report: &mut ImportReport,
    ) -> Result<()> {
        let documents = changes.iter().map(|import| import.change.id().clone()).collect();
        let reads = ReadSet::of_documents(documents);
        let decide = move |snapshot: &Snapshot| {
            let (mut accepted, mut skipped) = (Vec::new(), Vec::new());
            for (position, import) in changes.iter().enumerate() {
                let document = snapshot.documents.get(position).and_then(Option::as_ref);
                // Compared inside the commit, because another call may write until then.
                if document.map(|document| document.version) == import.stored {
                    accepted.push(import.change.clone());
                } else {
                    skipped.push(import.change.id().clone());
                }
            }
            Ok((accepted, skipped))
        };
        let (skipped, _) =
            commit_decision(self.ports, self.project, reads, self.act.clone(), decide).await?;
        for id in skipped {
            let message = "another call just changed it; repeat ixchel_sync";
            report.warnings.push(format!("{id}: {message}"));
        }
        Ok(())
    }
}

/// True for a version that an import wrote. Copies and migrations of files have no origin.
fn is_from_file(entry: &HistoryEntry) -> bool {
    entry.origin.tool.as_deref().is_none_or(|tool| tool == SYNC_NAME)
}

/// Lists entities without a file, then files whose bytes differ.
fn list_differing(
    files: BTreeMap<DocumentId, Version>,
    stored: &BTreeMap<DocumentId, Version>,
) -> Vec<DifferingEntity> {
    let mut differing = Vec::new();
    for (id, version) in stored {
        if !files.contains_key(id) {
            let (id, stored) = (id.clone(), Some(*version));
            differing.push(DifferingEntity { id, file: None, stored });
        }
    }
    for (id, version) in files {
        let stored = stored.get(&id).copied();
        if version != Version::UNREADABLE && stored != Some(version) {
            differing.push(DifferingEntity { id, file: Some(version), stored });
        }
    }
    differing
}

/// Returns the version of every entity, and the problems of the unreadable ones.
pub(super) async fn entity_versions(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
) -> Result<(BTreeMap<DocumentId, Version>, Vec<String>)> {
    let (mut versions, mut problems) = (BTreeMap::new(), Vec::new());
    let mut filter = DocumentFilter::of_kind(DocumentKind::Entity);
    loop {
        let page = documents.find(project, &filter).await?;
        for meta in &page.metadata {
            if let Some(problem) = &meta.diagnostic
                && meta.version == Version::UNREADABLE
            {
                problems.push(format!("{}: {}", meta.id, problem.message));
            }
            versions.insert(meta.id.clone(), meta.version);
        }
        let Some(next) = page.next_name else { return Ok((versions, problems)) };
        filter.after_name = Some(next);
    }
}

/// Returns the change for a document that differs; `None` if its file cannot be read now.
async fn read_change(
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    id: DocumentId,
) -> Result<Option<DocumentChange>> {
    match get_one(tree, project, &id).await {
        Ok(Some(document)) => Ok(Some(DocumentChange::Put { document })),
        Ok(None) => Ok(Some(DocumentChange::Delete { id })),
        Err(StoreError::Internal(error)) => Err(StoreError::Internal(error).into()),
        // The file was readable a moment ago; the next sync reports it if it stays unreadable.
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
