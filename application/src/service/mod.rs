//! Implements the service port: authorizes each request, dispatches it and records the access.

pub(crate) mod audit_recorder;
pub(crate) mod idempotency;
pub(crate) mod maintenance;

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset};
use reqlore_domain::ports::service::{
    ApplicationService, CompletionRequest, CompletionValues, ListRequest, PromptContent,
    PromptSpec, RenderedAnswer, ResourceContent, ResourcePage, ResourceRequest, TemplateSpec,
    ToolCall, ToolSchemas, ToolService, ToolSpec, UNKNOWN_METHOD,
};
use tracing::Instrument;

use self::audit_recorder::AccessRecord;
use crate::Application;
use crate::addresses::right_tool;
use crate::answers::answer::{self, ToolAnswer};
use crate::backlog::{prompts, resources};
use crate::context::ToolContext;
use crate::record_schemas::tool_schemas::tool_schemas;
use crate::tools::arguments;
use crate::tools::tool::{self, ListedTool, Tool, ToolRequest};

const LIST_METHOD: &str = "resources/list";
const COMPLETE_METHOD: &str = "completion/complete";
const READ_METHOD: &str = "resources/read";
const PROMPT_METHOD: &str = "prompts/get";

const MAX_SIMILAR_TOOLS: usize = 3;

impl Application {
    /// Finds an enabled tool by its name.
    fn find_tool(&self, name: &str) -> Option<&ListedTool> {
        self.tools.iter().find(|(spec, _)| spec.name == name)
    }

    fn unknown_tool(&self, caller: &Caller, name: &str) -> Error {
        let name = truncate_echo(name);
        // Only tools that the caller may use: the error must not reveal the others.
        let mut tools: Vec<&ToolSpec> = self.tools(caller);
        tools.retain(|spec| spec.is_listed);
        tools.sort_by(|a, b| {
            let [a, b] = [a, b].map(|spec| strsim::jaro_winkler(name, spec.name));
            b.total_cmp(&a)
        });
        tools.truncate(MAX_SIMILAR_TOOLS);
        let similar: Vec<&str> = tools.iter().map(|spec| spec.name).collect();
        let message = format!(
            "Unknown tool {name:?}; similar tools: {}; tools/list returns all tools",
            similar.join(", ")
        );
        Error::new(ErrorKind::UnknownTool, message).reference(name)
    }

    /// Finds the tool, authorizes the caller and calls it.
    async fn dispatch(
        &self,
        context: &mut ToolContext,
        mut call: ToolCall,
    ) -> Result<RenderedAnswer> {
        let Some((spec, handler)) = self.find_tool(&call.name) else {
            return Err(self.unknown_tool(&call.caller, &call.name));
        };
        let ports = &self.context.ports;
        self.context.check_access(&call.caller, spec.access, spec.name)?;
        let span = tracing::error_span!("call", tool = spec.name, id = %call.correlation_id);
        // A read may run twice, so its answer need not be stored.
        let key = if spec.access == Access::Write { idempotency::request_key(&call) } else { None };
        let format = call.answer_format;
        let guard = context.call_guard(&call.caller, &call.caller.project);
        let Some(key) = key else {
            let notes = tool::correct_arguments(&mut call, spec);
            let limit = answer::take_size_limit(&mut call, spec)?;
            let run = run_tool(context, spec, &**handler, call).instrument(span);
            let mut answer = if spec.access == Access::Write {
                run.await?
            } else {
                context.in_read_scope(run).await?
            };
            answer.add_notes(notes);
            return answer.render_shown(format, limit, guard.is_on().then_some((&guard, spec)));
        };
        let store = &*ports.idempotency;
        // A retry waits for the first attempt, so that it finds the stored answer.
        let _key_guard = self.context.key_locks.lock_key(&key.key).await;
        let audit = context.audit.clone();
        let mark_replayed = |rendered: RenderedAnswer| {
            if let Some(audit) = &audit {
                audit.mark_replayed();
            }
            answer::in_format(rendered, format)
        };
        let replayed = idempotency::replay_response(store, &key, ports.clock.now()).await?;
        if let Some(rendered) = replayed {
            return Ok(mark_replayed(rendered));
        }
        // The commit stores the key together with the change.
        context.idempotency_key = Some(key.clone());
        // The arguments stay uncorrected: a writing tool rejects unknown ones.
        let limit = answer::take_size_limit(&mut call, spec)?;
        let outcome = run_tool(context, spec, &**handler, call).instrument(span).await;
        match outcome {
            Ok(answer) => {
                // A retry may ask for data, even if this call does not.
                let rendered = answer.render_stored(limit)?;
                guard.note_answer(spec, format, &rendered.data);
                idempotency::save_answer(store, &key, &rendered).await;
                Ok(answer::in_format(rendered, format))
            }
            // Another server may have done the same write first: a deleted item, for example, is
            // not found again. The key also decides whether a write of unknown outcome is stored.
            Err(error) => match store.find_record(&key.key).await {
                Ok(Some(record)) => {
                    let replayed = idempotency::replay_record(&record, &key, ports.clock.now())?;
                    replayed.map(mark_replayed).ok_or(error)
                }
                Ok(None) | Err(_) => Err(error),
            },
        }
    }

