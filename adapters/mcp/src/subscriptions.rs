//! Subscriptions: `resources/subscribe` and the resource list in the legacy era, one stream per
//! `subscriptions/listen` since 2026-07-28.
//!
//! A poller runs only while it has subscribers, and ends with the connection. Resources are read
//! before a subscription is confirmed, and the revision before the content: no change is missed.

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
use crate::tool_list_poller::ToolListPoller;

/// Maximum URIs that one connection may subscribe to.
const MAX_URIS: usize = 1000;
/// Maximum open `subscriptions/listen` streams of one connection.
const MAX_STREAMS: usize = 32;
/// Over HTTP all callers share the limits of this many connections; the transport limits each
/// caller.
const SHARED_CONNECTIONS: usize = 16;

/// Polling interval and debounce: several changes within it cause one notification. On files a
/// poll drains inotify and costs microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum pause as a multiple of the last round, so that calls keep 90 % of the CPU.
const PAUSE_FACTOR: u32 = 9;

/// Subscriptions of one connection.
pub(crate) struct Subscriptions {
    /// Legacy era only: there, a connection has one caller.
    legacy_poller: OnceLock<Arc<ResourcePoller>>,
    uri_permits: Arc<Semaphore>,
    stream_permits: Arc<Semaphore>,
    closing: CancellationToken,
    /// Ends the poller, which must not own this guard.
    _closes: DropGuard,
}

/// Stream of the modern era with its permits.
pub(crate) struct SubscriptionStream {
    poller: ResourcePoller,
    /// `None` if the client did not subscribe to changes of the tool list.
    tools: Option<ToolListPoller>,
    _permits: [OwnedSemaphorePermit; 2],
}

impl Subscriptions {
    pub(crate) fn new(connected: bool) -> Self {
        let closing = CancellationToken::new();
        let times = if connected { 1 } else { SHARED_CONNECTIONS };
        Self {
            legacy_poller: OnceLock::new(),
            uri_permits: Arc::new(Semaphore::new(MAX_URIS * times)),
            stream_permits: Arc::new(Semaphore::new(MAX_STREAMS * times)),
            // The last clone of the server ends the poller.
            _closes: closing.clone().drop_guard(),
            closing,
        }
    }

    /// Stops all notifications; each stream gets its last response.
    pub(crate) fn end_all(&self) {
        self.closing.cancel();
    }

    /// Legacy era: notifies changes of this URI. Fails if the resource cannot be read.
    pub(crate) async fn subscribe(
        &self,
        guarded: GuardedService,
        uri: String,
        peer: &Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let poller = self.init_poller(&guarded);
        match self.add_uri(poller, &uri).await {
            Ok(()) => {
                self.start_poller(poller, peer);
                Ok(())
            }
            Err(error) => Err(convert::request_error(
                error,
                &guarded.context,
                "resources/subscribe",
                Some(&uri),
            )),
        }
    }

    async fn add_uri(&self, poller: &ResourcePoller, uri: &str) -> Result<()> {
        let target = SubscriptionTarget::Resource(uri.to_owned());
        // Read before the permit, so that an unreadable URI takes no permit.
        let snapshot = poller.take_snapshot(&target).await?;
        // A second subscription to the same URI needs no permit.
        if !poller.contains(&target) {
            let permit = try_acquire(&self.uri_permits, 1).ok_or_else(too_many_uris)?;
            poller.add(target, snapshot, Some(permit));
        }
        Ok(())
    }

    /// Legacy era: stops notifications of this URI, if there are any.
    pub(crate) fn unsubscribe(&self, uri: String) {
        if let Some(poller) = self.legacy_poller.get() {
            poller.remove(&SubscriptionTarget::Resource(uri));
        }
    }

    /// Legacy era: subscribes a client that lists resources to changes of the list. An unreadable
    /// list is ignored here, because the response to the client reports it.
    pub(crate) async fn watch_list(&self, guarded: &GuardedService, peer: &Peer<RoleServer>) {
        let poller = self.init_poller(guarded);
        if !poller.contains(&SubscriptionTarget::List)
            && let Ok(snapshot) = poller.take_snapshot(&SubscriptionTarget::List).await
        {
            // Without a permit: a connection has one list.
            poller.add(SubscriptionTarget::List, snapshot, None);
            self.start_poller(poller, peer);
        }
    }

    fn init_poller(&self, guarded: &GuardedService) -> &Arc<ResourcePoller> {
        self.legacy_poller.get_or_init(|| Arc::new(ResourcePoller::new(guarded.clone())))
    }

    fn start_poller(&self, poller: &Arc<ResourcePoller>, peer: &Peer<RoleServer>) {
        // At most one poller runs for a connection.
        if poller.try_start() {
            let (poller, notifier) = (Arc::clone(poller), Notifier::Peer(peer.clone()));
            self.spawn(async move { poller.run_until_closed(&notifier).await });
        }
    }

    /// Runs until the connection ends.
    pub(crate) fn spawn(&self, notifying: impl Future<Output = ()> + Send + 'static) {
        let closing = self.closing.clone();
        tokio::spawn(async move { closing.run_until_cancelled(notifying).await });
    }

