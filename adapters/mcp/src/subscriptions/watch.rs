//! Looks again and again at what somebody wants to hear of, and tells what says something else.
//!
//! Each thing remembers at which count of changes it was looked at. The count is always asked
//! before the look, so a change in between is seen by the next round, and a thing that is added in
//! the middle of a round needs no lock over it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::error::{ErrorKind, Result};
use reqlore_domain::ports::service::Content;
use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::guarded::Guarded;

/// How often it is asked whether anything changed. This is the debounce: what changes several times
/// in between is told once. On files the question drains a kernel watch and costs microseconds.
const INTERVAL: Duration = Duration::from_millis(100);
/// A round that took long is followed by a rest of so many times its length, so that calls keep
/// nine tenths of the processor.
const REST: u32 = 9;

pub(super) struct Watch {
    asked: Guarded,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    items: BTreeMap<String, Item>,
    list: Option<Seen>,
    /// Does somebody run this watch?
    runs: bool,
}

struct Item {
    seen: Seen,
    _place: Option<OwnedSemaphorePermit>,
}

/// What something said, and the count of changes before it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    count: u64,
    digest: u64,
}

enum Change {
    Item(String),
    List,
}

/// Whom it is told to. One message at a time: while the other side does not read, whatever else
/// changes is merged into the next round.
pub(super) enum Teller {
    Peer(Peer<RoleServer>),
    Stream(SubscriptionSink),
}

/// Nobody hears it any more.
struct Gone;

impl Watch {
    pub(super) fn new(asked: Guarded) -> Self {
        let (hasher, state) = (RandomState::new(), Mutex::default());
        Self { asked, hasher, state }
    }

    /// What a URI says now; an error where it is nothing that can be watched.
    pub(super) async fn look(&self, uri: &str) -> Result<Seen> {
        let count = self.asked.resources_changed().await?;
        let said = self.asked.read_again(uri.to_owned()).await?;
        Ok(Seen { count, digest: self.digest_of(said) })
    }

    pub(super) async fn look_at_list(&self) -> Result<Seen> {
        let count = self.asked.resources_changed().await?;
        Ok(Seen { count, digest: self.digest_list().await? })
    }

    pub(super) fn has(&self, uri: &str) -> bool {
        self.with(|state| state.items.contains_key(uri))
    }

    pub(super) fn has_list(&self) -> bool {
        self.with(|state| state.list.is_some())
    }

    pub(super) fn add(&self, uri: String, seen: Seen, place: Option<OwnedSemaphorePermit>) {
        self.with(|state| {
            state.items.entry(uri).or_insert(Item { seen, _place: place });
        });
    }

    pub(super) fn add_list(&self, seen: Seen) {
        self.with(|state| *state.list.get_or_insert(seen));
    }

    pub(super) fn remove(&self, uri: &str) {
        self.with(|state| state.items.remove(uri));
    }

    /// Takes everything for changed.
    pub(super) fn forget(&self) {
        self.with(|state| {
            let seen = state.items.values_mut().map(|item| &mut item.seen);
            for seen in seen.chain(state.list.as_mut()) {
                *seen = Seen { count: seen.count.wrapping_sub(1), digest: !seen.digest };
            }
        });
    }

    /// Must somebody begin to run this? True once until there is nothing to watch.
    pub(super) fn starts(&self) -> bool {
        self.with(|state| state.wants_anything() && !std::mem::replace(&mut state.runs, true))
    }

    /// Tells what changes as long as there is something to watch and somebody to hear it.
    pub(super) async fn run(&self, teller: &Teller) {
        let mut rest = INTERVAL;
        loop {
            tokio::time::sleep(rest).await;
            if !self.goes_on() {
                return;
            }
            let began = Instant::now();
            let changes = self.changes().await.unwrap_or_else(|error| {
                let id = &*self.asked.asker.request_id;
                tracing::debug!(id, %error, "what changed can't be told now");
                Vec::new()
            });
            rest = INTERVAL.max(began.elapsed() * REST);
            for change in changes {
                if self.wants(&change) && teller.tell(change).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Everything that says something else than before. What can't be looked at now is looked at
    /// again in the next round.
    async fn changes(&self) -> Result<Vec<Change>> {
        let count = self.asked.resources_changed().await?;
        let (items, list) = self.with(|state| state.older_than(count));
        let mut changes = Vec::new();
        for (uri, before) in items {
            // Many small reads may not let others wait.
            tokio::task::yield_now().await;
            let Ok(digest) = self.digest(&uri).await else { continue };
            let wanted = self.with(|state| {
                let item = state.items.get_mut(&uri);
                item.map(|item| item.seen = Seen { count, digest }).is_some()
            });
            if wanted && digest != before.digest {
                changes.push(Change::Item(uri));
            }
        }
        if let Some(before) = list
            && let Ok(digest) = self.digest_list().await
        {
            self.with(|state| state.list = Some(Seen { count, digest }));
            if digest != before.digest {
                changes.push(Change::List);
            }
        }
        Ok(changes)
    }

    /// What a URI says, as a number. That it is not there, or can't be used, is an answer as well;
    /// only what may pass is an error.
    async fn digest(&self, uri: &str) -> Result<u64> {
        match self.asked.read_again(uri.to_owned()).await {
            Ok(said) => Ok(self.digest_of(said)),
            Err(error) => match error.kind {
                ErrorKind::Busy
                | ErrorKind::Unavailable
                | ErrorKind::Cancelled
                | ErrorKind::Internal => Err(error),
                kind => Ok(self.hasher.hash_one(std::mem::discriminant(&kind))),
            },
        }
    }

    fn digest_of(&self, said: Content) -> u64 {
        let Content { uri, name, description, mime_type, text } = said;
        self.hasher.hash_one((uri, name, description, mime_type, text))
    }

    /// What the list of resources says, all pages of it.
    async fn digest_list(&self) -> Result<u64> {
        use std::hash::Hash;
        let (mut hasher, mut cursor) = (self.hasher.build_hasher(), None);
        loop {
            let page = self.asked.resources(cursor, true).await?;
            for resource in &page.resources {
                (&resource.uri, &resource.title).hash(&mut hasher);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(hasher.finish());
            }
            tokio::task::yield_now().await;
        }
    }

    fn goes_on(&self) -> bool {
        self.with(|state| {
            state.runs = state.wants_anything();
            state.runs
        })
    }

    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Item(uri) => self.has(uri),
            Change::List => self.has_list(),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn wants_anything(&self) -> bool {
        self.list.is_some() || !self.items.is_empty()
    }

    /// What was not looked at since.
    fn older_than(&self, count: u64) -> (Vec<(String, Seen)>, Option<Seen>) {
        let items = self.items.iter().filter(|(_, item)| item.seen.count != count);
        let items = items.map(|(uri, item)| (uri.clone(), item.seen)).collect();
        (items, self.list.filter(|seen| seen.count != count))
    }
}

impl Teller {
    async fn tell(&self, change: Change) -> Result<(), Gone> {
        match (self, change) {
            (Self::Peer(peer), Change::Item(uri)) => {
                let updated = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(updated).await.map_err(|_| Gone)
            }
            (Self::Peer(peer), Change::List) => {
                peer.notify_resource_list_changed().await.map_err(|_| Gone)
            }
            (Self::Stream(sink), Change::Item(uri)) => {
                sink.notify_resource_updated(uri).await.map_err(|_| Gone)
            }
            (Self::Stream(sink), Change::List) => {
                sink.notify_resource_list_changed().await.map_err(|_| Gone)
            }
        }
    }
}
