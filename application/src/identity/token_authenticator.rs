//! Authenticates each request by its token.
//!
//! Lookups are cached while the epoch of the storage is unchanged. The epoch is read on each
//! request, so a token that another process revokes is rejected at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditTarget};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{
    Access, CallChannel, Caller, PresentedToken, ProjectScope, TokenError, TokenId, TokenOwner,
    token,
};
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::project_resolver::{ProjectResolver, project_not_found};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::service::audit_recorder::AuditRecorder;

/// Maximum number of cached tokens.
const MAX_CACHED_TOKENS: usize = 10_000;
/// Audit rows per minute for guessed tokens. Further guesses are only counted.
const MAX_GUESS_ROWS: u64 = 100;
/// Audit rows per minute for one token that is no longer valid.
const MAX_ROWS_PER_TOKEN: u32 = 5;
const LOGIN_ACTION: &str = "login";

#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct TokenAuthenticator {
    pub(super) identities: Arc<dyn IdentityRepository>,
    projects: Arc<dyn ProjectResolver>,
    pub(super) clock: Arc<dyn Clock>,
    recorder: Arc<AuditRecorder>,
    /// Maximum access level that this server grants.
    max_access: Access,
    state: Mutex<AuthenticationState>,
}

#[derive(Default)]
struct AuthenticationState {
    epoch: u64,
    cached: HashMap<TokenId, CachedToken>,
    /// Last uses of tokens that are not saved yet.
    unsaved_uses: HashMap<TokenId, Timestamp>,
    /// Number of guessed tokens in this minute.
    refused_guesses: u64,
    /// Number of requests without a token in this minute.
    missing_tokens: u64,
    /// Number of uses of each invalid token in this minute.
    invalid_uses: HashMap<TokenId, u32>,
}

#[derive(Clone)]
struct CachedToken {
    owner: Arc<TokenOwner>,
    /// The caller of a request that names no project.
    caller: Arc<Caller>,
}

impl TokenAuthenticator {
    pub(crate) fn new(
        identities: Arc<dyn IdentityRepository>,
        projects: Arc<dyn ProjectResolver>,
        clock: Arc<dyn Clock>,
        recorder: Arc<AuditRecorder>,
        max_access: Access,
    ) -> Self {
        let state = Mutex::default();
        Self { identities, projects, clock, recorder, max_access, state }
    }

    fn lock_state(&self) -> MutexGuard<'_, AuthenticationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a token up in the cache, then in the storage.
    async fn find_token(&self, id: &TokenId) -> StoreResult<Option<CachedToken>> {
        // Read before the lookup, so that a change in between invalidates the cached result.
        let epoch = self.identities.identity_epoch().await?;
        {
            let mut state = self.lock_state();
            if state.epoch != epoch {
                state.epoch = epoch;
                state.cached.clear();
            }
            if let Some(token) = state.cached.get(id) {
                return Ok(Some(token.clone()));
            }
        }
        let Some(owner) = self.identities.token_owner(id).await? else { return Ok(None) };
        let caller = Arc::new(self.default_caller(&owner));
        let token = CachedToken { owner: Arc::new(owner), caller };
        let mut state = self.lock_state();
        // If the epoch changed during the lookup, its result may already be outdated.
        if state.epoch == epoch {
            // Any token may make room, because looking it up again costs little.
            if state.cached.len() >= MAX_CACHED_TOKENS
                && let Some(other) = state.cached.keys().next().cloned()
            {
                state.cached.remove(&other);
            }
            state.cached.insert(id.clone(), token.clone());
        }
        Ok(Some(token))
    }

    fn default_caller(&self, TokenOwner { token, user }: &TokenOwner) -> Caller {
        let scope = match &token.projects[..] {
            [] => ProjectScope::Configured,
            projects => ProjectScope::Only(projects.to_vec()),
        };
        // A project may have been removed from the configuration after the token was created.
        let existing = token.projects.iter().find(|project| self.projects.is_configured(project));
        let project = existing.or(token.projects.first()).cloned().unwrap_or_default();
        Caller {
            name: user.name.as_str().into(),
            role: user.role,
            access: user.role.max_access().min(token.scope).min(self.max_access),
            // Audit rows of a session name the token that an administrator can revoke.
            token: Some(token.parent.as_ref().unwrap_or(&token.id).clone()),
            scope,
            project,
            channel: if token.is_session() { CallChannel::Web } else { CallChannel::Mcp },
        }
    }

