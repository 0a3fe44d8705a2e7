//! Creates and updates items: the changes of nine tools, decided on the newest state.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::reference::SUFFIX_CHARS;
use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference, RelationshipType, Status};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Version, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::User;
use reqlore_domain::ports::documents::ReadSet;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::edit::{ItemEdit, LinkTarget, NewItem};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::arguments::ItemTarget;
use super::item_lookup;
use super::item_view::{self, ProjectView};
use super::relationship::RelationshipSpec;
use crate::answers::answer::text_answer;
use crate::documents::document_text;
use crate::tools::arguments::CUSTOM_FIELDS;
use crate::tools::tool::nothing_to_change_error;
use crate::writes::change::{Action, Change, ChangePlan, Decision, PlanContext};
use crate::writes::commit_state::{Claim, CommitState, requirements_query};
use crate::writes::local_names::LocalItem;
use crate::writes::transaction::check_version;

// The guaranteed part of a write tool's result, which is the whole record. A schema with every key
// in each of nine tools would cost models too many tokens. (A doc comment would enter the schema.)
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
pub(super) struct WriteOutcome {
    project: String,
    reference_id: String,
    version: String,
}

/// An item of a plan: one whose metadata was looked up, or one that the same commit creates.
#[derive(Clone)]
enum PlanItem {
    Stored(Reference, Arc<DocumentMeta>),
    Created(LocalItem),
}

impl PlanItem {
    /// `field` is the argument that names the item, for errors.
    async fn find(context: PlanContext<'_>, target: ItemTarget, field: &str) -> Result<Self> {
        match target {
            ItemTarget::Stored(reference) => {
                let backlog = context.backlog();
                let meta = backlog.find_argument(reference, field).await?;
                Ok(Self::Stored(reference, meta))
            }
            ItemTarget::Created(_, item) => Ok(Self::Created(item)),
        }
    }

    /// The document to read; `None` for one that the commit creates.
    fn stored_id(&self) -> Option<DocumentId> {
        match self {
            Self::Stored(_, meta) => Some(meta.id.clone()),
            Self::Created(_) => None,
        }
    }

    /// The newest document, or "not found" if it was deleted after the lookup.
    fn document<'a>(&self, state: &'a CommitState<'_>) -> Result<&'a Document> {
        match self {
            Self::Stored(reference, meta) => {
                item_lookup::require_document(state.document(&meta.id), *reference)
            }
            Self::Created(item) => state.created(*item),
        }
    }

    fn reference(&self, document: &Document) -> Result<Reference> {
        let reference = match self {
            Self::Stored(reference, _) => Some(*reference),
            Self::Created(_) => Reference::from_document(&document.id),
        };
        reference.ok_or_else(|| Error::new(ErrorKind::Internal, "A new item has no reference."))
    }

    fn parse(&self, document: &Document, at: Timestamp) -> Result<ItemMeta> {
        let text = document_text(document)?;
        match (self, Reference::from_document(&document.id)) {
            (Self::Created(_), Some(reference)) => {
                Ok(ItemMeta::parse(reference.kind, &document.id.name, text, at).0)
            }
            (Self::Stored(_, meta), _) => Ok(item_lookup::parse_item(meta, document, text)),
            _ => Err(Error::new(ErrorKind::Internal, "A new item has no reference.")),
        }
    }

    fn link_target(&self, state: &CommitState<'_>) -> Result<LinkTarget> {
        let document = self.document(state)?;
        Ok(item_lookup::link_target(self.reference(document)?, &document.id.name))
    }
}

/// Creates an item. `fields` has only fields that the kind has.
pub(super) struct ItemCreation {
    pub(super) kind: ItemKind,
    pub(super) parent: Option<ItemTarget>,
    pub(super) fields: ItemEdit,
}

