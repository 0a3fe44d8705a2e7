//! Port that authenticates callers. Transports call it before every request to the application.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Error;
use crate::identity::{Caller, TokenError};

/// Maps credentials to callers.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Returns the caller with these credentials. Credentials are validated on every call, so that
    /// the revocation or expiry of a token and a change of a role take effect at once.
    async fn authenticate(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError>;
}

/// The parts of a client's request that authentication needs.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The text after `Bearer` in the `Authorization` header. Empty if there are several headers or
    /// the header is malformed; an empty token is never valid.
    pub token: Option<&'a str>,
    /// The value of the header `Reqlore-Project`.
    pub project: Option<&'a str>,
    /// The client's address, for the log and the audit log.
    pub address: &'a str,
    pub correlation_id: &'a str,
}

impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("project", &self.project)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The reason why a request has no caller.
#[derive(Debug)]
pub enum AuthenticationError {
    /// The token is invalid (401).
    Token(TokenError),
    /// The token is valid, but the project is missing or out of scope. The error does not reveal
    /// which of the two.
    Project(Error),
    /// The token could not be looked up.
    Failed(Error),
}
