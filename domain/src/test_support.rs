//! A stub of the application for tests of transports and protocols.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use serde_json::{Map, json};

use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Access, Caller};
use crate::ports::project_resolver::ProjectResolver;
use crate::ports::service::{
    ApplicationService, ArgumentSpec, CompletionRequest, CompletionValues, ListRequest,
    PromptContent, PromptPart, PromptSpec, RenderedAnswer, ResourceContent, ResourceInfo,
    ResourcePage, ResourceRequest, TemplateSpec, ToolCall, ToolSchemas, ToolService, ToolSpec,
};
use crate::records::fields::RecordField;
use crate::records::kinds::RecordKind;

/// A row that a test adds to the table of kinds, before anything reads it.
pub static ADDED_KIND: OnceLock<RecordKind> = OnceLock::new();
/// A row that a test adds to the table of fields, before anything reads it.
pub static ADDED_FIELD: OnceLock<RecordField> = OnceLock::new();

const TEMPLATE: TemplateSpec = TemplateSpec {
    uri_template: "epic://{reference}",
    name: "epic",
    title: "Epic",
    description: "An epic.",
    mime_type: "application/json",
};

const PROMPT: PromptSpec = PromptSpec {
    name: "decompose_epic",
    title: "Decompose an epic",
    description: "Asks for stories.",
    arguments: &[ArgumentSpec {
        name: "epic",
        title: "Epic",
        description: "The reference.",
        is_required: true,
    }],
};

const PAGE_SIZE: usize = 2;

/// The future of a handler or hook that a test provides.
pub type StubFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type CallHandler = Box<dyn Fn(ToolCall) -> StubFuture<Result<RenderedAnswer>> + Send + Sync>;
type ReadHook = Box<dyn Fn() -> StubFuture<()> + Send + Sync>;

/// Serves one template, one prompt, and resources that a test changes. Tool calls go to a handler.
/// In every method, a name that ends with `panic` panics and one that ends with `hang` never
/// returns.
pub struct StubService {
    tools: Vec<ToolSpec>,
    on_call: CallHandler,
    before_read: Option<ReadHook>,
    /// False for a service without resources and prompts.
    has_backlog: bool,
    projects: Option<Arc<dyn ProjectResolver>>,
    state: Mutex<StubState>,
}

impl std::fmt::Debug for StubService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StubService").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct StubState {
    resources: BTreeMap<String, String>,
    revision: u64,
    polls: usize,
    read_error: Option<ErrorKind>,
    schemas: ToolSchemas,
}

impl Default for StubService {
    fn default() -> Self {
        Self {
            tools: Vec::new(),
            on_call: Box::new(|_| Box::pin(async { Ok(rendered_answer()) })),
            before_read: None,
            has_backlog: true,
            projects: None,
            state: Mutex::default(),
        }
    }
}

impl StubService {
    /// A stub with these resources, as references and texts.
    pub fn with_resources(resources: &[(&str, &str)]) -> Self {
        let stub = Self::default();
        for (reference, text) in resources {
            stub.set(reference, text);
        }
        stub
    }

    /// A stub without resources and prompts.
    pub fn without_backlog() -> Self {
        Self { has_backlog: false, ..Self::default() }
    }

    /// Adds tools that require write access.
    #[must_use]
    pub fn with_tools(self, names: &[&'static str]) -> Self {
        Self { tools: names.iter().map(|name| stub_tool(name)).collect(), ..self }
    }

    #[must_use]
    pub fn with_projects(self, projects: Arc<dyn ProjectResolver>) -> Self {
        Self { projects: Some(projects), ..self }
    }

    #[must_use]
    pub fn on_call(
        self,
        handler: impl Fn(ToolCall) -> StubFuture<Result<RenderedAnswer>> + Send + Sync + 'static,
    ) -> Self {
        Self { on_call: Box::new(handler), ..self }
    }

    /// Sets a hook that runs before each read of a resource.
    #[must_use]
    pub fn before_read(self, hook: impl Fn() -> StubFuture<()> + Send + Sync + 'static) -> Self {
        Self { before_read: Some(Box::new(hook)), ..self }
    }

    pub fn set(&self, reference: &str, text: &str) {
        let mut state = self.next_revision();
        state.resources.insert(format!("epic://{reference}"), text.to_owned());
    }

    pub fn remove(&self, reference: &str) {
        self.next_revision().resources.remove(&format!("epic://{reference}"));
    }

    /// Changes the content of every resource.
    pub fn touch_all(&self) {
        let mut state = self.next_revision();
        let revision = state.revision;
        for text in state.resources.values_mut() {
            let content = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
            *text = format!("{revision}{content}");
        }
    }

    /// Describes the arguments of a tool.
    pub fn describe_tool(&self, tool: &'static str, description: &str) {
        let schema = Map::from_iter([("description".to_owned(), json!(description))]);
        self.state().schemas.insert(tool, schema);
    }

    /// Makes all following reads fail; `None` makes them succeed again.
    pub fn fail_reads(&self, kind: Option<ErrorKind>) {
        self.state().read_error = kind;
    }

    /// Number of calls of `resources_changed`.
    pub fn polls(&self) -> usize {
        self.state().polls
    }

    fn state(&self) -> MutexGuard<'_, StubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_revision(&self) -> MutexGuard<'_, StubState> {
        let mut state = self.state();
        state.revision += 1;
        state
    }
}

/// A tool with this name that requires write access.
pub fn stub_tool(name: &'static str) -> ToolSpec {
    let schema = Map::from_iter([("type".to_owned(), json!("object"))]);
    ToolSpec {
        name,
        title: name,
        description: "For tests.",
        input_schema: schema.clone(),
        output_schema: schema,
        access: Access::Write,
        may_change: true,
        is_destructive: false,
        is_idempotent: false,
        is_whole: false,
        is_listed: true,
    }
}

/// An answer with text and data.
pub fn rendered_answer() -> RenderedAnswer {
    RenderedAnswer { text: "a".into(), data: Arc::new(json!({ "n": 1 })), written_at: None }
}

/// An error of this kind with field, reference and hint.
pub fn error(kind: ErrorKind) -> Error {
    Error::new(kind, "words").field("f").reference("r").hint("h")
}

fn invalid(field: &str, message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).field(field)
}

