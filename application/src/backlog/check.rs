//! The part of `reqlore check` that examines the backlog.
//!
//! A file made by hand needs only a title, so an item without a parent is fine. A link to a parent
//! that does not exist is a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::backlog::reference::{ParsedReference, file_suffix};
use reqlore_domain::backlog::story_waits::StoryWaits;
use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference};
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::front_matter;
use reqlore_domain::ports::documents::{Refresh, read_all};
use reqlore_domain::ports::record_list::UnreadFile;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::edit::LinkTarget;
use reqlore_domain::records::parse::find_argument_keys;
use reqlore_domain::records::schema::RecordSchema;

use super::item_lookup::{self, item_meta};
use super::list_ready::{cycle_problem, dropped_problem};
use crate::check::finding::CheckFinding;
use crate::documents::get_one;
use crate::ports::ApplicationPorts;
use crate::record_templates::find_template_problems;

/// The problems of a project's backlog, sorted by kind, document and line. Adds the requirements to
/// `records`.
pub(crate) async fn check(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    records: &mut Vec<Arc<DocumentMeta>>,
) -> Result<Vec<CheckFinding>> {
    let index = ReferenceIndex::read(ports, project).await?;
    let is_requirement = |kind| kind == DocumentKind::Item(ItemKind::Requirement);
    records.extend(index.items.iter().filter(|meta| is_requirement(meta.id.kind)).cloned());
    let schema = ports.schema(project).await?;
    let mut findings = Vec::new();
    for diagnostic in schema.diagnostics.iter().cloned() {
        findings.push(CheckFinding::new(&DocumentId::schema(), diagnostic));
    }
    findings.extend(find_template_problems(ports, project).await?);
    let latest = ports.clock.now().seconds() + MAX_SECONDS_AHEAD;
    for meta in &index.items {
        // A failed read is no finding of its own: the metadata already has the file's diagnostic.
        let document = get_one(&*ports.documents, project, &meta.id).await.unwrap_or_default();
        let text = document.as_ref().and_then(|document| document.text().ok()).unwrap_or("");
        index.check_document(meta, text, &mut findings);
        let problems = item_meta(meta).map(|item| schema.problems(item)).unwrap_or_default();
        for (key, message) in problems {
            let diagnostic = Diagnostic::new(line_of_key(text, key), message);
            findings.push(CheckFinding::new(&meta.id, diagnostic));
        }
        for diagnostic in future_times(meta, text, latest) {
            findings.push(CheckFinding::new(&meta.id, diagnostic));
        }
    }
    for file in &index.unread {
        let UnreadFile { path, reason, .. } = file;
        findings.push(CheckFinding::of_file(path.clone(), reason.clone()));
    }
    index.check_waits(&schema, &mut findings);
    // The links of a deleted item are not checked, so its text is not needed.
    for tombstone in &index.tombstones {
        index.check_document(tombstone, "", &mut findings);
    }
    Ok(findings)
}

/// Clocks of other machines may be ahead, and a date without a time means midnight in UTC.
const MAX_SECONDS_AHEAD: i64 = 24 * 60 * 60;

/// Reports times after `latest`, in seconds since 1970: lists keep such an item at their top.
fn future_times(meta: &DocumentMeta, text: &str, latest: i64) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let Some(item) = item_meta(meta) else { return diagnostics };
    for (key, time) in [("created_at", item.created_at), ("updated_at", item.updated_at)] {
        if time.seconds() <= latest {
            continue;
        }
        let (line, time) = (line_of_key(text, key), time.to_rfc3339());
        let message = match line {
            Some(_) => {
                format!(
                    "{key}: {time} is more than a day ahead; correct it, because lists sort by time"
                )
            }
            None if key == "created_at" => format!(
                "{key}: missing, and the file's time {time} is more than a day ahead; add {key}, \
                 lists sort by time"
            ),
            // Without the key it is the time above.
            None => continue,
        };
        diagnostics.push(Diagnostic::new(line, message));
    }
    diagnostics
}

type MetasByReference = BTreeMap<Reference, Vec<Arc<DocumentMeta>>>;

/// An index of the references in a project.
#[derive(Default)]
pub(crate) struct ReferenceIndex {
    /// Sorted by kind and name.
    items: Vec<Arc<DocumentMeta>>,
    tombstones: Vec<Arc<DocumentMeta>>,
    /// Files that look like items but are not read.
    unread: Vec<UnreadFile>,
    items_by_reference: MetasByReference,
    tombstones_by_reference: MetasByReference,
    /// Finds copies of a file, which have the same uid.
    items_by_uid: BTreeMap<String, Vec<DocumentId>>,
}

