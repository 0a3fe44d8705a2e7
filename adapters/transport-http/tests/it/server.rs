//! A running server over a stub of the application and a list of tokens.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, PresentedToken, ProjectScope, Role, TokenError, TokenId};
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_domain::ports::service::{ToolCall, ToolReply};
use reqlore_domain::ports::transport::{TrafficCounters, Transport};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::test_support::StubService;
use reqlore_mcp::shutdown::Shutdown;
use reqlore_transport_http::{Config, Http, Limits};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::client::{Answer, Ask, Connection};

/// The token of Ada, an administrator; Bob is a user.
pub(crate) fn ada() -> String {
    token("AdaAdaAdaAda")
}

pub(crate) fn bob() -> String {
    token("BobBobBobBob")
}

/// A token of good form with this id.
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

/// A call of `who` without a token.
pub(crate) fn who() -> Ask {
    Ask::post(call("who"))
}

/// A call that Ada may make.
pub(crate) fn good() -> Ask {
    who().token(&ada())
}

pub(crate) struct Stub {
    /// The tool `wait` takes one permit.
    pub(crate) gate: Semaphore,
    /// Calls of `wait` that began, and that ended.
    pub(crate) begun: Semaphore,
    pub(crate) ended: AtomicUsize,
    called: AtomicUsize,
}

impl Stub {
    fn new() -> Self {
        Self {
            gate: Semaphore::new(0),
            begun: Semaphore::new(0),
            ended: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
        }
    }

    fn service(self: &Arc<Self>) -> StubService {
        let stub = self.clone();
        let names = ["big", "busy", "conflict", "forbidden", "panic", "wait", "who"];
        StubService::with(&[("1", "an epic")]).tools(&names).on_call(move |call| {
            let stub = stub.clone();
            Box::pin(async move { stub.call(call).await })
        })
    }

    async fn call(&self, call: ToolCall) -> Result<ToolReply> {
        self.called.fetch_add(1, Ordering::SeqCst);
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
                self.begun.add_permits(1);
                self.gate.acquire().await.unwrap().forget();
                self.ended.fetch_add(1, Ordering::SeqCst);
                json!({})
            }
            "conflict" => return Err(Error::new(ErrorKind::Conflict, "changed since")),
            "forbidden" => return Err(Error::new(ErrorKind::Forbidden, "not for you")),
            "busy" => return Err(Error::new(ErrorKind::Busy, "try again")),
            other => return Err(Error::new(ErrorKind::UnknownTool, format!("{other}?"))),
        };
        Ok(ToolReply { text: vec![data.to_string()], data: Arc::new(data) })
    }
}

#[derive(Default)]
pub(crate) struct Tokens {
    known: Mutex<HashMap<String, std::result::Result<Arc<Caller>, TokenError>>>,
    look_ups: AtomicUsize,
    pub(crate) broken: AtomicBool,
    pub(crate) panics: AtomicBool,
    /// The client's address of the last look-up.
    pub(crate) address: Mutex<String>,
}

impl Tokens {
    pub(crate) fn set(&self, token: &str, outcome: std::result::Result<Role, TokenError>) {
        let caller = outcome.map(|role| {
            let id = PresentedToken::parse(token).unwrap().id;
            Arc::new(caller(id, role))
        });
        self.known.lock().unwrap().insert(token.to_owned(), caller);
    }
}

fn caller(id: TokenId, role: Role) -> Caller {
    Caller {
        name: id.as_str()[..3].to_lowercase().into(),
        role,
        access: role.access(),
        token: Some(id),
        reach: ProjectScope::Configured,
        project: ProjectKey::default(),
    }
}

