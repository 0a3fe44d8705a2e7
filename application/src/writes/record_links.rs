//! The links that a change of an item or entity sets: a parent, a relationship, or relations to any
//! documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference, Relationship, RelationshipType};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::edit::{LinkTarget, RecordEdit, RelationTargets, check_relation};
use reqlore_domain::records::ended::SUPERSEDES;
use reqlore_domain::records::tombstone::RecordRef;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::addresses::address::AddressTarget;
use crate::addresses::links::SECTION_PREFIX;
use crate::backlog::arguments::ItemTarget;
use crate::backlog::item_lookup;
use crate::backlog::relationship::RelationshipSpec;
use crate::writes::change::PlanContext;
use crate::writes::commit_state::CommitState;
use crate::writes::local_names::{LocalItem, LocalNames};
use crate::writes::stored_record::{StoredRecord, require_document};

/// Relation names and their targets.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct LinkArguments(BTreeMap<String, Vec<String>>);

/// Each target takes a lookup.
const MAX_TARGETS: usize = 200;

impl LinkArguments {
    /// Validates relations and local names.
    pub(crate) fn decode(self, names: &LocalNames) -> Result<LinkChange<Target>> {
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
            relations.push((relation, find_targets(ids, names, "links")?));
        }
        Ok(LinkChange::Relations(relations))
    }
}

/// The targets that an argument names by their IDs and by local names.
pub(crate) fn find_targets(
    ids: Vec<String>,
    names: &LocalNames,
    field: &str,
) -> Result<Vec<Target>> {
    let mut targets = Vec::with_capacity(ids.len());
    for id in ids {
        targets.push(match names.find(&id, field)? {
            Some(item) => Target::Created(item),
            None => Target::Address(id),
        });
    }
    Ok(targets)
}

/// The target of a link, as an argument names it.
pub(crate) enum Target {
    Item(ItemTarget),
    /// An ID or path in any spelling.
    Address(String),
    /// A document that the same commit creates.
    Created(LocalItem),
}

/// A target that was looked up.
pub(crate) enum PlanTarget {
    /// The ID or reference as links spell it, its document, and the metadata of a record.
    Stored(String, DocumentId, Option<Arc<DocumentMeta>>),
    Created(LocalItem),
}

impl PlanTarget {
    /// An unknown target is an error, unlike in a file written by hand: a model would not notice
    /// the broken link. `field` is the argument that names it.
    async fn find(context: PlanContext<'_>, target: &Target, field: &str) -> Result<Self> {
        let address = match target {
            Target::Created(item) | Target::Item(ItemTarget::Created(_, item)) => {
                return Ok(Self::Created(*item));
            }
            Target::Item(ItemTarget::Stored(reference)) => {
                let meta = context.backlog().find_argument(*reference, field).await?;
                return Ok(Self::Stored(reference.to_string(), meta.id.clone(), Some(meta)));
            }
            Target::Address(address) => address,
        };
        let target = context.address_space().resolve(address, field).await?.target;
        // Links to a section are exact, because any text of a front matter may equal its key.
        let id = match &target {
            AddressTarget::Section(_) => format!("{SECTION_PREFIX}{}", target.id()),
            AddressTarget::Docset { .. } => {
                let message = format!("links: {} is a docset; nothing can link to it", target.id());
                return Err(Error::new(ErrorKind::Refused, message).field(field));
            }
            _ => target.id().into_owned(),
        };
        let meta = match &target {
            AddressTarget::Item(meta) | AddressTarget::Entity(meta) => Some(Arc::clone(meta)),
            _ => None,
        };
        Ok(Self::Stored(id, target.document_id(), meta))
    }

    /// The ID or reference, and the newest document. Fails if it was deleted after it was found.
    fn resolve<'a>(
        &self,
        state: &'a CommitState<'_>,
        field: &str,
    ) -> Result<(String, &'a Document)> {
        match self {
            Self::Stored(name, id, _) => {
                Ok((name.clone(), require_document(state.document(id), name, field)?))
            }
            Self::Created(item) => {
                let document = state.created(*item)?;
                let name = match Reference::from_document(&document.id) {
                    Some(reference) => reference.to_string(),
                    None => StoredRecord::parse_new(document, Timestamp::default())?.name(document),
                };
                Ok((name, document))
            }
        }
    }

    fn resolve_item<'a>(
        &self,
        state: &'a CommitState<'_>,
        field: &str,
    ) -> Result<(LinkTarget, &'a Document)> {
        let (name, document) = self.resolve(state, field)?;
        let reference = Reference::parse(&name);
        let reference = reference
            .ok_or_else(|| Error::new(ErrorKind::Internal, "A linked item has no reference."))?;
        Ok((item_lookup::link_target(reference, &document.id.name), document))
    }
}