fn content(uri: &str, text: &str) -> ResourceContent {
    ResourceContent {
        uri: uri.to_owned(),
        name: "EP-1".to_owned(),
        description: "An epic.".to_owned(),
        mime_type: "application/json",
        text: text.to_owned(),
    }
}

async fn misbehave(name: &str) {
    assert!(!name.ends_with("panic"), "an internal secret");
    if name.ends_with("hang") {
        std::future::pending::<()>().await;
    }
}

#[async_trait]
impl ToolService for StubService {
    async fn call(&self, call: ToolCall) -> Result<RenderedAnswer> {
        misbehave(&call.name).await;
        (self.on_call)(call).await
    }
}

#[async_trait]
impl ApplicationService for StubService {
    fn projects(&self) -> Option<&dyn ProjectResolver> {
        self.projects.as_deref()
    }

    fn tools(&self, _: &Caller) -> Vec<&ToolSpec> {
        self.tools.iter().collect()
    }

    async fn tool_schemas(&self, _: &Caller) -> Result<ToolSchemas> {
        Ok(self.state().schemas.clone())
    }

    async fn authorize(&self, _: &Arc<Caller>, _: &str, _: &'static str) -> Result<()> {
        Ok(())
    }

    async fn resources(&self, request: ListRequest) -> Result<ResourcePage> {
        let cursor = request.cursor.unwrap_or_else(|| "0".to_owned());
        misbehave(&cursor).await;
        let Ok(first) = cursor.parse::<usize>() else {
            return Err(invalid("cursor", "cursor: it is unknown"));
        };
        let state = self.state();
        let mut resources = Vec::new();
        for (uri, text) in state.resources.iter().skip(first).take(PAGE_SIZE) {
            resources.push(ResourceInfo {
                uri: uri.clone(),
                name: uri.clone(),
                title: text.lines().next().unwrap_or_default().to_owned(),
                description: "An epic.".to_owned(),
                mime_type: "application/json",
            });
        }
        let next = first + PAGE_SIZE;
        let next_cursor = (next < state.resources.len()).then(|| next.to_string());
        Ok(ResourcePage { resources, next_cursor })
    }

    fn templates(&self, _: &Caller) -> Vec<&TemplateSpec> {
        if self.has_backlog { vec![&TEMPLATE] } else { Vec::new() }
    }

    async fn read(&self, request: ResourceRequest) -> Result<ResourceContent> {
        if let Some(kind) = self.state().read_error {
            return Err(Error::new(kind, "words").hint("try again"));
        }
        misbehave(&request.name).await;
        if !request.name.starts_with("epic://") {
            return Err(invalid("uri", "uri: it is not a Reqlore URI"));
        }
        let text = self.state().resources.get(&request.name).cloned();
        // After taking the text, so that a test can change it during a read.
        if let Some(hook) = &self.before_read {
            hook().await;
        }
        match text {
            Some(text) => Ok(content(&request.name, &text)),
            None => Err(Error::new(ErrorKind::NotFound, "Epic not found").reference("EP-1")),
        }
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        if self.has_backlog { vec![&PROMPT] } else { Vec::new() }
    }

    async fn prompt(&self, request: ResourceRequest) -> Result<PromptContent> {
        misbehave(&request.name).await;
        match (request.name.as_str(), request.arguments.get("epic")) {
            ("decompose_epic", None) => Err(invalid("epic", "epic: it is required")),
            ("decompose_epic", Some(epic)) => {
                let text = format!("Decompose {}.", epic.as_str().unwrap_or_default());
                let stored = PromptPart::Resource(content("epic://EP-1", "stored"));
                let messages = vec![PromptPart::Text(text), stored];
                Ok(PromptContent { description: "Asks for stories.".to_owned(), messages })
            }
            _ => Err(invalid("name", "Unknown prompt. The prompts are: decompose_epic.")),
        }
    }

    async fn complete(
        &self,
        _: &Arc<Caller>,
        _: &str,
        request: CompletionRequest,
    ) -> Result<CompletionValues> {
        misbehave(&request.value).await;
        let CompletionRequest { target: of, value, .. } = request;
        let values = (0..150).map(|number| format!("{of:?} {value}{number}")).collect();
        Ok(CompletionValues { values, total: 150 })
    }

    async fn resources_changed(&self, _: &Caller) -> Result<u64> {
        let mut state = self.state();
        state.polls += 1;
        Ok(state.revision)
    }
}
