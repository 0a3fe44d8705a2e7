//! From a token to a caller, at each request (S5 1.3 to 1.5, 4.1 to 4.6).
//!
//! What was looked up is kept while the storage's epoch stays, which is asked every time: so what
//! somebody revoked, in whatever process, is refused from the next request on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::audit::{AuditEvent, Target};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{
    Access, Caller, PresentedToken, ProjectScope, TokenError, TokenId, TokenOwner, token,
};
use reqlore_domain::ports::authenticator::{Authenticator, Credentials, Denied};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::project_resolver::{ProjectResolver, no_project};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

use crate::audit::Recorder;

/// So many tokens are remembered at most; then all are looked up anew.
const MOST_KNOWN: usize = 10_000;
/// So many refused logins have a row of their own in a minute; the others are counted.
const MOST_REFUSED: u64 = 100;
/// So many rows a minute has a token that does not count any more.
const MOST_SHOWN: u32 = 5;
const LOGIN: &str = "login";

/// Recognises callers by their tokens.
pub struct TokenAuthenticator {
    identities: Arc<dyn IdentityRepository>,
    projects: Arc<dyn ProjectResolver>,
    clock: Arc<dyn Clock>,
    recorder: Arc<Recorder>,
    /// What this server allows to anybody.
    most: Access,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    epoch: u64,
    known: HashMap<TokenId, Known>,
    /// When tokens were used, since it was last written down.
    used: HashMap<TokenId, Timestamp>,
    /// Guesses in this minute.
    refused: u64,
    /// How often tokens were shown in this minute that do not count any more.
    shown: HashMap<TokenId, u32>,
}

struct Known {
    holder: Arc<TokenOwner>,
    /// As who it calls when it names no project.
    caller: Arc<Caller>,
}

impl std::fmt::Debug for TokenAuthenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenAuthenticator").field("most", &self.most).finish_non_exhaustive()
    }
}

