//! Named items, with their parents, children, criteria and links.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use reqlore_domain::backlog::story_waits::StoryWaits;
use reqlore_domain::backlog::{ItemKind, MENTIONS, Reference, inverse_relation};
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::document_label::DocumentLabel;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::task_context::{ContextEntry, EntryReason};

use super::candidate_texts::{Candidate, read_texts};
use crate::addresses::address::{Address, AddressTarget};
use crate::addresses::links::{IncomingLink, LinkNode, LinkReader, OutgoingLink};
use crate::backlog::claims::LiveClaims;
use crate::backlog::item_lookup::{BacklogReader, item_meta, sort_items};
use crate::context::ToolContext;

/// Maximum children of one item, and maximum links of all.
const MAX_CHILDREN: usize = 200;
const MAX_LINKS: usize = 200;
/// Maximum requirements of a story whose links are read.
const MAX_LINKED_CHILDREN: usize = 50;

/// The candidates for the items that a call names.
#[derive(Default)]
pub(super) struct NamedTexts {
    pub(super) named: Vec<ContextEntry>,
    pub(super) linked: Vec<ContextEntry>,
    pub(super) ended: Vec<ContextEntry>,
    /// The IDs of all candidates.
    pub(super) ids: HashSet<String>,
    claims: LiveClaims,
    schema: Arc<RecordSchema>,
}

