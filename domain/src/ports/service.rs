//! Port of the application: the requests of transports.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::identity::{Access, Caller};

/// The application as transports see it. Answers do not depend on the transport.
#[async_trait]
pub trait ApplicationService: Send + Sync {
    /// The tools that this caller may use, sorted by name; the same at every call.
    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec>;

    /// Runs one tool. Unknown, forbidden and failed calls change nothing.
    async fn call(&self, call: ToolCall) -> Result<ToolReply>;

    /// Authorizes and records a request that the transport answers itself: a handshake, a list of
    /// [`Self::tools`], [`Self::templates`] or [`Self::prompts`], a subscription. An error is the
    /// answer. [`UNKNOWN_METHOD`] is recorded as a failure.
    async fn authorize(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        method: &'static str,
    ) -> Result<()>;

    /// A page of the resources; an unknown cursor is an `InvalidArgument`.
    async fn resources(&self, request: ListRequest) -> Result<ResourcePage>;

    /// The forms of URIs that can be read, the same at every call.
    fn templates(&self, caller: &Caller) -> Vec<&TemplateSpec>;

    /// The content of a URI: `NotFound` for a well-formed URI without content, `InvalidArgument`
    /// for any other text.
    async fn read(&self, asked: ResourceRequest) -> Result<ResourceContent>;

    /// The prompts that this caller may use, sorted by name; the same at every call.
    fn prompts(&self, caller: &Caller) -> Vec<&PromptSpec>;

    /// A prompt with stored content. An unknown prompt and a missing argument are an
    /// `InvalidArgument` that names the prompts and the required arguments.
    async fn prompt(&self, asked: ResourceRequest) -> Result<PromptContent>;

    /// The values of an argument with this beginning; none for an argument that takes any text.
    async fn complete(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        begun: CompletionRequest,
    ) -> Result<CompletionValues>;

    /// A count that grows with every possible change of resources, by any writer. An equal count
    /// means unchanged resources.
    async fn resources_changed(&self, caller: &Caller) -> Result<u64>;
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub caller: Arc<Caller>,
    /// Names this call in logs, and in the answer to an internal error.
    pub correlation_id: String,
    /// The tool's name.
    pub name: String,
    pub arguments: Map<String, Value>,
    pub observer: Arc<dyn ProgressSink>,
    /// A repeated write with the same key returns the first response and changes nothing.
    pub idempotency_key: Option<String>,
}

/// The connection of a long call to its caller.
pub trait ProgressSink: std::fmt::Debug + Send + Sync {
    /// True after the caller cancelled the call. Committed changes stay.
    fn is_cancelled(&self) -> bool;

    /// Reports that `done` of `total` steps are complete.
    fn progress(&self, done: usize, total: usize, message: &str);
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn progress(&self, _: usize, _: usize, _: &str) {}
}

/// The description of a tool for clients.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    pub name: &'static str,
    /// For people, in a list.
    pub title: &'static str,
    /// For the model: what the tool does and when to use it.
    pub description: &'static str,
    /// JSON Schema 2020-12 of the arguments.
    pub input_schema: Map<String, Value>,
    /// JSON Schema 2020-12 of [`ToolReply::data`].
    pub output_schema: Map<String, Value>,
    pub access: Access,
    /// True if it may change documents.
    pub may_change: bool,
    /// True if it may remove content that its response does not contain.
    pub destructive: bool,
    /// True if a repeated call has no further effect.
    pub idempotent: bool,
}

/// Recorded for a request whose method the protocol does not know.
pub const UNKNOWN_METHOD: &str = "unknown";

/// A request for a page of the resources.
#[derive(Debug, Clone)]
pub struct ListRequest {
    pub caller: Arc<Caller>,
    pub correlation_id: String,
    /// Continues an earlier page.
    pub cursor: Option<String>,
    /// See [`ResourceRequest::is_poll`].
    pub is_poll: bool,
}

/// A request for a resource or a prompt.
#[derive(Debug, Clone)]
pub struct ResourceRequest {
    pub caller: Arc<Caller>,
    pub correlation_id: String,
    /// The resource's URI, or the prompt's name.
    pub name: String,
    /// The prompt's arguments.
    pub arguments: Map<String, Value>,
    /// True for reads of the subscription poller; the audit has the original request.
    pub is_poll: bool,
}

/// A page of the resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePage {
    pub resources: Vec<ResourceInfo>,
    /// Continues the list; opaque.
    pub next_cursor: Option<String>,
}

/// The description of a resource for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceInfo {
    pub uri: String,
    /// The reference, or the collection's name.
    pub name: String,
    /// For people, in a list.
    pub title: String,
    pub description: String,
    pub mime_type: &'static str,
}

/// A template of URIs (RFC 6570).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSpec {
    pub uri_template: &'static str,
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub mime_type: &'static str,
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceContent {
    pub uri: String,
    pub name: String,
    pub description: String,
    pub mime_type: &'static str,
    pub text: String,
}

/// The description of a prompt for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSpec {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub arguments: &'static [ArgumentSpec],
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentSpec {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub required: bool,
}

/// A prompt with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptContent {
    pub description: String,
    /// Messages of the user to the model.
    pub messages: Vec<PromptPart>,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptPart {
    Text(String),
    /// Stored content, embedded as a resource.
    Resource(ResourceContent),
}

/// The beginning of an argument to complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionRequest {
    pub of: CompletionTarget,
    pub argument: String,
    pub value: String,
}

/// The owner of the argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget {
    /// The name of a prompt.
    Prompt(String),
    /// A URI template.
    Template(String),
}

/// The possible values of an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompletionValues {
    /// The best first, 100 at most.
    pub values: Vec<String>,
    /// Number of all values.
    pub total: usize,
}

/// A successful answer: text for a reader, data for a program.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReply {
    /// Text blocks, the answer first.
    pub text: Vec<String>,
    /// Shared by repeated responses.
    pub data: Arc<Value>,
}
