//! Creates and updates entities: the changes of two tools, decided on the newest state.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::Reference;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge::{self, Entity, EntityKind};
use reqlore_domain::ports::documents::ReadSet;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::edit::{
    EntityEdit, ID_DIGITS, NewEntity, RelationTargets, check_relation, edit_entity,
};
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Repo;
use crate::addresses::address::AddressTarget;
use crate::addresses::links::SECTION_PREFIX;
use crate::answers::answer::{ToolAnswer, text_answer};
use crate::context::ToolContext;
use crate::documents::document_text;
use crate::tools::arguments::check_custom;
use crate::writes::change::{Action, Change, ChangePlan, Decision, PlanContext};
use crate::writes::commit_state::{Claim, CommitState};
use crate::writes::local_names::{LocalItem, LocalNames};
use crate::writes::transaction::check_version;

/// Relation names and their targets.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(super) struct LinkArguments(BTreeMap<String, Vec<String>>);

/// Each target takes a lookup.
const MAX_TARGETS: usize = 200;

impl LinkArguments {
    /// Validates relations and local names.
    pub(super) fn decode(self, names: &LocalNames) -> Result<Vec<Relation>> {
        let count: usize = self.0.values().map(Vec::len).sum();
        if count > MAX_TARGETS {
            let message = format!("links: at most {MAX_TARGETS} IDs are allowed, this has {count}");
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("links"));
        }
        let mut relations = Vec::new();
        for (relation, ids) in self.0 {
            check_relation(&relation).map_err(|problem| {
                let shown = truncate_echo(&relation);
                Error::new(ErrorKind::InvalidArgument, format!("links: {shown:?} {problem}"))
                    .field("links")
            })?;
            let mut targets = Vec::with_capacity(ids.len());
            for id in ids {
                targets.push(match names.find(&id, "links")? {
                    Some(item) => TargetArgument::Created(item),
                    None => TargetArgument::Stored(id),
                });
            }
            relations.push(Relation { relation, targets });
        }
        Ok(relations)
    }
}

/// The links of one relation.
pub(super) struct Relation {
    relation: String,
    targets: Vec<TargetArgument>,
}

enum TargetArgument {
    /// An ID or path in any spelling.
    Stored(String),
    /// A document that the same commit creates.
    Created(LocalItem),
}

// The guaranteed part of a record; see `backlog::write_item::WriteOutcome`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
pub(super) struct EntityOutcome {
    project: String,
    id: String,
    version: String,
}

#[derive(Serialize)]
struct EntityRecord<'a> {
    project: &'a str,
    id: &'a str,
    kind: &'a str,
    title: &'a str,
    path: String,
    version: String,
}

/// The decision on an entity whose answer is a sentence and its record.
fn entity_decision(action: Action, id: DocumentId, project: &ProjectKey) -> Decision {
    let project = project.clone();
    let done = match action {
        Action::Create => "Created",
        Action::Keep => "No change in",
        _ => "Updated",
    };
    let render = move |document: &Document| render_written(done, &project, document);
    Decision { action, id, render: Box::new(render) }
}

fn render_written(done: &str, project: &ProjectKey, document: &Document) -> Result<ToolAnswer> {
    let (entity, _) = Entity::parse(&document.id.name, document_text(document)?);
    let record = EntityRecord {
        project: project.as_str(),
        id: &entity.id,
        kind: &entity.kind,
        title: &entity.title,
        path: document.id.to_string(),
        version: document.version.to_string(),
    };
    let EntityRecord { kind, id, version, .. } = &record;
    let (kind, id) = (encode_line(kind), encode_id(id));
    text_answer(format!("{done} {kind} {id} (version {})", &version[..8]), &record)
}