/// A tombstone that has the reference of an existing item.
pub(crate) enum TombstoneMatch<'a> {
    SameItem(&'a DocumentMeta),
    /// Two branches issued the same reference, and one of them deleted its item.
    OtherItem(&'a DocumentMeta),
}

pub(crate) struct LinkRepair {
    pub(crate) from: LinkTarget,
    pub(crate) to: LinkTarget,
    /// The document of the intended item.
    pub(crate) target_id: DocumentId,
}

/// A link whose file suffix belongs to no item with the linked reference.
///
/// Another branch renumbered the item, or a user renamed or removed its file.
struct StaleLink<'a> {
    suffix: &'a str,
    intended: IntendedTarget<'a>,
}

enum IntendedTarget<'a> {
    Deleted,
    /// The only item with the suffix.
    Renumbered(&'a DocumentMeta),
    /// The only item with the reference.
    Renamed(&'a DocumentMeta),
    Unknown,
}

impl ReferenceIndex {
    /// Reads every file again, even if the storage has cached it.
    pub(crate) async fn read(ports: &ApplicationPorts, project: &ProjectKey) -> Result<Self> {
        let (documents, mut index) = (&ports.documents, Self::default());
        // The check must not rely on cached metadata.
        documents.changes_since(project, None, 1, Refresh::Full).await?;
        for kind in DocumentKind::ITEMS {
            let (metadata, unread) = read_all(&**documents, project, kind).await?;
            index.unread.extend(unread);
            for meta in metadata {
                if let Some(reference) = reference_of(&meta) {
                    index.items_by_reference.entry(reference).or_default().push(Arc::clone(&meta));
                }
                if let Some(uid) = uid_of(&meta) {
                    index.items_by_uid.entry(uid.to_owned()).or_default().push(meta.id.clone());
                }
                index.items.push(meta);
            }
        }
        (index.tombstones, _) = read_all(&**documents, project, DocumentKind::Deleted).await?;
        for meta in &index.tombstones {
            if let Some(reference) = reference_of(meta) {
                index.tombstones_by_reference.entry(reference).or_default().push(Arc::clone(meta));
            }
        }
        Ok(index)
    }

    /// Adds stories that wait for each other, and those that depend on a dropped one.
    fn check_waits(&self, schema: &RecordSchema, findings: &mut Vec<CheckFinding>) {
        let items = self.items.iter().filter_map(|meta| item_meta(meta));
        let waits = StoryWaits::of_items(items, schema);
        let mut add = |story: Reference, message: String| {
            for meta in metas_of(&self.items_by_reference, story) {
                let diagnostic = Diagnostic::new(None, message.clone());
                findings.push(CheckFinding::new(&meta.id, diagnostic));
            }
        };
        for cycle in waits.cycles() {
            let Some(first) = cycle.first() else { continue };
            add(*first, cycle_problem(&cycle));
        }
        for (story, other) in waits.dropped() {
            add(story, dropped_problem(story, other));
        }
    }

    /// Describes a target that no item has; `None` if an item has it.
    pub(crate) fn explain_broken_link(&self, target: Reference) -> Option<String> {
        if self.items_by_reference.contains_key(&target) {
            return None;
        }
        let reason = if self.tombstones_by_reference.contains_key(&target) {
            "which was deleted"
        } else {
            "which does not exist"
        };
        Some(format!("{target}, {reason}; correct or remove the link"))
    }

    /// Adds the problems of one document, sorted by line.
    fn check_document(&self, meta: &DocumentMeta, text: &str, findings: &mut Vec<CheckFinding>) {
        let mut diagnostics: Vec<Diagnostic> = meta.diagnostic.iter().cloned().collect();
        for message in self.duplicate_claims(meta) {
            diagnostics.push(Diagnostic::new(None, message));
        }
        if let Some(item) = item_meta(meta) {
            diagnostics.extend(find_argument_keys(item.kind, text));
            diagnostics.extend(self.broken_links(meta, item, text));
        }
        diagnostics.sort_by_key(|diagnostic| diagnostic.line);
        for diagnostic in diagnostics {
            findings.push(CheckFinding::new(&meta.id, diagnostic));
        }
    }

    pub(crate) fn items_by_reference(
        &self,
    ) -> impl Iterator<Item = (Reference, &[Arc<DocumentMeta>])> {
        self.items_by_reference.iter().map(|(reference, metas)| (*reference, metas.as_slice()))
    }

    /// A tombstone with the item's reference. The item's own tombstone takes precedence.
    pub(crate) fn tombstone_match(&self, meta: &DocumentMeta) -> Option<TombstoneMatch<'_>> {
        let tombstones = self.tombstones_by_reference.get(&reference_of(meta)?)?;
        for tombstone in tombstones {
            if is_tombstone_of(tombstone, meta) {
                return Some(TombstoneMatch::SameItem(tombstone));
            }
        }
        let other = tombstones.first()?;
        Some(TombstoneMatch::OtherItem(other))
    }

    /// True if the project has neither items nor tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.tombstones.is_empty()
    }

    fn broken_links(&self, meta: &DocumentMeta, item: &ItemMeta, text: &str) -> Vec<Diagnostic> {
        let mut broken = Vec::new();
        if item.deletion.is_some() {
            return broken;
        }
        for (key, target) in outgoing_links(item) {
            let problem = if Some(target) == item.reference {
                Some(format!("{target}, which is the item itself; remove the link"))
            } else if let Some(stale) = self.stale_link(meta, item, target) {
                Some(stale.message(target))
            } else {
                self.explain_broken_link(target)
            };
            if let Some(problem) = problem {
                let line = line_of(text, key, target);
                broken.push(Diagnostic::new(line, format!("{key} leads to {problem}")));
            }
        }
        broken
    }

    /// The stale links whose intended item is known, grouped by the document that holds them.
    pub(crate) fn link_repairs(&self) -> Vec<(&Arc<DocumentMeta>, Vec<LinkRepair>)> {
        let mut all = Vec::new();
        for meta in &self.items {
            let Some(item) = item_meta(meta) else { continue };
            let targets: BTreeSet<Reference> =
                outgoing_links(item).map(|(_, target)| target).collect();
            let mut repairs = Vec::new();
            for target in targets {
                // A link to itself is reported by `broken_links`; there is no target to repair.
                if Some(target) != item.reference {
                    repairs.extend(self.link_repair(meta, item, target));
                }
            }
            if !repairs.is_empty() {
                all.push((meta, repairs));
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
        let StaleLink { suffix, intended } = self.stale_link(meta, item, target)?;
        let (IntendedTarget::Renumbered(intended) | IntendedTarget::Renamed(intended)) = intended
        else {
            return None;
        };
        Some(LinkRepair {
            from: LinkTarget { reference: target, file_suffix: Some(suffix.to_owned()) },
            to: item_lookup::link_target(reference_of(intended)?, &intended.id.name),
            target_id: intended.id.clone(),
        })
    }

    /// `None` for a link without a suffix, for a valid link and for one without any candidate.
    fn stale_link<'a>(
        &'a self,
        meta: &DocumentMeta,
        item: &'a ItemMeta,
        target: Reference,
    ) -> Option<StaleLink<'a>> {
        let (_, suffix) = item.link_suffixes.iter().find(|(reference, _)| *reference == target)?;
        let same_reference = metas_of(&self.items_by_reference, target);
        if same_reference.iter().any(|meta| has_suffix(meta, suffix)) {
            return None;
        }
        let mut same_suffix = Vec::new();
        for (reference, candidates) in &self.items_by_reference {
            if reference.kind != target.kind {
                continue;
            }
            for candidate in candidates {
                // An item is never the intended target of its own link.
                if candidate.id != meta.id && has_suffix(candidate, suffix) {
                    same_suffix.push(candidate);
                }
            }
        }
        let tombstones = metas_of(&self.tombstones_by_reference, target);
        let is_deleted = tombstones.iter().any(|meta| has_suffix(meta, suffix));
        // Without a candidate, the check reports the link as broken.
        if same_reference.is_empty() && (is_deleted || same_suffix.is_empty()) {
            return None;
        }
        let intended = match (same_suffix.as_slice(), same_reference) {
            // First: a link to a deleted item must not move to one that shares its suffix.
            _ if is_deleted => IntendedTarget::Deleted,
            ([renumbered], _) => IntendedTarget::Renumbered(renumbered),
            ([], [renamed]) => IntendedTarget::Renamed(renamed),
            _ => IntendedTarget::Unknown,
        };
        Some(StaleLink { suffix, intended })
    }

    /// Messages about other documents with the reference or the uid of this one.
    fn duplicate_claims(&self, meta: &DocumentMeta) -> Vec<String> {
        let mut messages = Vec::new();
        let Some(item) = item_meta(meta) else { return messages };
        // A tombstone keeps the reference and the uid of its item.
        if meta.id.kind == DocumentKind::Deleted {
            return messages;
        }
        if let Some(reference) = item.reference {
            let metas = metas_of(&self.items_by_reference, reference);
            if let Some(others) = other_ids(metas.iter().map(|other| &other.id), &meta.id) {
                messages.push(format!(
                    "reference {reference} is also used by {others}; run `reqlore check --fix` to \
                     renumber the younger item"
                ));
            }
            match self.tombstone_match(meta) {
                Some(TombstoneMatch::SameItem(tombstone)) => messages.push(format!(
                    "{reference} was deleted according to {}; remove one of the two files",
                    tombstone.id
                )),
                Some(TombstoneMatch::OtherItem(tombstone)) => messages.push(format!(
                    "reference {reference} belongs to another item, deleted in {}; run `reqlore \
                     check --fix` to renumber this item",
                    tombstone.id
                )),
                None => {}
            }
        }
        if let Some(uid) = &item.uid
            && let Some(ids) = self.items_by_uid.get(uid)
            && let Some(others) = other_ids(ids.iter(), &meta.id)
        {
            messages.push(format!("uid is also used by {others}; remove the line from the copy"));
        }
        messages
    }
}