    /// Returns the caller with the project that the request names.
    fn with_project(&self, caller: &Caller, project: &str) -> Result<Arc<Caller>, Error> {
        let key = ProjectKey::new(project);
        if self.projects.is_configured(&key) && caller.scope.includes(&key) {
            return Ok(Arc::new(Caller { project: key, ..caller.clone() }));
        }
        // Same error for a missing and a forbidden project, so that a token reveals no projects.
        let keys = self.projects.keys();
        Err(project_not_found(&caller.scope, &keys, "Reqlore-Project", project))
    }

    /// Logs and audits a rejected token, unless this minute has too many.
    async fn record_refusal(
        &self,
        credentials: &Credentials<'_>,
        id: Option<&TokenId>,
        denial: TokenError,
    ) -> Result<(), Error> {
        let Credentials { address, correlation_id, .. } = credentials;
        if !self.lock_state().count_refusal(id, denial) {
            return Ok(());
        }
        let (reason, token) = (denial.name(), id.map(TokenId::as_str));
        // Clients may try without a token first, to learn how to authenticate: no row for them.
        if denial == TokenError::Missing {
            tracing::info!(id = correlation_id, address, reason, "login rejected");
            return Ok(());
        }
        if denial == TokenError::Retired {
            tracing::error!(
                id = correlation_id,
                address,
                token,
                "rotated token used; it may be stolen"
            );
        } else {
            let by_clock = matches!(denial, TokenError::NotYetValid | TokenError::Expired);
            let hint = by_clock.then_some("by this server's clock; check that it is correct");
            tracing::warn!(id = correlation_id, address, token, reason, hint, "login rejected");
        }
        let entry = AuditEvent {
            token: id.cloned(),
            correlation_id: (*correlation_id).to_owned(),
            ..AuditEvent::rejected(
                LOGIN_ACTION,
                reason,
                format!("from {address}"),
                self.clock.now(),
            )
        };
        self.recorder.add_event(entry).await
    }

    /// Returns the caller of a session. It is valid while its token is, too.
    pub(crate) async fn session_caller(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let (id, caller) = match self.verify_session(&credentials).await? {
            Ok(session) => session,
            // A browser presents an ended session until it signs in again. That is not a guess.
            Err(denial @ (TokenError::Wrong | TokenError::Malformed)) => {
                return self.refuse(&credentials, None, denial).await;
            }
            Err(denial) => return Err(AuthenticationError::Token(denial)),
        };
        let now = self.clock.now();
        self.lock_state().unsaved_uses.insert(id, now);
        self.in_project(caller, &credentials).await
    }

