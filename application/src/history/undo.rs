//! `undo`: restores the documents of a change to their state before it, or a document to any of its
//! versions. The tool of the commands `undo` and `restore-item`, which no list names.
//! An undo is a change like any other. The history of the storage has all texts that it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{self, Reference};
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, Version, VersionPrefix,
};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge;
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::history::{HistoryEntry, HistoryQuery};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_id;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::get_history::VersionRecord;
use super::rule_undo::restore_rule;
use super::{FIRST_PAGE, HistoryTarget, find_target, find_version};
use crate::answer::{ToolAnswer, reply};
use crate::backlog::delete_item::{depends_on, link_kinds, list_reasons};
use crate::backlog::item_lookup::document_text;
use crate::sections::{rule_change, section_list_change};
use crate::tool::{Tool, decode_arguments, write_tool};
use crate::transaction::{
    check_merged, check_text_merged, commit_decision, get_one, write_context,
};
use crate::write_guard::CallGuard;
use crate::{ApplicationPorts, ToolContext};

pub(crate) struct UndoTool;

/// Maximum newest changes among which the last one of a caller is searched.
const MAX_SEARCHED: usize = 1_000;
/// Maximum changes since the one to undo.
const MAX_CHANGES: usize = 20_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Any ID; default the caller's last change.
    reference: Option<BoundedString<500>>,
    /// Restores this version.
    version: Option<VersionPrefix>,
    /// Changes nothing.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct UndoAnswer {
    project: String,
    dry_run: bool,
    /// The change that was undone; absent for a version.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<VersionRecord>,
    documents: Vec<RestoredDocument>,
}

#[derive(Serialize, JsonSchema)]
struct RestoredDocument {
    id: String,
    /// Null if it was deleted.
    version: Option<String>,
}

#[async_trait]
impl Tool for UndoTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_destructive: true,
            is_listed: false,
            is_whole: true,
            ..write_tool::<Arguments, UndoAnswer>(
                "undo",
                "Undo a change",
                "Restores the state before the last change of an item, rule or decision.",
            )
        }
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let Arguments { reference, version, dry_run } = decode_arguments(&mut call, spec)?;
        let write = write_context(context, &call, spec, "");
        let mut restoration = match (&reference, version) {
            (Some(id), version) => {
                let target = find_target(context, &call.caller, id.as_str()).await?;
                Restoration::of_target(&context.ports, target, version).await?
            }
            (None, None) => Restoration::of_last_change(context, &write).await?,
            (None, Some(_)) => {
                let error = Error::new(ErrorKind::InvalidArgument, "version: it needs a reference");
                return Err(error.field("version"));
            }
        };
        restoration.remove_tombstones(&context.ports).await?;
        let guard = CallGuard::new(context, &call.caller, &restoration.project);
        restoration.commit(&context.ports, &guard, write, dry_run).await
    }
}

/// A document and its states before and after the change to undo.
pub(super) struct ChangedDocument {
    id: DocumentId,
    /// The ID as answers print it.
    name: String,
    before: Option<Document>,
    after: Option<Document>,
    /// The history has no entry before the change.
    is_first: bool,
    /// The reason why the document cannot be restored.
    problem: Option<Error>,
}

impl ChangedDocument {
    pub(super) fn new(id: DocumentId, before: Option<Document>, after: Option<Document>) -> Self {
        let document = before.as_ref().or(after.as_ref());
        let name = document.and_then(|document| document_names(document).into_iter().next());
        let reference = Reference::from_document(&id).map(|reference| reference.to_string());
        let name = name.or(reference).unwrap_or_else(|| id.to_string());
        Self { id, name, before, after, is_first: false, problem: None }
    }

