//! Creates and updates items and entities: the changes of the tools, decided on the newest state.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::reference::SUFFIX_CHARS;
use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference, Status};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, Version, VersionPrefix,
};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::ports::documents::ReadSet;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::edit::{ID_DIGITS, NewRecord, RecordEdit};
use reqlore_domain::records::kinds::RecordKind;
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_line;

use crate::addresses::address::AddressTarget;
use crate::backlog::arguments::ItemTarget;
use crate::backlog::relationship::RelationshipSpec;
use crate::context::ToolContext;
use crate::knowledge::{self, Repo};
use crate::tools::tool::nothing_to_change_error;
use crate::writes::change::{Action, Change, ChangePlan, Decision, PlanContext};
use crate::writes::commit_state::{Claim, CommitState, Successor, requirements_query};
use crate::writes::local_names::LocalItem;
use crate::writes::rank_position::resolve_rank;
use crate::writes::record_answer::{WrittenRecord, render_written};
use crate::writes::record_fields::{KindName, check_fields};
use crate::writes::record_links::{LinkChange, PlanTarget, Target};
use crate::writes::stored_record::{StoredRecord, require_document};
use crate::writes::superseded_records::{released_notes, superseded_records};
use crate::writes::transaction::check_version;

/// The argument with the reference or ID of an imported record.
pub(crate) const WANTED_ID: &str = "imported_id";

/// The record that a change creates or updates.
pub(crate) enum RecordTarget {
    /// With the reference that it gets if it was never issued.
    NewItem(ItemKind, Option<Reference>),
    /// With the ID that it gets if no entity has or had it.
    NewEntity(EntityKind, Option<String>),
    Item(ItemTarget),
    /// An ID or path in any spelling.
    Entity(String),
}

/// Creates or updates an item or entity.
pub(crate) struct RecordChange {
    pub(crate) target: RecordTarget,
    /// Only fields that the kind has, without links.
    pub(crate) fields: RecordEdit,
    pub(crate) links: LinkChange<Target>,
    pub(crate) if_version: Option<VersionPrefix>,
    /// The path that chooses the project of an entity.
    pub(crate) repo: Option<Repo>,
}

impl RecordChange {
    /// Fails for an update without a field to change.
    pub(crate) fn into_change(self, spec: &ToolSpec) -> Result<Box<dyn Change>> {
        if self.fields == RecordEdit::default() && self.links.is_empty() {
            return Err(nothing_to_change_error(spec));
        }
        Ok(Box::new(self))
    }

    async fn find_record(&self, context: PlanContext<'_>) -> Result<PlanRecord> {
        let ids = &context.tools.ports.ids;
        Ok(match &self.target {
            // The uid orders two items of the same second.
            RecordTarget::NewItem(kind, wanted) => {
                PlanRecord::NewItem(*kind, ids.new_uid(context.write.at), *wanted)
            }
            RecordTarget::NewEntity(kind, wanted) => {
                let digits = issue_digits(context, *kind, wanted.as_deref()).await?;
                PlanRecord::NewEntity(*kind, digits)
            }
            RecordTarget::Item(ItemTarget::Created(_, item)) => PlanRecord::Created(*item),
            RecordTarget::Item(ItemTarget::Stored(reference)) => {
                let is_source = self.links.is_relationship();
                let field = if is_source { "source" } else { reference.kind.name() };
                let meta = context.backlog().find_argument(*reference, field).await?;
                PlanRecord::Stored { meta, name: reference.to_string(), field }
            }
            RecordTarget::Entity(id) => {
                let target = context.address_space().resolve(id, "id").await?.target;
                let AddressTarget::Entity(meta) = &target else {
                    let message = format!("{}. Nothing was changed.", target.right_tool(false));
                    return Err(Error::new(ErrorKind::InvalidArgument, message).field("id"));
                };
                let (meta, name) = (Arc::clone(meta), target.id().into_owned());
                PlanRecord::Stored { meta, name, field: "id" }
            }
        })
    }
}

