//! Limits of each token and each address: rates, running and waiting requests, subscriptions.
//!
//! A token is identified by a keyed hash of its text, so it can be limited before it is looked up
//! and nothing worth stealing is kept. An unknown token may be valid, so clients that guess must
//! not use up the shared look-ups: an address with too many failures has a small limit of its own.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::error_response::ErrorResponse;
use crate::request_body::token_budget;
use crate::{Limits, Rate};

/// Tokens with limits of their own. All further ones share one set of limits until others were
/// unused for a while.
const MAX_TOKENS: usize = 100_000;
/// Addresses with limits of their own; beyond that a failed login is refused for a minute.
const MAX_ADDRESSES: usize = 100_000;
/// An address that guesses gets this fraction of all look-ups.
const GUESSER_LOOK_UP_DIVISOR: u32 = 10;
/// The fingerprint of all tokens beyond [`MAX_TOKENS`].
const OVERFLOW_FINGERPRINT: u64 = 0;

pub(crate) struct TokenLimits {
    hasher: RandomState,
    tokens: Mutex<HashMap<u64, Arc<TokenLimit>>>,
    overflow: Arc<TokenLimit>,
    rate: Option<DefaultKeyedRateLimiter<u64>>,
    running: Arc<Semaphore>,
    waiting: Semaphore,
    limits: Limits,
}

pub(crate) struct TokenLimit {
    fingerprint: u64,
    running: Arc<Semaphore>,
    subscriptions: Arc<Semaphore>,
    pub(crate) body_budget: Arc<Semaphore>,
    /// Set on use, cleared by a sweep.
    was_used: AtomicBool,
}

/// Permits of a token's own limit and of the limit of all tokens.
pub(crate) type PermitPair = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Permits to run until they are dropped. The limit is held too, or a sweep could remove it and its
/// counts.
pub(crate) type RunPermit = (PermitPair, Arc<TokenLimit>);

/// The permit of an open subscription.
pub(crate) type SubscriptionPermit = (OwnedSemaphorePermit, Arc<TokenLimit>);

/// Waits for permits of both until then.
pub(crate) async fn acquire_both(
    own: &Arc<Semaphore>,
    all: &Arc<Semaphore>,
    count: u32,
    due: Instant,
) -> Option<PermitPair> {
    let both = async {
        // The token's own first, so that a token at its limit does not delay others.
        let own = own.clone().acquire_many_owned(count).await.ok()?;
        Some((own, all.clone().acquire_many_owned(count).await.ok()?))
    };
    timeout_at(due, both).await.ok().flatten()
}

impl TokenLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            hasher: RandomState::new(),
            tokens: Mutex::default(),
            overflow: Arc::new(TokenLimit::new(OVERFLOW_FINGERPRINT, limits)),
            rate: limits.requests.and_then(to_quota).map(RateLimiter::keyed),
            running: Arc::new(Semaphore::new(limits.in_flight)),
            waiting: Semaphore::new(limits.queue),
            limits: limits.clone(),
        }
    }

    pub(crate) fn hash_token(&self, token: &str) -> u64 {
        self.hasher.hash_one(token)
    }

    /// The limit of a token that was valid before.
    pub(crate) fn find_valid(&self, fingerprint: u64) -> Option<Arc<TokenLimit>> {
        let limit = self.lock_tokens().get(&fingerprint).cloned()?;
        limit.was_used.store(true, Ordering::Relaxed);
        Some(limit)
    }

    /// The limit of a valid token.
    pub(crate) fn insert_valid(&self, fingerprint: u64) -> Arc<TokenLimit> {
        let mut tokens = self.lock_tokens();
        if tokens.len() >= MAX_TOKENS && !tokens.contains_key(&fingerprint) {
            return self.overflow.clone();
        }
        let new = || Arc::new(TokenLimit::new(fingerprint, &self.limits));
        tokens.entry(fingerprint).or_insert_with(new).clone()
    }

    /// Removes a token that is no longer valid.
    pub(crate) fn remove_invalid(&self, fingerprint: u64) {
        self.lock_tokens().remove(&fingerprint);
    }

    /// Counts one more request of a token.
    pub(crate) fn count_request(&self, limit: &TokenLimit) -> Result<(), ErrorResponse> {
        let Some(rate) = &self.rate else { return Ok(()) };
        rate.check_key(&limit.fingerprint).map_err(|until| {
            let message = "Too many requests with this token. Wait a little.";
            ErrorResponse::rate_limited(message, seconds_until(&until))
        })
    }

    /// Removes tokens that were unused since the last sweep and whose rates have recovered.
    pub(crate) fn remove_unused(&self) {
        if let Some(rate) = &self.rate {
            rate.retain_recent();
            rate.shrink_to_fit();
        }
        self.lock_tokens().retain(|_, limit| {
            limit.was_used.swap(false, Ordering::Relaxed) || Arc::strong_count(limit) > 1
        });
    }

    /// Waits for permits to run.
    pub(crate) async fn acquire_run_permit(
        &self,
        limit: &Arc<TokenLimit>,
        due: Instant,
    ) -> Result<RunPermit, ErrorResponse> {
        if let Ok(of_token) = limit.running.clone().try_acquire_owned()
            && let Ok(of_all) = self.running.clone().try_acquire_owned()
        {
            return Ok(((of_token, of_all), limit.clone()));
        }
        let Ok(_waiting) = self.waiting.try_acquire() else {
            let message = "Too many requests wait already. Nothing was done; try again.";
            return Err(ErrorResponse::busy(message));
        };
        let Some(permits) = acquire_both(&limit.running, &self.running, 1, due).await else {
            let message = "The server was busy for too long. Nothing was done; try again.";
            return Err(ErrorResponse::busy(message));
        };
        Ok((permits, limit.clone()))
    }

    fn lock_tokens(&self) -> MutexGuard<'_, HashMap<u64, Arc<TokenLimit>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenLimit {
    fn new(fingerprint: u64, limits: &Limits) -> Self {
        Self {
            fingerprint,
            running: Arc::new(Semaphore::new(limits.in_flight_per_token)),
            subscriptions: Arc::new(Semaphore::new(limits.listens_per_token)),
            body_budget: token_budget(limits),
            was_used: AtomicBool::new(true),
        }
    }

    pub(crate) fn acquire_subscription(
        self: &Arc<Self>,
    ) -> Result<SubscriptionPermit, ErrorResponse> {
        let Ok(permit) = self.subscriptions.clone().try_acquire_owned() else {
            let message = "Too many subscriptions are open with this token. End one first.";
            return Err(ErrorResponse::rate_limited(message, 60));
        };
        Ok((permit, self.clone()))
    }
}

