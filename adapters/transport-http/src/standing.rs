//! A subscription's stream, which ends when its token does not count any more.
//!
//! A request is judged when it comes; a stream stands for hours. So whoever it was opened for is
//! looked up again while it stands, and what they may see must be what it was.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::authenticator::{Credentials, Denied};
use tokio::time::sleep;

use crate::Shared;

/// How long one whose token was revoked may still be told of changes.
const PERIOD: Duration = Duration::from_secs(1);

/// As who a stream was opened.
pub(crate) struct Opened {
    pub(crate) caller: Arc<Caller>,
    pub(crate) token: String,
    pub(crate) project: Option<String>,
    pub(crate) address: IpAddr,
    pub(crate) request_id: Arc<str>,
}

impl fmt::Debug for Opened {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("caller", &self.caller)
            .field("address", &self.address)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

impl Opened {
    /// Waits until it would not be opened any more, or not for the same.
    async fn ended(self, shared: Arc<Shared>) {
        let address = self.address.to_string();
        loop {
            sleep(PERIOD).await;
            let shown = Credentials {
                token: Some(&self.token),
                project: self.project.as_deref(),
                address: &address,
                correlation_id: &self.request_id,
            };
            match shared.login.again(shown).await {
                Ok(caller) if caller == self.caller => {}
                // Nothing is known of it just now.
                Err(Denied::Failed(_)) => {}
                Ok(_) | Err(Denied::Token(_) | Denied::Project(_)) => break,
            }
        }
        tracing::debug!(id = &*self.request_id, "a subscription ends with its token's rights");
    }
}

/// A body that lasts no longer than the rights it was opened with.
pub(crate) struct Standing<B> {
    body: B,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<B> Standing<B> {
    pub(crate) fn new(body: B, opened: Opened, shared: Arc<Shared>) -> Self {
        Self { body, ended: Box::pin(opened.ended(shared)) }
    }
}

impl<B> http_body::Body for Standing<B>
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Unpin,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.ended.as_mut().poll(context).is_ready() {
            // A future that is done may not be asked again.
            this.ended = Box::pin(std::future::ready(()));
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
