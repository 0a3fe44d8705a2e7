//! The driving port before the endpoint: from what a client shows to a caller.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Error;
use crate::identity::{Caller, TokenError};

/// Recognises callers.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// The caller that these credentials stand for, judged at each call: what was revoked, has
    /// expired or changed its role since counts at once (S5 1.3, 4.6).
    async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Arc<Caller>, Denied>;
}

/// What a client shows of itself.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// What followed `Bearer` in the one `Authorization` header; `None` without one.
    pub token: Option<&'a str>,
    /// The project that it wants to speak of (rulings 1, `Reqlore-Project`).
    pub project: Option<&'a str>,
    /// Where the request came from, for the log and the audit.
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

/// Why there is no caller.
#[derive(Debug)]
pub enum Denied {
    /// The token does not count (401).
    Token(TokenError),
    /// The token counts, and there is no such project for it: unknown ones and those of others read
    /// alike.
    Project(Error),
    /// It could not be looked up.
    Failed(Error),
}