/// Limits failed logins by address, and look-ups of tokens that were not valid before.
pub(crate) struct LoginLimits {
    failed: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Addresses with too many failures, and until when.
    guessing_until: Mutex<HashMap<IpAddr, Instant>>,
    guesser_look_ups: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Of all other addresses together.
    look_ups: Option<DefaultDirectRateLimiter>,
}

impl LoginLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let share = limits.look_ups.map(|Rate { every, burst }| Rate {
            every: every.saturating_mul(GUESSER_LOOK_UP_DIVISOR),
            burst: (burst / GUESSER_LOOK_UP_DIVISOR).max(1),
        });
        Self {
            failed: limits.failed_logins.and_then(to_quota).map(RateLimiter::keyed),
            guessing_until: Mutex::default(),
            guesser_look_ups: share.and_then(to_quota).map(RateLimiter::keyed),
            look_ups: limits.look_ups.and_then(to_quota).map(RateLimiter::direct),
        }
    }

    /// Counts a look-up of a token that was not valid before.
    pub(crate) fn count_look_up(&self, address: IpAddr) -> Result<(), ErrorResponse> {
        let address = address_network(address);
        let until = self.lock_guessing().get(&address).copied();
        let checked = if until.is_some_and(|until| Instant::now() < until) {
            self.guesser_look_ups.as_ref().map(|look_ups| look_ups.check_key(&address))
        } else {
            self.look_ups.as_ref().map(DefaultDirectRateLimiter::check)
        };
        checked.unwrap_or(Ok(())).map_err(|until| {
            let message = "Too many logins just now. Nothing was done; try again.";
            ErrorResponse::rate_limited(message, seconds_until(&until))
        })
    }

    /// Counts a failed login. Returns the seconds to wait if there were too many.
    pub(crate) fn count_failure(&self, address: IpAddr) -> Option<u64> {
        let failed = self.failed.as_ref()?;
        let address = address_network(address);
        if failed.len() >= MAX_ADDRESSES {
            failed.retain_recent();
            if failed.len() >= MAX_ADDRESSES {
                return Some(60);
            }
        }
        let until = failed.check_key(&address).err()?;
        let mut guessing = self.lock_guessing();
        if guessing.len() < MAX_ADDRESSES || guessing.contains_key(&address) {
            guessing.insert(address, Instant::now() + wait_time(&until));
        }
        Some(seconds_until(&until))
    }

    pub(crate) fn remove_unused(&self) {
        for limiter in [&self.failed, &self.guesser_look_ups].into_iter().flatten() {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
        let now = Instant::now();
        let mut guessing = self.lock_guessing();
        guessing.retain(|_, until| *until > now);
        guessing.shrink_to_fit();
    }

    fn lock_guessing(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.guessing_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An IPv6 address as its /64 network, since one host has many of them.
pub(crate) fn address_network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        IpAddr::V4(_) => address,
    }
}

fn to_quota(rate: Rate) -> Option<Quota> {
    Some(Quota::with_period(rate.every)?.allow_burst(NonZeroU32::new(rate.burst)?))
}

type Exceeded = NotUntil<<DefaultClock as Clock>::Instant>;

fn wait_time(until: &Exceeded) -> Duration {
    until.wait_time_from(DefaultClock::default().now())
}

/// Rounded up.
fn seconds_until(until: &Exceeded) -> u64 {
    let wait = wait_time(until);
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
