//! Resources, prompts, completion and their errors; the transcripts contain complete results.

use std::sync::Arc;

use reqlore_domain::error::ErrorKind;
use reqlore_domain::test_support::StubService;
use serde_json::{Value, json};

use crate::client::{Client, ERAS, Era};

#[tokio::test]
async fn capabilities_contain_only_existing_features() {
    let initialize = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "c", "version": "1" }
    });
    let all = json!({
        "tools": {}, "prompts": {}, "completions": {},
        "resources": { "subscribe": true, "listChanged": true }
    });
    for (stub, expected) in [
        (StubService::without_backlog(), json!({ "tools": {} })),
        (StubService::with_resources(&[]), all),
    ] {
        let stub = Arc::new(stub);
        let legacy = Client::new(Era::Legacy, &stub).result("initialize", initialize.clone()).await;
        let modern = Client::new(Era::Modern, &stub).result("server/discover", json!({})).await;
        assert_eq!(legacy["capabilities"], expected);
        assert_eq!(modern["capabilities"], expected);
    }
}

#[tokio::test]
async fn lists_are_paged_and_have_cache_times() {
    let stub = Arc::new(StubService::with_resources(&[
        ("EP-1", "one"),
        ("EP-2", "two"),
        ("EP-3", "three"),
    ]));
    for era in ERAS {
        let mut client = Client::new(era, &stub);
        let first = client.result("resources/list", json!({})).await;
        assert_eq!(first["resources"].as_array().unwrap().len(), 2);
        assert_eq!((&first["ttlMs"], &first["cacheScope"]), (&json!(0), &json!("private")));
        let rest = json!({ "cursor": first["nextCursor"] });
        let second = client.result("resources/list", rest).await;
        assert_eq!(second["resources"].as_array().unwrap().len(), 1);
        assert_eq!(second.get("nextCursor"), None);
        for method in ["resources/templates/list", "prompts/list", "tools/list"] {
            let list = client.result(method, json!({})).await;
            assert!(list["ttlMs"].as_u64() >= Some(60_000) && list["cacheScope"] == "private");
        }
        for method in ["resources/list", "resources/templates/list", "prompts/list", "tools/list"] {
            let error = client.error(method, json!({ "cursor": "nonsense" })).await;
            assert_eq!(error["code"], -32602, "{method}");
        }
    }
}

// S5: 6.4, 6.7
#[tokio::test]
async fn failed_read_has_the_code_of_its_kind() {
    let stub = Arc::new(StubService::with_resources(&[("EP-1", "{}")]));
    for (era, not_found) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
        let mut client = Client::new(era, &stub);
        let error = client.error("resources/read", json!({ "uri": "epic://EP-9" })).await;
        assert_eq!(error["code"], not_found);
        let expected = json!({
            "kind": "not_found", "code": -32002, "reference_id": "EP-1", "uri": "epic://EP-9"
        });
        assert_eq!(error["data"], expected);
        let error = client.error("resources/read", json!({ "uri": "nonsense" })).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("uri")));
        for (kind, code) in [
            (ErrorKind::Busy, -32015),
            (ErrorKind::Unavailable, -32016),
            (ErrorKind::Unreadable, -32016),
            (ErrorKind::Forbidden, -32011),
        ] {
            stub.fail_reads(Some(kind));
            let error = client.error("resources/read", json!({ "uri": "epic://EP-1" })).await;
            assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!("words")));
            assert_eq!(error["data"]["hint"], "try again");
        }
        stub.fail_reads(None);
    }
}

fn complete(reference: &Value, value: &str) -> Value {
    json!({ "ref": reference, "argument": { "name": "epic", "value": value } })
}

#[tokio::test]
async fn panicking_request_gets_a_correlation_id() {
    let stub = Arc::new(StubService::with_resources(&[]));
    for era in ERAS {
        let mut client = Client::new(era, &stub);
        for (method, params) in [
            ("resources/list", json!({ "cursor": "panic" })),
            ("resources/read", json!({ "uri": "epic://panic" })),
            ("prompts/get", json!({ "name": "panic" })),
            (
                "completion/complete",
                complete(&json!({ "type": "ref/prompt", "name": "p" }), "panic"),
            ),
        ] {
            let error = client.error(method, params).await;
            assert_eq!(error["code"], -32603, "{method}");
            let id = error["data"]["correlation_id"].as_str().unwrap();
            assert!(error["message"].as_str().unwrap().contains(id));
            assert!(!error.to_string().contains("secret"));
        }
    }
}

#[tokio::test]
async fn completion_returns_100_values_and_the_total() {
    let mut client = Client::new(Era::Modern, &Arc::new(StubService::with_resources(&[])));
    for (reference, target) in [
        (json!({ "type": "ref/prompt", "name": "p" }), "Prompt(\"p\")"),
        (json!({ "type": "ref/resource", "uri": "epic://{r}" }), "Template(\"epic://{r}\")"),
    ] {
        let result = client.result("completion/complete", complete(&reference, "EP")).await;
        let completion = &result["completion"];
        assert_eq!(completion["values"].as_array().unwrap().len(), 100);
        assert_eq!(completion["values"][7], format!("{target} EP7"));
        assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(150), &json!(true)));
    }
}

#[tokio::test]
async fn method_of_other_era_or_with_invalid_params_is_rejected() {
    let stub = Arc::new(StubService::with_resources(&[]));
    let mut legacy = Client::new(Era::Legacy, &stub);
    let mut modern = Client::new(Era::Modern, &stub);
    for client in [&mut legacy, &mut modern] {
        for (method, params, code) in [
            ("resources/read", json!({ "uri": 5 }), -32602),
            ("prompts/get", json!({}), -32602),
            ("completion/complete", json!({ "ref": {} }), -32602),
            ("no/such/method", json!({}), -32601),
        ] {
            assert_eq!(client.error(method, params).await["code"], code, "{method}");
        }
    }
    for params in [json!({}), json!({ "uri": "epic://EP-1" })] {
        let error = modern.error("resources/subscribe", params.clone()).await;
        assert_eq!(error["code"], -32601);
        assert!(error["message"].as_str().unwrap().contains("subscriptions/listen"), "{error}");
        assert_eq!(modern.error("resources/unsubscribe", params).await["code"], -32601);
    }
    for params in [json!({}), json!({ "notifications": {} })] {
        let error = legacy.error("subscriptions/listen", params).await;
        assert_eq!(error["code"], -32601);
        assert!(error["message"].as_str().unwrap().contains("resources/subscribe"), "{error}");
    }
    assert_eq!(legacy.error("resources/subscribe", json!({})).await["code"], -32602);
    assert_eq!(modern.error("subscriptions/listen", json!({})).await["code"], -32602);
}
