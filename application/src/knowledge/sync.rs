//! `ixchel_sync`: examines every entity file, updates the search index and counts the changes.
//!
//! In a database, it imports the files of the workspace root and deletes entities without a file.
//! A root without entities deletes nothing, because it may be the wrong folder.

use std::collections::BTreeMap;

use async_trait::async_trait;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use reqlore_domain::knowledge::EntityIndex;
use reqlore_domain::ports::documents::{
    DocumentChange, DocumentFilter, DocumentRepository, ReadSet, Refresh, Revision, StoreError,
};
use reqlore_domain::ports::service::{ProgressSink, ToolCall, ToolReply, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Repo;
use crate::empty_answer::add_reason;
use crate::tool::{Tool, decode_arguments, read_tool};
use crate::transaction::{commit_decision, get_one, write_context};
use crate::{ApplicationPorts, ToolContext};

pub(crate) struct SyncTool {
    /// True if the tool imports files into a database; part of its spec.
    pub(crate) imports_files: bool,
}

/// Name of the checkpoint that changes are counted from.
const CHECKPOINT: &str = "ixchel_sync";
const MAX_WARNINGS: usize = 100;
/// Limits of one commit. A call can be cancelled between two commits.
const BATCH_DOCUMENTS: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Documents per page when metadata is listed.
const PAGE_SIZE: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path in the repository.
    repo: Option<Repo>,
}

#[derive(Serialize, JsonSchema)]
struct SyncReport {
    /// All .md files.
    scanned: usize,
    added: usize,
    modified: usize,
    deleted: usize,
    unchanged: usize,
    /// Problems to fix: file, line and reason.
    warnings: Vec<String>,
}

#[async_trait]
impl Tool for SyncTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            // Only the import changes documents.
            may_change: self.imports_files,
            is_destructive: self.imports_files,
            ..read_tool::<Arguments, SyncReport>(
                "ixchel_sync",
                "Update the knowledge index",
                "Updates the search index from .ixchel and counts changes since the last sync. \
                 Not needed after edits. Call it to list changes and problems, or to import the \
                 files into a database.",
            )
        }
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let project =
            super::resolve_project(context, &call.caller, arguments.repo.as_ref()).await?;
        let (ports, progress) = (&context.ports, &*call.progress_sink);
        let mut skipped = SkippedFiles::default();
        // For a caller with read access, the sync covers the stored entities only.
        if let Some(tree) = &ports.root_files
            && call.caller.is_allowed(Access::Write)
        {
            let reason = "files of the workspace root were imported";
            // Without a key: an import takes several commits, and repeating it is harmless.
            let act = WriteContext {
                idempotency_key: None,
                ..write_context(context, &call, spec, reason)
            };
            skipped = import_files(ports, &**tree, &project, &act, progress).await?;
        }
        context.indexes.update_search(ports, &project, Refresh::Full, progress).await?;
        let cache = context.indexes.entities(ports, &project, Refresh::Incremental).await?;
        let entity_index = &cache.entity_index;
        let versions = entity_index.versions();
        let difference = ports.search.update_checkpoint(&project, CHECKPOINT, versions).await?;
        let report = SyncReport {
            scanned: entity_index.len() + skipped.files,
            added: difference.added,
            modified: difference.modified,
            deleted: difference.deleted,
            unchanged: difference.unchanged,
            warnings: list_warnings(entity_index, skipped.warnings),
        };
        drop(cache);
        let mut reply = super::json_reply(&report)?;
        if report.scanned == 0 {
            let (kinds, excluded) = ([DocumentKind::Entity], "There are no entities.");
            add_reason(&mut reply, ports, &call.caller, &project, &kinds, excluded).await?;
        }
        Ok(reply)
    }
}

