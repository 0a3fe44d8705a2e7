//! `undo`: restores the documents of a change to their state before it, or a document to any of its
//! versions. The tool of the commands `undo` and `restore-item`, which no list names.
//! An undo is a change like any other. The history of the storage has all texts that it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{DocumentId, DocumentKind, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::history::{HistoryEntry, HistoryQuery, RecentChange};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::history::{RestoredDocument, UndoAnswer, VersionRecord};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_id;
use schemars::JsonSchema;
use serde::Deserialize;

use super::changed_document::{
    ChangedDocument, Restoration, document_names, is_list, keep_related, metadata,
    newer_change_error, tombstone_of, unknown_version_error, version_of,
};
use super::rule_undo::restore_rule;
use super::{HistoryTarget, find_target, find_version};
use crate::answers::answer::{ToolAnswer, text_answer};
use crate::backlog::delete_item::{link_kinds, list_reasons, relations_to};
use crate::context::ToolContext;
use crate::documents::get_one;
use crate::ports::ApplicationPorts;
use crate::sections::{rule_change, section_list_change};
use crate::tools::tool::{Tool, ToolRequest, write_tool};
use crate::writes::transaction::{check_merged, check_text_merged, commit_decision};
use crate::writes::write_guard::CallGuard;

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
    /// Only the change of this time, in nanoseconds; without reference one of the caller.
    change: Option<i64>,
    /// Changes nothing.
    #[serde(default)]
    dry_run: bool,
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

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let Arguments { reference, version, change, dry_run } = request.decode()?;
        let write = request.write_context("");
        let ToolRequest { context, call, .. } = request;
        let change = change.map(Timestamp);
        let mut restoration = match (&reference, version) {
            (Some(id), version) => {
                let target = find_target(context, &call.caller, id.as_str()).await?;
                Restoration::of_target(&context.ports, target, version, change).await?
            }
            (None, None) => Restoration::of_last_change(context, &write, change).await?,
            (None, Some(_)) => {
                let error = Error::new(ErrorKind::InvalidArgument, "version: it needs a reference");
                return Err(error.field("version"));
            }
        };
        restoration.add_tombstones(&context.ports, &write).await?;
        let guard = context.call_guard(&call.caller, &restoration.project);
        restoration.commit(&context.ports, &guard, write, dry_run).await
    }
}

