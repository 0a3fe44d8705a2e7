//! Requests for more input (2026-07-28): a result asks for input and the client repeats its call.
//!
//! The server stores no rounds. A tool's state is sent to the client, sealed with a key of this
//! process.

use std::hash::{BuildHasher, RandomState};

use rmcp::model::{ErrorData, InputRequests, InputRequiredResult, InputResponses};

/// Seals the number of a round, so that clients cannot change it.
#[derive(Default)]
pub(crate) struct StateSeal(RandomState);

/// The outcome of one call.
pub(crate) enum RoundOutcome {
    Ask(InputRequiredResult),
    /// All answers, as JSON.
    Done(String),
}

impl StateSeal {
    /// Returns the round of a state. Rejects states that this server did not seal.
    fn open(&self, state: &str) -> Result<usize, ErrorData> {
        let round = state.split('.').next().and_then(|round| round.parse().ok());
        round.filter(|round| self.close(*round) == state).ok_or_else(|| {
            ErrorData::invalid_params("requestState: not sealed by this server", None)
        })
    }

    fn close(&self, round: usize) -> String {
        format!("{round}.{:016x}", self.0.hash_one(round))
    }

    /// Returns the next question or all answers. With `has_state`, an answer is valid only with the
    /// state of its question.
    pub(crate) fn next_round(
        &self,
        rounds: &[InputRequests],
        has_state: bool,
        responses: Option<&InputResponses>,
        state: Option<&str>,
    ) -> Result<RoundOutcome, ErrorData> {
        let mut round = state.map_or(Ok(0), |state| self.open(state))?;
        if let (Some(questions), Some(responses)) = (rounds.get(round), responses)
            && state.is_some() == has_state
            && questions
                .keys()
                .all(|key| responses.get(key).is_some_and(serde_json::Value::is_object))
        {
            round += 1;
        }
        let Some(questions) = rounds.get(round) else {
            let answers = responses.map(serde_json::to_string).transpose();
            let answers =
                answers.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            return Ok(RoundOutcome::Done(answers.unwrap_or_default()));
        };
        let state = has_state.then(|| self.close(round));
        Ok(RoundOutcome::Ask(InputRequiredResult::new(Some(questions.clone()), state)))
    }
}
