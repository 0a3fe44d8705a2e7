//! Failed logins by address, and how many tokens may be looked up that were not seen before.
//!
//! Trap: a token that was not seen before may be good: of a person who was away, or of anybody
//! after a restart. So those who guess must not use up what all share: as long as an address has
//! failed too often, its unknown tokens have a small limit of their own.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};
use tokio::time::Instant;

use crate::gates::{quota, seconds};
use crate::limits::{Limits, Rate};
use crate::refusal::Refusal;

/// How many addresses are told apart. More than that fail together.
const ADDRESSES: usize = 100_000;
/// One address that guesses gets this part of all look-ups.
const SHARE: u32 = 10;
const TOO_MANY: &str = "Too many logins just now. Nothing was done; try again.";

pub(crate) struct Guesses {
    /// Failed logins, by address.
    failed: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Who failed too often, and until when.
    guessing: Mutex<HashMap<IpAddr, Instant>>,
    /// Look-ups for those who guess, by address.
    of_guessing: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Look-ups for all others together.
    look_ups: Option<DefaultDirectRateLimiter>,
    clock: DefaultClock,
}

impl Guesses {
    pub(crate) fn new(limits: &Limits) -> Self {
        let share = limits.look_ups.map(|Rate { every, burst }| Rate {
            every: every.saturating_mul(SHARE),
            burst: (burst / SHARE).max(1),
        });
        Self {
            failed: limits.failed_logins.and_then(quota).map(RateLimiter::keyed),
            guessing: Mutex::default(),
            of_guessing: share.and_then(quota).map(RateLimiter::keyed),
            look_ups: limits.look_ups.and_then(quota).map(RateLimiter::direct),
            clock: DefaultClock::default(),
        }
    }

    /// May a token be looked up that was not seen before?
    pub(crate) fn look_up(&self, address: IpAddr) -> Result<(), Refusal> {
        let address = network(address);
        let until = self.guessing().get(&address).copied();
        let checked = if until.is_some_and(|until| Instant::now() < until) {
            self.of_guessing.as_ref().map(|look_ups| look_ups.check_key(&address))
        } else {
            self.look_ups.as_ref().map(DefaultDirectRateLimiter::check)
        };
        checked.unwrap_or(Ok(())).map_err(|until| {
            let wait = until.wait_time_from(self.clock.now());
            Refusal::rate_limited(TOO_MANY, seconds(wait))
        })
    }

    /// After one more failed login: how many seconds to wait, if there were too many.
    pub(crate) fn too_many(&self, address: IpAddr) -> Option<u64> {
        let failed = self.failed.as_ref()?;
        let address = network(address);
        if failed.len() >= ADDRESSES {
            failed.retain_recent();
            if failed.len() >= ADDRESSES {
                return Some(60);
            }
        }
        let until = failed.check_key(&address).err()?;
        let wait = until.wait_time_from(self.clock.now());
        self.mark(address, wait);
        Some(seconds(wait))
    }

    pub(crate) fn sweep(&self) {
        for limiter in [&self.failed, &self.of_guessing].into_iter().flatten() {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
        let now = Instant::now();
        let mut guessing = self.guessing();
        guessing.retain(|_, until| *until > now);
        guessing.shrink_to_fit();
    }

    fn mark(&self, address: IpAddr, wait: Duration) {
        let mut guessing = self.guessing();
        if guessing.len() < ADDRESSES || guessing.contains_key(&address) {
            guessing.insert(address, Instant::now() + wait);
        }
    }

    fn guessing(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.guessing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One host has many addresses of version 6; they count as one.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        IpAddr::V4(_) => address,
    }
}
