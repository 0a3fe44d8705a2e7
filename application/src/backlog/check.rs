//! The part of `reqlore check` that examines the backlog.
//!
//! A file made by hand needs only a title, so an item without a parent is fine. A parent that is
//! not there is a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::backlog::reference::mark_of;
use reqlore_domain::backlog::{ItemMeta, LinkTarget, Reference, check_keys};
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::front_matter;
use reqlore_domain::ports::documents::{DocumentFilter, Refresh, Revision};
use reqlore_domain::project_key::ProjectKey;

use super::item_lookup::{self, item_meta};
use crate::ApplicationPorts;
use crate::check::CheckFinding;
use crate::transaction::get_one;

/// The problems of a project's backlog: kind by kind, by document and line.
pub(crate) async fn check(
    ports: &ApplicationPorts,
    project: &ProjectKey,
) -> Result<Vec<CheckFinding>> {
    let names = ReferenceIndex::read(ports, project).await?;
    let mut findings = Vec::new();
    for meta in &names.metas {
        // The metadata of a document that cannot be read has its fault.
        let document = get_one(&*ports.documents, project, &meta.id).await.unwrap_or_default();
        let text = document.as_ref().and_then(|document| document.text().ok()).unwrap_or("");
        names.check_document(meta, text, &mut findings);
    }
    for tomb in &names.tombs {
        names.check_document(tomb, "", &mut findings);
    }
    Ok(findings)
}

/// An index of the references in a project.
#[derive(Default)]
pub(crate) struct ReferenceIndex {
    /// By kind and name.
    metas: Vec<Arc<DocumentMeta>>,
    tombs: Vec<Arc<DocumentMeta>>,
    items: BTreeMap<Reference, Vec<Arc<DocumentMeta>>>,
    deleted: BTreeMap<Reference, Vec<Arc<DocumentMeta>>>,
    uids: BTreeMap<String, Vec<DocumentId>>,
}

/// A tombstone whose reference a live item has.
pub(crate) enum TombstoneMatch<'a> {
    SameItem(&'a DocumentMeta),
    /// Two branches gave one reference, and one of them deleted its item.
    OtherItem(&'a DocumentMeta),
}

pub(crate) struct LinkRepair {
    pub(crate) from: LinkTarget,
    pub(crate) to: LinkTarget,
    /// The document that it means.
    pub(crate) id: DocumentId,
}

/// A link with a mark that no item of its reference has: another branch renumbered the item, or a
/// user renamed or removed its file.
struct StaleLink<'a> {
    mark: &'a str,
    meaning: IntendedTarget<'a>,
}

