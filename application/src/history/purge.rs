//! Erases the texts of earlier versions, for the command `reqlore history purge`.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller, UserRole};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::history::HistoryQuery;
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::tombstone;

use super::{HistoryTarget, SEARCH_PAGE, find_target};
use crate::Application;
use crate::ports::ApplicationPorts;
use crate::writes::transaction::commit_decision;

/// The texts to erase.
#[derive(Debug)]
pub struct PurgeRequest {
    /// Any ID, also of a deleted document.
    pub reference: String,
    /// One version; all earlier ones without it.
    pub version: Option<VersionPrefix>,
    /// Recorded in the audit log.
    pub reason: String,
    pub is_audited: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct PurgeReport {
    /// The document, as answers print it.
    pub document: String,
    /// Number of versions without a text.
    pub erased: u64,
}

/// Erases earlier texts of a document. Only an administrator may do this.
pub async fn purge_history(
    ports: ApplicationPorts,
    caller: Arc<Caller>,
    request: PurgeRequest,
) -> Result<PurgeReport> {
    if caller.role != UserRole::Administrator || !caller.is_allowed(Access::Write) {
        let message = "history purge: only an administrator may erase texts, without --read-only";
        return Err(Error::new(ErrorKind::Forbidden, message));
    }
    let PurgeRequest { reference, version, reason, is_audited } = request;
    if reason.trim().is_empty() {
        let message = "reason: it is empty; say why the text is erased, without repeating it";
        return Err(Error::new(ErrorKind::InvalidArgument, message).field("reason"));
    }
    let application = Application::new(ports.clone());
    let target = find_target(&application.context, &caller, &reference).await?;
    let version = match version {
        // Completed first, so that a short prefix never erases more than one version.
        Some(prefix) => Some(complete_version(&ports, &target, prefix).await?),
        None => None,
    };
    let context = WriteContext {
        caller,
        tool: "history purge",
        reason,
        correlation_id: "history-purge".to_owned(),
        at: ports.clock.now(),
        audited: is_audited.then(|| AuditScope::begin(Arc::clone(&ports.clock))),
        idempotency_key: None,
    };
    let HistoryTarget { project, id, .. } = &target;
    // Also if the storage refuses: the texts of the index come from files as well.
    let index_erased = ports.search.erase(project).await;
    let purged = ports.history.purge_history(project, id, version, context.clone()).await;
    let erased = purged.map_err(|error| {
        let mut error = Error::from(error);
        error.message += "; earlier texts were removed from the search index";
        error
    })?;
    let erased = erased.max(erase_tombstone(&ports, project, id, context).await?);
    index_erased?;
    if erased == 0 {
        let message = format!("{reference} has no earlier text; there is nothing to erase");
        return Err(Error::new(ErrorKind::NotFound, message).reference(reference));
    }
    Ok(PurgeReport { document: id.to_string(), erased })
}

/// Erases the text that the tombstone of a deleted document keeps, and its earlier versions.
/// Returns the number of these versions.
async fn erase_tombstone(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    id: &DocumentId,
    context: WriteContext,
) -> Result<u64> {
    if !matches!(id.kind, DocumentKind::Item(_) | DocumentKind::Entity) {
        return Ok(0);
    }
    let id = id.tombstone();
    let erased_id = id.clone();
    let erase = move |snapshot: &Snapshot| {
        let mut changes = Vec::new();
        if let Some(Some(document)) = snapshot.documents.first() {
            let text = tombstone::erase_text(&String::from_utf8_lossy(&document.body));
            if text.as_bytes() != &document.body[..] {
                let document = Document::new(erased_id.clone(), text.into());
                changes.push(DocumentChange::Put { document });
            }
        }
        Ok((changes, ()))
    };
    let reads = ReadSet::of_documents(vec![id.clone()]);
    commit_decision(ports, project, reads, context.clone(), erase).await?;
    // The commit made an earlier version of the text.
    Ok(ports.history.purge_history(project, &id, None, context).await?)
}

/// Finds the only version that begins with these digits.
async fn complete_version(
    ports: &ApplicationPorts,
    HistoryTarget { project, id, name, .. }: &HistoryTarget,
    prefix: VersionPrefix,
) -> Result<Version> {
    let mut query = HistoryQuery { after: None, limit: SEARCH_PAGE };
    let mut found = BTreeSet::new();
    loop {
        let page = ports.history.history(project, id, &query).await?;
        let versions = page.entries.iter().filter_map(|entry| entry.version);
        found.extend(versions.filter(|version| prefix.matches(*version)));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let message = match found.first() {
        Some(version) if found.len() == 1 => return Ok(*version),
        Some(_) => format!("version: {name} has several versions {prefix}; give all 16 digits"),
        None => format!(
            "version: {name} has no version {prefix}; `reqlore history {name}` lists its versions"
        ),
    };
    Err(Error::new(ErrorKind::NotFound, message).field("version").reference(name))
}
