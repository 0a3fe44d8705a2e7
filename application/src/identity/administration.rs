//! What the commands of administration share: their ports, and one change decided in the storage.

use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, Token, TokenId, User, UserName};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

/// What users and tokens are administered with.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct Administration {
    pub identities: Arc<dyn IdentityRepository>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    /// The keys of all projects that are configured.
    pub projects: Vec<ProjectKey>,
    /// The local person.
    pub caller: Arc<Caller>,
    /// Does the audit learn of it?
    pub is_audited: bool,
}

/// The changes, and what was found out beside them.
pub(super) type Decided<T> = Result<(Vec<IdentityChange>, T)>;

/// What is looked at before a change is decided.
#[derive(Debug, Clone, Default)]
pub(super) struct Looks {
    pub(super) users: Vec<UserName>,
    pub(super) tokens: Vec<TokenId>,
}

impl Administration {
    fn act(&self, action: &'static str, now: Timestamp) -> WriteContext {
        WriteContext {
            caller: Arc::clone(&self.caller),
            tool: action,
            reason: String::new(),
            correlation_id: self.ids.uid(now),
            at: now,
            audited: self.is_audited.then(|| AuditScope::begin(Arc::clone(&self.clock))),
            once: None,
        }
    }

    /// Changes what `decide` answers on the newest state, and gives back what it found out beside.
    /// It may run again; the last run counts.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        action: &'static str,
        now: Timestamp,
        looks: Looks,
        mut decide: impl FnMut(&[Option<User>], &[Option<Token>]) -> Decided<T> + Send + 'static,
    ) -> Result<T> {
        let found: Arc<Mutex<Option<T>>> = Arc::default();
        let decided = Arc::clone(&found);
        let commit = IdentityCommit {
            users: looks.users,
            tokens: looks.tokens,
            decide: Box::new(move |users, tokens| {
                let (changes, found) = decide(users, tokens)?;
                *decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                Ok(changes)
            }),
            act: self.act(action, now),
        };
        self.identities.commit_identities(commit).await?;
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
        found.ok_or_else(|| {
            Error::new(ErrorKind::Internal, "The storage committed without a decision.")
        })
    }
}

/// A name that nobody has.
pub(super) fn no_user(name: &UserName) -> Error {
    let message = format!(
        "there is no user {name}; `reqlore user list` shows all, `reqlore user add {name} --role \
         ROLE` adds this one"
    );
    Error::new(ErrorKind::NotFound, message).field("user").reference(name.as_str())
}
