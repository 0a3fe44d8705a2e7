//! The search index of a project, kept true.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, Head, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Changes, Filter, Look, Revision};
use reqlore_domain::ports::endpoint::Observer;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::search::{self, Projection};

use super::entities::{Entities, Stale};
use super::reading::{Read, read};
use crate::Ports;

/// So many documents are read and indexed at a time; between them a call can be cancelled, and
/// others see the inventory.
const BATCH: usize = 256;

/// What the index must still take in.
#[derive(Default)]
pub(super) struct Index {
    /// Up to which revision sections were looked at.
    sections: Option<Revision>,
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

    pub(super) async fn update(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
        entities: &tokio::sync::Mutex<Entities>,
        look: Look,
        observer: &dyn Observer,
    ) -> Result<()> {
        {
            let mut entities = entities.lock().await;
            entities.update(ports, project, look).await?;
            self.stale.merge(entities.take_news());
        }
        let since = self.sections.unwrap_or_default();
        let changes = ports.documents.changes(project, Kind::Section, since, look).await?;
        match changes {
            Changes::Since { revision, ids } if self.sections.is_some() => {
                self.stale.add(ids);
                self.sections = Some(revision);
            }
            Changes::Since { revision, .. } | Changes::Reset { revision } => {
                self.stale = Stale::Unknown;
                self.sections = Some(revision);
            }
        }
        self.was_lost(ports, project).await?;
        // Who asks for a look at everything wants the index compared as well.
        if matches!(self.stale, Stale::Unknown) || look == Look::Everything {
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
    let sections = ports.documents.find(project, &Filter::all(Kind::Section)).await?;
    let mut now = entities.lock().await.inventory.versions();
    now.extend(sections.heads.iter().map(|head| (head.id.clone(), head.version)));
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
) -> Result<Vec<Option<Arc<Head>>>> {
    let words: Vec<String> = ids.iter().map(|id| id.name.clone()).collect();
    let named = ports.documents.named(project, Kind::Entity, &words).await?;
    let own = |(id, heads): (&DocumentId, Vec<Arc<Head>>)| heads.into_iter().find(|h| h.id == *id);
    Ok(ids.iter().zip(named).map(own).collect())
}

/// What the search knows of a document.
fn projection(head: Option<Arc<Head>>, id: &DocumentId, read: Read) -> Projection {
    let (version, items) = match read {
        Read::Gone => (None, Vec::new()),
        Read::Fault => (Some(Version::UNREAD), Vec::new()),
        Read::Document(document) => {
            let head = head.filter(|head| head.version == document.version);
            let known = head.and_then(|head| head.entity.as_deref().cloned());
            let items = search::projection::items(&document, known);
            (Some(document.version), items)
        }
    };
    Projection { document: id.clone(), version, items }
}
