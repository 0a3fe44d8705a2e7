//! Authenticates each request by its token.
//!
//! Lookups are cached while the storage's epoch stays the same. It is read on each request, so a
//! token that any process revokes is refused from the next request on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditTarget};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{
    Access, Caller, PresentedToken, ProjectScope, TokenError, TokenId, TokenOwner, token,
};
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::project_resolver::{ProjectResolver, no_project};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::audit_recorder::AuditRecorder;

/// Cached tokens; a full cache is cleared.
const MAX_CACHED_TOKENS: usize = 10_000;
/// Refused logins with a row of their own, per minute; the others are counted.
const MAX_GUESS_ROWS: u64 = 100;
/// Rows per minute of one token that is no longer valid.
const MAX_ROWS_PER_TOKEN: u32 = 5;
const LOGIN_ACTION: &str = "login";

#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct TokenAuthenticator {
    identities: Arc<dyn IdentityRepository>,
    projects: Arc<dyn ProjectResolver>,
    clock: Arc<dyn Clock>,
    recorder: Arc<AuditRecorder>,
    /// The most that this server allows.
    max_access: Access,
    state: Mutex<AuthenticationState>,
}

#[derive(Default)]
struct AuthenticationState {
    epoch: u64,
    cached: HashMap<TokenId, CachedToken>,
    /// Uses of tokens that are not saved yet.
    unsaved_uses: HashMap<TokenId, Timestamp>,
    /// Refused guesses in this minute.
    refused_guesses: u64,
    /// Uses of invalid tokens in this minute.
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

    async fn find_token(&self, id: &TokenId) -> StoreResult<Option<CachedToken>> {
        let epoch = self.identities.epoch().await?;
        {
            let mut state = self.lock_state();
            if state.epoch != epoch {
                state.epoch = epoch;
                state.cached.clear();
            }
            if let Some(known) = state.cached.get(id) {
                return Ok(Some(known.clone()));
            }
        }
        let Some(owner) = self.identities.token_owner(id).await? else { return Ok(None) };
        let caller = Arc::new(self.default_caller(&owner));
        let known = CachedToken { owner: Arc::new(owner), caller };
        let mut state = self.lock_state();
        // A lookup during a change is not cached, because it may be older than the change.
        if state.epoch == epoch {
            if state.cached.len() >= MAX_CACHED_TOKENS {
                state.cached.clear();
            }
            state.cached.insert(id.clone(), known.clone());
        }
        Ok(Some(known))
    }

    fn default_caller(&self, TokenOwner { token, user }: &TokenOwner) -> Caller {
        let reach = match &token.projects[..] {
            [] => ProjectScope::Configured,
            projects => ProjectScope::Only(projects.to_vec()),
        };
        let keys = self.projects.keys();
        let first = token.projects.iter().find(|project| keys.contains(project));
        let project = first.or(token.projects.first()).cloned().unwrap_or_default();
        Caller {
            name: user.name.as_str().into(),
            role: user.role,
            access: user.role.access().min(token.scope).min(self.max_access),
            token: Some(token.id.clone()),
            reach,
            project,
        }
    }

    /// The same caller with the project that the request names.
    fn with_project(&self, caller: &Caller, project: &str) -> Result<Arc<Caller>, Error> {
        let (keys, named) = (self.projects.keys(), ProjectKey::new(project));
        if keys.contains(&named) && caller.reach.includes(&named) {
            return Ok(Arc::new(Caller { project: named, ..caller.clone() }));
        }
        Err(no_project(&caller.reach, &keys, "Reqlore-Project", project))
    }

    /// Logs and audits a refused login; of too many only their number.
    async fn record_refusal(
        &self,
        credentials: &Credentials<'_>,
        id: Option<&TokenId>,
        denial: TokenError,
    ) -> Result<(), Error> {
        let Credentials { address, correlation_id, .. } = credentials;
        if denial == TokenError::Missing || !self.lock_state().count_refusal(id, denial) {
            return Ok(());
        }
        let (reason, token) = (denial.name(), id.map(TokenId::as_str));
        if denial == TokenError::Retired {
            tracing::error!(id = correlation_id, address, token, "a rotated token was used: alarm");
        } else {
            tracing::warn!(id = correlation_id, address, token, reason, "a login was refused");
        }
        let entry = AuditEvent {
            token: id.cloned(),
            correlation_id: (*correlation_id).to_owned(),
            ..AuditEvent::refused(LOGIN_ACTION, reason, format!("from {address}"), self.clock.now())
        };
        self.recorder.add_event(entry).await
    }

