//! The inventory of a project's entities, kept true.

use std::collections::BTreeSet;

use reqlore_domain::document::{DocumentId, DocumentMeta, Kind};
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::Inventory;
use reqlore_domain::ports::documents::{Changes, Filter, Refresh, Revision};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

use super::reading::{Read, read};
use crate::Ports;

/// More changed documents than that are found faster by listing all heads.
const MANY: usize = 500;
/// So many heads are listed at a time.
const PAGE: usize = 10_000;

/// All entities, and which of them the index has not heard of.
#[derive(Default)]
pub(crate) struct Entities {
    pub(crate) inventory: Inventory,
    /// Up to which revision they are in the inventory; `None` before the first look.
    revision: Option<Revision>,
    news: Stale,
}

/// Which documents the index must take in.
#[derive(Default)]
pub(super) enum Stale {
    /// It has to be compared with everything.
    #[default]
    Unknown,
    These(BTreeSet<DocumentId>),
}

impl Stale {
    pub(super) fn add(&mut self, ids: impl IntoIterator<Item = DocumentId>) {
        if let Self::These(stale) = self {
            stale.extend(ids);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        match other {
            Self::Unknown => *self = Self::Unknown,
            Self::These(ids) => self.add(ids),
        }
    }
}

impl Entities {
    /// What changed since this was last asked.
    pub(super) fn take_news(&mut self) -> Stale {
        std::mem::replace(&mut self.news, Stale::These(BTreeSet::new()))
    }

    pub(super) async fn update(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
        look: Refresh,
    ) -> Result<()> {
        let since = self.revision.unwrap_or_default();
        let changes = ports.documents.changes(project, Kind::Entity, since, look).await?;
        let revision = match changes {
            Changes::Since { revision, ids } if self.revision.is_some() && ids.len() <= MANY => {
                self.take_in(ports, project, &ids).await?;
                self.news.add(ids);
                revision
            }
            Changes::Since { revision, ids } => {
                self.list(ports, project).await?;
                self.news.add(ids);
                revision
            }
            Changes::Reset { revision } => {
                self.list(ports, project).await?;
                self.news = Stale::Unknown;
                revision
            }
        };
        self.revision = Some(revision);
        Ok(())
    }

    async fn take_in(
        &mut self,
        ports: &Ports,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> Result<()> {
        let read = read(ports, project, ids).await;
        if read.iter().any(|read| matches!(read, Read::Fault)) {
            // Is it there with a fault, or no document any more? The storage's list tells.
            return self.list(ports, project).await;
        }
        for (id, found) in ids.iter().zip(read) {
            match found {
                Read::Document(document) => {
                    self.inventory.put(&DocumentMeta::of(&document, Timestamp::default()));
                }
                Read::Gone | Read::Fault => self.inventory.remove(&id.name),
            }
        }
        Ok(())
    }

    /// Makes it anew; whoever fails on the way leaves what was there, to be listed the next time.
    async fn list(&mut self, ports: &Ports, project: &ProjectKey) -> Result<()> {
        self.revision = None;
        let mut inventory = Inventory::default();
        let mut filter = Filter { limit: Some(PAGE), ..Filter::all(Kind::Entity) };
        loop {
            let page = ports.documents.find(project, &filter).await?;
            page.heads.iter().for_each(|head| inventory.put(head));
            let Some(next) = page.next else { break };
            filter.after = Some(next);
        }
        self.inventory = inventory;
        Ok(())
    }
}
