//! Collects the responses to the members of a JSON-RPC batch into one line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;

#[derive(Debug)]
struct Batch {
    /// By position; `None` for a notification and for a member without its response.
    responses: Vec<Option<Vec<u8>>>,
    /// Members that are not complete.
    remaining: usize,
}

/// The position of one member's response.
#[derive(Debug)]
pub(crate) struct BatchSlot {
    batch: Arc<Mutex<Batch>>,
    position: usize,
}

impl BatchSlot {
    /// Returns the slots of a batch of `count` members. Each must be completed once.
    pub(crate) fn for_members(count: usize) -> Vec<Self> {
        let batch = Batch { responses: vec![None; count], remaining: count };
        let batch = Arc::new(Mutex::new(batch));
        (0..count).map(|position| Self { batch: Arc::clone(&batch), position }).collect()
    }

    /// Completes the member, with its response if it has one. The last one returns the line of the
    /// whole batch, unless no member has a response.
    pub(crate) fn complete(self, response: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        // In the order of the members, although JSON-RPC allows any order.
        batch.responses[self.position] = response;
        batch.remaining -= 1;
        if batch.remaining > 0 {
            return None;
        }
        let mut line = Vec::new();
        for response in batch.responses.iter().flatten() {
            line.push(if line.is_empty() { b'[' } else { b',' });
            // Each response ends with a line break, which would split the line of the batch.
            line.extend_from_slice(response.trim_ascii_end());
        }
        if line.is_empty() {
            return None;
        }
        line.extend_from_slice(b"]\n");
        Some(line)
    }
}

/// The slots of running members, by the ids of their requests.
#[derive(Debug, Default)]
pub(crate) struct RunningMembers(Mutex<HashMap<RequestId, BatchSlot>>);

impl RunningMembers {
    pub(crate) fn insert(&self, id: RequestId, slot: BatchSlot) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, slot);
    }

    /// Returns the slot that the response with this id completes; `None` outside of a batch.
    pub(crate) fn take(&self, id: &RequestId) -> Option<BatchSlot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}
