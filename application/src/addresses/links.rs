//! Links between documents of all toolsets, in both directions.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, MENTIONS, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::EntityLink;
use reqlore_domain::ports::documents::BacklinkQuery;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::document_label::{DocumentLabel, SECTION_REQUIREMENT};
use reqlore_domain::records::answers::links::LinkEntry;
use reqlore_domain::records::ended::{
    Freshness, SUPERSEDED_BY, SUPERSEDES, Successions, is_ended, overdue_review,
};
use reqlore_domain::sections::Section;
use reqlore_domain::sections::mentions::{MentionSource, requirement_title};

use crate::documents::get_one;
use crate::ports::ApplicationPorts;

/// Before the key of a section, or of a section and a requirement, in an exact ID.
pub(crate) const SECTION_PREFIX: &str = "section:";
/// Documents of an answer whose freshness is looked up.
const MAX_DATED: usize = 500;
/// A longer circle of records that supersede each other is not found.
const MAX_SUCCESSION_ROUNDS: usize = 20;
/// The kinds of records that supersede others.
const SUCCEEDED_KINDS: [DocumentKind; 2] =
    [DocumentKind::Entity, DocumentKind::Item(ItemKind::Requirement)];

/// The end of a link.
#[derive(Debug, Clone)]
pub(crate) struct LinkNode {
    pub(crate) meta: Arc<DocumentMeta>,
    /// Set for a requirement of a section.
    pub(crate) part: Option<LinkPart>,
    freshness: Freshness,
}

/// A requirement of a section.
#[derive(Debug, Clone)]
pub(crate) struct LinkPart {
    pub(crate) index: String,
    pub(crate) title: String,
}

impl LinkNode {
    fn of_mention(meta: &Arc<DocumentMeta>, source: &MentionSource) -> Self {
        let title = source.title.clone();
        let part = source.index.clone().map(|index| LinkPart { index, title });
        Self { part, ..Self::new(meta) }
    }

    fn new(meta: &Arc<DocumentMeta>) -> Self {
        Self { meta: Arc::clone(meta), part: None, freshness: Freshness::default() }
    }

    pub(crate) fn id(&self) -> String {
        let meta = &self.meta;
        match (&self.part, meta.reference()) {
            (Some(part), _) => format!("{}:{}", meta.id.name, part.index),
            (None, Some(reference)) => reference.into_owned(),
            (None, None) => meta.id.name.clone(),
        }
    }

    /// True if it is no longer valid.
    fn is_stale(&self) -> bool {
        self.freshness.superseded_by.is_some() || self.meta.status().is_some_and(is_ended)
    }

    pub(crate) fn label(&self) -> DocumentLabel {
        let mut label = DocumentLabel::from_meta(&self.meta, self.id());
        label.mark(self.freshness.clone());
        if let Some(part) = &self.part {
            SECTION_REQUIREMENT.clone_into(&mut label.kind);
            label.title = Some(part.title.clone());
        }
        label
    }

    fn entry(&self, relation: &str, attribute: Option<&str>) -> LinkEntry {
        LinkEntry {
            relation: relation.to_owned(),
            attribute: attribute.map(str::to_owned),
            label: self.label(),
            is_missing: false,
        }
    }
}

/// A link to a document.
#[derive(Debug)]
pub(crate) struct IncomingLink {
    pub(crate) relation: String,
    attribute: Option<String>,
    pub(crate) source: LinkNode,
}

impl IncomingLink {
    pub(crate) fn entry(&self) -> LinkEntry {
        self.source.entry(&self.relation, self.attribute.as_deref())
    }
}

/// A link from a document.
#[derive(Debug)]
pub(crate) struct OutgoingLink {
    pub(crate) relation: String,
    attribute: Option<String>,
    /// As spelled in the document.
    pub(crate) id: String,
    /// `None` if the target is missing, or if several documents have the ID.
    pub(crate) target: Option<LinkNode>,
}

impl OutgoingLink {
    /// The link with the ID that answers print.
    pub(crate) fn entry(&self) -> LinkEntry {
        if let Some(target) = &self.target {
            return target.entry(&self.relation, self.attribute.as_deref());
        }
        let reference = Reference::parse(&self.id);
        let kind = reference.map_or("", |reference| reference.kind.name()).to_owned();
        let id = reference.map_or_else(|| self.id.clone(), |reference| reference.to_string());
        LinkEntry {
            relation: self.relation.clone(),
            attribute: self.attribute.clone(),
            label: DocumentLabel { id, kind, ..DocumentLabel::default() },
            is_missing: true,
        }
    }
}

/// Reads the links of one project.
#[derive(Clone, Copy)]
pub(crate) struct LinkReader<'a> {
    pub(crate) ports: &'a ApplicationPorts,
    pub(crate) project: &'a ProjectKey,
}