/// The links that a change sets, with targets as given or looked up.
pub(crate) enum LinkChange<T> {
    /// Replaces the parent of an item, with the name of its argument, and the requirements that a
    /// requirement supersedes.
    Item {
        parent: Option<(&'static str, T)>,
        supersedes: Option<Vec<T>>,
    },
    AddRelationship(RelationshipType, T),
    /// The target may be missing.
    RemoveRelationship(RelationshipType, Reference),
    /// Replaces the targets of these relations of an entity.
    Relations(Vec<(String, Vec<T>)>),
}

impl<T> LinkChange<T> {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Item { parent, supersedes } => parent.is_none() && supersedes.is_none(),
            Self::Relations(relations) => relations.is_empty(),
            _ => false,
        }
    }

    /// The records that the record will supersede.
    pub(crate) fn superseded(&self) -> &[T] {
        match self {
            Self::Item { supersedes: Some(targets), .. } => targets,
            Self::Relations(relations) => {
                let found = relations.iter().find(|(relation, _)| relation == SUPERSEDES);
                found.map_or(&[], |(_, targets)| targets)
            }
            _ => &[],
        }
    }

    /// True if the record may no longer supersede all that it does.
    pub(crate) fn may_release(&self) -> bool {
        match self {
            Self::Item { supersedes, .. } => supersedes.is_some(),
            Self::RemoveRelationship(kind, _) => *kind == RelationshipType::Supersedes,
            Self::AddRelationship(..) => false,
            Self::Relations(_) => self.relations().any(|relation| relation == SUPERSEDES),
        }
    }

    pub(crate) fn is_relationship(&self) -> bool {
        matches!(self, Self::AddRelationship(..) | Self::RemoveRelationship(..))
    }

    pub(crate) fn relations(&self) -> impl Iterator<Item = &str> {
        let relations = if let Self::Relations(relations) = self { &relations[..] } else { &[] };
        relations.iter().map(|(relation, _)| relation.as_str())
    }
}

impl LinkChange<Target> {
    pub(crate) async fn find(&self, context: PlanContext<'_>) -> Result<LinkChange<PlanTarget>> {
        Ok(match self {
            Self::Item { parent, supersedes } => LinkChange::Item {
                parent: match parent {
                    Some((field, parent)) => {
                        Some((*field, PlanTarget::find(context, parent, field).await?))
                    }
                    None => None,
                },
                supersedes: match supersedes {
                    Some(targets) => Some(find_all(context, targets, SUPERSEDES).await?),
                    None => None,
                },
            },
            Self::AddRelationship(kind, target) => {
                let found = PlanTarget::find(context, target, "target").await?;
                LinkChange::AddRelationship(*kind, found)
            }
            Self::RemoveRelationship(kind, target) => {
                LinkChange::RemoveRelationship(*kind, *target)
            }
            Self::Relations(relations) => {
                let mut links = Vec::with_capacity(relations.len());
                for (relation, targets) in relations {
                    links.push((relation.clone(), find_all(context, targets, "links").await?));
                }
                LinkChange::Relations(links)
            }
        })
    }
}

async fn find_all(
    context: PlanContext<'_>,
    targets: &[Target],
    field: &str,
) -> Result<Vec<PlanTarget>> {
    let mut found = Vec::with_capacity(targets.len());
    for target in targets {
        found.push(PlanTarget::find(context, target, field).await?);
    }
    Ok(found)
}

impl LinkChange<PlanTarget> {
    /// True if the record no longer supersedes this one. See [`Self::may_release`].
    pub(crate) fn releases(&self, old: &DocumentId) -> bool {
        if let Self::RemoveRelationship(_, target) = self {
            return Reference::from_document(old) == Some(*target);
        }
        let is_old =
            |target: &PlanTarget| matches!(target, PlanTarget::Stored(_, id, _) if id == old);
        !self.superseded().iter().any(is_old)
    }

