//! The driving port of the application: finds the tool, prompt or resource of a request, authorizes
//! the caller, and records the access.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller, ProjectScope, Role};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{
    ApplicationService, CompletionRequest, CompletionValues, ListRequest, PromptContent,
    PromptSpec, ResourceContent, ResourcePage, ResourceRequest, TemplateSpec, ToolCall, ToolReply,
    ToolSpec, UNKNOWN_METHOD,
};
use tracing::Instrument;

use crate::audit_recorder::{self, AccessRecord};
use crate::backlog::{prompts, resources};
use crate::{Application, ToolContext, idempotency};

const LIST_METHOD: &str = "resources/list";
const COMPLETE_METHOD: &str = "completion/complete";
const READ_METHOD: &str = "resources/read";
const PROMPT_METHOD: &str = "prompts/get";

/// Similar names in the error for an unknown tool.
const MAX_SIMILAR: usize = 3;

impl Application {
    fn unknown_tool(&self, caller: &Caller, name: &str) -> Error {
        let mut names: Vec<&str> = self.tools(caller).iter().map(|spec| spec.name).collect();
        let likeness = |known: &str| strsim::jaro_winkler(name, known);
        names.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
        names.truncate(MAX_SIMILAR);
        let near = names.join(", ");
        let message =
            format!("Unknown tool {name:?}; near it are {near}, and tools/list names all");
        Error::new(ErrorKind::UnknownTool, message).reference(name)
    }

    /// Finds the tool, authorizes the caller and calls it.
    async fn dispatch(&self, context: &mut ToolContext, call: ToolCall) -> Result<ToolReply> {
        let found = self.tools.iter().find(|(spec, _)| spec.name == call.name);
        let Some((spec, tool)) = found else {
            return Err(self.unknown_tool(&call.caller, &call.name));
        };
        let ports = &self.context.ports;
        self.check_access(&call.caller, spec.access, spec.name)?;
        let span = tracing::error_span!("call", tool = spec.name, id = %call.correlation_id);
        let once =
            if spec.access == Access::Write { idempotency::request_key(&call) } else { None };
        let Some(once) = once else {
            return tool.call(context, spec, call).instrument(span).await;
        };
        let _turn = self.context.key_locks.lock_key(&once.key).await;
        if let Some(reply) =
            idempotency::replay_response(&*ports.answers, &once, ports.clock.now()).await?
        {
            context.audit.as_ref().inspect(|audit| audit.mark_replayed());
            return Ok(reply);
        }
        context.idempotency_key = Some(once.clone());
        let outcome = tool.call(context, spec, call).instrument(span).await;
        match &outcome {
            Ok(reply) => idempotency::save_response(&*ports.answers, &once, reply).await,
            // Another process may have done the same write first.
            Err(error) if error.kind == ErrorKind::Conflict => {
                let earlier =
                    idempotency::replay_response(&*ports.answers, &once, ports.clock.now()).await?;
                return earlier.map_or(outcome, Ok);
            }
            Err(_) => {}
        }
        outcome
    }

    /// Checks that the caller may do `what`, which needs `access`.
    ///
    /// Role and scope are one [`Access`] here. The tools find the project of a call within the
    /// caller's scope; this rejects callers without any project.
    fn check_access(&self, caller: &Caller, access: Access, what: &str) -> Result<()> {
        let forbidden = |reason: String| Err(Error::new(ErrorKind::Forbidden, reason));
        if !caller.may(access) {
            let way_out = match (&caller.token, caller.role) {
                (None, _) => "this server is read-only",
                (Some(_), Role::Commenter) => "your role is commenter, which reads",
                (Some(_), _) => {
                    "your role may write, so your token is of scope read, or this server is \
                     read-only"
                }
            };
            let name = &caller.name;
            return forbidden(format!("{what} writes, and {name} may only read: {way_out}."));
        }
        if caller.reach == ProjectScope::Anywhere {
            return Ok(());
        }
        let project = &caller.project;
        if caller.reach.includes(project) && self.context.ports.projects.keys().contains(project) {
            return Ok(());
        }
        let reason = "This token is only for projects that this server does not have (any more); \
                      ask an administrator for another one.";
        forbidden(reason.to_owned())
    }

    fn authorize_read(&self, caller: &Caller, what: &str) -> Result<()> {
        self.check_access(caller, Access::Read, what)
    }

    /// Resources and prompts are the backlog's.
    fn has_backlog(&self) -> bool {
        self.context.ports.settings.toolsets.contains(&Toolset::Backlog)
    }

