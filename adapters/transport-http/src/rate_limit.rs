//! Limits per token and per address: rates, running and waiting requests, subscriptions.
//!
//! A keyed hash identifies a token, so that it can be limited before its look-up and no secret is
//! kept. An unknown token may be valid, so clients that guess must not use up the shared look-ups:
//! an address with too many failures has a separate, small limit.

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
use tokio::time::Instant;

use crate::config::{HttpLimits, RateLimit};
use crate::error_response::ErrorResponse;
use crate::permits::{PermitPair, acquire_both};
use crate::request_body::token_budget;

/// Maximum tokens with separate limits. Further tokens share one limit until unused ones are
/// removed.
const MAX_TOKENS: usize = 100_000;
/// Maximum addresses with separate limits. Beyond it, a failed login is rejected for a minute.
const MAX_ADDRESSES: usize = 100_000;
/// An address that guesses tokens gets this fraction of all look-ups.
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
    limits: HttpLimits,
}

pub(crate) struct TokenLimit {
    fingerprint: u64,
    running: Arc<Semaphore>,
    subscriptions: Arc<Semaphore>,
    pub(crate) body_budget: Arc<Semaphore>,
    /// Set on use, cleared by [`TokenLimits::remove_unused`].
    was_used: AtomicBool,
}

/// Permits to run until they are dropped. They hold the token's limit, so that
/// [`TokenLimits::remove_unused`] keeps it and its counts.
pub(crate) type RunPermit = (PermitPair, Arc<TokenLimit>);

/// Permit of an open subscription.
pub(crate) type SubscriptionPermit = (OwnedSemaphorePermit, Arc<TokenLimit>);

impl TokenLimits {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        Self {
            hasher: RandomState::new(),
            tokens: Mutex::default(),
            overflow: Arc::new(TokenLimit::new(OVERFLOW_FINGERPRINT, limits)),
            rate: limits.request_rate.and_then(to_quota).map(RateLimiter::keyed),
            running: Arc::new(Semaphore::new(limits.in_flight)),
            waiting: Semaphore::new(limits.queue),
            limits: limits.clone(),
        }
    }

    /// Limits of clients of the pages, which share the running requests with the tokens.
    pub(crate) fn for_pages(&self) -> Self {
        Self { running: self.running.clone(), ..Self::new(&self.limits) }
    }

    /// Returns the limit of an address, which has no token.
    pub(crate) fn limit_of_address(&self, address: IpAddr) -> Arc<TokenLimit> {
        let fingerprint = self.hasher.hash_one(address_network(address));
        self.find_valid(fingerprint).unwrap_or_else(|| self.insert_valid(fingerprint))
    }

    pub(crate) fn hash_token(&self, token: &str) -> u64 {
        self.hasher.hash_one(token)
    }

    /// Returns the limit of a token that was valid before.
    pub(crate) fn find_valid(&self, fingerprint: u64) -> Option<Arc<TokenLimit>> {
        let limit = self.lock_tokens().get(&fingerprint).cloned()?;
        limit.was_used.store(true, Ordering::Relaxed);
        Some(limit)
    }

    /// Returns the limit of a valid token, creating it on first use.
    pub(crate) fn insert_valid(&self, fingerprint: u64) -> Arc<TokenLimit> {
        let mut tokens = self.lock_tokens();
        if tokens.len() >= MAX_TOKENS && !tokens.contains_key(&fingerprint) {
            // A valid token is never rejected only because there are many.
            return self.overflow.clone();
        }
        let limit = tokens
            .entry(fingerprint)
            .or_insert_with(|| Arc::new(TokenLimit::new(fingerprint, &self.limits)));
        limit.clone()
    }

    /// Removes a token that is no longer valid.
    pub(crate) fn remove_invalid(&self, fingerprint: u64) {
        self.lock_tokens().remove(&fingerprint);
    }

    /// Counts a request of a token.
    pub(crate) fn count_request(&self, limit: &TokenLimit) -> Result<(), ErrorResponse> {
        let Some(rate) = &self.rate else { return Ok(()) };
        rate.check_key(&limit.fingerprint).map_err(|exceeded| {
            let message = "Too many requests; try again later.";
            ErrorResponse::rate_limited(message, seconds_until(&exceeded))
        })
    }

    /// Removes tokens that were unused since the last call, and rates that have recovered.
    pub(crate) fn remove_unused(&self) {
        if let Some(rate) = &self.rate {
            rate.retain_recent();
            rate.shrink_to_fit();
        }
        self.lock_tokens().retain(|_, limit| {
            // Running requests and open subscriptions hold a second reference.
            limit.was_used.swap(false, Ordering::Relaxed) || Arc::strong_count(limit) > 1
        });
    }

    /// Waits for permits to run.
    pub(crate) async fn acquire_run_permit(
        &self,
        limit: &Arc<TokenLimit>,
        due: Instant,
    ) -> Result<RunPermit, ErrorResponse> {
        // The usual case, which needs no position in the queue.
        if let Ok(of_token) = limit.running.clone().try_acquire_owned()
            && let Ok(of_all) = self.running.clone().try_acquire_owned()
        {
            return Ok(((of_token, of_all), limit.clone()));
        }
        // Waiting requests hold their bodies in memory, so their number is limited too.
        let Ok(_waiting) = self.waiting.try_acquire() else {
            let message = "Too many requests are waiting. Nothing was changed; try again.";
            return Err(ErrorResponse::busy(message));
        };
        let Some(permits) = acquire_both(&limit.running, &self.running, 1, due).await else {
            let message = "The server was busy for too long. Nothing was changed; try again.";
            return Err(ErrorResponse::busy(message));
        };
        Ok((permits, limit.clone()))
    }

    fn lock_tokens(&self) -> MutexGuard<'_, HashMap<u64, Arc<TokenLimit>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenLimit {
    fn new(fingerprint: u64, limits: &HttpLimits) -> Self {
        Self {
            fingerprint,
            running: Arc::new(Semaphore::new(limits.in_flight_per_token)),
            subscriptions: Arc::new(Semaphore::new(limits.subscriptions_per_token)),
            body_budget: token_budget(limits),
            was_used: AtomicBool::new(true),
        }
    }

    pub(crate) fn acquire_subscription(
        self: &Arc<Self>,
    ) -> Result<SubscriptionPermit, ErrorResponse> {
        let Ok(permit) = self.subscriptions.clone().try_acquire_owned() else {
            let message = "Too many open subscriptions of this token; cancel one and try again.";
            return Err(ErrorResponse::rate_limited(message, 60));
        };
        Ok((permit, self.clone()))
    }
}

