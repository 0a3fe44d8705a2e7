//! Who of one connection wants to hear what changed: `resources/subscribe` and the list in the old
//! era, one stream per `subscriptions/listen` since 2026-07-28.
//!
//! A watch runs only while somebody wants to know, and ends with the connection. Everything is
//! looked at before a subscription is confirmed, so that no change falls into a gap.

mod watch;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use reqlore_domain::error::{Error, ErrorKind};
use rmcp::RoleServer;
use rmcp::model::{ErrorData, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::guarded::Guarded;
use crate::present;
use watch::{Teller, Watch};

/// To how many URIs one connection may be subscribed.
const MAX_URIS: usize = 1000;
/// How many `subscriptions/listen` one connection may keep open.
const MAX_STREAMS: usize = 32;
/// So many connections' worth there is for all callers together where each request stands alone;
/// what one of them may keep open is the transport's to say.
const SHARED: usize = 16;

/// The subscriptions of one connection.
pub(crate) struct Subscriptions {
    /// What the old era asked for, on behalf of who asked first: a connection has one caller.
    watch: OnceLock<Arc<Watch>>,
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
    /// Of one connection, or of all callers.
    pub(crate) fn new(connected: bool) -> Self {
        let closing = CancellationToken::new();
        let times = if connected { 1 } else { SHARED };
        Self {
            watch: OnceLock::new(),
            uris: Arc::new(Semaphore::new(MAX_URIS * times)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS * times)),
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
        asked: Guarded,
        uri: String,
        peer: &Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let failure = |error| present::failure(error, &asked.asker, Some(&uri));
        let watch = self.watch(&asked);
        let seen = watch.look(&uri).await.map_err(failure)?;
        if !watch.has(&uri) {
            let place = places(&self.uris, 1).ok_or_else(|| failure(too_many_uris()))?;
            watch.add(uri, seen, Some(place));
        }
        self.start(watch, peer);
        Ok(())
    }

    /// Old era: no more of this URI. Who was not subscribed to it is content as well.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        if let Some(watch) = self.watch.get() {
            watch.remove(uri);
        }
    }

    /// Old era: who lists resources is told when there are others. That a list can't be read now
    /// is for the answer to tell.
    pub(crate) async fn watch_list(&self, asked: &Guarded, peer: &Peer<RoleServer>) {
        let watch = self.watch(asked);
        if watch.has_list() {
            return;
        }
        if let Ok(seen) = watch.look_at_list().await {
            watch.add_list(seen);
            self.start(watch, peer);
        }
    }

    fn watch(&self, asked: &Guarded) -> &Arc<Watch> {
        self.watch.get_or_init(|| Arc::new(Watch::new(asked.clone())))
    }

    fn start(&self, watch: &Arc<Watch>, peer: &Peer<RoleServer>) {
        if watch.starts() {
            let (watch, closing) = (Arc::clone(watch), self.closing.clone());
            let teller = Teller::Peer(peer.clone());
            tokio::spawn(async move { closing.run_until_cancelled(watch.run(&teller)).await });
        }
    }

    /// New era: looks at everything that is wanted, before the stream is acknowledged.
    pub(crate) async fn prepare(
        &self,
        asked: Guarded,
        wanted: &SubscriptionFilter,
    ) -> Result<Stream, ErrorData> {
        let whoever = asked.asker.clone();
        let failure = |error, uri| present::failure(error, &whoever, uri);
        let uris: BTreeSet<&String> = wanted.resource_subscriptions.iter().flatten().collect();
        let place = places(&self.streams, 1).ok_or_else(|| failure(too_many_streams(), None))?;
        let fits = uris.len() <= MAX_URIS;
        let room = fits.then(|| places(&self.uris, uris.len())).flatten();
        let room = room.ok_or_else(|| failure(too_many_uris(), None))?;
        let watch = Watch::new(asked);
        for uri in uris {
            let seen = watch.look(uri).await.map_err(|error| failure(error, Some(uri.as_str())))?;
            watch.add(uri.clone(), seen, None);
        }
        if wanted.resources_list_changed == Some(true) {
            let seen = watch.look_at_list().await.map_err(|error| failure(error, None))?;
            watch.add_list(seen);
        }
        Ok(Stream { watch, _places: [place, room] })
    }

    /// New era, for who was acknowledged before anything was looked at: what changed in between
    /// can't be known, so everything is told once as if it had.
    pub(crate) async fn catch_up(
        &self,
        asked: Guarded,
        context: &SubscriptionContext,
    ) -> Result<Stream, ErrorData> {
        let stream = self.prepare(asked, context.accepted()).await?;
        stream.watch.forget();
        Ok(stream)
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
