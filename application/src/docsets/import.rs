//! Imports the configuration of docsets from a file into the storage.

use std::sync::Arc;

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::DocsetConfig;
use reqlore_domain::document::{Document, DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;

use crate::ports::ApplicationPorts;
use crate::writes::transaction::commit_decision;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocsetImport {
    pub docsets: usize,
    pub version: Version,
    /// True if a different configuration was replaced.
    pub replaced: bool,
    /// True if the storage already had this configuration.
    pub unchanged: bool,
}

/// Replaces the configuration of the default project. An invalid one is rejected with its
/// diagnostics.
pub async fn import(
    ports: &ApplicationPorts,
    text: String,
    caller: Caller,
) -> Result<DocsetImport> {
    if !caller.is_allowed(Access::Write) {
        let message =
            format!("docsets import is a write operation; {} has read access only.", caller.name);
        return Err(Error::new(ErrorKind::Forbidden, message));
    }
    // Always the configuration of the root, even if one in a folder above it is in use.
    let project = ProjectKey::default();
    let folder = ports.projects.folder(&project).await?;
    let refusal =
        |problems: &[Diagnostic]| super::unusable_config(&super::first_diagnostics(problems));
    let configuration =
        DocsetConfig::parse(&text, &folder).map_err(|problems| refusal(&problems))?;
    // A user who imports a file can correct it first.
    if !configuration.docset_errors.is_empty() {
        return Err(refusal(&configuration.docset_errors));
    }
    let id = DocumentId::docsets();
    let reads = ReadSet::of_documents(vec![id.clone()]);
    let act = WriteContext {
        caller: Arc::new(caller),
        tool: "docsets import",
        reason: "imported on the command line".to_owned(),
        correlation_id: "docsets-import".to_owned(),
        at: ports.clock.now(),
        audited: None,
        idempotency_key: None,
    };
    let document = Document::new(id, text.into());
    let version = document.version;
    let transaction = commit_decision(ports, &project, reads, act, move |snapshot: &Snapshot| {
        let before = match snapshot.documents.first() {
            Some(Some(document)) => Some(document.version),
            _ => None,
        };
        let mut changes = Vec::new();
        if before != Some(version) {
            changes.push(DocumentChange::Put { document: document.clone() });
        }
        Ok((changes, before))
    });
    let (before, _) = transaction.await?;
    let unchanged = before == Some(version);
    let replaced = before.is_some() && !unchanged;
    Ok(DocsetImport { docsets: configuration.docsets.len(), version, replaced, unchanged })
}
