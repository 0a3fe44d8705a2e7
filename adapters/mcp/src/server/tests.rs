//! The guard against panics and the table of errors, over a stub endpoint.

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::endpoint::{
    Asked, Begun, Call, Completion, Content, PromptSpec, Reply, Resources, TemplateSpec, ToolSpec,
    Unobserved,
};
use serde_json::{Value, json};

use super::*;

/// Panics, fails or answers, as the tool's name says.
struct Stub;

#[async_trait]
impl Endpoint for Stub {
    fn tools(&self, _: &Caller) -> Vec<&ToolSpec> {
        Vec::new()
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        let error = |kind| Err(Error::new(kind, "words").field("f").reference("r").hint("h"));
        match call.name.as_str() {
            "panic" => panic!("a secret of the inside"),
            "internal" => error(ErrorKind::Internal),
            "unknown" => error(ErrorKind::UnknownTool),
            "invalid" => error(ErrorKind::InvalidArgument),
            "not_found" => error(ErrorKind::NotFound),
            "conflict" => error(ErrorKind::Conflict),
            "busy" => error(ErrorKind::Busy),
            "unavailable" => error(ErrorKind::Unavailable),
            _ => {
                Ok(Reply { text: vec!["a".into(), "b".into()], data: Arc::new(json!({ "n": 1 })) })
            }
        }
    }

    async fn resources(&self, _: &Caller, _: Option<String>) -> Result<Resources> {
        Ok(Resources::default())
    }

    fn templates(&self, _: &Caller) -> Vec<&TemplateSpec> {
        Vec::new()
    }

    async fn read(&self, _: Asked) -> Result<Content> {
        Err(Error::new(ErrorKind::NotFound, "words"))
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        Vec::new()
    }

    async fn prompt(&self, _: Asked) -> Result<reqlore_domain::ports::endpoint::Prompt> {
        Err(Error::new(ErrorKind::NotFound, "words"))
    }

    async fn complete(&self, _: &Caller, _: Begun) -> Result<Completion> {
        Ok(Completion::default())
    }

    async fn resources_changed(&self, _: &Caller) -> Result<u64> {
        Ok(0)
    }
}

async fn call(name: &'static str) -> std::result::Result<Value, Value> {
    let caller = Caller { name: "me".to_owned(), access: Access::Write };
    let server = Server::new(Arc::new(Stub), caller);
    let outcome = server.call(CallToolRequestParams::new(name), Arc::new(Unobserved)).await;
    outcome.map(|r| serde_json::to_value(r).unwrap()).map_err(|e| serde_json::to_value(e).unwrap())
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
        assert_eq!(result["_meta"][present::ERROR_META], expected);
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
