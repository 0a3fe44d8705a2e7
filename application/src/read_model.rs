//! What is made of a project's documents and kept: the knowledge graph, and the search index.
//!
//! Each call first asks the storage what changed and takes that in, so an edit by hand shows at the
//! very next call. The trap: a document may change between the question and the reading; then the
//! next question names it again, and nothing is missed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::{Document, DocumentId, Head, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::{Graph, Node};
use reqlore_domain::ports::documents::{Changes, Filter, Look, Revision};
use reqlore_domain::ports::endpoint::Observer;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::search::{self, Projection};
use tokio::sync::OwnedMutexGuard;

use crate::Ports;

/// So many documents are read and indexed at a time; between them a call can be cancelled.
const BATCH: usize = 256;
/// More changed documents than that are found faster by listing all heads.
const MANY: usize = 500;

/// The models of all projects that were asked for.
#[derive(Default)]
pub(crate) struct Models {
    projects: Mutex<HashMap<ProjectKey, Arc<tokio::sync::Mutex<Model>>>>,
}

/// One project's. Whoever holds it sees it unchanged.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) graph: Graph,
    /// Up to which revision entities are in the graph; `None` before the first look.
    entities: Option<Revision>,
    /// Up to which revision sections were looked at.
    sections: Option<Revision>,
    stale: Stale,
    /// How often the index had been emptied by a fault when it was last compared.
    losses: u64,
}

/// Which documents the index must take in.
#[derive(Default)]
enum Stale {
    /// It has to be compared with everything.
    #[default]
    Unknown,
    These(BTreeSet<DocumentId>),
}

impl Stale {
    fn add(&mut self, ids: impl IntoIterator<Item = DocumentId>) {
        if let Self::These(stale) = self {
            stale.extend(ids);
        }
    }
}

impl Models {
    /// The project's model with a graph that is true now.
    pub(crate) async fn graph(
        &self,
        ports: &Ports,
        project: &ProjectKey,
        look: Look,
    ) -> Result<OwnedMutexGuard<Model>> {
        let model = {
            let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(projects.entry(project.clone()).or_default())
        };
        let mut model = model.lock_owned().await;
        model.update_graph(ports, project, look).await?;
        Ok(model)
    }

    /// The same, and the index knows everything there is.
    pub(crate) async fn index(
        &self,
        ports: &Ports,
        project: &ProjectKey,
        look: Look,
        observer: &dyn Observer,
    ) -> Result<OwnedMutexGuard<Model>> {
        let mut model = self.graph(ports, project, look).await?;
        model.update_index(ports, project, look, observer).await?;
        Ok(model)
    }
}

impl Model {
    /// Did a fault empty the index since it was last brought up to date? Then it will be filled
    /// again.
    pub(crate) async fn index_was_lost(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
    ) -> Result<bool> {
        let losses = ports.search.losses(project).await?;
        let lost = losses != self.losses;
        if lost {
            self.losses = losses;
            self.stale = Stale::Unknown;
        }
        Ok(lost)
    }

    /// The version of every entity's document.
    pub(crate) fn entity_versions(&self) -> BTreeMap<DocumentId, Version> {
        let nodes = self.graph.nodes();
        nodes.map(|node| (DocumentId::entity(&*node.name), node.version)).collect()
    }

    async fn update_graph(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
        look: Look,
    ) -> Result<()> {
        let since = self.entities.unwrap_or_default();
        let changes = ports.documents.changes(project, Kind::Entity, since, look).await?;
        match changes {
            Changes::Since { revision, ids } if self.entities.is_some() && ids.len() <= MANY => {
                let read = read(ports, project, &ids).await;
                if read.iter().any(|read| matches!(read, Read::Fault)) {
                    // Is it there with a fault, or no document any more? The storage's list tells.
                    self.list_entities(ports, project).await?;
                } else {
                    for (id, found) in ids.iter().zip(read) {
                        match found {
                            Read::Document(document) => self.put(Head::of(&document)),
                            Read::Gone | Read::Fault => self.graph.remove(&id.name),
                        }
                    }
                }
                self.stale.add(ids);
                self.entities = Some(revision);
            }
            Changes::Since { revision, ids } => {
                self.list_entities(ports, project).await?;
                self.stale.add(ids);
                self.entities = Some(revision);
            }
            Changes::Reset { revision } => {
                self.list_entities(ports, project).await?;
                self.stale = Stale::Unknown;
                self.entities = Some(revision);
            }
        }
        Ok(())
    }

