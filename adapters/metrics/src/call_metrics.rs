//! Counts and times the requests of the application service.
//!
//! A request may end without a response: a time limit drops its future, or a panic unwinds through
//! it. Both are counted, so the gauge of requests in flight always returns to zero.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use reqlore_domain::error::{ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::project_resolver::ProjectResolver;
use reqlore_domain::ports::service::{
    ApplicationService, CompletionRequest, CompletionValues, ListRequest, PromptContent,
    PromptSpec, RenderedAnswer, ResourceContent, ResourcePage, ResourceRequest, TemplateSpec,
    ToolCall, ToolSchemas, ToolService, ToolSpec,
};

use crate::operation_durations::{DurationFamily, duration_family};

const OK_LABEL: &str = "ok";
/// Label of all unknown tools, because clients could send any number of names.
const UNKNOWN_LABEL: &str = "unknown";

type CallCounts = Family<[(&'static str, &'static str); 2], Counter>;

/// Metrics labelled by tool, or by method for any other request.
#[derive(Debug, Clone)]
pub(crate) struct CallMetrics {
    total: CallCounts,
    seconds: DurationFamily,
    in_flight: Gauge,
}

impl CallMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let calls = Self {
            total: Family::default(),
            seconds: duration_family(),
            in_flight: Gauge::default(),
        };
        registry.register(
            "reqlore_calls",
            "Completed calls, by tool or method, and by result: ok, or the kind of error",
            calls.total.clone(),
        );
        registry.register(
            "reqlore_call_duration_seconds",
            "Duration of calls, by tool or method",
            calls.seconds.clone(),
        );
        let help = "Calls in progress";
        registry.register("reqlore_calls_in_flight", help, calls.in_flight.clone());
        calls
    }

    async fn measure_request<T>(
        &self,
        tool: &'static str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // The guard below decrements it, even if the call is cancelled.
        self.in_flight.inc();
        let mut running = RunningCall { calls: self, tool, started: Instant::now(), result: None };
        let outcome = request.await;
        running.result = Some(match &outcome {
            Ok(_) => OK_LABEL,
            Err(error) => error.kind.name(),
        });
        outcome
    }
}

/// Records a call on drop, so that cancelled and panicking calls are counted.
struct RunningCall<'a> {
    calls: &'a CallMetrics,
    tool: &'static str,
    started: Instant,
    /// `None` until the call has a result.
    result: Option<&'static str>,
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let (calls, tool) = (self.calls, self.tool);
        let result = match self.result {
            Some(result) => result,
            None if std::thread::panicking() => ErrorKind::Internal.name(),
            None => ErrorKind::Cancelled.name(),
        };
        calls.in_flight.dec();
        calls.total.get_or_create(&[("tool", tool), ("result", result)]).inc();
        let seconds = self.started.elapsed().as_secs_f64();
        calls.seconds.get_or_create(&[("tool", tool)]).observe(seconds);
    }
}

/// Application service whose requests are counted and timed.
pub(crate) struct MeasuredService {
    inner: Arc<dyn ApplicationService>,
    calls: CallMetrics,
    tools: HashSet<&'static str>,
}

impl MeasuredService {
    pub(crate) fn new(inner: Arc<dyn ApplicationService>, calls: CallMetrics) -> Self {
        // A caller with write access sees all tools.
        let specs = inner.tools(&Caller::local("", Access::Write));
        let mut tools = HashSet::new();
        for spec in specs {
            tools.insert(spec.name);
            // Created before the first call: a rate over a new series would miss that call.
            let _ = calls.total.get_or_create(&[("tool", spec.name), ("result", OK_LABEL)]);
        }
        Self { inner, calls, tools }
    }
}

#[async_trait]
impl ToolService for MeasuredService {
    async fn call(&self, call: ToolCall) -> Result<RenderedAnswer> {
        // Only known names become labels.
        let tool = self.tools.get(call.name.as_str()).copied().unwrap_or(UNKNOWN_LABEL);
        self.calls.measure_request(tool, self.inner.call(call)).await
    }
}

#[async_trait]
impl ApplicationService for MeasuredService {
    fn projects(&self) -> Option<&dyn ProjectResolver> {
        self.inner.projects()
    }

    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec> {
        self.inner.tools(caller)
    }

    async fn tool_schemas(&self, caller: &Caller) -> Result<ToolSchemas> {
        self.inner.tool_schemas(caller).await
    }

    async fn authorize(&self, caller: &Arc<Caller>, id: &str, method: &'static str) -> Result<()> {
        self.calls.measure_request(method, self.inner.authorize(caller, id, method)).await
    }

    async fn resources(&self, request: ListRequest) -> Result<ResourcePage> {
        self.calls.measure_request("resources/list", self.inner.resources(request)).await
    }

    fn templates(&self, caller: &Caller) -> Vec<&TemplateSpec> {
        self.inner.templates(caller)
    }

    async fn read(&self, request: ResourceRequest) -> Result<ResourceContent> {
        self.calls.measure_request("resources/read", self.inner.read(request)).await
    }

    fn prompts(&self, caller: &Caller) -> Vec<&PromptSpec> {
        self.inner.prompts(caller)
    }

    async fn prompt(&self, request: ResourceRequest) -> Result<PromptContent> {
        self.calls.measure_request("prompts/get", self.inner.prompt(request)).await
    }

    async fn complete(
        &self,
        caller: &Arc<Caller>,
        id: &str,
        request: CompletionRequest,
    ) -> Result<CompletionValues> {
        let completing = self.inner.complete(caller, id, request);
        self.calls.measure_request("completion/complete", completing).await
    }

    /// Not measured: the subscription poller calls it, not a client.
    async fn resources_changed(&self, caller: &Caller) -> Result<u64> {
        self.inner.resources_changed(caller).await
    }
}

#[cfg(test)]
mod tests;
