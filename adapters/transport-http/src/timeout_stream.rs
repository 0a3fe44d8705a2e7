//! Socket with time limits for request headers and for unread responses.
//!
//! hyper has one limit for both idle connections and slow headers, used here for idle connections,
//! and none for unread responses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::config::HttpLimits;
use crate::open_connections::OpenConnection;

pub(crate) struct TimeoutStream<S> {
    stream: S,
    connection: Arc<OpenConnection>,
    header_timeout: Duration,
    unread_timeout: Duration,
    /// Deadline of the headers in progress.
    headers_due: Option<Instant>,
    read_timer: LazyTimer,
    /// Time by which the peer must have read a part of the response.
    write_due: Option<Instant>,
    write_timer: LazyTimer,
}

impl<S> TimeoutStream<S> {
    pub(crate) fn new(stream: S, connection: Arc<OpenConnection>, limits: &HttpLimits) -> Self {
        Self {
            stream,
            connection,
            header_timeout: limits.header_timeout,
            unread_timeout: limits.unread_timeout,
            headers_due: Some(Instant::now() + limits.header_timeout),
            read_timer: LazyTimer::default(),
            write_due: None,
            write_timer: LazyTimer::default(),
        }
    }

    /// Returns the outcome of a write, or an error if the peer has read nothing for too long.
    fn check_write<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            // The peer has read something, so its time starts again.
            if self.write_due.take().is_some() {
                self.connection.end_use(&self.connection.has_unread);
            }
            return written;
        }
        // The deadline of an earlier poll stays, or frequent polls would extend it.
        let due = *self.write_due.get_or_insert_with(|| Instant::now() + self.unread_timeout);
        self.connection.has_unread.store(true, Ordering::Relaxed);
        ready!(self.write_timer.poll(context, due));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        // Relaxed: the flag is set and read by the task of one connection.
        if this.connection.in_request.load(Ordering::Relaxed) {
            // Bodies have a time limit of their own, in the body reader.
            this.headers_due = None;
            return read;
        }
        if buffer.filled().len() > before && this.headers_due.is_none() {
            this.headers_due = Some(Instant::now() + this.header_timeout);
        }
        let Some(due) = this.headers_due else { return read };
        if read.is_ready() {
            // Checked here too, so that sending single bytes does not extend the time.
            let late = Instant::now() >= due;
            return if late { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { read };
        }
        // The timer wakes the task even if the peer stays silent.
        ready!(this.read_timer.poll(context, due));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.check_write(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.check_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Flushing a TCP socket never waits, so it needs no time limit.
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// Timer that is created on first use, because most connections never need it.
#[derive(Default)]
struct LazyTimer(Option<Pin<Box<Sleep>>>);

impl LazyTimer {
    fn poll(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // Most polls repeat the deadline, which needs no reset.
        if sleep.deadline() != due {
            sleep.as_mut().reset(due);
        }
        sleep.as_mut().poll(context)
    }
}
