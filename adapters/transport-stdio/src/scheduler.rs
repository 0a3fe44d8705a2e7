//! The order of requests. JSON-RPC needs none, but scripts do: a `get` after a `set` must see its
//! effect.
//!
//! An exclusive request (the handshake, every writing tool) waits for all requests before it and
//! delays all after it. A read waits a little for earlier ones, so that fast responses come in
//! order, and then runs in parallel. A subscription is a read until it is acknowledged. Then no
//! request waits for it. The queue is bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Limits;

/// Requests that run and are not answered yet; shared with the writer of responses.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    running: Mutex<HashMap<RequestId, RunMode>>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMode {
    Exclusive,
    Shared,
    /// Until the client or the connection ends it.
    Subscription,
}

impl InFlight {
    pub(crate) fn mark_completed(&self, id: &RequestId) {
        self.with_running(|running| running.remove(id));
        self.changed.notify_one();
    }

    /// The request is an acknowledged subscription from now on.
    pub(crate) fn mark_subscribed(&self, id: &RequestId) {
        self.with_running(|running| {
            if let Some(mode) = running.get_mut(id) {
                *mode = RunMode::Subscription;
            }
        });
        self.changed.notify_one();
    }

    /// `None` for a request that does not run.
    pub(crate) fn run_mode(&self, id: &RequestId) -> Option<RunMode> {
        self.with_running(|running| running.get(id).copied())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with_running(|running| running.is_empty())
    }

    fn with_running<T>(&self, act: impl FnOnce(&mut HashMap<RequestId, RunMode>) -> T) -> T {
        act(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Accepted messages that wait for their turn.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    waiting: VecDeque<WaitingMessage>,
    bytes: usize,
    limits: Limits,
}

#[derive(Debug)]
struct WaitingMessage {
    message: ClientJsonRpcMessage,
    bytes: usize,
    is_exclusive: bool,
    queued_at: Instant,
}

/// The next step for the first waiting message.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// The queue is empty.
    Empty,
    Deliver(Box<ClientJsonRpcMessage>),
    /// A request with this id is running.
    Duplicate(RequestId),
    /// Until a running request completes.
    Wait,
    /// Until then, or until a running request completes.
    WaitUntil(Instant),
}

impl RequestQueue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limits }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if another message may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < self.limits.queue && self.bytes < self.limits.queue_bytes
    }

    pub(crate) fn push(&mut self, message: ClientJsonRpcMessage, bytes: usize, exclusive: bool) {
        self.bytes += bytes;
        self.waiting.push_back(WaitingMessage {
            message,
            bytes,
            is_exclusive: exclusive,
            queued_at: Instant::now(),
        });
    }

    /// Removes a waiting request. False if it does not wait.
    pub(crate) fn cancel_waiting(&mut self, id: &RequestId) -> bool {
        let position = self.waiting.iter().position(|waiting| {
            matches!(&waiting.message, JsonRpcMessage::Request(request) if request.id == *id)
        });
        let cancelled = position.and_then(|position| self.waiting.remove(position));
        self.bytes -= cancelled.as_ref().map_or(0, |cancelled| cancelled.bytes);
        cancelled.is_some()
    }

    /// Removes the first waiting request and any other messages before it.
    pub(crate) fn pop_request(&mut self) -> Option<RequestId> {
        loop {
            if let JsonRpcMessage::Request(request) = self.pop_first()? {
                return Some(request.id);
            }
        }
    }

    /// The first message, if it may run now. With `full` the peer must read responses first.
    pub(crate) fn next_step(&mut self, in_flight: &InFlight, full: bool) -> NextStep {
        let Some(first) = self.waiting.front() else { return NextStep::Empty };
        if let JsonRpcMessage::Request(request) = &first.message {
            let held = in_flight.with_running(|running| {
                let held = self.blocked_by(first, request.id.clone(), running, full);
                if held.is_none() {
                    let mode =
                        if first.is_exclusive { RunMode::Exclusive } else { RunMode::Shared };
                    running.insert(request.id.clone(), mode);
                }
                held
            });
            if let Some(held) = held {
                if matches!(held, NextStep::Duplicate(_)) {
                    self.pop_first();
                }
                return held;
            }
        }
        self.pop_first().map_or(NextStep::Empty, |message| NextStep::Deliver(Box::new(message)))
    }

    /// The reason why a request may not run now.
    fn blocked_by(
        &self,
        first: &WaitingMessage,
        id: RequestId,
        running: &HashMap<RequestId, RunMode>,
        full: bool,
    ) -> Option<NextStep> {
        if running.contains_key(&id) {
            return Some(NextStep::Duplicate(id));
        }
        let count = running.values().filter(|mode| **mode != RunMode::Subscription).count();
        if count == 0 {
            return None;
        }
        let alone = first.is_exclusive || running.values().any(|mode| *mode == RunMode::Exclusive);
        if alone || full || count >= self.limits.in_flight {
            return Some(NextStep::Wait);
        }
        let due = first.queued_at + self.limits.grace;
        (Instant::now() < due).then_some(NextStep::WaitUntil(due))
    }

    fn pop_first(&mut self) -> Option<ClientJsonRpcMessage> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes;
        Some(first.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: i64) -> ClientJsonRpcMessage {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        serde_json::from_str(&line).unwrap()
    }

    fn queue(requests: &[(i64, bool)]) -> RequestQueue {
        let mut queue = RequestQueue::new(Limits { in_flight: 2, queue: 3, ..Limits::default() });
        for (id, exclusive) in requests {
            queue.push(request(*id), 10, *exclusive);
        }
        queue
    }

    fn id(id: i64) -> RequestId {
        RequestId::Number(id)
    }

    #[tokio::test(start_paused = true)]
    async fn write_waits_for_all_before_it_and_delays_all_after_it() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (2, true), (3, false)]);
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Wait));
        in_flight.mark_completed(&id(1));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        tokio::time::advance(Limits::default().grace).await;
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Wait));
        in_flight.mark_completed(&id(2));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Empty));
    }

    #[tokio::test(start_paused = true)]
    async fn read_waits_for_the_grace_and_then_runs_within_the_limit() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (2, false), (3, false)]);
        assert!(!queue.has_room());
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        assert!(queue.has_room());
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::WaitUntil(_)));
        tokio::time::advance(Limits::default().grace).await;
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Wait), "two run already");
        in_flight.mark_completed(&id(1));
        assert!(
            matches!(queue.next_step(&in_flight, true), NextStep::Wait),
            "answers wait to be read"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledged_subscription_delays_no_request_and_keeps_its_id() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (2, true), (1, false)]);
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        assert!(
            matches!(queue.next_step(&in_flight, false), NextStep::Wait),
            "it is not acknowledged yet"
        );
        in_flight.mark_subscribed(&id(1));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        in_flight.mark_completed(&id(2));
        assert!(
            matches!(queue.next_step(&in_flight, false), NextStep::Duplicate(twice) if twice == id(1))
        );
        assert!(!in_flight.is_empty(), "it still waits for its last answer");
    }

    #[tokio::test(start_paused = true)]
    async fn running_id_is_refused_and_waiting_request_can_be_cancelled() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (1, false), (2, false)]);
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(_)));
        assert!(
            matches!(queue.next_step(&in_flight, false), NextStep::Duplicate(twice) if twice == id(1))
        );
        assert!(queue.cancel_waiting(&id(2)) && !queue.cancel_waiting(&id(2)));
        assert!(queue.is_empty() && queue.bytes == 0);
    }
}
