//! Background tasks of a running server: periodic maintenance and the readiness check.
//!
//! The tasks are separate, because the check must detect maintenance that hangs or has ended.

use std::sync::Arc;
use std::time::Duration;

use reqlore_application::Maintenance;
use reqlore_domain::ports::Store;
use reqlore_transport_http::Readiness;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

#[derive(Debug, Clone, Copy)]
struct TaskTiming {
    interval: Duration,
    store_timeout: Duration,
    /// Long enough to delete the audit rows of an hour in one tick.
    tick_timeout: Duration,
}

const TASK_TIMING: TaskTiming = TaskTiming {
    interval: Duration::from_secs(1),
    store_timeout: Duration::from_secs(3),
    tick_timeout: Duration::from_secs(30),
};
/// Time limit for writing the last audit rows, after all requests have ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct BackgroundTasks {
    maintenance: Arc<Maintenance>,
    stop: Arc<Notify>,
    maintenance_task: JoinHandle<()>,
    readiness_task: Option<JoinHandle<()>>,
}

impl BackgroundTasks {
    /// Starts periodic maintenance. With `readiness`, also checks repeatedly whether the storage is
    /// usable, and publishes the result.
    pub(crate) fn start(
        maintenance: Maintenance,
        readiness: Option<(Arc<dyn Store>, watch::Sender<Readiness>)>,
    ) -> Self {
        let maintenance = Arc::new(maintenance);
        let stop = Arc::<Notify>::default();
        // No tick has ended yet, so the time limit of the first one starts now.
        let (ticked, last_tick) = watch::channel(Instant::now());
        let ticking = Arc::clone(&maintenance);
        let maintenance_task = tokio::spawn(run_maintenance(
            TASK_TIMING.interval,
            move || tick_once(Arc::clone(&ticking)),
            Arc::clone(&stop),
            ticked,
        ));
        let readiness_task = readiness.map(|(store, state)| {
            let task = maintenance_task.abort_handle();
            let maintenance = Arc::clone(&maintenance);
            tokio::spawn(check_readiness(
                TASK_TIMING,
                move || probe_store(Arc::clone(&store), maintenance.is_failing()),
                MaintenanceState { task, last_tick },
                state,
            ))
        });
        Self { maintenance, stop, maintenance_task, readiness_task }
    }

    /// Stops both tasks and writes the last audit rows.
    pub(crate) async fn finish(self) {
        if let Some(readiness_task) = self.readiness_task {
            // A probe only reads, so it can be aborted at any point.
            readiness_task.abort();
        }
        // A running tick is not aborted: its write may be half done.
        self.stop.notify_one();
        let finishing = async {
            let _ = self.maintenance_task.await;
            self.maintenance.finish().await;
        };
        if timeout(SHUTDOWN_TIMEOUT, finishing).await.is_err() {
            tracing::error!("shutdown: the last audit rows were not written in time");
        }
    }
}

async fn tick_once(maintenance: Arc<Maintenance>) {
    maintenance.tick().await;
}

async fn probe_store(store: Arc<dyn Store>, has_failed_writes: bool) -> Result<(), NotReady> {
    if let Some(damage) = store.known_damage() {
        return Err((Readiness::Damaged, damage));
    }
    if has_failed_writes {
        let reason =
            "storage: audit rows cannot be written; free disk space, or see the server log";
        return Err((Readiness::Unavailable, reason.to_owned()));
    }
    let probed = store.identity_epoch().await;
    probed.map(drop).map_err(|error| (Readiness::Unavailable, error.to_string()))
}

/// Ticks until `stop`. A panicking tick does not prevent later ones.
async fn run_maintenance<F>(
    every: Duration,
    tick: impl Fn() -> F,
    stop: Arc<Notify>,
    ticked: watch::Sender<Instant>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut timer = interval(every);
    // After a long tick, the missed ones are not made up for.
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.notified() => return,
            _ = timer.tick() => {}
        }
        // A separate task, so that a panic does not end this loop.
        if let Err(error) = tokio::spawn(tick()).await {
            tracing::error!(%error, "maintenance failed; retrying at the next tick");
        }
        // Also after a panic: only a tick that hangs makes the server not ready.
        ticked.send_replace(Instant::now());
    }
}

/// A state other than [`Readiness::Ready`], and the reason for the log.
type NotReady = (Readiness, String);

struct MaintenanceState {
    task: AbortHandle,
    last_tick: watch::Receiver<Instant>,
}

impl MaintenanceState {
    /// Returns an error if maintenance has ended or its last tick is older than `limit`.
    fn check_health(&self, limit: Duration) -> Result<(), NotReady> {
        if self.task.is_finished() {
            let reason = "maintenance: the task has ended; restart the server";
            return Err((Readiness::Unavailable, reason.to_owned()));
        }
        let since = self.last_tick.borrow().elapsed();
        if since > limit {
            let reason = format!("maintenance: no tick for {} s", since.as_secs());
            return Err((Readiness::Unavailable, reason));
        }
        Ok(())
    }
}