#[async_trait]
impl Change for ItemCreation {
    fn reason(&self) -> String {
        format!("create {}", self.kind.noun().to_lowercase())
    }

    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>> {
        let find = async {
            let Some(parent) = self.parent else { return Ok(None) };
            PlanItem::find(context, parent, parent.kind().name()).await.map(Some)
        };
        // Together, because each is a round trip to a database.
        let (parent, schema) = tokio::try_join!(find, context.schema())?;
        let write = context.write;
        Ok(Box::new(CreationPlan {
            kind: self.kind,
            parent,
            // Cloned, because an outdated plan is made again.
            fields: checked_fields(context, &schema, self.kind, self.fields.clone(), true).await?,
            // The uid orders two items of the same second.
            uid: context.tools.ports.ids.new_uid(write.at),
            creator: write.caller.name.to_string(),
            view: (context.project.clone(), schema),
            at: write.at.whole_seconds(),
        }))
    }
}

/// Checks the values that depend on the project: the assignee, the status and custom fields.
async fn checked_fields(
    context: PlanContext<'_>,
    schema: &RecordSchema,
    kind: ItemKind,
    fields: ItemEdit,
    is_new: bool,
) -> Result<ItemEdit> {
    let mut fields = with_known_assignee(context, fields).await?;
    match &mut fields.status {
        Some(status) => *status = item_lookup::find_status(schema, kind, status.name())?,
        status if is_new => *status = schema.initial_status(kind),
        None => {}
    }
    let given: Map<String, Value> = std::mem::take(&mut fields.custom).into_iter().collect();
    let values = schema.parse_values(kind, &given, is_new);
    fields.custom = values.map_err(|(name, problem)| {
        let field = format!("{CUSTOM_FIELDS}.{name}");
        Error::new(ErrorKind::InvalidArgument, format!("{field}: {problem}")).field(field)
    })?;
    Ok(fields)
}

/// Spells the assignee like the user's name. Over HTTP it must be a user of the server; a disabled
/// one may keep items.
async fn with_known_assignee(context: PlanContext<'_>, mut fields: ItemEdit) -> Result<ItemEdit> {
    let (Some(users), Some(Some(assignee))) = (&context.tools.ports.users, &mut fields.assignee)
    else {
        return Ok(fields);
    };
    let users = users.list_users().await?;
    let key = assignee.trim().to_ascii_lowercase();
    match users.iter().find(|user| user.name.key() == key) {
        Some(user) => *assignee = user.name.to_string(),
        None => return Err(unknown_assignee(assignee, &users)),
    }
    Ok(fields)
}

fn unknown_assignee(assignee: &str, users: &[User]) -> Error {
    const MAX_LISTED: usize = 20;
    let mut names: Vec<&str> = users.iter().map(|user| user.name.as_str()).collect();
    let more = if names.len() > MAX_LISTED { " and others" } else { "" };
    names.truncate(MAX_LISTED);
    let message = format!(
        "assignee: {:?} is not a user of this server; use one of {}{more}, or an empty text to \
         unassign",
        truncate_echo(assignee),
        names.join(", ")
    );
    Error::new(ErrorKind::InvalidArgument, message).field("assignee")
}

/// A new item without its reference, which the commit issues.
struct CreationPlan {
    kind: ItemKind,
    parent: Option<PlanItem>,
    fields: ItemEdit,
    uid: String,
    creator: String,
    view: ProjectView,
    at: Timestamp,
}

impl ChangePlan for CreationPlan {
    fn read_set(&self) -> ReadSet {
        let documents = self.parent.iter().filter_map(PlanItem::stored_id).collect();
        ReadSet { sequences: vec![self.kind], ..ReadSet::of_documents(documents) }
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let Self { kind, fields, uid, creator, at, .. } = self;
        let (kind, at) = (*kind, *at);
        // Another call may have deleted the parent after the lookup.
        let parent = match &self.parent {
            Some(parent) => Some(parent.link_target(state)?),
            None => None,
        };
        let reference = state.issue_reference(kind)?;
        let new = NewItem {
            kind,
            uid,
            title: fields.title.as_deref(),
            description: fields.description.as_deref().unwrap_or_default(),
            status: fields.status,
            priority: fields.priority,
            requirement_type: fields.requirement_type,
            parent: parent.as_ref(),
            assignee: fields.assignee.as_ref().and_then(Option::as_deref),
            tags: fields.tags.as_deref().unwrap_or_default(),
            custom: &fields.custom,
            creator,
            created_at: at,
        };
        let text = new.text().map_err(|problem| Error::new(ErrorKind::Refused, problem))?;
        // Two Git branches may issue the same number; the suffix keeps their files apart.
        let suffix = uid.get(uid.len().saturating_sub(SUFFIX_CHARS)..).unwrap_or(uid);
        // As in lists: acceptance criteria have the title of their first line.
        let (mut item, _) = ItemMeta::parse(kind, "", &text, at);
        item.reference = Some(reference);
        let document = Document::new(reference.document_id(&item.title, suffix), text.into());
        state.guard.add_parsed(&document, &item);
        let (id, parsed) = (document.id.clone(), Some((document.version, item)));
        state.create(document)?;
        Ok(Some(item_decision(Action::Create, id, kind, &self.view, at, parsed)))
    }
}

