//! Resources, prompts and completion, and how they fail.

use std::sync::Arc;

use reqlore_domain::error::ErrorKind;
use reqlore_domain::test_support::StubService;
use serde_json::{Value, json};

use crate::client::{Client, ERAS, Era};

#[tokio::test]
async fn capabilities_name_only_what_there_is() {
    let initialize = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "c", "version": "1" }
    });
    let told = async |empty| {
        let stub = if empty {
            Arc::new(StubService::without_backlog())
        } else {
            Arc::new(StubService::with(&[]))
        };
        let mut old = Client::new(Era::Old, &stub);
        let mut new = Client::new(Era::New, &stub);
        let old = old.result("initialize", initialize.clone()).await["capabilities"].take();
        let new = new.result("server/discover", json!({})).await["capabilities"].take();
        assert_eq!(old, new);
        old
    };
    assert_eq!(told(true).await, json!({ "tools": {} }));
    let all = json!({
        "tools": {}, "prompts": {}, "completions": {},
        "resources": { "subscribe": true, "listChanged": true }
    });
    assert_eq!(told(false).await, all);
}

#[tokio::test]
async fn the_list_goes_on_page_by_page_and_knows_only_its_own_cursors() {
    let stub = Arc::new(StubService::with(&[("EP-1", "one"), ("EP-2", "two"), ("EP-3", "three")]));
    for era in ERAS {
        let mut client = Client::new(era, &stub);
        let first = client.result("resources/list", json!({})).await;
        assert_eq!(
            first["resources"][0],
            json!({
                "uri": "epic://EP-1", "name": "epic://EP-1", "title": "one",
                "description": "An epic.", "mimeType": "application/json"
            })
        );
        assert_eq!((&first["ttlMs"], &first["cacheScope"]), (&json!(0), &json!("private")));
        let rest = json!({ "cursor": first["nextCursor"] });
        let second = client.result("resources/list", rest).await;
        assert_eq!(second["resources"].as_array().unwrap().len(), 1);
        assert_eq!(second.get("nextCursor"), None);
        for method in ["resources/list", "resources/templates/list", "prompts/list", "tools/list"] {
            let error = client.error(method, json!({ "cursor": "nonsense" })).await;
            assert_eq!(error["code"], -32602, "{method}");
        }
    }
}

#[tokio::test]
async fn what_is_compiled_in_may_be_kept_for_long() {
    for era in ERAS {
        let mut client = Client::new(era, &Arc::new(StubService::with(&[])));
        let templates = client.result("resources/templates/list", json!({})).await;
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "epic://{reference}");
        let prompts = client.result("prompts/list", json!({})).await;
        assert_eq!(prompts["prompts"][0]["arguments"][0]["required"], true);
        for list in [templates, prompts] {
            assert!(list["ttlMs"].as_u64() > Some(60_000) && list["cacheScope"] == "private");
        }
    }
}

// S5: 6.1, 6.3, 6.6
#[tokio::test]
async fn a_resource_says_what_it_is_called_and_what_it_is() {
    for era in ERAS {
        let mut client = Client::new(era, &Arc::new(StubService::with(&[("EP-1", "{}")])));
        let result = client.result("resources/read", json!({ "uri": "epic://EP-1" })).await;
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        let expected = json!([{
            "uri": "epic://EP-1", "mimeType": "application/json", "text": "{}",
            "_meta": { "name": "EP-1", "description": "An epic." }
        }]);
        assert_eq!(result["contents"], expected);
    }
}

// S5: 6.4, 6.7
#[tokio::test]
async fn each_failed_read_has_its_code() {
    let stub = Arc::new(StubService::with(&[("EP-1", "{}")]));
    for (era, not_found) in [(Era::Old, -32002), (Era::New, -32602)] {
        let mut client = Client::new(era, &stub);
        let error = client.error("resources/read", json!({ "uri": "epic://EP-9" })).await;
        assert_eq!(error["code"], not_found);
        let expected = json!({
            "kind": "not_found", "code": -32002, "reference_id": "EP-1", "uri": "epic://EP-9"
        });
        assert_eq!(error["data"], expected);
        let error = client.error("resources/read", json!({ "uri": "nonsense" })).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("uri")));
        for (fault, code) in [
            (ErrorKind::Busy, -32015),
            (ErrorKind::Unavailable, -32016),
            (ErrorKind::Unreadable, -32016),
            (ErrorKind::Forbidden, -32011),
        ] {
            stub.fail_reads(Some(fault));
            let error = client.error("resources/read", json!({ "uri": "epic://EP-1" })).await;
            assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!("words")));
            assert_eq!(error["data"]["hint"], "try again");
        }
        stub.fail_reads(None);
    }
}

