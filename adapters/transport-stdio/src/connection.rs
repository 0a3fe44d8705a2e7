//! rmcp's `Transport` over lines: reads, queues, answers malformed lines, and drains at the end.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqlore_domain::error::ErrorKind;
use reqlore_mcp::convert::error_code;
use reqlore_mcp::jsonrpc;
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

use crate::Limits;
use crate::line_reader::{LineReader, ReadStep};
use crate::scheduler::{InFlight, NextStep, RequestQueue, RunMode};

/// Bytes of unread responses above which no further request runs.
const MAX_UNSENT_BYTES: usize = 4 * 1024 * 1024;
/// How long closing waits for a response that is being written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type Writing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

pub(crate) struct StdioConnection<R, W> {
    lines: LineReader<R>,
    output: Arc<ClientOutput<W>>,
    queue: RequestQueue,
    /// Knows which requests must run alone, and ends subscriptions.
    server: McpServer,
    limits: Limits,
    shutdown: Shutdown,
    /// An error response being written. Kept here, because `receive` may be dropped and called
    /// again in the middle of it.
    pending_write: Option<Writing>,
    malformed_lines: usize,
    /// Set once input has ended: the deadline of accepted requests.
    drain_deadline: Option<Instant>,
}

struct ClientOutput<W> {
    writer: Mutex<W>,
    /// The client no longer reads responses.
    is_closed: AtomicBool,
    /// Bytes of responses not read yet.
    unsent_bytes: AtomicUsize,
    in_flight: InFlight,
}

impl<W: AsyncWrite + Unpin> ClientOutput<W> {
    /// True if too many responses are unread to run another request.
    fn is_full(&self) -> bool {
        self.unsent_bytes.load(Ordering::Relaxed) > MAX_UNSENT_BYTES
    }

    async fn write_line(&self, line: &[u8]) -> io::Result<()> {
        self.unsent_bytes.fetch_add(line.len(), Ordering::Relaxed);
        let written = self.write_and_flush(line).await;
        self.unsent_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        self.in_flight.changed.notify_one();
        written
    }

    async fn write_and_flush(&self, line: &[u8]) -> io::Result<()> {
        let mut write = self.writer.lock().await;
        let written = match write.write_all(line).await {
            Ok(()) => write.flush().await,
            failed => failed,
        };
        if written.is_err() {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        written
    }
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> StdioConnection<R, W> {
    pub(crate) fn new(
        read: R,
        write: W,
        limits: Limits,
        shutdown: Shutdown,
        server: McpServer,
    ) -> Self {
        let output = ClientOutput {
            writer: Mutex::new(write),
            is_closed: AtomicBool::new(false),
            unsent_bytes: AtomicUsize::new(0),
            in_flight: InFlight::default(),
        };
        Self {
            lines: LineReader::new(read, limits.line),
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

    /// The next message to deliver; `None` at the end. Cancel safe: everything read is in `self`.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.is_past_deadline() {
                self.abandon_requests().await;
            }
            if self.pending_write.is_some() {
                self.finish_writing().await.ok()?;
                continue;
            }
            let held_until =
                match self.queue.next_step(&self.output.in_flight, self.output.is_full()) {
                    NextStep::Deliver(message) => return Some(*message),
                    NextStep::Duplicate(id) => {
                        let error =
                            ErrorData::invalid_request("a request with this id is running", None);
                        self.start_response(jsonrpc::error_line(&id_value(&id), &error));
                        continue;
                    }
                    NextStep::Empty | NextStep::Wait => None,
                    NextStep::WaitUntil(due) => Some(due),
                };
            if self.is_finished() {
                return None;
            }
            if let Some(message) = self.wait_for_event(held_until).await {
                return Some(message);
            }
        }
    }

    /// True if no client or, after the end of input, no request is left.
    fn is_finished(&self) -> bool {
        let idle = self.queue.is_empty() && self.output.in_flight.is_empty();
        (self.drain_deadline.is_some() && idle) || self.output.is_closed.load(Ordering::Relaxed)
    }

    /// Stops reading. Subscriptions end with their last response and are not waited for.
    fn begin_drain(&mut self) {
        self.drain_deadline = Some(Instant::now() + self.limits.drain);
        self.server.end_subscriptions();
    }

    /// True after the deadline of accepted requests.
    fn is_past_deadline(&self) -> bool {
        self.drain_deadline.is_some_and(|ends| Instant::now() >= ends)
    }

    /// Answers accepted requests that never ran with an error, and asks rmcp to end, which gives
    /// running ones two more seconds.
    async fn abandon_requests(&mut self) {
        let error = ErrorData::new(
            ErrorCode(error_code(ErrorKind::Busy)),
            "The server is ending. This request was not run; nothing was changed.",
            None,
        );
        while let Some(id) = self.queue.pop_request() {
            let line = jsonrpc::error_line(&id_value(&id), &error);
            let output = Arc::clone(&self.output);
            tokio::spawn(async move { output.write_line(&line).await });
        }
        self.shutdown.abort.cancel();
        std::future::pending::<()>().await;
    }

    /// Continues to write the pending response, unless the deadline comes first.
    async fn finish_writing(&mut self) -> io::Result<()> {
        let late = sleep_until_some(self.drain_deadline);
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
            () = late => Ok(()),
        }
    }