enum IntendedTarget<'a> {
    Deleted,
    /// The only item with the mark.
    Renumbered(&'a DocumentMeta),
    /// The only item with the reference.
    Renamed(&'a DocumentMeta),
    Unknown,
}

impl ReferenceIndex {
    /// Reads every file again, also those that the storage has cached.
    pub(crate) async fn read(ports: &ApplicationPorts, project: &ProjectKey) -> Result<Self> {
        let mut names = Self::default();
        for kind in DocumentKind::ITEMS {
            for meta in find_refreshed(ports, project, kind).await? {
                if let Some(reference) = reference_of(&meta) {
                    names.items.entry(reference).or_default().push(Arc::clone(&meta));
                }
                if let Some(uid) = item_meta(&meta).and_then(|item| item.uid.clone()) {
                    names.uids.entry(uid).or_default().push(meta.id.clone());
                }
                names.metas.push(meta);
            }
        }
        names.tombs = find_refreshed(ports, project, DocumentKind::Deleted).await?;
        for meta in &names.tombs {
            if let Some(reference) = reference_of(meta) {
                names.deleted.entry(reference).or_default().push(Arc::clone(meta));
            }
        }
        Ok(names)
    }

    /// The reason why a link leads nowhere; `None` if it does not.
    pub(crate) fn why_broken(&self, target: Reference) -> Option<String> {
        match self.deleted.get(&target) {
            _ if self.items.contains_key(&target) => None,
            Some(_) => Some(format!("{target}, which was deleted; mend or remove it")),
            None => Some(format!("{target}, which is not there; mend or remove it")),
        }
    }

    /// Adds the problems of one document, by line.
    fn check_document(&self, meta: &DocumentMeta, text: &str, findings: &mut Vec<CheckFinding>) {
        let mut found: Vec<Diagnostic> = meta.fault.iter().cloned().collect();
        let twice = self.duplicate_claims(meta).into_iter();
        found.extend(twice.map(|message| Diagnostic::new(None, message)));
        if let Some(item) = item_meta(meta) {
            found.extend(check_keys(item.kind, text));
            found.extend(self.broken_links(meta, item, text));
        }
        found.sort_by_key(|found| found.line);
        findings.extend(found.into_iter().map(|found| CheckFinding::new(&meta.id, found)));
    }

    pub(crate) fn items_by_reference(
        &self,
    ) -> impl Iterator<Item = (Reference, &[Arc<DocumentMeta>])> {
        self.items.iter().map(|(reference, metas)| (*reference, metas.as_slice()))
    }

    /// A tombstone with an item's reference; the item's own if there are several.
    pub(crate) fn tombstone_match(&self, meta: &DocumentMeta) -> Option<TombstoneMatch<'_>> {
        let tombs = self.deleted.get(&reference_of(meta)?)?;
        let own = tombs
            .iter()
            .find(|tomb| is_tombstone_of(tomb, meta))
            .map(|tomb| TombstoneMatch::SameItem(tomb));
        own.or_else(|| tombs.first().map(|tomb| TombstoneMatch::OtherItem(tomb)))
    }

    /// True if there are no items and no tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.metas.is_empty() && self.tombs.is_empty()
    }

    fn broken_links(&self, meta: &DocumentMeta, item: &ItemMeta, text: &str) -> Vec<Diagnostic> {
        let mut broken = Vec::new();
        if item.deleted.is_some() {
            return broken;
        }
        for (key, target) in outgoing_links(item) {
            let why = if Some(target) == item.reference {
                Some(format!("{target}, which is itself; remove it"))
            } else if let Some(stale) = self.stale_link(meta, item, target) {
                Some(stale.message(target))
            } else {
                self.why_broken(target)
            };
            let line = line_of(text, key, target);
            broken.extend(why.map(|why| Diagnostic::new(line, format!("{key} leads to {why}"))));
        }
        broken
    }

    /// The links that can be pointed to the item that they mean, by the document that keeps them.
    pub(crate) fn link_repairs(&self) -> Vec<(&Arc<DocumentMeta>, Vec<LinkRepair>)> {
        let mut all = Vec::new();
        for meta in &self.metas {
            let Some(item) = item_meta(meta) else { continue };
            let targets: BTreeSet<Reference> =
                outgoing_links(item).map(|(_, target)| target).collect();
            let targets = targets.into_iter().filter(|target| Some(*target) != item.reference);
            let moves: Vec<LinkRepair> =
                targets.filter_map(|to| self.link_repair(meta, item, to)).collect();
            if !moves.is_empty() {
                all.push((meta, moves));
            }
        }
        all
    }

    fn link_repair(
        &self,
        meta: &DocumentMeta,
        item: &ItemMeta,
        target: Reference,
    ) -> Option<LinkRepair> {
        let StaleLink { mark, meaning } = self.stale_link(meta, item, target)?;
        let (IntendedTarget::Renumbered(meant) | IntendedTarget::Renamed(meant)) = meaning else {
            return None;
        };
        Some(LinkRepair {
            from: LinkTarget { reference: target, mark: Some(mark.to_owned()) },
            to: item_lookup::link_target(reference_of(meant)?, &meant.id.name),
            id: meant.id.clone(),
        })
    }

    fn stale_link<'a>(
        &'a self,
        meta: &DocumentMeta,
        item: &'a ItemMeta,
        target: Reference,
    ) -> Option<StaleLink<'a>> {
        let mark = item.linked.iter().find(|(known, _)| *known == target)?.1.as_str();
        let has_mark = |meta: &&Arc<DocumentMeta>| mark_of(&meta.id.name) == Some(mark);
        let claims = self.items.get(&target).map(Vec::as_slice).unwrap_or_default();
        if claims.iter().any(|meta| has_mark(&meta)) {
            return None;
        }
        let tombs = self.deleted.get(&target).map(Vec::as_slice).unwrap_or_default();
        let of_kind = self.items.iter().filter(|(known, _)| known.kind == target.kind);
        let marked = of_kind.flat_map(|(_, metas)| metas).filter(has_mark);
        let marked: Vec<&Arc<DocumentMeta>> = marked.filter(|found| found.id != meta.id).collect();
        let meaning = match (marked.as_slice(), claims) {
            _ if tombs.iter().any(|meta| has_mark(&meta)) => IntendedTarget::Deleted,
            ([one], _) => IntendedTarget::Renumbered(one),
            ([], [one]) => IntendedTarget::Renamed(one),
            _ => IntendedTarget::Unknown,
        };
        // Otherwise the link is simply broken.
        let is_stale = match meaning {
            IntendedTarget::Deleted => !claims.is_empty(),
            _ => !claims.is_empty() || !marked.is_empty(),
        };
        is_stale.then_some(StaleLink { mark, meaning })
    }

    /// The other documents with the reference or the uid of this one.
    fn duplicate_claims(&self, meta: &DocumentMeta) -> Vec<String> {
        let Some(item) = item_meta(meta).filter(|_| meta.id.kind != DocumentKind::Deleted) else {
            return Vec::new();
        };
        let others = |all: Vec<&DocumentId>| -> Option<String> {
            let others = all.into_iter().filter(|id| **id != meta.id);
            let others: Vec<String> = others.map(ToString::to_string).collect();
            (!others.is_empty()).then(|| others.join(", "))
        };
        let ItemMeta { reference, uid, .. } = item;
        let called = reference.map(|reference| reference.to_string()).unwrap_or_default();
        let mut messages = Vec::new();
        let twins = reference.and_then(|reference| self.items.get(&reference));
        if let Some(twins) = others(twins.into_iter().flatten().map(|meta| &meta.id).collect()) {
            messages.push(format!(
                "{twins} has the reference {called} as well; `reqlore check --fix` gives the \
                 younger a new one"
            ));
        }
        match self.tombstone_match(meta) {
            Some(TombstoneMatch::SameItem(tomb)) => messages
                .push(format!("{called} was deleted, says {}; remove one of the files", tomb.id)),
            Some(TombstoneMatch::OtherItem(tomb)) => messages.push(format!(
                "{} has the reference {called} as well, of another item, which was deleted; \
                 `reqlore check --fix` gives this one a new one",
                tomb.id
            )),
            None => {}
        }
        let copies = uid.as_ref().and_then(|uid| self.uids.get(uid));
        if let Some(copies) = others(copies.into_iter().flatten().collect()) {
            messages.push(format!("{copies} has the same uid; remove the line from the copy"));
        }
        messages
    }
}