impl NamedTexts {
    /// Reads the candidates for these documents. `is_wanted` accepts kinds of entries that are not
    /// named.
    pub(super) async fn read(
        context: &ToolContext,
        addresses: &[Address],
        max_bytes: usize,
        is_wanted: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Self> {
        let mut texts = Self::default();
        texts.ids.extend(addresses.iter().map(|address| address.target.id().into_owned()));
        let is_item = |address: &&Address| matches!(address.target, AddressTarget::Item(_));
        if let Some(Address { project, .. }) = addresses.iter().find(is_item) {
            texts.claims = LiveClaims::read(&context.ports, project).await;
            texts.schema = context.ports.schema(project).await?;
        }
        for address in addresses {
            let text = address.read_text(context).await?;
            let label = address.read_label(context).await?;
            let mut entry = ContextEntry::new(label, EntryReason::Named);
            entry.version = text.version;
            entry.set_text(&text.body, max_bytes);
            if let AddressTarget::Item(meta) = &address.target {
                entry.claim = texts.claims.view(meta, &texts.schema);
            }
            texts.named.push(entry);
        }
        for address in addresses {
            let project = &address.project;
            let surroundings = Surroundings::read(context, address, &texts.schema).await?;
            let Surroundings { parents, mut children, mut links } = surroundings;
            for (label, meta) in parents {
                // A context has the title of a parent only.
                if texts.ids.insert(label.id.clone()) {
                    let claim = texts.claims.view(&meta, &texts.schema);
                    let entry = ContextEntry::new(label, EntryReason::Parent);
                    texts.named.push(ContextEntry { claim, is_partial: false, ..entry });
                }
            }
            children.retain(|child| is_wanted(&child.entry.label.kind));
            links.retain(|link| is_wanted(&link.entry.label.kind));
            let reader = LinkReader { ports: &context.ports, project };
            let successors = successors(reader, children.iter().chain(&links)).await?;
            texts.add(context, project, children, max_bytes, true).await;
            texts.add(context, project, links, max_bytes, false).await;
            texts.add(context, project, successors, max_bytes, false).await;
        }
        Ok(texts)
    }

    async fn add(
        &mut self,
        context: &ToolContext,
        project: &ProjectKey,
        mut candidates: Vec<Candidate>,
        max_bytes: usize,
        is_child: bool,
    ) {
        candidates.retain(|candidate| self.ids.insert(candidate.entry.label.id.clone()));
        for Candidate { entry, meta, .. } in &mut candidates {
            entry.claim = meta.as_ref().and_then(|meta| self.claims.view(meta, &self.schema));
        }
        for entry in read_texts(context, project, candidates, max_bytes).await {
            let list = match is_child {
                _ if entry.label.stale.is_some() => &mut self.ended,
                true => &mut self.named,
                false => &mut self.linked,
            };
            list.push(entry);
        }
    }
}

/// The valid records that supersede candidates.
async fn successors(
    reader: LinkReader<'_>,
    candidates: impl Iterator<Item = &Candidate>,
) -> Result<Vec<Candidate>> {
    let mut ended = Vec::new();
    for Candidate { entry: ContextEntry { label, .. }, .. } in candidates {
        ended.extend(label.superseded_by.clone().map(|successor| (successor, &label.id)));
    }
    let nodes = reader.targets(ended.iter().map(|(successor, _)| successor.clone())).await?;
    let mut successors = Vec::new();
    for (successor, id) in &ended {
        let relation = Some(format!("supersedes {id}"));
        let node = nodes.get(successor);
        successors.extend(node.map(|node| Candidate::of_node(node, EntryReason::Link, relation)));
    }
    Ok(successors)
}

/// The documents around a named one.
struct Surroundings {
    /// The nearest first.
    parents: Vec<(DocumentLabel, Arc<DocumentMeta>)>,
    children: Vec<Candidate>,
    /// Criteria, then other links, mentions last.
    links: Vec<Candidate>,
}

impl Surroundings {
    async fn read(context: &ToolContext, address: &Address, schema: &RecordSchema) -> Result<Self> {
        let own_id = address.target.id().into_owned();
        let backlog = BacklogReader { ports: &context.ports, project: &address.project };
        let item = match &address.target {
            AddressTarget::Item(meta) => item_meta(meta),
            _ => None,
        };
        let own = item.and_then(|item| item.reference);
        let parent = item.and_then(|item| item.parent);
        let (mut children, mut criteria) = (Vec::new(), Vec::new());
        let mut links = LinkList::default();
        for link in address.read_outgoing(context).await? {
            let target = link.target.as_ref().and_then(|target| item_meta(&target.meta));
            if parent.is_none() || target.and_then(|item| item.reference) != parent {
                links.add_outgoing(&own_id, &link);
            }
        }
        for link in address.read_incoming(context).await? {
            let source = item_meta(&link.source.meta);
            match source.filter(|source| own.is_some() && source.parent == own) {
                Some(item) if item.kind == ItemKind::AcceptanceCriteria => {
                    criteria.push(Arc::clone(&link.source.meta));
                }
                Some(_) => children.push(Arc::clone(&link.source.meta)),
                None => links.add_incoming(&own_id, &link),
            }
        }
        let reader = LinkReader { ports: backlog.ports, project: backlog.project };
        match (&address.target, item.map(|item| item.kind), parent) {
            (AddressTarget::Item(story), Some(ItemKind::UserStory), _) => {
                links.add_requirements(reader, own, &children).await?;
                links.add_awaited(backlog, story, &children, schema).await?;
            }
            (_, Some(ItemKind::Requirement), Some(story)) => {
                criteria = backlog.children(story, ItemKind::AcceptanceCriteria).await?;
            }
            _ => {}
        }
        for list in [&mut children, &mut criteria] {
            sort_items(list);
            list.truncate(MAX_CHILDREN);
        }
        let mut all = Vec::new();
        for node in reader.nodes(&criteria).await? {
            all.push(Candidate::of_node(&node, EntryReason::Criterion, None));
        }
        all.extend(links.into_candidates());
        let relation = format!("in {own_id}");
        let mut candidates = Vec::with_capacity(children.len());
        for node in reader.nodes(&children).await? {
            candidates.push(Candidate::of_node(&node, EntryReason::Link, Some(relation.clone())));
        }
        let parents = read_parents(backlog, parent).await;
        Ok(Self { parents, children: candidates, links: all })
    }
}

/// The parent and its parent. A faulty one does not affect its child.
async fn read_parents(
    backlog: BacklogReader<'_>,
    parent: Option<Reference>,
) -> Vec<(DocumentLabel, Arc<DocumentMeta>)> {
    let mut parents = Vec::new();
    for (reference, found) in backlog.parents(parent).await {
        let Ok(meta) = found else { break };
        parents.push((DocumentLabel::from_meta(&meta, reference.to_string()), meta));
    }
    parents
}

/// The links of a named item and of its requirements.
#[derive(Default)]
struct LinkList {
    near: Vec<Candidate>,
    mentions: Vec<Candidate>,
}

impl LinkList {
    /// `relation` is the one from the document to that of `id`.
    fn add(&mut self, node: &LinkNode, relation: &str, id: &str) {
        let words = Some(format!("{} {id}", relation.replace('_', " ")));
        let is_mention = relation == MENTIONS || relation == inverse_relation(MENTIONS);
        let list = if is_mention { &mut self.mentions } else { &mut self.near };
        list.push(Candidate::of_node(node, EntryReason::Link, words));
    }