impl StaleLink<'_> {
    fn message(&self, target: Reference) -> String {
        let suffix = self.suffix;
        match self.intended {
            IntendedTarget::Deleted => format!(
                "{target}, but the item with the suffix {suffix} in `linked` was deleted; correct \
                 or remove the link"
            ),
            IntendedTarget::Renumbered(intended) => format!(
                "{target}, but the item with the suffix {suffix} in `linked` is now {}; run \
                 `reqlore check --fix`",
                reference_of(intended).unwrap_or(target)
            ),
            IntendedTarget::Renamed(intended) => format!(
                "{target}, but no file has the suffix {suffix} in `linked`; run `reqlore check \
                 --fix` to link {}",
                intended.id
            ),
            IntendedTarget::Unknown => format!(
                "{target}, but no file of {target} has the suffix {suffix} in `linked`; correct \
                 the suffix"
            ),
        }
    }
}

/// The documents other than `own` as text; `None` if there are none.
fn other_ids<'a>(ids: impl Iterator<Item = &'a DocumentId>, own: &DocumentId) -> Option<String> {
    let others: Vec<String> = ids.filter(|id| *id != own).map(ToString::to_string).collect();
    if others.is_empty() { None } else { Some(others.join(", ")) }
}

fn metas_of(index: &MetasByReference, reference: Reference) -> &[Arc<DocumentMeta>] {
    index.get(&reference).map_or(&[], Vec::as_slice)
}

