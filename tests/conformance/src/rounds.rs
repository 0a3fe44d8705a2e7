//! Asking back since 2026-07-28: a result that wants input, and the call that is made again with
//! it.
//!
//! No round is remembered here. Where a tool has a state it travels with the client, sealed with a
//! key that lives as long as the process.

use std::hash::{BuildHasher, RandomState};

use rmcp::model::{ErrorData, InputRequests, InputRequiredResult, InputResponses};

/// The key of the seals.
#[derive(Default)]
pub(crate) struct Seal(RandomState);

/// The outcome of one call.
pub(crate) enum Outcome {
    Ask(InputRequiredResult),
    /// Everything was answered; this is it, as JSON.
    Done(String),
}

impl Seal {
    /// Which round a state stands for.
    fn open(&self, state: &str) -> Result<usize, ErrorData> {
        let round = state.split('.').next().and_then(|round| round.parse().ok());
        round.filter(|round| self.close(*round) == state).ok_or_else(|| {
            ErrorData::invalid_params("requestState: not what this server gave", None)
        })
    }

    fn close(&self, round: usize) -> String {
        format!("{round}.{:016x}", self.0.hash_one(round))
    }

    /// The next question, or the end. With several rounds, or where it `has_state`, an answer
    /// counts only with the state of its question.
    pub(crate) fn answer(
        &self,
        rounds: &[InputRequests],
        has_state: bool,
        responses: Option<&InputResponses>,
        state: Option<&str>,
    ) -> Result<Outcome, ErrorData> {
        let mut round = state.map_or(Ok(0), |state| self.open(state))?;
        if let (Some(asked), Some(responses)) = (rounds.get(round), responses)
            && state.is_some() == has_state
            && asked.keys().all(|key| responses.get(key).is_some_and(serde_json::Value::is_object))
        {
            round += 1;
        }
        let Some(asked) = rounds.get(round) else {
            let given = responses.map(serde_json::to_string).transpose();
            let given =
                given.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            return Ok(Outcome::Done(given.unwrap_or_default()));
        };
        let state = has_state.then(|| self.close(round));
        Ok(Outcome::Ask(InputRequiredResult::new(Some(asked.clone()), state)))
    }
}
