//! Bodies: read with bounds on bytes, time and what is held of all together; and sent while
//! something is held.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::limits::Limits;
use crate::refusal::Refusal;

/// Bodies up to this size, in bytes, are not counted: there are as many as connections at most.
const SMALL: u64 = 16 * 1024;
/// How long a refused request's body may take.
const PASSING: Duration = Duration::from_secs(1);
/// Room is given out in steps of so many bytes.
const STEP: usize = 1024;
/// One token gets this part of all room, and at least one body.
const SHARE: usize = 4;

/// Room for bodies, of which a token or a server has so much.
fn room(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes.div_ceil(STEP).min(Semaphore::MAX_PERMITS)))
}

/// Room that one body takes, of its token's share and of all.
pub(crate) struct Room {
    _of_token: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// What bodies with one token may take, so that those that trickle keep no other token waiting.
pub(crate) fn share(limits: &Limits) -> Arc<Semaphore> {
    room(limits.body.max(limits.bodies / SHARE))
}

/// Reads bodies.
pub(crate) struct Bodies {
    most: usize,
    time: Duration,
    room: Arc<Semaphore>,
}

impl Bodies {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = room(limits.bodies.max(limits.body));
        Self { most: limits.body, time: limits.body_time, room }
    }

    /// A whole body, and the room that it takes of its token's share.
    pub(crate) async fn read(
        &self,
        body: Body,
        share: &Arc<Semaphore>,
    ) -> Result<(Bytes, Option<Room>), Refusal> {
        let most = self.most as u64;
        let size = body.size_hint().upper().unwrap_or(most);
        if size > most {
            return Err(self.too_large());
        }
        let room = if size > SMALL { Some(self.room(size, share).await?) } else { None };
        let reading = Limited::new(body, self.most).collect();
        match timeout(self.time, reading).await {
            Ok(Ok(read)) => Ok((read.to_bytes(), room)),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(self.too_large()),
            Ok(Err(_)) => {
                let message = "The body can't be read: its length or its chunks are wrong.";
                Err(Refusal::invalid(StatusCode::BAD_REQUEST, message).closing())
            }
            Err(_) => {
                let message = "The body took too long.";
                Err(Refusal::invalid(StatusCode::REQUEST_TIMEOUT, message).closing())
            }
        }
    }

    async fn room(&self, size: u64, share: &Arc<Semaphore>) -> Result<Room, Refusal> {
        let steps = u32::try_from(size.div_ceil(STEP as u64)).unwrap_or(u32::MAX);
        let both = async {
            // The token's own first, so that who waits for themselves keeps nobody else waiting.
            let of_token = share.clone().acquire_many_owned(steps).await.ok()?;
            let of_all = self.room.clone().acquire_many_owned(steps).await.ok()?;
            Some(Room { _of_token: of_token, _of_all: of_all })
        };
        timeout(self.time, both).await.ok().flatten().ok_or_else(|| {
            let message = "Too many large bodies are held already. Nothing was done; try again.";
            Refusal::busy(message).closing()
        })
    }

    fn too_large(&self) -> Refusal {
        let message = format!("A body may have at most {} bytes.", self.most);
        Refusal::invalid(StatusCode::PAYLOAD_TOO_LARGE, message).closing()
    }
}

/// Takes in the body of a request that was refused without it; false where it is too long, or too
/// late. What stays unread ends the connection, and a client that was not told sends its next
/// request into that end.
pub(crate) async fn pass(body: Body) -> bool {
    let is_small = body.size_hint().upper().is_some_and(|size| size <= SMALL);
    is_small && matches!(timeout(PASSING, body.collect()).await, Ok(Ok(_)))
}

/// A short text in whole.
pub(crate) async fn text<B>(body: B) -> String
where
    B: http_body::Body<Data = Bytes, Error = Infallible>,
{
    match body.collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(never) => match never {},
    }
}

/// A body that holds something until it was sent or given up.
pub(crate) struct Held<B, T> {
    pub(crate) body: B,
    pub(crate) _held: T,
}

impl<B, T> http_body::Body for Held<B, T>
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Unpin,
    T: Unpin,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
