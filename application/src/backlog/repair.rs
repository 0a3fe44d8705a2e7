//! Repairs that `reqlore check --fix` makes: links to renumbered items and duplicate references.
//!
//! Links are repaired first, so a link that is pointed to a duplicate follows its renumbering. A
//! repair that fails does not stop the others. A link names a reference, so the mark that its file
//! keeps (`linked`) tells which of two duplicates it means; without a mark it means the older.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqlore_domain::backlog::reference::{self, MAX_NUMBER};
use reqlore_domain::backlog::{self, ItemMeta, LinkTarget, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::timestamp::Timestamp;
use serde::Serialize;

use super::check::{LinkRepair, ReferenceIndex, TombstoneMatch};
use super::item_lookup::{self, BacklogReader};
use crate::check::CheckFinding;
use crate::transaction::edit;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairReport {
    pub relinked: Vec<RepairedLink>,
    pub renumbered: Vec<RenumberedItem>,
    /// Repairs that failed, each with its reason and remedy.
    pub refused: Vec<CheckFinding>,
}

/// One link that leads to the item that it means again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepairedLink {
    /// The file that keeps the link.
    pub document: String,
    /// The name of the file that it spoke of, as `EP-001-3f9a1c`.
    pub from: String,
    /// The name of the file that it means.
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenumberedItem {
    /// The file that it was.
    pub document: String,
    pub from: String,
    pub to: String,
    /// The files whose links followed.
    pub relinked: Vec<String>,
}

pub(crate) async fn relink(
    backlog: BacklogReader<'_>,
    names: &ReferenceIndex,
    act: &WriteContext,
    repairs: &mut RepairReport,
) {
    for (meta, moves) in names.link_repairs() {
        match relink_document(backlog, Arc::clone(meta), moves, act).await {
            Ok(done) => repairs.relinked.extend(done),
            Err(error) => repairs.refused.push(CheckFinding::whole(&meta.id, error.message)),
        }
    }
}

async fn relink_document(
    backlog: BacklogReader<'_>,
    meta: Arc<DocumentMeta>,
    moves: Vec<LinkRepair>,
    act: &WriteContext,
) -> Result<Vec<RepairedLink>> {
    let mut documents = vec![meta.id.clone()];
    documents.extend(moves.iter().map(|to| to.id.clone()));
    let decide = move |snapshot: &Snapshot| decide_relink(&meta, &moves, snapshot);
    let reads = ReadSet::of(documents);
    Ok(edit(backlog.ports, backlog.project, reads, act.clone(), decide).await?.0)
}

/// Skips documents that were removed in between, on either end.
fn decide_relink(
    meta: &DocumentMeta,
    moves: &[LinkRepair],
    snapshot: &Snapshot,
) -> Result<(Vec<DocumentChange>, Vec<RepairedLink>)> {
    let mut done = Vec::new();
    let Some(Some(document)) = snapshot.documents.first() else { return Ok((Vec::new(), done)) };
    let mut text = item_lookup::document_text(document)?.to_owned();
    let mut item = item_lookup::parse_item(meta, document, &text);
    for (LinkRepair { from, to, id }, target) in moves.iter().zip(snapshot.documents.iter().skip(1))
    {
        if target.is_none() {
            continue;
        }
        let relinked = backlog::replace_links(&item, &text, from, to);
        let relinked = relinked.map_err(|fault| {
            let message = format!("its link to {} can't be changed: {fault}", from.reference);
            Error::new(ErrorKind::Refused, message)
        })?;
        let Some(relinked) = relinked else { continue };
        text = relinked;
        item = ItemMeta::read(item.kind, &document.id.name, &text, item.created_at).0;
        let mark = from.mark.as_deref().unwrap_or_default();
        done.push(RepairedLink {
            document: document.id.to_string(),
            from: from.reference.document(mark).name,
            to: id.name.clone(),
        });
    }
    let change = (!done.is_empty()).then(|| DocumentChange::put(document.id.clone(), text));
    Ok((change.into_iter().collect(), done))
}

/// An item that does not tell its time of creation is older than all that do.
const UNKNOWN_CREATION_TIME: Timestamp = Timestamp(i64::MIN / 2);

const MAX_ATTEMPTS: usize = 5;

pub(crate) async fn renumber(
    backlog: BacklogReader<'_>,
    all: Vec<DuplicateItem>,
    act: &WriteContext,
    repairs: &mut RepairReport,
) {
    for twin in all {
        match renumber_item(backlog, &twin, act).await {
            Ok(done) => repairs.renumbered.extend(done),
            Err(error) => {
                let message = format!("it keeps {}: {}", twin.from, error.message);
                repairs.refused.push(CheckFinding::whole(&twin.meta.id, message));
            }
        }
    }
}

/// An item that can't keep its reference.
#[derive(Clone)]
pub(crate) struct DuplicateItem {
    from: Reference,
    meta: Arc<DocumentMeta>,
    /// Links without a mark mean it, because no other item has the reference now.
    owns_unmarked_links: bool,
}

/// The items whose reference an older one has, or one that another branch deleted, the oldest
/// first.
pub(crate) async fn younger(
    backlog: BacklogReader<'_>,
    names: &ReferenceIndex,
) -> Result<Vec<DuplicateItem>> {
    let mut younger = Vec::new();
    for (from, metas) in names.items_by_reference() {
        let mut keeper = None;
        let mut twins = Vec::new();
        for meta in sort_by_age(backlog, metas).await? {
            if keeper.is_none()
                && !matches!(names.tombstone_match(&meta), Some(TombstoneMatch::OtherItem(_)))
            {
                keeper = Some(meta);
            } else {
                twins.push(DuplicateItem { from, meta, owns_unmarked_links: false });
            }
        }
        let all_marked = metas.iter().all(|meta| reference::mark_of(&meta.id.name).is_some());
        if let Some(eldest) = twins.first_mut().filter(|_| keeper.is_none() && all_marked) {
            eldest.owns_unmarked_links = true;
        }
        younger.extend(twins);
    }
    Ok(younger)
}

/// Sorts by the times in the files, never by a file's own time: every clone has the same order.
async fn sort_by_age(
    backlog: BacklogReader<'_>,
    metas: &[Arc<DocumentMeta>],
) -> Result<Vec<Arc<DocumentMeta>>> {
    if metas.len() < 2 {
        return Ok(metas.to_vec());
    }
    let mut aged = Vec::with_capacity(metas.len());
    for (meta, document) in metas.iter().zip(backlog.read_documents(metas).await?) {
        aged.push((creation_key(meta, document.as_ref()), meta.id.clone(), Arc::clone(meta)));
    }
    aged.sort_by(|(one, a, _), (other, b, _)| (one, a).cmp(&(other, b)));
    Ok(aged.into_iter().map(|(_, _, meta)| meta).collect())
}

/// Time of creation and uid, as the file says.
fn creation_key(
    meta: &DocumentMeta,
    document: Option<&Document>,
) -> Option<(Timestamp, Option<String>)> {
    let text = document?.text().ok()?;
    let (item, _) = ItemMeta::read(
        item_lookup::item_meta(meta)?.kind,
        &meta.id.name,
        text,
        UNKNOWN_CREATION_TIME,
    );
    Some((item.created_at, item.uid))
}

/// `None` if the item was removed in between.
async fn renumber_item(
    backlog: BacklogReader<'_>,
    twin: &DuplicateItem,
    act: &WriteContext,
) -> Result<Option<RenumberedItem>> {
    let DuplicateItem { from, meta, .. } = twin;
    let links = item_lookup::backlink_query(&[*from]);
    for _ in 0..MAX_ATTEMPTS {
        let linking = backlog.ports.documents.backlinks(backlog.project, &links).await?;
        let mut holders: Vec<Arc<DocumentMeta>> = linking.into_iter().flatten().collect();
        holders.retain(|holder| holder.id != meta.id);
        let mut documents = vec![meta.id.clone()];
        documents.extend(holders.iter().map(|holder| holder.id.clone()));
        let reads = ReadSet {
            backlinks: links.clone(),
            sequences: vec![from.kind],
            ..ReadSet::of(documents)
        };
        let twin = twin.clone();
        let decide = move |snapshot: &Snapshot| twin.decide(&holders, snapshot);
        let (decided, _) = edit(backlog.ports, backlog.project, reads, act.clone(), decide).await?;
        match decided {
            RenumberOutcome::Renumbered(done) => return Ok(Some(done)),
            RenumberOutcome::Removed => return Ok(None),
            RenumberOutcome::NewBacklink => {}
        }
    }
    let message = format!("others kept linking to {from}; run `reqlore check --fix` again");
    Err(Error::new(ErrorKind::Busy, message))
}

enum RenumberOutcome {
    Renumbered(RenumberedItem),
    Removed,
    /// Another item links to it since the links were read.
    NewBacklink,
}

impl DuplicateItem {
    fn decide(
        &self,
        holders: &[Arc<DocumentMeta>],
        snapshot: &Snapshot,
    ) -> Result<(Vec<DocumentChange>, RenumberOutcome)> {
        let Self { from, meta, owns_unmarked_links: is_meant_unmarked } = self;
        let known: BTreeSet<&DocumentId> = holders.iter().map(|meta| &meta.id).collect();
        let mut now = snapshot.backlinks.iter().flatten().filter(|holder| holder.id != meta.id);
        let Some(Some(document)) = snapshot.documents.first() else {
            return Ok((Vec::new(), RenumberOutcome::Removed));
        };
        if now.any(|meta| !known.contains(&meta.id)) {
            return Ok((Vec::new(), RenumberOutcome::NewBacklink));
        }
        let number = snapshot.next_numbers.first().copied().unwrap_or(1);
        if number > MAX_NUMBER {
            let message = format!(
                "no number is left below {MAX_NUMBER}; give it a free number by hand, in its \
                 file's name"
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let to = Reference { kind: from.kind, number };
        let id = match reference::mark_of(&document.id.name) {
            Some(mark) => to.document(mark),
            None => DocumentId { kind: DocumentKind::Item(to.kind), name: to.to_string() },
        };
        let mut changes = vec![
            DocumentChange::put(id.clone(), document.body.clone()),
            DocumentChange::Delete { id: document.id.clone() },
        ];
        let mut meant = vec![item_lookup::link_target(*from, &document.id.name)];
        meant.extend(is_meant_unmarked.then_some(LinkTarget { reference: *from, mark: None }));
        let to = item_lookup::link_target(to, &id.name);
        let mut relinked = Vec::new();
        for (holder, found) in holders.iter().zip(snapshot.documents.iter().skip(1)) {
            let Some(found) = found else { continue };
            if let Some(change) = relinked_change(holder, found, &meant, &to)? {
                relinked.push(found.id.to_string());
                changes.push(change);
            }
        }
        let done = RenumberedItem {
            document: document.id.to_string(),
            from: from.to_string(),
            to: to.reference.to_string(),
            relinked,
        };
        Ok((changes, RenumberOutcome::Renumbered(done)))
    }
}

/// `None` where its link means another document.
fn relinked_change(
    holder: &DocumentMeta,
    found: &Document,
    meant: &[LinkTarget],
    to: &LinkTarget,
) -> Result<Option<DocumentChange>> {
    let text = item_lookup::document_text(found)?;
    let item: ItemMeta = item_lookup::parse_item(holder, found, text);
    for from in meant {
        let text = backlog::replace_links(&item, text, from, to).map_err(|fault| {
            let message = format!("its link in {} can't be changed: {fault}", found.id);
            Error::new(ErrorKind::Refused, message)
        })?;
        if let Some(text) = text {
            return Ok(Some(DocumentChange::put(found.id.clone(), text)));
        }
    }
    Ok(None)
}
