//! After a renumbering on one branch a link that another branch made still names the old reference:
//! its mark tells which item it means, and it is pointed there. `reqlore check --fix` does this.
//!
//! The trap: this comes before the renumbering, so a link that is pointed to a twin goes with it.

use std::sync::Arc;

use reqlore_domain::backlog::Item;
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Change, ReadSet, Snapshot};
use reqlore_domain::ports::write_context::WriteContext;

use super::check::{Move, Names};
use super::find::{self, Backlog};
use super::mended::{Mended, Relinked};
use crate::edit::edit;
use crate::finding::Finding;

/// Points each link to the item that it means. What refuses one keeps no other from it.
pub(crate) async fn relink(
    backlog: Backlog<'_>,
    names: &Names,
    act: &WriteContext,
    mended: &mut Mended,
) {
    for (head, moves) in names.moves() {
        match one(backlog, Arc::clone(head), moves, act).await {
            Ok(done) => mended.relinked.extend(done),
            Err(error) => mended.refused.push(Finding::whole(&head.id, error.message)),
        }
    }
}

async fn one(
    backlog: Backlog<'_>,
    head: Arc<DocumentMeta>,
    moves: Vec<Move>,
    act: &WriteContext,
) -> Result<Vec<Relinked>> {
    let mut documents = vec![head.id.clone()];
    documents.extend(moves.iter().map(|to| to.id.clone()));
    let decide = move |snapshot: &Snapshot| decide(&head, &moves, snapshot);
    let reads = ReadSet::of(documents);
    Ok(edit(backlog.ports, backlog.project, reads, act.clone(), decide).await?.0)
}

/// Nothing for what went meanwhile, on either end.
fn decide(
    head: &DocumentMeta,
    moves: &[Move],
    snapshot: &Snapshot,
) -> Result<(Vec<Change>, Vec<Relinked>)> {
    let mut done = Vec::new();
    let Some(Some(document)) = snapshot.documents.first() else { return Ok((Vec::new(), done)) };
    let mut text = find::text(document)?.to_owned();
    let mut item = find::read(head, document, &text);
    for (Move { from, to, id }, target) in moves.iter().zip(snapshot.documents.iter().skip(1)) {
        if target.is_none() {
            continue;
        }
        let relinked = reqlore_domain::backlog::relink(&item, &text, from, to);
        let relinked = relinked.map_err(|fault| {
            let message = format!("its link to {} can't be changed: {fault}", from.reference);
            Error::new(ErrorKind::Refused, message)
        })?;
        let Some(relinked) = relinked else { continue };
        text = relinked;
        item = Item::read(item.kind, &document.id.name, &text, item.created_at).0;
        let mark = from.mark.as_deref().unwrap_or_default();
        done.push(Relinked {
            document: document.id.to_string(),
            from: from.reference.document(mark).name,
            to: id.name.clone(),
        });
    }
    let change = (!done.is_empty()).then(|| Change::put(document.id.clone(), text));
    Ok((change.into_iter().collect(), done))
}
