//! Background tasks of a running server: periodic maintenance and the readiness check.
//!
//! They are separate tasks: the check must notice a maintenance that hangs or has ended.

use std::sync::Arc;
use std::time::Duration;

use reqlore_application::Maintenance;
use reqlore_domain::ports::Store;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

#[derive(Debug, Clone, Copy)]
struct Timing {
    interval: Duration,
    store_timeout: Duration,
    /// One tick may delete the audit rows of an hour.
    tick_timeout: Duration,
}

const TIMING: Timing = Timing {
    interval: Duration::from_secs(1),
    store_timeout: Duration::from_secs(3),
    tick_timeout: Duration::from_secs(30),
};
/// For the last audit rows, after everything else has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct BackgroundTasks {
    upkeep: Arc<Maintenance>,
    stop: Arc<Notify>,
    maintenance: JoinHandle<()>,
    readiness: Option<JoinHandle<()>>,
}

impl BackgroundTasks {
    /// With `ready`, checks whether the storage is usable, and publishes the result.
    pub(crate) fn start(
        upkeep: Maintenance,
        ready: Option<(Arc<dyn Store>, watch::Sender<bool>)>,
    ) -> Self {
        let upkeep = Arc::new(upkeep);
        let stop = Arc::<Notify>::default();
        let (ticked, last_tick) = watch::channel(Instant::now());
        let ticking = Arc::clone(&upkeep);
        let tick = move || {
            let upkeep = Arc::clone(&ticking);
            async move { upkeep.tick().await }
        };
        let maintenance = tokio::spawn(maintain(TIMING.interval, tick, Arc::clone(&stop), ticked));
        let readiness = ready.map(|(store, is_ready)| {
            let maintenance = MaintenanceState { task: maintenance.abort_handle(), last_tick };
            let probe = move || {
                let store = Arc::clone(&store);
                async move { store.epoch().await.map_err(|error| error.to_string()) }
            };
            tokio::spawn(check_readiness(TIMING, probe, maintenance, is_ready))
        });
        Self { upkeep, stop, maintenance, readiness }
    }

    pub(crate) async fn finish(self) {
        if let Some(readiness) = self.readiness {
            readiness.abort();
        }
        // A running tick is not aborted: its write may be half done.
        self.stop.notify_one();
        let last = async {
            let _ = self.maintenance.await;
            self.upkeep.finish().await;
        };
        if timeout(SHUTDOWN_TIMEOUT, last).await.is_err() {
            tracing::error!("the last audit rows were not written in time");
        }
    }
}

/// Ticks until `stop`. A tick that panics does not end the later ones.
async fn maintain<F>(
    every: Duration,
    tick: impl Fn() -> F,
    stop: Arc<Notify>,
    ticked: watch::Sender<Instant>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.notified() => return,
            _ = due.tick() => {}
        }
        if let Err(error) = tokio::spawn(tick()).await {
            tracing::error!(%error, "maintenance failed; the next tick tries again");
        }
        ticked.send_replace(Instant::now());
    }
}

struct MaintenanceState {
    task: AbortHandle,
    last_tick: watch::Receiver<Instant>,
}

impl MaintenanceState {
    fn check(&self, limit: Duration) -> Result<(), String> {
        if self.task.is_finished() {
            return Err("maintenance has ended; restart the server".to_owned());
        }
        let since = self.last_tick.borrow().elapsed();
        if since > limit {
            return Err(format!("maintenance has hung for {} s", since.as_secs()));
        }
        Ok(())
    }
}

/// Publishes whether the storage answers and maintenance runs. A probe that hangs is awaited, not
/// repeated.
async fn check_readiness<T, F>(
    timing: Timing,
    probe: impl Fn() -> F,
    maintenance: MaintenanceState,
    is_ready: watch::Sender<bool>,
) where
    F: Future<Output = Result<T, String>>,
{
    let mut due = interval(timing.interval);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let mut probe = std::pin::pin!(probe());
        let answer = if let Ok(answer) = timeout(timing.store_timeout, &mut probe).await {
            answer
        } else {
            let limit = timing.store_timeout;
            publish(&is_ready, Err(format!("the storage did not answer for {limit:?}")));
            probe.await
        };
        publish(&is_ready, answer.and_then(|_| maintenance.check(timing.tick_timeout)));
    }
}

/// Logs only changes.
fn publish(is_ready: &watch::Sender<bool>, state: Result<(), String>) {
    let was_ready = is_ready.send_replace(state.is_ok());
    match state {
        Err(why) if was_ready => tracing::error!(why, "the server is not ready"),
        Ok(()) if !was_ready => tracing::info!("the server is ready again"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const NO_TIMEOUT: Timing = Timing {
        interval: Duration::from_millis(1),
        store_timeout: Duration::MAX,
        tick_timeout: Duration::MAX,
    };

    fn start<R, A>(
        timing: Timing,
        tick: impl Fn() -> R + Send + Sync + 'static,
        probe: impl Fn() -> A + Send + Sync + 'static,
    ) -> (JoinHandle<()>, watch::Receiver<bool>)
    where
        R: Future<Output = ()> + Send + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (ticked, last_tick) = watch::channel(Instant::now());
        let task = tokio::spawn(maintain(timing.interval, tick, Arc::default(), ticked));
        let (is_ready, ready) = watch::channel(true);
        let maintenance = MaintenanceState { task: task.abort_handle(), last_tick };
        tokio::spawn(check_readiness(timing, probe, maintenance, is_ready));
        (task, ready)
    }

    async fn answers() -> Result<(), String> {
        Ok(())
    }

    #[tokio::test]
    async fn hanging_tick_makes_the_server_not_ready() {
        let timing = Timing { tick_timeout: Duration::ZERO, ..NO_TIMEOUT };
        let (_task, mut ready) = start(timing, std::future::pending::<()>, answers);
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
    }

    #[tokio::test]
    async fn ended_maintenance_makes_the_server_not_ready() {
        let (task, mut ready) = start(NO_TIMEOUT, || async {}, answers);
        assert!(*ready.borrow());
        task.abort();
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
    }

    #[tokio::test]
    async fn panicking_tick_is_not_the_last_one() {
        let (begun, mut seen) = watch::channel(0);
        let round = move || {
            begun.send_modify(|count| *count += 1);
            let number = *begun.borrow();
            async move { assert!(number > 1, "the first one panics") }
        };
        let (_task, ready) = start(NO_TIMEOUT, round, answers);
        seen.wait_for(|count| *count > 5).await.unwrap();
        assert!(*ready.borrow());
    }

    #[tokio::test]
    async fn hanging_storage_is_probed_once_until_it_answers() {
        let (asked, answer) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let (counted, wait) = (Arc::clone(&asked), Arc::clone(&answer));
        let question = move || {
            let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let wait = Arc::clone(&wait);
            async move {
                if is_first {
                    wait.notified().await;
                }
                Ok(())
            }
        };
        let timing = Timing { store_timeout: Duration::from_millis(1), ..NO_TIMEOUT };
        let (_task, mut ready) = start(timing, || async {}, question);
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        answer.notify_one();
        ready.wait_for(|is_ready| *is_ready).await.unwrap();
    }

    #[tokio::test]
    async fn failing_storage_is_not_ready() {
        let fails = || async { Err("gone".to_owned()) };
        let (_task, mut ready) = start(NO_TIMEOUT, || async {}, fails);
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
    }
}
