//! The guard against panics and the table of errors, over a stub service.

use reqlore_domain::test_support::{StubService, error, reply};

use super::*;
use crate::request_context::{ClientDialect, ResponseStatus};

/// Panics, fails or answers, as the tool's name says.
fn stub() -> StubService {
    StubService::without_backlog().on_call(|call| {
        let outcome = match call.name.as_str() {
            "internal" => Err(error(ErrorKind::Internal)),
            "unknown" => Err(error(ErrorKind::UnknownTool)),
            "invalid" => Err(error(ErrorKind::InvalidArgument)),
            "not_found" => Err(error(ErrorKind::NotFound)),
            "conflict" => Err(error(ErrorKind::Conflict)),
            "busy" => Err(error(ErrorKind::Busy)),
            "forbidden" => Err(error(ErrorKind::Forbidden)),
            "unavailable" => Err(error(ErrorKind::Unavailable)),
            _ => Ok(reply()),
        };
        Box::pin(async { outcome })
    })
}

/// How a request comes in.
#[derive(Clone, Copy)]
enum Way {
    Stdio,
    Http(ClientDialect, Era),
}

const PLAIN: Way = Way::Http(ClientDialect::JsonRpc, Era::Legacy);

/// The outcome, and the status that it asks for.
async fn ask(name: &'static str, way: Way) -> (std::result::Result<Value, Value>, Option<u16>) {
    let caller = Arc::new(Caller::local("me", Access::Write));
    let (context, era) = match way {
        Way::Stdio => (RequestContext::local(caller), Era::Legacy),
        Way::Http(dialect, era) => {
            let status = ResponseStatus::over_http();
            (RequestContext { caller, request_id: "request-1".into(), dialect, status }, era)
        }
    };
    let server = Server::for_requests(Arc::new(stub()));
    let guarded = GuardedService { service: Arc::clone(&server.0.service), context };
    let request = CallToolRequestParams::new(name);
    let outcome = server.call(request, &guarded, era, None, Arc::new(NoProgress)).await;
    let outcome = outcome
        .map(|result| serde_json::to_value(result).unwrap())
        .map_err(|error| serde_json::to_value(error).unwrap());
    (outcome, guarded.context.status.get())
}

async fn call(name: &'static str) -> std::result::Result<Value, Value> {
    ask(name, Way::Stdio).await.0
}

#[tokio::test]
async fn a_panic_is_answered_with_a_correlation_id_and_tells_nothing() {
    for name in ["panic", "internal"] {
        let error = call(name).await.unwrap_err();
        assert_eq!(error["code"], -32603);
        let id = error["data"]["correlation_id"].as_str().unwrap();
        assert!(error["message"].as_str().unwrap().contains(id));
        assert!(!error.to_string().contains("secret"));
        assert!(!error.to_string().contains("words"));
    }
    assert!(call("fine").await.is_ok(), "the next call is answered");
}

#[tokio::test]
async fn what_a_model_can_mend_is_a_tool_result_with_the_same_words() {
    for (name, kind, code) in [
        ("invalid", "invalid_argument", -32602),
        ("not_found", "not_found", -32002),
        ("conflict", "conflict", -32012),
        ("busy", "busy", -32015),
        ("unavailable", "storage_unavailable", -32016),
    ] {
        let result = call(name).await.unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], "words");
        assert_eq!(result.get("structuredContent"), None);
        let expected = json!({
            "kind": kind, "code": code, "message": "words", "field": "f", "reference_id": "r",
            "hint": "h"
        });
        assert_eq!(result["_meta"][convert::ERROR_META], expected);
    }
    assert_eq!(call("unknown").await.unwrap_err()["code"], -32601);
}

#[tokio::test]
async fn a_reply_is_text_for_readers_and_data_for_programs() {
    let result = call("fine").await.unwrap();
    assert_eq!(result["content"][1]["text"], "b");
    assert_eq!(result["structuredContent"], json!({ "n": 1 }));
    assert_ne!(result["isError"], true);
}

// S5: 3.6, 3.7, 3.8, 5.4, 5.5, 5.9, 7.8
#[tokio::test]
async fn whoever_speaks_plain_json_rpc_gets_an_error_with_its_code() {
    for (name, code, status) in [
        ("invalid", -32602, None),
        ("not_found", -32002, None),
        ("conflict", -32012, None),
        ("unknown", -32601, None),
        ("busy", -32015, Some(503)),
        ("unavailable", -32016, Some(503)),
        ("forbidden", -32011, Some(403)),
        ("internal", -32603, None),
    ] {
        let (outcome, asked_for) = ask(name, PLAIN).await;
        let error = outcome.unwrap_err();
        assert_eq!((&error["code"], asked_for), (&json!(code), status), "{name}");
        if !["unknown", "internal"].contains(&name) {
            let data = json!({
                "kind": error["data"]["kind"], "code": code, "field": "f", "reference_id": "r",
                "hint": "h", "correlation_id": "request-1"
            });
            assert_eq!((&error["message"], &error["data"]), (&json!("words"), &data));
        }
    }
    assert!(ask("internal", PLAIN).await.0.unwrap_err().to_string().contains("request-1"));
}

// S5: 4.4, 7.9
#[tokio::test]
async fn over_http_a_right_that_is_missing_is_a_403_in_every_manner() {
    for era in [Era::Legacy, Era::Modern] {
        for dialect in [ClientDialect::JsonRpc, ClientDialect::Mcp] {
            let (outcome, status) = ask("forbidden", Way::Http(dialect, era)).await;
            assert_eq!(outcome.unwrap_err()["code"], -32011);
            assert_eq!(status, Some(403));
        }
    }
    let (outcome, status) = ask("forbidden", Way::Stdio).await;
    assert_eq!((&outcome.unwrap()["isError"], status), (&json!(true), None));
}

#[tokio::test]
async fn a_client_of_mcp_over_http_is_answered_as_on_a_pipe() {
    for era in [Era::Legacy, Era::Modern] {
        let way = Way::Http(ClientDialect::Mcp, era);
        for name in ["invalid", "not_found", "conflict", "busy", "unavailable", "fine"] {
            let (outcome, status) = ask(name, way).await;
            assert_eq!((outcome, status), (call(name).await, None), "{name}");
        }
        let code = if era == Era::Modern { -32602 } else { -32601 };
        assert_eq!(ask("unknown", way).await.0.unwrap_err()["code"], code);
    }
}
