//! Sessions of browsers: a token signs in, and a cookie presents the session.
//!
//! A session is a row of the tokens with a parent, so it needs no further storage, and every server
//! on the storage applies its end at once. It has the rights of its parent and ends with it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::identity::{
    Access, CallChannel, Caller, PresentedToken, Token, TokenError, TokenId, User,
};
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::sessions::{IssuedSession, SessionService};
use reqlore_domain::timestamp::Timestamp;

use super::token_authenticator::TokenAuthenticator;
use super::tokens::{check_unused, generate_token, unknown_token};
use super::user_admin::{IdentityReadSet, UserAdmin, unknown_user};

/// Lifetime of a session in seconds.
const LIFETIME_SECONDS: i64 = 12 * 60 * 60;

/// Maximum sessions of one token that this process has begun; a further one ends the oldest.
const MAX_SESSIONS: usize = 20;

/// The sessions of a team's server.
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct TokenSessions {
    pub(crate) authenticator: Arc<TokenAuthenticator>,
    pub(crate) ids: Arc<dyn IdGenerator>,
    pub(crate) is_audited: bool,
    /// The sessions that this process has begun, by their token, the oldest first.
    pub(crate) begun: Mutex<HashMap<TokenId, VecDeque<TokenId>>>,
}

impl TokenSessions {
    fn admin(&self, caller: &Caller) -> UserAdmin {
        UserAdmin {
            identities: Arc::clone(&self.authenticator.identities),
            clock: Arc::clone(&self.authenticator.clock),
            ids: Arc::clone(&self.ids),
            projects: Vec::new(),
            caller: Arc::new(caller.clone().through(CallChannel::Web)),
            is_audited: self.is_audited,
        }
    }
}

#[async_trait]
impl SessionService for TokenSessions {
    async fn sign_in(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<IssuedSession, AuthenticationError> {
        // The project is chosen by the URL of each page.
        let credentials = Credentials { project: None, ..credentials };
        let caller = self.authenticator.authenticate(credentials).await?;
        let Some(parent) = caller.token.clone() else {
            return Err(AuthenticationError::Token(TokenError::Unknown));
        };
        if caller.access == Access::Metrics {
            let denial = TokenError::MetricsOnly;
            self.authenticator.refuse(&credentials, Some(&parent), denial).await?;
            return Err(AuthenticationError::Token(denial));
        }
        let admin = self.admin(&caller);
        let failed = AuthenticationError::Failed;
        let issued = begin_session(&admin, parent.clone()).await.map_err(failed)?;
        let oldest = {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            let sessions = begun.entry(parent).or_default();
            sessions
                .extend(PresentedToken::parse_session(&issued.secret).map(|session| session.id));
            if sessions.len() > MAX_SESSIONS { sessions.pop_front() } else { None }
        };
        if let Some(oldest) = oldest {
            end_session(&admin, oldest).await.map_err(failed)?;
        }
        Ok(issued)
    }

    async fn caller(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        self.authenticator.session_caller(credentials).await
    }

    async fn sign_out(&self, credentials: Credentials<'_>) -> Result<()> {
        let credentials = Credentials { project: None, ..credentials };
        let caller = match self.authenticator.session_caller(credentials).await {
            Ok(caller) => caller,
            Err(AuthenticationError::Failed(error)) => return Err(error),
            // It has ended, so nothing is left to do.
            Err(AuthenticationError::Token(_) | AuthenticationError::Project(_)) => return Ok(()),
        };
        let session = credentials.token.and_then(PresentedToken::parse_session);
        match session {
            Some(session) => end_session(&self.admin(&caller), session.id).await,
            None => Ok(()),
        }
    }
}

async fn begin_session(admin: &UserAdmin, parent: TokenId) -> Result<IssuedSession> {
    let now = admin.clock.now();
    let presented = generate_token(admin)?.for_session();
    // The user of a token never changes, so it may be read before the commit.
    let owner = admin.identities.token_owner(&parent).await?;
    let owner = owner.ok_or_else(|| unknown_token(&parent))?;
    let reads = IdentityReadSet {
        users: vec![owner.user.name],
        tokens: vec![parent, presented.id.clone()],
    };
    let secret = presented.reveal();
    let decide = move |users: &[Option<User>], tokens: &[Option<Token>]| {
        let parent = tokens.first().cloned().flatten();
        let parent = parent.ok_or_else(|| unknown_token(&presented.id))?;
        if !matches!(users.first(), Some(Some(_))) {
            return Err(unknown_user(&parent.user));
        }
        check_unused(tokens.get(1))?;
        let end = Timestamp::new(now.seconds() + LIFETIME_SECONDS, now.nanoseconds());
        // A revocation in the meantime needs no check: each request verifies the parent.
        let session = Token {
            id: presented.id.clone(),
            digest: presented.digest(),
            created_at: now,
            expires_at: end.min(parent.expires_at),
            successor: None,
            last_used_at: None,
            parent: Some(parent.id.clone()),
            ..parent
        };
        let expires_at = session.expires_at;
        Ok((vec![IdentityChange::Token(session)], expires_at))
    };
    let expires_at = admin.commit_changes("session/sign-in", now, reads, decide).await?;
    Ok(IssuedSession { secret, expires_at })
}

async fn end_session(admin: &UserAdmin, id: TokenId) -> Result<()> {
    let now = admin.clock.now();
    let reads = IdentityReadSet { tokens: vec![id], ..IdentityReadSet::default() };
    let decide = move |_: &_, tokens: &[Option<Token>]| {
        let mut changes = Vec::new();
        if let Some(Some(session)) = tokens.first()
            && session.revoked_at.is_none()
        {
            let ended = Token { revoked_at: Some(now), ..session.clone() };
            changes.push(IdentityChange::Token(ended));
        }
        Ok((changes, ()))
    };
    admin.commit_changes("session/sign-out", now, reads, decide).await
}

#[cfg(test)]
mod tests;
