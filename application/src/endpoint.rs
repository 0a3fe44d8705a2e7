//! The driving port, as the application answers it: find what is asked for, ask the gate, pass on
//! to the file that does it, and put it on record.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::audit::Target;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{
    ApplicationService, Call, Completion, CompletionRequest, Content, ListRequest, Prompt,
    PromptSpec, Reply, ResourceRequest, Resources, TemplateSpec, ToolSpec, UNKNOWN_METHOD,
};
use tracing::Instrument;

use crate::audit::{self, Noted};
use crate::backlog::{prompts, resources};
use crate::{Application, Context, gate, once};

/// How many names an unknown one is answered with: a message that lists all is read by nobody.
const NEAR: usize = 3;

impl Application {
    fn unknown_tool(&self, caller: &Caller, name: &str) -> Error {
        let mut names: Vec<&str> = self.tools(caller).iter().map(|spec| spec.name).collect();
        let likeness = |known: &str| strsim::jaro_winkler(name, known);
        names.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
        names.truncate(NEAR);
        let near = names.join(", ");
        let message =
            format!("Unknown tool {name:?}; near it are {near}, and tools/list names all");
        Error::new(ErrorKind::UnknownTool, message).reference(name)
    }

    /// Finds the tool, asks the gate and calls it.
    async fn admitted(&self, context: &mut Context, call: Call) -> Result<Reply> {
        let found = self.tools.iter().find(|(spec, _)| spec.name == call.name);
        let Some((spec, tool)) = found else {
            return Err(self.unknown_tool(&call.caller, &call.name));
        };
        let ports = &self.context.ports;
        gate::admit(&*ports.projects, &call.caller, spec.access, spec.name)?;
        let span = tracing::error_span!("call", tool = spec.name, id = %call.correlation_id);
        let once = if spec.access == Access::Write { once::of(&call) } else { None };
        let Some(once) = once else {
            return tool.call(context, spec, call).instrument(span).await;
        };
        let _turn = self.context.turns.wait(&once.key).await;
        if let Some(reply) = once::again(&*ports.answers, &once, ports.clock.now()).await? {
            context.audit.as_ref().inspect(|audit| audit.mark_replayed());
            return Ok(reply);
        }
        context.once = Some(once.clone());
        let outcome = tool.call(context, spec, call).instrument(span).await;
        match &outcome {
            Ok(reply) => once::keep(&*ports.answers, &once, reply).await,
            // Another process may have been faster.
            Err(error) if error.kind == ErrorKind::Conflict => {
                let again = once::again(&*ports.answers, &once, ports.clock.now()).await?;
                return again.map_or(outcome, Ok);
            }
            Err(_) => {}
        }
        outcome
    }

    fn authorize_read(&self, caller: &Caller, what: &str) -> Result<()> {
        gate::admit(&*self.context.ports.projects, caller, Access::Read, what)
    }

    /// Resources and prompts are the backlog's.
    fn has_backlog(&self) -> bool {
        self.context.ports.settings.toolsets.contains(&Toolset::Backlog)
    }
}

const LIST: &str = "resources/list";
const COMPLETE: &str = "completion/complete";
const READ: &str = "resources/read";
const PROMPT: &str = "prompts/get";

fn noted<'a>(asked: &'a ResourceRequest, action: &'a str) -> Noted<'a> {
    let ResourceRequest { caller, correlation_id, name, arguments, .. } = asked;
    let mut targets = vec![Target::read(audit::short(name))];
    targets.extend(audit::targets(arguments));
    Noted { caller, correlation_id, action, targets }
}

/// A record without targets.
fn plain<'a>(caller: &'a Caller, correlation_id: &'a str, action: &'a str) -> Noted<'a> {
    Noted { caller, correlation_id, action, targets: Vec::new() }
}

