//! How many requests may run, wait and stand, in all and with one token.
//!
//! A token is known here by a keyed hash of its text: it is found before anybody looked it up, and
//! nothing that could be stolen is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::bodies::share;
use crate::limits::{Limits, Rate};
use crate::refusal::Refusal;

/// How many tokens are told apart. All further ones share their limits until others were not used
/// for a while.
const TOKENS: usize = 100_000;

pub(crate) struct Gates {
    hasher: RandomState,
    tokens: Mutex<HashMap<u64, Arc<Gate>>>,
    spare: Arc<Gate>,
    running: Arc<Semaphore>,
    waiting: Semaphore,
    limits: Limits,
}

/// The gate for one token.
pub(crate) struct Gate {
    rate: Option<DefaultDirectRateLimiter>,
    burst: Option<NonZeroU32>,
    running: Arc<Semaphore>,
    listening: Arc<Semaphore>,
    /// For large bodies.
    pub(crate) room: Arc<Semaphore>,
    /// Since the last sweep.
    used: AtomicBool,
}

/// A place among those that run, until it is dropped.
pub(crate) struct Place {
    _of_token: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
    /// A gate that somebody holds is not swept away, and neither are its counts.
    _gate: Arc<Gate>,
}

/// A place among the subscriptions that stand with a token, until it is dropped.
pub(crate) struct Listening {
    _of_token: OwnedSemaphorePermit,
    _gate: Arc<Gate>,
}

impl Gates {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            hasher: RandomState::new(),
            tokens: Mutex::default(),
            spare: Arc::new(Gate::new(limits)),
            running: Arc::new(Semaphore::new(limits.in_flight)),
            waiting: Semaphore::new(limits.queue),
            limits: limits.clone(),
        }
    }

    pub(crate) fn fingerprint(&self, token: &str) -> u64 {
        self.hasher.hash_one(token)
    }

    /// The gate of a token that counted before.
    pub(crate) fn known(&self, fingerprint: u64) -> Option<Arc<Gate>> {
        let gate = self.with(|tokens| tokens.get(&fingerprint).cloned())?;
        gate.used.store(true, Ordering::Relaxed);
        Some(gate)
    }

    /// The gate of a token that counts.
    pub(crate) fn admit(&self, fingerprint: u64) -> Arc<Gate> {
        self.with(|tokens| {
            if tokens.len() >= TOKENS && !tokens.contains_key(&fingerprint) {
                return self.spare.clone();
            }
            tokens.entry(fingerprint).or_insert_with(|| Arc::new(Gate::new(&self.limits))).clone()
        })
    }

    /// That token counts no more.
    pub(crate) fn forget(&self, fingerprint: u64) {
        self.with(|tokens| tokens.remove(&fingerprint));
    }

    /// Forgets the tokens that nobody used since the last time and whose rates have recovered.
    pub(crate) fn sweep(&self) {
        self.with(|tokens| {
            tokens.retain(|_, gate| {
                gate.used.swap(false, Ordering::Relaxed)
                    || Arc::strong_count(gate) > 1
                    || !gate.has_recovered()
            });
        });
    }

    /// A place to run in, now or a while later.
    pub(crate) async fn enter(&self, gate: &Arc<Gate>, due: Instant) -> Result<Place, Refusal> {
        let place =
            |of_token, of_all| Place { _of_token: of_token, _of_all: of_all, _gate: gate.clone() };
        if let Ok(of_token) = gate.running.clone().try_acquire_owned()
            && let Ok(of_all) = self.running.clone().try_acquire_owned()
        {
            return Ok(place(of_token, of_all));
        }
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return Err(Refusal::busy(
                "Too many requests wait already. Nothing was done; try again.",
            ));
        };
        let both = async {
            // The token's own first, so that who waits for themselves keeps nobody else waiting.
            let of_token = gate.running.clone().acquire_owned().await.ok()?;
            let of_all = self.running.clone().acquire_owned().await.ok()?;
            Some(place(of_token, of_all))
        };
        match timeout_at(due, both).await {
            Ok(Some(place)) => Ok(place),
            _ => {
                Err(Refusal::busy("The server was busy for too long. Nothing was done; try again."))
            }
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<u64, Arc<Gate>>) -> T) -> T {
        act(&mut self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Gate {
    fn new(limits: &Limits) -> Self {
        Self {
            rate: limits.requests.and_then(quota).map(RateLimiter::direct),
            burst: limits.requests.and_then(|rate| NonZeroU32::new(rate.burst)),
            running: Arc::new(Semaphore::new(limits.in_flight_per_token)),
            listening: Arc::new(Semaphore::new(limits.listens_per_token)),
            room: share(limits),
            used: AtomicBool::new(true),
        }
    }

    /// One more request with this token.
    pub(crate) fn count(&self) -> Result<(), Refusal> {
        let Some(rate) = &self.rate else { return Ok(()) };
        rate.check().map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            Refusal::rate_limited(
                "Too many requests with this token. Wait a little.",
                seconds(wait),
            )
        })
    }

    /// Is it as if no request had come yet? Only for a gate that goes then: this asks for the whole
    /// burst.
    fn has_recovered(&self) -> bool {
        let (Some(rate), Some(burst)) = (&self.rate, self.burst) else { return true };
        matches!(rate.check_n(burst), Ok(Ok(())))
    }

    /// A standing subscription, until what this gives is dropped.
    pub(crate) fn listen(self: &Arc<Self>) -> Result<Listening, Refusal> {
        let of_token = self.listening.clone().try_acquire_owned().map_err(|_| {
            let message = "Too many subscriptions stand with this token. End one first.";
            Refusal::rate_limited(message, 60)
        })?;
        Ok(Listening { _of_token: of_token, _gate: self.clone() })
    }
}

pub(crate) fn quota(rate: Rate) -> Option<Quota> {
    Some(Quota::with_period(rate.every)?.allow_burst(NonZeroU32::new(rate.burst)?))
}

/// Rounded up.
pub(crate) fn seconds(wait: std::time::Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
