//! Subscriptions: notifications, limits, and the end of polling.

use std::sync::Arc;
use std::time::Duration;

use reqlore_domain::error::ErrorKind;
use reqlore_domain::test_support::StubService;
use serde_json::{Value, json};

use crate::client::{Client, ERAS, Era};

fn listen(uris: &[impl AsRef<str>], include_list: bool) -> Value {
    let uris: Vec<&str> = uris.iter().map(AsRef::as_ref).collect();
    let filter = json!({ "resourcesListChanged": include_list, "resourceSubscriptions": uris });
    json!({ "notifications": filter })
}

/// Subscribes to these URIs and optionally to the list. Returns the id of the stream.
async fn subscribe(client: &mut Client, era: Era, uris: &[&str], list: bool) -> Value {
    match era {
        Era::Legacy => {
            for uri in uris {
                client.result("resources/subscribe", json!({ "uri": uri })).await;
            }
            if list {
                client.result("resources/list", json!({})).await;
            }
            Value::Null
        }
        Era::Modern => {
            let id = client.send("subscriptions/listen", listen(uris, list)).await;
            let line = client.read_line().await;
            assert_eq!(line["method"], "notifications/subscriptions/acknowledged", "{line}");
            assert_eq!(subscription_id(&line), id);
            json!(id)
        }
    }
}

fn subscription_id(message: &Value) -> Value {
    message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
}

#[track_caller]
fn assert_update(message: &Value, uri: &str, stream_id: &Value) {
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    assert_eq!(message["params"]["uri"], uri);
    assert_eq!(subscription_id(message), *stream_id);
}

#[tokio::test(start_paused = true)]
async fn subscriber_is_notified_only_of_changed_content() {
    for era in ERAS {
        let stub = Arc::new(StubService::with_resources(&[
            ("EP-1", "one"),
            ("EP-2", "two"),
            ("EP-3", "three"),
        ]));
        let mut client = Client::new(era, &stub);
        let stream_id = subscribe(&mut client, era, &["epic://EP-1", "epic://EP-2"], false).await;
        stub.set("EP-2", "two, changed");
        stub.set("EP-3", "not subscribed to");
        assert_update(&client.read_line().await, "epic://EP-2", &stream_id);
        stub.set("EP-2", "two, changed");
        client.assert_silent().await;
        stub.remove("EP-1");
        assert_update(&client.read_line().await, "epic://EP-1", &stream_id);
        stub.set("EP-1", "one, again");
        assert_update(&client.read_line().await, "epic://EP-1", &stream_id);
        stub.set("EP-1", "several");
        stub.set("EP-1", "changes at once");
        assert_update(&client.read_line().await, "epic://EP-1", &stream_id);
        for kind in [ErrorKind::Busy, ErrorKind::Unavailable, ErrorKind::Internal] {
            stub.fail_reads(Some(kind));
            stub.set("EP-1", "changes at once");
            client.assert_silent().await;
        }
        stub.set("EP-1", "changed while unreadable");
        client.assert_silent().await;
        stub.fail_reads(None);
        assert_update(&client.read_line().await, "epic://EP-1", &stream_id);
        client.assert_silent().await;
    }
}