    pub(super) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Reads the states around a change, whose commit need not be the newest one.
    async fn read(
        ports: &ApplicationPorts,
        project: &ProjectKey,
        id: &DocumentId,
        (change, commit): (&HistoryEntry, &[DocumentId]),
    ) -> Result<Self> {
        let query = HistoryQuery { after: None, limit: FIRST_PAGE };
        let entries = ports.history.history(project, id, &query).await?.entries;
        let position = entries.iter().position(|entry| entry.is_of_commit(change));
        let position = position.unwrap_or(entries.len());
        let (mut states, mut problem) = ([None, None], None);
        for (state, entry) in states.iter_mut().zip(&entries[position..]) {
            match read_text(ports, project, id, entry).await {
                Ok(text) => *state = text,
                Err(error) => problem = Some(error),
            }
        }
        let [after, before] = states;
        let is_first = entries.len() == position + 1;
        let changed = Self { is_first, ..Self::new(id.clone(), before, after) };
        if position == entries.len() && !entries.is_empty() {
            problem = Some(committed_error(&changed.name, &entries[0]));
        } else if position > 0 || entries.is_empty() {
            problem = Some(newer_change_error(&changed.name, entries.first()));
        } else if is_first && !changed.is_created(change, commit) {
            problem = Some(unknown_version_error(&changed.name));
        }
        Ok(Self { problem, ..changed })
    }

    /// True if the change created the document: its earlier versions may also be unknown.
    fn is_created(&self, change: &HistoryEntry, commit: &[DocumentId]) -> bool {
        match self.id.kind {
            DocumentKind::Deleted => true,
            // The list of sections names a new one.
            DocumentKind::Section => commit.contains(&DocumentId::instructions()),
            _ => {
                let time = format!("\ncreated_at: {}\n", change.at.to_rfc3339());
                let text = self.after.as_ref().and_then(|document| document.text().ok());
                change.origin.tool.is_some() && text.is_some_and(|text| text.contains(&time))
            }
        }
    }

    /// True if the document, which is no tombstone, is deleted again.
    fn is_deleted(&self) -> bool {
        self.before.is_none() && self.id.kind != DocumentKind::Deleted
    }
}

/// The text after a change; `None` after a deletion.
pub(super) async fn read_text(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    id: &DocumentId,
    entry: &HistoryEntry,
) -> Result<Option<Document>> {
    let Some(version) = entry.version else { return Ok(None) };
    let found = ports.history.document_at(project, id, version).await?;
    if found.is_some() {
        return Ok(found);
    }
    let message = format!(
        "{id}: version {version} was erased or is no longer in the history; `reqlore restore-item` \
         restores another one"
    );
    Err(Error::new(ErrorKind::Refused, message).reference(id.to_string()))
}

/// The documents that a commit restores to their state before a change.
pub(super) struct Restoration {
    pub(super) project: ProjectKey,
    /// The change to undo; `None` to restore a version.
    pub(super) undone: Option<HistoryEntry>,
    pub(super) documents: Vec<ChangedDocument>,
    pub(super) note: Option<String>,
}

