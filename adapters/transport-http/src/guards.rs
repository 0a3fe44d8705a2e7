//! Counts and tasks that outlive a cancelled request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use reqlore_domain::ports::transport::TrafficCounters;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Increments a gauge and decrements it on drop.
pub(crate) struct GaugeGuard(Arc<TrafficCounters>, fn(&TrafficCounters) -> &AtomicU64);

impl GaugeGuard {
    pub(crate) fn new(
        counters: &Arc<TrafficCounters>,
        gauge: fn(&TrafficCounters) -> &AtomicU64,
    ) -> Self {
        // Relaxed: metrics need no order between counters.
        gauge(counters).fetch_add(1, Ordering::Relaxed);
        Self(counters.clone(), gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A running request. On drop it continues in a separate task.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    pub(crate) handling: Option<BoxFuture<'static, T>>,
    pub(crate) work: TaskTracker,
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // Taken out during the poll, so that a future that panics is not polled again.
        let Some(mut handling) = this.handling.take() else { return Poll::Pending };
        let polled = handling.as_mut().poll(context);
        if polled.is_pending() {
            this.handling = Some(handling);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handling) = self.handling.take()
            // Outside a runtime the future cannot be spawned, only dropped.
            && let Ok(runtime) = Handle::try_current()
        {
            // The tracker lets a shutdown wait for this task.
            self.work.spawn_on(handling, &runtime);
        }
    }
}