    /// Logs and audits a request for a project outside the caller's scope.
    async fn record_foreign_project(
        &self,
        caller: &Caller,
        credentials: &Credentials<'_>,
        kind: ErrorKind,
    ) -> Result<(), Error> {
        let Credentials { address, correlation_id, project, .. } = credentials;
        let name = project.unwrap_or_default().to_owned();
        let user = &*caller.name;
        tracing::info!(id = correlation_id, address, user, "no such project for them");
        let entry = AuditEvent {
            user: caller.name.to_string(),
            token: caller.token.clone(),
            targets: vec![AuditTarget::read(name)],
            correlation_id: (*correlation_id).to_owned(),
            ..AuditEvent::refused(
                LOGIN_ACTION,
                kind.name(),
                format!("from {address}"),
                self.clock.now(),
            )
        };
        self.recorder.add_event(entry).await
    }

    /// Saves the last uses of tokens, and audits the number of refused logins without a row. Call
    /// it once a minute.
    pub(crate) async fn save_token_uses(&self) -> StoreResult<()> {
        let (used, refused) = {
            let mut state = self.lock_state();
            state.invalid_uses.clear();
            (std::mem::take(&mut state.unsaved_uses), std::mem::take(&mut state.refused_guesses))
        };
        if refused > MAX_GUESS_ROWS {
            let more = format!("{} more logins were refused", refused - MAX_GUESS_ROWS);
            tracing::warn!(more, "a flood of logins");
            let entry = AuditEvent::refused(LOGIN_ACTION, "many", more, self.clock.now());
            // The next batch tries again.
            let _ = self.recorder.add_event(entry).await;
        }
        if used.is_empty() {
            return Ok(());
        }
        let noted = self.identities.record_use(used.clone().into_iter().collect()).await;
        if noted.is_err() {
            let mut state = self.lock_state();
            for (id, at) in used {
                state.unsaved_uses.entry(id).or_insert(at);
            }
        }
        noted
    }
}

impl AuthenticationState {
    /// Decides whether a refusal gets a row. A flood of guesses never hides uses of an invalid
    /// token with its true secret.
    fn count_refusal(&mut self, id: Option<&TokenId>, denial: TokenError) -> bool {
        use TokenError::{Malformed, Missing, Unknown, Wrong};
        let is_guess = matches!(denial, Missing | Malformed | Unknown | Wrong);
        let Some(id) = id.filter(|_| !is_guess) else {
            self.refused_guesses += 1;
            return self.refused_guesses <= MAX_GUESS_ROWS;
        };
        let shown = self.invalid_uses.entry(id.clone()).or_default();
        *shown += 1;
        *shown <= MAX_ROWS_PER_TOKEN
    }
}

#[async_trait]
impl Authenticator for TokenAuthenticator {
    async fn authenticate(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let refuse = async |id: Option<&TokenId>, denial| {
            let recorded = self.record_refusal(&credentials, id, denial).await;
            recorded.map_err(AuthenticationError::Failed)?;
            Err(AuthenticationError::Token(denial))
        };
        let Some(text) = credentials.token else { return refuse(None, TokenError::Missing).await };
        let Some(presented) = PresentedToken::parse(text) else {
            return refuse(None, TokenError::Malformed).await;
        };
        let failed = |error: StoreError| AuthenticationError::Failed(error.into());
        let known = self.find_token(&presented.id).await.map_err(failed)?;
        let owner = known.as_ref().map(|known| &*known.owner);
        let now = self.clock.now();
        if let Err(denial) = token::verify_token(owner, &presented.digest(), now) {
            return refuse(Some(&presented.id), denial).await;
        }
        let Some(CachedToken { caller, .. }) = known else {
            return refuse(Some(&presented.id), TokenError::Unknown).await;
        };
        self.lock_state().unsaved_uses.insert(presented.id, now);
        let Some(project) = credentials.project else { return Ok(caller) };
        match self.with_project(&caller, project) {
            Ok(caller) => Ok(caller),
            Err(error) => {
                let recorded = self.record_foreign_project(&caller, &credentials, error.kind).await;
                recorded.map_err(AuthenticationError::Failed)?;
                Err(AuthenticationError::Project(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
