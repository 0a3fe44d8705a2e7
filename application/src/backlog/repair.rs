//! Repairs that `reqlore check --fix` makes: links to renumbered items and duplicate references.
//!
//! Links are repaired first, so that a link to a duplicate follows its renumbering. A failed repair
//! does not stop the others. A link names a reference, which two duplicates share. The file suffix
//! in `linked` identifies the intended one; a link without a suffix means the older one.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqlore_domain::backlog::reference::{self, MAX_NUMBER};
use reqlore_domain::backlog::{ItemMeta, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::records::edit::LinkTarget;
use reqlore_domain::records::item_links::replace_links;
use reqlore_domain::timestamp::Timestamp;
use serde::Serialize;

use super::check::{LinkRepair, ReferenceIndex, TombstoneMatch};
use super::item_lookup::{self, BacklogReader};
use crate::check::finding::CheckFinding;
use crate::documents::{MAX_READ_DOCUMENTS, document_text};
use crate::writes::transaction::commit_decision;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairReport {
    pub relinked: Vec<RepairedLink>,
    pub renumbered: Vec<RenumberedItem>,
    /// Repairs that failed, each with its reason and remedy.
    pub refused: Vec<CheckFinding>,
}

/// A link that leads to its intended item again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepairedLink {
    /// The file that holds the link.
    pub document: String,
    /// Reference and file suffix of the old target: `EP-001-3f9a1c`.
    pub from: String,
    /// File name of the intended item.
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenumberedItem {
    /// The file before its renaming.
    pub document: String,
    pub from: String,
    pub to: String,
    /// The files whose links were updated.
    pub relinked: Vec<String>,
}

pub(crate) async fn repair_links(
    backlog: BacklogReader<'_>,
    index: &ReferenceIndex,
    write_context: &WriteContext,
    report: &mut RepairReport,
) {
    for (meta, repairs) in index.link_repairs() {
        match relink_document(backlog, Arc::clone(meta), repairs, write_context).await {
            Ok(relinked) => report.relinked.extend(relinked),
            Err(error) => report.refused.push(CheckFinding::for_document(&meta.id, error.message)),
        }
    }
}

async fn relink_document(
    backlog: BacklogReader<'_>,
    meta: Arc<DocumentMeta>,
    repairs: Vec<LinkRepair>,
    write_context: &WriteContext,
) -> Result<Vec<RepairedLink>> {
    // `decide_relink` relies on this order: the document, then the targets of its links.
    let mut documents = vec![meta.id.clone()];
    documents.extend(repairs.iter().map(|repair| repair.target_id.clone()));
    let read_set = ReadSet::of_documents(documents);
    let (relinked, _) = commit_decision(
        backlog.ports,
        backlog.project,
        read_set,
        write_context.clone(),
        move |snapshot: &Snapshot| decide_relink(&meta, &repairs, snapshot),
    )
    .await?;
    Ok(relinked)
}

/// Skips a repair if its document or its target was removed after the check.
fn decide_relink(
    meta: &DocumentMeta,
    repairs: &[LinkRepair],
    snapshot: &Snapshot,
) -> Result<(Vec<DocumentChange>, Vec<RepairedLink>)> {
    let mut done = Vec::new();
    let Some(Some(document)) = snapshot.documents.first() else { return Ok((Vec::new(), done)) };
    let mut text = document_text(document)?.to_owned();
    let mut item = item_lookup::parse_item(meta, document, &text);
    let targets = snapshot.documents.iter().skip(1);
    for (LinkRepair { from, to, target_id }, target) in repairs.iter().zip(targets) {
        if target.is_none() {
            continue;
        }
        let relinked = replace_links(&item, &text, from, to).map_err(|problem| {
            let message = format!("the link to {} cannot be changed: {problem}", from.reference);
            Error::new(ErrorKind::Refused, message)
        })?;
        let Some(relinked) = relinked else { continue };
        text = relinked;
        // The next replacement needs the positions in the new text.
        item = ItemMeta::parse(item.kind, &document.id.name, &text, item.created_at).0;
        let suffix = from.file_suffix.as_deref().unwrap_or_default();
        done.push(RepairedLink {
            document: document.id.to_string(),
            from: format!("{}-{suffix}", from.reference),
            to: target_id.name.clone(),
        });
    }
    let mut changes = Vec::new();
    if !done.is_empty() {
        changes.push(DocumentChange::put(document.id.clone(), text));
    }
    Ok((changes, done))
}

/// Sorts an item without a creation time before all items that have one.
const UNKNOWN_CREATION_TIME: Timestamp = Timestamp(i64::MIN / 2);

const MAX_ATTEMPTS: usize = 5;

pub(crate) async fn repair_duplicates(
    backlog: BacklogReader<'_>,
    duplicates: Vec<DuplicateItem>,
    write_context: &WriteContext,
    report: &mut RepairReport,
) {
    for duplicate in duplicates {
        match renumber_item(backlog, &duplicate, write_context).await {
            Ok(renumbered) => report.renumbered.extend(renumbered),
            Err(error) => {
                let message = format!("{} was not renumbered: {}", duplicate.from, error.message);
                report.refused.push(CheckFinding::for_document(&duplicate.meta.id, message));
            }
        }
    }
}

/// An item that needs a new reference.
#[derive(Clone)]
pub(crate) struct DuplicateItem {
    from: Reference,
    meta: Arc<DocumentMeta>,
    /// True if links without a suffix mean this item, because no other item has the reference now.
    owns_links_without_suffix: bool,
}

/// The items whose reference belongs to an older item or to one that another branch deleted. The
/// oldest comes first.
pub(crate) async fn find_duplicates(
    backlog: BacklogReader<'_>,
    index: &ReferenceIndex,
) -> Result<Vec<DuplicateItem>> {
    let mut younger = Vec::new();
    for (from, metas) in index.items_by_reference() {
        let mut keeper = None;
        let mut duplicates = Vec::new();
        for meta in sort_by_age(backlog, metas).await? {
            // A deleted item of another branch keeps its reference.
            let is_reserved =
                matches!(index.tombstone_match(&meta), Some(TombstoneMatch::OtherItem(_)));
            if keeper.is_none() && !is_reserved {
                keeper = Some(meta);
            } else {
                duplicates.push(DuplicateItem { from, meta, owns_links_without_suffix: false });
            }
        }
        let all_have_suffix =
            metas.iter().all(|meta| reference::file_suffix(&meta.id.name).is_some());
        // Links without a suffix mean an item without one, if there is any.
        if keeper.is_none()
            && all_have_suffix
            && let Some(eldest) = duplicates.first_mut()
        {
            eldest.owns_links_without_suffix = true;
        }
        younger.extend(duplicates);
    }
    Ok(younger)
}

/// Sorts by the times inside the files. The modification times of files differ between clones.
async fn sort_by_age(
    backlog: BacklogReader<'_>,
    metas: &[Arc<DocumentMeta>],
) -> Result<Vec<Arc<DocumentMeta>>> {
    // Fast path: a single item needs no age, so its file is not read.
    if metas.len() < 2 {
        return Ok(metas.to_vec());
    }
    let mut aged = Vec::with_capacity(metas.len());
    for metas in metas.chunks(MAX_READ_DOCUMENTS) {
        for (meta, document) in metas.iter().zip(backlog.read_documents(metas).await?) {
            aged.push((creation_key(meta, document.as_ref()), Arc::clone(meta)));
        }
    }
    aged.sort_by(|(key, meta), (other_key, other)| (key, &meta.id).cmp(&(other_key, &other.id)));
    Ok(aged.into_iter().map(|(_, meta)| meta).collect())
}

/// The creation time and the uid in the file.
fn creation_key(
    meta: &DocumentMeta,
    document: Option<&Document>,
) -> Option<(Timestamp, Option<String>)> {
    let text = document?.text().ok()?;
    let kind = item_lookup::item_meta(meta)?.kind;
    let (item, _) = ItemMeta::parse(kind, &meta.id.name, text, UNKNOWN_CREATION_TIME);
    Some((item.created_at, item.uid))
}

/// `None` if the item was removed after the check.
async fn renumber_item(
    backlog: BacklogReader<'_>,
    duplicate: &DuplicateItem,
    write_context: &WriteContext,
) -> Result<Option<RenumberedItem>> {
    let DuplicateItem { from, meta, .. } = duplicate;
    let query = item_lookup::backlink_query(&[*from]);
    for _ in 0..MAX_ATTEMPTS {
        let backlinks = backlog.ports.documents.backlinks(backlog.project, &query).await?;
        // Items may add links until the commit, so `decide` compares the backlinks again.
        let mut linking_items: Vec<Arc<DocumentMeta>> = backlinks.into_iter().flatten().collect();
        linking_items.retain(|linking_item| linking_item.id != meta.id);
        // `decide` relies on this order: the duplicate, then the linking_items.
        let mut documents = vec![meta.id.clone()];
        documents.extend(linking_items.iter().map(|linking_item| linking_item.id.clone()));
        let read_set = ReadSet {
            backlinks: query.clone(),
            sequences: vec![from.kind],
            ..ReadSet::of_documents(documents)
        };
        let duplicate = duplicate.clone();
        let decide = move |snapshot: &Snapshot| duplicate.decide(&linking_items, snapshot);
        let (outcome, _) = commit_decision(
            backlog.ports,
            backlog.project,
            read_set,
            write_context.clone(),
            decide,
        )
        .await?;
        match outcome {
            RenumberOutcome::Renumbered(item) => return Ok(Some(item)),
            RenumberOutcome::Removed => return Ok(None),
            RenumberOutcome::NewBacklink => {}
        }
    }
    let message =
        format!("other items keep adding links to {from}; run `reqlore check --fix` again");
    Err(Error::new(ErrorKind::Busy, message))
}

enum RenumberOutcome {
    Renumbered(RenumberedItem),
    Removed,
    /// A new link to the item was added after the links were read.
    NewBacklink,
}

impl DuplicateItem {
    fn decide(
        &self,
        linking_items: &[Arc<DocumentMeta>],
        snapshot: &Snapshot,
    ) -> Result<(Vec<DocumentChange>, RenumberOutcome)> {
        let Self { from, meta, owns_links_without_suffix } = self;
        let Some(Some(document)) = snapshot.documents.first() else {
            return Ok((Vec::new(), RenumberOutcome::Removed));
        };
        let linking_ids: BTreeSet<&DocumentId> =
            linking_items.iter().map(|linking_item| &linking_item.id).collect();
        for backlink in snapshot.backlinks.iter().flatten() {
            if backlink.id != meta.id && !linking_ids.contains(&backlink.id) {
                // Its document is not in the read set, so this commit could not update its link.
                return Ok((Vec::new(), RenumberOutcome::NewBacklink));
            }
        }
        let number = snapshot.next_numbers.first().copied().unwrap_or(1);
        if number > MAX_NUMBER {
            let message = format!(
                "no number up to {MAX_NUMBER} is left; rename the file by hand to a free number"
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let to = Reference { kind: from.kind, number };
        let name = to.renamed_document(&document.id.name);
        let id = DocumentId { kind: document.id.kind, name };
        let mut changes = vec![
            DocumentChange::put(id.clone(), document.body.clone()),
            // In one commit, so that the item never exists twice or not at all.
            DocumentChange::Delete { id: document.id.clone() },
        ];
        let mut old_targets = vec![item_lookup::link_target(*from, &document.id.name)];
        if *owns_links_without_suffix {
            old_targets.push(LinkTarget { reference: *from, file_suffix: None });
        }
        let new_target = item_lookup::link_target(to, &id.name);
        let mut relinked = Vec::new();
        for (linking_item, linking_document) in
            linking_items.iter().zip(snapshot.documents.iter().skip(1))
        {
            // Removed after the query, and its link with it.
            let Some(linking_document) = linking_document else { continue };
            let change =
                relinked_change(linking_item, linking_document, &old_targets, &new_target)?;
            if let Some(change) = change {
                relinked.push(linking_document.id.to_string());
                changes.push(change);
            }
        }
        let renumbered = RenumberedItem {
            document: document.id.to_string(),
            from: from.to_string(),
            to: to.to_string(),
            relinked,
        };
        Ok((changes, RenumberOutcome::Renumbered(renumbered)))
    }
}

/// `None` if the document's link means another item.
fn relinked_change(
    meta: &DocumentMeta,
    document: &Document,
    old_targets: &[LinkTarget],
    new_target: &LinkTarget,
) -> Result<Option<DocumentChange>> {
    let text = document_text(document)?;
    let item = item_lookup::parse_item(meta, document, text);
    for old_target in old_targets {
        let edited = replace_links(&item, text, old_target, new_target);
        let edited = edited.map_err(|problem| {
            let message = format!("the link in {} cannot be changed: {problem}", document.id);
            Error::new(ErrorKind::Refused, message)
        })?;
        if let Some(edited) = edited {
            return Ok(Some(DocumentChange::put(document.id.clone(), edited)));
        }
    }
    Ok(None)
}