    fn authorize_read(&self, caller: &Caller, operation: &str) -> Result<()> {
        self.context.check_access(caller, Access::Read, operation)
    }

    /// Resources and prompts belong to the toolset `backlog`.
    fn has_backlog(&self) -> bool {
        self.context.ports.settings.toolsets.contains(&Toolset::Backlog)
    }

    /// Awaits `work` and records its outcome. Polls are not recorded: their first request was.
    async fn record_call<'a, T>(
        &self,
        is_poll: bool,
        access: impl FnOnce() -> AccessRecord<'a>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let recorder = &self.context.recorder;
        // A poll each 100 ms would fill the audit log.
        let audit = if is_poll { None } else { recorder.begin_call() };
        let outcome = work.await;
        recorder.end_call(audit.as_ref(), access, outcome).await
    }
}

async fn run_tool(
    context: &ToolContext,
    spec: &ToolSpec,
    tool: &dyn Tool,
    call: ToolCall,
) -> Result<ToolAnswer> {
    // Kept for the error, because the call is consumed.
    let caller = Arc::clone(&call.caller);
    match tool.call(ToolRequest { context, spec, call }).await {
        Err(error) => Err(right_tool::name_right_tool(context, &caller, spec, error).await),
        answer => answer,
    }
}

fn request_access<'a>(request: &'a ResourceRequest, action: &'a str) -> AccessRecord<'a> {
    let ResourceRequest { caller, correlation_id, name, arguments, .. } = request;
    let mut targets = vec![AuditTarget::unchanged(audit_recorder::truncate_target(name))];
    targets.extend(audit_recorder::argument_targets(arguments));
    AccessRecord { caller, correlation_id, action, targets }
}

#[async_trait]
impl ToolService for Application {
    async fn call(&self, mut call: ToolCall) -> Result<RenderedAnswer> {
        if let Some((spec, _)) = self.find_tool(&call.name) {
            arguments::normalize(&mut call.arguments, spec);
        }
        let recorder = &self.context.recorder;
        let is_silent = call.is_audited
            && self.find_tool(&call.name).is_some_and(|(spec, _)| spec.access == Access::Read);
        let audit = recorder.begin_call();
        // Taken before the call, which consumes its arguments.
        let targets = match &audit {
            Some(_) => audit_recorder::argument_targets(&call.arguments),
            None => Vec::new(),
        };
        // A context of its own, because the call adds its idempotency key.
        let mut context = ToolContext {
            audit: audit.clone(),
            written_at: Arc::default(),
            ..self.context.clone()
        };
        let (caller, id, name) =
            (Arc::clone(&call.caller), call.correlation_id.clone(), call.name.clone());
        let mut outcome = self.dispatch(&mut context, call).await;
        if let Ok(answer) = &mut outcome {
            answer.written_at = context.written_at.get().copied();
            if is_silent {
                return outcome;
            }
        }
        let access = || AccessRecord { targets, ..AccessRecord::new(&caller, &id, &name) };
        recorder.end_call(audit.as_ref(), access, outcome).await
    }
}