#[async_trait]
impl Authenticator for Tokens {
    async fn authenticate(
        &self,
        shown: Credentials<'_>,
    ) -> std::result::Result<Arc<Caller>, AuthenticationError> {
        self.look_ups.fetch_add(1, Ordering::SeqCst);
        shown.address.clone_into(&mut self.address.lock().unwrap());
        if self.broken.load(Ordering::SeqCst) {
            return Err(AuthenticationError::Failed(Error::new(
                ErrorKind::Unavailable,
                "/secret/path",
            )));
        }
        assert!(!self.panics.load(Ordering::SeqCst), "of the authenticator");
        let known = self.known.lock().unwrap().get(shown.token.unwrap()).cloned();
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

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stub: Arc<Stub>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) counters: Arc<TrafficCounters>,
    pub(crate) is_ready: Arc<AtomicBool>,
    pub(crate) ending: Shutdown,
    pub(crate) running: JoinHandle<std::io::Result<()>>,
}

/// A configuration on a free port, with Ada's and Bob's tokens.
pub(crate) fn config(tokens: &Arc<Tokens>, limits: Limits) -> Config {
    tokens.set(&ada(), Ok(Role::Administrator));
    tokens.set(&bob(), Ok(Role::User));
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        behind_proxy: None,
        hosts: Vec::new(),
        origins: Vec::new(),
        limits,
        authenticator: tokens.clone(),
        ready: Arc::new(|| true),
        metrics: Arc::new(|| "reqlore_up 1\n".to_owned()),
        counters: Arc::default(),
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        Self::configured(limits, |_| {})
    }

    pub(crate) fn configured(limits: Limits, change: impl FnOnce(&mut Config)) -> Self {
        let tokens = Arc::<Tokens>::default();
        let mut config = config(&tokens, limits);
        let is_ready = Arc::new(AtomicBool::new(true));
        let ready = is_ready.clone();
        config.ready = Arc::new(move || ready.load(Ordering::SeqCst));
        change(&mut config);
        let counters = config.counters.clone();
        let mut http = Http::bind(config).unwrap();
        let address = http.address().unwrap();
        let (stub, ending) = (Arc::new(Stub::new()), Shutdown::default());
        http.shutdown = ending.clone();
        let running = tokio::spawn(Box::new(http).serve(Arc::new(stub.service())));
        Self { address, stub, tokens, counters, is_ready, ending, running }
    }

    pub(crate) fn count(&self, counter: fn(&TrafficCounters) -> &AtomicU64) -> u64 {
        counter(&self.counters).load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.count(|counters| &counters.in_flight)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.count(|counters| &counters.connections)
    }

    /// Calls of tools so far.
    pub(crate) fn called(&self) -> usize {
        self.stub.called.load(Ordering::SeqCst)
    }

    /// Look-ups of tokens so far.
    pub(crate) fn look_ups(&self) -> usize {
        self.tokens.look_ups.load(Ordering::SeqCst)
    }

    /// Lets waiting calls run, and waits until no request is in flight.
    pub(crate) async fn finish_calls(&self, count: usize) {
        self.stub.gate.add_permits(count);
        while self.in_flight() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Asks on a connection of its own.
    pub(crate) async fn ask(&self, ask: &Ask) -> Answer {
        self.connect().await.ask(ask).await
    }

    /// The status and the error code of a refused request.
    pub(crate) async fn refusal(&self, ask: &Ask) -> (u16, i64) {
        self.ask(ask).await.refusal()
    }

    pub(crate) async fn status(&self, ask: &Ask) -> u16 {
        self.ask(ask).await.status
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Asks without waiting for the answer.
    pub(crate) async fn begin(&self, ask: &Ask) -> Connection {
        let mut connection = self.connect().await;
        connection.write(&ask.bytes()).await;
        connection
    }

    /// Waits until `wait` runs this many times more.
    pub(crate) async fn begun(&self, times: u32) {
        self.stub.begun.acquire_many(times).await.unwrap().forget();
    }

    /// The server still answers a good call.
    #[track_caller]
    pub(crate) fn lives(&self) -> impl Future<Output = ()> + '_ {
        let place = std::panic::Location::caller();
        async move {
            let answer = self.ask(&good()).await;
            assert_eq!(answer.status, 200, "{place}: {answer:?}");
        }
    }
}

/// Everything logged on this thread from now on, at every level.
pub(crate) struct Log {
    text: SharedText,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct SharedText(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn keep() -> Self {
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

    /// Asserts that one line has all these words.
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
