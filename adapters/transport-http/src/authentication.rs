//! Authenticates the `Authorization` header. Every failure gets the same 401, except a token of the
//! wrong form, which gets the reason.
//!
//! Clients that guess tokens never lock out a valid token of the same address. Failed logins are
//! counted after the failure, and look-ups of unknown tokens have separate limits.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Caller, PresentedToken, TokenError, token};
use reqlore_domain::ports::authenticator::{AuthenticationError, Credentials};
use tokio::time::{sleep, timeout};

use crate::error_response::{ErrorResponse, NOT_FOUND, RATE_LIMITED, UNAUTHENTICATED, UNAVAILABLE};
use crate::rate_limit::TokenLimit;
use crate::state::ServerState;

/// Contains the key of the project.
const PROJECT_HEADER: &str = "reqlore-project";
/// The stream of a revoked token stays open for at most this long, and delivers nothing.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
const INVALID_TOKEN: &str = "A valid token is required: send `Authorization: Bearer \
     reqlore_pat_…`. An administrator creates one with `reqlore token create`.";

/// An authenticated caller and the limit of the token.
pub(crate) struct AuthenticatedCaller {
    pub(crate) caller: Arc<Caller>,
    pub(crate) limit: Arc<TokenLimit>,
}

impl ServerState {
    /// Authenticates a request and counts it for its token.
    pub(crate) async fn authenticate_request(
        &self,
        headers: &HeaderMap,
        peer: SocketAddr,
        request_id: &str,
    ) -> Result<AuthenticatedCaller, ErrorResponse> {
        let address = self.client_address(headers, peer);
        // Decided here, so that requests without a token cost no look-up.
        let Some(token) = bearer_token(headers) else {
            // Only logs the attempt.
            return Err(match self.look_up(headers, peer, request_id).await {
                Err(AuthenticationError::Failed(error)) => {
                    self.authenticator_unavailable(&error, request_id)
                }
                _ => self.deny_login(TokenError::Missing, headers, address, request_id),
            });
        };
        // An unreadable token is a failed login, also if the project header is invalid.
        if !token.is_empty() {
            requested_project(headers)?;
        }
        let fingerprint = self.tokens.hash_token(token);
        let known = self.tokens.find_valid(fingerprint);
        match &known {
            // A known token pays from its own rate, so guessing clients cannot block it.
            Some(limit) => {
                let counted = self.tokens.count_request(limit);
                counted.inspect_err(|error| self.log_error(error, request_id, None))?;
            }
            // Needs no look-up: the authenticator rejects and records it.
            None if PresentedToken::parse(token).is_none() => {}
            None => self.logins.count_look_up(address)?,
        }
        // Known tokens are authenticated too, because they may have been revoked.
        match self.look_up(headers, peer, request_id).await {
            Ok(caller) => {
                if let Some(limit) = known {
                    return Ok(AuthenticatedCaller { caller, limit });
                }
                // Counted only now: an unknown token has no rate before its look-up.
                let limit = self.tokens.insert_valid(fingerprint);
                self.tokens.count_request(&limit)?;
                Ok(AuthenticatedCaller { caller, limit })
            }
            Err(AuthenticationError::Token(denial)) => {
                // The next use of this token is limited as an unknown one.
                self.tokens.remove_invalid(fingerprint);
                Err(self.deny_login(denial, headers, address, request_id))
            }
            Err(AuthenticationError::Project(error)) => {
                // The token itself is valid, so it needs no look-up limit.
                self.tokens.insert_valid(fingerprint);
                Err(ErrorResponse::new(StatusCode::NOT_FOUND, NOT_FOUND, error.message))
            }
            Err(AuthenticationError::Failed(error)) => {
                Err(self.authenticator_unavailable(&error, request_id))
            }
        }
    }

    /// Looks up the token of a request, for at most the request timeout.
    async fn look_up(
        &self,
        headers: &HeaderMap,
        peer: SocketAddr,
        request_id: &str,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let credentials = Credentials {
            token: bearer_token(headers),
            project: requested_project(headers).unwrap_or_default(),
            address: &self.client_address(headers, peer).to_string(),
            correlation_id: request_id,
        };
        let looking_up = self.config.authenticator.authenticate(credentials);
        timeout(self.config.limits.request_timeout, looking_up).await.unwrap_or_else(|_| {
            let error = Error::new(ErrorKind::Unavailable, "no response within the request time");
            Err(AuthenticationError::Failed(error))
        })
    }

