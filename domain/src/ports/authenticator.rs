//! Port that authenticates callers before they reach the application.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Error;
use crate::identity::{Caller, TokenError};

#[async_trait]
pub trait Authenticator: Send + Sync {
    /// The caller with these credentials, validated at each call: a revoked or expired token and a
    /// changed role have immediate effect.
    async fn authenticate(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError>;
}

/// The client's part of a request for authentication.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The text after `Bearer` in the only `Authorization` header. Empty if the header is
    /// unreadable; an empty token is never valid.
    pub token: Option<&'a str>,
    /// The project in the header `Reqlore-Project`.
    pub project: Option<&'a str>,
    /// The client's address, for the log and the audit.
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

#[derive(Debug)]
pub enum AuthenticationError {
    /// The token is invalid (401).
    Token(TokenError),
    /// The token is valid, and its project is missing or out of scope; both read alike.
    Project(Error),
    /// The lookup failed.
    Failed(Error),
}