/// Checks the status and the custom fields by the schema of the project. Adds warnings about a
/// status and relations that are probably misspelled.
async fn checked_fields(
    context: PlanContext<'_>,
    kind: &str,
    (fields, links): (&EntityEdit, &[Relation]),
    is_new: bool,
    notes: &mut Vec<String>,
) -> Result<EntityEdit> {
    let mut fields = fields.clone();
    let schema = context.tools.ports.schema(context.project).await?;
    if let Some(status) = &mut fields.status {
        let known = schema.find_entity_status(kind, status).map_err(|problem| {
            let message = format!("status: {problem}");
            Error::new(ErrorKind::InvalidArgument, message).field("status")
        })?;
        if let Some(known) = known {
            known.clone_into(status);
        } else if let Some(usual) = knowledge::usual_status(status) {
            notes.push(format!("status: {status:?} is stored as {usual:?}"));
            usual.clone_into(status);
        }
    } else if is_new {
        fields.status = schema.initial_entity_status(kind).map(str::to_owned);
    }
    fields.custom = check_custom(&schema, (kind, true), &fields.custom, is_new)?;
    for Relation { relation, .. } in links {
        if schema.field(relation).is_some() {
            let message = format!("links: {relation} is a custom field; send it in fields");
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("links"));
        }
        if let Some(similar) = knowledge::similar_relation(relation) {
            notes.push(format!("links: {relation:?} is unknown; did you mean {similar}?"));
        }
    }
    Ok(fields)
}

/// The links of a plan, whose targets were looked up.
struct PlanLinks(Vec<(String, Vec<PlanTarget>)>);

enum PlanTarget {
    /// The id or reference as links spell it, and its document.
    Stored(String, DocumentId),
    Created(LocalItem),
}

impl PlanLinks {
    /// Finds the targets. An unknown one is an error, unlike in a file written by hand: a model
    /// would not notice the broken link.
    async fn find(context: PlanContext<'_>, relations: &[Relation]) -> Result<Self> {
        let mut links = Vec::with_capacity(relations.len());
        for Relation { relation, targets } in relations {
            let mut found = Vec::with_capacity(targets.len());
            for target in targets {
                found.push(match target {
                    TargetArgument::Stored(id) => {
                        let (target, document) = find_target(context, id).await?;
                        PlanTarget::Stored(target, document)
                    }
                    TargetArgument::Created(item) => PlanTarget::Created(*item),
                });
            }
            links.push((relation.clone(), found));
        }
        Ok(Self(links))
    }

    /// The stored targets.
    fn reads(&self) -> Vec<DocumentId> {
        let mut documents = Vec::new();
        for target in self.0.iter().flat_map(|(_, targets)| targets) {
            if let PlanTarget::Stored(_, document) = target {
                documents.push(document.clone());
            }
        }
        documents
    }

    /// Returns the links of the entity `own`. Fails if another call deleted a target after it was
    /// found.
    fn decide(&self, state: &CommitState<'_>, own: &DocumentId) -> Result<Vec<RelationTargets>> {
        let mut links = Vec::with_capacity(self.0.len());
        for (relation, plan_targets) in &self.0 {
            let mut targets: Vec<String> = Vec::new();
            for target in plan_targets {
                let (target, document) = match target {
                    PlanTarget::Stored(target, id) => {
                        if state.document(id).is_none() {
                            // An earlier change of the commit deleted it, or another call did.
                            let is_own = state.is_changed(id);
                            let advice = if is_own { "remove the link" } else { "try again" };
                            let message = format!("links: {target} was just deleted; {advice}");
                            return Err(Error::new(ErrorKind::NotFound, message).field("links"));
                        }
                        (target.clone(), id)
                    }
                    PlanTarget::Created(item) => {
                        let document = state.created(*item)?;
                        (created_id(document)?, &document.id)
                    }
                };
                // Compared by document, because an ID and a path may name the same one.
                if document == own {
                    let message = format!("links: {target} cannot link to itself");
                    let error = Error::new(ErrorKind::Refused, message).field("links");
                    return Err(error.reference(target));
                }
                // Two spellings of one target become equal only after the lookup.
                if !targets.contains(&target) {
                    targets.push(target);
                }
            }
            links.push(RelationTargets { relation: relation.clone(), targets });
        }
        Ok(links)
    }
}

