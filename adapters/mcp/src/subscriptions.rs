//! Subscriptions: `resources/subscribe` and the resource list in the legacy era, one stream per
//! `subscriptions/listen` since 2026-07-28.
//!
//! A poller runs only while it has subscribers, and ends with the connection. Resources are read
//! before a subscription is confirmed, and change counts before contents: no change is missed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::ResourceContent;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::convert;
use crate::request_context::GuardedService;

/// Maximum URIs that one connection may subscribe to.
const MAX_URIS: usize = 1000;
/// Maximum open `subscriptions/listen` of one connection.
const MAX_STREAMS: usize = 32;
/// Over HTTP all callers together have the limits of this many connections; the transport limits
/// each caller.
const SHARED_CONNECTIONS: usize = 16;

/// The polling interval, which is the debounce too: several changes within it are notified once. On
/// files a poll drains inotify and costs microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A pause is at least this many times the round before it, so that calls keep 90 % of the CPU.
const PAUSE_FACTOR: u32 = 9;

/// The subscriptions of one connection.
pub(crate) struct Subscriptions {
    /// Of the legacy era; a connection has one caller.
    legacy_poller: OnceLock<Arc<ResourcePoller>>,
    uri_permits: Arc<Semaphore>,
    stream_permits: Arc<Semaphore>,
    closing: CancellationToken,
    /// Ends the poller, which must not own this.
    _closes: DropGuard,
}

/// A stream of the modern era and its permits.
pub(crate) struct SubscriptionStream {
    poller: ResourcePoller,
    _permits: [OwnedSemaphorePermit; 2],
}

impl SubscriptionStream {
    /// For a stream acknowledged before its resources were read: changes in between are unknown, so
    /// everything is notified once.
    pub(crate) fn notify_all(&self) {
        self.poller.mark_all_changed();
    }
}

impl Subscriptions {
    pub(crate) fn new(connected: bool) -> Self {
        let closing = CancellationToken::new();
        let times = if connected { 1 } else { SHARED_CONNECTIONS };
        Self {
            legacy_poller: OnceLock::new(),
            uri_permits: Arc::new(Semaphore::new(MAX_URIS * times)),
            stream_permits: Arc::new(Semaphore::new(MAX_STREAMS * times)),
            _closes: closing.clone().drop_guard(),
            closing,
        }
    }

    /// Stops all notifications; streams end with their last response.
    pub(crate) fn end_all(&self) {
        self.closing.cancel();
    }

    /// Legacy era: notifies changes of this URI.
    pub(crate) async fn subscribe(
        &self,
        guarded: GuardedService,
        uri: String,
        peer: &Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let failure = |error| convert::request_error(error, &guarded.context, Some(&uri));
        let (poller, target) =
            (self.init_poller(&guarded), SubscriptionTarget::Resource(uri.clone()));
        let seen = poller.take_snapshot(&target).await.map_err(failure)?;
        if !poller.contains(&target) {
            let permit =
                try_acquire(&self.uri_permits, 1).ok_or_else(|| failure(too_many_uris()))?;
            poller.add(target, seen, Some(permit));
        }
        self.start_poller(poller, peer);
        Ok(())
    }

    /// Legacy era: stops notifications of this URI, if there are any.
    pub(crate) fn unsubscribe(&self, uri: String) {
        if let Some(poller) = self.legacy_poller.get() {
            poller.remove(&SubscriptionTarget::Resource(uri));
        }
    }

    /// Legacy era: a client that lists resources is notified of changes of the list. If the list
    /// cannot be read, the response reports it.
    pub(crate) async fn watch_list(&self, guarded: &GuardedService, peer: &Peer<RoleServer>) {
        let poller = self.init_poller(guarded);
        if !poller.contains(&SubscriptionTarget::List)
            && let Ok(seen) = poller.take_snapshot(&SubscriptionTarget::List).await
        {
            poller.add(SubscriptionTarget::List, seen, None);
            self.start_poller(poller, peer);
        }
    }

    fn init_poller(&self, guarded: &GuardedService) -> &Arc<ResourcePoller> {
        self.legacy_poller.get_or_init(|| Arc::new(ResourcePoller::new(guarded.clone())))
    }

    fn start_poller(&self, poller: &Arc<ResourcePoller>, peer: &Peer<RoleServer>) {
        if poller.try_start() {
            let (poller, closing) = (Arc::clone(poller), self.closing.clone());
            let notifier = Notifier::Peer(peer.clone());
            tokio::spawn(async move {
                closing.run_until_cancelled(poller.run_until_closed(&notifier)).await
            });
        }
    }

