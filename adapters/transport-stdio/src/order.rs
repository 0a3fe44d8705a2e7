//! Which request may run now. Legal JSON-RPC needs no order, but people and scripts do: a `get`
//! piped behind a `set` must see what was set.
//!
//! An exclusive request (the handshake, every writing tool) waits for all before it and holds all
//! behind it. A read waits a little for earlier ones, so that answers come in order where they
//! are fast, and then runs beside them. A subscription is a read until it is acknowledged; then it
//! stands, and nobody waits for it. Everything that waits is bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Limits;

/// Requests that run and are not answered yet; shared with whoever writes answers.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    running: Mutex<HashMap<RequestId, Run>>,
    pub(crate) changed: Notify,
}

/// How a request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    Alone,
    Beside,
    /// Until the client or the connection ends it.
    Standing,
}

impl Flight {
    pub(crate) fn landed(&self, id: &RequestId) {
        self.with(|running| running.remove(id));
        self.changed.notify_one();
    }

    /// The request goes on for as long as it likes, and is not waited for.
    pub(crate) fn stands(&self, id: &RequestId) {
        self.with(|running| {
            if let Some(run) = running.get_mut(id) {
                *run = Run::Standing;
            }
        });
        self.changed.notify_one();
    }

    /// How a request runs; `None` when it does not.
    pub(crate) fn run(&self, id: &RequestId) -> Option<Run> {
        self.with(|running| running.get(id).copied())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with(|running| running.is_empty())
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<RequestId, Run>) -> T) -> T {
        act(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Accepted messages that wait for their turn.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    limits: Limits,
}

#[derive(Debug)]
struct Waiting {
    message: ClientJsonRpcMessage,
    bytes: usize,
    exclusive: bool,
    since: Instant,
}

/// What is to be done with the first message that waits.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing waits.
    Empty,
    Deliver(Box<ClientJsonRpcMessage>),
    /// A request with this id runs already.
    Duplicate(RequestId),
    /// Until a running request lands.
    Wait,
    /// Until then, or until a running request lands.
    WaitUntil(Instant),
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limits }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// May another message be read?
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < self.limits.queue && self.bytes < self.limits.queue_bytes
    }

    pub(crate) fn push(&mut self, message: ClientJsonRpcMessage, bytes: usize, exclusive: bool) {
        self.bytes += bytes;
        self.waiting.push_back(Waiting { message, bytes, exclusive, since: Instant::now() });
    }

    /// Takes a request out that was cancelled before it ran.
    pub(crate) fn cancel(&mut self, id: &RequestId) -> bool {
        let is_meant =
            |w: &Waiting| matches!(&w.message, JsonRpcMessage::Request(r) if r.id == *id);
        let Some(at) = self.waiting.iter().position(is_meant) else {
            return false;
        };
        if let Some(cancelled) = self.waiting.remove(at) {
            self.bytes -= cancelled.bytes;
        }
        true
    }

    /// Takes out the first request that waits, and forgets what is none before it.
    pub(crate) fn take_request(&mut self) -> Option<RequestId> {
        loop {
            if let JsonRpcMessage::Request(request) = self.take()? {
                return Some(request.id);
            }
        }
    }

    /// The first message, if it may run beside what runs. `full` says that the peer should read
    /// answers first.
    pub(crate) fn next(&mut self, flight: &Flight, full: bool) -> Next {
        let Some(first) = self.waiting.front() else {
            return Next::Empty;
        };
        if let JsonRpcMessage::Request(request) = &first.message {
            let held = flight.with(|running| {
                if running.contains_key(&request.id) {
                    return Some(Next::Duplicate(request.id.clone()));
                }
                let count = running.values().filter(|run| **run != Run::Standing).count();
                if count == 0 {
                    return None;
                }
                let alone = first.exclusive || running.values().any(|run| *run == Run::Alone);
                if alone || full || count >= self.limits.in_flight {
                    return Some(Next::Wait);
                }
                let due = first.since + self.limits.grace;
                (Instant::now() < due).then_some(Next::WaitUntil(due))
            });
            match held {
                Some(Next::Duplicate(id)) => {
                    self.take();
                    return Next::Duplicate(id);
                }
                Some(held) => return held,
                None => {
                    let run = if first.exclusive { Run::Alone } else { Run::Beside };
                    flight.with(|running| running.insert(request.id.clone(), run));
                }
            }
        }
        match self.take() {
            Some(message) => Next::Deliver(Box::new(message)),
            None => Next::Empty,
        }
    }

    fn take(&mut self) -> Option<ClientJsonRpcMessage> {
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

    fn queue(requests: &[(i64, bool)]) -> Queue {
        let mut queue = Queue::new(Limits { in_flight: 2, queue: 3, ..Limits::default() });
        for (id, exclusive) in requests {
            queue.push(request(*id), 10, *exclusive);
        }
        queue
    }

    fn id(id: i64) -> RequestId {
        RequestId::Number(id)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_waits_for_all_before_it_and_holds_all_behind_it() {
        let flight = Flight::default();
        let mut queue = queue(&[(1, false), (2, true), (3, false)]);
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        assert!(matches!(queue.next(&flight, false), Next::Wait));
        flight.landed(&id(1));
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        tokio::time::advance(Limits::default().grace).await;
        assert!(matches!(queue.next(&flight, false), Next::Wait));
        flight.landed(&id(2));
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        assert!(matches!(queue.next(&flight, false), Next::Empty));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_a_little_and_then_runs_beside_within_the_bound() {
        let flight = Flight::default();
        let mut queue = queue(&[(1, false), (2, false), (3, false)]);
        assert!(!queue.has_room());
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        assert!(queue.has_room());
        assert!(matches!(queue.next(&flight, false), Next::WaitUntil(_)));
        tokio::time::advance(Limits::default().grace).await;
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        assert!(matches!(queue.next(&flight, false), Next::Wait), "two run already");
        flight.landed(&id(1));
        assert!(matches!(queue.next(&flight, true), Next::Wait), "answers wait to be read");
    }

    #[tokio::test(start_paused = true)]
    async fn what_stands_holds_nobody_and_keeps_its_id() {
        let flight = Flight::default();
        let mut queue = queue(&[(1, false), (2, true), (1, false)]);
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        assert!(matches!(queue.next(&flight, false), Next::Wait), "it is not acknowledged yet");
        flight.stands(&id(1));
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        flight.landed(&id(2));
        assert!(matches!(queue.next(&flight, false), Next::Duplicate(twice) if twice == id(1)));
        assert!(!flight.is_empty(), "it still waits for its last answer");
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_that_runs_is_refused_and_a_waiting_one_can_be_cancelled() {
        let flight = Flight::default();
        let mut queue = queue(&[(1, false), (1, false), (2, false)]);
        assert!(matches!(queue.next(&flight, false), Next::Deliver(_)));
        assert!(matches!(queue.next(&flight, false), Next::Duplicate(twice) if twice == id(1)));
        assert!(queue.cancel(&id(2)) && !queue.cancel(&id(2)));
        assert!(queue.is_empty() && queue.bytes == 0);
    }
}
