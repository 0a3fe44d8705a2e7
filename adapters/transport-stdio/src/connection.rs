//! Implements rmcp's `Transport` over lines: queues requests, rejects malformed lines, and drains.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqlore_domain::error::ErrorKind;
use reqlore_domain::ports::service::UNKNOWN_METHOD;
use reqlore_mcp::convert::error_code;
use reqlore_mcp::failure_log::log_failure;
use reqlore_mcp::jsonrpc::{self, MalformedMessage};
use reqlore_mcp::request_context::correlation_id;
use reqlore_mcp::server::McpServer;
use reqlore_mcp::shutdown::Shutdown;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage,
    NotificationMetaObject, RequestId, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::batch::{BatchSlot, RunningMembers};
use crate::limits::StdioLimits;
use crate::line_reader::{LineReader, ReadStep};
use crate::scheduler::{InFlight, NextStep, RequestQueue, RunMode};

/// No further request runs while the client has not read more than this many bytes of responses.
const MAX_UNSENT_BYTES: usize = 4 * 1024 * 1024;
/// Time for a response that is being written when the connection closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type PendingWrite = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

pub(crate) struct StdioConnection<R, W> {
    lines: LineReader<R>,
    output: Arc<ClientOutput<W>>,
    queue: RequestQueue,
    server: McpServer,
    limits: StdioLimits,
    shutdown: Shutdown,
    /// Error response being written. Stored here, because rmcp may drop `receive` during the write
    /// and call it again.
    pending_write: Option<PendingWrite>,
    malformed_lines: usize,
    /// Deadline of accepted requests, set at the end of the input.
    drain_deadline: Option<Instant>,
}

pub(crate) struct ClientOutput<W> {
    writer: Mutex<W>,
    /// True if the client no longer reads responses.
    is_closed: AtomicBool,
    /// The error of the first response that could not be written.
    lost_response: OnceLock<io::Error>,
    /// Bytes of responses that the client has not read.
    unsent_bytes: AtomicUsize,
    in_flight: InFlight,
    /// Running members of batches.
    members: RunningMembers,
}

impl<W: AsyncWrite + Unpin> ClientOutput<W> {
    /// True if too many responses are unread to run another request.
    fn is_full(&self) -> bool {
        self.unsent_bytes.load(Ordering::Relaxed) > MAX_UNSENT_BYTES
    }

    /// Fails if a response that was due could not be written.
    pub(crate) fn check_delivered(&self) -> io::Result<()> {
        match self.lost_response.get() {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }

    async fn write_response(&self, line: &[u8]) -> io::Result<()> {
        let written = self.write_line(line).await;
        if let Err(error) = &written {
            // Only the first error counts: all later responses fail as well.
            let error = io::Error::new(error.kind(), error.to_string());
            let _ = self.lost_response.set(error);
        }
        written
    }

    async fn write_line(&self, line: &[u8]) -> io::Result<()> {
        // Counted before the lock, so that responses that wait for it are included.
        self.unsent_bytes.fetch_add(line.len(), Ordering::Relaxed);
        let written = self.write_and_flush(line).await;
        self.unsent_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        // Wakes the reader, which may wait for space in the output.
        self.in_flight.changed.notify_one();
        written
    }

    async fn write_and_flush(&self, line: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        // One lock for the line and its flush: parallel responses must not mix.
        let written = match writer.write_all(line).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        if written.is_err() {
            // Part of a line may be written, so no further response can be framed.
            self.is_closed.store(true, Ordering::Relaxed);
        }
        written
    }
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> StdioConnection<R, W> {
    pub(crate) fn new(
        reader: R,
        writer: W,
        limits: StdioLimits,
        shutdown: Shutdown,
        server: McpServer,
    ) -> Self {
        let output = ClientOutput {
            writer: Mutex::new(writer),
            is_closed: AtomicBool::new(false),
            lost_response: OnceLock::new(),
            unsent_bytes: AtomicUsize::new(0),
            in_flight: InFlight::default(),
            members: RunningMembers::default(),
        };
        Self {
            lines: LineReader::new(reader, limits.line_bytes),
            output: Arc::new(output),
            queue: RequestQueue::new(limits),
            server,
            limits,
            shutdown,
            pending_write: None,
            malformed_lines: 0,
            drain_deadline: None,
        }
    }

    pub(crate) fn output(&self) -> Arc<ClientOutput<W>> {
        Arc::clone(&self.output)
    }

    /// Returns the next message to deliver; `None` at the end. Cancel safe: `self` keeps the input.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // Checked first, because a busy queue must not extend the drain.
            if self.is_past_deadline() {
                self.abandon_requests().await;
            }
            // An error response is written before the next message is delivered.
            if self.pending_write.is_some() {
                self.finish_writing().await.ok()?;
                continue;
            }
            let step = self.queue.next_step(&self.output.in_flight, self.output.is_full());
            let due = match step {
                NextStep::Deliver(message, slot) => {
                    if let (JsonRpcMessage::Request(request), Some(slot)) = (&*message, slot) {
                        // Before rmcp has the request, because its response may follow at once.
                        self.output.members.insert(request.id.clone(), slot);
                    }
                    return Some(*message);
                }
                NextStep::Duplicate(id, slot) => {
                    let reason = "id: a request with this id is running; use a new id";
                    let error = ErrorData::invalid_request(reason, None);
                    log_rejection(error.code.0, reason);
                    self.respond(slot, jsonrpc::error_line(&id_value(&id), &error));
                    continue;
                }
                NextStep::Empty | NextStep::Wait => None,
                NextStep::WaitUntil(due) => Some(due),
            };
            if self.is_finished() {
                return None;
            }
            if let Some(message) = self.wait_for_event(due).await {
                return Some(message);
            }
        }
    }