    /// Modern era: reads all wanted resources before the stream is acknowledged.
    pub(crate) async fn open_stream(
        &self,
        guarded: GuardedService,
        wanted: &SubscriptionFilter,
    ) -> Result<SubscriptionStream, ErrorData> {
        let context = guarded.context.clone();
        let failure = |error, uri| convert::request_error(error, &context, uri);
        let uris: BTreeSet<&String> = wanted.resource_subscriptions.iter().flatten().collect();
        let stream = try_acquire(&self.stream_permits, 1)
            .ok_or_else(|| failure(too_many_streams(), None))?;
        let fits = uris.len() <= MAX_URIS;
        let each = fits.then(|| try_acquire(&self.uri_permits, uris.len())).flatten();
        let each = each.ok_or_else(|| failure(too_many_uris(), None))?;
        let poller = ResourcePoller::new(guarded);
        for uri in uris {
            let target = SubscriptionTarget::Resource(uri.clone());
            let failed = |error| failure(error, Some(uri.as_str()));
            let seen = poller.take_snapshot(&target).await.map_err(failed)?;
            poller.add(target, seen, None);
        }
        if wanted.resources_list_changed == Some(true) {
            let seen = poller
                .take_snapshot(&SubscriptionTarget::List)
                .await
                .map_err(|error| failure(error, None))?;
            poller.add(SubscriptionTarget::List, seen, None);
        }
        Ok(SubscriptionStream { poller, _permits: [stream, each] })
    }

    /// Modern era: notifies until the client or the connection ends it. Without a stream there is
    /// nothing to poll.
    pub(crate) async fn serve_stream(
        &self,
        stream: Option<&SubscriptionStream>,
        context: &SubscriptionContext,
    ) {
        let notifier = Notifier::Stream(context.sink().clone());
        let notifying = async {
            if let Some(stream) = stream
                && stream.poller.try_start()
            {
                stream.poller.run_until_closed(&notifier).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = context.cancelled() => {}
            () = notifying => {}
        }
    }
}

fn try_acquire(of: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
    let count = u32::try_from(count).ok()?;
    Arc::clone(of).try_acquire_many_owned(count).ok()
}

fn too_many_uris() -> Error {
    let message = format!(
        "A connection may be subscribed to at most {MAX_URIS} URIs. Give up some, or subscribe to \
         the changes of the list."
    );
    Error::new(ErrorKind::Refused, message)
}

fn too_many_streams() -> Error {
    let message = format!(
        "A connection may keep at most {MAX_STREAMS} subscriptions/listen open. Cancel one, or ask \
         for all URIs in one."
    );
    Error::new(ErrorKind::Refused, message)
}

/// Something to subscribe to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SubscriptionTarget {
    /// A resource by its URI.
    Resource(String),
    /// The list of all resources.
    List,
}

struct ResourcePoller {
    guarded: GuardedService,
    hasher: RandomState,
    state: Mutex<PollerState>,
}

#[derive(Default)]
struct PollerState {
    targets: BTreeMap<SubscriptionTarget, PolledTarget>,
    /// True while [`ResourcePoller::run`] is active.
    is_running: bool,
}

struct PolledTarget {
    snapshot: ContentSnapshot,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A digest of the content, and the change count before it was read.
#[derive(Clone, Copy)]
struct ContentSnapshot {
    revision: u64,
    digest: u64,
}

/// The client's side. One message at a time: while the client does not read, further changes are
/// merged into the next round.
enum Notifier {
    Peer(Peer<RoleServer>),
    Stream(SubscriptionSink),
}

impl ResourcePoller {
    fn new(guarded: GuardedService) -> Self {
        Self { guarded, hasher: RandomState::new(), state: Mutex::default() }
    }

    /// The current state of a target; an error if it cannot be read.
    async fn take_snapshot(&self, target: &SubscriptionTarget) -> Result<ContentSnapshot> {
        let count = self.guarded.resources_revision().await?;
        Ok(ContentSnapshot { revision: count, digest: self.compute_digest(target).await? })
    }

    fn contains(&self, target: &SubscriptionTarget) -> bool {
        self.with_state(|state| state.targets.contains_key(target))
    }

    fn add(
        &self,
        target: SubscriptionTarget,
        seen: ContentSnapshot,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        self.with_state(|state| {
            state.targets.entry(target).or_insert(PolledTarget { snapshot: seen, _permit: permit });
        });
    }

