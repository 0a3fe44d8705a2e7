//! Ports whose operations are observed, for metrics. The attribute `observed` implements a port for
//! [`ObservedPort`].

use std::sync::Arc;

/// A port with an observer of its operations.
#[derive(Debug)]
pub struct ObservedPort<Port: ?Sized, Observer> {
    pub inner: Arc<Port>,
    pub observer: Observer,
}

/// Observes operations, also those that do not return, because of a time limit or a panic.
pub trait OperationObserver: Send + Sync {
    /// Dropped at the end of the operation.
    type Running<'a>: Send
    where
        Self: 'a;

    fn begin(&self, operation: &'static str) -> Self::Running<'_>;
}

/// A port that can be observed.
pub trait PortOperations {
    const OPERATIONS: &'static [&'static str];
}