    fn add_outgoing(&mut self, source: &str, link: &OutgoingLink) {
        let Some(target) = &link.target else { return };
        self.add(target, &inverse_relation(&link.relation), source);
    }

    fn add_incoming(&mut self, target: &str, link: &IncomingLink) {
        self.add(&link.source, &link.relation, target);
    }

    /// Adds the links of a story's requirements to documents outside of the story.
    async fn add_requirements(
        &mut self,
        reader: LinkReader<'_>,
        story: Option<Reference>,
        children: &[Arc<DocumentMeta>],
    ) -> Result<()> {
        let is_inside = |meta: &DocumentMeta| {
            item_meta(meta).is_some_and(|item| item.reference == story || item.parent == story)
        };
        let mut names = Vec::new();
        for meta in children.iter().take(MAX_LINKED_CHILDREN) {
            let Some(id) = meta.reference().map(Cow::into_owned) else { continue };
            for link in reader.outgoing(meta, None).await? {
                if link.target.as_ref().is_some_and(|target| !is_inside(&target.meta)) {
                    self.add_outgoing(&id, &link);
                }
            }
            names.push(id);
        }
        if names.is_empty() {
            return Ok(());
        }
        for link in reader.incoming(names.clone()).await? {
            let meta = &link.source.meta;
            if meta.id.kind != DocumentKind::Deleted && !is_inside(meta) {
                let links = meta.links();
                let mut targets = links.iter().filter(|(relation, _)| *relation == link.relation);
                let target = targets.find(|(_, target)| names.iter().any(|name| *name == **target));
                let target = target.map_or_else(String::new, |(_, target)| target.to_string());
                self.add_incoming(&target, &link);
            }
        }
        Ok(())
    }

    /// Adds the stories that a story waits for by its requirements, whose links are in the list.
    async fn add_awaited(
        &mut self,
        backlog: BacklogReader<'_>,
        story: &Arc<DocumentMeta>,
        children: &[Arc<DocumentMeta>],
        schema: &RecordSchema,
    ) -> Result<()> {
        let mut metas: Vec<Arc<DocumentMeta>> = children.to_vec();
        metas.extend(self.near.iter().filter_map(|candidate| candidate.meta.clone()));
        let requirements = metas.iter().filter_map(|meta| item_meta(meta));
        let parents = requirements.filter_map(|item| item.parent);
        let mut stories: Vec<_> =
            parents.filter(|parent| parent.kind == ItemKind::UserStory).collect();
        stories.sort_unstable();
        stories.dedup();
        metas.push(Arc::clone(story));
        metas.extend(backlog.find_items(&stories).await?.into_iter().flatten());
        let waits = StoryWaits::of_items(metas.iter().filter_map(|meta| item_meta(meta)), schema);
        let own = item_meta(story).and_then(|item| item.reference);
        let awaited: Vec<Reference> =
            own.into_iter().flat_map(|own| waits.waits_for(own)).collect();
        let is_awaited = |meta: &Arc<DocumentMeta>| {
            item_meta(meta).and_then(|item| item.reference).is_some_and(|it| awaited.contains(&it))
        };
        metas.retain(is_awaited);
        let reader = LinkReader { ports: backlog.ports, project: backlog.project };
        let id = own.map_or_else(String::new, |own| own.to_string());
        for node in reader.nodes(&metas).await? {
            self.add(&node, "needed_by", &id);
        }
        Ok(())
    }

    fn into_candidates(self) -> impl Iterator<Item = Candidate> {
        self.near.into_iter().chain(self.mentions).take(MAX_LINKS)
    }
}