#[async_trait]
impl ApplicationService for Application {
    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec> {
        let specs = self.tools.iter().map(|(spec, _)| spec);
        specs.filter(|spec| caller.may(spec.access)).collect()
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        let recorder = &self.context.recorder;
        let audit = recorder.begin();
        let targets = audit.as_ref().map(|_| audit::targets(&call.arguments));
        let mut context = Context { audit: audit.clone(), ..self.context.clone() };
        let (caller, id, name) =
            (Arc::clone(&call.caller), call.correlation_id.clone(), call.name.clone());
        let outcome = self.admitted(&mut context, call).await;
        let noted = || Noted {
            caller: &caller,
            correlation_id: &id,
            action: &name,
            targets: targets.unwrap_or_default(),
        };
        recorder.end(audit.as_ref(), noted, outcome).await
    }

    async fn admit(&self, caller: &Arc<Caller>, id: &str, method: &'static str) -> Result<()> {
        let admitted = self.authorize_read(caller, method);
        let unknown = (method == UNKNOWN_METHOD).then_some(ErrorKind::InvalidArgument);
        let error = unknown.or(admitted.as_ref().err().map(|error| error.kind));
        self.context.recorder.note(plain(caller, id, method), error).await.and(admitted)
    }

    async fn resources(&self, request: ListRequest) -> Result<Resources> {
        let ListRequest { caller, correlation_id, cursor, is_poll } = request;
        let recorder = &self.context.recorder;
        let audit = if is_poll { None } else { recorder.begin() };
        let listing = async {
            self.authorize_read(&caller, LIST)?;
            if !self.has_backlog() {
                return Ok(Resources::default());
            }
            resources::list(&self.context, &caller, cursor).await
        };
        let outcome = listing.await;
        recorder.end(audit.as_ref(), || plain(&caller, &correlation_id, LIST), outcome).await
    }

    fn templates(&self, _: &Caller) -> Vec<&TemplateSpec> {
        if self.has_backlog() {
            resources::TEMPLATES.iter().map(|form| &form.spec).collect()
        } else {
            Vec::new()
        }
    }

    async fn read(&self, asked: ResourceRequest) -> Result<Content> {
        let recorder = &self.context.recorder;
        // Who asked once is on record.
        let audited = if asked.is_poll { None } else { recorder.begin() };
        let span = tracing::error_span!("read", uri = asked.name, id = %asked.correlation_id);
        let reading = async {
            self.authorize_read(&asked.caller, READ)?;
            resources::read(&self.context, self.has_backlog(), &asked.caller, &asked.name).await
        };
        let outcome = reading.instrument(span).await;
        recorder.end(audited.as_ref(), || noted(&asked, READ), outcome).await
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        if self.has_backlog() { prompts::ALL.iter().map(|p| &p.spec).collect() } else { Vec::new() }
    }

    async fn prompt(&self, asked: ResourceRequest) -> Result<Prompt> {
        let recorder = &self.context.recorder;
        let audited = recorder.begin();
        let span = tracing::error_span!("prompt", name = asked.name, id = %asked.correlation_id);
        let making = async {
            self.authorize_read(&asked.caller, PROMPT)?;
            prompts::get(&self.context, self.has_backlog(), asked.clone()).await
        };
        let outcome = making.instrument(span).await;
        recorder.end(audited.as_ref(), || noted(&asked, PROMPT), outcome).await
    }

    async fn complete(
        &self,
        caller: &Arc<Caller>,
        id: &str,
        begun: CompletionRequest,
    ) -> Result<Completion> {
        let recorder = &self.context.recorder;
        let audit = recorder.begin();
        let completing = async {
            self.authorize_read(caller, COMPLETE)?;
            if !self.has_backlog() {
                return Ok(Completion::default());
            }
            resources::complete(&self.context, caller, &begun).await
        };
        let outcome = completing.await;
        recorder.end(audit.as_ref(), || plain(caller, id, COMPLETE), outcome).await
    }

    async fn resources_changed(&self, caller: &Caller) -> Result<u64> {
        self.context.indexes.resource_revision(&self.context.ports, &caller.project).await
    }
}