/// Publishes repeatedly whether the storage responds and maintenance runs. A hanging probe is
/// awaited, not repeated, so that probes do not pile up.
async fn check_readiness<F>(
    timing: TaskTiming,
    probe: impl Fn() -> F,
    maintenance: MaintenanceState,
    readiness: watch::Sender<Readiness>,
) where
    F: Future<Output = Result<(), NotReady>>,
{
    let mut timer = interval(timing.interval);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        let mut probe = std::pin::pin!(probe());
        let outcome = if let Ok(outcome) = timeout(timing.store_timeout, &mut probe).await {
            outcome
        } else {
            let limit = timing.store_timeout;
            let reason = format!("storage: no response for {limit:?}");
            publish_readiness(&readiness, Err((Readiness::Unavailable, reason)));
            probe.await
        };
        let state = match outcome {
            Ok(()) => maintenance.check_health(timing.tick_timeout),
            Err(reason) => Err(reason),
        };
        publish_readiness(&readiness, state);
    }
}

/// Publishes the state, and logs it only if it has changed.
fn publish_readiness(readiness: &watch::Sender<Readiness>, state: Result<(), NotReady>) {
    let (new, reason) = match state {
        Ok(()) => (Readiness::Ready, None),
        Err((new, reason)) => (new, Some(reason)),
    };
    let old = readiness.send_replace(new);
    match reason {
        Some(reason) if old != new => tracing::error!(reason, "the server is not ready"),
        None if old != new => tracing::info!("the server is ready again"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const NO_TIMEOUT: TaskTiming = TaskTiming {
        interval: Duration::from_millis(1),
        store_timeout: Duration::MAX,
        tick_timeout: Duration::MAX,
    };

    fn start<R, A>(
        timing: TaskTiming,
        tick: impl Fn() -> R + Send + Sync + 'static,
        probe: impl Fn() -> A + Send + Sync + 'static,
    ) -> (JoinHandle<()>, watch::Receiver<Readiness>)
    where
        R: Future<Output = ()> + Send + 'static,
        A: Future<Output = Result<(), NotReady>> + Send + 'static,
    {
        let (ticked, last_tick) = watch::channel(Instant::now());
        let task = tokio::spawn(run_maintenance(timing.interval, tick, Arc::default(), ticked));
        let (readiness, ready) = watch::channel(Readiness::Ready);
        let maintenance = MaintenanceState { task: task.abort_handle(), last_tick };
        tokio::spawn(check_readiness(timing, probe, maintenance, readiness));
        (task, ready)
    }

    async fn successful_probe() -> Result<(), NotReady> {
        Ok(())
    }

    #[tokio::test]
    async fn hanging_tick_makes_server_not_ready() {
        let timing = TaskTiming { tick_timeout: Duration::ZERO, ..NO_TIMEOUT };
        let (_task, mut ready) = start(timing, std::future::pending::<()>, successful_probe);
        ready.wait_for(|state| *state != Readiness::Ready).await.unwrap();
    }

    #[tokio::test]
    async fn ended_maintenance_makes_server_not_ready() {
        let (task, mut ready) = start(NO_TIMEOUT, || async {}, successful_probe);
        assert_eq!(*ready.borrow(), Readiness::Ready);
        task.abort();
        ready.wait_for(|state| *state != Readiness::Ready).await.unwrap();
    }

    #[tokio::test]
    async fn panicking_tick_does_not_stop_maintenance() {
        let (started, mut seen) = watch::channel(0);
        let tick = move || {
            started.send_modify(|count| *count += 1);
            let number = *started.borrow();
            async move { assert!(number > 1, "the first one panics") }
        };
        let (_task, ready) = start(NO_TIMEOUT, tick, successful_probe);
        seen.wait_for(|count| *count > 5).await.unwrap();
        assert_eq!(*ready.borrow(), Readiness::Ready);
    }

    #[tokio::test]
    async fn hanging_storage_is_probed_once_until_it_responds() {
        let (probes, response) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let (counter, waiting) = (Arc::clone(&probes), Arc::clone(&response));
        let probe = move || {
            let is_first = counter.fetch_add(1, Ordering::Relaxed) == 0;
            let waiting = Arc::clone(&waiting);
            async move {
                if is_first {
                    waiting.notified().await;
                }
                Ok(())
            }
        };
        let timing = TaskTiming { store_timeout: Duration::from_millis(1), ..NO_TIMEOUT };
        let (_task, mut ready) = start(timing, || async {}, probe);
        ready.wait_for(|state| *state != Readiness::Ready).await.unwrap();
        assert_eq!(probes.load(Ordering::Relaxed), 1);
        response.notify_one();
        ready.wait_for(|state| *state == Readiness::Ready).await.unwrap();
    }

    #[tokio::test]
    async fn failing_storage_makes_server_not_ready() {
        let fails = || async { Err((Readiness::Damaged, "gone".to_owned())) };
        let (_task, mut ready) = start(NO_TIMEOUT, || async {}, fails);
        ready.wait_for(|state| *state != Readiness::Ready).await.unwrap();
    }
}