    /// Modern era: reads all requested resources before the stream is acknowledged.
    pub(crate) async fn open_stream(
        &self,
        guarded: GuardedService,
        requested: &SubscriptionFilter,
    ) -> Result<SubscriptionStream, ErrorData> {
        const LISTEN: &str = "subscriptions/listen";
        let context = guarded.context.clone();
        // A set, because a URI that is listed twice needs one permit and one read.
        let uris: BTreeSet<&String> = requested.resource_subscriptions.iter().flatten().collect();
        let permits = match self.acquire_stream(uris.len()) {
            Ok(permits) => permits,
            Err(error) => return Err(convert::request_error(error, &context, LISTEN, None)),
        };
        let poller = ResourcePoller::new(guarded);
        let mut targets: Vec<_> =
            uris.into_iter().map(|uri| SubscriptionTarget::Resource(uri.clone())).collect();
        if requested.resources_list_changed == Some(true) {
            targets.push(SubscriptionTarget::List);
        }
        for target in targets {
            match poller.take_snapshot(&target).await {
                Ok(snapshot) => poller.add(target, snapshot, None),
                Err(error) => {
                    return Err(convert::request_error(error, &context, LISTEN, target.uri()));
                }
            }
        }
        let mut tools = None;
        if requested.tools_list_changed == Some(true) {
            let schemas = poller.guarded.tool_schemas().await;
            let schemas =
                schemas.map_err(|error| convert::request_error(error, &context, LISTEN, None))?;
            let listed = ToolListPoller::default();
            listed.record_listed(schemas);
            tools = Some(listed);
        }
        Ok(SubscriptionStream { poller, tools, _permits: permits })
    }

    /// Returns the permits of one stream with this many URIs.
    fn acquire_stream(&self, uri_count: usize) -> Result<[OwnedSemaphorePermit; 2]> {
        // Never waits: permits become free only when another stream ends.
        let stream = try_acquire(&self.stream_permits, 1).ok_or_else(too_many_streams)?;
        // Over HTTP the semaphore has permits for several connections, so it alone is no limit.
        if uri_count > MAX_URIS {
            return Err(too_many_uris());
        }
        let uris = try_acquire(&self.uri_permits, uri_count).ok_or_else(too_many_uris)?;
        Ok([stream, uris])
    }

    /// Modern era: sends notifications until the client or the connection ends the stream. Without
    /// a stream it only waits for that end.
    pub(crate) async fn serve_stream(
        &self,
        stream: Option<&SubscriptionStream>,
        context: &SubscriptionContext,
    ) {
        let sink = context.sink();
        let notifier = Notifier::Stream(sink.clone());
        let notifying = async {
            if let Some(SubscriptionStream { poller, tools, .. }) = stream {
                let watching = async {
                    if let Some(tools) = tools {
                        let notify = || async { sink.notify_tool_list_changed().await.is_ok() };
                        tools.run(|| Some(poller.guarded.clone()), notify).await;
                    }
                };
                let polling = async {
                    if poller.try_start() {
                        poller.run_until_closed(&notifier).await;
                    }
                };
                tokio::join!(watching, polling);
            }
            // The stream stays open, also if there is nothing to poll.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = context.cancelled() => {}
            () = notifying => {}
        }
    }
}

fn try_acquire(semaphore: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
    let count = u32::try_from(count).ok()?;
    Arc::clone(semaphore).try_acquire_many_owned(count).ok()
}

fn too_many_uris() -> Error {
    let message = format!(
        "subscriptions: a connection may have at most {MAX_URIS} URIs; unsubscribe from some, or \
         subscribe to the list"
    );
    Error::new(ErrorKind::Refused, message)
}

