//! Running server over stub tools and a list of tokens.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{
    CallChannel, Caller, PresentedToken, ProjectScope, TokenError, TokenId, UserRole,
};
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_domain::ports::service::{RenderedAnswer, ToolCall};
use reqlore_domain::ports::transport::{TrafficCounters, Transport};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::test_support::StubService;
use reqlore_mcp::shutdown::Shutdown;
use reqlore_transport_http::{HttpConfig, HttpLimits, HttpTransport, Readiness};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::test_client::{TestConnection, TestRequest, TestResponse};

/// The token of Ada, an administrator.
pub(crate) fn ada_token() -> String {
    token("AdaAdaAdaAda")
}

/// The token of Bob, a user.
pub(crate) fn bob_token() -> String {
    token("BobBobBobBob")
}

/// A well-formed token with this id.
pub(crate) fn token(id: &str) -> String {
    PresentedToken::new(id, SECRET).unwrap().reveal()
}

pub(crate) const SECRET: &str = "S3cretS3cretS3cretS3cretS3cret12";

pub(crate) fn call(tool: &str) -> String {
    call_with(tool, &json!({}))
}

pub(crate) fn call_with(tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }).to_string()
}

/// A call of the tool `who` without a token.
pub(crate) fn request_without_token() -> TestRequest {
    TestRequest::post(call("who"))
}

/// A valid call of Ada.
pub(crate) fn valid_request() -> TestRequest {
    request_without_token().token(&ada_token())
}

pub(crate) struct StubTools {
    /// The tool `wait` takes one permit.
    pub(crate) gate: Semaphore,
    /// Started calls of `wait`; `finished` has the completed ones.
    pub(crate) started: Semaphore,
    pub(crate) finished: AtomicUsize,
    calls: AtomicUsize,
}

impl StubTools {
    fn new() -> Self {
        Self {
            gate: Semaphore::new(0),
            started: Semaphore::new(0),
            finished: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        }
    }

    fn service(self: &Arc<Self>) -> StubService {
        let stub = self.clone();
        let names = ["big", "busy", "conflict", "forbidden", "panic", "wait", "who"];
        StubService::with_resources(&[("1", "an epic")]).with_tools(&names).on_call(move |call| {
            let stub = stub.clone();
            Box::pin(async move { stub.call(call).await })
        })
    }

    async fn call(&self, call: ToolCall) -> Result<RenderedAnswer> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let data = match call.name.as_str() {
            "who" => json!({
                "user": &*call.caller.name,
                "project": call.caller.project.as_str(),
                "request": call.correlation_id,
            }),
            "big" => {
                let bytes = call.arguments["bytes"].as_u64().unwrap();
                json!({ "text": "x".repeat(usize::try_from(bytes).unwrap()) })
            }
            "wait" => {
                self.started.add_permits(1);
                self.gate.acquire().await.unwrap().forget();
                self.finished.fetch_add(1, Ordering::SeqCst);
                json!({})
            }
            "conflict" => return Err(Error::new(ErrorKind::Conflict, "changed since")),
            "forbidden" => return Err(Error::new(ErrorKind::Forbidden, "not for you")),
            "busy" => return Err(Error::new(ErrorKind::Busy, "try again")),
            other => return Err(Error::new(ErrorKind::UnknownTool, format!("{other}?"))),
        };
        Ok(RenderedAnswer { text: data.to_string(), data: Arc::new(data), written_at: None })
    }
}

#[derive(Default)]
pub(crate) struct StubAuthenticator {
    known: Mutex<HashMap<String, std::result::Result<Arc<Caller>, TokenError>>>,
    look_ups: AtomicUsize,
    pub(crate) is_unavailable: AtomicBool,
    pub(crate) panics: AtomicBool,
    pub(crate) hangs: AtomicBool,
    /// The client's address in the last look-up.
    pub(crate) address: Mutex<String>,
}

impl StubAuthenticator {
    pub(crate) fn set(&self, token: &str, outcome: std::result::Result<UserRole, TokenError>) {
        let caller = outcome.map(|role| {
            let id = PresentedToken::parse(token).unwrap().id;
            Arc::new(caller(id, role))
        });
        self.known.lock().unwrap().insert(token.to_owned(), caller);
    }
}

fn caller(id: TokenId, role: UserRole) -> Caller {
    Caller {
        name: id.as_str()[..3].to_lowercase().into(),
        role,
        access: role.max_access(),
        token: Some(id),
        scope: ProjectScope::Configured,
        project: ProjectKey::default(),
        channel: CallChannel::Mcp,
    }
}