fn has_suffix(meta: &DocumentMeta, suffix: &str) -> bool {
    file_suffix(&meta.id.name) == Some(suffix)
}

fn reference_of(meta: &DocumentMeta) -> Option<Reference> {
    item_meta(meta)?.reference
}

fn uid_of(meta: &DocumentMeta) -> Option<&str> {
    item_meta(meta)?.uid.as_deref()
}

/// The key and target of each link in the front matter.
fn outgoing_links(item: &ItemMeta) -> impl Iterator<Item = (&'static str, Reference)> {
    let parent = item.parent.map(|parent| (parent.kind.name(), parent));
    let related = item.relationships.iter().map(|link| (link.kind.name(), link.target));
    parent.into_iter().chain(related)
}

/// Compares the uids if both have one, otherwise the suffixes of the file names.
fn is_tombstone_of(tombstone: &DocumentMeta, meta: &DocumentMeta) -> bool {
    match (uid_of(tombstone), uid_of(meta)) {
        (Some(deleted), Some(existing)) => deleted == existing,
        _ => file_suffix(&tombstone.id.name) == file_suffix(&meta.id.name),
    }
}

/// The line, counted from 1, on which the value of `key` names the target in any spelling.
fn line_of(text: &str, key: &str, target: Reference) -> Option<usize> {
    let yaml = front_matter::split(text).yaml?;
    let mut has_key_passed = false;
    for (index, line) in yaml.lines().enumerate() {
        // A list of targets may continue on the lines after its key.
        has_key_passed |= line.trim_start().trim_start_matches('"').starts_with(key);
        if has_key_passed && names_reference(line, target) {
            // The opening `---` is line 1.
            return Some(index + 2);
        }
    }
    None
}

/// The line of a key in the front matter, counted from 1.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let yaml = front_matter::split(text).yaml?;
    let is_key = |line: &str| {
        let rest = line.trim_start_matches(['"', '\'']).strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    // The opening `---` is line 1.
    Some(yaml.lines().position(is_key)? + 2)
}

fn names_reference(line: &str, target: Reference) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_')).any(|word| {
        Reference::parse_any_case(target.kind, word) == ParsedReference::Reference(target)
    })
}