#[async_trait]
impl Change for RecordChange {
    fn reason(&self) -> String {
        match (&self.target, &self.links) {
            (RecordTarget::NewItem(kind, _), _) => format!("create {}", kind.noun().to_lowercase()),
            (RecordTarget::NewEntity(kind, _), _) => format!("create {}", kind.name()),
            (RecordTarget::Item(item), LinkChange::AddRelationship(kind, Target::Item(target))) => {
                format!("create relationship {item} {} {target}", kind.name())
            }
            (RecordTarget::Item(item), LinkChange::RemoveRelationship(kind, target)) => {
                format!("delete relationship {item} {} {target}", kind.name())
            }
            (RecordTarget::Item(item), _) => format!("update {item}"),
            (RecordTarget::Entity(id), _) => format!("update {}", encode_line(truncate_echo(id))),
        }
    }

    async fn project(&self, context: &ToolContext, caller: &Caller) -> Result<ProjectKey> {
        match self.target {
            RecordTarget::NewItem(..) | RecordTarget::Item(_) => Ok(caller.project.clone()),
            _ => knowledge::resolve_project(context, caller, self.repo.as_ref()).await,
        }
    }

    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>> {
        let (record, schema) = tokio::try_join!(self.find_record(context), context.schema())?;
        let stored = if let PlanRecord::Stored { meta, .. } = &record { Some(meta) } else { None };
        let (kind, is_new) = match &self.target {
            RecordTarget::NewItem(kind, _) => (KindName::Item(*kind), true),
            RecordTarget::NewEntity(kind, _) => (KindName::Entity(kind.name()), true),
            RecordTarget::Item(item) => (KindName::Item(item.kind()), false),
            RecordTarget::Entity(_) => {
                let entity = stored.and_then(|meta| meta.entity.as_ref());
                (KindName::Entity(entity.map_or("", |entity| &entity.kind)), false)
            }
        };
        // Cloned, because an outdated plan is made again.
        let (mut fields, mut notes) = (self.fields.clone(), Vec::new());
        let given = (&mut fields, &self.links);
        check_fields(context, &schema, kind, given, is_new, &mut notes).await?;
        if let KindName::Item(kind) = kind {
            let own = stored.and_then(|meta| meta.item.as_deref());
            resolve_rank(context, kind, own, &mut fields, &mut notes).await?;
        }
        let links = self.links.find(context).await?;
        let superseded = superseded_records(context, stored, &links).await?;
        notes.extend(released_notes(context, stored, &links).await?);
        Ok(Box::new(RecordPlan {
            record,
            fields,
            links,
            superseded,
            notes,
            schema,
            if_version: self.if_version,
            user: context.write.caller.name.to_string(),
            project: context.project.clone(),
            at: context.write.at.whole_seconds(),
        }))
    }
}

