//! The search index of a project, kept true.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Changes, Filter, Refresh, Revision};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::search::{self, Projection};

use super::entities::{Entities, Stale};
use super::reading::{Read, read};
use crate::Ports;

/// So many documents are read and indexed at a time; between them a call can be cancelled, and
/// others see the inventory.
const BATCH: usize = 256;

/// What is searched beside entities, of which the inventory knows.
const LISTED: [Kind; 5] = {
    let [epics, stories, requirements, criteria] = Kind::ITEMS;
    [Kind::Section, epics, stories, requirements, criteria]
};

/// What the index must still take in.
#[derive(Default)]
pub(super) struct Index {
    /// Up to which revision documents of each of [`LISTED`] were looked at.
    revisions: HashMap<Kind, Revision>,
    stale: Stale,
    /// How often the index had been emptied by a fault when it was last compared.
    losses: u64,
}

impl Index {
    pub(super) async fn was_lost(&mut self, ports: &Ports, project: &ProjectKey) -> Result<bool> {
        let losses = ports.search.losses(project).await?;
        let lost = losses != self.losses;
        if lost {
            self.losses = losses;
            self.stale = Stale::Unknown;
        }
        Ok(lost)
    }

    /// Notes what changed among the documents of a kind.
    async fn look_at(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
        kind: Kind,
        look: Refresh,
    ) -> Result<()> {
        let known = self.revisions.get(&kind).copied();
        let since = known.unwrap_or_default();
        match ports.documents.changes(project, kind, since, look).await? {
            Changes::Since { revision, ids } if known.is_some() => {
                self.stale.add(ids);
                self.revisions.insert(kind, revision);
            }
            Changes::Since { revision, .. } | Changes::Reset { revision } => {
                self.stale = Stale::Unknown;
                self.revisions.insert(kind, revision);
            }
        }
        Ok(())
    }

    pub(super) async fn update(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
        entities: &tokio::sync::Mutex<Entities>,
        look: Refresh,
        observer: &dyn ProgressSink,
    ) -> Result<()> {
        {
            let mut entities = entities.lock().await;
            entities.update(ports, project, look).await?;
            self.stale.merge(entities.take_news());
        }
        for kind in LISTED {
            self.look_at(ports, project, kind, look).await?;
        }
        self.was_lost(ports, project).await?;
        // Who asks for a look at everything wants the index compared as well.
        if matches!(self.stale, Stale::Unknown) || look == Refresh::Full {
            self.stale = Stale::These(compare(ports, project, entities).await?);
        }
        let Stale::These(stale) = &mut self.stale else { return Ok(()) };
        let total = stale.len();
        while !stale.is_empty() {
            if observer.is_cancelled() {
                let message = "Cancelled; what was indexed until now stays.";
                return Err(Error::new(ErrorKind::Cancelled, message));
            }
            let batch: Vec<DocumentId> = stale.iter().take(BATCH).cloned().collect();
            let read = read(ports, project, &batch).await;
            let known = heads(ports, project, &batch).await?;
            let found = batch.iter().zip(read).zip(known);
            let projections = found.map(|((id, read), head)| projection(head, id, read)).collect();
            ports.search.apply(project, projections).await?;
            for id in &batch {
                stale.remove(id);
            }
            observer.progress(total - stale.len(), total, "indexed");
        }
        Ok(())
    }
}

/// What the index has in another version than there is.
async fn compare(
    ports: &Ports,
    project: &ProjectKey,
    entities: &tokio::sync::Mutex<Entities>,
) -> Result<BTreeSet<DocumentId>> {
    let indexed = ports.search.indexed(project).await?;
    let mut now = entities.lock().await.inventory.versions();
    for kind in LISTED {
        let listed = ports.documents.find(project, &Filter::all(kind)).await?;
        now.extend(listed.heads.iter().map(|head| (head.id.clone(), head.version)));
    }
    let differs = now.iter().filter(|(id, version)| indexed.get(id) != Some(version));
    let mut stale: BTreeSet<DocumentId> = differs.map(|(id, _)| id.clone()).collect();
    stale.extend(indexed.into_keys().filter(|id| !now.contains_key(id)));
    Ok(stale)
}

/// The heads of entities, where the storage has one: they are not read a second time.
async fn heads(
    ports: &Ports,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Arc<DocumentMeta>>>> {
    let entities = ids.iter().filter(|id| id.kind == Kind::Entity);
    let words: Vec<String> = entities.map(|id| id.name.clone()).collect();
    if words.is_empty() {
        return Ok(vec![None; ids.len()]);
    }
    let mut named = ports.documents.lookup(project, Kind::Entity, &words).await?.into_iter();
    let own = |id: &DocumentId| {
        let heads = if id.kind == Kind::Entity { named.next() } else { None };
        heads?.into_iter().find(|head| head.id == *id)
    };
    Ok(ids.iter().map(own).collect())
}

/// What the search knows of a document.
fn projection(head: Option<Arc<DocumentMeta>>, id: &DocumentId, read: Read) -> Projection {
    let (version, items) = match read {
        Read::Gone => (None, Vec::new()),
        Read::Fault => (Some(Version::UNREAD), Vec::new()),
        Read::Document(document) => {
            let head = head.filter(|head| head.version == document.version);
            let known = head.and_then(|head| head.entity.as_deref().cloned());
            let items = search::items(&document, known);
            (Some(document.version), items)
        }
    };
    Projection { document: id.clone(), version, items }
}
