//! The endpoint with a count, a time and a result for each call.
//!
//! A call may end without an answer: its future is dropped by a time limit, or a panic unwinds
//! through it. Both are counted, so nothing stays in flight for ever.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use reqlore_domain::error::{ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::{
    ApplicationService, Call, Completion, CompletionRequest, Content, ListRequest, Prompt,
    PromptSpec, Reply, ResourceRequest, Resources, TemplateSpec, ToolSpec,
};

const OK: &str = "ok";
/// Stands for every name that is no tool's: clients could make up any number.
const UNKNOWN: &str = "unknown";

/// Of all calls, by the tool's name; what is no tool has the method's.
#[derive(Debug)]
pub(crate) struct Calls {
    total: Family<Outcome, Counter>,
    seconds: Family<Tool, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tool {
    tool: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    tool: &'static str,
    result: &'static str,
}

impl Calls {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let seconds = Family::new_with_constructor(crate::histogram as fn() -> Histogram);
        let calls = Self { total: Family::default(), seconds, in_flight: Gauge::default() };
        registry.register(
            "reqlore_calls",
            "Calls that ended, by tool or method, and by result: ok, or the kind of error",
            calls.total.clone(),
        );
        registry.register(
            "reqlore_call_duration_seconds",
            "How long calls took, by tool or method",
            calls.seconds.clone(),
        );
        registry.register(
            "reqlore_calls_in_flight",
            "Calls that are being answered",
            calls.in_flight.clone(),
        );
        calls
    }

    async fn measure<T>(
        &self,
        tool: &'static str,
        asked: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.in_flight.inc();
        let mut running = Running { calls: self, tool, started: Instant::now(), result: None };
        let outcome = asked.await;
        running.result = Some(outcome.as_ref().map_or_else(|error| error.kind.name(), |_| OK));
        outcome
    }
}

/// A call from its beginning to whatever end.
struct Running<'a> {
    calls: &'a Calls,
    tool: &'static str,
    started: Instant,
    /// None as long as there is no answer.
    result: Option<&'static str>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let unanswered = || {
            let is_panic = std::thread::panicking();
            (if is_panic { ErrorKind::Internal } else { ErrorKind::Cancelled }).name()
        };
        let (calls, tool) = (self.calls, self.tool);
        let result = self.result.unwrap_or_else(unanswered);
        calls.in_flight.dec();
        calls.total.get_or_create(&Outcome { tool, result }).inc();
        calls.seconds.get_or_create(&Tool { tool }).observe(self.started.elapsed().as_secs_f64());
    }
}

/// An endpoint whose calls are counted and timed; see [`crate::Metrics::endpoint`].
pub struct MeasuredEndpoint {
    inner: Arc<dyn ApplicationService>,
    calls: Arc<Calls>,
    /// The tools there are for whoever may do everything.
    known: HashSet<&'static str>,
}

impl MeasuredEndpoint {
    pub(crate) fn new(inner: Arc<dyn ApplicationService>, calls: Arc<Calls>) -> Self {
        let anyone = Caller::local("", Access::Write);
        let known: HashSet<&'static str> =
            inner.tools(&anyone).into_iter().map(|spec| spec.name).collect();
        for tool in &known {
            // A rate over a series that begins at its first call misses that call.
            let _ = calls.total.get_or_create(&Outcome { tool, result: OK });
        }
        Self { inner, calls, known }
    }
}

impl std::fmt::Debug for MeasuredEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeasuredEndpoint").finish_non_exhaustive()
    }
}

#[async_trait]
impl ApplicationService for MeasuredEndpoint {
    fn tools(&self, caller: &Caller) -> Vec<&ToolSpec> {
        self.inner.tools(caller)
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        let tool = self.known.get(call.name.as_str()).copied().unwrap_or(UNKNOWN);
        self.calls.measure(tool, self.inner.call(call)).await
    }

    async fn admit(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        method: &'static str,
    ) -> Result<()> {
        let admitted = self.inner.admit(caller, correlation_id, method);
        self.calls.measure(method, admitted).await
    }

    async fn resources(&self, request: ListRequest) -> Result<Resources> {
        self.calls.measure("resources/list", self.inner.resources(request)).await
    }

    fn templates(&self, caller: &Caller) -> Vec<&TemplateSpec> {
        self.inner.templates(caller)
    }

    async fn read(&self, asked: ResourceRequest) -> Result<Content> {
        self.calls.measure("resources/read", self.inner.read(asked)).await
    }

    fn prompts(&self, caller: &Caller) -> Vec<&PromptSpec> {
        self.inner.prompts(caller)
    }

    async fn prompt(&self, asked: ResourceRequest) -> Result<Prompt> {
        self.calls.measure("prompts/get", self.inner.prompt(asked)).await
    }

    async fn complete(
        &self,
        caller: &Arc<Caller>,
        correlation_id: &str,
        begun: CompletionRequest,
    ) -> Result<Completion> {
        let asked = self.inner.complete(caller, correlation_id, begun);
        self.calls.measure("completion/complete", asked).await
    }

    /// ResourceRequest by the transport for its subscribers, not by a client.
    async fn resources_changed(&self, caller: &Caller) -> Result<u64> {
        self.inner.resources_changed(caller).await
    }
}

#[cfg(test)]
mod tests;
