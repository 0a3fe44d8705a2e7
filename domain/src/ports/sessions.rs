//! Port for the sessions of people who use a browser.

use std::sync::Arc;

use async_trait::async_trait;

use super::authenticator::{AuthenticationError, Credentials};
use crate::error::Result;
use crate::identity::Caller;
use crate::timestamp::Timestamp;

/// Begins, validates and ends sessions.
#[async_trait]
pub trait SessionService: Send + Sync {
    /// Exchanges the token of a sign-in for a session. On a local server it is the secret of the
    /// one-time link.
    async fn sign_in(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<IssuedSession, AuthenticationError>;

    /// Returns the caller of the session whose secret is the token of `credentials`. A session is
    /// validated on every call and ends with the token that began it. A personal access token is
    /// not a session, and a session is not a token.
    async fn caller(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError>;

    /// Ends a session. An unknown session is ended already.
    async fn sign_out(&self, credentials: Credentials<'_>) -> Result<()>;
}

/// A new session. Only its digest is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedSession {
    pub secret: String,
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for IssuedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let expires_at = &self.expires_at;
        f.debug_struct("IssuedSession").field("expires_at", expires_at).finish_non_exhaustive()
    }
}