impl LinkReader<'_> {
    /// Returns the links of all enabled toolsets to a document that has these names, by relation.
    pub(crate) async fn incoming(self, names: Vec<String>) -> Result<Vec<IncomingLink>> {
        let query = BacklinkQuery { kinds: self.kinds(), targets: names };
        let found = self.ports.documents.backlinks(self.project, &query).await?;
        let mut found = found.concat();
        // Most items have no links from entities, and need no read of the schema.
        if found.iter().any(|meta| meta.entity.is_some()) {
            let schema = self.ports.schema(self.project).await?;
            schema.remove_field_links(&mut found);
        }
        let mut links: Vec<IncomingLink> = Vec::new();
        let mut added: HashSet<&DocumentId> = HashSet::new();
        for meta in &found {
            // A document that links by id and by path is in two lists.
            if added.insert(&meta.id) {
                add_incoming(meta, &query.targets, &mut links);
            }
        }
        self.add_freshness(links.iter_mut().map(|link| &mut link.source).collect()).await?;
        links.sort_by_cached_key(|link| {
            // Mentions last, so that the cut at `MAX_INCOMING` keeps the relationships.
            (
                link.source.is_stale(),
                link.relation == MENTIONS,
                link.relation.clone(),
                link.source.id(),
            )
        });
        Ok(links)
    }

    /// Returns the freshness of documents that have ended by a successor or are overdue.
    pub(crate) async fn freshness(
        self,
        metas: impl IntoIterator<Item = &Arc<DocumentMeta>>,
    ) -> Result<HashMap<DocumentId, Freshness>> {
        let metas: Vec<&Arc<DocumentMeta>> = metas.into_iter().take(MAX_DATED).collect();
        let (successions, known) = self.successions(metas.iter().copied()).await?;
        let (mut freshness, now) = (HashMap::new(), self.ports.clock.now());
        for meta in metas {
            let successor = successions.successor(&meta.id);
            let successor = successor.and_then(|id| known.iter().find(|known| known.id == *id));
            let superseded_by = successor.and_then(|successor| successor.reference());
            let superseded_by = superseded_by.map(Cow::into_owned);
            let is_overdue = overdue_review(meta, now).is_some();
            if superseded_by.is_some() || is_overdue {
                freshness.insert(meta.id.clone(), Freshness { superseded_by, is_overdue });
            }
        }
        Ok(freshness)
    }

    /// Returns the successions of records, and their metadata with that of all successors.
    pub(crate) async fn successions(
        self,
        metas: impl IntoIterator<Item = &Arc<DocumentMeta>>,
    ) -> Result<(Successions, Vec<Arc<DocumentMeta>>)> {
        let is_record = |meta: &&Arc<DocumentMeta>| SUCCEEDED_KINDS.contains(&meta.id.kind);
        let mut known: Vec<Arc<DocumentMeta>> =
            metas.into_iter().filter(is_record).cloned().collect();
        let mut ids: HashSet<DocumentId> = known.iter().map(|meta| meta.id.clone()).collect();
        let mut searched = 0;
        // Each round finds the successors of those that the round before found.
        for _ in 0..MAX_SUCCESSION_ROUNDS {
            let open = known[searched..].to_vec();
            if open.is_empty() {
                break;
            }
            searched = known.len();
            for successor in self.direct_successors(&open).await? {
                if ids.insert(successor.id.clone()) {
                    known.push(successor);
                }
            }
        }
        Ok((Successions::from_metadata(&known), known))
    }

    /// The records that supersede one of these, by the links of either.
    async fn direct_successors(
        self,
        metas: &[Arc<DocumentMeta>],
    ) -> Result<Vec<Arc<DocumentMeta>>> {
        let mut kinds = self.kinds();
        kinds.retain(|kind| SUCCEEDED_KINDS.contains(kind));
        let (mut targets, mut named) = (HashSet::new(), HashSet::new());
        for meta in metas {
            targets.extend(meta.reference().map(Cow::into_owned));
            if meta.entity.is_some() {
                targets.insert(meta.id.name.clone());
            }
            let links = meta.entity.iter().flat_map(|entity| &entity.links);
            let links = links.filter(|link| link.relation == SUPERSEDED_BY && link.is_certain);
            named.extend(links.map(|link| link.target.clone()));
        }
        let query = BacklinkQuery { kinds, targets: targets.into_iter().collect() };
        let mut found = self.ports.documents.backlinks(self.project, &query).await?.concat();
        found.retain(|meta| meta.links().iter().any(|(relation, _)| *relation == SUPERSEDES));
        found.extend(self.targets(named.into_iter()).await?.into_values().map(|node| node.meta));
        Ok(found)
    }

    /// Returns the nodes of documents, with their freshness.
    pub(crate) async fn nodes(self, metas: &[Arc<DocumentMeta>]) -> Result<Vec<LinkNode>> {
        let mut nodes: Vec<LinkNode> = metas.iter().map(LinkNode::new).collect();
        self.add_freshness(nodes.iter_mut().collect()).await?;
        Ok(nodes)
    }

    /// Adds the freshness of the first [`MAX_DATED`] documents.
    async fn add_freshness(self, nodes: Vec<&mut LinkNode>) -> Result<()> {
        let metas: Vec<Arc<DocumentMeta>> =
            nodes.iter().map(|node| Arc::clone(&node.meta)).collect();
        let freshness = self.freshness(&metas).await?;
        for node in nodes {
            node.freshness = freshness.get(&node.meta.id).cloned().unwrap_or_default();
        }
        Ok(())
    }

    /// Returns the links of a document in its own order, those to ended ones last. `index` selects
    /// one requirement of a section. A target that is only perhaps an ID is left out if it does not
    /// exist.
    pub(crate) async fn outgoing(
        self,
        meta: &DocumentMeta,
        index: Option<&str>,
    ) -> Result<Vec<OutgoingLink>> {
        let mut links = stored_links(meta, index);
        if meta.entity.is_some() {
            let schema = self.ports.schema(self.project).await?;
            links.retain(|link| schema.field(&link.relation).is_none());
        }
        let targets = self.targets(links.iter().map(|link| link.target.clone())).await?;
        let mut outgoing = Vec::with_capacity(links.len());
        for StoredLink { relation, attribute, target: id, is_certain } in links {
            let target = targets.get(&id).cloned();
            if target.is_some() || is_certain {
                outgoing.push(OutgoingLink { relation, attribute, id, target });
            }
        }
        let nodes = outgoing.iter_mut().filter_map(|link| link.target.as_mut());
        self.add_freshness(nodes.collect()).await?;
        outgoing.sort_by_key(|link| link.target.as_ref().is_some_and(LinkNode::is_stale));
        Ok(outgoing)
    }

    /// The documents with these ids, with one lookup for each kind. Leaves out an id that no
    /// document or several documents have.
    pub(crate) async fn targets(
        self,
        ids: impl Iterator<Item = String>,
    ) -> Result<HashMap<String, LinkNode>> {
        let mut ids_by_kind: HashMap<DocumentKind, Vec<String>> = HashMap::new();
        for id in ids {
            let reference = Reference::parse(&id);
            let kind = reference.map_or(DocumentKind::Entity, |it| DocumentKind::Item(it.kind));
            ids_by_kind.entry(kind).or_default().push(id);
        }
        let mut entity_ids = ids_by_kind.remove(&DocumentKind::Entity).unwrap_or_default();
        let mut targets = HashMap::new();
        for (kind, ids) in ids_by_kind {
            // An entity may be named like a reference, so it is the second choice.
            entity_ids.extend(self.add_targets(kind, ids, &mut targets).await?);
        }
        let others = self.add_targets(DocumentKind::Entity, entity_ids, &mut targets).await?;
        for id in others {
            if let Some(node) = self.section_target(&id).await? {
                targets.insert(id, node);
            }
        }
        Ok(targets)
    }

    /// Looks up documents of one kind. Returns the ids that no document has.
    async fn add_targets(
        self,
        kind: DocumentKind,
        ids: Vec<String>,
        targets: &mut HashMap<String, LinkNode>,
    ) -> Result<Vec<String>> {
        let is_enabled = self.kinds().contains(&kind);
        if ids.is_empty() || !is_enabled {
            return Ok(ids);
        }
        let mut words = Vec::with_capacity(ids.len());
        for id in &ids {
            let reference = Reference::parse(id).filter(|_| kind != DocumentKind::Entity);
            words.push(reference.map_or_else(|| id.clone(), |reference| reference.to_string()));
        }
        let found = self.ports.documents.lookup(self.project, kind, &words).await?;
        let mut missing = Vec::new();
        for ((id, word), metas) in ids.into_iter().zip(words).zip(found) {
            if let Some(meta) = unambiguous(&word, &metas) {
                targets.insert(id, LinkNode::new(meta));
            } else if metas.is_empty() {
                missing.push(id);
            }
        }
        Ok(missing)
    }

    /// Finds `section:KEY`, `KEY:INDEX` and `section:KEY:INDEX`.
    async fn section_target(self, id: &str) -> Result<Option<LinkNode>> {
        // Other texts of a front matter are not section keys, even if a section has this name.
        if !id.contains(':') || !self.kinds().contains(&DocumentKind::Section) {
            return Ok(None);
        }
        let exact = id.strip_prefix(SECTION_PREFIX);
        let (key, index) = exact.unwrap_or(id).rsplit_once(':').unwrap_or_default();
        // One lookup for both readings: the text is a key, or a key with an index.
        let words = [exact.unwrap_or_default(), key].map(str::to_owned);
        let mut found =
            self.ports.documents.lookup(self.project, DocumentKind::Section, &words).await?;
        // In reverse order, because both results are popped from the end.
        let with_key = found.pop().and_then(|mut metas| metas.pop());
        if let Some(meta) = found.pop().and_then(|mut metas| metas.pop()) {
            return Ok(Some(LinkNode::new(&meta)));
        }
        let Some(meta) = with_key else { return Ok(None) };
        let document = get_one(&*self.ports.documents, self.project, &meta.id).await?;
        let Some(text) = document.as_ref().and_then(|document| document.text().ok()) else {
            return Ok(None);
        };
        let section = Section::parse(text);
        let Some(requirement) = section.find(index) else { return Ok(None) };
        let title = requirement_title(&section.text(requirement));
        let part = Some(LinkPart { index: requirement.index.to_owned(), title });
        Ok(Some(LinkNode { part, ..LinkNode::new(&meta) }))
    }

    /// The kinds of the enabled toolsets that have links.
    pub(crate) fn kinds(self) -> Vec<DocumentKind> {
        let mut kinds = Vec::new();
        for toolset in &self.ports.settings.toolsets {
            match toolset {
                Toolset::Sections => kinds.push(DocumentKind::Section),
                Toolset::Backlog => kinds.extend(DocumentKind::ITEMS),
                Toolset::Knowledge => kinds.push(DocumentKind::Entity),
                Toolset::Docsets => {}
            }
        }
        kinds
    }
}

