//! Polls subscribed resources and notifies the client when their content changes.
//!
//! The change count is always read before the content, so the next round sees a change in between.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
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

/// Something to subscribe to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// A resource by its URI.
    Resource(String),
    /// The list of all resources.
    List,
}

pub(super) struct ResourcePoller {
    guarded: GuardedService,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    items: BTreeMap<Target, Item>,
    /// True while [`ResourcePoller::run`] is active.
    runs: bool,
}

struct Item {
    seen: Seen,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A digest of the content, and the change count before it was read.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    count: u64,
    digest: u64,
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
        Self { guarded, hasher: RandomState::new(), state: Mutex::default() }
    }

    /// The current state of a target; an error if it cannot be read.
    pub(super) async fn inspect(&self, target: &Target) -> Result<Seen> {
        let count = self.guarded.resources_changed().await?;
        Ok(Seen { count, digest: self.digest(target).await? })
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        self.with(|state| state.items.contains_key(target))
    }

    pub(super) fn add(&self, target: Target, seen: Seen, permit: Option<OwnedSemaphorePermit>) {
        self.with(|state| {
            state.items.entry(target).or_insert(Item { seen, _permit: permit });
        });
    }

    pub(super) fn remove(&self, target: &Target) {
        self.with(|state| state.items.remove(target));
    }

    /// Marks everything as changed.
    pub(super) fn forget(&self) {
        self.with(|state| {
            for Item { seen, .. } in state.items.values_mut() {
                *seen = Seen { count: seen.count.wrapping_sub(1), digest: !seen.digest };
            }
        });
    }

    /// True if the caller must call [`Self::run`]: there are subscriptions and it is not running.
    pub(super) fn try_start(&self) -> bool {
        self.with(|state| !state.items.is_empty() && !std::mem::replace(&mut state.runs, true))
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
            let changed = self.changed().await.unwrap_or_else(|error| {
                let id = &*self.guarded.context.request_id;
                tracing::debug!(id, %error, "changes cannot be read now");
                Vec::new()
            });
            rest = INTERVAL.max(began.elapsed() * REST);
            for target in changed {
                if self.has(&target) && notifier.notify(target).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Everything with a new digest. Content that cannot be read now is tried in the next round.
    async fn changed(&self) -> Result<Vec<Target>> {
        let count = self.guarded.resources_changed().await?;
        let mut changed = Vec::new();
        for target in self.with(|state| state.older_than(count)) {
            // Many small reads must not delay other tasks.
            tokio::task::yield_now().await;
            let Ok(digest) = self.digest_or_error(&target).await else { continue };
            let before = self.with(|state| {
                let item = state.items.get_mut(&target)?;
                Some(std::mem::replace(&mut item.seen, Seen { count, digest }))
            });
            if before.is_some_and(|before| before.digest != digest) {
                changed.push(target);
            }
        }
        Ok(changed)
    }

    /// The digest of a target, or of a resource's permanent error; a temporary error is returned.
    async fn digest_or_error(&self, target: &Target) -> Result<u64> {
        let digest = self.digest(target).await;
        match &digest {
            Ok(_) => digest,
            Err(error) => match error.kind {
                ErrorKind::Busy
                | ErrorKind::Unavailable
                | ErrorKind::Cancelled
                | ErrorKind::Internal => digest,
                _ if *target == Target::List => digest,
                kind => Ok(self.hasher.hash_one(std::mem::discriminant(&kind))),
            },
        }
    }

    async fn digest(&self, target: &Target) -> Result<u64> {
        let mut hasher = self.hasher.build_hasher();
        let Target::Resource(uri) = target else {
            let mut cursor = None;
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
        };
        let Content { uri, name, description, mime_type, text } =
            self.guarded.read(uri.clone(), true).await?;
        (uri, name, description, mime_type, text).hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn should_continue(&self) -> bool {
        self.with(|state| {
            state.runs = !state.items.is_empty();
            state.runs
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Everything last read at another change count.
    fn older_than(&self, count: u64) -> Vec<Target> {
        let older = self.items.iter().filter(|(_, item)| item.seen.count != count);
        older.map(|(target, _)| target.clone()).collect()
    }
}

impl Notifier {
    async fn notify(&self, changed: Target) -> Result<(), PeerClosed> {
        match (self, changed) {
            (Self::Peer(peer), Target::Resource(uri)) => {
                let updated = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(updated).await.map_err(|_| PeerClosed)
            }
            (Self::Peer(peer), Target::List) => {
                peer.notify_resource_list_changed().await.map_err(|_| PeerClosed)
            }
            (Self::Stream(sink), Target::Resource(uri)) => {
                sink.notify_resource_updated(uri).await.map_err(|_| PeerClosed)
            }
            (Self::Stream(sink), Target::List) => {
                sink.notify_resource_list_changed().await.map_err(|_| PeerClosed)
            }
        }
    }
}
