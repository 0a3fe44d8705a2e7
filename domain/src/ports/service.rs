//! Port of the application: the operations that transports offer to clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Access, Caller};
use crate::ports::project_resolver::ProjectResolver;
use crate::timestamp::Timestamp;

/// Runs tools. The application does it in this process, and a client does it through a team server.
#[async_trait]
pub trait ToolService: Send + Sync {
    /// Runs a tool. An unknown, forbidden or failed call changes nothing.
    async fn call(&self, call: ToolCall) -> Result<RenderedAnswer>;
}

/// The application. Responses do not depend on the transport.
#[async_trait]
pub trait ApplicationService: ToolService {
    /// Resolves the projects that tools use; `None` if folders have no meaning for clients.
    fn projects(&self) -> Option<&dyn ProjectResolver> {
        None
    }

    /// The tools that this caller may use, sorted by name. Constant per access level.
    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec>;

    /// The argument schemas of tools that differ from their specs in this caller's project, which
    /// has custom fields or statuses.
    async fn tool_schemas(&self, caller: &Caller) -> Result<ToolSchemas>;

    /// Authorizes and audits a request that the transport answers itself: a handshake, a list of
    /// [`Self::tools`], [`Self::templates`] or [`Self::prompts`], or a subscription. An error is
    /// the response to that request. [`UNKNOWN_METHOD`] is audited as a failure.
    async fn authorize(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        method: &'static str,
    ) -> Result<()>;

    /// Returns a page of the resources. An unknown cursor is an `InvalidArgument`.
    async fn resources(&self, request: ListRequest) -> Result<ResourcePage>;

    /// The URI templates of all readable resources. Constant.
    fn templates(&self, caller: &Caller) -> Vec<&TemplateSpec>;

    /// Returns the content of a resource. A well-formed URI without content is `NotFound`; any
    /// other text is an `InvalidArgument`.
    async fn read(&self, asked: ResourceRequest) -> Result<ResourceContent>;

    /// The prompts that this caller may use, sorted by name. Constant per access level.
    fn prompts(&self, caller: &Caller) -> Vec<&PromptSpec>;

    /// Renders a prompt with stored content. An unknown prompt or a missing argument is an
    /// `InvalidArgument` that lists the prompts or the required arguments.
    async fn prompt(&self, asked: ResourceRequest) -> Result<PromptContent>;

    /// Completes an argument: returns its values that begin with the given text. An argument
    /// that accepts any text has none.
    async fn complete(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        begun: CompletionRequest,
    ) -> Result<CompletionValues>;

    /// A counter that grows when any writer may have changed resources. While it is equal, all
    /// resources are unchanged. It may be some milliseconds old.
    async fn resources_changed(&self, caller: &Caller) -> Result<u64>;
}

/// Argument schemas by tool name.
pub type ToolSchemas = BTreeMap<&'static str, Map<String, Value>>;

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub caller: Arc<Caller>,
    /// The name that the client program gives itself, as untrusted text.
    pub client_name: Option<String>,
    /// Identifies the call in logs and in the response to an internal error.
    pub correlation_id: String,
    /// The tool's name.
    pub name: String,
    pub arguments: Map<String, Value>,
    pub progress_sink: Arc<dyn ProgressSink>,
    /// A repeated write with the same key changes nothing and returns the first answer.
    pub idempotency_key: Option<String>,
    pub answer_format: AnswerFormat,
    /// True if the audit log has another row of the same view. A read that succeeds adds none.
    pub is_audited: bool,
}

/// The renderings of an answer that a caller asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnswerFormat {
    /// Text for a model, within the default limit on size.
    #[default]
    Text,
    /// The whole text, and data that holds everything that it says.
    Both,
}

impl AnswerFormat {
    pub const ALL: [Self; 2] = [Self::Text, Self::Both];

    /// The name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Both => "both",
        }
    }
}

/// Reports the progress of long work to a client or a user, and receives the cancellation.
pub trait ProgressSink: std::fmt::Debug + Send + Sync {
    /// True after the client cancelled the call. Committed changes stay.
    fn is_cancelled(&self) -> bool;

    /// Reports that `done` of `total` steps are complete; `total` is 0 if it is not known.
    /// `message` names the work, such as "Copying". Cheap enough to call for each step.
    fn progress(&self, done: usize, total: usize, message: &str);
}

/// Discards progress; never cancelled.
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
#[expect(clippy::struct_excessive_bools, reason = "independent properties")]
pub struct ToolSpec {
    pub name: &'static str,
    /// Shown to users in lists.
    pub title: &'static str,
    /// Read by the model: the effect of the tool and when to use it.
    pub description: &'static str,
    /// JSON Schema 2020-12 of the arguments.
    pub input_schema: Map<String, Value>,
    /// JSON Schema 2020-12 of [`RenderedAnswer::data`].
    pub output_schema: Map<String, Value>,
    /// The access level that the tool requires.
    pub access: Access,
    /// True if the tool can change documents.
    pub may_change: bool,
    /// True if the tool can remove content that its answer does not contain.
    pub is_destructive: bool,
    /// True if a repeated call has no further effect.
    pub is_idempotent: bool,
    /// True if the default limit on the size of answers does not apply.
    pub is_whole: bool,
    /// False for a tool that works, but is not in the list for clients.
    pub is_listed: bool,
}

/// The method that is audited if the protocol does not know the requested one.
pub const UNKNOWN_METHOD: &str = "unknown";

/// A request for a page of the resources.
#[derive(Debug, Clone)]
pub struct ListRequest {
    pub caller: Arc<Caller>,
    pub correlation_id: String,
    /// The [`ResourcePage::next_cursor`] of the previous page.
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
    /// True for reads of the subscription poller, which are not audited: the subscription is.
    pub is_poll: bool,
    /// True if the client may replace a placeholder such as `$1` in the text of a prompt.
    pub fills_placeholders: bool,
}

/// A page of the resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePage {
    pub resources: Vec<ResourceInfo>,
    /// The cursor to the next page, opaque to clients; `None` on the last page.
    pub next_cursor: Option<String>,
}

/// The description of a resource for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceInfo {
    pub uri: String,
    /// The reference, or the collection's name.
    pub name: String,
    /// Shown to users in lists.
    pub title: String,
    pub description: String,
    pub mime_type: &'static str,
}

/// The description of a URI template (RFC 6570) for clients.
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
    pub is_required: bool,
}

/// A rendered prompt.
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

/// An argument to complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionRequest {
    pub target: CompletionTarget,
    /// The argument's name.
    pub argument: String,
    /// The beginning of its value.
    pub value: String,
}

/// The prompt or template that has the argument.
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
    /// At most 100, the best first.
    pub values: Vec<String>,
    /// Number of all values.
    pub total: usize,
}

/// The answer of a tool, as text and data.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedAnswer {
    /// One block for a model, complete in itself.
    pub text: String,
    /// For programs; null for [`AnswerFormat::Text`]. Shared with repeated answers.
    pub data: Arc<Value>,
    /// The time of the call's changes, which identifies them with the caller. `None` for a read.
    pub written_at: Option<Timestamp>,
}

impl RenderedAnswer {
    /// The data as a type of [`crate::records::answers`].
    pub fn answer<Answer: DeserializeOwned>(&self) -> Result<Answer> {
        Answer::deserialize(&*self.data).map_err(|error| {
            let message = "The tool's answer has an unexpected structure";
            Error::new(ErrorKind::Internal, message).caused_by(error)
        })
    }
}
