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
const MAX_KNOWN: usize = 10_000;
/// Refused logins with a row of their own, per minute; the others are counted.
const MAX_REFUSED: u64 = 100;
/// Rows per minute of one token that is no longer valid.
const MAX_SHOWN: u32 = 5;
const LOGIN: &str = "login";

#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct TokenAuthenticator {
    identities: Arc<dyn IdentityRepository>,
    projects: Arc<dyn ProjectResolver>,
    clock: Arc<dyn Clock>,
    recorder: Arc<AuditRecorder>,
    /// The most that this server allows.
    max_access: Access,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    epoch: u64,
    known: HashMap<TokenId, Known>,
    /// Uses of tokens that are not saved yet.
    used: HashMap<TokenId, Timestamp>,
    /// Refused guesses in this minute.
    refused: u64,
    /// Uses of invalid tokens in this minute.
    shown: HashMap<TokenId, u32>,
}

#[derive(Clone)]
struct Known {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn known(&self, id: &TokenId) -> StoreResult<Option<Known>> {
        let epoch = self.identities.epoch().await?;
        {
            let mut state = self.state();
            if state.epoch != epoch {
                state.epoch = epoch;
                state.known.clear();
            }
            if let Some(known) = state.known.get(id) {
                return Ok(Some(known.clone()));
            }
        }
        let Some(owner) = self.identities.token_owner(id).await? else { return Ok(None) };
        let caller = Arc::new(self.caller(&owner));
        let known = Known { owner: Arc::new(owner), caller };
        let mut state = self.state();
        // A lookup during a change is not cached, because it may be older than the change.
        if state.epoch == epoch {
            if state.known.len() >= MAX_KNOWN {
                state.known.clear();
            }
            state.known.insert(id.clone(), known.clone());
        }
        Ok(Some(known))
    }

    fn caller(&self, TokenOwner { token, user }: &TokenOwner) -> Caller {
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
        if denial == TokenError::Missing || !self.state().wants(id, denial) {
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
            ..AuditEvent::refused(LOGIN, reason, format!("from {address}"), self.clock.now())
        };
        self.recorder.add(entry).await
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
            ..AuditEvent::refused(LOGIN, kind.name(), format!("from {address}"), self.clock.now())
        };
        self.recorder.add(entry).await
    }

    /// Saves the last uses of tokens, and audits the number of refused logins without a row. Call
    /// it once a minute.
    pub(crate) async fn save_uses(&self) -> StoreResult<()> {
        let (used, refused) = {
            let mut state = self.state();
            state.shown.clear();
            (std::mem::take(&mut state.used), std::mem::take(&mut state.refused))
        };
        if refused > MAX_REFUSED {
            let more = format!("{} more logins were refused", refused - MAX_REFUSED);
            tracing::warn!(more, "a flood of logins");
            let entry = AuditEvent::refused(LOGIN, "many", more, self.clock.now());
            // The next batch tries again.
            let _ = self.recorder.add(entry).await;
        }
        if used.is_empty() {
            return Ok(());
        }
        let noted = self.identities.record_use(used.clone().into_iter().collect()).await;
        if noted.is_err() {
            let mut state = self.state();
            for (id, at) in used {
                state.used.entry(id).or_insert(at);
            }
        }
        noted
    }
}

impl State {
    /// Decides whether a refusal gets a row. A flood of guesses never hides uses of an invalid
    /// token with its true secret.
    fn wants(&mut self, id: Option<&TokenId>, denial: TokenError) -> bool {
        use TokenError::{Malformed, Missing, Unknown, Wrong};
        let is_guess = matches!(denial, Missing | Malformed | Unknown | Wrong);
        let Some(id) = id.filter(|_| !is_guess) else {
            self.refused += 1;
            return self.refused <= MAX_REFUSED;
        };
        let shown = self.shown.entry(id.clone()).or_default();
        *shown += 1;
        *shown <= MAX_SHOWN
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
        let known = self.known(&presented.id).await.map_err(failed)?;
        let owner = known.as_ref().map(|known| &*known.owner);
        let now = self.clock.now();
        if let Err(denial) = token::verify_token(owner, &presented.digest(), now) {
            return refuse(Some(&presented.id), denial).await;
        }
        let Some(Known { caller, .. }) = known else {
            return refuse(Some(&presented.id), TokenError::Unknown).await;
        };
        self.state().used.insert(presented.id, now);
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
