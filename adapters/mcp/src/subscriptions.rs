//! Who of one connection wants to hear what changed: `resources/subscribe` and the list in the old
//! era, one stream per `subscriptions/listen` since 2026-07-28.
//!
//! A watch runs only while somebody wants to know, and ends with the connection. Everything is
//! looked at before a subscription is confirmed, so that no change falls into a gap.

mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use rmcp::RoleServer;
use rmcp::model::{ErrorData, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::guarded::{Guarded, correlation_id};
use crate::present;
use watch::{Teller, Watch};

/// To how many URIs one connection may be subscribed.
const MAX_URIS: usize = 1000;
/// How many `subscriptions/listen` one connection may keep open.
const MAX_STREAMS: usize = 32;

/// The subscriptions of one connection.
pub(crate) struct Subscriptions {
    asked: Guarded,
    /// What the old era asked for.
    watch: Arc<Watch>,
    uris: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    closing: CancellationToken,
    /// With the last owner of this the watch goes, too; it owns nothing that would keep it.
    _closes: DropGuard,
}

/// A stream of the new era: what it watches, and its part of the limits.
pub(crate) struct Stream {
    watch: Watch,
    _places: [OwnedSemaphorePermit; 2],
}

impl Subscriptions {
    pub(crate) fn new(asked: Guarded) -> Self {
        let closing = CancellationToken::new();
        Self {
            watch: Arc::new(Watch::new(asked.clone())),
            asked,
            uris: Arc::new(Semaphore::new(MAX_URIS)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            _closes: closing.clone().drop_guard(),
            closing,
        }
    }

    /// Nothing is told any more; streams end with their last answer.
    pub(crate) fn finish(&self) {
        self.closing.cancel();
    }

    /// Old era: tells when this URI says something else.
    pub(crate) async fn subscribe(
        &self,
        uri: String,
        peer: &Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let seen = self.watch.look(&uri).await;
        let seen = seen.map_err(|error| failure(error, Some(&uri)))?;
        if !self.watch.has(&uri) {
            let place =
                places(&self.uris, 1).ok_or_else(|| failure(too_many_uris(), Some(&uri)))?;
            self.watch.add(uri, seen, Some(place));
        }
        self.start(peer);
        Ok(())
    }

    /// Old era: no more of this URI. Who was not subscribed to it is content as well.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.watch.remove(uri);
    }

    /// Old era: who lists resources is told when there are others. That a list can't be read now
    /// is for the answer to tell.
    pub(crate) async fn watch_list(&self, peer: &Peer<RoleServer>) {
        if self.watch.has_list() {
            return;
        }
        if let Ok(seen) = self.watch.look_at_list().await {
            self.watch.add_list(seen);
            self.start(peer);
        }
    }

    fn start(&self, peer: &Peer<RoleServer>) {
        if self.watch.starts() {
            let (watch, closing) = (Arc::clone(&self.watch), self.closing.clone());
            let teller = Teller::Peer(peer.clone());
            tokio::spawn(async move { closing.run_until_cancelled(watch.run(&teller)).await });
        }
    }

    /// New era: looks at everything that is wanted, before the stream is acknowledged.
    pub(crate) async fn prepare(&self, wanted: &SubscriptionFilter) -> Result<Stream, ErrorData> {
        let uris: BTreeSet<&String> = wanted.resource_subscriptions.iter().flatten().collect();
        let place = places(&self.streams, 1).ok_or_else(|| failure(too_many_streams(), None))?;
        let room = places(&self.uris, uris.len()).ok_or_else(|| failure(too_many_uris(), None))?;
        let watch = Watch::new(self.asked.clone());
        for uri in uris {
            let seen = watch.look(uri).await.map_err(|error| failure(error, Some(uri)))?;
            watch.add(uri.clone(), seen, None);
        }
        if wanted.resources_list_changed == Some(true) {
            let seen = watch.look_at_list().await.map_err(|error| failure(error, None))?;
            watch.add_list(seen);
        }
        Ok(Stream { watch, _places: [place, room] })
    }

    /// New era: tells until the client or the connection ends it. Where there is nothing to watch
    /// there is no stream of ours, and the client's stays silent.
    pub(crate) async fn listen(&self, stream: Option<&Stream>, context: &SubscriptionContext) {
        let teller = Teller::Stream(context.sink().clone());
        let telling = async {
            if let Some(stream) = stream
                && stream.watch.starts()
            {
                stream.watch.run(&teller).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = context.cancelled() => {}
            () = telling => {}
        }
    }
}

fn places(of: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
    let count = u32::try_from(count).ok()?;
    Arc::clone(of).try_acquire_many_owned(count).ok()
}

fn failure(error: Error, uri: Option<&str>) -> ErrorData {
    present::failure(error, &correlation_id(), uri)
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
