//! Panic guard and error table, over a stub service.

use reqlore_domain::ports::service::AnswerFormat;
use reqlore_domain::test_support::{StubService, error, rendered_answer};

use super::*;
use crate::request_context::{ClientDialect, ResponseStatus};

/// A service whose tools panic, fail or succeed according to their names.
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
            _ => Ok(rendered_answer()),
        };
        Box::pin(async { outcome })
    })
}

#[derive(Clone, Copy)]
enum RequestOrigin {
    Stdio,
    Http(ClientDialect, ProtocolEra),
}

const PLAIN: RequestOrigin = RequestOrigin::Http(ClientDialect::JsonRpc, ProtocolEra::Legacy);

/// Returns the outcome and the HTTP status that it requests.
async fn call_from(name: &str, origin: RequestOrigin) -> (Result<Value, Value>, Option<u16>) {
    let caller = Arc::new(Caller::local("me", Access::Write));
    let (context, era) = match origin {
        RequestOrigin::Stdio => (RequestContext::for_connection(caller), ProtocolEra::Legacy),
        RequestOrigin::Http(dialect, era) => {
            let status = ResponseStatus::for_http();
            (RequestContext { caller, request_id: "request-1".into(), dialect, status }, era)
        }
    };
    let guarded = GuardedService { service: Arc::new(stub()), context };
    let (arguments, format) = (serde_json::Map::new(), AnswerFormat::Both);
    let outcome = match guarded
        .call_tool(None, name.to_owned(), arguments, None, format, Arc::new(NoProgress))
        .await
    {
        Ok(answer) => Ok(convert::tool_result(answer)),
        Err(error) => convert::tool_error(error, &guarded.context, era, name),
    };
    let outcome = outcome.map(|result| json!(result)).map_err(|error| json!(error));
    (outcome, guarded.context.status.requested())
}

async fn call(name: &str) -> Result<Value, Value> {
    call_from(name, RequestOrigin::Stdio).await.0
}

#[tokio::test]
async fn panicking_call_gets_only_a_correlation_id() {
    for name in ["panic", "internal"] {
        let error = call(name).await.unwrap_err();
        assert_eq!(error["code"], -32603);
        let id = error["data"]["correlation_id"].as_str().unwrap();
        assert!(error["message"].as_str().unwrap().contains(id));
        assert!(!error.to_string().contains("secret"));
        assert!(!error.to_string().contains("words"));
    }
    assert!(call("fine").await.is_ok(), "the next call succeeds");
}

#[tokio::test]
async fn tool_reply_has_text_and_structured_content() {
    let result = call("fine").await.unwrap();
    assert_eq!(result["content"], json!([{ "type": "text", "text": "a" }]));
    assert_eq!(result["structuredContent"], json!({ "n": 1 }));
    assert_ne!(result["isError"], true);
}

// S5: 3.6, 3.7, 3.8, 5.4, 5.5, 5.9, 7.8
#[tokio::test]
async fn tool_error_has_the_form_of_the_clients_dialect() {
    for (name, kind, code, status) in [
        ("invalid", "invalid_argument", -32602, None),
        ("not_found", "not_found", -32002, None),
        ("conflict", "conflict", -32012, None),
        ("busy", "busy", -32015, Some(503)),
        ("unavailable", "storage_unavailable", -32016, Some(503)),
    ] {
        let mut data = json!({
            "kind": kind, "code": code, "message": "words", "field": "f", "reference_id": "r",
            "hint": "h"
        });
        let result = call(name).await.unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"], json!([{ "type": "text", "text": "words\nh" }]));
        assert_eq!(result.get("structuredContent"), None);
        assert_eq!(result["_meta"][convert::ERROR_META], data);

        let (outcome, requested) = call_from(name, PLAIN).await;
        let error = outcome.unwrap_err();
        data.as_object_mut().unwrap().remove("message");
        data["correlation_id"] = json!("request-1");
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!("words")));
        assert_eq!((&error["data"], requested), (&data, status), "{name}");
    }
    for (name, code) in [("unknown", -32601), ("internal", -32603)] {
        assert_eq!(call(name).await.unwrap_err()["code"], code);
        let (outcome, requested) = call_from(name, PLAIN).await;
        assert_eq!((&outcome.unwrap_err()["code"], requested), (&json!(code), None), "{name}");
    }
    assert!(call_from("internal", PLAIN).await.0.unwrap_err().to_string().contains("request-1"));
}

// S5: 4.4, 7.9
#[tokio::test]
async fn forbidden_call_over_http_gets_403_in_each_dialect() {
    for era in [ProtocolEra::Legacy, ProtocolEra::Modern] {
        for dialect in [ClientDialect::JsonRpc, ClientDialect::Mcp] {
            let (outcome, status) = call_from("forbidden", RequestOrigin::Http(dialect, era)).await;
            assert_eq!(outcome.unwrap_err()["code"], -32011);
            assert_eq!(status, Some(403));
        }
    }
    let (outcome, status) = call_from("forbidden", RequestOrigin::Stdio).await;
    assert_eq!((&outcome.unwrap()["isError"], status), (&json!(true), None));
}

#[tokio::test]
async fn mcp_client_over_http_gets_the_responses_of_stdio() {
    for era in [ProtocolEra::Legacy, ProtocolEra::Modern] {
        let origin = RequestOrigin::Http(ClientDialect::Mcp, era);
        for name in ["invalid", "not_found", "conflict", "fine"] {
            let (outcome, status) = call_from(name, origin).await;
            assert_eq!((outcome, status), (call(name).await, None), "{name}");
        }
        // Clients and proxies retry after the status.
        for (name, code) in [("busy", -32015), ("unavailable", -32016)] {
            let (outcome, status) = call_from(name, origin).await;
            assert_eq!(
                (&outcome.unwrap_err()["code"], status),
                (&json!(code), Some(503)),
                "{name}"
            );
        }
        let code = if era == ProtocolEra::Modern { -32602 } else { -32601 };
        assert_eq!(call_from("unknown", origin).await.0.unwrap_err()["code"], code);
    }
}