impl TokenAuthenticator {
    pub(crate) fn new(
        identities: Arc<dyn IdentityRepository>,
        projects: Arc<dyn ProjectResolver>,
        clock: Arc<dyn Clock>,
        recorder: Arc<Recorder>,
        most: Access,
    ) -> Self {
        let state = Mutex::default();
        Self { identities, projects, clock, recorder, most, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token and its user, and as who they call.
    async fn known(&self, id: &TokenId) -> StoreResult<Option<(Arc<TokenOwner>, Arc<Caller>)>> {
        let epoch = self.identities.epoch().await?;
        {
            let mut state = self.state();
            if state.epoch != epoch {
                state.epoch = epoch;
                state.known.clear();
            }
            if let Some(Known { holder, caller }) = state.known.get(id) {
                return Ok(Some((Arc::clone(holder), Arc::clone(caller))));
            }
        }
        let Some(holder) = self.identities.holder(id).await? else { return Ok(None) };
        let caller = Arc::new(self.caller(&holder));
        let holder = Arc::new(holder);
        let mut state = self.state();
        // What was looked up while somebody changed it is not kept: it may be from before.
        if state.epoch == epoch {
            if state.known.len() >= MOST_KNOWN {
                state.known.clear();
            }
            let known = Known { holder: Arc::clone(&holder), caller: Arc::clone(&caller) };
            state.known.insert(id.clone(), known);
        }
        Ok(Some((holder, caller)))
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
            access: user.role.access().min(token.scope).min(self.most),
            token: Some(token.id.clone()),
            reach,
            project,
        }
    }

    /// The same caller, who speaks of another project.
    fn speaking_of(&self, caller: &Caller, project: &str) -> Result<Arc<Caller>, Error> {
        let (keys, named) = (self.projects.keys(), ProjectKey::new(project));
        if keys.contains(&named) && caller.reach.includes(&named) {
            return Ok(Arc::new(Caller { project: named, ..caller.clone() }));
        }
        Err(no_project(&caller.reach, &keys, "Reqlore-Project", project))
    }

    /// Tells the log and the audit of a refused login; of too many only their number.
    async fn refuse(
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

    /// Puts on record who asked for a project that is not theirs, or not there.
    async fn no_project(
        &self,
        caller: &Caller,
        credentials: &Credentials<'_>,
        kind: ErrorKind,
    ) -> Result<(), Error> {
        let Credentials { address, correlation_id, project, .. } = credentials;
        let name = project.unwrap_or_default().to_owned();
        tracing::info!(
            id = correlation_id,
            address,
            user = &*caller.name,
            "no such project for them"
        );
        let entry = AuditEvent {
            user: caller.name.to_string(),
            token: caller.token.clone(),
            targets: vec![Target::read(name)],
            correlation_id: (*correlation_id).to_owned(),
            ..AuditEvent::refused(LOGIN, kind.name(), format!("from {address}"), self.clock.now())
        };
        self.recorder.add(entry).await
    }

    /// Writes down when tokens were used, and how many logins were refused beyond those that have
    /// rows: once a minute, outside of every request.
    pub(crate) async fn settle(&self) -> StoreResult<()> {
        let (used, refused) = {
            let mut state = self.state();
            state.shown.clear();
            (std::mem::take(&mut state.used), std::mem::take(&mut state.refused))
        };
        if refused > MOST_REFUSED {
            let more = format!("{} more logins were refused", refused - MOST_REFUSED);
            tracing::warn!(more, "a flood of logins");
            let entry = AuditEvent::refused(LOGIN, "many", more, self.clock.now());
            // Whoever waits for it is told; here it waits for the next batch.
            let _ = self.recorder.add(entry).await;
        }
        if used.is_empty() {
            return Ok(());
        }
        let noted = self.identities.used(used.clone().into_iter().collect()).await;
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
    /// Is there a row for this refusal? Guesses are many, and only counted beyond a number; who has
    /// the true secret of a token that does not count any more is always told of a few times.
    fn wants(&mut self, id: Option<&TokenId>, denial: TokenError) -> bool {
        match (denial, id) {
            (
                TokenError::Missing
                | TokenError::Malformed
                | TokenError::Unknown
                | TokenError::Wrong,
                _,
            )
            | (_, None) => {
                self.refused += 1;
                self.refused <= MOST_REFUSED
            }
            (_, Some(id)) => {
                let shown = self.shown.entry(id.clone()).or_default();
                *shown += 1;
                *shown <= MOST_SHOWN
            }
        }
    }
}

#[async_trait]
impl Authenticator for TokenAuthenticator {
    async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Arc<Caller>, Denied> {
        let refuse = async |id: Option<&TokenId>, denial| match self
            .refuse(&credentials, id, denial)
            .await
        {
            Ok(()) => Err(Denied::Token(denial)),
            Err(error) => Err(Denied::Failed(error)),
        };
        let Some(text) = credentials.token else { return refuse(None, TokenError::Missing).await };
        let Some(presented) = PresentedToken::parse(text) else {
            return refuse(None, TokenError::Malformed).await;
        };
        let failed = |error: StoreError| Denied::Failed(error.into());
        let known = self.known(&presented.id).await.map_err(failed)?;
        let holder = known.as_ref().map(|(holder, _)| &**holder);
        let now = self.clock.now();
        if let Err(denial) = token::judge(holder, &presented.digest(), now) {
            return refuse(Some(&presented.id), denial).await;
        }
        let Some((_, caller)) = known else {
            return refuse(Some(&presented.id), TokenError::Unknown).await;
        };
        self.state().used.insert(presented.id, now);
        let Some(project) = credentials.project else { return Ok(caller) };
        match self.speaking_of(&caller, project) {
            Ok(caller) => Ok(caller),
            Err(error) => {
                let told = self.no_project(&caller, &credentials, error.kind).await;
                told.map_err(Denied::Failed)?;
                Err(Denied::Project(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
