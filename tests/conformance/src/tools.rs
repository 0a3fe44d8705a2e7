//! The suite's tools that have an effect besides a fixed answer.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ErrorData,
    InputRequest, InputRequests, ProgressNotificationParam, ServerNotification,
};
use serde_json::json;

use crate::handler::{Context, HandlerState, ListChange, from_fixture};
use crate::rounds::RoundOutcome;

/// Pause between two messages, as required by the suite.
const PAUSE: Duration = Duration::from_millis(50);

/// Tools that request more input and accept it only with the state of the question.
const WITH_STATE: [&str; 4] = [
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
];
const BY_CAPABILITIES: &str = "test_input_required_result_capabilities";

impl HandlerState {
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = &*request.name;
        if let Some(result) = self.fixtures.results.get(name) {
            return Ok(result.clone().into());
        }
        if let Some(rounds) = self.fixtures.rounds.get(name) {
            return self.call_with_input(name, rounds, &request, context);
        }
        match name {
            "test_tool_with_progress" => send_progress(context).await?,
            "test_tool_with_logging" | "test_logging_tool" => send_log(context).await?,
            "test_missing_capability" => require_sampling(context)?,
            // Sending fails without listeners, which is not an error.
            "test_trigger_tool_change" => drop(self.changes.send(ListChange::Tools)),
            "test_trigger_prompt_change" => drop(self.changes.send(ListChange::Prompts)),
            _ => {
                let message = format!("Unknown tool: {name}");
                return Err(ErrorData::invalid_params(message, None));
            }
        }
        Ok(text_result("Done."))
    }

    fn call_with_input(
        &self,
        name: &str,
        rounds: &[InputRequests],
        request: &CallToolRequestParams,
        context: &Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let (has_state, state) = (WITH_STATE.contains(&name), request.request_state.as_deref());
        let responses = request.input_responses.as_ref();
        match self.seal.next_round(rounds, has_state, responses, state)? {
            RoundOutcome::Done(answers) => Ok(text_result(&format!("state-ok: {answers}"))),
            RoundOutcome::Ask(mut request_for_input) => {
                if let Some(requests) = request_for_input.input_requests.as_mut()
                    && name == BY_CAPABILITIES
                {
                    requests.retain(|_, request| can_answer(request, context));
                }
                Ok(request_for_input.into())
            }
        }
    }
}

fn text_result(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// True if the client declared the capability that this request needs.
fn can_answer(request: &InputRequest, context: &Context) -> bool {
    let Some(declared) = context.client_capabilities() else { return false };
    match request {
        InputRequest::CreateMessage(_) => declared.sampling.is_some(),
        InputRequest::Elicitation(_) => declared.elicitation.is_some(),
        _ => declared.roots.is_some(),
    }
}

fn require_sampling(context: &Context) -> Result<(), ErrorData> {
    if context.client_capabilities().is_some_and(|declared| declared.sampling.is_some()) {
        return Ok(());
    }
    let (code, data) = (
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
        json!({ "requiredCapabilities": { "sampling": {} } }),
    );
    Err(ErrorData::new(code, "This tool needs the client's capability: sampling", Some(data)))
}

async fn send_progress(context: &Context) -> Result<(), ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let param = ProgressNotificationParam::new(token, done).with_total(100.0);
            // The client may have disconnected.
            let _ = context.peer.notify_progress(param).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Sends log messages. Since 2026-07-28 only clients that set a log level receive them.
async fn send_log(context: &Context) -> Result<(), ErrorData> {
    let is_legacy = context.protocol_version().is_none_or(|version| version.has_initialize());
    for words in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if is_legacy || context.meta.log_level().is_some() {
            let params = json!({ "level": "info", "data": words });
            let line = json!({ "method": "notifications/message", "params": params });
            let _ = context.peer.send_notification(from_fixture::<ServerNotification>(line)?).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