#[async_trait]
impl Authenticator for StubAuthenticator {
    async fn authenticate(
        &self,
        shown: Credentials<'_>,
    ) -> std::result::Result<Arc<Caller>, AuthenticationError> {
        // A missing token is not looked up.
        let token = shown.token.ok_or(AuthenticationError::Token(TokenError::Missing))?;
        self.look_ups.fetch_add(1, Ordering::SeqCst);
        shown.address.clone_into(&mut self.address.lock().unwrap());
        if self.is_unavailable.load(Ordering::SeqCst) {
            return Err(AuthenticationError::Failed(Error::new(
                ErrorKind::Unavailable,
                "/secret/path",
            )));
        }
        assert!(!self.panics.load(Ordering::SeqCst), "of the authenticator");
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let known = self.known.lock().unwrap().get(token).cloned();
        let caller =
            known.unwrap_or(Err(TokenError::Unknown)).map_err(AuthenticationError::Token)?;
        match shown.project {
            None => Ok(caller),
            Some("mine") => {
                let project = ProjectKey::new("mine");
                Ok(Arc::new(Caller { project, ..(*caller).clone() }))
            }
            Some(_) => Err(AuthenticationError::Project(Error::new(
                ErrorKind::NotFound,
                "no such project",
            ))),
        }
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) stub: Arc<StubTools>,
    pub(crate) service: Arc<StubService>,
    pub(crate) tokens: Arc<StubAuthenticator>,
    pub(crate) counters: Arc<TrafficCounters>,
    pub(crate) readiness: Arc<Mutex<Readiness>>,
    pub(crate) shutdown: Shutdown,
    pub(crate) running: JoinHandle<std::io::Result<()>>,
}

/// Returns a configuration with a free port and the tokens of Ada and Bob.
pub(crate) fn config(tokens: &Arc<StubAuthenticator>, limits: HttpLimits) -> HttpConfig {
    tokens.set(&ada_token(), Ok(UserRole::Administrator));
    tokens.set(&bob_token(), Ok(UserRole::User));
    HttpConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        behind_proxy: None,
        hosts: Vec::new(),
        origins: Vec::new(),
        limits,
        answers: reqlore_domain::ports::service::AnswerFormat::Both,
        authenticator: tokens.clone(),
        readiness: Arc::new(|| Readiness::Ready),
        render_metrics: Arc::new(|| "reqlore_up 1\n".to_owned()),
        counters: Arc::default(),
        pages: None,
    }
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::with(HttpLimits::default())
    }

    pub(crate) fn with(limits: HttpLimits) -> Self {
        Self::configured(limits, |_| {})
    }

    pub(crate) fn configured(limits: HttpLimits, change: impl FnOnce(&mut HttpConfig)) -> Self {
        let tokens = Arc::<StubAuthenticator>::default();
        let mut config = config(&tokens, limits);
        let readiness = Arc::new(Mutex::new(Readiness::Ready));
        let state = readiness.clone();
        config.readiness = Arc::new(move || *state.lock().unwrap());
        change(&mut config);
        let counters = config.counters.clone();
        let mut http = HttpTransport::bind(config).unwrap();
        let address = http.local_address().unwrap();
        let (stub, shutdown) = (Arc::new(StubTools::new()), Shutdown::default());
        http.shutdown = shutdown.clone();
        let service = Arc::new(stub.service());
        let running = tokio::spawn(Box::new(http).serve(service.clone()));
        Self { address, stub, service, tokens, counters, readiness, shutdown, running }
    }

    pub(crate) fn count(&self, counter: fn(&TrafficCounters) -> &AtomicU64) -> u64 {
        counter(&self.counters).load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.count(|counters| &counters.in_flight)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.count(|counters| &counters.open_connections)
    }

    /// Tool calls so far.
    pub(crate) fn calls(&self) -> usize {
        self.stub.calls.load(Ordering::SeqCst)
    }

    /// Token look-ups so far.
    pub(crate) fn look_ups(&self) -> usize {
        self.tokens.look_ups.load(Ordering::SeqCst)
    }

    /// Lets `count` calls of `wait` finish, and waits until no request is in flight.
    pub(crate) async fn finish_calls(&self, count: usize) {
        self.stub.gate.add_permits(count);
        while self.in_flight() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Sends a request on a new connection.
    pub(crate) async fn request(&self, request: &TestRequest) -> TestResponse {
        self.connect().await.request(request).await
    }

    /// The status and the error code of a rejected request.
    pub(crate) async fn error_code(&self, request: &TestRequest) -> (u16, i64) {
        self.request(request).await.error_code()
    }

    pub(crate) async fn status(&self, request: &TestRequest) -> u16 {
        self.request(request).await.status
    }

    pub(crate) async fn connect(&self) -> TestConnection {
        TestConnection::open(self.address).await
    }

    /// Sends a request without waiting for the response.
    pub(crate) async fn send(&self, request: &TestRequest) -> TestConnection {
        let mut connection = self.connect().await;
        connection.write(&request.bytes()).await;
        connection
    }

    /// Waits until `times` more calls of `wait` have started.
    pub(crate) async fn wait_started(&self, times: u32) {
        self.stub.started.acquire_many(times).await.unwrap().forget();
    }

    /// Asserts that the server still serves a valid call.
    #[track_caller]
    pub(crate) fn assert_serves(&self) -> impl Future<Output = ()> + '_ {
        let place = std::panic::Location::caller();
        async move {
            let response = self.request(&valid_request()).await;
            assert_eq!(response.status, 200, "{place}: {response:?}");
        }
    }
}

/// Captures everything logged on this thread, at every level.
pub(crate) struct CapturedLog {
    text: SharedText,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct SharedText(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    pub(crate) fn capture() -> Self {
        let text = SharedText::default();
        let writer = text.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.text.0.lock().unwrap().clone()).unwrap()
    }

    /// Asserts that one line contains all these words.
    #[track_caller]
    pub(crate) fn assert_line(&self, words: &[&str]) {
        let text = self.text();
        let line = text.lines().find(|line| words.iter().all(|word| line.contains(word)));
        assert!(line.is_some(), "{words:?}: {text}");
    }
}

impl std::io::Write for SharedText {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
