//! From an Authorization header to a caller, or to the one answer that all others get.
//!
//! Whoever has a token that counts is never locked out by those who guess from the same address:
//! the limit on failed logins is asked only after one failed. What guesses could cost is the
//! look-up, and those of tokens that were not seen before have a limit of their own.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};
use reqlore_domain::error::Error;
use reqlore_domain::identity::{Caller, Denial, Presented};
use reqlore_domain::ports::authenticator::{Authenticator, Credentials, Denied};

use crate::gates::{Gate, Gates, quota, seconds};
use crate::limits::Limits;
use crate::refusal::{NOT_FOUND, Refusal, UNAUTHENTICATED, UNAVAILABLE};

/// Names the project that a request speaks of (rulings 1).
const PROJECT: &str = "reqlore-project";
/// How many addresses are told apart. More than that fail together.
const ADDRESSES: usize = 100_000;
const NO_GOOD_TOKEN: &str = "This needs a token that counts: send `Authorization: Bearer \
     reqlore_pat_…`. An administrator makes one with `reqlore token create`.";
const TOO_MANY_LOGINS: &str = "Too many failed logins. Wait before the next.";

pub(crate) struct Login {
    authenticator: Arc<dyn Authenticator>,
    /// Failed ones, by address.
    failed: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Of tokens that were not seen before.
    look_ups: Option<DefaultDirectRateLimiter>,
    clock: DefaultClock,
}

/// Who asks, through which gate.
pub(crate) struct Admitted {
    pub(crate) caller: Arc<Caller>,
    pub(crate) gate: Arc<Gate>,
}

impl Login {
    pub(crate) fn new(authenticator: Arc<dyn Authenticator>, limits: &Limits) -> Self {
        Self {
            authenticator,
            failed: limits.failed_logins.and_then(quota).map(RateLimiter::keyed),
            look_ups: limits.look_ups.and_then(quota).map(RateLimiter::direct),
            clock: DefaultClock::default(),
        }
    }

    /// Recognises who asks, and counts the request for their token.
    pub(crate) async fn admit(
        &self,
        gates: &Gates,
        headers: &HeaderMap,
        address: IpAddr,
        request_id: &str,
    ) -> Result<Admitted, Refusal> {
        let token = bearer(headers).map_err(|denial| self.deny(denial, address, request_id))?;
        let project = project(headers)?;
        let fingerprint = gates.fingerprint(token);
        let known = gates.known(fingerprint);
        match &known {
            Some(gate) => gate.count()?,
            // What can't be a token is never looked up, and refused by whoever keeps the record.
            None if Presented::parse(token).is_none() => {}
            None => self.look_up()?,
        }
        let text = address.to_string();
        let credentials =
            Credentials { token: Some(token), project, address: &text, correlation_id: request_id };
        match self.authenticator.authenticate(credentials).await {
            Ok(caller) => {
                if let Some(gate) = known {
                    return Ok(Admitted { caller, gate });
                }
                let gate = gates.admit(fingerprint);
                gate.count()?;
                Ok(Admitted { caller, gate })
            }
            Err(Denied::Token(denial)) => {
                gates.forget(fingerprint);
                Err(self.deny(denial, address, request_id))
            }
            Err(Denied::Project(error)) => {
                gates.admit(fingerprint);
                Err(Refusal::new(StatusCode::NOT_FOUND, NOT_FOUND, error.message))
            }
            Err(Denied::Failed(error)) => Err(failed(&error, request_id)),
        }
    }

    pub(crate) fn sweep(&self) {
        if let Some(failed) = &self.failed {
            failed.retain_recent();
            failed.shrink_to_fit();
        }
    }

    /// May a token be looked up that was not seen before?
    fn look_up(&self) -> Result<(), Refusal> {
        let Some(look_ups) = &self.look_ups else { return Ok(()) };
        look_ups.check().map_err(|until| {
            let wait = until.wait_time_from(self.clock.now());
            Refusal::rate_limited(TOO_MANY_LOGINS, seconds(wait))
        })
    }

    fn deny(&self, denial: Denial, address: IpAddr, request_id: &str) -> Refusal {
        let name = denial.name();
        if denial == Denial::Missing {
            tracing::info!(%address, denial = name, request_id, "not authenticated");
            let challenge = HeaderValue::from_static("Bearer");
            return unauthenticated(NO_GOOD_TOKEN, challenge);
        }
        if let Some(seconds) = self.too_many(address) {
            tracing::debug!(%address, denial = name, request_id, "failed login, one of too many");
            return Refusal::rate_limited(TOO_MANY_LOGINS, seconds);
        }
        // The authenticator tells the log and the audit of it.
        tracing::debug!(%address, denial = name, request_id, "failed login");
        let message = match denial {
            Denial::Expired => "This token has expired. An administrator makes a new one.",
            _ => NO_GOOD_TOKEN,
        };
        unauthenticated(message, HeaderValue::from_static("Bearer error=\"invalid_token\""))
    }

    /// After one more failed login: how many seconds to wait, if there were too many.
    fn too_many(&self, address: IpAddr) -> Option<u64> {
        let failed = self.failed.as_ref()?;
        let address = network(address);
        if failed.len() >= ADDRESSES {
            failed.retain_recent();
            if failed.len() >= ADDRESSES {
                return Some(60);
            }
        }
        let until = failed.check_key(&address).err()?;
        Some(seconds(until.wait_time_from(self.clock.now())))
    }
}

/// What follows `Bearer` in the only Authorization header.
fn bearer(headers: &HeaderMap) -> Result<&str, Denial> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Denial::Missing)?;
    if values.next().is_some() {
        return Err(Denial::Malformed);
    }
    let (scheme, token) =
        value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or(Denial::Malformed)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_token = !token.is_empty() && token.bytes().all(fits);
    if scheme.eq_ignore_ascii_case("bearer") && is_token {
        return Ok(token);
    }
    Err(Denial::Malformed)
}

fn project(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(PROJECT).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let one = value.to_str().ok().filter(|_| values.next().is_none());
    let invalid = || {
        let message = "Reqlore-Project: send it at most once, with the key of one project";
        Refusal::invalid(StatusCode::BAD_REQUEST, message)
    };
    one.map(Some).ok_or_else(invalid)
}

fn unauthenticated(message: &'static str, challenge: HeaderValue) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, UNAUTHENTICATED, message)
        .header(WWW_AUTHENTICATE, challenge)
}

fn failed(error: &Error, request_id: &str) -> Refusal {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(request_id, %error, cause, "a token could not be looked up");
    let message = "Who asks could not be looked up just now. Nothing was done; try again.";
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, message);
    refusal.retry_after(1).correlated(&request_id.into())
}

/// One host has many addresses of version 6; they count as one.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        IpAddr::V4(_) => address,
    }
}