/// The decision on an item whose answer is its record.
fn item_decision(
    action: Action,
    id: DocumentId,
    kind: ItemKind,
    view: &ProjectView,
    at: Timestamp,
    parsed: Option<(Version, ItemMeta)>,
) -> Decision {
    let view = view.clone();
    let outcome = match action {
        Action::Create => "Created",
        Action::Keep => "No change in",
        _ => "Updated",
    };
    let render = move |document: &Document| {
        let record = item_view::written_record(&view, document, kind, at, parsed)?;
        text_answer(item_view::outcome_line(outcome, kind, &record), &record)
    };
    Decision { action, id, render: Box::new(render) }
}

/// The effect of an update.
#[derive(Clone)]
pub(super) enum ItemEffect {
    /// Sets the given fields. A given parent replaces the current one.
    SetFields(Box<ItemEdit>, Option<ItemTarget>),
    AddRelationship(RelationshipType, ItemTarget),
    RemoveRelationship(RelationshipType, Reference),
}

/// Updates an item.
pub(super) struct ItemUpdate {
    pub(super) item: ItemTarget,
    pub(super) effect: ItemEffect,
    pub(super) if_version: Option<VersionPrefix>,
}

impl ItemUpdate {
    /// Updates the given fields. Fails if none is given.
    pub(super) fn fields(
        spec: &ToolSpec,
        item: Reference,
        parent: Option<ItemTarget>,
        fields: ItemEdit,
        if_version: Option<VersionPrefix>,
    ) -> Result<Box<dyn Change>> {
        if fields == ItemEdit::default() && parent.is_none() {
            return Err(nothing_to_change_error(spec));
        }
        let (item, effect) =
            (ItemTarget::Stored(item), ItemEffect::SetFields(Box::new(fields), parent));
        Ok(Box::new(Self { item, effect, if_version }))
    }
}

#[async_trait]
impl Change for ItemUpdate {
    fn reason(&self) -> String {
        let item = self.item;
        match &self.effect {
            ItemEffect::SetFields(..) => format!("update {item}"),
            ItemEffect::AddRelationship(kind, target) => {
                format!("create relationship {item} {} {target}", kind.name())
            }
            ItemEffect::RemoveRelationship(kind, target) => {
                format!("delete relationship {item} {} {target}", kind.name())
            }
        }
    }

    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>> {
        let (item_field, linked) = match &self.effect {
            ItemEffect::SetFields(_, parent) => {
                (self.item.kind().name(), parent.map(|parent| (parent, parent.kind().name())))
            }
            ItemEffect::AddRelationship(_, target) => ("source", Some((*target, "target"))),
            // The target of a relationship that is removed may be missing.
            ItemEffect::RemoveRelationship(..) => ("source", None),
        };
        let find = PlanItem::find(context, self.item, item_field);
        let (item, schema) = tokio::try_join!(find, context.schema())?;
        let linked = match linked {
            Some((target, field)) => Some(PlanItem::find(context, target, field).await?),
            None => None,
        };
        let mut effect = self.effect.clone();
        if let ItemEffect::SetFields(fields, _) = &mut effect {
            let kind = self.item.kind();
            let given = std::mem::take(&mut **fields);
            **fields = checked_fields(context, &schema, kind, given, false).await?;
        }
        Ok(Box::new(UpdatePlan {
            item,
            linked,
            effect,
            if_version: self.if_version,
            view: (context.project.clone(), schema),
            at: context.write.at.whole_seconds(),
        }))
    }
}

struct UpdatePlan {
    item: PlanItem,
    /// The item that the effect links to.
    linked: Option<PlanItem>,
    effect: ItemEffect,
    if_version: Option<VersionPrefix>,
    view: ProjectView,
    at: Timestamp,
}

