//! Reads request bodies within limits on size, time and total memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use reqlore_mcp::jsonrpc;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::config::HttpLimits;
use crate::error_response::{ErrorResponse, JSON_CONTENT_TYPE};
use crate::permits::{PermitPair, acquire_both};

/// Bodies up to this many bytes need no budget: the number of connections limits them.
const UNBUDGETED_BYTES: u64 = 16 * 1024;
/// Time limit for discarding the body of a rejected request, or the rest of one.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a body beyond the limit that are read and discarded.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of a body beyond the limit that are kept to find its JSON-RPC id.
const MAX_START_BYTES: usize = 16 * 1024;
/// Bytes per permit of a budget.
const BYTES_PER_PERMIT: usize = 1024;
/// One token gets this fraction of the total budget, but at least one body.
const TOKEN_BUDGET_DIVISOR: usize = 4;

/// Rejects a body that is encoded or not JSON.
pub(crate) fn check_content(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    for coding in headers.get_all(CONTENT_ENCODING) {
        // Bodies are never decompressed, so that their limits hold for all memory they take.
        if !coding.as_bytes().eq_ignore_ascii_case(b"identity") {
            return Err(unsupported_content("Content-Encoding: send the body without encoding"));
        }
    }
    for content_type in headers.get_all(CONTENT_TYPE) {
        // The comparison with the usual value saves parsing.
        if content_type != JSON_CONTENT_TYPE && !content_type.to_str().is_ok_and(is_json) {
            return Err(unsupported_content("Content-Type: send application/json in UTF-8"));
        }
    }
    Ok(())
}

fn unsupported_content(message: &'static str) -> ErrorResponse {
    ErrorResponse::invalid_request(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
}

fn is_json(content_type: &str) -> bool {
    let (media_type, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !media_type.trim().eq_ignore_ascii_case("application/json") {
        return false;
    }
    for parameter in parameters.split(';') {
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("charset")
            && !value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        {
            return false;
        }
    }
    true
}

fn byte_budget(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes.div_ceil(BYTES_PER_PERMIT).min(Semaphore::MAX_PERMITS)))
}

/// Returns the budget of one token, so that its slow bodies do not delay other tokens.
pub(crate) fn token_budget(limits: &HttpLimits) -> Arc<Semaphore> {
    // A smaller budget than one body could never be acquired, and the request would wait in vain.
    byte_budget(limits.body_bytes.max(limits.total_body_bytes / TOKEN_BUDGET_DIVISOR))
}

pub(crate) struct BodyReader {
    max_bytes: usize,
    time: Duration,
    budget: Arc<Semaphore>,
}

impl BodyReader {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let budget = byte_budget(limits.total_body_bytes.max(limits.body_bytes));
        Self { max_bytes: limits.body_bytes, time: limits.body_timeout, budget }
    }

    /// Reads a body and acquires its part of the token's budget and of the total budget. A client
    /// that `expects_continue` sends no body before it has read the headers of a response.
    pub(crate) async fn read_body(
        &self,
        body: Body,
        expects_continue: bool,
        token_budget: &Arc<Semaphore>,
    ) -> Result<(Bytes, Option<PermitPair>), ErrorResponse> {
        // A body without a declared length may have the maximum size.
        let size = body.size_hint().upper().unwrap_or(self.max_bytes as u64);
        if size > self.max_bytes as u64 {
            let mut start = BodyStart::new(self.max_bytes);
            if !expects_continue {
                drain_body(body, &mut start).await;
            }
            return Err(self.too_large(&start));
        }
        // Acquired before reading, so that waiting bodies use no memory.
        let permit = if size > UNBUDGETED_BYTES {
            Some(self.acquire_budget(size, token_budget).await?)
        } else {
            None
        };
        let is_chunked = body.size_hint().upper().is_none();
        // A body of known size cannot turn out to be too large.
        let mut start = BodyStart::new(if is_chunked { self.max_bytes } else { 0 });
        let mut body = body;
        // Borrowed, so that the rest can be drained. Chunked bodies show their size only here.
        let watched = (&mut body).map_frame(|frame| start.add_frame(frame));
        let reading = Limited::new(watched, self.max_bytes).collect();
        match timeout(self.time, reading).await {
            Ok(Ok(read)) => Ok((read.to_bytes(), permit)),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                drain_body(body, &mut start).await;
                Err(self.too_large(&start))
            }
            // After a broken body, the start of the next request is unknown.
            Ok(Err(_)) => {
                let message = "body: its length or its chunks are invalid";
                Err(ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message)
                    .closing_connection())
            }
            Err(_) => {
                // The connection closes, or the rest would be parsed as the next request.
                let message = "body: took too long";
                Err(ErrorResponse::invalid_request(StatusCode::REQUEST_TIMEOUT, message)
                    .closing_connection())
            }
        }
    }

    async fn acquire_budget(
        &self,
        size: u64,
        token_budget: &Arc<Semaphore>,
    ) -> Result<PermitPair, ErrorResponse> {
        let steps = u32::try_from(size.div_ceil(BYTES_PER_PERMIT as u64)).unwrap_or(u32::MAX);
        let due = Instant::now() + self.time;
        acquire_both(token_budget, &self.budget, steps, due).await.ok_or_else(|| {
            let message = "Too many large bodies are being read. Nothing was changed; try again.";
            ErrorResponse::busy(message).closing_connection()
        })
    }

    fn too_large(&self, start: &BodyStart) -> ErrorResponse {
        let message = format!("body: longer than {} bytes", self.max_bytes);
        ErrorResponse::invalid_request(StatusCode::PAYLOAD_TOO_LARGE, message)
            .with_jsonrpc_id(jsonrpc::id_of_start(&start.bytes))
            .closing_connection()
    }
}

/// The first bytes of a body that may be too large.
struct BodyStart {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl BodyStart {
    fn new(max_body_bytes: usize) -> Self {
        Self { bytes: Vec::new(), max_bytes: max_body_bytes.min(MAX_START_BYTES) }
    }

    fn add_frame(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if let Some(data) = frame.data_ref() {
            let room = (self.max_bytes - self.bytes.len()).min(data.len());
            self.bytes.extend_from_slice(&data[..room]);
        }
        frame
    }
}

/// Reads the rest of a body that is too large, and keeps only its start. Most clients send the
/// whole body before they read the response, and a connection that is closed with unread input is
/// reset.
async fn drain_body(mut body: Body, start: &mut BodyStart) {
    let draining = async {
        let mut drained = 0;
        while let Some(Ok(frame)) = body.frame().await {
            drained += start.add_frame(frame).data_ref().map_or(0, Bytes::len);
            if drained > MAX_DRAINED_BYTES {
                break;
            }
        }
    };
    // Too slow is the same as too long.
    let _ = timeout(DISCARD_TIMEOUT, draining).await;
}

/// Reads the body of a rejected request. `None` if it is too long or too slow: the connection must
/// then be closed, or the rest would be parsed as the next request.
pub(crate) async fn discard_body(body: Body) -> Option<Bytes> {
    if body.size_hint().upper().is_none_or(|size| size > UNBUDGETED_BYTES) {
        return None;
    }
    Some(timeout(DISCARD_TIMEOUT, body.collect()).await.ok()?.ok()?.to_bytes())
}