/// The id or reference of a document that this commit created.
fn created_id(document: &Document) -> Result<String> {
    match Reference::from_document(&document.id) {
        Some(reference) => Ok(reference.to_string()),
        None => Ok(Entity::parse(&document.id.name, document_text(document)?).0.id),
    }
}

/// Returns the id or reference of a link target as links spell it, and its document.
async fn find_target(context: PlanContext<'_>, id: &str) -> Result<(String, DocumentId)> {
    let target = context.address_space().resolve(id, "links").await?.target;
    // Links to a section are exact, because any text of a front matter may equal its key.
    let id = match &target {
        AddressTarget::Section(_) => format!("{SECTION_PREFIX}{}", target.id()),
        AddressTarget::Docset { .. } => {
            let message = format!("links: {} is a docset; nothing can link to it", target.id());
            return Err(Error::new(ErrorKind::Refused, message).field("links"));
        }
        _ => target.id().into_owned(),
    };
    Ok((id, target.document_id()))
}

/// Creates an entity with a new id.
pub(super) struct EntityCreation {
    pub(super) kind: EntityKind,
    pub(super) fields: EntityEdit,
    pub(super) links: Vec<Relation>,
    pub(super) repo: Option<Repo>,
}

#[async_trait]
impl Change for EntityCreation {
    fn reason(&self) -> String {
        format!("create {}", self.kind.name())
    }

    async fn project(&self, context: &ToolContext, caller: &Caller) -> Result<ProjectKey> {
        super::resolve_project(context, caller, self.repo.as_ref()).await
    }

    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>> {
        let (given, mut notes) = ((&self.fields, &self.links[..]), Vec::new());
        Ok(Box::new(CreationPlan {
            kind: self.kind,
            digits: issue_digits(context, self.kind).await?,
            fields: checked_fields(context, self.kind.name(), given, true, &mut notes).await?,
            notes,
            links: PlanLinks::find(context, &self.links).await?,
            creator: context.write.caller.name.to_string(),
            project: context.project.clone(),
            at: context.write.at.whole_seconds(),
        }))
    }
}

/// Issues the digits of an id. A file of another name may have the id, so all ids are searched.
async fn issue_digits(context: PlanContext<'_>, kind: EntityKind) -> Result<String> {
    // Among 100,000 entities of one kind, one id in 170 is taken.
    const MAX_ATTEMPTS: usize = 8;
    let ports = &context.tools.ports;
    for _ in 0..MAX_ATTEMPTS {
        let uid = ports.ids.new_uid(context.write.at);
        let digits = uid.get(uid.len().saturating_sub(ID_DIGITS)..).unwrap_or(&uid);
        let words = [kind.id(digits)];
        let mut claims = Vec::new();
        // A deleted id is never issued again.
        for documents in [DocumentKind::Entity, DocumentKind::Deleted] {
            claims.extend(ports.documents.lookup(context.project, documents, &words).await?);
        }
        if claims.iter().all(Vec::is_empty) {
            return Ok(digits.to_owned());
        }
    }
    let message = format!("{}: no unused ID was found; try again", kind.name());
    Err(Error::new(ErrorKind::Busy, message))
}

/// A new entity with an id that no entity had when it was issued.
struct CreationPlan {
    kind: EntityKind,
    digits: String,
    fields: EntityEdit,
    /// Warnings.
    notes: Vec<String>,
    links: PlanLinks,
    creator: String,
    project: ProjectKey,
    at: Timestamp,
}

