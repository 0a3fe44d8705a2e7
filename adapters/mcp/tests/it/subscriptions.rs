//! Who is told what, and when nothing runs.

use std::sync::Arc;
use std::time::Duration;

use reqlore_domain::error::ErrorKind;
use reqlore_domain::test_support::StubService;
use serde_json::{Value, json};

use crate::client::{Client, ERAS, Era};

/// Subscribes to these URIs and, if wanted, to the list. Gives what tells one stream's messages.
async fn subscribed(client: &mut Client, era: Era, uris: &[&str], list: bool) -> Value {
    match era {
        Era::Old => {
            for uri in uris {
                client.result("resources/subscribe", json!({ "uri": uri })).await;
            }
            if list {
                client.result("resources/list", json!({})).await;
            }
            Value::Null
        }
        Era::New => {
            let wanted = json!({ "resourcesListChanged": list, "resourceSubscriptions": uris });
            let id = client.send("subscriptions/listen", json!({ "notifications": wanted })).await;
            let line = client.line().await;
            assert_eq!(line["method"], "notifications/subscriptions/acknowledged", "{line}");
            assert_eq!(stream(&line), id);
            json!(id)
        }
    }
}

fn stream(message: &Value) -> Value {
    message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
}

#[track_caller]
fn is_update(message: &Value, uri: &str, of: &Value) {
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    assert_eq!(message["params"]["uri"], uri);
    assert_eq!(stream(message), *of);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_is_told_exactly_of_what_says_something_else() {
    for era in ERAS {
        let stub =
            Arc::new(StubService::with(&[("EP-1", "one"), ("EP-2", "two"), ("EP-3", "three")]));
        let mut client = Client::new(era, &stub);
        let of = subscribed(&mut client, era, &["epic://EP-1", "epic://EP-2"], false).await;
        stub.set("EP-2", "two, changed");
        stub.set("EP-3", "not subscribed to");
        is_update(&client.line().await, "epic://EP-2", &of);
        stub.set("EP-2", "two, changed");
        client.heard_nothing().await;
        stub.remove("EP-1");
        is_update(&client.line().await, "epic://EP-1", &of);
        stub.set("EP-1", "one, again");
        is_update(&client.line().await, "epic://EP-1", &of);
        stub.set("EP-1", "several");
        stub.set("EP-1", "changes at once");
        is_update(&client.line().await, "epic://EP-1", &of);
        client.heard_nothing().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_list_is_told_of_when_any_page_of_it_is_another() {
    for era in ERAS {
        let stub = Arc::new(StubService::with(&[
            ("EP-1", "one\nbody"),
            ("EP-2", "two"),
            ("EP-3", "three"),
        ]));
        let mut client = Client::new(era, &stub);
        let of = subscribed(&mut client, era, &[], true).await;
        stub.set("EP-1", "one\nanother body");
        client.heard_nothing().await;
        stub.set("EP-3", "another title");
        let told = client.line().await;
        assert_eq!(told["method"], "notifications/resources/list_changed", "{told}");
        assert_eq!(stream(&told), of);
        stub.remove("EP-3");
        assert_eq!(client.line().await["method"], "notifications/resources/list_changed");
        client.heard_nothing().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_looked_at_now_is_no_change_and_is_looked_at_again() {
    for era in ERAS {
        let stub = Arc::new(StubService::with(&[("EP-1", "one")]));
        let mut client = Client::new(era, &stub);
        let of = subscribed(&mut client, era, &["epic://EP-1"], false).await;
        for fault in [ErrorKind::Busy, ErrorKind::Unavailable, ErrorKind::Internal] {
            stub.fail_reads(Some(fault));
            stub.set("EP-1", "one");
            client.heard_nothing().await;
        }
        stub.set("EP-1", "one, changed");
        client.heard_nothing().await;
        stub.fail_reads(None);
        is_update(&client.line().await, "epic://EP-1", &of);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_there_can_be_subscribed_to() {
    for (era, not_found) in [(Era::Old, -32002), (Era::New, -32602)] {
        let mut client = Client::new(era, &Arc::new(StubService::with(&[])));
        for (uri, code) in [("nonsense", -32602), ("epic://EP-9", not_found)] {
            let error = match era {
                Era::Old => client.error("resources/subscribe", json!({ "uri": uri })).await,
                Era::New => {
                    let wanted = json!({ "resourceSubscriptions": [uri] });
                    client.error("subscriptions/listen", json!({ "notifications": wanted })).await
                }
            };
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(uri)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_uris_is_one_for_the_connection_and_named() {
    let stub = Arc::new(StubService::with(&[]));
    let uris: Vec<String> = (0..1001).map(|n| format!("epic://EP-{n}")).collect();
    for n in 0..1001 {
        stub.set(&format!("EP-{n}"), "text");
    }
    let listen = |uris: &[String]| json!({ "notifications": { "resourceSubscriptions": uris } });
    let mut client = Client::new(Era::New, &stub);
    let error = client.error("subscriptions/listen", listen(&uris)).await;
    assert!(error["message"].as_str().unwrap().contains("1000 URIs"), "{error}");
    let id = client.send("subscriptions/listen", listen(&uris[..1000])).await;
    client.line().await;
    let error = client.error("subscriptions/listen", listen(&uris[1000..])).await;
    assert_eq!(error["code"], -32012);
    client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    client.heard_nothing().await;
    client.send("subscriptions/listen", listen(&uris[1000..])).await;
    assert!(client.line().await.get("error").is_none(), "a cancelled stream gives its room back");

    let mut client = Client::new(Era::Old, &stub);
    for uri in &uris[..1000] {
        client.result("resources/subscribe", json!({ "uri": uri })).await;
    }
    client.result("resources/subscribe", json!({ "uri": uris[0] })).await;
    let error = client.error("resources/subscribe", json!({ "uri": uris[1000] })).await;
    assert!(error["message"].as_str().unwrap().contains("1000 URIs"), "{error}");
    client.result("resources/unsubscribe", json!({ "uri": uris[0] })).await;
    client.result("resources/subscribe", json!({ "uri": uris[1000] })).await;
}

#[tokio::test(start_paused = true)]
async fn streams_are_bounded_too() {
    let mut client = Client::new(Era::New, &Arc::new(StubService::with(&[])));
    let listen = json!({ "notifications": { "resourcesListChanged": true } });
    for _ in 0..32 {
        client.send("subscriptions/listen", listen.clone()).await;
        client.line().await;
    }
    let error = client.error("subscriptions/listen", listen).await;
    assert!(error["message"].as_str().unwrap().contains("at most 32"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_for_who_is_not_subscribed() {
    let stub = Arc::new(StubService::with(&[("EP-1", "one")]));
    let mut client = Client::new(Era::Old, &stub);
    client.result("resources/read", json!({ "uri": "epic://EP-1" })).await;
    client.heard_nothing().await;
    assert_eq!(stub.polls(), 0);
    client.result("resources/subscribe", json!({ "uri": "epic://EP-1" })).await;
    client.heard_nothing().await;
    assert!(stub.polls() > 2);
    client.result("resources/unsubscribe", json!({ "uri": "epic://EP-1" })).await;
    client.heard_nothing().await;
    let asked = stub.polls();
    stub.set("EP-1", "changed");
    client.heard_nothing().await;
    assert_eq!(stub.polls(), asked);
    client.result("resources/subscribe", json!({ "uri": "epic://EP-1" })).await;
    stub.set("EP-1", "changed again");
    is_update(&client.line().await, "epic://EP-1", &Value::Null);

    let mut client = Client::new(Era::New, &stub);
    client.result("resources/list", json!({})).await;
    let asked = stub.polls();
    drop(client);
    let mut client = Client::new(Era::New, &stub);
    let of = subscribed(&mut client, Era::New, &["epic://EP-1"], false).await;
    client.notify("notifications/cancelled", json!({ "requestId": of })).await;
    client.heard_nothing().await;
    assert!(stub.polls() >= asked);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_leaves_nothing_behind() {
    for era in ERAS {
        let stub = Arc::new(StubService::with(&[("EP-1", "one")]));
        let mut client = Client::new(era, &stub);
        subscribed(&mut client, era, &["epic://EP-1"], true).await;
        let Client { running, server, .. } = client;
        drop(server);
        running.cancel().await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(Arc::strong_count(&stub), 1, "{era:?}");
        let asked = stub.polls();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(stub.polls(), asked, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_gives_each_stream_its_last_answer() {
    let stub = Arc::new(StubService::with(&[("EP-1", "one")]));
    let mut client = Client::new(Era::New, &stub);
    let of = subscribed(&mut client, Era::New, &["epic://EP-1"], true).await;
    client.server.finish();
    let last = client.line().await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&of, &json!("complete")));
}