    /// Waits for an event. Returns a message that may overtake all others.
    async fn wait_for_event(
        &mut self,
        held_until: Option<Instant>,
    ) -> Option<ClientJsonRpcMessage> {
        let timer = sleep_until_some(held_until.into_iter().chain(self.drain_deadline).min());
        let reading = self.drain_deadline.is_none() && self.queue.has_room();
        let read = tokio::select! {
            () = self.output.in_flight.changed.notified() => return None,
            () = self.shutdown.finish.cancelled(), if self.drain_deadline.is_none() => Ok(ReadStep::End),
            () = timer => return None,
            read = self.lines.read_step(), if reading => read,
        };
        match read {
            Ok(ReadStep::Part) => None,
            Ok(ReadStep::Line) => self.accept_line(),
            Ok(ReadStep::TooLong) => {
                let reason = format!("a line may have at most {} bytes", self.limits.line);
                let error = ErrorData::invalid_request(reason, None);
                self.reject_line(Some(jsonrpc::error_line(&Value::Null, &error)));
                None
            }
            Ok(ReadStep::End) | Err(_) => {
                self.begin_drain();
                None
            }
        }
    }

    /// Queues the line that was just read. Notifications do not wait.
    fn accept_line(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = self.lines.trimmed_line();
        if line.is_empty() {
            return None;
        }
        let bytes = line.len();
        match jsonrpc::parse_message(line) {
            Ok(message) => {
                self.malformed_lines = 0;
                match &message {
                    JsonRpcMessage::Notification(notification) => {
                        return self.should_deliver(&notification.notification).then_some(message);
                    }
                    JsonRpcMessage::Request(request) => {
                        let exclusive = self.server.is_exclusive(&request.request);
                        self.queue.push(message, bytes, exclusive);
                    }
                    _ => self.queue.push(message, bytes, false),
                }
            }
            Err(malformed) => self.reject_line(malformed.response),
        }
        None
    }

    /// True if rmcp must get this notification. A running write is not cancelled: it finishes and
    /// is answered, so that the caller knows the outcome.
    fn should_deliver(&mut self, notification: &ClientNotification) -> bool {
        let ClientNotification::CancelledNotification(cancelled) = notification else {
            return true;
        };
        let Some(id) = &cancelled.params.request_id else { return true };
        if self.queue.cancel_waiting(id) {
            return false;
        }
        match self.output.in_flight.run_mode(id) {
            Some(RunMode::Exclusive) => false,
            Some(RunMode::Shared | RunMode::Subscription) => {
                self.output.in_flight.mark_completed(id);
                true
            }
            None => true,
        }
    }

    fn start_response(&mut self, line: Vec<u8>) {
        let output = Arc::clone(&self.output);
        self.pending_write = Some(Box::pin(async move { output.write_line(&line).await }));
    }

    fn reject_line(&mut self, answer: Option<Vec<u8>>) {
        if let Some(line) = answer {
            self.start_response(line);
        }
        self.malformed_lines += 1;
        if self.malformed_lines >= self.limits.malformed {
            tracing::error!(
                lines = self.malformed_lines,
                "too many malformed lines in a row; ending"
            );
            self.begin_drain();
        }
    }
}

/// Resolves at that time; never without one.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The request that this notification confirms as a subscription.
fn acknowledged_subscription(notification: &ServerNotification) -> Option<RequestId> {
    match notification {
        ServerNotification::SubscriptionsAcknowledgedNotification(acknowledged) => {
            acknowledged.extensions.get::<NotificationMetaObject>()?.subscription_id()
        }
        _ => None,
    }
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
            line.push(b'\n');
            let written = output.write_line(&line).await;
            match &message {
                JsonRpcMessage::Response(response) => output.in_flight.mark_completed(&response.id),
                JsonRpcMessage::Error(error) => {
                    if let Some(id) = &error.id {
                        output.in_flight.mark_completed(id);
                    }
                }
                JsonRpcMessage::Notification(notification) => {
                    if let Some(id) = acknowledged_subscription(&notification.notification) {
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
            Ok(mut write) => write.shutdown().await,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
