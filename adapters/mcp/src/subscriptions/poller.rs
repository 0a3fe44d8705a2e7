//! Polls subscribed resources and notifies the client when their content changes.
//!
//! The change count is always read before the content, so the next round sees a change in between.

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

use crate::request_context::GuardedService;

/// The polling interval, which is the debounce too: several changes within it are notified once. On
/// files a poll drains inotify and costs microseconds.
const INTERVAL: Duration = Duration::from_millis(100);
/// A pause is at least this many times the round before it, so that calls keep 90 % of the CPU.
const REST: u32 = 9;

pub(super) struct ResourcePoller {
    guarded: GuardedService,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    items: BTreeMap<String, Item>,
    list: Option<Seen>,
    /// True while [`ResourcePoller::run`] is active.
    runs: bool,
}

struct Item {
    seen: Seen,
    _place: Option<OwnedSemaphorePermit>,
}

/// A digest of the content, and the change count before it was read.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    count: u64,
    digest: u64,
}

enum Change {
    Item(String),
    List,
}

/// The client's side. One message at a time: while the client does not read, further changes are
/// merged into the next round.
pub(super) enum Notifier {
    Peer(Peer<RoleServer>),
    Stream(SubscriptionSink),
}

/// The client closed the connection or the stream.
struct PeerClosed;

impl ResourcePoller {
    pub(super) fn new(guarded: GuardedService) -> Self {
        let (hasher, state) = (RandomState::new(), Mutex::default());
        Self { guarded, hasher, state }
    }

    /// The current state of a URI; an error if it cannot be read.
    pub(super) async fn inspect(&self, uri: &str) -> Result<Seen> {
        let count = self.guarded.resources_changed().await?;
        let said = self.guarded.read(uri.to_owned(), true).await?;
        Ok(Seen { count, digest: self.digest_of(said) })
    }

    pub(super) async fn inspect_list(&self) -> Result<Seen> {
        let count = self.guarded.resources_changed().await?;
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

    /// Marks everything as changed.
    pub(super) fn forget(&self) {
        self.with(|state| {
            let seen = state.items.values_mut().map(|item| &mut item.seen);
            for seen in seen.chain(state.list.as_mut()) {
                *seen = Seen { count: seen.count.wrapping_sub(1), digest: !seen.digest };
            }
        });
    }

    /// True if the caller must call [`Self::run`]: there are subscriptions and it is not running.
    pub(super) fn try_start(&self) -> bool {
        self.with(|state| state.wants_anything() && !std::mem::replace(&mut state.runs, true))
    }

    /// Notifies changes until there is no subscription or no client left.
    pub(super) async fn run(&self, notifier: &Notifier) {
        let mut rest = INTERVAL;
        loop {
            tokio::time::sleep(rest).await;
            if !self.should_continue() {
                return;
            }
            let began = Instant::now();
            let changes = self.changes().await.unwrap_or_else(|error| {
                let id = &*self.guarded.context.request_id;
                tracing::debug!(id, %error, "changes cannot be read now");
                Vec::new()
            });
            rest = INTERVAL.max(began.elapsed() * REST);
            for change in changes {
                if self.wants(&change) && notifier.notify(change).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Everything with a new digest. Content that cannot be read now is tried in the next round.
    async fn changes(&self) -> Result<Vec<Change>> {
        let count = self.guarded.resources_changed().await?;
        let (items, list) = self.with(|state| state.older_than(count));
        let mut changes = Vec::new();
        for (uri, before) in items {
            // Many small reads must not delay other tasks.
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

    /// The digest of a URI's content, or of its permanent error; a temporary error is returned.
    async fn digest(&self, uri: &str) -> Result<u64> {
        match self.guarded.read(uri.to_owned(), true).await {
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

    /// The digest of all pages of the resource list.
    async fn digest_list(&self) -> Result<u64> {
        use std::hash::Hash;
        let (mut hasher, mut cursor) = (self.hasher.build_hasher(), None);
        loop {
            let page = self.guarded.resources(cursor, true).await?;
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

    fn should_continue(&self) -> bool {
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

    /// Everything last read at another change count.
    fn older_than(&self, count: u64) -> (Vec<(String, Seen)>, Option<Seen>) {
        let items = self.items.iter().filter(|(_, item)| item.seen.count != count);
        let items = items.map(|(uri, item)| (uri.clone(), item.seen)).collect();
        (items, self.list.filter(|seen| seen.count != count))
    }
}

impl Notifier {
    async fn notify(&self, change: Change) -> Result<(), PeerClosed> {
        match (self, change) {
            (Self::Peer(peer), Change::Item(uri)) => {
                let updated = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(updated).await.map_err(|_| PeerClosed)
            }
            (Self::Peer(peer), Change::List) => {
                peer.notify_resource_list_changed().await.map_err(|_| PeerClosed)
            }
            (Self::Stream(sink), Change::Item(uri)) => {
                sink.notify_resource_updated(uri).await.map_err(|_| PeerClosed)
            }
            (Self::Stream(sink), Change::List) => {
                sink.notify_resource_list_changed().await.map_err(|_| PeerClosed)
            }
        }
    }
}