fn too_many_streams() -> Error {
    let message = format!(
        "subscriptions/listen: a connection may have at most {MAX_STREAMS} streams; cancel one, \
         or send all URIs in one"
    );
    Error::new(ErrorKind::Refused, message)
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SubscriptionTarget {
    /// A resource by its URI.
    Resource(String),
    /// The list of all resources.
    List,
}

impl SubscriptionTarget {
    fn uri(&self) -> Option<&str> {
        match self {
            Self::Resource(uri) => Some(uri),
            Self::List => None,
        }
    }
}

struct ResourcePoller {
    guarded: GuardedService,
    hasher: RandomState,
    state: Mutex<PollerState>,
}

#[derive(Default)]
struct PollerState {
    targets: BTreeMap<SubscriptionTarget, PolledTarget>,
    /// True while [`ResourcePoller::run_until_closed`] is active.
    is_running: bool,
}

struct PolledTarget {
    snapshot: ContentSnapshot,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Digest of the content, and the revision before it was read.
#[derive(Clone, Copy)]
struct ContentSnapshot {
    revision: u64,
    digest: u64,
}

/// Sends notifications to the client, one at a time. While the client does not read, further
/// changes are merged into the next round.
enum Notifier {
    Peer(Peer<RoleServer>),
    Stream(SubscriptionSink),
}

impl ResourcePoller {
    fn new(guarded: GuardedService) -> Self {
        Self { guarded, hasher: RandomState::new(), state: Mutex::default() }
    }

    async fn take_snapshot(&self, target: &SubscriptionTarget) -> Result<ContentSnapshot> {
        // The revision first: a change during the read is found in the next round.
        let revision = self.guarded.resources_revision().await?;
        Ok(ContentSnapshot { revision, digest: self.compute_digest(target).await? })
    }

    fn contains(&self, target: &SubscriptionTarget) -> bool {
        self.with_state(|state| state.targets.contains_key(target))
    }

    fn add(
        &self,
        target: SubscriptionTarget,
        snapshot: ContentSnapshot,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        self.with_state(|state| {
            // The first snapshot stays: a change since then is still to be notified.
            state.targets.entry(target).or_insert(PolledTarget { snapshot, _permit: permit });
        });
    }

    fn remove(&self, target: &SubscriptionTarget) {
        self.with_state(|state| state.targets.remove(target));
    }

    /// True if the caller must call [`Self::run_until_closed`]: there are subscriptions and it is
    /// not running.
    fn try_start(&self) -> bool {
        self.with_state(|state| {
            !state.targets.is_empty() && !std::mem::replace(&mut state.is_running, true)
        })
    }

    /// Notifies changes until no subscription is left or the client has closed the connection.
    async fn run_until_closed(&self, notifier: &Notifier) {
        let mut pause = POLL_INTERVAL;
        loop {
            // First, because the snapshot has just been taken.
            tokio::time::sleep(pause).await;
            if !self.should_continue() {
                return;
            }
            let started = Instant::now();
            let changed = match self.find_changes().await {
                Ok(changed) => changed,
                Err(error) => {
                    let id = &*self.guarded.context.request_id;
                    tracing::debug!(id, %error, "subscription poll failed; retrying");
                    Vec::new()
                }
            };
            pause = POLL_INTERVAL.max(started.elapsed() * PAUSE_FACTOR);
            for target in changed {
                // The client may have unsubscribed during the poll.
                if self.contains(&target) && !notifier.notify_changed(target).await {
                    return;
                }
            }
        }
    }

    /// Returns the targets with a new digest. Unreadable content is retried in the next round.
    async fn find_changes(&self) -> Result<Vec<SubscriptionTarget>> {
        let revision = self.guarded.resources_revision().await?;
        let mut changed = Vec::new();
        for target in self.with_state(|state| state.targets_not_at(revision)) {
            // Many small reads must not delay other tasks.
            tokio::task::yield_now().await;
            // The old revision stays, so the next round tries again.
            let Ok(digest) = self.digest_or_error(&target).await else { continue };
            let snapshot = ContentSnapshot { revision, digest };
            if self.with_state(|state| state.replace_snapshot(&target, snapshot)) {
                changed.push(target);
            }
        }
        Ok(changed)
    }

    /// The digest of a target or of a resource's permanent error. Returns temporary errors.
    async fn digest_or_error(&self, target: &SubscriptionTarget) -> Result<u64> {
        let error = match self.compute_digest(target).await {
            Ok(digest) => return Ok(digest),
            Err(error) => error,
        };
        match error.kind {
            ErrorKind::Busy
            | ErrorKind::Unavailable
            | ErrorKind::Cancelled
            | ErrorKind::Internal => Err(error),
            _ if *target == SubscriptionTarget::List => Err(error),
            // A deleted resource, for example, is a change that the client must hear of.
            kind => Ok(self.hasher.hash_one(std::mem::discriminant(&kind))),
        }
    }

    async fn compute_digest(&self, target: &SubscriptionTarget) -> Result<u64> {
        let mut hasher = self.hasher.build_hasher();
        let SubscriptionTarget::Resource(uri) = target else {
            let mut cursor = None;
            loop {
                let page = self.guarded.list_resources(cursor, true).await?;
                for resource in &page.resources {
                    // Only entries of the list: a changed body does not change the list.
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
        // All parts, because a client shows the name and the description too.
        (uri, name, description, mime_type, text).hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn should_continue(&self) -> bool {
        self.with_state(|state| {
            // Under the lock: a later subscription finds `false` and starts a new poller.
            state.is_running = !state.targets.is_empty();
            state.is_running
        })
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut PollerState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PollerState {
    /// Targets last read at another revision.
    fn targets_not_at(&self, revision: u64) -> Vec<SubscriptionTarget> {
        let mut outdated = Vec::new();
        for (target, polled) in &self.targets {
            if polled.snapshot.revision != revision {
                outdated.push(target.clone());
            }
        }
        outdated
    }

    /// True if the target is still subscribed to and its digest differs from the last one.
    fn replace_snapshot(&mut self, target: &SubscriptionTarget, new: ContentSnapshot) -> bool {
        let Some(polled) = self.targets.get_mut(target) else { return false };
        let last = std::mem::replace(&mut polled.snapshot, new);
        // A new revision alone says only that some document has changed.
        last.digest != new.digest
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