/// Limits failed logins by address, and look-ups of tokens that were not valid before.
pub(crate) struct LoginLimits {
    failed: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Addresses with too many failures, and the end of their restriction.
    guessing_until: Mutex<HashMap<IpAddr, Instant>>,
    guesser_look_ups: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Shared by all addresses that do not guess.
    look_ups: Option<DefaultDirectRateLimiter>,
}

impl LoginLimits {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let share = limits.look_up_rate.map(|RateLimit { every, burst }| RateLimit {
            every: every.saturating_mul(GUESSER_LOOK_UP_DIVISOR),
            // A burst of zero is not a valid quota and would disable the limit.
            burst: (burst / GUESSER_LOOK_UP_DIVISOR).max(1),
        });
        Self {
            failed: limits.failed_login_rate.and_then(to_quota).map(RateLimiter::keyed),
            guessing_until: Mutex::default(),
            guesser_look_ups: share.and_then(to_quota).map(RateLimiter::keyed),
            look_ups: limits.look_up_rate.and_then(to_quota).map(RateLimiter::direct),
        }
    }

    /// Counts a look-up of a token that was not valid before.
    pub(crate) fn count_look_up(&self, address: IpAddr) -> Result<(), ErrorResponse> {
        let address = address_network(address);
        // Copied, so that the lock is free during the check.
        let restricted_until = self.lock_guessing().get(&address).copied();
        let checked = match restricted_until {
            Some(until) if Instant::now() < until => {
                self.guesser_look_ups.as_ref().map(|look_ups| look_ups.check_key(&address))
            }
            _ => self.look_ups.as_ref().map(DefaultDirectRateLimiter::check),
        };
        let Some(Err(exceeded)) = checked else { return Ok(()) };
        let message = "Too many logins at the moment. Nothing was changed; try again.";
        Err(ErrorResponse::rate_limited(message, seconds_until(&exceeded)))
    }

    /// Counts a failed login. Returns the seconds to wait if there were too many.
    pub(crate) fn count_failure(&self, address: IpAddr) -> Option<u64> {
        let failed = self.failed.as_ref()?;
        let address = address_network(address);
        if failed.len() >= MAX_ADDRESSES {
            // Makes room before a failure of a new address is rejected.
            failed.retain_recent();
            if failed.len() >= MAX_ADDRESSES {
                // The client waits until the next sweep, which may make room.
                return Some(60);
            }
        }
        let exceeded = failed.check_key(&address).err()?;
        let mut guessing = self.lock_guessing();
        // A full map must not grow; such an address keeps the shared limit.
        if guessing.len() < MAX_ADDRESSES || guessing.contains_key(&address) {
            guessing.insert(address, Instant::now() + wait_time(&exceeded));
        }
        Some(seconds_until(&exceeded))
    }

    pub(crate) fn remove_unused(&self) {
        for limiter in [&self.failed, &self.guesser_look_ups].into_iter().flatten() {
            limiter.retain_recent();
            // A flood of addresses must not keep its memory after the sweep.
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

/// Returns the /64 network of an IPv6 address, because one host has many addresses in it.
pub(crate) fn address_network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        IpAddr::V4(_) => address,
    }
}

fn to_quota(rate: RateLimit) -> Option<Quota> {
    Some(Quota::with_period(rate.every)?.allow_burst(NonZeroU32::new(rate.burst)?))
}

type RateExceeded = NotUntil<<DefaultClock as Clock>::Instant>;

fn wait_time(exceeded: &RateExceeded) -> Duration {
    exceeded.wait_time_from(DefaultClock::default().now())
}

/// Seconds until the rate has recovered, rounded up.
fn seconds_until(exceeded: &RateExceeded) -> u64 {
    let wait = wait_time(exceeded);
    // Rounded down, a client would retry too early and be rejected again.
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