    async fn list_entities(&mut self, ports: &Ports, project: &ProjectKey) -> Result<()> {
        let page = ports.documents.find(project, &Filter::all(Kind::Entity)).await?;
        self.graph = Graph::default();
        page.heads.into_iter().for_each(|head| self.put(head));
        Ok(())
    }

    fn put(&mut self, head: Head) {
        if let Head { id, version, entity: Some(entity), fault, .. } = head {
            self.graph.put(Node { name: id.name, entity, version, fault });
        }
    }

    async fn update_index(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
        look: Look,
        observer: &dyn Observer,
    ) -> Result<()> {
        let since = self.sections.unwrap_or_default();
        match ports.documents.changes(project, Kind::Section, since, look).await? {
            Changes::Since { revision, ids } if self.sections.is_some() => {
                self.stale.add(ids);
                self.sections = Some(revision);
            }
            Changes::Since { revision, .. } | Changes::Reset { revision } => {
                self.stale = Stale::Unknown;
                self.sections = Some(revision);
            }
        }
        self.index_was_lost(ports, project).await?;
        // Who asks for a look at everything wants the index compared as well.
        if matches!(self.stale, Stale::Unknown) || look == Look::Everything {
            self.stale = Stale::These(self.compare(ports, project).await?);
        }
        let Stale::These(stale) = &mut self.stale else { return Ok(()) };
        let total = stale.len();
        let mut done = 0;
        while !stale.is_empty() {
            if observer.is_cancelled() {
                let message = "Cancelled; what was indexed until now stays.";
                return Err(Error::new(ErrorKind::Cancelled, message));
            }
            let batch: Vec<DocumentId> = stale.iter().take(BATCH).cloned().collect();
            let read = read(ports, project, &batch).await;
            let found = batch.iter().zip(read);
            let projections = found.map(|(id, read)| projection(&self.graph, id, read)).collect();
            ports.search.apply(project, projections).await?;
            done += batch.len();
            for id in &batch {
                stale.remove(id);
            }
            observer.progress(done, total, "indexed");
        }
        Ok(())
    }

    /// What the index has in another version than there is.
    async fn compare(&self, ports: &Ports, project: &ProjectKey) -> Result<BTreeSet<DocumentId>> {
        let indexed = ports.search.indexed(project).await?;
        let sections = ports.documents.find(project, &Filter::all(Kind::Section)).await?;
        let mut now = self.entity_versions();
        now.extend(sections.heads.into_iter().map(|head| (head.id, head.version)));
        let differs = now.iter().filter(|(id, version)| indexed.get(id) != Some(version));
        let mut stale: BTreeSet<DocumentId> = differs.map(|(id, _)| id.clone()).collect();
        stale.extend(indexed.into_keys().filter(|id| !now.contains_key(id)));
        Ok(stale)
    }
}

/// What became of reading one document.
enum Read {
    Document(Document),
    Gone,
    Fault,
}

/// Reads documents; one that can't be read harms no other.
async fn read(ports: &Ports, project: &ProjectKey, ids: &[DocumentId]) -> Vec<Read> {
    let as_read = |found: Option<Document>| found.map_or(Read::Gone, Read::Document);
    if let Ok(documents) = ports.documents.get(project, ids).await {
        return documents.into_iter().map(as_read).collect();
    }
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        all.push(match ports.documents.get(project, std::slice::from_ref(id)).await {
            Ok(documents) => documents.into_iter().next().map_or(Read::Gone, as_read),
            Err(_) => Read::Fault,
        });
    }
    all
}

/// What the search knows of a document.
fn projection(graph: &Graph, id: &DocumentId, read: Read) -> Projection {
    let (version, items) = match read {
        Read::Gone => (None, Vec::new()),
        Read::Fault => (Some(Version::UNREAD), Vec::new()),
        Read::Document(document) => {
            let known = graph.node(&id.name).filter(|node| node.version == document.version);
            let known = known.filter(|_| id.kind == Kind::Entity).map(|node| node.entity.clone());
            let items = search::projection::items(&document, known);
            (Some(document.version), items)
        }
    };
    Projection { document: id.clone(), version, items }
}