    /// Does `work` and records it. A poll is not recorded, because its first request was.
    async fn record_call<'a, T>(
        &self,
        is_poll: bool,
        access: impl FnOnce() -> AccessRecord<'a>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let recorder = &self.context.recorder;
        let audit = if is_poll { None } else { recorder.begin_call() };
        let outcome = work.await;
        recorder.end_call(audit.as_ref(), access, outcome).await
    }
}

fn request_access<'a>(request: &'a ResourceRequest, action: &'a str) -> AccessRecord<'a> {
    let ResourceRequest { caller, correlation_id, name, arguments, .. } = request;
    let mut targets = vec![AuditTarget::read(audit_recorder::truncate_target(name))];
    targets.extend(audit_recorder::argument_targets(arguments));
    AccessRecord { caller, correlation_id, action, targets }
}

#[async_trait]
impl ApplicationService for Application {
    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec> {
        let specs = self.tools.iter().map(|(spec, _)| spec);
        specs.filter(|spec| caller.may(spec.access)).collect()
    }

    async fn call(&self, call: ToolCall) -> Result<ToolReply> {
        let recorder = &self.context.recorder;
        let audit = recorder.begin_call();
        let targets = audit.as_ref().map(|_| audit_recorder::argument_targets(&call.arguments));
        let mut context = ToolContext { audit: audit.clone(), ..self.context.clone() };
        let (caller, id, name) =
            (Arc::clone(&call.caller), call.correlation_id.clone(), call.name.clone());
        let outcome = self.dispatch(&mut context, call).await;
        let access = || AccessRecord {
            targets: targets.unwrap_or_default(),
            ..AccessRecord::new(&caller, &id, &name)
        };
        recorder.end_call(audit.as_ref(), access, outcome).await
    }

    async fn authorize(&self, caller: &Arc<Caller>, id: &str, method: &'static str) -> Result<()> {
        let admitted = self.authorize_read(caller, method);
        let unknown = (method == UNKNOWN_METHOD).then_some(ErrorKind::InvalidArgument);
        let error = unknown.or(admitted.as_ref().err().map(|error| error.kind));
        let access = AccessRecord::new(caller, id, method);
        self.context.recorder.record_access(access, error).await.and(admitted)
    }

    async fn resources(&self, request: ListRequest) -> Result<ResourcePage> {
        let ListRequest { caller, correlation_id, cursor, is_poll } = request;
        let listing = async {
            self.authorize_read(&caller, LIST_METHOD)?;
            if !self.has_backlog() {
                return Ok(ResourcePage::default());
            }
            resources::list(&self.context, &caller, cursor).await
        };
        let access = || AccessRecord::new(&caller, &correlation_id, LIST_METHOD);
        self.record_call(is_poll, access, listing).await
    }

    fn templates(&self, _: &Caller) -> Vec<&TemplateSpec> {
        if !self.has_backlog() {
            return Vec::new();
        }
        resources::TEMPLATES.iter().map(|form| &form.spec).collect()
    }

    async fn read(&self, request: ResourceRequest) -> Result<ResourceContent> {
        let ResourceRequest { caller, correlation_id, name, .. } = &request;
        let span = tracing::error_span!("read", uri = name, id = %correlation_id);
        let reading = async {
            self.authorize_read(caller, READ_METHOD)?;
            resources::read(&self.context, self.has_backlog(), caller, name).await
        };
        let access = || request_access(&request, READ_METHOD);
        self.record_call(request.is_poll, access, reading.instrument(span)).await
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        if self.has_backlog() { prompts::ALL.iter().map(|p| &p.spec).collect() } else { Vec::new() }
    }

    async fn prompt(&self, request: ResourceRequest) -> Result<PromptContent> {
        let ResourceRequest { caller, correlation_id, name, .. } = &request;
        let span = tracing::error_span!("prompt", name, id = %correlation_id);
        let making = async {
            self.authorize_read(caller, PROMPT_METHOD)?;
            prompts::get(&self.context, self.has_backlog(), request.clone()).await
        };
        self.record_call(false, || request_access(&request, PROMPT_METHOD), making.instrument(span))
            .await
    }

    async fn complete(
        &self,
        caller: &Arc<Caller>,
        id: &str,
        begun: CompletionRequest,
    ) -> Result<CompletionValues> {
        let completing = async {
            self.authorize_read(caller, COMPLETE_METHOD)?;
            if !self.has_backlog() {
                return Ok(CompletionValues::default());
            }
            resources::complete(&self.context, caller, &begun).await
        };
        self.record_call(false, || AccessRecord::new(caller, id, COMPLETE_METHOD), completing).await
    }

    async fn resources_changed(&self, caller: &Caller) -> Result<u64> {
        self.context.indexes.resource_revision(&self.context.ports, &caller.project).await
    }
}

#[cfg(test)]
mod tests;
