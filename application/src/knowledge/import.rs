//! The files of a project taken over into a storage that keeps its documents elsewhere (rulings 5).
//!
//! What differs by its bytes is put, what is no file any more is deleted. The trap: a root without
//! any entity says nothing about the storage; it may be another machine's, so nothing is deleted.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, Head, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{
    Act, Change, DocumentRepository, Filter, Reads, StoreError,
};
use reqlore_domain::ports::endpoint::Observer;
use reqlore_domain::project::ProjectKey;

use crate::Ports;
use crate::edit::edit;

/// So many documents are read and committed at a time; between them the call can be cancelled.
const BATCH: usize = 256;

/// Makes the storage hold the entities that the tree holds; what can't be read there stays as it is
/// and is told.
pub(crate) async fn import(
    ports: &Ports,
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    act: &Act,
    observer: &dyn Observer,
) -> Result<Vec<String>> {
    let files = tree.find(project, &Filter::all(Kind::Entity)).await?.heads;
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let kept = ports.documents.find(project, &Filter::all(Kind::Entity)).await?.heads;
    let kept: BTreeMap<&DocumentId, Version> = kept.iter().map(|h| (&h.id, h.version)).collect();
    let is_readable = |head: &&std::sync::Arc<Head>| head.version != Version::UNREAD;
    let differs = files.iter().filter(is_readable);
    let differs = differs.filter(|head| kept.get(&head.id) != Some(&head.version));
    let mut changed: Vec<DocumentId> = differs.map(|head| head.id.clone()).collect();
    let is_gone = |id: &&&DocumentId| files.binary_search_by(|head| head.id.cmp(id)).is_err();
    changed.extend(kept.keys().filter(is_gone).map(|id| (*id).clone()));
    for (at, batch) in changed.chunks(BATCH).enumerate() {
        if observer.is_cancelled() {
            let message = "Cancelled; what was taken over until now stays.";
            return Err(Error::new(ErrorKind::Cancelled, message));
        }
        take_over(ports, tree, project, batch, act).await?;
        observer.progress(at * BATCH + batch.len(), changed.len(), "taken over");
    }
    let unread = files.iter().filter(|head| !is_readable(head));
    let told = unread.filter_map(|head| head.fault.as_ref().map(|f| (&head.id, &f.reason)));
    Ok(told.map(|(id, reason)| format!("{id}: {reason}; it was not taken over")).collect())
}

async fn take_over(
    ports: &Ports,
    tree: &dyn DocumentRepository,
    project: &ProjectKey,
    ids: &[DocumentId],
    act: &Act,
) -> Result<()> {
    let mut changes = Vec::with_capacity(ids.len());
    for id in ids {
        changes.push(match tree.get(project, std::slice::from_ref(id)).await {
            Ok(found) => match found.into_iter().next().flatten() {
                Some(document) => Change::Put { document },
                None => Change::Delete { id: id.clone() },
            },
            // It could be read a moment ago; the next sync tells more.
            Err(StoreError::Fault(fault)) => return Err(StoreError::Fault(fault).into()),
            Err(_) => continue,
        });
    }
    let reads = Reads { documents: ids.to_vec(), heads: None };
    edit(ports, project, reads, act.clone(), move |_| Ok((changes.clone(), ()))).await?;
    Ok(())
}