impl Restoration {
    /// Undoes the last change of the caller, or the one of a time, with all documents of its
    /// commit.
    async fn of_last_change(
        context: &ToolContext,
        write: &WriteContext,
        at: Option<Timestamp>,
    ) -> Result<Self> {
        let ports = &context.ports;
        let mut projects = vec![write.caller.project.clone()];
        if ports.settings.toolsets.contains(&Toolset::Knowledge) {
            // Entities may be in a project above the caller's.
            projects.push(ports.projects.resolve(&write.caller, None, Toolset::Knowledge).await?);
        }
        let user = write.origin().user;
        let mut own = Vec::new();
        for project in projects {
            let (since, limit) =
                at.map_or((Timestamp(i64::MIN), MAX_SEARCHED), |at| (at, MAX_CHANGES));
            let mut changes = ports.history.recent_changes(&project, since, limit).await?;
            // Some reading tools create AGENTS.md, which is nothing to undo.
            changes.retain(|RecentChange { id, entry }| {
                entry.origin.user == user && !is_list(id) && at.is_none_or(|at| at == entry.at)
            });
            own.extend(changes.into_iter().next().map(|change| (change.entry, project)));
        }
        let Some((change, project)) = own.into_iter().max_by_key(|(change, _)| change.at) else {
            let user = &write.caller.name;
            let message = match at {
                Some(_) => {
                    "The change is not in the history; it may have changed nothing".to_owned()
                }
                None => format!("{user} has no recent change; name the ID to undo"),
            };
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        Self::of_commit(ports, project, change, None).await
    }

    /// Undoes the last change of a document or rule, or restores a version.
    async fn of_target(
        ports: &ApplicationPorts,
        target: HistoryTarget,
        version: Option<VersionPrefix>,
        change: Option<Timestamp>,
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
            let mut restoration =
                Self { project, undone: None, documents: vec![restored], note: None };
            restoration.note = restoration.missing_parent(ports).await?;
            return Ok(restoration);
        }
        let HistoryTarget { project, id, name, .. } = target;
        let query = HistoryQuery { after: None, limit: 1 };
        let newest = ports.history.history(&project, &id, &query).await?.entries.pop();
        let newest = newest.ok_or_else(|| unknown_version_error(&name))?;
        // Answers give the time of a change in whole seconds.
        if change.is_some_and(|change| change.seconds() != newest.at.seconds()) {
            return Err(newer_change_error(&name, Some(&newest)));
        }
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
        // The commits of Git contain earlier changes.
        let is_recorded = change.origin.tool.is_some();
        let since = if is_recorded { change.at } else { Timestamp(i64::MIN) };
        let recent = ports.history.recent_changes(&project, since, MAX_CHANGES).await?;
        let mut newest = BTreeMap::new();
        for RecentChange { id, entry } in &recent {
            newest.entry(id).or_insert(entry);
        }
        let known = root.as_ref().and_then(|id| newest.get(id));
        let known = known.filter(|known| known.version == change.version);
        let change = known.map_or(change, |known| HistoryEntry::clone(known));
        let is_of_commit = |recent: &&RecentChange| recent.entry.is_of_commit(&change);
        if recent.len() == MAX_CHANGES && recent.last().as_ref().is_some_and(is_of_commit) {
            let message = format!(
                "{MAX_CHANGES} changes followed; `reqlore restore-item` restores single documents"
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let commit: Vec<RecentChange> = recent.iter().filter(is_of_commit).cloned().collect();
        let (mut documents, mut is_edit) = (Vec::new(), false);
        if let Some(id) = &root {
            let around = (&change, &*commit);
            let root = RecentChange { id: id.clone(), entry: change.clone() };
            let first = ChangedDocument::read(ports, &project, &root, around).await?;
            is_edit = first.is_first || first.before.is_some() == first.after.is_some();
            documents.push(first);
        }
        for recent in commit.iter().filter(|recent| root.as_ref() != Some(&recent.id)) {
            if !is_edit || is_list(&recent.id) {
                let around = (newest[&recent.id], &*commit);
                documents.push(ChangedDocument::read(ports, &project, recent, around).await?);
            }
        }
        if root.is_some() {
            keep_related(&mut documents);
        }
        let sections = documents.iter().filter(|one| one.id.kind == DocumentKind::Section).count();
        let in_commit = commit.iter().filter(|one| one.id.kind == DocumentKind::Section).count();
        documents.retain(|one| {
            // The entries of other sections stay, and so does a list that the change created.
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
        let is_alone = root.is_some() && commit.is_empty() && change.version.is_none();
        let note = is_alone.then(|| {
            let name = &documents[0].name;
            format!(
                "Only {name} was restored. Children and links that were deleted with it were not; \
                 undo their deletion one by one."
            )
        });
        let restoration = Self { project, undone: Some(change), documents, note };
        match restoration.missing_parent(ports).await? {
            Some(problem) => Err(Error::new(ErrorKind::Refused, problem)),
            None => Ok(restoration),
        }
    }

    /// Names an item that would be restored while its parent stays deleted.
    async fn missing_parent(&self, ports: &ApplicationPorts) -> Result<Option<String>> {
        for changed in &self.documents {
            let (Some(before), None) = (&changed.before, &changed.after) else { continue };
            let (DocumentKind::Item(_), Some(item)) = (changed.id.kind, metadata(before).item)
            else {
                continue;
            };
            let Some(parent) = item.parent else { continue };
            let words = [parent.to_string()];
            let is_restored = |one: &ChangedDocument| one.before.is_some() && one.name == words[0];
            let kind = DocumentKind::Item(parent.kind);
            if !self.documents.iter().any(is_restored)
                && ports.documents.lookup(&self.project, kind, &words).await?.concat().is_empty()
            {
                let name = encode_id(&changed.name);
                return Ok(Some(format!(
                    "{name} belongs to {parent}, which is deleted; `reqlore undo {parent}` \
                     restores {parent}"
                )));
            }
        }
        Ok(None)
    }

    /// Removes the tombstones of restored documents, and adds those of deleted ones, if the change
    /// itself did not write them.
    async fn add_tombstones(
        &mut self,
        ports: &ApplicationPorts,
        write: &WriteContext,
    ) -> Result<()> {
        let written: BTreeSet<_> =
            self.documents.iter().map(|changed| changed.id.clone()).collect();
        let mut tombstones = Vec::new();
        for changed in &self.documents {
            let id = changed.id.tombstone();
            if written.contains(&id) {
                continue;
            }
            let [before, after] = match (&changed.before, &changed.after) {
                (Some(_), None) => [None, get_one(&*ports.documents, &self.project, &id).await?],
                // A number is not issued again, also if no earlier deletion is restored.
                (None, Some(document)) if changed.is_deleted() => {
                    [tombstone_of(document, write)?, None]
                }
                _ => continue,
            };
            if before.is_some() || after.is_some() {
                tombstones.push(ChangedDocument::new(id, before, after));
            }
        }
        self.documents.extend(tombstones);
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
        let backlinks = BacklinkQuery { kinds, targets: self.deleted_names() };
        ReadSet { documents, titles_of, backlinks, ..ReadSet::default() }
    }

    /// The names of links to the documents that would be deleted.
    fn deleted_names(&self) -> Vec<String> {
        let deleted = self.documents.iter().filter(|changed| changed.is_deleted());
        let texts = deleted.filter_map(|changed| changed.after.as_ref());
        texts.map(metadata).flat_map(|meta| document_names(&meta)).collect()
    }

    /// Returns the changes, or the document that changed since the restoration was planned.
    fn decide(
        &self,
        snapshot: &Snapshot,
        schema: &RecordSchema,
    ) -> Result<(Vec<DocumentChange>, Option<DocumentId>)> {
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
        self.check_dependents(snapshot, schema)?;
        changes.extend(self.list_change(snapshot)?);
        Ok((changes, None))
    }

    /// Refuses to delete an item that others belong or link to.
    fn check_dependents(&self, snapshot: &Snapshot, schema: &RecordSchema) -> Result<()> {
        let deleted = self.documents.iter().filter(|changed| changed.is_deleted());
        let names: Vec<&str> = deleted.map(|changed| &*changed.name).collect();
        let mut dependents = snapshot.backlinks.concat();
        schema.remove_field_links(&mut dependents);
        let targets = self.deleted_names();
        let targets = targets.iter().map(String::as_str).collect();
        dependents.retain(|meta| {
            let is_changed = self.documents.iter().any(|changed| changed.id == meta.id);
            !is_changed && !relations_to(meta, &targets).is_empty()
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
        let is_restored = self.documents.iter().any(|changed| is_list(&changed.id));
        let last = self.sections().last().filter(|_| !is_restored);
        let Some(last) = last else { return Ok(None) };
        let Ok(key) = SectionKey::try_from(last.id.name.clone()) else { return Ok(None) };
        let agents = snapshot.documents.get(self.documents.len()).cloned().flatten();
        let documents = vec![agents, None];
        let snapshot = Snapshot { documents, titles, ..Snapshot::default() };
        Ok(section_list_change(&snapshot, &key, last.before.is_some())?.0)
    }

    async fn commit(
        self,
        ports: &ApplicationPorts,
        guard: &CallGuard,
        mut write: WriteContext,
        is_dry_run: bool,
    ) -> Result<ToolAnswer> {
        let names = self.shown().map(|changed| encode_id(&changed.name).into_owned()).collect();
        let verb = if self.undone.is_some() { "undo a change of" } else { "restore" };
        write.reason = format!("{verb} {}", list_reasons(names));
        let read_set = self.read_set(link_kinds(&ports.settings.toolsets));
        let schema = ports.schema(&self.project).await?;
        let restoration = Arc::new(self);
        let decided = Arc::clone(&restoration);
        let decide = move |snapshot: &Snapshot| {
            let (mut changes, outdated) = decided.decide(snapshot, &schema)?;
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
            guard.note_written(changed.after.as_ref(), changed.before.as_ref(), "undo");
        }
        restoration.render(is_dry_run)
    }

    fn render(&self, is_dry_run: bool) -> Result<ToolAnswer> {
        let undone = self.undone.as_ref().map(VersionRecord::from);
        let mut lines = Vec::new();
        if is_dry_run {
            lines.push("Dry run: nothing was changed. An undo would report:".to_owned());
        }
        lines.extend(undone.as_ref().map(|undone| format!("Undone: {}", undone.line(|_| true))));
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
        let notes = Vec::new();
        let answer = UndoAnswer { project, dry_run: is_dry_run, undone, documents, notes };
        let mut answer = text_answer(lines.join("\n"), &answer)?;
        answer.add_notes(self.note.clone());
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
