//! Authenticates the `Authorization` header. Every failure gets the same 401.
//!
//! A valid token is never locked out by clients that guess from the same address: failed logins are
//! counted after the failure, and look-ups of unknown tokens have limits of their own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use reqlore_domain::error::Error;
use reqlore_domain::identity::{Caller, PresentedToken, TokenError};
use reqlore_domain::ports::authenticator::{Authenticator, Credentials, Denied};
use tokio::time::sleep;

use crate::error_response::{ErrorResponse, NOT_FOUND, UNAUTHENTICATED, UNAVAILABLE};
use crate::limits::Limits;
use crate::rate_limit::{LoginLimits, TokenLimit, TokenLimits};

/// The header with the key of the project.
const PROJECT: &str = "reqlore-project";
/// How long a client with a revoked token may still be notified.
const RECHECK: Duration = Duration::from_secs(1);
const INVALID_TOKEN: &str = "This needs a valid token: send `Authorization: Bearer \
     reqlore_pat_…`. An administrator makes one with `reqlore token create`.";
const TOO_MANY_FAILURES: &str = "Too many failed logins. Wait before the next.";

pub(crate) struct Authentication {
    pub(crate) authenticator: Arc<dyn Authenticator>,
    limits: LoginLimits,
}

/// A valid caller and the limits of the token.
pub(crate) struct Admitted {
    pub(crate) caller: Arc<Caller>,
    pub(crate) limit: Arc<TokenLimit>,
}

impl Authentication {
    pub(crate) fn new(authenticator: Arc<dyn Authenticator>, limits: &Limits) -> Self {
        Self { authenticator, limits: LoginLimits::new(limits) }
    }

    /// Authenticates a request and counts it for its token.
    pub(crate) async fn admit(
        &self,
        tokens: &TokenLimits,
        headers: &HeaderMap,
        address: IpAddr,
        request_id: &str,
    ) -> Result<Admitted, ErrorResponse> {
        let token = match bearer(headers) {
            Ok(token) => token,
            Err(denial) => return Err(self.refuse(denial, address, request_id).await),
        };
        let project = project(headers)?;
        let fingerprint = tokens.fingerprint(token);
        let known = tokens.known(fingerprint);
        match &known {
            Some(limit) => tokens.count(limit)?,
            // Never looked up: the authenticator refuses and records it.
            None if PresentedToken::parse(token).is_none() => {}
            None => self.limits.look_up(address)?,
        }
        let text = address.to_string();
        let credentials =
            Credentials { token: Some(token), project, address: &text, correlation_id: request_id };
        match self.authenticator.authenticate(credentials).await {
            Ok(caller) => {
                if let Some(limit) = known {
                    return Ok(Admitted { caller, limit });
                }
                let limit = tokens.admit(fingerprint);
                tokens.count(&limit)?;
                Ok(Admitted { caller, limit })
            }
            Err(Denied::Token(denial)) => {
                tokens.forget(fingerprint);
                Err(self.deny(denial, address, request_id))
            }
            Err(Denied::Project(error)) => {
                tokens.admit(fingerprint);
                Err(ErrorResponse::new(StatusCode::NOT_FOUND, NOT_FOUND, error.message))
            }
            Err(Denied::Failed(error)) => Err(failed(&error, request_id)),
        }
    }

    pub(crate) fn sweep(&self) {
        self.limits.sweep();
    }

    /// The authenticator also records a header that is not readable.
    async fn refuse(&self, denial: TokenError, address: IpAddr, request_id: &str) -> ErrorResponse {
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

    fn deny(&self, denial: TokenError, address: IpAddr, request_id: &str) -> ErrorResponse {
        let name = denial.name();
        if denial == TokenError::Missing {
            tracing::debug!(%address, denial = name, id = request_id, "not authenticated");
            let challenge = HeaderValue::from_static("Bearer");
            return unauthenticated(INVALID_TOKEN, challenge);
        }
        if let Some(seconds) = self.limits.fail(address) {
            tracing::debug!(%address, denial = name, id = request_id, "failed login, too many");
            return ErrorResponse::rate_limited(TOO_MANY_FAILURES, seconds);
        }
        // The authenticator logs and audits it.
        tracing::debug!(%address, denial = name, id = request_id, "failed login");
        let message = match denial {
            TokenError::Expired => "This token has expired. An administrator makes a new one.",
            _ => INVALID_TOKEN,
        };
        unauthenticated(message, HeaderValue::from_static("Bearer error=\"invalid_token\""))
    }
}

/// The token in the only Authorization header.
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

fn project(headers: &HeaderMap) -> Result<Option<&str>, ErrorResponse> {
    let mut values = headers.get_all(PROJECT).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let one = value.to_str().ok().filter(|_| values.next().is_none());
    let invalid = || {
        let message = "Reqlore-Project: send it at most once, with the key of one project";
        ErrorResponse::invalid(StatusCode::BAD_REQUEST, message)
    };
    one.map(Some).ok_or_else(invalid)
}

fn unauthenticated(message: &'static str, challenge: HeaderValue) -> ErrorResponse {
    ErrorResponse::new(StatusCode::UNAUTHORIZED, UNAUTHENTICATED, message)
        .header(WWW_AUTHENTICATE, challenge)
}

fn failed(error: &Error, request_id: &str) -> ErrorResponse {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(id = request_id, %error, cause, "a token could not be looked up");
    let message = "The token could not be looked up just now. Nothing was done; try again.";
    let response = ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, message);
    response.retry_after(1).correlated(&request_id.into())
}

/// The credentials a subscription was opened with. A request is authenticated once, but a stream
/// stays open for hours, so they are checked again while it is open.
pub(crate) struct SubscriptionOwner {
    caller: Arc<Caller>,
    token: String,
    project: Option<String>,
    address: IpAddr,
    request_id: Arc<str>,
}

impl SubscriptionOwner {
    pub(crate) fn new(
        headers: &HeaderMap,
        address: IpAddr,
        caller: &Arc<Caller>,
        request_id: &Arc<str>,
    ) -> Option<Self> {
        Some(Self {
            token: bearer(headers).ok()?.to_owned(),
            project: project(headers).ok()?.map(ToOwned::to_owned),
            caller: caller.clone(),
            address,
            request_id: request_id.clone(),
        })
    }

    /// Waits until the token is no longer valid, or for another caller.
    pub(crate) async fn until_changed(self, authenticator: Arc<dyn Authenticator>) {
        let address = self.address.to_string();
        loop {
            sleep(RECHECK).await;
            let credentials = Credentials {
                token: Some(&self.token),
                project: self.project.as_deref(),
                address: &address,
                correlation_id: &self.request_id,
            };
            match authenticator.authenticate(credentials).await {
                Ok(caller) if caller == self.caller => {}
                // Not known at the moment.
                Err(Denied::Failed(_)) => {}
                Ok(_) | Err(Denied::Token(_) | Denied::Project(_)) => break,
            }
        }
        tracing::debug!(id = &*self.request_id, "a subscription ends with its token's rights");
    }
}
