//! The endpoint as one caller asks it, behind the one guard against panics: the caller gets an
//! answer, the log the rest. Nothing in this crate asks the endpoint past it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::endpoint::{
    Asked, Begun, Call, Completion, Content, Endpoint, Observer, Prompt, Reply, Resources,
};
use serde_json::{Map, Value};

/// Asks on behalf of one caller. Cloning shares the endpoint.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) caller: Caller,
}

impl Guarded {
    pub(crate) async fn call(
        &self,
        name: String,
        arguments: Map<String, Value>,
        correlation_id: &str,
        observer: Arc<dyn Observer>,
    ) -> Result<Reply> {
        let (caller, correlation_id) = (self.caller.clone(), correlation_id.to_owned());
        let call = Call { caller, correlation_id, name, arguments, observer };
        guard(self.endpoint.call(call)).await
    }

    pub(crate) async fn resources(&self, cursor: Option<String>) -> Result<Resources> {
        guard(self.endpoint.resources(&self.caller, cursor)).await
    }

    pub(crate) async fn read(&self, uri: String, correlation_id: &str) -> Result<Content> {
        guard(self.endpoint.read(self.asked(uri, Map::new(), correlation_id))).await
    }

    pub(crate) async fn prompt(
        &self,
        name: String,
        arguments: Map<String, Value>,
        correlation_id: &str,
    ) -> Result<Prompt> {
        guard(self.endpoint.prompt(self.asked(name, arguments, correlation_id))).await
    }

    pub(crate) async fn complete(&self, begun: Begun) -> Result<Completion> {
        guard(self.endpoint.complete(&self.caller, begun)).await
    }

    pub(crate) async fn resources_changed(&self) -> Result<u64> {
        guard(self.endpoint.resources_changed(&self.caller)).await
    }

    fn asked(&self, name: String, arguments: Map<String, Value>, correlation_id: &str) -> Asked {
        let (caller, correlation_id) = (self.caller.clone(), correlation_id.to_owned());
        Asked { caller, correlation_id, name, arguments }
    }
}

async fn guard<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(asked).catch_unwind().await.unwrap_or_else(|panic| {
        let reason = panic.downcast_ref::<&str>().map(|reason| (*reason).to_owned());
        let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::new(ErrorKind::Internal, reason.unwrap_or_else(|| "panic".to_owned())))
    })
}

/// A name for one call in logs and answers. It need not be secret, only hardly ever the same.
pub(crate) fn correlation_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