/// Adds the links of one document to a document that has these names.
fn add_incoming(meta: &Arc<DocumentMeta>, names: &[String], links: &mut Vec<IncomingLink>) {
    for source in &meta.mentions {
        if source.targets.iter().any(|target| names.contains(target)) {
            let source = LinkNode::of_mention(meta, source);
            links.push(IncomingLink { relation: MENTIONS.to_owned(), attribute: None, source });
        }
    }
    // The mentions of a section are added above, with their requirements.
    if !meta.mentions.is_empty() {
        return;
    }
    let first = links.len();
    for (position, (relation, target)) in meta.links().into_iter().enumerate() {
        let is_new = links[first..].iter().all(|link| link.relation != relation);
        // One source may link by id and by path.
        if is_new && names.iter().any(|name| *name == target) {
            // The links of an entity are in the same order.
            let link = meta.entity.as_ref().and_then(|entity| entity.links.get(position));
            let attribute = link.and_then(|link| link.attribute.as_deref()).map(str::to_owned);
            let source = LinkNode::new(meta);
            links.push(IncomingLink { relation: relation.to_owned(), attribute, source });
        }
    }
}

/// A link as its document stores it.
struct StoredLink {
    relation: String,
    attribute: Option<String>,
    target: String,
    /// False for a text that is a link only if its target exists.
    is_certain: bool,
}

