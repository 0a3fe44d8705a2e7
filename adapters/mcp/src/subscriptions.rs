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
const SHARED: usize = 16;

/// The polling interval, which is the debounce too: several changes within it are notified once. On
/// files a poll drains inotify and costs microseconds.
const INTERVAL: Duration = Duration::from_millis(100);
/// A pause is at least this many times the round before it, so that calls keep 90 % of the CPU.
const REST: u32 = 9;

/// The subscriptions of one connection.
pub(crate) struct Subscriptions {
    /// Of the legacy era; a connection has one caller.
    poller: OnceLock<Arc<ResourcePoller>>,
    uris: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    closing: CancellationToken,
    /// Ends the poller, which must not own this.
    _closes: DropGuard,
}

/// A stream of the modern era and its permits.
pub(crate) struct Stream {
    poller: ResourcePoller,
    _permits: [OwnedSemaphorePermit; 2],
}

impl Stream {
    /// For a stream acknowledged before its resources were read: changes in between are unknown, so
    /// everything is notified once.
    pub(crate) fn notify_all(&self) {
        self.poller.forget();
    }
}

impl Subscriptions {
    pub(crate) fn new(connected: bool) -> Self {
        let closing = CancellationToken::new();
        let times = if connected { 1 } else { SHARED };
        Self {
            poller: OnceLock::new(),
            uris: Arc::new(Semaphore::new(MAX_URIS * times)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS * times)),
            _closes: closing.clone().drop_guard(),
            closing,
        }
    }

    /// Stops all notifications; streams end with their last response.
    pub(crate) fn finish(&self) {
        self.closing.cancel();
    }

    /// Legacy era: notifies changes of this URI.
    pub(crate) async fn subscribe(
        &self,
        guarded: GuardedService,
        uri: String,
        peer: &Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let failure = |error| convert::failure(error, &guarded.context, Some(&uri));
        let (poller, target) = (self.poller(&guarded), Target::Resource(uri.clone()));
        let seen = poller.inspect(&target).await.map_err(failure)?;
        if !poller.has(&target) {
            let permit = permits(&self.uris, 1).ok_or_else(|| failure(too_many_uris()))?;
            poller.add(target, seen, Some(permit));
        }
        self.start(poller, peer);
        Ok(())
    }

    /// Legacy era: stops notifications of this URI, if there are any.
    pub(crate) fn unsubscribe(&self, uri: String) {
        if let Some(poller) = self.poller.get() {
            poller.remove(&Target::Resource(uri));
        }
    }

    /// Legacy era: a client that lists resources is notified of changes of the list. If the list
    /// cannot be read, the response reports it.
    pub(crate) async fn watch_list(&self, guarded: &GuardedService, peer: &Peer<RoleServer>) {
        let poller = self.poller(guarded);
        if !poller.has(&Target::List)
            && let Ok(seen) = poller.inspect(&Target::List).await
        {
            poller.add(Target::List, seen, None);
            self.start(poller, peer);
        }
    }

    fn poller(&self, guarded: &GuardedService) -> &Arc<ResourcePoller> {
        self.poller.get_or_init(|| Arc::new(ResourcePoller::new(guarded.clone())))
    }

    fn start(&self, poller: &Arc<ResourcePoller>, peer: &Peer<RoleServer>) {
        if poller.try_start() {
            let (poller, closing) = (Arc::clone(poller), self.closing.clone());
            let notifier = Notifier::Peer(peer.clone());
            tokio::spawn(async move { closing.run_until_cancelled(poller.run(&notifier)).await });
        }
    }

    /// Modern era: reads all wanted resources before the stream is acknowledged.
    pub(crate) async fn prepare(
        &self,
        guarded: GuardedService,
        wanted: &SubscriptionFilter,
    ) -> Result<Stream, ErrorData> {
        let context = guarded.context.clone();
        let failure = |error, uri| convert::failure(error, &context, uri);
        let uris: BTreeSet<&String> = wanted.resource_subscriptions.iter().flatten().collect();
        let stream = permits(&self.streams, 1).ok_or_else(|| failure(too_many_streams(), None))?;
        let fits = uris.len() <= MAX_URIS;
        let each = fits.then(|| permits(&self.uris, uris.len())).flatten();
        let each = each.ok_or_else(|| failure(too_many_uris(), None))?;
        let poller = ResourcePoller::new(guarded);
        for uri in uris {
            let target = Target::Resource(uri.clone());
            let failed = |error| failure(error, Some(uri.as_str()));
            let seen = poller.inspect(&target).await.map_err(failed)?;
            poller.add(target, seen, None);
        }
        if wanted.resources_list_changed == Some(true) {
            let seen = poller.inspect(&Target::List).await.map_err(|error| failure(error, None))?;
            poller.add(Target::List, seen, None);
        }
        Ok(Stream { poller, _permits: [stream, each] })
    }

    /// Modern era: notifies until the client or the connection ends it. Without a stream there is
    /// nothing to poll.
    pub(crate) async fn listen(&self, stream: Option<&Stream>, context: &SubscriptionContext) {
        let notifier = Notifier::Stream(context.sink().clone());
        let notifying = async {
            if let Some(stream) = stream
                && stream.poller.try_start()
            {
                stream.poller.run(&notifier).await;
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

fn permits(of: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
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
enum Target {
    /// A resource by its URI.
    Resource(String),
    /// The list of all resources.
    List,
}

struct ResourcePoller {
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
struct Seen {
    count: u64,
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
    async fn inspect(&self, target: &Target) -> Result<Seen> {
        let count = self.guarded.resources_changed().await?;
        Ok(Seen { count, digest: self.digest(target).await? })
    }

    fn has(&self, target: &Target) -> bool {
        self.with(|state| state.items.contains_key(target))
    }

    fn add(&self, target: Target, seen: Seen, permit: Option<OwnedSemaphorePermit>) {
        self.with(|state| {
            state.items.entry(target).or_insert(Item { seen, _permit: permit });
        });
    }

    fn remove(&self, target: &Target) {
        self.with(|state| state.items.remove(target));
    }

    /// Marks everything as changed.
    fn forget(&self) {
        self.with(|state| {
            for Item { seen, .. } in state.items.values_mut() {
                *seen = Seen { count: seen.count.wrapping_sub(1), digest: !seen.digest };
            }
        });
    }

    /// True if the caller must call [`Self::run`]: there are subscriptions and it is not running.
    fn try_start(&self) -> bool {
        self.with(|state| !state.items.is_empty() && !std::mem::replace(&mut state.runs, true))
    }

    /// Notifies changes until there is no subscription or no client left.
    async fn run(&self, notifier: &Notifier) {
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
                if self.has(&target) && !notifier.notify(target).await {
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
        let ResourceContent { uri, name, description, mime_type, text } =
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
    /// False if the client closed the connection or the stream.
    async fn notify(&self, changed: Target) -> bool {
        match (self, changed) {
            (Self::Peer(peer), Target::Resource(uri)) => {
                let updated = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(updated).await.is_ok()
            }
            (Self::Peer(peer), Target::List) => peer.notify_resource_list_changed().await.is_ok(),
            (Self::Stream(sink), Target::Resource(uri)) => {
                sink.notify_resource_updated(uri).await.is_ok()
            }
            (Self::Stream(sink), Target::List) => sink.notify_resource_list_changed().await.is_ok(),
        }
    }
}