    fn authenticator_unavailable(&self, error: &Error, request_id: &str) -> ErrorResponse {
        // While the storage cannot be reached, all requests fail.
        if self.anonymous_lines.allows_line() {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(id = request_id, %error, cause, "token look-up failed");
        }
        let message = "The token could not be looked up. Nothing was changed; try again.";
        // Not a 401, which would declare the token invalid.
        let response = ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, message);
        response.with_retry_after(1).with_correlation_id(&request_id.into())
    }

    fn deny_login(
        &self,
        denial: TokenError,
        headers: &HeaderMap,
        address: IpAddr,
        request_id: &str,
    ) -> ErrorResponse {
        // The authenticator logs and audits a failed login.
        tracing::debug!(%address, denial = denial.name(), id = request_id, "failed login");
        let message = match denial {
            TokenError::Expired => {
                "The token has expired. An administrator creates a new one.".into()
            }
            _ => describe_header(headers).unwrap_or(INVALID_TOKEN.into()),
        };
        // A request without a token is not a guess.
        if denial != TokenError::Missing
            && let Some(seconds) = self.logins.count_failure(address)
        {
            let status = StatusCode::TOO_MANY_REQUESTS;
            return ErrorResponse::new(status, RATE_LIMITED, message).with_retry_after(seconds);
        }
        self.config.counters.failed_logins.fetch_add(1, Ordering::Relaxed);
        // RFC 6750, section 3.1: no error code for a request without credentials.
        let challenge = match denial {
            TokenError::Missing => "Bearer",
            _ => "Bearer error=\"invalid_token\"",
        };
        ErrorResponse::new(StatusCode::UNAUTHORIZED, UNAUTHENTICATED, message)
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
    }

    pub(crate) fn client_address(&self, headers: &HeaderMap, peer: SocketAddr) -> IpAddr {
        match &self.config.behind_proxy {
            Some(proxy) => proxy.client_address(peer.ip(), headers),
            None => peer.ip(),
        }
    }
}

/// The credentials of an open stream, which outlives the authentication of its request by hours.
pub(crate) struct StreamCredentials {
    pub(crate) shared: Arc<ServerState>,
    pub(crate) headers: HeaderMap,
    pub(crate) peer: SocketAddr,
    pub(crate) caller: Arc<Caller>,
    pub(crate) request_id: Arc<str>,
}

impl StreamCredentials {
    /// False if the credentials are no longer valid or their caller has changed.
    pub(crate) async fn are_valid(self: Arc<Self>) -> bool {
        match self.shared.look_up(&self.headers, self.peer, &self.request_id).await {
            Ok(current) => current == self.caller,
            // If the storage is unavailable, the credentials may still be valid.
            Err(error) => matches!(error, AuthenticationError::Failed(_)),
        }
    }

    pub(crate) async fn until_revoked(self: Arc<Self>) {
        sleep(RECHECK_INTERVAL).await;
        while self.clone().are_valid().await {
            sleep(RECHECK_INTERVAL).await;
        }
        tracing::debug!(
            id = &*self.request_id,
            "subscription closed: its token was revoked or changed"
        );
    }
}

/// Returns the problem with the form of the Authorization header; `None` if there is none.
fn describe_header(headers: &HeaderMap) -> Option<Cow<'static, str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = String::from_utf8_lossy(values.next()?.as_bytes());
    let token = match value.split_once(' ').unwrap_or((&value, "")) {
        (scheme, token) if scheme.eq_ignore_ascii_case("bearer") => token,
        // Such as `Basic reqlore_pat_…`.
        (scheme, token)
            if !scheme.to_ascii_lowercase().starts_with("bearer")
                && PresentedToken::parse(token).is_some() =>
        {
            token
        }
        _ => &value,
    };
    let [problem, next] = match token::describe_malformed(token) {
        _ if values.next().is_some() => ["was sent twice", "send one Authorization header"],
        Some(described) => described,
        None if !value.to_ascii_lowercase().starts_with("bearer ") => {
            ["was sent without `Bearer`", "send `Bearer` first"]
        }
        None => return None,
    };
    Some(format!("A valid token is required: the token {problem}; {next}.").into())
}

/// Returns the token of the Authorization header; `None` without a header. An unreadable header or
/// a second one gives the empty text, which the authenticator rejects and records.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().unwrap_or_default();
    // RFC 9110, section 11.1: the scheme is case-insensitive.
    match value.split_once(' ').map(|(scheme, token)| (scheme, token.trim_matches(' '))) {
        Some((scheme, token))
            if scheme.eq_ignore_ascii_case("bearer")
                && token.bytes().all(is_token_byte)
                && values.next().is_none() =>
        {
            Some(token)
        }
        _ => Some(""),
    }
}

/// The characters of a `token68` (RFC 9110, section 11.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

fn requested_project(headers: &HeaderMap) -> Result<Option<&str>, ErrorResponse> {
    let mut values = headers.get_all(PROJECT_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match value.to_str() {
        // Two headers would be ambiguous: a proxy may choose another one than this server.
        Ok(key) if values.next().is_none() => Ok(Some(key)),
        _ => {
            let message = "Reqlore-Project: must appear at most once, with the key of one project";
            Err(ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message))
        }
    }
}