impl StaleLink<'_> {
    fn message(&self, target: Reference) -> String {
        let mark = self.mark;
        match self.meaning {
            IntendedTarget::Deleted => format!(
                "{target}, and the item that it means (`linked` says {mark}) was deleted; mend or \
                 remove it"
            ),
            IntendedTarget::Renumbered(meant) => format!(
                "{target}, and the item that it means (`linked` says {mark}) is {} now; `reqlore \
                 check --fix` points it there",
                reference_of(meant).unwrap_or(target)
            ),
            IntendedTarget::Renamed(meant) => format!(
                "{target}, and `linked` says {mark}, which no file of such items ends with; \
                 `reqlore check --fix` makes it mean {}",
                meant.id
            ),
            IntendedTarget::Unknown => format!(
                "{target}, and `linked` says {mark}, which is the end of no file of {target}; say \
                 there how the file ends that it means"
            ),
        }
    }
}

fn reference_of(meta: &DocumentMeta) -> Option<Reference> {
    item_meta(meta)?.reference
}

fn outgoing_links(item: &ItemMeta) -> impl Iterator<Item = (&'static str, Reference)> {
    let parent = item.parent.map(|parent| (parent.kind.name(), parent));
    let related = item.relationships.iter().map(|link| (link.kind.name(), link.target));
    parent.into_iter().chain(related)
}

/// Compares uids if both have one, else the ends of the names.
fn is_tombstone_of(tomb: &DocumentMeta, meta: &DocumentMeta) -> bool {
    let uid = |meta| item_meta(meta).and_then(|item: &ItemMeta| item.uid.as_deref());
    match (uid(tomb), uid(meta)) {
        (Some(one), Some(other)) => one == other,
        _ => mark_of(&tomb.id.name) == mark_of(&meta.id.name),
    }
}

async fn find_refreshed(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    kind: DocumentKind,
) -> Result<Vec<Arc<DocumentMeta>>> {
    let documents = &ports.documents;
    documents.changes(project, kind, Revision::default(), Refresh::Full).await?;
    Ok(documents.find(project, &DocumentFilter::all(kind)).await?.metadata)
}

/// The line of the front matter where a key names a reference in any spelling; counted from 1.
fn line_of(text: &str, key: &str, target: Reference) -> Option<usize> {
    let yaml = front_matter::split(text).yaml?;
    let is_key = |line: &str| line.trim_start().trim_start_matches('"').starts_with(key);
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let names =
        |line: &str| line.split(|c| !is_part(c)).any(|word| Reference::parse(word) == Some(target));
    let mut lines = yaml.lines().enumerate().skip_while(|(_, line)| !is_key(line));
    lines.find(|(_, line)| names(line)).map(|(at, _)| at + 2)
}