    /// The stored targets.
    pub(crate) fn reads(&self) -> Vec<DocumentId> {
        let targets: Vec<&PlanTarget> = match self {
            Self::Item { parent, supersedes } => {
                let parent = parent.iter().map(|(_, parent)| parent);
                parent.chain(supersedes.iter().flatten()).collect()
            }
            Self::AddRelationship(_, target) => vec![target],
            Self::RemoveRelationship(..) => Vec::new(),
            Self::Relations(links) => links.iter().flat_map(|(_, targets)| targets).collect(),
        };
        let stored = |target: &PlanTarget| match target {
            PlanTarget::Stored(_, id, _) => Some(id.clone()),
            PlanTarget::Created(_) => None,
        };
        targets.into_iter().filter_map(stored).collect()
    }

    /// Adds the links of the document `own` to an edit. Returns the relationship that changes,
    /// with its outcome.
    pub(crate) fn add_to(
        &self,
        edit: &mut RecordEdit,
        state: &CommitState<'_>,
        own: Option<&DocumentId>,
        record: Option<RecordRef<'_>>,
    ) -> Result<Option<(RelationshipSpec, &'static str)>> {
        let source = match record {
            Some(RecordRef::Item(item)) => item.reference.map(|reference| (reference, item)),
            _ => None,
        };
        match (self, source) {
            (Self::Item { parent, supersedes }, _) => {
                if let Some((field, parent)) = parent {
                    edit.parent = Some(parent.resolve_item(state, field)?.0);
                }
                if let Some(targets) = supersedes {
                    add_superseded(edit, state, targets, source.map(|(_, item)| item))?;
                }
                Ok(None)
            }
            (Self::AddRelationship(kind, target), Some((reference, item))) => {
                let (link, document) = target.resolve_item(state, "target")?;
                let spec = RelationshipSpec::new(reference, *kind, link.reference);
                edit.relationships = Some(spec.add(item, document)?);
                edit.new_targets = vec![link];
                Ok(Some((spec, "Relationship created")))
            }
            (Self::RemoveRelationship(kind, target), Some((reference, item))) => {
                let spec = RelationshipSpec::new(reference, *kind, *target);
                edit.relationships = Some(spec.remove(item)?);
                Ok(Some((spec, "Relationship removed")))
            }
            (Self::Relations(links), _) => {
                for (relation, targets) in links {
                    let (relation, targets) = (relation.clone(), names_of(targets, state, own)?);
                    edit.links.push(RelationTargets { relation, targets });
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

/// Replaces the requirements that a requirement supersedes.
fn add_superseded(
    edit: &mut RecordEdit,
    state: &CommitState<'_>,
    targets: &[PlanTarget],
    item: Option<&ItemMeta>,
) -> Result<()> {
    let kind = RelationshipType::Supersedes;
    let mut relationships = item.map(|item| item.relationships.clone()).unwrap_or_default();
    relationships.retain(|link| link.kind != kind);
    for target in targets {
        let (name, _) = target.resolve(state, SUPERSEDES)?;
        let reference = Reference::parse(&name);
        if reference.is_none_or(|target| target.kind != ItemKind::Requirement)
            || reference == item.and_then(|item| item.reference)
        {
            let message = format!("{SUPERSEDES}: {name} is not another requirement; omit it");
            return Err(Error::new(ErrorKind::Refused, message).field(SUPERSEDES).reference(name));
        }
        let (link, _) = target.resolve_item(state, SUPERSEDES)?;
        relationships.push(Relationship { kind, target: link.reference });
        edit.new_targets.push(link);
    }
    edit.relationships = Some(relationships);
    Ok(())
}

/// The names of the targets of a relation of the document `own`.
fn names_of(
    targets: &[PlanTarget],
    state: &CommitState<'_>,
    own: Option<&DocumentId>,
) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for target in targets {
        let (name, document) = target.resolve(state, "links")?;
        // Compared by document, because an ID and a path may name the same one.
        if own == Some(&document.id) {
            let message = format!("links: {name} cannot link to itself");
            return Err(Error::new(ErrorKind::Refused, message).field("links").reference(name));
        }
        // Two spellings of one target become equal only after the lookup.
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}