    /// True if the client is gone or, after the end of the input, every request is complete.
    fn is_finished(&self) -> bool {
        let is_idle = self.queue.is_empty() && self.output.in_flight.is_empty();
        (self.drain_deadline.is_some() && is_idle) || self.output.is_closed.load(Ordering::Relaxed)
    }

    /// Stops reading, and starts the deadline. Subscriptions end with their last response.
    fn begin_drain(&mut self) {
        self.drain_deadline = Some(Instant::now() + self.limits.drain_timeout);
        // A subscription would otherwise never complete.
        self.server.end_subscriptions();
    }

    fn is_past_deadline(&self) -> bool {
        self.drain_deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Rejects accepted requests that have not started, and asks rmcp to end. rmcp gives running
    /// requests two more seconds. Never returns.
    async fn abandon_requests(&mut self) {
        let error = ErrorData::new(
            ErrorCode(error_code(ErrorKind::Busy)),
            "The server is shutting down. The request was not run; nothing was changed.",
            None,
        );
        while let Some((id, slot)) = self.queue.pop_request() {
            let line = jsonrpc::error_line(&id_value(&id), &error);
            let line = match slot {
                Some(slot) => slot.complete(Some(line)),
                None => Some(line),
            };
            // Another member of the batch is still running.
            let Some(line) = line else { continue };
            let output = Arc::clone(&self.output);
            // Not awaited, because the client may no longer read.
            tokio::spawn(async move { output.write_response(&line).await });
        }
        // rmcp drops this future when it ends.
        self.shutdown.abort.cancel();
        std::future::pending::<()>().await;
    }

    /// Continues to write the pending response, unless the deadline comes first.
    async fn finish_writing(&mut self) -> io::Result<()> {
        let deadline = sleep_until_some(self.drain_deadline);
        let Some(writing) = &mut self.pending_write else { return Ok(()) };
        tokio::select! {
            written = writing => {
                self.pending_write = None;
                written
            }
            () = self.shutdown.finish.cancelled(), if self.drain_deadline.is_none() => {
                self.begin_drain();
                Ok(())
            }
            // The caller's loop then abandons the remaining requests.
            () = deadline => Ok(()),
        }
    }

    /// Waits for an event or until `due`. Returns a notification that is not queued.
    async fn wait_for_event(&mut self, due: Option<Instant>) -> Option<ClientJsonRpcMessage> {
        let timer = match (due, self.drain_deadline) {
            (Some(due), Some(deadline)) => Some(due.min(deadline)),
            (due, deadline) => due.or(deadline),
        };
        let is_draining = self.drain_deadline.is_some();
        // A full queue stops reading, so that the client has to wait.
        let can_read = !is_draining && self.queue.has_room();
        let step = tokio::select! {
            // `Notify` keeps one permit, so a response between two waits is not missed.
            () = self.output.in_flight.changed.notified() => return None,
            () = self.shutdown.finish.cancelled(), if !is_draining => Ok(ReadStep::End),
            () = sleep_until_some(timer) => return None,
            step = self.lines.read_step(), if can_read => step,
        };
        match step {
            Ok(ReadStep::Part) => None,
            Ok(ReadStep::Line) => self.accept_line(),
            Ok(ReadStep::TooLong) => {
                let reason = format!("line: longer than {} bytes", self.limits.line_bytes);
                let error = ErrorData::invalid_request(reason, None);
                let id = jsonrpc::id_of_start(self.lines.trimmed_line());
                self.reject_line(MalformedMessage::new(&id, &error));
                None
            }
            // After an input error the client cannot send anything either.
            Ok(ReadStep::End) | Err(_) => {
                self.begin_drain();
                None
            }
        }
    }

    /// Queues the line that was just read. Returns a notification, which must not wait.
    fn accept_line(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = self.lines.trimmed_line();
        if line.is_empty() {
            return None;
        }
        let bytes = line.len();
        let parsed = match jsonrpc::parse_json(line).map(|parsed| parsed.value) {
            Ok(Value::Array(members)) => {
                self.accept_batch(members, bytes);
                return None;
            }
            Ok(message) => jsonrpc::into_message(message),
            Err(malformed) => Err(malformed),
        };
        match parsed {
            Ok(message) => {
                // The limit applies only to malformed lines in a row.
                self.malformed_lines = 0;
                match &message {
                    JsonRpcMessage::Notification(notification) => {
                        // Not queued: a cancellation must not wait for the request that it cancels.
                        let is_delivered = self.should_deliver(&notification.notification);
                        return if is_delivered { Some(message) } else { None };
                    }
                    JsonRpcMessage::Request(request) => {
                        let is_exclusive = self.server.is_exclusive(&request.request);
                        self.queue.push(message, bytes, is_exclusive);
                    }
                    // Not queued: a running request waits for the client's response.
                    _ => return Some(message),
                }
            }
            Err(malformed) => self.reject_line(malformed),
        }
        None
    }

    /// Queues the members of a batch, which run one after the other.
    fn accept_batch(&mut self, members: Vec<Value>, bytes: usize) {
        if let Err(malformed) = jsonrpc::check_batch(&members, self.server.accepts_batches()) {
            return self.reject_line(malformed);
        }
        self.malformed_lines = 0;
        // Never divides by zero: `check_batch` rejects an empty batch.
        let bytes = bytes / members.len();
        let slots = BatchSlot::for_members(members.len());
        for (member, slot) in members.into_iter().zip(slots) {
            let parsed =
                jsonrpc::check_member(&member).and_then(|()| jsonrpc::into_message(member));
            let finished = match parsed {
                Ok(message @ JsonRpcMessage::Request(_)) => {
                    // Exclusive, so that a member sees the changes of the earlier ones.
                    self.queue.push_member(message, bytes, true, Some(slot));
                    continue;
                }
                Ok(message) => {
                    let is_delivered = match &message {
                        JsonRpcMessage::Notification(notification) => {
                            self.should_deliver(&notification.notification)
                        }
                        _ => true,
                    };
                    if is_delivered {
                        self.queue.push(message, bytes, false);
                    }
                    slot.complete(None)
                }
                Err(malformed) => {
                    log_rejection(malformed.code, &malformed.message);
                    slot.complete(malformed.response)
                }
            };
            if let Some(line) = finished {
                self.start_response(line);
            }
        }
    }

    /// True if rmcp must receive this notification. The cancellation of a running write is dropped:
    /// the write finishes and gets its response, so that the client knows the outcome.
    fn should_deliver(&mut self, notification: &ClientNotification) -> bool {
        let ClientNotification::CancelledNotification(cancelled) = notification else {
            return true;
        };
        // Without an id, rmcp cancels nothing.
        let Some(id) = &cancelled.params.request_id else { return true };
        if let Some(cancelled) = self.queue.cancel_waiting(id) {
            // A cancelled request has no response.
            if let Some(line) = cancelled.slot.and_then(|slot| slot.complete(None)) {
                self.start_response(line);
            }
            return false;
        }
        match self.output.in_flight.run_mode(id) {
            Some(RunMode::Exclusive) => false,
            // rmcp sends no response to it, so nothing else completes it.
            Some(RunMode::Shared | RunMode::Subscription) => {
                self.output.in_flight.mark_completed(id);
                true
            }
            None => true,
        }
    }

    /// Starts to write a response, after one that is being written.
    fn start_response(&mut self, line: Vec<u8>) {
        let output = Arc::clone(&self.output);
        // Chained, because one batch may cause several responses.
        let earlier = self.pending_write.take();
        self.pending_write = Some(Box::pin(async move {
            if let Some(earlier) = earlier {
                earlier.await?;
            }
            output.write_response(&line).await
        }));
    }

    /// Responds to a request, or completes its slot in a batch.
    fn respond(&mut self, slot: Option<BatchSlot>, line: Vec<u8>) {
        let line = match slot {
            Some(slot) => slot.complete(Some(line)),
            None => Some(line),
        };
        if let Some(line) = line {
            self.start_response(line);
        }
    }

    fn reject_line(&mut self, malformed: MalformedMessage) {
        log_rejection(malformed.code, &malformed.message);
        if let Some(line) = malformed.response {
            self.start_response(line);
        }
        self.malformed_lines += 1;
        // The peer is probably not a JSON-RPC client.
        if self.malformed_lines >= self.limits.malformed_lines {
            tracing::error!(
                lines = self.malformed_lines,
                "connection closed: too many malformed lines in a row"
            );
            self.begin_drain();
        }
    }
}

/// Resolves at this time; never if there is none.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns the id of the request that this notification confirms as a subscription.
fn acknowledged_subscription(notification: &ServerNotification) -> Option<RequestId> {
    match notification {
        ServerNotification::SubscriptionsAcknowledgedNotification(acknowledged) => {
            acknowledged.extensions.get::<NotificationMetaObject>()?.subscription_id()
        }
        _ => None,
    }
}

/// Logs a message that does not reach the protocol handler.
fn log_rejection(code: i32, reason: &str) {
    log_failure(&correlation_id(), None, (UNKNOWN_METHOD, None), code, reason);
}

fn id_value(id: &RequestId) -> Value {
    serde_json::to_value(id).unwrap_or_default()
}

impl<R, W> Transport<RoleServer> for StdioConnection<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            // serde_json escapes line breaks in strings, so this is the only one.
            line.push(b'\n');
            let id = match &message {
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                _ => None,
            };
            // Error responses without an id cannot belong to a member.
            let line = match id.and_then(|id| output.members.take(id)) {
                // The last member writes the responses of its batch.
                Some(slot) => slot.complete(Some(line)),
                None => Some(line),
            };
            // Before the request is completed, so that the next response follows this one.
            let is_due = !matches!(message, JsonRpcMessage::Notification(_));
            let written = match line {
                Some(line) if is_due => output.write_response(&line).await,
                Some(line) => output.write_line(&line).await,
                None => Ok(()),
            };
            match &message {
                JsonRpcMessage::Response(response) => output.in_flight.mark_completed(&response.id),
                JsonRpcMessage::Error(error) => {
                    if let Some(id) = &error.id {
                        output.in_flight.mark_completed(id);
                    }
                }
                JsonRpcMessage::Notification(notification) => {
                    if let Some(id) = acknowledged_subscription(&notification.notification) {
                        // From now on, no request waits for it.
                        output.in_flight.mark_subscribed(&id);
                    }
                }
                JsonRpcMessage::Request(_) => {}
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.next_message().await
    }

    async fn close(&mut self) -> io::Result<()> {
        // An unread response may hold the lock forever.
        match tokio::time::timeout(CLOSE_TIMEOUT, self.output.writer.lock()).await {
            Ok(mut writer) => writer.shutdown().await,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
