//! Deletes entities for `delete_item`: replaces one by a tombstone that says when it was deleted.
//!
//! Links are read before the commit, because a commit names its documents. The decision reads them
//! again. If another one was added meanwhile, the deletion starts over.

use std::sync::Arc;

use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::ports::documents::{BacklinkQuery, ReadSet};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::tombstone::tombstone_text;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};

use crate::answers::answer::text_answer;
use crate::backlog::deletion::{DeletedItem, added_link_error, list_reasons};
use crate::documents::document_text;
use crate::writes::change::{Action, ChangePlan, Decision, PlanContext};
use crate::writes::commit_state::{Claim, CommitState};
use crate::writes::transaction::check_version;

/// An entity and the entities that link to it.
pub(crate) struct EntityDeletion {
    project: ProjectKey,
    id: DocumentId,
    /// As answers print it.
    reference: String,
    /// The names that links use.
    names: Vec<String>,
    /// The entities that lose their links; empty unless `cascade`.
    unlinked: Vec<Arc<DocumentMeta>>,
    cascade: bool,
    if_version: Option<VersionPrefix>,
    user: String,
    at: Timestamp,
}

impl EntityDeletion {
    pub(crate) async fn plan(
        context: PlanContext<'_>,
        meta: &DocumentMeta,
        cascade: bool,
        if_version: Option<VersionPrefix>,
    ) -> Result<Box<dyn ChangePlan>> {
        let reference = meta.reference().unwrap_or_default().into_owned();
        let mut names = vec![reference.clone(), meta.id.name.clone()];
        // The id is often the name.
        names.dedup();
        let mut deletion = Self {
            project: context.project.clone(),
            id: meta.id.clone(),
            reference,
            names,
            unlinked: Vec::new(),
            cascade,
            if_version,
            user: context.write.caller.name.to_string(),
            at: context.write.at.whole_seconds(),
        };
        if cascade {
            for meta in context.backlinks(&deletion.backlink_query()).await? {
                // A link to itself is deleted with the entity.
                if meta.id != deletion.id && !deletion.unlinks(&meta.id) {
                    deletion.unlinked.push(meta);
                }
            }
        }
        Ok(Box::new(deletion))
    }

    fn unlinks(&self, id: &DocumentId) -> bool {
        self.unlinked.iter().any(|meta| meta.id == *id)
    }

    /// Only entities: other documents mention an entity in their text, and a text stays as it is.
    fn backlink_query(&self) -> BacklinkQuery {
        BacklinkQuery { kinds: vec![DocumentKind::Entity], targets: self.names.clone() }
    }

    fn still_linked_error(&self, state: &CommitState<'_>, sources: &[Arc<DocumentMeta>]) -> Error {
        let mut reasons = Vec::new();
        for meta in sources {
            let name = state.name_of(&meta.id, meta.reference().unwrap_or_default());
            reasons.extend(link_reasons(&name, meta, &self.names));
        }
        let message = format!(
            "{} cannot be deleted: {}. Remove these links first, or pass cascade: true. Nothing \
             was deleted.",
            self.reference,
            list_reasons(reasons)
        );
        Error::new(ErrorKind::Refused, message).field("cascade").reference(&self.reference)
    }
}

impl ChangePlan for EntityDeletion {
    fn read_set(&self) -> ReadSet {
        let mut documents = vec![self.id.clone(), self.id.tombstone()];
        documents.extend(self.unlinked.iter().map(|meta| meta.id.clone()));
        ReadSet { backlinks: self.backlink_query(), ..ReadSet::of_documents(documents) }
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let Self { id, reference, .. } = self;
        state.claim(id, Claim::Deletion)?;
        let Some(document) = state.document(id).cloned() else {
            let message = format!("{reference} was just deleted; nothing was changed");
            let error = Error::new(ErrorKind::NotFound, message);
            return Err(error.field("reference").reference(reference));
        };
        check_version(self.if_version, &document, reference)?;
        state.check_shown(self.if_version, &document, None, document.version)?;
        let text = document_text(&document)?;
        let (entity, _) = Entity::parse(&id.name, text);
        let tombstone = tombstone_text(&entity, text, self.at, &self.user);
        let mut sources = state.backlinks(&self.backlink_query());
        sources.retain(|meta| meta.id != *id && !self.unlinks(&meta.id));
        // A source that links by id and by path is in the list twice.
        sources.sort_by(|a, b| a.id.cmp(&b.id));
        sources.dedup_by(|a, b| a.id == b.id);
        if !sources.is_empty() && !self.cascade {
            return Err(self.still_linked_error(state, &sources));
        }
        if !sources.is_empty() {
            // A new plan would not contain what an earlier entry of the same call adds.
            if sources.iter().any(|meta| state.is_changed(&meta.id)) {
                return Err(added_link_error(reference));
            }
            // They were added after the plan was made.
            return Ok(None);
        }
        state.put(Document::new(id.tombstone(), tombstone.into()));
        state.delete(id.clone());
        let unlinked = unlink_entities(state, &self.unlinked, &self.names, self.at);
        state.report_deletion(&[], &unlinked);
        let item = DeletedItem {
            project: self.project.to_string(),
            reference_id: reference.clone(),
            title: entity.title,
            version: String::new(),
            deleted: vec![reference.clone()],
            unlinked,
        };
        let kind = entity.kind;
        let render = move |tombstone: &Document| {
            let item = DeletedItem { version: tombstone.version.to_string(), ..item };
            text_answer(item.render_text(&kind), &item)
        };
        let id = id.tombstone();
        Ok(Some(Decision { action: Action::Delete, id, render: Box::new(render) }))
    }
}

/// Describes the links of an entity to a document that has these names.
pub(crate) fn link_reasons(name: &str, source: &DocumentMeta, names: &[String]) -> Vec<String> {
    let mut reasons = Vec::new();
    for (relation, target) in source.links() {
        let (name, relation) = (encode_id(name), encode_line(relation));
        let reason = format!("{name} links to it ({relation})");
        // One source may link by id and by path.
        if names.iter().any(|name| *name == target) && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Removes the links of entities to documents that have these names. Returns the ids of those that
/// had one.
pub(crate) fn unlink_entities(
    state: &mut CommitState<'_>,
    sources: &[Arc<DocumentMeta>],
    names: &[String],
    at: Timestamp,
) -> Vec<String> {
    let mut unlinked = Vec::new();
    for source in sources {
        if state.unlink(source, names, at) {
            unlinked.push(source.reference().unwrap_or_default().into_owned());
        }
    }
    unlinked
}

#[cfg(test)]
mod tests;
