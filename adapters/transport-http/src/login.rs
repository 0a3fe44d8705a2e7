//! From an Authorization header to a caller, or to the one answer that all others get.
//!
//! Whoever has a token that counts is never locked out by those who guess from the same address:
//! the limit on failed logins is asked only after one failed. What guesses could cost is the
//! look-up, and those of tokens that were not seen before have limits of their own (`guesses.rs`).

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use reqlore_domain::error::Error;
use reqlore_domain::identity::{Caller, PresentedToken, TokenError};
use reqlore_domain::ports::authenticator::{Authenticator, Credentials, Denied};

use crate::gates::{Gate, Gates};
use crate::guesses::Guesses;
use crate::limits::Limits;
use crate::refusal::{NOT_FOUND, Refusal, UNAUTHENTICATED, UNAVAILABLE};
use crate::standing::Opened;

/// Names the project that a request speaks of (rulings 1).
const PROJECT: &str = "reqlore-project";
const NO_GOOD_TOKEN: &str = "This needs a token that counts: send `Authorization: Bearer \
     reqlore_pat_…`. An administrator makes one with `reqlore token create`.";
const TOO_MANY_LOGINS: &str = "Too many failed logins. Wait before the next.";

pub(crate) struct Login {
    authenticator: Arc<dyn Authenticator>,
    guesses: Guesses,
}

/// Who asks, through which gate.
pub(crate) struct Admitted {
    pub(crate) caller: Arc<Caller>,
    pub(crate) gate: Arc<Gate>,
}

impl Login {
    pub(crate) fn new(authenticator: Arc<dyn Authenticator>, limits: &Limits) -> Self {
        Self { authenticator, guesses: Guesses::new(limits) }
    }

    /// Recognises who asks, and counts the request for their token.
    pub(crate) async fn admit(
        &self,
        gates: &Gates,
        headers: &HeaderMap,
        address: IpAddr,
        request_id: &str,
    ) -> Result<Admitted, Refusal> {
        let token = match bearer(headers) {
            Ok(token) => token,
            Err(denial) => return Err(self.refuse(denial, address, request_id).await),
        };
        let project = project(headers)?;
        let fingerprint = gates.fingerprint(token);
        let known = gates.known(fingerprint);
        match &known {
            Some(gate) => gate.count()?,
            // What can't be a token is never looked up, and refused by whoever keeps the record.
            None if PresentedToken::parse(token).is_none() => {}
            None => self.guesses.look_up(address)?,
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

    /// Whoever was admitted before, as who they would be now.
    pub(crate) async fn again(&self, shown: Credentials<'_>) -> Result<Arc<Caller>, Denied> {
        self.authenticator.authenticate(shown).await
    }

    /// What to remember of whoever opens a stream, to look them up again.
    pub(crate) fn opened(
        headers: &HeaderMap,
        address: IpAddr,
        caller: &Arc<Caller>,
        request_id: &Arc<str>,
    ) -> Option<Opened> {
        Some(Opened {
            token: bearer(headers).ok()?.to_owned(),
            project: project(headers).ok()?.map(ToOwned::to_owned),
            caller: caller.clone(),
            address,
            request_id: request_id.clone(),
        })
    }

    pub(crate) fn sweep(&self) {
        self.guesses.sweep();
    }

    /// Whoever keeps the record of failed logins is told also of what could not even be read.
    async fn refuse(&self, denial: TokenError, address: IpAddr, request_id: &str) -> Refusal {
        if denial != TokenError::Missing {
            let text = address.to_string();
            let unreadable = Credentials {
                token: Some(""),
                project: None,
                address: &text,
                correlation_id: request_id,
            };
            if let Err(Denied::Failed(error)) = self.authenticator.authenticate(unreadable).await {
                return failed(&error, request_id);
            }
        }
        self.deny(denial, address, request_id)
    }

    fn deny(&self, denial: TokenError, address: IpAddr, request_id: &str) -> Refusal {
        let name = denial.name();
        if denial == TokenError::Missing {
            tracing::debug!(%address, denial = name, id = request_id, "not authenticated");
            let challenge = HeaderValue::from_static("Bearer");
            return unauthenticated(NO_GOOD_TOKEN, challenge);
        }
        if let Some(seconds) = self.guesses.too_many(address) {
            tracing::debug!(%address, denial = name, id = request_id, "failed login, too many");
            return Refusal::rate_limited(TOO_MANY_LOGINS, seconds);
        }
        // The authenticator tells the log and the audit of it.
        tracing::debug!(%address, denial = name, id = request_id, "failed login");
        let message = match denial {
            TokenError::Expired => "This token has expired. An administrator makes a new one.",
            _ => NO_GOOD_TOKEN,
        };
        unauthenticated(message, HeaderValue::from_static("Bearer error=\"invalid_token\""))
    }
}

/// What follows `Bearer` in the only Authorization header.
fn bearer(headers: &HeaderMap) -> Result<&str, TokenError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(TokenError::Missing)?;
    if values.next().is_some() {
        return Err(TokenError::Malformed);
    }
    let (scheme, token) =
        value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or(TokenError::Malformed)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_token = !token.is_empty() && token.bytes().all(fits);
    if scheme.eq_ignore_ascii_case("bearer") && is_token {
        return Ok(token);
    }
    Err(TokenError::Malformed)
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
    tracing::error!(id = request_id, %error, cause, "a token could not be looked up");
    let message = "Who asks could not be looked up just now. Nothing was done; try again.";
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, message);
    refusal.retry_after(1).correlated(&request_id.into())
}