    /// Returns the token of a session and its caller, or the reason why it is invalid.
    async fn verify_session(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Result<(TokenId, Arc<Caller>), TokenError>, AuthenticationError> {
        let Some(text) = credentials.token else { return Ok(Err(TokenError::Missing)) };
        let Some(presented) = PresentedToken::parse_session(text) else {
            return Ok(Err(TokenError::Malformed));
        };
        let failed = |error: StoreError| AuthenticationError::Failed(error.into());
        let now = self.clock.now();
        let session = self.find_token(&presented.id).await.map_err(failed)?;
        let owner = session.as_ref().map(|session| &*session.owner);
        if let Err(denial) = token::verify_token(owner, &presented.digest(), now) {
            return Ok(Err(denial));
        }
        let Some(session) = session else { return Ok(Err(TokenError::Unknown)) };
        let Some(parent) = session.owner.token.parent.clone() else {
            return Ok(Err(TokenError::Unknown));
        };
        let token = self.find_token(&parent).await.map_err(failed)?;
        // The stored digest stands for the secret, which is not known here.
        let Some(token) = token else { return Ok(Err(TokenError::Unknown)) };
        let owner = &token.owner;
        let verified = token::verify_token(Some(owner), &owner.token.digest, now);
        Ok(verified.map(|()| (parent, session.caller)))
    }

    /// Returns the caller with the project of the credentials.
    async fn in_project(
        &self,
        caller: Arc<Caller>,
        credentials: &Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let Some(project) = credentials.project else { return Ok(caller) };
        match self.with_project(&caller, project) {
            Ok(caller) => Ok(caller),
            Err(error) => {
                self.record_foreign_project(&caller, credentials, error.kind).await;
                Err(AuthenticationError::Project(error))
            }
        }
    }

    /// Removes ended sessions. Call it once an hour.
    pub(crate) async fn expire_sessions(&self) -> StoreResult<()> {
        self.identities.expire_sessions(self.clock.now()).await
    }

    pub(crate) async fn refuse(
        &self,
        credentials: &Credentials<'_>,
        id: Option<&TokenId>,
        denial: TokenError,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        match self.record_refusal(credentials, id, denial).await {
            Ok(()) => Err(AuthenticationError::Token(denial)),
            Err(error) => Err(AuthenticationError::Failed(error)),
        }
    }

    /// Logs and audits a request for a project outside the caller's project scope.
    async fn record_foreign_project(
        &self,
        caller: &Caller,
        credentials: &Credentials<'_>,
        kind: ErrorKind,
    ) {
        let Credentials { address, correlation_id, project, .. } = credentials;
        let name = project.unwrap_or_default().to_owned();
        let user = &*caller.name;
        tracing::info!(
            id = correlation_id,
            address,
            user,
            "project is outside the scope of the token"
        );
        let entry = AuditEvent {
            user: caller.name.to_string(),
            token: caller.token.clone(),
            targets: vec![AuditTarget::unchanged(name)],
            correlation_id: (*correlation_id).to_owned(),
            channel: caller.channel,
            ..AuditEvent::rejected(
                LOGIN_ACTION,
                kind.name(),
                format!("from {address}"),
                self.clock.now(),
            )
        };
        self.recorder.add_refusal(entry).await;
    }

    /// Saves the last uses of tokens, and audits how many guessed tokens got no row. Call it once a
    /// minute.
    pub(crate) async fn save_token_uses(&self) -> StoreResult<()> {
        let (uses, refused) = {
            let mut state = self.lock_state();
            state.invalid_uses.clear();
            state.missing_tokens = 0;
            // Taken under the lock and saved without it, so that requests do not wait.
            (std::mem::take(&mut state.unsaved_uses), std::mem::take(&mut state.refused_guesses))
        };
        if refused > MAX_GUESS_ROWS {
            // One row for all of them, so that a flood of guesses does not fill the audit log.
            let reason = format!("{} more logins were refused", refused - MAX_GUESS_ROWS);
            tracing::warn!(reason, "too many rejected logins");
            let event = AuditEvent::rejected(LOGIN_ACTION, "many", reason, self.clock.now());
            // A full queue is reported to the next caller.
            let _ = self.recorder.add_event(event).await;
        }
        if uses.is_empty() {
            return Ok(());
        }
        let saved = self.identities.record_use(uses.clone().into_iter().collect()).await;
        if saved.is_err() {
            let mut state = self.lock_state();
            for (id, at) in uses {
                // A token that was used since then has a later time.
                state.unsaved_uses.entry(id).or_insert(at);
            }
        }
        saved
    }
}

impl AuthenticationState {
    /// Counts a rejected token. Returns true if it is logged and gets an audit row.
    ///
    /// Missing tokens, guesses and known tokens are counted separately: a flood of guesses must not
    /// hide that a revoked token is still in use.
    fn count_refusal(&mut self, id: Option<&TokenId>, denial: TokenError) -> bool {
        use TokenError::{Malformed, Missing, Unknown, Wrong};
        if denial == Missing {
            self.missing_tokens += 1;
            return self.missing_tokens <= MAX_GUESS_ROWS;
        }
        let is_guess = matches!(denial, Malformed | Unknown | Wrong);
        // The id of a guess is chosen by the client, so it must not become a key of the map.
        let Some(id) = id.filter(|_| !is_guess) else {
            self.refused_guesses += 1;
            return self.refused_guesses <= MAX_GUESS_ROWS;
        };
        let uses = self.invalid_uses.entry(id.clone()).or_default();
        *uses += 1;
        *uses <= MAX_ROWS_PER_TOKEN
    }
}

#[async_trait]
impl Authenticator for TokenAuthenticator {
    async fn authenticate(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let Some(text) = credentials.token else {
            return self.refuse(&credentials, None, TokenError::Missing).await;
        };
        let Some(presented) = PresentedToken::parse(text) else {
            return self.refuse(&credentials, None, TokenError::Malformed).await;
        };
        let id = &presented.id;
        let token = match self.find_token(id).await {
            Ok(token) => token,
            Err(error) => return Err(AuthenticationError::Failed(error.into())),
        };
        let owner = token.as_ref().map(|token| &*token.owner);
        let now = self.clock.now();
        // An unknown token is verified too, so that it takes as long as a wrong secret.
        if let Err(denial) = token::verify_token(owner, &presented.digest(), now) {
            return self.refuse(&credentials, Some(id), denial).await;
        }
        // The secret of a session is valid only in its cookie.
        let Some(CachedToken { caller, .. }) =
            token.filter(|token| !token.owner.token.is_session())
        else {
            return self.refuse(&credentials, Some(id), TokenError::Unknown).await;
        };
        // Saved once a minute, because a write for each request would be slow.
        self.lock_state().unsaved_uses.insert(presented.id, now);
        // The caller for the default project is cached, which saves a copy.
        self.in_project(caller, &credentials).await
    }
}

#[cfg(test)]
mod tests;
