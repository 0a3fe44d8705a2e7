//! `ixchel_sync`: examines every file, brings the search index up to date, and counts.
//!
//! For a storage that keeps documents elsewhere, it imports the files of the project's root: it
//! puts documents whose bytes differ and deletes those without a file. A root without any entity
//! may be the one of another machine, so nothing is deleted then.

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
use crate::tool::{Tool, decode, read_tool};
use crate::transaction::{act, edit, get_one};
use crate::{ApplicationPorts, ToolContext};

pub(crate) struct SyncTool {
    /// True if it imports files into a database. Clients see that in its spec.
    pub(crate) imports_files: bool,
}

/// The checkpoint of the search index that changes are counted from.
const CHECKPOINT: &str = "ixchel_sync";
const MAX_WARNINGS: usize = 100;
/// Documents and bytes of one commit. A call can be cancelled between two commits.
const BATCH: (usize, usize) = (256, 4 * 1024 * 1024);
/// Metadata read at a time.
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
            // It changes no document but by taking files over, and then only for who may write.
            may_change: self.imports_files,
            destructive: self.imports_files,
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
        let arguments: Arguments = decode(&mut call, spec)?;
        let project =
            super::resolve_project(context, &call.caller, arguments.repo.as_ref()).await?;
        let (ports, observer) = (&context.ports, &*call.observer);
        let mut missed = SkippedFiles::default();
        // Who may not write sees what is in the storage.
        if let Some(tree) = ports.tree.as_deref().filter(|_| call.caller.may(Access::Write)) {
            let reason = "the files of the project's root are taken over";
            // It takes several commits, and does the same when it is done again.
            let act = WriteContext { idempotency_key: None, ..act(context, &call, spec, reason) };
            missed = import_files(ports, tree, &project, &act, observer).await?;
        }
        context.indexes.update_search(ports, &project, Refresh::Full, observer).await?;
        let known = context.indexes.entities(ports, &project, Refresh::Incremental).await?;
        let entity_index = &known.entity_index;
        let versions = entity_index.versions();
        let difference = ports.search.checkpoint(&project, CHECKPOINT, versions).await?;
        super::json_reply(&SyncReport {
            scanned: entity_index.len() + missed.files,
            added: difference.added,
            modified: difference.modified,
            deleted: difference.deleted,
            unchanged: difference.unchanged,
            warnings: list_warnings(entity_index, missed.warnings),
        })
    }
}

/// What is wrong in the storage, behind what could not be taken over.
fn list_warnings(entity_index: &EntityIndex, mut warnings: Vec<String>) -> Vec<String> {
    warnings.extend(entity_index.faults().map(|(name, fault)| {
        let file = DocumentId::entity(name);
        match fault.line {
            Some(line) => format!("{file}:{line}: {}", fault.message),
            None => format!("{file}: {}", fault.message),
        }
    }));
    for (id, names) in entity_index.duplicates() {
        let files: Vec<String> =
            names.iter().map(|name| DocumentId::entity(*name).to_string()).collect();
        warnings.push(format!("{} claim one id, {id}; give each its own", files.join(" and ")));
    }
    let all = warnings.len();
    if all > MAX_WARNINGS {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("and {} more; `reqlore check` lists all", all - MAX_WARNINGS));
    }
    warnings
}

#[derive(Debug, Default)]
struct SkippedFiles {
    /// Number of files of which the storage has nothing.
    files: usize,
    warnings: Vec<String>,
}

/// Imports the entities of the tree. A file that cannot be read changes nothing and is a warning.
async fn import_files(
    ports: &ApplicationPorts,
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    act: &WriteContext,
    observer: &dyn ProgressSink,
) -> Result<SkippedFiles> {
    tree.changes(project, DocumentKind::Entity, Revision::default(), Refresh::Full).await?;
    let (mut files, faults) = entity_versions(tree, project).await?;
    let warnings = faults.iter().map(|fault| format!("{fault}; it was not taken over")).collect();
    let mut missed = SkippedFiles { files: 0, warnings };
    if files.is_empty() {
        return Ok(missed);
    }
    let (kept, _) = entity_versions(&*ports.documents, project).await?;
    let unread = |id: &DocumentId| files.get(id) == Some(&Version::UNREAD);
    missed.files = files.keys().filter(|id| unread(id) && !kept.contains_key(*id)).count();
    let mut differing: Vec<DocumentId> =
        kept.keys().filter(|id| !files.contains_key(*id)).cloned().collect();
    files.retain(|id, version| *version != Version::UNREAD && kept.get(id) != Some(version));
    drop(kept);
    differing.extend(files.into_keys());
    let total = differing.len();
    let mut rest = differing.into_iter().peekable();
    while rest.peek().is_some() {
        if observer.is_cancelled() {
            let message = "Cancelled; what was taken over until now stays.";
            return Err(Error::new(ErrorKind::Cancelled, message));
        }
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while changes.len() < BATCH.0 && bytes < BATCH.1 {
            let Some(id) = rest.next() else { break };
            let change = read_change(tree, project, id).await?;
            if let Some(DocumentChange::Put { document }) = &change {
                bytes += document.body.len();
            }
            changes.extend(change);
        }
        commit_batch(ports, project, changes, act, &mut missed).await?;
        observer.progress(total - rest.len(), total, "taken over");
    }
    Ok(missed)
}

/// The version of every entity, and the faults of those that cannot be read.
async fn entity_versions(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
) -> Result<(BTreeMap<DocumentId, Version>, Vec<String>)> {
    let (mut versions, mut faults) = (BTreeMap::new(), Vec::new());
    let mut filter =
        DocumentFilter { limit: Some(PAGE_SIZE), ..DocumentFilter::all(DocumentKind::Entity) };
    loop {
        let page = documents.find(project, &filter).await?;
        for head in &page.metadata {
            if let Some(fault) = head.fault.as_ref().filter(|_| head.version == Version::UNREAD) {
                faults.push(format!("{}: {}", head.id, fault.message));
            }
            versions.insert(head.id.clone(), head.version);
        }
        let Some(next) = page.next else { return Ok((versions, faults)) };
        filter.after = Some(next);
    }
}

/// The change for a document that differs; none while its file cannot be read.
async fn read_change(
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    id: DocumentId,
) -> Result<Option<DocumentChange>> {
    match get_one(tree, project, &id).await {
        Ok(Some(document)) => Ok(Some(DocumentChange::Put { document })),
        Ok(None) => Ok(Some(DocumentChange::Delete { id })),
        Err(StoreError::Internal(fault)) => Err(StoreError::Internal(fault).into()),
        // It could be read a moment ago; the next sync tells more.
        Err(_) => Ok(None),
    }
}

/// Commits all at once. If the storage refuses that, commits one by one and warns of the refused.
async fn commit_batch(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    changes: Vec<DocumentChange>,
    act: &WriteContext,
    missed: &mut SkippedFiles,
) -> Result<()> {
    match commit_changes(ports, project, changes.clone(), act).await {
        Err(error) if error.kind == ErrorKind::Refused => {}
        committed => return committed,
    }
    for change in changes {
        match commit_changes(ports, project, vec![change], act).await {
            Err(error) if error.kind == ErrorKind::Refused => {
                missed.files += 1;
                missed.warnings.push(format!("{}; it was not taken over", error.message));
            }
            committed => committed?,
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
    let reads = ReadSet::of(documents);
    let put = edit(ports, project, reads, act.clone(), move |_| Ok((changes.clone(), ())));
    put.await.map(|_| ())
}
