//! Orders requests, so that a read after a write in a script sees the effect of the write.
//!
//! An exclusive request (the handshake, every writing tool) waits for all earlier requests and
//! delays all later ones. A read waits a short time for earlier requests, so that fast responses
//! are sent in order, and then runs in parallel. A subscription is a read until it is acknowledged;
//! after that no request waits for it. The queue is bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::batch::BatchSlot;
use crate::limits::StdioLimits;

/// Running requests without a response; shared with the writer of responses.
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

    /// Marks a running request as an acknowledged subscription.
    pub(crate) fn mark_subscribed(&self, id: &RequestId) {
        self.with_running(|running| {
            if let Some(mode) = running.get_mut(id) {
                *mode = RunMode::Subscription;
            }
        });
        self.changed.notify_one();
    }

    /// `None` if the request is not running.
    pub(crate) fn run_mode(&self, id: &RequestId) -> Option<RunMode> {
        self.with_running(|running| running.get(id).copied())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with_running(|running| running.is_empty())
    }

    fn with_running<T>(&self, access: impl FnOnce(&mut HashMap<RequestId, RunMode>) -> T) -> T {
        access(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Accepted messages that wait to run.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    waiting: VecDeque<WaitingMessage>,
    bytes: usize,
    limits: StdioLimits,
}

#[derive(Debug)]
pub(crate) struct WaitingMessage {
    message: ClientJsonRpcMessage,
    bytes: usize,
    is_exclusive: bool,
    /// Set for a member of a batch.
    pub(crate) slot: Option<BatchSlot>,
    queued_at: Instant,
}

/// Next step for the first waiting message.
#[derive(Debug)]
pub(crate) enum NextStep {
    Empty,
    /// A message, with its slot if it is a member of a batch.
    Deliver(Box<ClientJsonRpcMessage>, Option<BatchSlot>),
    /// A request with this id is running.
    Duplicate(RequestId, Option<BatchSlot>),
    /// Wait until a running request completes.
    Wait,
    /// Wait until this time, or until a running request completes.
    WaitUntil(Instant),
}

impl RequestQueue {
    pub(crate) fn new(limits: StdioLimits) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limits }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if another message may be read.
    pub(crate) fn has_room(&self) -> bool {
        // One message may exceed the limit of bytes, or a long line could never be accepted.
        self.waiting.len() < self.limits.queue && self.bytes < self.limits.queue_bytes
    }

    pub(crate) fn push(&mut self, message: ClientJsonRpcMessage, bytes: usize, is_exclusive: bool) {
        self.push_member(message, bytes, is_exclusive, None);
    }

    /// Queues a message, with its slot if it is a member of a batch.
    pub(crate) fn push_member(
        &mut self,
        message: ClientJsonRpcMessage,
        bytes: usize,
        is_exclusive: bool,
        slot: Option<BatchSlot>,
    ) {
        self.bytes += bytes;
        self.waiting.push_back(WaitingMessage {
            message,
            bytes,
            is_exclusive,
            slot,
            queued_at: Instant::now(),
        });
    }

    /// Removes a waiting request and returns it. `None` if it is not in the queue.
    pub(crate) fn cancel_waiting(&mut self, id: &RequestId) -> Option<WaitingMessage> {
        let position = self.waiting.iter().position(|waiting| {
            matches!(&waiting.message, JsonRpcMessage::Request(request) if request.id == *id)
        });
        // A client's response has an id too, but one that the server chose.
        let cancelled = self.waiting.remove(position?)?;
        self.bytes -= cancelled.bytes;
        Some(cancelled)
    }

    /// Removes the first waiting request and any other messages before it.
    pub(crate) fn pop_request(&mut self) -> Option<(RequestId, Option<BatchSlot>)> {
        loop {
            let first = self.pop_first()?;
            if let JsonRpcMessage::Request(request) = first.message {
                return Some((request.id, first.slot));
            }
        }
    }

    /// Removes the first message and delivers it, if it may run now. With `is_output_full` the
    /// client must read responses first.
    pub(crate) fn next_step(&mut self, in_flight: &InFlight, is_output_full: bool) -> NextStep {
        let Some(first) = self.waiting.front() else { return NextStep::Empty };
        if let JsonRpcMessage::Request(request) = &first.message {
            // One lock for both steps: a response must not complete between them.
            let blocked = in_flight.with_running(|running| {
                let blocked = self.blocked_by(first, request.id.clone(), running, is_output_full);
                if blocked.is_none() {
                    let mode =
                        if first.is_exclusive { RunMode::Exclusive } else { RunMode::Shared };
                    running.insert(request.id.clone(), mode);
                }
                blocked
            });
            if let Some(step) = blocked {
                if let NextStep::Duplicate(id, _) = step {
                    let slot = self.pop_first().and_then(|first| first.slot);
                    return NextStep::Duplicate(id, slot);
                }
                return step;
            }
        }
        match self.pop_first() {
            Some(first) => NextStep::Deliver(Box::new(first.message), first.slot),
            None => NextStep::Empty,
        }
    }

    /// Returns the step to take if the request may not run now.
    fn blocked_by(
        &self,
        first: &WaitingMessage,
        id: RequestId,
        running: &HashMap<RequestId, RunMode>,
        is_output_full: bool,
    ) -> Option<NextStep> {
        if running.contains_key(&id) {
            // Two responses with one id would be ambiguous.
            return Some(NextStep::Duplicate(id, None));
        }
        let mut running_count = 0;
        let mut must_run_alone = first.is_exclusive;
        for mode in running.values() {
            match mode {
                // It may stay open forever, so no request waits for it.
                RunMode::Subscription => {}
                RunMode::Shared => running_count += 1,
                RunMode::Exclusive => {
                    running_count += 1;
                    must_run_alone = true;
                }
            }
        }
        if running_count == 0 {
            return None;
        }
        if must_run_alone || is_output_full || running_count >= self.limits.in_flight {
            return Some(NextStep::Wait);
        }
        // Fast requests usually complete within this time, so responses stay in order.
        let due = first.queued_at + self.limits.read_grace_time;
        if Instant::now() < due { Some(NextStep::WaitUntil(due)) } else { None }
    }

    fn pop_first(&mut self) -> Option<WaitingMessage> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes;
        Some(first)
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
        let mut queue =
            RequestQueue::new(StdioLimits { in_flight: 2, queue: 3, ..StdioLimits::default() });
        for (id, exclusive) in requests {
            queue.push(request(*id), 10, *exclusive);
        }
        queue
    }

    fn id(id: i64) -> RequestId {
        RequestId::Number(id)
    }

    #[tokio::test(start_paused = true)]
    async fn exclusive_request_waits_for_earlier_and_delays_later_ones() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (2, true), (3, false)]);
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Wait));
        in_flight.mark_completed(&id(1));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        tokio::time::advance(StdioLimits::default().read_grace_time).await;
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Wait));
        in_flight.mark_completed(&id(2));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Empty));
    }

    #[tokio::test(start_paused = true)]
    async fn read_waits_for_grace_time_and_runs_within_limit() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (2, false), (3, false)]);
        assert!(!queue.has_room());
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        assert!(queue.has_room());
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::WaitUntil(_)));
        tokio::time::advance(StdioLimits::default().read_grace_time).await;
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        assert!(
            matches!(queue.next_step(&in_flight, false), NextStep::Wait),
            "two requests are running"
        );
        in_flight.mark_completed(&id(1));
        assert!(matches!(queue.next_step(&in_flight, true), NextStep::Wait), "the output is full");
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledged_subscription_delays_no_request() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (2, true), (1, false)]);
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        assert!(
            matches!(queue.next_step(&in_flight, false), NextStep::Wait),
            "it is not acknowledged yet"
        );
        in_flight.mark_subscribed(&id(1));
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        in_flight.mark_completed(&id(2));
        let step = queue.next_step(&in_flight, false);
        assert!(matches!(step, NextStep::Duplicate(duplicate, _) if duplicate == id(1)));
        assert!(!in_flight.is_empty(), "it still has no last response");
    }

    #[tokio::test(start_paused = true)]
    async fn running_id_is_duplicate_and_waiting_request_cancellable() {
        let in_flight = InFlight::default();
        let mut queue = queue(&[(1, false), (1, false), (2, false)]);
        assert!(matches!(queue.next_step(&in_flight, false), NextStep::Deliver(..)));
        let step = queue.next_step(&in_flight, false);
        assert!(matches!(step, NextStep::Duplicate(duplicate, _) if duplicate == id(1)));
        assert!(queue.cancel_waiting(&id(2)).is_some() && queue.cancel_waiting(&id(2)).is_none());
        assert!(queue.is_empty() && queue.bytes == 0);
    }
}
