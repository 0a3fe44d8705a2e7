//! An endpoint with one tool that writes, and resources that all change with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::{
    ApplicationService, Call, Completion, CompletionRequest, Content, ListRequest, Prompt,
    PromptSpec, Reply, ResourceRequest, Resources, TemplateSpec, ToolSpec,
};
use serde_json::{Map, json};

const TEMPLATE: TemplateSpec = TemplateSpec {
    uri_template: "epic://{number}",
    name: "epic",
    title: "Epic",
    description: "An epic.",
    mime_type: "text/plain",
};

pub(crate) struct Stub {
    tool: ToolSpec,
    /// There are `epic://0` and so on.
    count: usize,
    /// How much each says.
    bytes: usize,
    /// How long each takes to read.
    takes: Duration,
    changes: AtomicU64,
}

impl Stub {
    pub(crate) fn new(count: usize, bytes: usize) -> Arc<Self> {
        Self::slow(count, bytes, Duration::ZERO)
    }

    pub(crate) fn slow(count: usize, bytes: usize, takes: Duration) -> Arc<Self> {
        let tool = ToolSpec {
            name: "write",
            title: "Write",
            description: "Writes.",
            input_schema: Map::new(),
            output_schema: Map::new(),
            access: Access::Write,
            may_change: true,
            destructive: false,
            idempotent: false,
        };
        Arc::new(Self { tool, count, bytes, takes, changes: AtomicU64::new(0) })
    }

    pub(crate) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{name:?} is not there")).reference(name)
}

#[async_trait]
impl ApplicationService for Stub {
    fn tools(&self, _: &Caller) -> Vec<&ToolSpec> {
        vec![&self.tool]
    }

    async fn call(&self, _: Call) -> Result<Reply> {
        self.change();
        Ok(Reply { text: vec!["written".to_owned()], data: Arc::new(json!({})) })
    }

    async fn resources(&self, _: ListRequest) -> Result<Resources> {
        Ok(Resources::default())
    }

    fn templates(&self, _: &Caller) -> Vec<&TemplateSpec> {
        vec![&TEMPLATE]
    }

    async fn read(&self, asked: ResourceRequest) -> Result<Content> {
        let number = asked.name.strip_prefix("epic://").and_then(|number| number.parse().ok());
        if number.is_none_or(|number: usize| number >= self.count) {
            return Err(not_found(&asked.name));
        }
        let changes = self.changes.load(Ordering::Relaxed);
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        Ok(Content {
            uri: asked.name,
            name: "epic".to_owned(),
            description: "An epic.".to_owned(),
            mime_type: "text/plain",
            text: format!("{changes}{}", "x".repeat(self.bytes)),
        })
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        Vec::new()
    }

    async fn prompt(&self, asked: ResourceRequest) -> Result<Prompt> {
        Err(not_found(&asked.name))
    }

    async fn complete(&self, _: &Arc<Caller>, _: &str, _: CompletionRequest) -> Result<Completion> {
        Ok(Completion::default())
    }

    async fn admit(&self, _: &Arc<Caller>, _: &str, _: &'static str) -> Result<()> {
        Ok(())
    }

    async fn resources_changed(&self, _: &Caller) -> Result<u64> {
        Ok(self.changes.load(Ordering::Relaxed))
    }
}
