//! rmcp's `Transport` over lines: reads, queues, answers what is malformed, and knows the end.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_mcp::wire;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Limits;
use crate::lines::{Lines, Read};
use crate::order::{Flight, Next, Queue};

type Writing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Tells which requests must run alone.
type IsExclusive = Box<dyn Fn(&ClientRequest) -> bool + Send>;

pub(crate) struct Connection<R, W> {
    lines: Lines<R>,
    output: Arc<Output<W>>,
    queue: Queue,
    is_exclusive: IsExclusive,
    limits: Limits,
    /// Asks to finish.
    stop: CancellationToken,
    /// An answer of our own on its way out. Kept here, because `receive` may be dropped and called
    /// again in the middle of it.
    pending: Option<Writing>,
    malformed: usize,
    /// Set when no more input is taken: until when accepted requests may take.
    ends: Option<Instant>,
}

struct Output<W> {
    write: Mutex<W>,
    /// Nobody reads our answers any more.
    gone: AtomicBool,
    flight: Flight,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    async fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut write = self.write.lock().await;
        let written = match write.write_all(line).await {
            Ok(()) => write.flush().await,
            failed => failed,
        };
        if written.is_err() {
            self.gone.store(true, Ordering::Relaxed);
            self.flight.changed.notify_one();
        }
        written
    }
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> Connection<R, W> {
    pub(crate) fn new(
        read: R,
        write: W,
        limits: Limits,
        stop: CancellationToken,
        is_exclusive: impl Fn(&ClientRequest) -> bool + Send + 'static,
    ) -> Self {
        let gone = AtomicBool::new(false);
        let output = Output { write: Mutex::new(write), gone, flight: Flight::default() };
        Self {
            lines: Lines::new(read, limits.line),
            output: Arc::new(output),
            queue: Queue::new(limits),
            is_exclusive: Box::new(is_exclusive),
            limits,
            stop,
            pending: None,
            malformed: 0,
            ends: None,
        }
    }

    /// The next message to deliver; `None` at the end. Cancel safe: everything read is in `self`.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(writing) = &mut self.pending {
                let written = writing.await;
                self.pending = None;
                written.ok()?;
            }
            let held_until = match self.queue.next(&self.output.flight) {
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

    /// Is there nobody to answer, or nothing left to answer, or no time left for it?
    fn is_over(&self) -> bool {
        let idle = self.queue.is_empty() && self.output.flight.is_empty();
        let ended = self.ends.is_some_and(|ends| idle || Instant::now() >= ends);
        ended || self.output.gone.load(Ordering::Relaxed)
    }

    /// Waits until something changes; gives a message that may overtake all others.
    async fn wait(&mut self, held_until: Option<Instant>) -> Option<ClientJsonRpcMessage> {
        let until = held_until.into_iter().chain(self.ends).min();
        let timer = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let reading = self.ends.is_none() && self.queue.has_room();
        let read = tokio::select! {
            () = self.output.flight.changed.notified() => return None,
            () = self.stop.cancelled(), if self.ends.is_none() => Ok(Read::End),
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
                self.ends = Some(Instant::now() + self.limits.drain);
                None
            }
        }
    }

    /// Queues the line that was just read; notifications need not wait.
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
                        let exclusive = (self.is_exclusive)(&request.request);
                        self.queue.push(message, bytes, exclusive);
                    }
                    _ => self.queue.push(message, bytes, false),
                }
            }
            Err(malformed) => self.refuse(malformed.answer),
        }
        None
    }

    /// Shall rmcp hear of this notification? A write that runs is not cancelled half-way: it
    /// finishes and is answered, so that the caller knows what happened.
    fn notified(&mut self, notification: &ClientNotification) -> bool {
        let ClientNotification::CancelledNotification(cancelled) = notification else {
            return true;
        };
        let Some(id) = &cancelled.params.request_id else {
            return true;
        };
        if self.queue.cancel(id) {
            return false;
        }
        match self.output.flight.is_exclusive(id) {
            Some(true) => false,
            Some(false) => {
                self.output.flight.landed(id);
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
            self.ends = Some(Instant::now() + self.limits.drain);
        }
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
                JsonRpcMessage::Response(response) => output.flight.landed(&response.id),
                JsonRpcMessage::Error(error) => {
                    if let Some(id) = &error.id {
                        output.flight.landed(id);
                    }
                }
                _ => {}
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.next().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.write.lock().await.shutdown().await
    }
}