fn stored_links(meta: &DocumentMeta, index: Option<&str>) -> Vec<StoredLink> {
    let mut links = Vec::new();
    if let Some(entity) = &meta.entity {
        for EntityLink { relation, attribute, target, is_certain } in &entity.links {
            let (relation, target) = (relation.clone(), target.clone());
            let attribute = attribute.as_deref().map(str::to_owned);
            links.push(StoredLink { relation, attribute, target, is_certain: *is_certain });
        }
        return links;
    }
    let mut add_link = |relation: &str, target: String| {
        // A word of a text may only resemble an entity's ID.
        let is_certain = Reference::parse(&target).is_some();
        let relation = relation.to_owned();
        links.push(StoredLink { relation, attribute: None, target, is_certain });
    };
    if let Some(item) = &meta.item {
        for (relation, target) in item.links() {
            add_link(relation, target);
        }
    }
    let mut mentioned: Vec<&String> = Vec::new();
    for source in &meta.mentions {
        if index.is_some() && source.index.as_deref() != index {
            continue;
        }
        for target in &source.targets {
            if !mentioned.contains(&target) {
                mentioned.push(target);
                add_link(MENTIONS, target.clone());
            }
        }
    }
    links
}

/// The document that a word names: the only one with this id, or else the one with this name.
pub(crate) fn unambiguous<'a>(
    word: &str,
    metas: &'a [Arc<DocumentMeta>],
) -> Option<&'a Arc<DocumentMeta>> {
    let mut with_id = metas.iter().filter(|meta| meta.reference().as_deref() == Some(word));
    if let (Some(meta), None) = (with_id.next(), with_id.next()) {
        return Some(meta);
    }
    metas.iter().find(|meta| meta.id.name == word)
}