/// Adds the problems of the stored entities to the warnings of the import.
fn list_warnings(entity_index: &EntityIndex, mut warnings: Vec<String>) -> Vec<String> {
    for (name, diagnostic) in entity_index.diagnostics() {
        let file = DocumentId::entity(name);
        warnings.push(match diagnostic.line {
            Some(line) => format!("{file}:{line}: {}", diagnostic.message),
            None => format!("{file}: {}", diagnostic.message),
        });
    }
    for (id, names) in entity_index.duplicates() {
        let mut files = Vec::new();
        for name in names {
            files.push(DocumentId::entity(name).to_string());
        }
        let files = files.join(" and ");
        warnings.push(format!("{files} use the same id {id}; give each entity its own id"));
    }
    let all = warnings.len();
    if all > MAX_WARNINGS {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("and {} more; `reqlore check` lists all", all - MAX_WARNINGS));
    }
    warnings
}

/// Files that were not imported.
#[derive(Debug, Default)]
struct SkippedFiles {
    /// Number of skipped files that the storage has no version of.
    files: usize,
    warnings: Vec<String>,
}

/// Imports the entities of `tree`. An unreadable file is reported and its stored version stays.
async fn import_files(
    ports: &ApplicationPorts,
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    act: &WriteContext,
    progress: &dyn ProgressSink,
) -> Result<SkippedFiles> {
    tree.changes(project, DocumentKind::Entity, Revision::default(), Refresh::Full).await?;
    let (mut files, problems) = entity_versions(tree, project).await?;
    let mut skipped = SkippedFiles::default();
    for problem in problems {
        skipped.warnings.push(format!("{problem}; the file was not imported"));
    }
    // Nothing is deleted: an empty root may be the wrong folder.
    if files.is_empty() {
        return Ok(skipped);
    }
    let (stored, _) = entity_versions(&*ports.documents, project).await?;
    for (id, version) in &files {
        if *version == Version::UNREADABLE && !stored.contains_key(id) {
            skipped.files += 1;
        }
    }
    // Deletions of entities without a file, then files whose bytes differ.
    let mut differing: Vec<DocumentId> = Vec::new();
    differing.extend(stored.keys().filter(|id| !files.contains_key(*id)).cloned());
    files.retain(|id, version| *version != Version::UNREADABLE && stored.get(id) != Some(version));
    drop(stored);
    differing.extend(files.into_keys());
    let total = differing.len();
    let mut remaining = differing.into_iter();
    while remaining.len() > 0 {
        if progress.is_cancelled() {
            let message = "Cancelled; the files imported so far remain in the storage.";
            return Err(Error::new(ErrorKind::Cancelled, message));
        }
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while changes.len() < BATCH_DOCUMENTS && bytes < BATCH_BYTES {
            let Some(id) = remaining.next() else { break };
            let change = read_change(tree, project, id).await?;
            if let Some(DocumentChange::Put { document }) = &change {
                bytes += document.body.len();
            }
            changes.extend(change);
        }
        commit_batch(ports, project, changes, act, &mut skipped).await?;
        progress.progress(total - remaining.len(), total, "imported");
    }
    Ok(skipped)
}

/// Returns the version of every entity, and the problems of the unreadable ones.
async fn entity_versions(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
) -> Result<(BTreeMap<DocumentId, Version>, Vec<String>)> {
    let (mut versions, mut problems) = (BTreeMap::new(), Vec::new());
    let mut filter =
        DocumentFilter { limit: Some(PAGE_SIZE), ..DocumentFilter::of_kind(DocumentKind::Entity) };
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

/// Commits all changes at once. If the storage rejects one of them, commits each one separately.
async fn commit_batch(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    changes: Vec<DocumentChange>,
    act: &WriteContext,
    skipped: &mut SkippedFiles,
) -> Result<()> {
    match commit_changes(ports, project, changes.clone(), act).await {
        Err(error) if error.kind == ErrorKind::Refused => {}
        outcome => return outcome,
    }
    for change in changes {
        match commit_changes(ports, project, vec![change], act).await {
            Err(error) if error.kind == ErrorKind::Refused => {
                skipped.files += 1;
                skipped.warnings.push(format!("{}; the file was not imported", error.message));
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

async fn commit_changes(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    changes: Vec<DocumentChange>,
    act: &WriteContext,
) -> Result<()> {
    let documents = changes.iter().map(|change| change.id().clone()).collect();
    let reads = ReadSet::of_documents(documents);
    commit_decision(ports, project, reads, act.clone(), move |_| Ok((changes.clone(), ()))).await?;
    Ok(())
}
