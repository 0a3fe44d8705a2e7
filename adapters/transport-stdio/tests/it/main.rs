//! Subscriptions over lines: they delay no request, end with the input, and are bounded.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::sync::{Arc, Weak};
use std::time::Duration;

use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::test_support::{StubService, rendered_answer};
use reqlore_mcp::shutdown::Shutdown;
use reqlore_transport_stdio::{StdioLimits, StdioTransport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A service with resources `epic://0` and so on of this size, and a tool that changes them.
fn stub(count: usize, bytes: usize) -> Arc<StubService> {
    slow_stub(count, bytes, Duration::ZERO)
}

/// The same service with reads that take this long.
fn slow_stub(count: usize, bytes: usize, time: Duration) -> Arc<StubService> {
    Arc::new_cyclic(|stub: &Weak<StubService>| {
        let changed = stub.clone();
        let service = StubService::default().with_tools(&["write"]).on_call(move |_| {
            changed.upgrade().unwrap().touch_all();
            Box::pin(async { Ok(rendered_answer()) })
        });
        for number in 0..count {
            service.set(&number.to_string(), &"x".repeat(bytes));
        }
        service.before_read(move || Box::pin(tokio::time::sleep(time)))
    })
}

struct Client {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    served: JoinHandle<std::io::Result<()>>,
    shutdown: Shutdown,
}

impl Client {
    /// `buffer` is the size of the pipe in bytes.
    fn new(stub: &Arc<StubService>, buffer: usize) -> Self {
        let (ours, theirs) = tokio::io::duplex(buffer);
        let caller = Caller::local("me", Access::Write);
        let shutdown = Shutdown::default();
        let stdio = StdioTransport {
            shutdown: shutdown.clone(),
            ..StdioTransport::new(caller, StdioLimits::default())
        };
        let (read, write) = tokio::io::split(theirs);
        let served = tokio::spawn(stdio.serve_on(read, write, stub.clone()));
        let (read, write) = tokio::io::split(ours);
        Self { read: BufReader::new(read), write, served, shutdown }
    }

    async fn send(&mut self, id: usize, method: &str, params: Value) {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn read_line(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn listen(&mut self, id: usize, uris: &[&str]) {
        let params = json!({
            "notifications": { "resourceSubscriptions": uris },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        });
        self.send(id, "subscriptions/listen", params).await;
        assert_eq!(self.read_line().await["method"], "notifications/subscriptions/acknowledged");
    }
}

/// Time of the paused clock, which advances only while all tasks wait.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn subscription_delays_no_write_and_ends_with_input() {
    for signalled in [false, true] {
        let stub = stub(1, 10);
        let mut client = Client::new(&stub, 4096);
        client.listen(1, &["epic://0"]).await;
        client.send(2, "tools/call", json!({ "name": "write" })).await;
        assert_eq!(timeout(SOON, client.read_line()).await.unwrap()["id"], 2);
        let notified = client.read_line().await;
        assert_eq!(notified["params"]["uri"], "epic://0", "{notified}");
        if signalled {
            client.shutdown.finish.cancel();
        } else {
            client.write.shutdown().await.unwrap();
        }
        let last = timeout(SOON, client.read_line()).await.unwrap();
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(1), &json!("complete")));
        timeout(SOON, client.served).await.unwrap().unwrap().unwrap();
        assert_eq!(Arc::strong_count(&stub), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn broken_line_is_answered_with_an_id_before_the_fault() {
    let mut client = Client::new(&stub(0, 0), 64 * 1024);
    let filler = "y".repeat(StdioLimits::default().line_bytes);
    let deep = "[".repeat(65);
    for (line, id, words) in [
        (format!(r#"{{"id":1,"method":"ping","params":{{"x":"{filler}"}}}}"#), json!(1), "longer"),
        (format!(r#"{{"params":{{"id":1,"x":"{filler}"}},"id":2}}"#), Value::Null, "longer"),
        (format!(r#"[{{"id":1,"params":{{"x":"{filler}"}}}}]"#), Value::Null, "longer"),
        (format!(r#"{{"id":"a","params":{deep}"#), json!("a"), "nested deeper than 64 levels"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":{"#.to_owned(), json!(3), "Parse"),
        (r#"[{"jsonrpc":"2.0","id":3,"method":"ping"},{"#.to_owned(), Value::Null, "Parse"),
    ] {
        // Together, because the pipe is smaller than a long line.
        let line = format!("{line}\n");
        let (sent, answer) = tokio::join!(client.write.write_all(line.as_bytes()), async {
            let mut answer = String::new();
            client.read.read_line(&mut answer).await.unwrap();
            serde_json::from_str::<Value>(&answer).unwrap()
        });
        sent.unwrap();
        assert_eq!(answer.get("id"), Some(&id), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn lone_surrogate_is_replaced_and_noted_in_the_answer() {
    let mut client = Client::new(&stub(0, 0), 4096);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"x":"\ud800"}}}"#;
    client.write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    let answer = client.read_line().await;
    assert_eq!(answer["id"], 1);
    assert!(answer.to_string().contains("Note: The request had lone surrogates"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn subscription_before_write_is_notified_of_it() {
    let stub = stub(1, 10);
    let mut client = Client::new(&stub, 4096);
    client.send(1, "resources/subscribe", json!({ "uri": "epic://0" })).await;
    client.send(2, "tools/call", json!({ "name": "write" })).await;
    assert_eq!(client.read_line().await["id"], 1);
    assert_eq!(client.read_line().await["id"], 2);
    assert_eq!(client.read_line().await["method"], "notifications/resources/updated");
}

#[tokio::test(start_paused = true)]
async fn immediate_unsubscribe_stops_notifications() {
    let stub = slow_stub(1, 10, SOON);
    let mut client = Client::new(&stub, 4096);
    client.send(1, "resources/subscribe", json!({ "uri": "epic://0" })).await;
    client.send(2, "resources/unsubscribe", json!({ "uri": "epic://0" })).await;
    assert_eq!(client.read_line().await["id"], 1);
    assert_eq!(client.read_line().await["id"], 2);
    stub.touch_all();
    assert!(timeout(100 * SOON, client.read_line()).await.is_err(), "no notification");
}

#[tokio::test(start_paused = true)]
async fn changes_are_merged_while_client_does_not_read() {
    const URIS: usize = 50;
    let stub = stub(URIS, 10);
    let mut client = Client::new(&stub, 1024);
    for n in 0..URIS {
        client.send(n, "resources/subscribe", json!({ "uri": format!("epic://{n}") })).await;
        assert_eq!(client.read_line().await["id"], n);
    }
    for _ in 0..100 {
        stub.touch_all();
        tokio::time::sleep(SOON).await;
    }
    let mut notified = 0;
    while let Ok(line) = timeout(SOON, client.read_line()).await {
        assert_eq!(line["method"], "notifications/resources/updated");
        notified += 1;
    }
    assert!((URIS..=2 * URIS).contains(&notified), "{notified}");
}

#[tokio::test(start_paused = true)]
async fn parallel_lines_are_whole() {
    let stub = stub(3, 20_000);
    let mut client = Client::new(&stub, 512);
    client.send(0, "resources/subscribe", json!({ "uri": "epic://0" })).await;
    client.read_line().await;
    let (mut answered, mut notified) = (0, 0);
    for round in 0..10 {
        for n in 1..=3 {
            let params = json!({ "uri": format!("epic://{}", n - 1) });
            client.send(10 * round + n, "resources/read", params).await;
        }
        stub.touch_all();
        tokio::time::sleep(SOON).await;
        while let Ok(line) = timeout(SOON, client.read_line()).await {
            match line.get("id") {
                Some(_) => answered += 1,
                None => notified += 1,
            }
        }
    }
    assert_eq!((answered, notified), (30, 10));
}
