//! The driving port: what a transport may ask of the application.

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
    async fn call(&self, call: Call) -> Result<Reply>;

    /// Authorizes and records a request that the transport answers itself: a handshake, a list of
    /// [`Self::tools`], [`Self::templates`] or [`Self::prompts`], a subscription. An error is the
    /// answer. [`UNKNOWN_METHOD`] is recorded as a failure.
    async fn admit(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        method: &'static str,
    ) -> Result<()>;

    /// A page of the resources; an unknown cursor is an `InvalidArgument`.
    async fn resources(&self, request: ListRequest) -> Result<Resources>;

    /// The forms of URIs that can be read, the same at every call.
    fn templates(&self, caller: &Caller) -> Vec<&TemplateSpec>;

    /// What a URI stands for (S5 6): `NotFound` for a well-formed one of nothing,
    /// `InvalidArgument` for any other text.
    async fn read(&self, asked: ResourceRequest) -> Result<Content>;

    /// The prompts that this caller may use, sorted by name; the same at every call.
    fn prompts(&self, caller: &Caller) -> Vec<&PromptSpec>;

    /// Makes a prompt of what is stored (S5 8). An unknown one and a missing argument are an
    /// `InvalidArgument` that names what there is and what is required.
    async fn prompt(&self, asked: ResourceRequest) -> Result<Prompt>;

    /// What an argument may be that begins like this; nothing for what takes any text.
    async fn complete(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        begun: CompletionRequest,
    ) -> Result<Completion>;

    /// A count that grows whenever resources may say something else than before, whoever changed
    /// it; two equal counts promise that they do not.
    async fn resources_changed(&self, caller: &Caller) -> Result<u64>;
}

/// One call through the endpoint.
#[derive(Debug, Clone)]
pub struct Call {
    pub caller: Arc<Caller>,
    /// Names this call in logs and, where something broke, in the answer.
    pub correlation_id: String,
    /// The tool's name.
    pub name: String,
    pub arguments: Map<String, Value>,
    pub observer: Arc<dyn ProgressSink>,
    /// A repeated write with the same key returns the first response and changes nothing.
    pub idempotency_key: Option<String>,
}

/// How a long call stays in touch with whoever made it.
pub trait ProgressSink: std::fmt::Debug + Send + Sync {
    /// Does nobody want the answer any more? What was done until then stays.
    fn is_cancelled(&self) -> bool;

    /// `done` of `total` steps are behind us.
    fn progress(&self, done: usize, total: usize, message: &str);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn progress(&self, _: usize, _: usize, _: &str) {}
}

/// What clients are told about a tool. All words are constants of the program.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    pub name: &'static str,
    /// For people, in a list.
    pub title: &'static str,
    /// For the model: what the tool does and when to use it.
    pub description: &'static str,
    /// JSON Schema 2020-12 of the arguments.
    pub input_schema: Map<String, Value>,
    /// JSON Schema 2020-12 of [`Reply::data`].
    pub output_schema: Map<String, Value>,
    pub access: Access,
    /// May it change documents, for a caller who may?
    pub may_change: bool,
    /// May it take something away that is not given back in the answer's place?
    pub destructive: bool,
    /// Does the same call twice have the effect of one?
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

/// A question to a resource or a prompt.
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

/// A part of what can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub resources: Vec<Resource>,
    /// Continues the list; opaque.
    pub next_cursor: Option<String>,
}

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    /// The reference, or the collection's name.
    pub name: String,
    /// For people, in a list.
    pub title: String,
    pub description: String,
    pub mime_type: &'static str,
}

/// A form of URIs (RFC 6570). All words are constants of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSpec {
    pub uri_template: &'static str,
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub mime_type: &'static str,
}

/// What a resource says (S5 6.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub uri: String,
    pub name: String,
    pub description: String,
    pub mime_type: &'static str,
    pub text: String,
}

/// What clients are told about a prompt. All words are constants of the program.
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

/// A prompt with everything in it (S5 8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub description: String,
    /// What the user says to the model, in this order.
    pub messages: Vec<Message>,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Text(String),
    /// Stored content, as the resource that it is.
    Resource(Content),
}

/// An argument that somebody began to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionRequest {
    pub of: CompletionTarget,
    pub argument: String,
    pub value: String,
}

/// Whose argument it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget {
    /// A prompt's, by its name.
    Prompt(String),
    /// A variable of a template of URIs.
    Template(String),
}

/// What an argument may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// The best first, 100 at most.
    pub values: Vec<String>,
    /// How many there are in all.
    pub total: usize,
}

/// A successful answer: text for a reader, data for a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Text blocks, the answer first.
    pub text: Vec<String>,
    /// Shared, because some answers are made once and given many times.
    pub data: Arc<Value>,
}