#[tokio::test]
async fn a_panic_in_any_question_is_answered_and_tells_nothing() {
    let stub = Arc::new(StubService::with(&[]));
    for era in ERAS {
        let mut client = Client::new(era, &stub);
        let complete = json!({
            "ref": { "type": "ref/prompt", "name": "p" },
            "argument": { "name": "epic", "value": "panic" }
        });
        for (method, params) in [
            ("resources/list", json!({ "cursor": "panic" })),
            ("resources/read", json!({ "uri": "epic://panic" })),
            ("prompts/get", json!({ "name": "panic" })),
            ("completion/complete", complete),
        ] {
            let error = client.error(method, params).await;
            assert_eq!(error["code"], -32603, "{method}");
            let id = error["data"]["correlation_id"].as_str().unwrap();
            assert!(error["message"].as_str().unwrap().contains(id));
            assert!(!error.to_string().contains("secret"));
        }
    }
}

// S5: 8.1, 8.3, 8.6
#[tokio::test]
async fn a_prompt_is_the_users_words_and_stored_content() {
    for era in ERAS {
        let mut client = Client::new(era, &Arc::new(StubService::with(&[])));
        let asked = json!({ "name": "decompose_epic", "arguments": { "epic": "EP-1" } });
        let prompt = client.result("prompts/get", asked).await;
        assert_eq!(prompt["description"], "Asks for stories.");
        let expected = json!([
            { "role": "user", "content": { "type": "text", "text": "Decompose EP-1." } },
            { "role": "user", "content": { "type": "resource", "resource": {
                "uri": "epic://EP-1", "mimeType": "application/json", "text": "stored",
                "_meta": { "name": "EP-1", "description": "An epic." }
            } } }
        ]);
        assert_eq!(prompt["messages"], expected);
        let error = client.error("prompts/get", json!({ "name": "decompose_epic" })).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("epic")));
        let error = client.error("prompts/get", json!({ "name": "other" })).await;
        assert_eq!(error["code"], -32602);
        assert!(error["message"].as_str().unwrap().contains("decompose_epic"));
    }
}

#[tokio::test]
async fn completion_gives_a_hundred_values_and_says_how_many_there_are() {
    for era in ERAS {
        let mut client = Client::new(era, &Arc::new(StubService::with(&[])));
        for (reference, of) in [
            (json!({ "type": "ref/prompt", "name": "p" }), "Prompt(\"p\")"),
            (json!({ "type": "ref/resource", "uri": "epic://{r}" }), "Template(\"epic://{r}\")"),
        ] {
            let asked = json!({ "ref": reference, "argument": { "name": "epic", "value": "EP" } });
            let completion = client.result("completion/complete", asked).await["completion"].take();
            assert_eq!(completion["values"].as_array().unwrap().len(), 100);
            assert_eq!(completion["values"][7], format!("{of} EP7"));
            assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(150), &json!(true)));
        }
    }
}

#[tokio::test]
async fn methods_are_known_in_their_era_and_wrong_parameters_are_told_from_unknown_methods() {
    let stub = Arc::new(StubService::with(&[]));
    let mut old = Client::new(Era::Old, &stub);
    let mut new = Client::new(Era::New, &stub);
    let code = |error: &Value| error["code"].as_i64().unwrap();
    for client in [&mut old, &mut new] {
        for (method, params) in [
            ("resources/read", json!({ "uri": 5 })),
            ("prompts/get", json!({})),
            ("completion/complete", json!({ "ref": {} })),
        ] {
            assert_eq!(code(&client.error(method, params).await), -32602, "{method}");
        }
        assert_eq!(code(&client.error("no/such/method", json!({})).await), -32601);
    }
    let good = json!({ "uri": "epic://EP-1" });
    for params in [json!({}), good] {
        let error = new.error("resources/subscribe", params.clone()).await;
        assert_eq!(code(&error), -32601);
        assert!(error["message"].as_str().unwrap().contains("subscriptions/listen"), "{error}");
        assert_eq!(code(&new.error("resources/unsubscribe", params).await), -32601);
    }
    for params in [json!({}), json!({ "notifications": {} })] {
        let error = old.error("subscriptions/listen", params).await;
        assert_eq!(code(&error), -32601);
        assert!(error["message"].as_str().unwrap().contains("resources/subscribe"), "{error}");
    }
    assert_eq!(code(&old.error("resources/subscribe", json!({})).await), -32602);
    assert_eq!(code(&new.error("subscriptions/listen", json!({})).await), -32602);
}
