//! `ixchel_sync`: examines every entity file, updates the search index and counts the changes.
//!
//! In a database, it first imports the files of the workspace root.

use std::collections::BTreeMap;

use async_trait::async_trait;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::identity::Access;
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, Refresh};
use reqlore_domain::ports::record_list::{RecordQuery, RecordSelection};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::untrusted_text::encode_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Repo;
use super::import_files::{FileImport, ImportReport, SYNC_NAME, entity_versions};
use crate::answers::answer::{Answer, ToolAnswer, serialization_error, whole_advice};
use crate::answers::empty_answer::add_reason;
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct SyncTool {
    /// True if the tool imports files into a database; part of its spec.
    pub(crate) imports_files: bool,
}

/// Name of the tool. Changes are counted from the checkpoint of this name, and imported versions
const MAX_WARNINGS: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Folder.
    repo: Option<Repo>,
}

#[derive(Clone, Serialize, JsonSchema)]
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
            access: if self.imports_files { Access::Write } else { Access::Read },
            may_change: self.imports_files,
            is_destructive: self.imports_files,
            ..read_tool::<Arguments, SyncReport>(
                SYNC_NAME,
                "Update the knowledge index",
                "Updates the search index from .ixchel. Not needed after edits. Call it to list \
                 problems and changes since the last sync, or to import files into a database.",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, .. } = &request;
        let project =
            super::resolve_project(context, &call.caller, arguments.repo.as_ref()).await?;
        let (ports, progress) = (&context.ports, &*call.progress_sink);
        let mut import = ImportReport::default();
        if let Some(tree) = &ports.root_files {
            let reason = "files of the workspace root were imported";
            // Without a key: an import takes several commits, and repeating it is harmless.
            let act = WriteContext { idempotency_key: None, ..request.write_context(reason) };
            let files = FileImport { ports, tree: &**tree, project: &project, act: &act };
            import = files.run(progress).await?;
        }
        context.indexes.update_search(ports, &project, Refresh::Full, progress).await?;
        let (versions, _) = entity_versions(&*ports.documents, &project).await?;
        let scanned = versions.len() + import.skipped_files;
        let difference = ports.search.update_checkpoint(&project, SYNC_NAME, versions).await?;
        let report = SyncReport {
            scanned,
            added: difference.added,
            modified: difference.modified,
            deleted: difference.deleted,
            unchanged: difference.unchanged,
            warnings: list_warnings(&*ports.documents, &project, import.warnings).await?,
        };
        let mut answer = ToolAnswer::new(report);
        if scanned == 0 {
            let (kinds, excluded) = ([DocumentKind::Entity], "There are no entities.");
            add_reason(&mut answer, ports, &call.caller, &project, &kinds, excluded).await?;
        }
        Ok(answer)
    }
}

impl SyncReport {
    /// The first warnings, and how many are left out.
    fn first_warnings(&self, count: usize) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if count < warnings.len() {
            let size: usize = warnings.iter().map(|warning| warning.len() + 3).sum();
            let advice = whole_advice(size + 100);
            let missing = warnings.len() - count;
            warnings.truncate(count);
            warnings.push(format!("and {missing} more; {advice}"));
        }
        warnings
    }
}

impl Answer for SyncReport {
    fn part_count(&self) -> usize {
        self.warnings.len()
    }

    fn text(&self, parts: usize) -> String {
        let Self { scanned, added, modified, deleted, unchanged, .. } = self;
        let mut text = format!(
            "Scanned {scanned}: added {added}, modified {modified}, deleted {deleted}, \
             unchanged {unchanged}"
        );
        for warning in self.first_warnings(parts) {
            text.extend(["\n- ", &encode_line(&warning)]);
        }
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let report = Self { warnings: self.first_warnings(parts), ..self.clone() };
        serde_json::to_value(report).map_err(serialization_error)
    }
}

/// Adds the problems of the stored entities to the warnings of the import.
async fn list_warnings(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
    mut warnings: Vec<String>,
) -> Result<Vec<String>> {
    let (kind, selection) = (DocumentKind::Entity, RecordSelection::WithDiagnostic);
    let with_diagnostic = RecordQuery::select(kind, selection, MAX_WARNINGS);
    let diagnostics = documents.list(project, &with_diagnostic).await?;
    let mut duplicates = duplicate_ids(documents, project).await?;
    let all = warnings.len() + diagnostics.total + duplicates.len();
    duplicates.truncate(MAX_WARNINGS);
    for meta in &diagnostics.metadata {
        let Some(Diagnostic { line, message, .. }) = &meta.diagnostic else { continue };
        warnings.push(match line {
            Some(line) => format!("{}:{line}: {message}", meta.id),
            None => format!("{}: {message}", meta.id),
        });
    }
    let found = documents.lookup(project, DocumentKind::Entity, &duplicates).await?;
    for (id, metas) in duplicates.iter().zip(found) {
        let mut files = Vec::new();
        for meta in metas {
            // A document may also have this name.
            if meta.entity.as_ref().is_some_and(|entity| entity.id == *id) {
                files.push(meta.id.to_string());
            }
        }
        let files = files.join(" and ");
        warnings.push(format!("{files} use the same id {id}; give each entity its own id"));
    }
    if all > MAX_WARNINGS {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("and {} more; `reqlore check` lists all", all - MAX_WARNINGS));
    }
    Ok(warnings)
}

/// The IDs that several entities have, sorted.
async fn duplicate_ids(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
) -> Result<Vec<String>> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    // In pages, so that not all metadata is in memory.
    let mut filter = DocumentFilter::of_kind(DocumentKind::Entity);
    loop {
        let page = documents.find(project, &filter).await?;
        for entity in page.metadata.iter().filter_map(|meta| meta.entity.as_deref()) {
            *numbers.entry(entity.id.clone()).or_default() += 1;
        }
        filter.after_name = page.next_name;
        if filter.after_name.is_none() {
            numbers.retain(|_, number| *number > 1);
            return Ok(numbers.into_keys().collect());
        }
    }
}