impl Restoration {
    /// Undoes the last change of the caller, with all documents of its commit.
    async fn of_last_change(context: &ToolContext, write: &WriteContext) -> Result<Self> {
        let ports = &context.ports;
        let mut projects = vec![write.caller.project.clone()];
        if ports.settings.toolsets.contains(&Toolset::Knowledge) {
            // Entities may be in a project above the caller's.
            projects.push(ports.projects.resolve(&write.caller, None, Toolset::Knowledge).await?);
        }
        let user = write.origin().user;
        let mut own = Vec::new();
        for project in projects {
            let since = Timestamp(i64::MIN);
            let mut changes = ports.history.recent_changes(&project, since, MAX_SEARCHED).await?;
            // Some reading tools create AGENTS.md, which is nothing to undo.
            changes.retain(|change| change.entry.origin.user == user && !is_list(&change.id));
            own.extend(changes.into_iter().next().map(|change| (change.entry, project)));
        }
        let Some((change, project)) = own.into_iter().max_by_key(|(change, _)| change.at) else {
            let user = &write.caller.name;
            let message = format!("{user} has no recent change; name the ID to undo");
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        Self::of_commit(ports, project, change, None).await
    }

    /// Undoes the last change of a document or rule, or restores a version.
    async fn of_target(
        ports: &ApplicationPorts,
        target: HistoryTarget,
        version: Option<VersionPrefix>,
    ) -> Result<Self> {
        if target.id.kind == DocumentKind::Section
            && let Some((_, index)) = rule_change::parse_address(&target.name)
            && let Some(restored) = restore_rule(ports, &target, index, version).await?
        {
            return Ok(restored);
        }
        if version.is_some() {
            let found = find_version(ports, &target, version, "version").await?;
            let HistoryTarget { project, id, name, .. } = target;
            let present = get_one(&*ports.documents, &project, &id).await?;
            let restored = ChangedDocument::new(id, Some(found.document), present).named(name);
            return Ok(Self { project, undone: None, documents: vec![restored], note: None });
        }
        let HistoryTarget { project, id, name, .. } = target;
        let query = HistoryQuery { after: None, limit: 1 };
        let newest = ports.history.history(&project, &id, &query).await?.entries.pop();
        let newest = newest.ok_or_else(|| unknown_version_error(&name))?;
        Self::of_commit(ports, project, newest, Some(id)).await
    }

    /// Undoes a commit, or only its change of one document: with the documents that this change
    /// deleted, restored or unlinked.
    async fn of_commit(
        ports: &ApplicationPorts,
        project: ProjectKey,
        change: HistoryEntry,
        root: Option<DocumentId>,
    ) -> Result<Self> {
        let mut recent = ports.history.recent_changes(&project, change.at, MAX_CHANGES).await?;
        let is_cut = recent.len() == MAX_CHANGES;
        recent.retain(|recent| recent.entry.is_of_commit(&change));
        let commit: Vec<DocumentId> = recent.into_iter().map(|recent| recent.id).collect();
        let commit_of = (&change, &*commit);
        let (mut documents, mut others) = (Vec::new(), commit.clone());
        if let Some(id) = &root {
            let first = ChangedDocument::read(ports, &project, id, commit_of).await?;
            let is_edit = first.is_first || first.before.is_some() == first.after.is_some();
            let is_section = id.kind == DocumentKind::Section;
            others.retain(|other| other != id && (!is_edit || (is_section && is_list(other))));
            documents.push(first);
        }
        if is_cut && !others.is_empty() {
            let message = format!(
                "{MAX_CHANGES} changes followed; `reqlore restore-item` restores single documents"
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        for id in &others {
            documents.push(ChangedDocument::read(ports, &project, id, commit_of).await?);
        }
        if root.is_some() {
            keep_related(&mut documents);
        }
        let sections = documents.iter().filter(|one| one.id.kind == DocumentKind::Section).count();
        let in_commit = commit.iter().filter(|id| id.kind == DocumentKind::Section).count();
        documents.retain(|one| {
            // Unless another section changed the list, too: then only the entry is restored.
            let is_whole = one.problem.is_none() && one.before.is_some() && sections == in_commit;
            is_whole || !is_list(&one.id)
        });
        if let Some(mut error) = documents.iter_mut().find_map(|one| one.problem.take()) {
            if let (Some(_), Some(before)) = (&root, &documents[0].before) {
                let (name, version) = (encode_id(&documents[0].name), before.version);
                let command = format!("`reqlore restore-item {name} --version {version}`");
                error.message.extend(["; ", &command, " restores it alone"]);
            }
            return Err(error);
        }
        let is_alone = root.is_some_and(|id| !commit.contains(&id)) && change.version.is_none();
        let note = is_alone.then(|| {
            let name = &documents[0].name;
            format!("The history does not say what else was deleted with {name}.")
        });
        Ok(Self { project, undone: Some(change), documents, note })
    }

    /// Removes the tombstones of restored documents that the change itself did not write.
    async fn remove_tombstones(&mut self, ports: &ApplicationPorts) -> Result<()> {
        let restored = self.documents.iter().filter(|changed| changed.after.is_none());
        let mut tombstones: Vec<DocumentId> =
            restored.map(|changed| changed.id.tombstone()).collect();
        tombstones.retain(|id| self.documents.iter().all(|changed| changed.id != *id));
        let present = ports.documents.get(&self.project, &tombstones).await?;
        for document in present.into_iter().flatten() {
            let id = document.id.clone();
            self.documents.push(ChangedDocument::new(id, None, Some(document)));
        }
        Ok(())
    }

    /// The documents that answers name.
    fn shown(&self) -> impl Iterator<Item = &ChangedDocument> {
        self.documents.iter().filter(|changed| changed.id.kind != DocumentKind::Deleted)
    }

    fn sections(&self) -> impl Iterator<Item = &ChangedDocument> {
        self.documents.iter().filter(|changed| changed.id.kind == DocumentKind::Section)
    }

    fn read_set(&self, kinds: Vec<DocumentKind>) -> ReadSet {
        let mut documents: Vec<DocumentId> =
            self.documents.iter().map(|changed| changed.id.clone()).collect();
        let mut titles_of = None;
        if self.sections().next().is_some() {
            documents.push(DocumentId::instructions());
            titles_of = Some(DocumentKind::Section);
        }
        let deleted = self.documents.iter().filter(|changed| changed.is_deleted());
        let texts = deleted.filter_map(|changed| changed.after.as_ref());
        let backlinks = BacklinkQuery { kinds, targets: texts.flat_map(document_names).collect() };
        ReadSet { documents, titles_of, backlinks, ..ReadSet::default() }
    }

    /// Returns the changes, or the document that changed since the restoration was planned.
    fn decide(&self, snapshot: &Snapshot) -> Result<(Vec<DocumentChange>, Option<DocumentId>)> {
        let mut changes = Vec::new();
        for (changed, present) in self.documents.iter().zip(&snapshot.documents) {
            if let Some(present) = present {
                check_text_merged(&changed.id, present.text().unwrap_or_default())?;
            }
            if version_of(present.as_ref()) != version_of(changed.after.as_ref()) {
                return Ok((Vec::new(), Some(changed.id.clone())));
            }
            changes.push(match changed.before.clone() {
                Some(document) => DocumentChange::Put { document },
                None => DocumentChange::Delete { id: changed.id.clone() },
            });
        }
        self.check_dependents(snapshot)?;
        changes.extend(self.list_change(snapshot)?);
        Ok((changes, None))
    }

    /// Refuses to delete an item that others belong or link to.
    fn check_dependents(&self, snapshot: &Snapshot) -> Result<()> {
        let deleted = self.documents.iter().filter(|changed| changed.is_deleted());
        let names: Vec<&str> = deleted.map(|changed| &*changed.name).collect();
        let references = names.iter().filter_map(|name| Reference::parse(name)).collect();
        let mut dependents = snapshot.backlinks.concat();
        dependents.retain(|meta| {
            let is_changed = self.documents.iter().any(|changed| changed.id == meta.id);
            !is_changed && (meta.entity.is_some() || depends_on(meta, &references))
        });
        if dependents.is_empty() {
            return Ok(());
        }
        let dependents: BTreeSet<_> =
            dependents.iter().filter_map(|meta| meta.reference()).collect();
        let message = format!(
            "{} would be deleted, but other items belong or link to it: {}. Nothing was changed; \
             delete or move them first.",
            names.join(", "),
            list_reasons(dependents.iter().map(|name| encode_id(name).into_owned()).collect())
        );
        Err(Error::new(ErrorKind::Refused, message))
    }

    /// The change of the list of sections in AGENTS.md, unless its earlier text is restored.
    fn list_change(&self, snapshot: &Snapshot) -> Result<Option<DocumentChange>> {
        let mut titles = snapshot.titles.clone();
        for section in self.sections() {
            titles.remove(&section.id.name);
            if section.before.is_some() {
                titles.insert(section.id.name.clone(), None);
            }
        }
        let last = self.sections().last().map(|last| (last.id.name.clone(), last.before.is_some()));
        let key =
            last.and_then(|(name, remains)| Some((SectionKey::try_from(name).ok()?, remains)));
        let is_restored = self.documents.iter().any(|changed| is_list(&changed.id));
        let Some((key, remains)) = key.filter(|_| !is_restored) else { return Ok(None) };
        let agents = snapshot.documents.get(self.documents.len()).cloned().flatten();
        let documents = vec![agents, None];
        let snapshot = Snapshot { documents, titles, ..Snapshot::default() };
        Ok(section_list_change(&snapshot, &key, remains)?.0)
    }

    async fn commit(
        mut self,
        ports: &ApplicationPorts,
        guard: &CallGuard,
        mut write: WriteContext,
        is_dry_run: bool,
    ) -> Result<ToolAnswer> {
        // A number is not issued again, also if no earlier deletion is restored.
        let mut tombstones = Vec::new();
        for changed in self.documents.iter().filter(|changed| changed.is_deleted()) {
            let id = changed.id.tombstone();
            if let Some(document) = &changed.after
                && self.documents.iter().all(|other| other.id != id)
                && let Some(tombstone) = tombstone_of(document, &write)?
            {
                tombstones.push(ChangedDocument::new(id, Some(tombstone), None));
            }
        }
        self.documents.extend(tombstones);
        let names = self.shown().map(|changed| encode_id(&changed.name).into_owned()).collect();
        let verb = if self.undone.is_some() { "undo a change of" } else { "restore" };
        write.reason = format!("{verb} {}", list_reasons(names));
        let read_set = self.read_set(link_kinds(&ports.settings.toolsets));
        let restoration = Arc::new(self);
        let decided = Arc::clone(&restoration);
        let decide = move |snapshot: &Snapshot| {
            let (mut changes, outdated) = decided.decide(snapshot)?;
            if is_dry_run {
                check_merged(snapshot, &changes)?;
                changes.clear();
            }
            Ok((changes, outdated))
        };
        let project = &restoration.project;
        let (outdated, _) = commit_decision(ports, project, read_set, write, decide).await?;
        if let Some(id) = outdated {
            let query = HistoryQuery { after: None, limit: 1 };
            let newest = ports.history.history(project, &id, &query).await?.entries.pop();
            return Err(newer_change_error(&id.to_string(), newest.as_ref()));
        }
        for changed in restoration.documents.iter().filter(|_| !is_dry_run) {
            if let Some(restored) = &changed.before {
                guard.note_restored(restored, changed.after.as_ref());
            }
        }
        restoration.render(is_dry_run)
    }

    fn render(&self, is_dry_run: bool) -> Result<ToolAnswer> {
        let undone = self.undone.as_ref().map(VersionRecord::from);
        let mut lines = Vec::new();
        if is_dry_run {
            lines.push("Nothing was changed; this would be done:".to_owned());
        }
        lines.extend(undone.as_ref().map(|undone| format!("Undone: {}", undone.line(None))));
        let mut documents = Vec::new();
        for changed in self.shown() {
            let version = version_of(changed.before.as_ref()).map(|version| version.to_string());
            let name = encode_id(&changed.name);
            lines.push(match &version {
                Some(version) => format!("{name} restored to version {}", &version[..8]),
                None => format!("{name} deleted"),
            });
            documents.push(RestoredDocument { id: changed.name.clone(), version });
        }
        let project = self.project.to_string();
        let answer = UndoAnswer { project, dry_run: is_dry_run, undone, documents };
        let mut answer = reply(lines.join("\n"), &answer)?;
        answer.add_notes(self.note.clone());
        Ok(answer)
    }
}

fn is_list(id: &DocumentId) -> bool {
    id.kind == DocumentKind::Instructions
}

fn version_of(document: Option<&Document>) -> Option<Version> {
    document.map(|document| document.version)
}

fn metadata(document: &Document) -> DocumentMeta {
    DocumentMeta::from_document(document, Timestamp::default())
}

/// The names that links use, the ID first.
fn document_names(document: &Document) -> Vec<String> {
    let meta = metadata(document);
    let reference = meta.reference().map(Into::into);
    let name = if is_list(&meta.id) { meta.id.to_string() } else { meta.id.name.clone() };
    reference.into_iter().chain([name]).collect()
}

/// The tombstone of an item or entity; `None` for other documents.
fn tombstone_of(document: &Document, write: &WriteContext) -> Result<Option<Document>> {
    let (at, by) = (write.at.whole_seconds(), &*write.caller.name);
    let (meta, text) = (metadata(document), document_text(document)?);
    let body = match (&meta.item, &meta.entity) {
        (Some(item), _) => backlog::tombstone_text(item, text, at, by),
        (_, Some(entity)) => knowledge::tombstone_text(entity, text, at, by),
        _ => return Ok(None),
    };
    Ok(Some(Document::new(document.id.tombstone(), body.into())))
}

/// Keeps the first document, and those that its deletion or restoration took along: children,
/// documents that lost or regained links, tombstones, and the list of sections.
fn keep_related(changes: &mut Vec<ChangedDocument>) {
    let Some(root) = changes.first() else { return };
    let (root, is_deletion) = (root.id.clone(), root.after.is_none());
    let (mut related, mut names) = (BTreeSet::new(), Vec::new());
    if root.kind == DocumentKind::Section {
        related.insert(DocumentId::instructions());
    }
    let mut count = usize::MAX;
    // Again for children that are in front of their parents.
    while count != related.len() {
        count = related.len();
        for changed in &*changes {
            let mut states = [changed.before.as_ref(), changed.after.as_ref()];
            if !is_deletion {
                states.reverse();
            }
            // The deleted documents exist in the first state only.
            let [Some(with), without] = states else { continue };
            let (meta, without) = (metadata(with), without.map(metadata));
            let kept = without.as_ref().map(DocumentMeta::links).unwrap_or_default();
            let parent = meta.item.as_ref().and_then(|item| item.parent);
            let is_lost = meta.links().iter().any(|(_, target)| {
                let is_parent = parent.is_some_and(|parent| *target == parent.to_string());
                names.iter().any(|name: &String| name == target)
                    && (is_parent || without.is_some())
                    && kept.iter().all(|(_, kept)| kept != target)
            });
            if (is_lost || changed.id == root)
                && related.insert(changed.id.clone())
                && without.is_none()
            {
                names.extend(document_names(with));
                related.insert(changed.id.tombstone());
            }
        }
    }
    changes.retain(|changed| related.contains(&changed.id));
}

fn unknown_version_error(name: &str) -> Error {
    let message = format!("{}: no version before its last change is known", encode_id(name));
    Error::new(ErrorKind::Refused, message).reference(name)
}

/// The history lists a Git commit in place of the changes that it contains.
fn committed_error(name: &str, newest: &HistoryEntry) -> Error {
    let (shown, change) = (encode_id(name), VersionRecord::from(newest).line(None));
    let message = format!(
        "{shown} changed since, or the change is part of a Git commit: {change}. Nothing was \
         changed; `reqlore undo {shown}` restores the state before that"
    );
    Error::new(ErrorKind::Conflict, message).reference(name)
}

fn newer_change_error(name: &str, newer: Option<&HistoryEntry>) -> Error {
    let change = newer.map(|newer| VersionRecord::from(newer).line(None)).unwrap_or_default();
    let message = format!("{} changed since: {change}. Nothing was changed", encode_id(name));
    Error::new(ErrorKind::Conflict, message).reference(name)
}

#[cfg(test)]
mod tests;