impl ChangePlan for CreationPlan {
    fn read_set(&self) -> ReadSet {
        let mut documents = self.links.reads();
        documents.push(self.kind.document_id(&self.digits));
        ReadSet::of_documents(documents)
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let Self { kind, digits, fields, creator, .. } = self;
        let id = kind.document_id(digits);
        // Another call took the id after it was issued.
        if state.document(&id).is_some() {
            return Ok(None);
        }
        let new = NewEntity {
            kind: *kind,
            digits,
            title: fields.title.as_deref().unwrap_or_default(),
            body: fields.body.as_deref().unwrap_or_default(),
            status: fields.status.as_deref(),
            tags: fields.tags.as_deref().unwrap_or_default(),
            custom: &fields.custom,
            links: &self.links.decide(state, &id)?,
            creator,
            created_at: self.at,
        };
        let text = new.text().map_err(|problem| Error::new(ErrorKind::Refused, problem))?;
        state.add_notes(self.notes.clone());
        state.create(Document::new(id.clone(), text.into()))?;
        Ok(Some(entity_decision(Action::Create, id, &self.project)))
    }
}

/// Updates an entity.
pub(super) struct EntityUpdate {
    /// An ID or path in any spelling.
    pub(super) id: String,
    /// Without links.
    pub(super) fields: EntityEdit,
    pub(super) links: Vec<Relation>,
    pub(super) if_version: Option<VersionPrefix>,
    pub(super) repo: Option<Repo>,
}

#[async_trait]
impl Change for EntityUpdate {
    fn reason(&self) -> String {
        format!("update {}", encode_line(truncate_echo(&self.id)))
    }

    async fn project(&self, context: &ToolContext, caller: &Caller) -> Result<ProjectKey> {
        super::resolve_project(context, caller, self.repo.as_ref()).await
    }

    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>> {
        let target = context.address_space().resolve(&self.id, "id").await?.target;
        let AddressTarget::Entity(meta) = &target else {
            let message = format!("{}. Nothing was changed.", target.right_tool(false));
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("id"));
        };
        let (given, mut notes) = ((&self.fields, &self.links[..]), Vec::new());
        let kind = meta.entity.as_ref().map_or("", |entity| &entity.kind);
        Ok(Box::new(UpdatePlan {
            meta: Arc::clone(meta),
            id: target.id().into_owned(),
            fields: checked_fields(context, kind, given, false, &mut notes).await?,
            notes,
            links: PlanLinks::find(context, &self.links).await?,
            if_version: self.if_version,
            project: context.project.clone(),
            at: context.write.at.whole_seconds(),
        }))
    }
}

struct UpdatePlan {
    meta: Arc<DocumentMeta>,
    /// As answers print it.
    id: String,
    fields: EntityEdit,
    /// Warnings.
    notes: Vec<String>,
    links: PlanLinks,
    if_version: Option<VersionPrefix>,
    project: ProjectKey,
    at: Timestamp,
}

impl ChangePlan for UpdatePlan {
    fn read_set(&self) -> ReadSet {
        let mut documents = self.links.reads();
        documents.push(self.meta.id.clone());
        ReadSet::of_documents(documents)
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let (id, reference) = (self.meta.id.clone(), &self.id);
        state.claim(&id, Claim::Content)?;
        state.add_notes(self.notes.clone());
        let Some(document) = state.document(&id).cloned() else {
            let message = format!("{reference} was just deleted; nothing was changed");
            return Err(Error::new(ErrorKind::NotFound, message).field("id").reference(reference));
        };
        check_version(self.if_version, &document, reference)?;
        let text = document_text(&document)?;
        // A diagnostic is ignored: `edit_entity` rejects front matter that it cannot edit.
        let (entity, _) = Entity::parse(&id.name, text);
        let edit = EntityEdit { links: self.links.decide(state, &id)?, ..self.fields.clone() };
        let edited = edit_entity(&entity, text, &edit, self.at);
        let edited = edited.map_err(|problem| {
            let message = format!("{id}: {problem}. Nothing was changed.");
            Error::new(ErrorKind::Refused, message).reference(reference)
        })?;
        let Some(edited) = edited else {
            return Ok(Some(entity_decision(Action::Keep, id, &self.project)));
        };
        let edited = Document::new(id.clone(), edited.into());
        state.check_shown(self.if_version, &document, Some(&edited), document.version)?;
        state.put(edited);
        Ok(Some(entity_decision(Action::Update, id, &self.project)))
    }
}

#[cfg(test)]
mod tests;