    fn remove(&self, target: &SubscriptionTarget) {
        self.with_state(|state| state.targets.remove(target));
    }

    /// Marks everything as changed.
    fn mark_all_changed(&self) {
        self.with_state(|state| {
            for PolledTarget { snapshot: seen, .. } in state.targets.values_mut() {
                *seen = ContentSnapshot {
                    revision: seen.revision.wrapping_sub(1),
                    digest: !seen.digest,
                };
            }
        });
    }

    /// True if the caller must call [`Self::run`]: there are subscriptions and it is not running.
    fn try_start(&self) -> bool {
        self.with_state(|state| {
            !state.targets.is_empty() && !std::mem::replace(&mut state.is_running, true)
        })
    }

    /// Notifies changes until there is no subscription or no client left.
    async fn run_until_closed(&self, notifier: &Notifier) {
        let mut rest = POLL_INTERVAL;
        loop {
            tokio::time::sleep(rest).await;
            if !self.should_continue() {
                return;
            }
            let began = Instant::now();
            let changed = self.find_changes().await.unwrap_or_else(|error| {
                let id = &*self.guarded.context.request_id;
                tracing::debug!(id, %error, "changes cannot be read now");
                Vec::new()
            });
            rest = POLL_INTERVAL.max(began.elapsed() * PAUSE_FACTOR);
            for target in changed {
                if self.contains(&target) && !notifier.notify_changed(target).await {
                    return;
                }
            }
        }
    }

    /// Everything with a new digest. Content that cannot be read now is tried in the next round.
    async fn find_changes(&self) -> Result<Vec<SubscriptionTarget>> {
        let count = self.guarded.resources_revision().await?;
        let mut changed = Vec::new();
        for target in self.with_state(|state| state.targets_not_at(count)) {
            // Many small reads must not delay other tasks.
            tokio::task::yield_now().await;
            let Ok(digest) = self.digest_or_error(&target).await else { continue };
            let before = self.with_state(|state| {
                let item = state.targets.get_mut(&target)?;
                Some(std::mem::replace(
                    &mut item.snapshot,
                    ContentSnapshot { revision: count, digest },
                ))
            });
            if before.is_some_and(|before| before.digest != digest) {
                changed.push(target);
            }
        }
        Ok(changed)
    }

    /// The digest of a target, or of a resource's permanent error; a temporary error is returned.
    async fn digest_or_error(&self, target: &SubscriptionTarget) -> Result<u64> {
        let digest = self.compute_digest(target).await;
        match &digest {
            Ok(_) => digest,
            Err(error) => match error.kind {
                ErrorKind::Busy
                | ErrorKind::Unavailable
                | ErrorKind::Cancelled
                | ErrorKind::Internal => digest,
                _ if *target == SubscriptionTarget::List => digest,
                kind => Ok(self.hasher.hash_one(std::mem::discriminant(&kind))),
            },
        }
    }

    async fn compute_digest(&self, target: &SubscriptionTarget) -> Result<u64> {
        let mut hasher = self.hasher.build_hasher();
        let SubscriptionTarget::Resource(uri) = target else {
            let mut cursor = None;
            loop {
                let page = self.guarded.list_resources(cursor, true).await?;
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
        let ResourceContent { uri, name, description, mime_type, text } =
            self.guarded.read_resource(uri.clone(), true).await?;
        (uri, name, description, mime_type, text).hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn should_continue(&self) -> bool {
        self.with_state(|state| {
            state.is_running = !state.targets.is_empty();
            state.is_running
        })
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut PollerState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PollerState {
    /// Everything last read at another change count.
    fn targets_not_at(&self, count: u64) -> Vec<SubscriptionTarget> {
        let older = self.targets.iter().filter(|(_, item)| item.snapshot.revision != count);
        older.map(|(target, _)| target.clone()).collect()
    }
}

impl Notifier {
    /// False if the client closed the connection or the stream.
    async fn notify_changed(&self, changed: SubscriptionTarget) -> bool {
        match (self, changed) {
            (Self::Peer(peer), SubscriptionTarget::Resource(uri)) => {
                let updated = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(updated).await.is_ok()
            }
            (Self::Peer(peer), SubscriptionTarget::List) => {
                peer.notify_resource_list_changed().await.is_ok()
            }
            (Self::Stream(sink), SubscriptionTarget::Resource(uri)) => {
                sink.notify_resource_updated(uri).await.is_ok()
            }
            (Self::Stream(sink), SubscriptionTarget::List) => {
                sink.notify_resource_list_changed().await.is_ok()
            }
        }
    }
}