#[async_trait]
impl ApplicationService for Application {
    fn projects(&self) -> Option<&dyn ProjectResolver> {
        Some(&*self.context.ports.projects)
    }

    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec> {
        let specs = self.tools.iter().map(|(spec, _)| spec);
        specs.filter(|spec| caller.is_allowed(spec.access)).collect()
    }

    async fn tool_schemas(&self, caller: &Caller) -> Result<ToolSchemas> {
        self.authorize_read(caller, "tools/list")?;
        let schema = self.context.ports.schema(&caller.project).await?;
        Ok(tool_schemas(&self.tools(caller), &schema))
    }

    async fn authorize(&self, caller: &Arc<Caller>, id: &str, method: &'static str) -> Result<()> {
        let authorized = self.authorize_read(caller, method);
        // An unknown method fails after the authorization; its row must not say that it succeeded.
        let error_kind = match &authorized {
            _ if method == UNKNOWN_METHOD => Some(ErrorKind::InvalidArgument),
            Ok(()) => None,
            Err(error) => Some(error.kind),
        };
        let access = AccessRecord::new(caller, id, method);
        // Recorded first: a request that cannot be audited fails, even if it is allowed.
        self.context.recorder.record_access(access, error_kind).await?;
        authorized
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
        resources::TEMPLATES.iter().map(|template| &template.spec).collect()
    }

    async fn read(&self, request: ResourceRequest) -> Result<ResourceContent> {
        let ResourceRequest { caller, correlation_id, name, .. } = &request;
        let span = tracing::error_span!("read", uri = name, id = %correlation_id);
        let reading = async {
            self.authorize_read(caller, READ_METHOD)?;
            let context = &self.context;
            let read = resources::read(context, self.has_backlog(), caller, name);
            let resource = context.in_read_scope(read).await?;
            if !request.is_poll {
                let data = serde_json::from_str(&resource.text).unwrap_or_default();
                context.call_guard(caller, &caller.project).note_data(&data, |_| true);
            }
            Ok(resource)
        };
        let access = || request_access(&request, READ_METHOD);
        self.record_call(request.is_poll, access, reading.instrument(span)).await
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        if !self.has_backlog() {
            return Vec::new();
        }
        prompts::PROMPTS.iter().map(|prompt| &prompt.spec).collect()
    }

    async fn prompt(&self, request: ResourceRequest) -> Result<PromptContent> {
        let ResourceRequest { caller, correlation_id, name, .. } = &request;
        let span = tracing::error_span!("prompt", name, id = %correlation_id);
        let rendering = async {
            self.authorize_read(caller, PROMPT_METHOD)?;
            prompts::get(&self.context, self.has_backlog(), request.clone()).await
        };
        self.record_call(
            false,
            || request_access(&request, PROMPT_METHOD),
            rendering.instrument(span),
        )
        .await
    }

    async fn complete(
        &self,
        caller: &Arc<Caller>,
        id: &str,
        request: CompletionRequest,
    ) -> Result<CompletionValues> {
        let completing = async {
            self.authorize_read(caller, COMPLETE_METHOD)?;
            if !self.has_backlog() {
                return Ok(CompletionValues::default());
            }
            resources::complete(&self.context, caller, &request).await
        };
        self.record_call(false, || AccessRecord::new(caller, id, COMPLETE_METHOD), completing).await
    }

    async fn resources_changed(&self, caller: &Caller) -> Result<u64> {
        self.context.indexes.resource_revision(&self.context.ports, &caller.project).await
    }
}

#[cfg(test)]
mod tests;
