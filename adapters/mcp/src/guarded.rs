//! The endpoint as one caller asks it, behind the one guard against panics: the caller gets an
//! answer, the log the rest. Nothing in this crate asks the endpoint past it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{
    ApplicationService, Call, Completion, CompletionRequest, Content, ListRequest, ProgressSink,
    Prompt, Reply, ResourceRequest, Resources,
};
use serde_json::{Map, Value};

use crate::asker::Asker;

/// Asks on behalf of one caller. Cloning shares the endpoint.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) endpoint: Arc<dyn ApplicationService>,
    pub(crate) asker: Asker,
}

impl Guarded {
    pub(crate) async fn call(
        &self,
        name: String,
        arguments: Map<String, Value>,
        idempotency_key: Option<String>,
        observer: Arc<dyn ProgressSink>,
    ) -> Result<Reply> {
        let call = Call {
            caller: Arc::clone(&self.asker.caller),
            correlation_id: self.id(),
            name,
            arguments,
            observer,
            idempotency_key,
        };
        guard(self.endpoint.call(call)).await
    }

    pub(crate) async fn admit(&self, method: &'static str) -> Result<()> {
        let Asker { caller, request_id, .. } = &self.asker;
        guard(self.endpoint.admit(caller, request_id, method)).await
    }

    pub(crate) async fn resources(
        &self,
        cursor: Option<String>,
        is_poll: bool,
    ) -> Result<Resources> {
        let caller = Arc::clone(&self.asker.caller);
        let request = ListRequest { caller, correlation_id: self.id(), cursor, is_poll };
        guard(self.endpoint.resources(request)).await
    }

    pub(crate) async fn read(&self, uri: String) -> Result<Content> {
        guard(self.endpoint.read(self.asked(uri, Map::new(), false))).await
    }

    /// The same for whoever looks again and again on the caller's behalf.
    pub(crate) async fn read_again(&self, uri: String) -> Result<Content> {
        guard(self.endpoint.read(self.asked(uri, Map::new(), true))).await
    }

    pub(crate) async fn prompt(
        &self,
        name: String,
        arguments: Map<String, Value>,
    ) -> Result<Prompt> {
        guard(self.endpoint.prompt(self.asked(name, arguments, false))).await
    }

    pub(crate) async fn complete(&self, begun: CompletionRequest) -> Result<Completion> {
        let Asker { caller, request_id, .. } = &self.asker;
        guard(self.endpoint.complete(caller, request_id, begun)).await
    }

    pub(crate) async fn resources_changed(&self) -> Result<u64> {
        guard(self.endpoint.resources_changed(&self.asker.caller)).await
    }

    fn asked(&self, name: String, arguments: Map<String, Value>, is_poll: bool) -> ResourceRequest {
        let caller = Arc::clone(&self.asker.caller);
        ResourceRequest { caller, correlation_id: self.id(), name, arguments, is_poll }
    }

    fn id(&self) -> String {
        self.asker.request_id.as_ref().to_owned()
    }
}

async fn guard<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(asked).catch_unwind().await.unwrap_or_else(|panic| {
        let reason = panic.downcast_ref::<&str>().map(|reason| (*reason).to_owned());
        let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::new(ErrorKind::Internal, reason.unwrap_or_else(|| "panic".to_owned())))
    })
}