#[tokio::test(start_paused = true)]
async fn list_subscriber_is_notified_of_changes_on_any_page() {
    for era in ERAS {
        let resources = [("EP-1", "one\nbody"), ("EP-2", "two"), ("EP-3", "three")];
        let stub = Arc::new(StubService::with_resources(&resources));
        let mut client = Client::new(era, &stub);
        let stream_id = subscribe(&mut client, era, &[], true).await;
        stub.set("EP-1", "one\nanother body");
        client.assert_silent().await;
        stub.set("EP-3", "another title");
        let notified = client.read_line().await;
        assert_eq!(notified["method"], "notifications/resources/list_changed", "{notified}");
        assert_eq!(subscription_id(&notified), stream_id);
        stub.remove("EP-3");
        assert_eq!(client.read_line().await["method"], "notifications/resources/list_changed");
        client.assert_silent().await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_is_notified_when_a_tool_description_changes() {
    for era in ERAS {
        let stub = StubService::without_backlog().with_tools(&["list_items"]);
        let stub = Arc::new(stub);
        let mut client = Client::new(era, &stub);
        stub.describe_tool("list_items", "one");
        let listed = client.result("tools/list", json!({})).await;
        assert_eq!(listed["tools"][0]["inputSchema"]["description"], "one");
        let mut stream = Value::Null;
        if era == Era::Modern {
            let filter = json!({ "notifications": { "toolsListChanged": true } });
            stream = json!(client.send("subscriptions/listen", filter).await);
            client.read_line().await;
        }
        stub.describe_tool("list_items", "one");
        client.assert_silent().await;
        stub.describe_tool("list_items", "two");
        let notified = client.read_line().await;
        assert_eq!(notified["method"], "notifications/tools/list_changed", "{notified}");
        assert_eq!(subscription_id(&notified), stream);
        client.assert_silent().await;
    }
}

#[tokio::test(start_paused = true)]
async fn subscription_to_missing_resource_is_rejected() {
    for (era, not_found) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
        let mut client = Client::new(era, &Arc::new(StubService::with_resources(&[])));
        for (uri, code) in [("nonsense", -32602), ("epic://EP-9", not_found)] {
            let error = match era {
                Era::Legacy => client.error("resources/subscribe", json!({ "uri": uri })).await,
                Era::Modern => client.error("subscriptions/listen", listen(&[uri], false)).await,
            };
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(uri)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn uris_and_streams_of_a_connection_are_limited() {
    let stub = Arc::new(StubService::with_resources(&[]));
    let uris: Vec<String> = (0..1001).map(|n| format!("epic://EP-{n}")).collect();
    for n in 0..1001 {
        stub.set(&format!("EP-{n}"), "text");
    }
    let mut client = Client::new(Era::Modern, &stub);
    let error = client.error("subscriptions/listen", listen(&uris, false)).await;
    assert!(error["message"].as_str().unwrap().contains("1000 URIs"), "{error}");
    let id = client.send("subscriptions/listen", listen(&uris[..1000], false)).await;
    client.read_line().await;
    let error = client.error("subscriptions/listen", listen(&uris[1000..], false)).await;
    assert_eq!(error["code"], -32012);
    client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    client.assert_silent().await;
    client.send("subscriptions/listen", listen(&uris[1000..], false)).await;
    assert!(
        client.read_line().await.get("error").is_none(),
        "a cancelled stream frees its permits"
    );
    for _ in 1..32 {
        client.send("subscriptions/listen", listen(&[""; 0], true)).await;
        client.read_line().await;
    }
    let error = client.error("subscriptions/listen", listen(&[""; 0], true)).await;
    assert!(error["message"].as_str().unwrap().contains("at most 32"), "{error}");

    let mut client = Client::new(Era::Legacy, &stub);
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
async fn nothing_is_polled_without_a_subscription() {
    let stub = Arc::new(StubService::with_resources(&[("EP-1", "one")]));
    let uri = json!({ "uri": "epic://EP-1" });
    let mut client = Client::new(Era::Legacy, &stub);
    client.result("resources/read", uri.clone()).await;
    client.assert_silent().await;
    assert_eq!(stub.polls(), 0);
    client.result("resources/subscribe", uri.clone()).await;
    client.assert_silent().await;
    assert!(stub.polls() > 2);
    client.result("resources/unsubscribe", uri.clone()).await;
    client.assert_silent().await;
    let polls = stub.polls();
    stub.set("EP-1", "changed");
    client.assert_silent().await;
    assert_eq!(stub.polls(), polls);
    client.result("resources/subscribe", uri).await;
    stub.set("EP-1", "changed again");
    assert_update(&client.read_line().await, "epic://EP-1", &Value::Null);
}

#[tokio::test(start_paused = true)]
async fn closed_connection_stops_polling() {
    for era in ERAS {
        let stub = Arc::new(StubService::with_resources(&[("EP-1", "one")]));
        let mut client = Client::new(era, &stub);
        subscribe(&mut client, era, &["epic://EP-1"], true).await;
        let Client { running, server, .. } = client;
        drop(server);
        running.cancel().await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(Arc::strong_count(&stub), 1, "{era:?}");
        let polls = stub.polls();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(stub.polls(), polls, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_sends_each_stream_its_last_response() {
    let stub = Arc::new(StubService::with_resources(&[("EP-1", "one")]));
    let mut client = Client::new(Era::Modern, &stub);
    let stream_id = subscribe(&mut client, Era::Modern, &["epic://EP-1"], true).await;
    client.server.end_subscriptions();
    let last = client.read_line().await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&stream_id, &json!("complete")));
}
