//! The driving port, as the application answers it: find what is asked for, check the right, pass
//! on to the file that does it.

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::endpoint::{
    Asked, Begun, Call, Completion, Content, Endpoint, Prompt, PromptSpec, Reply, Resources,
    TemplateSpec, ToolSpec,
};
use reqlore_domain::ports::projects::Slice;
use tracing::Instrument;

use crate::Application;
use crate::backlog::{prompts, resources};

impl Application {
    fn unknown_tool(&self, name: &str) -> Error {
        let names: Vec<&str> = self.tools.iter().map(|(spec, _)| spec.name).collect();
        let message = format!("Unknown tool {name:?}. The tools are: {}.", names.join(", "));
        Error::new(ErrorKind::UnknownTool, message).reference(name)
    }

    /// Resources and prompts are the backlog's.
    fn has_backlog(&self) -> bool {
        self.context.ports.settings.toolsets.contains(&Slice::Backlog)
    }
}

#[async_trait]
impl Endpoint for Application {
    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec> {
        let specs = self.tools.iter().map(|(spec, _)| spec);
        specs.filter(|spec| caller.may(spec.access)).collect()
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        let found = self.tools.iter().find(|(spec, _)| spec.name == call.name);
        let Some((spec, tool)) = found else {
            return Err(self.unknown_tool(&call.name));
        };
        if !call.caller.may(spec.access) {
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!("{} writes, and {} may only read.", spec.name, call.caller.name),
            ));
        }
        let span = tracing::info_span!("call", tool = spec.name, id = %call.correlation_id);
        tool.call(&self.context, spec, call).instrument(span).await
    }

    async fn resources(&self, _: &Caller, cursor: Option<String>) -> Result<Resources> {
        if !self.has_backlog() {
            return Ok(Resources::default());
        }
        resources::list(&self.context, cursor).await
    }

    fn templates(&self, _: &Caller) -> Vec<&TemplateSpec> {
        if self.has_backlog() {
            resources::TEMPLATES.iter().map(|form| &form.spec).collect()
        } else {
            Vec::new()
        }
    }

    async fn read(&self, asked: Asked) -> Result<Content> {
        let span = tracing::info_span!("read", uri = asked.name, id = %asked.correlation_id);
        resources::read(&self.context, self.has_backlog(), &asked.name).instrument(span).await
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        if self.has_backlog() { prompts::ALL.iter().map(|p| &p.spec).collect() } else { Vec::new() }
    }

    async fn prompt(&self, asked: Asked) -> Result<Prompt> {
        let span = tracing::info_span!("prompt", name = asked.name, id = %asked.correlation_id);
        prompts::get(&self.context, self.has_backlog(), asked).instrument(span).await
    }

    async fn complete(&self, _: &Caller, begun: Begun) -> Result<Completion> {
        if !self.has_backlog() {
            return Ok(Completion::default());
        }
        resources::complete(&self.context, &begun).await
    }

    async fn resources_changed(&self, _: &Caller) -> Result<u64> {
        self.context.changed.count(&self.context.ports).await
    }
}
