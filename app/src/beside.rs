//! What is done beside the calls for as long as a server runs: the rounds of upkeep, and the
//! question whether the server is of use.
//!
//! Trap: the two are tasks of their own. A round that hangs in the storage, or that ended for good,
//! is what the question is there to find.

use std::sync::Arc;
use std::time::Duration;

use reqlore_application::Upkeep;
use reqlore_domain::ports::Store;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How often, and how long something may take.
#[derive(Debug, Clone, Copy)]
struct Times {
    every: Duration,
    /// The storage, to say that it is there.
    answer: Duration,
    /// A round: an hour's old rows are a lot of work.
    round: Duration,
}

const TIMES: Times = Times {
    every: Duration::from_secs(1),
    answer: Duration::from_secs(3),
    round: Duration::from_secs(30),
};
/// How long the last rows of the audit may take, when everything else has ended.
const LAST: Duration = Duration::from_secs(5);

/// Whether the server is of use; whoever wants to know looks at it.
pub(crate) type Ready = watch::Sender<bool>;

/// What runs beside the calls.
pub(crate) struct Beside {
    upkeep: Arc<Upkeep>,
    stop: Arc<Notify>,
    rounds: JoinHandle<()>,
    readiness: Option<JoinHandle<()>>,
}

impl Beside {
    /// Asks also whether the storage can be used, where somebody wants to know.
    pub(crate) fn start(upkeep: Upkeep, ready: Option<(Arc<dyn Store>, Ready)>) -> Self {
        let upkeep = Arc::new(upkeep);
        let stop = Arc::<Notify>::default();
        let (done, last) = watch::channel(Instant::now());
        let round = Arc::clone(&upkeep);
        let tick = move || {
            let upkeep = Arc::clone(&round);
            async move { upkeep.tick().await }
        };
        let rounds = tokio::spawn(rounds(TIMES.every, tick, Arc::clone(&stop), done));
        let readiness = ready.map(|(store, is_ready)| {
            let rounds = Rounds { task: rounds.abort_handle(), last };
            let asked = move || {
                let store = Arc::clone(&store);
                async move { store.epoch().await.map_err(|error| error.to_string()) }
            };
            tokio::spawn(readiness(TIMES, asked, rounds, is_ready))
        });
        Self { upkeep, stop, rounds, readiness }
    }

    pub(crate) async fn finish(self) {
        if let Some(readiness) = self.readiness {
            readiness.abort();
        }
        // A round that runs is not broken off: what it writes may be half done.
        self.stop.notify_one();
        let last = async {
            let _ = self.rounds.await;
            self.upkeep.finish().await;
        };
        if timeout(LAST, last).await.is_err() {
            tracing::error!("the last rows of the audit were not written in time");
        }
    }
}

/// A round every second until it is told to stop. One that panics ends alone.
async fn rounds<F>(
    every: Duration,
    round: impl Fn() -> F,
    stop: Arc<Notify>,
    done: watch::Sender<Instant>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut times = interval(every);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.notified() => return,
            _ = times.tick() => {}
        }
        if let Err(error) = tokio::spawn(round()).await {
            tracing::error!(%error, "a round of upkeep failed; the next one tries again");
        }
        done.send_replace(Instant::now());
    }
}

/// What is known of the rounds from outside.
struct Rounds {
    task: AbortHandle,
    /// When one was last done.
    last: watch::Receiver<Instant>,
}

impl Rounds {
    fn check(&self, longest: Duration) -> Result<(), String> {
        if self.task.is_finished() {
            return Err("upkeep has ended; restart the server".to_owned());
        }
        let since = self.last.borrow().elapsed();
        if since > longest {
            return Err(format!("a round of upkeep has hung for {} s", since.as_secs()));
        }
        Ok(())
    }
}

/// Keeps `is_ready` true to what is. A question that hangs is not asked a second time.
async fn readiness<T, F>(times: Times, asked: impl Fn() -> F, rounds: Rounds, is_ready: Ready)
where
    F: Future<Output = Result<T, String>>,
{
    let mut due = interval(times.every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let mut answer = std::pin::pin!(asked());
        let answered = if let Ok(answered) = timeout(times.answer, &mut answer).await {
            answered
        } else {
            say(&is_ready, Err(format!("the storage did not answer for {:?}", times.answer)));
            answer.await
        };
        say(&is_ready, answered.and_then(|_| rounds.check(times.round)));
    }
}

/// A change goes to the log.
fn say(is_ready: &Ready, state: Result<(), String>) {
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

    /// Nothing is late.
    const PATIENT: Times =
        Times { every: Duration::from_millis(1), answer: Duration::MAX, round: Duration::MAX };

    /// Rounds of these, and whether the server is ready, asked like this.
    fn start<R, A>(
        times: Times,
        round: impl Fn() -> R + Send + Sync + 'static,
        asked: impl Fn() -> A + Send + Sync + 'static,
    ) -> (JoinHandle<()>, watch::Receiver<bool>)
    where
        R: Future<Output = ()> + Send + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (done, last) = watch::channel(Instant::now());
        let task = tokio::spawn(rounds(times.every, round, Arc::default(), done));
        let (is_ready, looked) = watch::channel(true);
        let rounds = Rounds { task: task.abort_handle(), last };
        tokio::spawn(readiness(times, asked, rounds, is_ready));
        (task, looked)
    }

    async fn well() -> Result<(), String> {
        Ok(())
    }

    #[tokio::test]
    async fn a_round_that_hangs_makes_the_server_not_ready() {
        let times = Times { round: Duration::ZERO, ..PATIENT };
        let (_rounds, mut ready) = start(times, std::future::pending::<()>, well);
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
    }

    #[tokio::test]
    async fn rounds_that_ended_make_the_server_not_ready() {
        let (rounds, mut ready) = start(PATIENT, || async {}, well);
        assert!(*ready.borrow());
        rounds.abort();
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
    }

    #[tokio::test]
    async fn a_round_that_panics_is_not_the_last_one() {
        let (begun, mut seen) = watch::channel(0);
        let round = move || {
            begun.send_modify(|count| *count += 1);
            let number = *begun.borrow();
            async move { assert!(number > 1, "the first one panics") }
        };
        let (_rounds, ready) = start(PATIENT, round, well);
        seen.wait_for(|count| *count > 5).await.unwrap();
        assert!(*ready.borrow());
    }

    #[tokio::test]
    async fn a_storage_that_hangs_is_asked_once_and_not_ready_until_it_answers() {
        let (asked, answers) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let (counted, wait) = (Arc::clone(&asked), Arc::clone(&answers));
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
        let times = Times { answer: Duration::from_millis(1), ..PATIENT };
        let (_rounds, mut ready) = start(times, || async {}, question);
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        answers.notify_one();
        ready.wait_for(|is_ready| *is_ready).await.unwrap();
    }

    #[tokio::test]
    async fn a_storage_that_fails_is_not_ready() {
        let fails = || async { Err("gone".to_owned()) };
        let (_rounds, mut ready) = start(PATIENT, || async {}, fails);
        ready.wait_for(|is_ready| !is_ready).await.unwrap();
    }
}
