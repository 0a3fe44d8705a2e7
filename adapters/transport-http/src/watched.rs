//! A socket that gives up on peers who take their time: with the headers of a request, or with
//! reading an answer.
//!
//! hyper knows one time for both an idle connection and headers that do not end, and none for
//! answers that nobody reads. So hyper's is the one for idle connections, and the others are here.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Is a request between its headers and its answer? Shared with whoever answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Serving(Arc<AtomicBool>);

impl Serving {
    pub(crate) fn set(&self, serving: bool) {
        self.0.store(serving, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Watched<S> {
    stream: S,
    serving: Serving,
    header_time: Duration,
    unread: Duration,
    /// Until when the headers must have ended that began to come.
    headers_due: Option<Instant>,
    reading: Timer,
    /// Until when some of the answer must have been taken.
    taken_due: Option<Instant>,
    writing: Timer,
}

impl<S> Watched<S> {
    pub(crate) fn new(
        stream: S,
        serving: Serving,
        header_time: Duration,
        unread: Duration,
    ) -> Self {
        let headers_due = Some(Instant::now() + header_time);
        let (reading, writing) = (Timer::default(), Timer::default());
        Self {
            stream,
            serving,
            header_time,
            unread,
            headers_due,
            reading,
            taken_due: None,
            writing,
        }
    }

    /// An attempt to write, or the error that the peer takes nothing.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.taken_due = None;
            return written;
        }
        let due = *self.taken_due.get_or_insert_with(|| Instant::now() + self.unread);
        ready!(self.writing.poll(context, due));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if this.serving.get() {
            this.headers_due = None;
            return read;
        }
        if buffer.filled().len() > before && this.headers_due.is_none() {
            this.headers_due = Some(Instant::now() + this.header_time);
        }
        let Some(due) = this.headers_due else { return read };
        if read.is_ready() {
            // Also who sends a byte now and then is late some time.
            let late = Instant::now() >= due;
            return if late { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { read };
        }
        ready!(this.reading.poll(context, due));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// A timer that costs nothing until somebody waits.
#[derive(Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    fn poll(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if sleep.deadline() != due {
            sleep.as_mut().reset(due);
        }
        sleep.as_mut().poll(context)
    }
}