impl UpdatePlan {
    /// The story that this change sets to Done.
    fn done_story(&self) -> Option<Reference> {
        match (&self.item, &self.effect) {
            (PlanItem::Stored(story, _), ItemEffect::SetFields(fields, _))
                if story.kind == ItemKind::UserStory && fields.status == Some(Status::Done) =>
            {
                Some(*story)
            }
            _ => None,
        }
    }
}

impl UpdatePlan {
    /// Stages the edited item. Returns it parsed, because both the guard and the answer need that.
    fn put(
        &self,
        state: &mut CommitState<'_>,
        (current, item): (&Document, &ItemMeta),
        edited: Document,
    ) -> Result<(Version, ItemMeta)> {
        let (kind, name) = (item.kind, &*edited.id.name);
        let (new, _) = ItemMeta::parse(kind, name, document_text(&edited)?, self.at);
        state.guard.add_parsed(current, item);
        state.guard.add_parsed(&edited, &new);
        state.check_shown(self.if_version, current, Some(&edited), current.version)?;
        let version = edited.version;
        state.put(edited);
        Ok((version, new))
    }
}

impl ChangePlan for UpdatePlan {
    fn read_set(&self) -> ReadSet {
        let items = std::iter::once(&self.item).chain(&self.linked);
        let mut reads = ReadSet::of_documents(items.filter_map(PlanItem::stored_id).collect());
        if let Some(story) = self.done_story() {
            reads.backlinks = requirements_query(story);
        }
        reads
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let claim = match self.effect {
            ItemEffect::SetFields(..) => Claim::Content,
            _ => Claim::Links,
        };
        let id = self.item.document(state)?.id.clone();
        state.claim(&id, claim)?;
        let document = &self.item.document(state)?.clone();
        let reference = self.item.reference(document)?;
        check_version(self.if_version, document, reference)?;
        let item = self.item.parse(document, self.at)?;
        let linked = match &self.linked {
            Some(linked) => Some((linked.link_target(state)?, linked.document(state)?)),
            None => None,
        };
        let mut relationship = None;
        let item_edit = match (&self.effect, linked) {
            (ItemEffect::SetFields(fields, _), linked) => {
                ItemEdit { parent: linked.map(|(parent, _)| parent), ..(**fields).clone() }
            }
            (ItemEffect::AddRelationship(kind, _), Some((link, target))) => {
                let spec = RelationshipSpec::new(reference, *kind, link.reference);
                relationship = Some(spec);
                let relationships = Some(spec.add(&item, target)?);
                ItemEdit { relationships, new_targets: vec![link], ..ItemEdit::default() }
            }
            (ItemEffect::RemoveRelationship(kind, target), _) => {
                let spec = RelationshipSpec::new(reference, *kind, *target);
                relationship = Some(spec);
                ItemEdit { relationships: Some(spec.remove(&item)?), ..ItemEdit::default() }
            }
            (ItemEffect::AddRelationship(..), None) => ItemEdit::default(),
        };
        let edited = item_lookup::apply_edit(&item, document, &item_edit, self.at)?;
        let action = match (&edited, relationship) {
            // An edit without effect writes nothing, even if it names a relationship.
            (None, _) => Action::Keep,
            (_, Some(_)) => Action::Relate,
            (_, None) => Action::Update,
        };
        let parsed = match edited {
            Some(edited) => Some(self.put(state, (document, &item), edited)?),
            None => None,
        };
        if let Some(story) = self.done_story() {
            state.report_done_story(story);
        }
        let Some(relationship) = relationship else {
            return Ok(Some(item_decision(
                action,
                id,
                reference.kind,
                &self.view,
                self.at,
                parsed,
            )));
        };
        let (view, at) = (self.view.clone(), self.at);
        let outcome = match self.effect {
            ItemEffect::RemoveRelationship(..) => "Relationship removed",
            _ => "Relationship created",
        };
        let render = move |document: &Document| {
            let record = item_view::written_record(&view, document, reference.kind, at, parsed)?;
            relationship.answer(outcome, &record)
        };
        Ok(Some(Decision { action, id, render: Box::new(render) }))
    }
}
