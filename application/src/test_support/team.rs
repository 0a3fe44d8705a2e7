//! A team on the memory store, for tests: users with tokens, a manual clock and audit rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reqlore_domain::audit_log::{AuditEvent, ChainVerifier};
use reqlore_domain::error::Result;
use reqlore_domain::identity::{
    Access, Caller, PresentedToken, Token, TokenId, User, UserName, UserRole,
};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::ports::service::{
    AnswerFormat, ApplicationService, ListRequest, NoProgress, RenderedAnswer, ResourcePage,
    ResourceRequest, ToolCall, ToolService,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::{NamedProjects, RowStore, memory_store};
use serde_json::{Value, json};

use crate::Application;
use crate::identity::token_authenticator::TokenAuthenticator;
use crate::ports::ApplicationPorts;
use crate::test_support::{TestApplication, write_context};

const NOW: i64 = 1_700_000_000;
const SECRET: &str = "0123456789abcdefghijklmnopqrstuv";

/// A clock that a test advances.
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(NOW))
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::new(self.0.load(Ordering::Relaxed), 0)
    }
}

pub(crate) struct TestTeam {
    pub(crate) store: Arc<RowStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) application: Application,
    pub(crate) authenticator: Arc<TokenAuthenticator>,
}

impl TestTeam {
    /// With the projects `default` and `web`.
    pub(crate) fn new() -> Self {
        Self::with_max_access(Access::Write)
    }

    pub(crate) fn with_max_access(max_access: Access) -> Self {
        let store = Arc::new(memory_store());
        let clock = Arc::new(ManualClock::new());
        let application = Application::new(ApplicationPorts {
            documents: store.clone(),
            history: store.clone(),
            projects: Arc::new(NamedProjects(vec![ProjectKey::new("web")])),
            clock: clock.clone(),
            idempotency: store.clone(),
            claims: store.clone(),
            audit: Some(store.clone()),
            users: Some(store.clone()),
            ..TestApplication::new().ports()
        });
        let authenticator = Arc::new(application.authenticator(store.clone(), max_access));
        Self { store, clock, application, authenticator }
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.clock.pass(seconds);
    }

    pub(crate) async fn put(&self, change: IdentityChange) {
        let commit = IdentityCommit {
            users: Vec::new(),
            tokens: Vec::new(),
            decide: Box::new(move |_, _| Ok(vec![change.clone()])),
            context: write_context(self.clock.now()),
        };
        self.store.commit_identities(commit).await.unwrap();
    }

    pub(crate) fn user(&self, name: &str, role: UserRole) -> User {
        let name = UserName::parse(name).unwrap();
        User { name, role, created_at: self.clock.now(), disabled_at: None }
    }

    pub(crate) fn token(&self, letter: char, user: &str, scope: Access) -> Token {
        let presented = presented(letter);
        Token {
            id: presented.id.clone(),
            user: UserName::parse(user).unwrap(),
            digest: presented.digest(),
            scope,
            projects: Vec::new(),
            created_at: self.clock.now(),
            expires_at: Timestamp::new(self.clock.now().seconds() + 1_000, 0),
            revoked_at: None,
            successor: None,
            last_used_at: None,
            parent: None,
        }
    }

    /// Adds a user with a token whose id consists of this letter.
    pub(crate) async fn join(&self, letter: char, name: &str, role: UserRole, scope: Access) {
        self.put(IdentityChange::User(self.user(name, role))).await;
        self.put(IdentityChange::Token(self.token(letter, name, scope))).await;
    }

    pub(crate) async fn login(&self, letter: char) -> Result<Arc<Caller>, AuthenticationError> {
        self.show(Some(&presented(letter).reveal()), None).await
    }

    pub(crate) async fn show(
        &self,
        token: Option<&str>,
        project: Option<&str>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let (address, correlation_id) = ("192.0.2.7", "login-1");
        let credentials = Credentials { token, project, address, correlation_id };
        self.authenticator.authenticate(credentials).await
    }

    pub(crate) async fn call(
        &self,
        caller: &Arc<Caller>,
        name: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Result<RenderedAnswer> {
        let call = ToolCall {
            idempotency_key: key.map(str::to_owned),
            ..Self::tool_call(caller, name, &arguments)
        };
        self.application.call(call).await
    }

    /// As the second call of a page.
    pub(crate) async fn call_audited(
        &self,
        caller: &Arc<Caller>,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedAnswer> {
        let call = ToolCall { is_audited: true, ..Self::tool_call(caller, name, &arguments) };
        self.application.call(call).await
    }

    fn tool_call(caller: &Arc<Caller>, name: &str, arguments: &Value) -> ToolCall {
        ToolCall {
            caller: Arc::clone(caller),
            client_name: None,
            correlation_id: "call-1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            progress_sink: Arc::new(NoProgress),
            idempotency_key: None,
            answer_format: AnswerFormat::Both,
            is_audited: false,
        }
    }

    pub(crate) async fn resources(
        &self,
        caller: &Arc<Caller>,
        cursor: Option<&str>,
    ) -> Result<ResourcePage> {
        let request = ListRequest {
            caller: Arc::clone(caller),
            correlation_id: "list-1".to_owned(),
            cursor: cursor.map(str::to_owned),
            is_poll: false,
        };
        self.application.resources(request).await
    }

    pub(crate) async fn epic(
        &self,
        caller: &Arc<Caller>,
        key: Option<&str>,
    ) -> Result<RenderedAnswer> {
        let arguments = json!({ "title": "An epic", "priority": 2 });
        self.call(caller, "create_epic", arguments, key).await
    }

    /// Flushes and returns all audit rows, whose chain must be valid.
    pub(crate) async fn rows(&self) -> Vec<AuditEvent> {
        self.application.context.recorder.flush().await.unwrap();
        let rows = self.store.rows(1, usize::MAX).await.unwrap();
        let mut verifier = ChainVerifier::default();
        verifier.verify_rows(&rows).unwrap();
        rows.iter().map(|row| row.parse_event().unwrap()).collect()
    }
}

pub(crate) fn presented(letter: char) -> PresentedToken {
    PresentedToken::new(&letter.to_string().repeat(12), SECRET).unwrap()
}

pub(crate) fn id(letter: char) -> TokenId {
    presented(letter).id
}

pub(crate) fn resource_request(caller: &Arc<Caller>, name: &str) -> ResourceRequest {
    ResourceRequest {
        caller: Arc::clone(caller),
        correlation_id: "read-1".to_owned(),
        name: name.to_owned(),
        arguments: json!({ "epic": "EP-001" }).as_object().cloned().unwrap(),
        is_poll: false,
        fills_placeholders: false,
    }
}
