//! rmcp's `Transport` over lines: reads, queues, answers malformed lines, and drains at the end.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqlore_domain::error::ErrorKind;
use reqlore_mcp::convert::code;
use reqlore_mcp::server::Server;
use reqlore_mcp::shutdown::Shutdown;
use reqlore_mcp::wire;
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
use crate::lines::{Lines, Read};
use crate::order::{InFlight, Next, Queue, RunMode};

/// Bytes of unread responses above which no further request runs.
const UNSENT: usize = 4 * 1024 * 1024;
/// How long closing waits for a response that is being written.
const CLOSE: Duration = Duration::from_secs(1);

type Writing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

pub(crate) struct Connection<R, W> {
    lines: Lines<R>,
    output: Arc<Output<W>>,
    queue: Queue,
    /// Knows which requests must run alone, and ends subscriptions.
    server: Server,
    limits: Limits,
    shutdown: Shutdown,
    /// An error response being written. Kept here, because `receive` may be dropped and called
    /// again in the middle of it.
    pending: Option<Writing>,
    malformed: usize,
    /// Set once input has ended: the deadline of accepted requests.
    ends: Option<Instant>,
}

struct Output<W> {
    write: Mutex<W>,
    /// The client no longer reads responses.
    gone: AtomicBool,
    /// Bytes of responses not read yet.
    unsent: AtomicUsize,
    in_flight: InFlight,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    /// True if too many responses are unread to run another request.
    fn is_full(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) > UNSENT
    }

    async fn write(&self, line: &[u8]) -> io::Result<()> {
        self.unsent.fetch_add(line.len(), Ordering::Relaxed);
        let written = self.write_now(line).await;
        self.unsent.fetch_sub(line.len(), Ordering::Relaxed);
        self.in_flight.changed.notify_one();
        written
    }

    async fn write_now(&self, line: &[u8]) -> io::Result<()> {
        let mut write = self.write.lock().await;
        let written = match write.write_all(line).await {
            Ok(()) => write.flush().await,
            failed => failed,
        };
        if written.is_err() {
            self.gone.store(true, Ordering::Relaxed);
        }
        written
    }
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> Connection<R, W> {
    pub(crate) fn new(
        read: R,
        write: W,
        limits: Limits,
        shutdown: Shutdown,
        server: Server,
    ) -> Self {
        let output = Output {
            write: Mutex::new(write),
            gone: AtomicBool::new(false),
            unsent: AtomicUsize::new(0),
            in_flight: InFlight::default(),
        };
        Self {
            lines: Lines::new(read, limits.line),
            output: Arc::new(output),
            queue: Queue::new(limits),
            server,
            limits,
            shutdown,
            pending: None,
            malformed: 0,
            ends: None,
        }
    }

    /// The next message to deliver; `None` at the end. Cancel safe: everything read is in `self`.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.is_late() {
                self.give_up().await;
            }
            if self.pending.is_some() {
                self.finish_writing().await.ok()?;
                continue;
            }
            let held_until = match self.queue.next(&self.output.in_flight, self.output.is_full()) {
                Next::Deliver(message) => return Some(*message),
                Next::Duplicate(id) => {
                    let error =
                        ErrorData::invalid_request("a request with this id is running", None);
                    self.answer(wire::error_line(&id_value(&id), &error));
                    continue;
                }
                Next::Empty | Next::Wait => None,
                Next::WaitUntil(due) => Some(due),
            };
            if self.is_over() {
                return None;
            }
            if let Some(message) = self.wait(held_until).await {
                return Some(message);
            }
        }
    }

    /// True if no client or, after the end of input, no request is left.
    fn is_over(&self) -> bool {
        let idle = self.queue.is_empty() && self.output.in_flight.is_empty();
        (self.ends.is_some() && idle) || self.output.gone.load(Ordering::Relaxed)
    }

    /// Stops reading. Subscriptions end with their last response and are not waited for.
    fn end(&mut self) {
        self.ends = Some(Instant::now() + self.limits.drain);
        self.server.finish();
    }

    /// True after the deadline of accepted requests.
    fn is_late(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    /// Answers accepted requests that never ran with an error, and asks rmcp to end, which gives
    /// running ones two more seconds.
    async fn give_up(&mut self) {
        let error = ErrorData::new(
            ErrorCode(code(ErrorKind::Busy)),
            "The server is ending. This request was not run; nothing was changed.",
            None,
        );
        while let Some(id) = self.queue.take_request() {
            let line = wire::error_line(&id_value(&id), &error);
            let output = Arc::clone(&self.output);
            tokio::spawn(async move { output.write(&line).await });
        }
        self.shutdown.abort.cancel();
        std::future::pending::<()>().await;
    }

    /// Continues to write the pending response, unless the deadline comes first.
    async fn finish_writing(&mut self) -> io::Result<()> {
        let late = until(self.ends);
        let Some(writing) = &mut self.pending else { return Ok(()) };
        tokio::select! {
            written = writing => {
                self.pending = None;
                written
            }
            () = self.shutdown.finish.cancelled(), if self.ends.is_none() => {
                self.end();
                Ok(())
            }
            () = late => Ok(()),
        }
    }

    /// Waits for an event. Returns a message that may overtake all others.
    async fn wait(&mut self, held_until: Option<Instant>) -> Option<ClientJsonRpcMessage> {
        let timer = until(held_until.into_iter().chain(self.ends).min());
        let reading = self.ends.is_none() && self.queue.has_room();
        let read = tokio::select! {
            () = self.output.in_flight.changed.notified() => return None,
            () = self.shutdown.finish.cancelled(), if self.ends.is_none() => Ok(Read::End),
            () = timer => return None,
            read = self.lines.read(), if reading => read,
        };
        match read {
            Ok(Read::Part) => None,
            Ok(Read::Line) => self.accept(),
            Ok(Read::TooLong) => {
                let reason = format!("a line may have at most {} bytes", self.limits.line);
                let error = ErrorData::invalid_request(reason, None);
                self.refuse(Some(wire::error_line(&Value::Null, &error)));
                None
            }
            Ok(Read::End) | Err(_) => {
                self.end();
                None
            }
        }
    }

    /// Queues the line that was just read. Notifications do not wait.
    fn accept(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = self.lines.line();
        if line.is_empty() {
            return None;
        }
        let bytes = line.len();
        match wire::read(line) {
            Ok(message) => {
                self.malformed = 0;
                match &message {
                    JsonRpcMessage::Notification(notification) => {
                        return self.notified(&notification.notification).then_some(message);
                    }
                    JsonRpcMessage::Request(request) => {
                        let exclusive = self.server.is_exclusive(&request.request);
                        self.queue.push(message, bytes, exclusive);
                    }
                    _ => self.queue.push(message, bytes, false),
                }
            }
            Err(malformed) => self.refuse(malformed.answer),
        }
        None
    }

    /// True if rmcp must get this notification. A running write is not cancelled: it finishes and
    /// is answered, so that the caller knows the outcome.
    fn notified(&mut self, notification: &ClientNotification) -> bool {
        let ClientNotification::CancelledNotification(cancelled) = notification else {
            return true;
        };
        let Some(id) = &cancelled.params.request_id else { return true };
        if self.queue.cancel(id) {
            return false;
        }
        match self.output.in_flight.mode(id) {
            Some(RunMode::Exclusive) => false,
            Some(RunMode::Shared | RunMode::Subscription) => {
                self.output.in_flight.completed(id);
                true
            }
            None => true,
        }
    }

    fn answer(&mut self, line: Vec<u8>) {
        let output = Arc::clone(&self.output);
        self.pending = Some(Box::pin(async move { output.write(&line).await }));
    }

    fn refuse(&mut self, answer: Option<Vec<u8>>) {
        if let Some(line) = answer {
            self.answer(line);
        }
        self.malformed += 1;
        if self.malformed >= self.limits.malformed {
            tracing::error!(lines = self.malformed, "too many malformed lines in a row; ending");
            self.end();
        }
    }
}

/// Resolves at that time; never without one.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The request that this notification confirms as a subscription.
fn acknowledged(notification: &ServerNotification) -> Option<RequestId> {
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

impl<R, W> Transport<RoleServer> for Connection<R, W>
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
            let written = output.write(&line).await;
            match &message {
                JsonRpcMessage::Response(response) => output.in_flight.completed(&response.id),
                JsonRpcMessage::Error(error) => {
                    if let Some(id) = &error.id {
                        output.in_flight.completed(id);
                    }
                }
                JsonRpcMessage::Notification(notification) => {
                    if let Some(id) = acknowledged(&notification.notification) {
                        output.in_flight.subscribed(&id);
                    }
                }
                JsonRpcMessage::Request(_) => {}
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.next().await
    }

    async fn close(&mut self) -> io::Result<()> {
        // An unread response may hold the lock forever.
        match tokio::time::timeout(CLOSE, self.output.write.lock()).await {
            Ok(mut write) => write.shutdown().await,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