/// Issues the digits of an id. A file of another name may have the id, so all ids are searched.
async fn issue_digits(
    context: PlanContext<'_>,
    kind: EntityKind,
    wanted: Option<&str>,
) -> Result<String> {
    // Among 100,000 entities of one kind, one id in 170 is taken.
    const MAX_ATTEMPTS: usize = 8;
    let ports = &context.tools.ports;
    let mut wanted = wanted.and_then(|id| wanted_digits(kind, id));
    for _ in 0..MAX_ATTEMPTS {
        let uid = ports.ids.new_uid(context.write.at);
        let digits = uid.get(uid.len().saturating_sub(ID_DIGITS)..).unwrap_or(&uid);
        let digits = wanted.take().unwrap_or(digits);
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

/// The digits of an ID that has the form of a new one of this kind.
fn wanted_digits(kind: EntityKind, id: &str) -> Option<&str> {
    let digits = id.rsplit_once('-')?.1;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == ID_DIGITS && digits.bytes().all(is_digit) && kind.id(digits) == id)
        .then_some(digits)
}

/// The record of a plan.
enum PlanRecord {
    /// Has a uid. The commit issues its reference.
    NewItem(ItemKind, String, Option<Reference>),
    /// Has digits that no ID had when they were issued.
    NewEntity(EntityKind, String),
    /// Has a name in answers, and the argument that names it.
    Stored { meta: Arc<DocumentMeta>, name: String, field: &'static str },
    /// Created by an earlier entry of the same call.
    Created(LocalItem),
}

impl PlanRecord {
    /// The newest document, or an error if it was deleted after the lookup.
    fn document<'a>(&self, state: &'a CommitState<'_>) -> Result<&'a Document> {
        match self {
            Self::Stored { meta, name, field } => {
                require_document(state.document(&meta.id), name, field)
            }
            Self::Created(item) => state.created(*item),
            _ => Err(Error::new(ErrorKind::Internal, "A new record has no document.")),
        }
    }
}

struct RecordPlan {
    record: PlanRecord,
    fields: RecordEdit,
    links: LinkChange<PlanTarget>,
    /// The records that end if this one is valid.
    superseded: Vec<Arc<DocumentMeta>>,
    /// Warnings.
    notes: Vec<String>,
    schema: Arc<RecordSchema>,
    if_version: Option<VersionPrefix>,
    user: String,
    project: ProjectKey,
    at: Timestamp,
}

impl ChangePlan for RecordPlan {
    fn read_set(&self) -> ReadSet {
        let mut reads = ReadSet::of_documents(self.links.reads());
        reads.documents.extend(self.superseded.iter().map(|meta| meta.id.clone()));
        match &self.record {
            PlanRecord::NewItem(kind, ..) => reads.sequences = vec![*kind],
            PlanRecord::NewEntity(kind, digits) => reads.documents.push(kind.document_id(digits)),
            PlanRecord::Stored { meta, .. } => reads.documents.push(meta.id.clone()),
            PlanRecord::Created(_) => {}
        }
        if let Some(story) = self.done_story() {
            reads.backlinks = requirements_query(story);
        }
        reads
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        state.add_notes(self.notes.clone());
        let decision = match &self.record {
            PlanRecord::NewItem(kind, uid, wanted) => {
                Some(self.create_item(state, *kind, uid, *wanted)?)
            }
            PlanRecord::NewEntity(kind, digits) => self.create_entity(state, *kind, digits)?,
            PlanRecord::Stored { .. } | PlanRecord::Created(_) => Some(self.update(state)?),
        };
        if let (Some(Decision { id, .. }), false) = (&decision, self.superseded.is_empty()) {
            let (superseded, schema) = (self.superseded.clone(), Arc::clone(&self.schema));
            state.report_successor(Successor { id: id.clone(), superseded, schema, at: self.at });
        }
        Ok(decision)
    }
}

impl RecordPlan {
    fn create_item(
        &self,
        state: &mut CommitState<'_>,
        kind: ItemKind,
        uid: &str,
        wanted: Option<Reference>,
    ) -> Result<Decision> {
        let mut fields = self.fields.clone();
        // Another call may have deleted the parent after the lookup.
        self.links.add_to(&mut fields, state, None, None)?;
        let reference = state.issue_reference(kind, wanted)?;
        let text = self.new_text(kind.row(), uid, &fields)?;
        // Two Git branches may issue the same number; the suffix keeps their files apart.
        let suffix = uid.get(uid.len().saturating_sub(SUFFIX_CHARS)..).unwrap_or(uid);
        // As in lists: acceptance criteria have the title of their first line.
        let (mut item, _) = ItemMeta::parse(kind, "", &text, self.at);
        item.reference = Some(reference);
        let document = Document::new(reference.document_id(&item.title, suffix), text.into());
        self.create(state, document, StoredRecord::Item(item))
    }

    /// `None` if another call took the ID after it was issued.
    fn create_entity(
        &self,
        state: &mut CommitState<'_>,
        kind: EntityKind,
        digits: &str,
    ) -> Result<Option<Decision>> {
        let id = kind.document_id(digits);
        if state.document(&id).is_some() {
            return Ok(None);
        }
        let mut fields = self.fields.clone();
        self.links.add_to(&mut fields, state, Some(&id), None)?;
        let text = self.new_text(kind.row(), &kind.id(digits), &fields)?;
        let document = Document::new(id, text.into());
        let record = StoredRecord::parse_new(&document, self.at)?;
        self.create(state, document, record).map(Some)
    }

    fn new_text(&self, kind: &'static RecordKind, id: &str, fields: &RecordEdit) -> Result<String> {
        let new = NewRecord { kind, id, fields, creator: &self.user, created_at: self.at };
        new.text().map_err(|problem| Error::new(ErrorKind::Refused, problem))
    }

    fn create(
        &self,
        state: &mut CommitState<'_>,
        document: Document,
        record: StoredRecord,
    ) -> Result<Decision> {
        state.guard.add_parsed(&document, &record);
        let (id, parsed) = (document.id.clone(), Some((document.version, record)));
        state.create(document)?;
        Ok(self.decision(Action::Create, id, parsed, None))
    }

    fn update(&self, state: &mut CommitState<'_>) -> Result<Decision> {
        let is_relationship = self.links.is_relationship();
        let id = match &self.record {
            PlanRecord::Stored { meta, .. } => meta.id.clone(),
            created => created.document(state)?.id.clone(),
        };
        state.claim(&id, if is_relationship { Claim::Links } else { Claim::Content })?;
        let document = &self.record.document(state)?.clone();
        let record = match &self.record {
            PlanRecord::Stored { meta, .. } => StoredRecord::parse(meta, document)?,
            _ => StoredRecord::parse_new(document, self.at)?,
        };
        check_version(self.if_version, document, record.name(document))?;
        let (mut fields, own) = (self.fields.clone(), Some(record.as_ref()));
        let relationship = self.links.add_to(&mut fields, state, Some(&id), own)?;
        let edited = record.edit(document, &fields, self.at)?;
        let action = match edited {
            // An edit without effect writes nothing, even if it names a relationship.
            None => Action::Keep,
            Some(_) if is_relationship => Action::Relate,
            Some(_) => Action::Update,
        };
        let mut parsed = None;
        if let Some(edited) = edited {
            let new = StoredRecord::parse_new(&edited, self.at)?;
            state.guard.add_parsed(document, &record);
            state.guard.add_parsed(&edited, &new);
            state.check_shown(self.if_version, document, Some(&edited), document.version)?;
            parsed = Some((edited.version, new));
            state.put(edited);
        }
        if let Some(story) = self.done_story() {
            state.report_done_story(story);
        }
        Ok(self.decision(action, id, parsed, relationship))
    }

    /// The story that this change sets to Done, or to another status of that category.
    fn done_story(&self) -> Option<Reference> {
        let PlanRecord::Stored { meta, .. } = &self.record else { return None };
        let story = meta.item.as_ref()?.reference?;
        let status = Status::parse(self.fields.status.as_deref()?)?;
        let is_done = self.schema.category(story.kind, status) == StatusCategory::Done;
        (story.kind == ItemKind::UserStory && is_done).then_some(story)
    }

    /// Returns the decision, which renders the record as the answer.
    fn decision(
        &self,
        action: Action,
        id: DocumentId,
        parsed: Option<(Version, StoredRecord)>,
        relationship: Option<(RelationshipSpec, &'static str)>,
    ) -> Decision {
        let (project, schema, at) = (self.project.clone(), Arc::clone(&self.schema), self.at);
        let written = WrittenRecord { action, project, schema, at, parsed, relationship };
        Decision { action, id, render: Box::new(move |document| render_written(written, document)) }
    }
}
