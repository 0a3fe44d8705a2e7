//! The files of a project taken over into a storage that keeps its documents elsewhere (rulings 5).
//!
//! What differs by its bytes is put, what is no file any more is deleted. The trap: a root without
//! any entity says nothing about the storage; it may be another machine's, so nothing is deleted.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{
    Change, DocumentRepository, Filter, ReadSet, Refresh, Revision, StoreError,
};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project::ProjectKey;

use crate::Ports;
use crate::edit::edit;

/// So many documents, of so many bytes, are committed at a time; between them the call can be
/// cancelled.
const BATCH: (usize, usize) = (256, 4 * 1024 * 1024);
/// So many heads are listed at a time.
const PAGE: usize = 10_000;

/// What could not be taken over.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// Files of which the storage has nothing.
    pub(crate) files: usize,
    pub(crate) warnings: Vec<String>,
}

/// Makes the storage hold the entities that the tree holds; what can't be read there stays as it is
/// and is told.
pub(crate) async fn import(
    ports: &Ports,
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    act: &WriteContext,
    observer: &dyn ProgressSink,
) -> Result<Missed> {
    tree.changes(project, Kind::Entity, Revision::default(), Refresh::Full).await?;
    let mut missed = Missed::default();
    let mut files = versions(tree, project, &mut |id, reason| {
        missed.warnings.push(format!("{id}: {reason}; it was not taken over"));
    })
    .await?;
    if files.is_empty() {
        return Ok(missed);
    }
    let kept = versions(&*ports.documents, project, &mut |_, _| ()).await?;
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
            let change = change(tree, project, id).await?;
            if let Some(Change::Put { document }) = &change {
                bytes += document.body.len();
            }
            changes.extend(change);
        }
        take_over(ports, project, changes, act, &mut missed).await?;
        observer.progress(total - rest.len(), total, "taken over");
    }
    Ok(missed)
}

/// The version of every entity; `fault` hears of those that can't be read.
async fn versions(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
    fault: &mut (dyn FnMut(&DocumentId, &str) + Send),
) -> Result<BTreeMap<DocumentId, Version>> {
    let mut versions = BTreeMap::new();
    let mut filter = Filter { limit: Some(PAGE), ..Filter::all(Kind::Entity) };
    loop {
        let page = documents.find(project, &filter).await?;
        for head in &page.heads {
            if let Some(found) = head.fault.as_ref().filter(|_| head.version == Version::UNREAD) {
                fault(&head.id, &found.message);
            }
            versions.insert(head.id.clone(), head.version);
        }
        let Some(next) = page.next else { return Ok(versions) };
        filter.after = Some(next);
    }
}

/// What becomes of a document that differs; nothing while its file can't be read.
async fn change(
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    id: DocumentId,
) -> Result<Option<Change>> {
    match tree.get(project, std::slice::from_ref(&id)).await {
        Ok(found) => Ok(Some(match found.into_iter().next().flatten() {
            Some(document) => Change::Put { document },
            None => Change::Delete { id },
        })),
        Err(StoreError::Internal(fault)) => Err(StoreError::Internal(fault).into()),
        // It could be read a moment ago; the next sync tells more.
        Err(_) => Ok(None),
    }
}

/// All at once; where the storage refuses something, one by one, and what is refused is told.
async fn take_over(
    ports: &Ports,
    project: &ProjectKey,
    changes: Vec<Change>,
    act: &WriteContext,
    missed: &mut Missed,
) -> Result<()> {
    match commit(ports, project, changes.clone(), act).await {
        Err(error) if error.kind == ErrorKind::Refused => {}
        committed => return committed,
    }
    for change in changes {
        match commit(ports, project, vec![change], act).await {
            Err(error) if error.kind == ErrorKind::Refused => {
                missed.files += 1;
                missed.warnings.push(format!("{}; it was not taken over", error.message));
            }
            committed => committed?,
        }
    }
    Ok(())
}

async fn commit(
    ports: &Ports,
    project: &ProjectKey,
    changes: Vec<Change>,
    act: &WriteContext,
) -> Result<()> {
    let documents = changes.iter().map(|change| change.id().clone()).collect();
    let reads = ReadSet::of(documents);
    let put = edit(ports, project, reads, act.clone(), move |_| Ok((changes.clone(), ())));
    put.await.map(|_| ())
}
