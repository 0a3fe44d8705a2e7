//! Subscriptions: `resources/subscribe` and the resource list in the legacy era, one stream per
//! `subscriptions/listen` since 2026-07-28.
//!
//! A poller runs only while it has subscribers, and ends with the connection. Resources are read
//! before a subscription is confirmed, so that no change is missed.

mod poller;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use reqlore_domain::error::{Error, ErrorKind};
use rmcp::RoleServer;
use rmcp::model::{ErrorData, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::convert;
use crate::request_context::GuardedService;
use poller::{Notifier, ResourcePoller, Target};

/// Maximum URIs that one connection may subscribe to.
const MAX_URIS: usize = 1000;
/// Maximum open `subscriptions/listen` of one connection.
const MAX_STREAMS: usize = 32;
/// Over HTTP all callers together have the limits of this many connections; the transport limits
/// each caller.
const SHARED: usize = 16;

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
