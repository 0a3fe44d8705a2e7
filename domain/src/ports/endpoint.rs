//! The driving port: what a transport may ask of the application.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::identity::{Access, Caller};

/// The application as transports see it. Answers do not depend on the transport.
#[async_trait]
pub trait Endpoint: Send + Sync {
    /// The tools that this caller may use, sorted by name; the same at every call.
    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec>;

    /// Runs one tool. Unknown, forbidden and failed calls change nothing.
    async fn call(&self, call: Call) -> Result<Reply>;
}

/// One call through the endpoint.
#[derive(Debug, Clone)]
pub struct Call {
    pub caller: Caller,
    /// Names this call in logs and, where something broke, in the answer.
    pub correlation_id: String,
    /// The tool's name.
    pub name: String,
    pub arguments: Map<String, Value>,
    pub observer: Arc<dyn Observer>,
}

/// How a long call stays in touch with whoever made it.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// Does nobody want the answer any more? What was done until then stays.
    fn is_cancelled(&self) -> bool;

    /// `done` of `total` steps are behind us.
    fn progress(&self, done: usize, total: usize, message: &str);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
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

/// A successful answer: text for a reader, data for a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Text blocks, the answer first.
    pub text: Vec<String>,
    /// Shared, because some answers are made once and given many times.
    pub data: Arc<Value>,
}
