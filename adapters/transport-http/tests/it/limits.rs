//! Limits of rates, concurrency, bodies, connections and subscriptions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqlore_domain::identity::{TokenError, UserRole};
use reqlore_transport_http::{HttpLimits, RateLimit};
use serde_json::{Value, json};

use crate::messages::modern;
use crate::test_client::{TestConnection, TestRequest};
use crate::test_server::{
    CapturedLog, TestServer, ada_token, bob_token, call, call_with, request_without_token,
    valid_request,
};

pub(crate) fn waiting_call(token: &str) -> TestRequest {
    TestRequest::post(call("wait")).token(token)
}

pub(crate) fn listen_request() -> TestRequest {
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["epic://1"] } });
    modern("subscriptions/listen", wanted)
}

// S5: 4.7; catalogue 106
#[tokio::test]
async fn each_token_has_separate_rate() {
    let requests = Some(RateLimit { every: Duration::from_secs(3600), burst: 3 });
    let server = TestServer::with(HttpLimits { request_rate: requests, ..HttpLimits::default() });
    for _ in 0..3 {
        assert_eq!(server.status(&valid_request()).await, 200);
    }
    let response = server.request(&valid_request()).await;
    assert_eq!(response.error_code(), (429, -32013));
    let seconds: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    assert_eq!(server.status(&request_without_token().token(&bob_token())).await, 200);
    assert_eq!(server.count(|counters| &counters.rate_limited), 1);
}

// A batch would turn one request into 50 lines.
#[tokio::test]
async fn calls_over_the_rate_write_limited_log_lines() {
    let log = CapturedLog::capture();
    let requests = Some(RateLimit { every: Duration::from_secs(3600), burst: 2 });
    let server = TestServer::with(HttpLimits { request_rate: requests, ..HttpLimits::default() });
    let members = vec![call("who"); 50].join(",");
    let batch = TestRequest::post(format!("[{members}]")).token(&ada_token());
    assert_eq!(server.status(&batch).await, 200);
    for _ in 0..200 {
        assert_eq!(server.status(&valid_request()).await, 429);
    }
    let text = log.text();
    assert_eq!(text.matches("request failed").count(), 100);
}

/// Returns the first response on any of these connections and removes its connection.
async fn first_response(connections: &mut Vec<TestConnection>) -> crate::test_client::TestResponse {
    loop {
        for at in 0..connections.len() {
            tokio::select! {
                biased;
                response = connections[at].read_response() => {
                    connections.remove(at);
                    return response.unwrap();
                }
                () = tokio::task::yield_now() => {}
            }
        }
    }
}

// Catalogue 106
#[tokio::test]
async fn request_beyond_concurrency_waits_and_beyond_queue_gets_503() {
    let limits =
        HttpLimits { in_flight_per_token: 2, in_flight: 3, queue: 2, ..HttpLimits::default() };
    let server = TestServer::with(limits);
    let mut running = Vec::new();
    for token in [ada_token(), ada_token(), bob_token()] {
        running.push(server.send(&waiting_call(&token)).await);
        server.wait_started(1).await;
    }
    assert_eq!(server.in_flight(), 3);
    // The last one to arrive is rejected; none of them runs.
    let mut late = Vec::new();
    for token in [ada_token(), ada_token(), bob_token()] {
        late.push(server.send(&waiting_call(&token)).await);
    }
    let response = first_response(&mut late).await;
    assert_eq!(response.error_code(), (503, -32015));
    assert_eq!(response.json()["id"], 7, "its body was read");
    assert!(response.header("retry-after").is_some());
    assert_eq!(server.calls(), 3);
    server.stub.gate.add_permits(5);
    for mut connection in running.into_iter().chain(late) {
        assert_eq!(connection.read_response().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn calls_of_one_token_delay_no_other_token() {
    let server = TestServer::with(HttpLimits {
        in_flight_per_token: 2,
        in_flight: 3,
        ..HttpLimits::default()
    });
    let mut all = Vec::new();
    for _ in 0..10 {
        all.push(server.send(&waiting_call(&ada_token())).await);
    }
    server.wait_started(2).await;
    assert_eq!(server.status(&request_without_token().token(&bob_token())).await, 200);
    server.stub.gate.add_permits(10);
    for mut connection in all {
        assert_eq!(connection.read_response().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn started_call_finishes_after_timeout_and_disconnect() {
    let request_time = Duration::from_millis(50);
    let server =
        TestServer::with(HttpLimits { request_timeout: request_time, ..HttpLimits::default() });
    let response = server.request(&waiting_call(&ada_token())).await;
    assert_eq!(response.error_code(), (503, -32015));
    assert_eq!(response.json()["id"], 7, "its body was read");
    assert!(response.header("retry-after").is_some());
    response.correlation_id();
    assert_eq!(server.in_flight(), 1, "it still runs and holds its permit");
    server.finish_calls(1).await;
    assert_eq!(server.stub.finished.load(Ordering::SeqCst), 1);

    let server = TestServer::start();
    let connection = server.send(&waiting_call(&ada_token())).await;
    server.wait_started(1).await;
    drop(connection);
    while server.connections() > 0 {
        tokio::task::yield_now().await;
    }
    server.finish_calls(1).await;
    assert_eq!(server.stub.finished.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn body_beyond_limit_gets_413() {
    const LIMIT: usize = 100_000;
    let server = TestServer::with(HttpLimits { body_bytes: LIMIT, ..HttpLimits::default() });
    let empty = call_with("who", &json!({ "x": "" })).len();
    for size in [LIMIT - 1, LIMIT, LIMIT + 1] {
        let body = call_with("who", &json!({ "x": "y".repeat(size - empty) }));
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        let whole = TestRequest::post(body).token(&ada_token());
        let chunked =
            TestRequest::post(chunks).token(&ada_token()).header("Transfer-Encoding", "chunked");
        for request in [whole, chunked] {
            let response = server.request(&request).await;
            if size <= LIMIT {
                assert_eq!(response.status, 200, "{size}");
            } else {
                assert_eq!(response.error_code(), (413, -32600), "{size}");
                assert_eq!(response.header("connection"), Some("close"));
            }
        }
    }
    let announced =
        TestRequest::post("").token(&ada_token()).header("Content-Length", "99999999999");
    assert_eq!(server.status(&announced).await, 413, "not read at all");
    server.assert_serves().await;
}

#[tokio::test]
async fn body_beyond_limit_is_answered_with_an_id_of_its_start() {
    let server = TestServer::with(HttpLimits { body_bytes: 1_000, ..HttpLimits::default() });
    let filler = "y".repeat(1_000);
    for (body, id) in [
        (format!(r#"{{"jsonrpc":"2.0","id":7,"params":{{"x":"{filler}"}}}}"#), json!(7)),
        (format!(r#"{{"jsonrpc":"2.0","params":{{"id":8,"x":"{filler}"}},"id":7}}"#), Value::Null),
        (format!(r#"[{{"jsonrpc":"2.0","id":7,"params":{{"x":"{filler}"}}}}]"#), Value::Null),
    ] {
        let (first, rest) = body.split_at(500);
        let chunks =
            format!("{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", first.len(), rest.len());
        let chunked = TestRequest::post(chunks).header("Transfer-Encoding", "chunked");
        for request in [TestRequest::post(body), chunked] {
            let response = server.request(&request.token(&ada_token())).await;
            assert_eq!(response.error_code(), (413, -32600), "{response:?}");
            assert_eq!(response.json().get("id"), Some(&id), "{response:?}");
        }
    }
}

#[tokio::test]
async fn large_bodies_of_one_token_delay_no_other_token() {
    const LIMIT: usize = 100_000;
    let body_time = Duration::from_millis(300);
    let limits = HttpLimits {
        body_bytes: LIMIT,
        total_body_bytes: 4 * LIMIT,
        body_timeout: body_time,
        ..HttpLimits::default()
    };
    let server = TestServer::with(limits);
    let large =
        |tool| TestRequest::post(call_with(tool, &json!({ "x": "y".repeat(LIMIT - 1_000) })));
    let mut running = server.send(&large("wait").token(&ada_token())).await;
    server.wait_started(1).await;
    assert_eq!(
        server.error_code(&large("who").token(&ada_token())).await,
        (503, -32015),
        "her share"
    );
    assert_eq!(server.status(&large("who").token(&bob_token())).await, 200);
    server.stub.gate.add_permits(1);
    assert_eq!(running.read_response().await.unwrap().status, 200);
}

#[tokio::test]
async fn invalid_chunks_get_400() {
    let server = TestServer::start();
    for chunks in ["fffffffffffffffff1\r\nx\r\n0\r\n\r\n", "x\r\n\r\n", "-1\r\n\r\n"] {
        let request =
            TestRequest::post(chunks).token(&ada_token()).header("Transfer-Encoding", "chunked");
        assert_eq!(server.error_code(&request).await, (400, -32600), "{chunks}");
    }
    server.assert_serves().await;
}

#[tokio::test]
async fn subscription_outlives_request_time_and_has_own_limit() {
    let request_time = Duration::from_millis(50);
    let limits = HttpLimits {
        request_timeout: request_time,
        subscriptions_per_token: 2,
        in_flight_per_token: 1,
        ..HttpLimits::default()
    };
    let server = TestServer::with(limits);
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut connection = server.send(&listen_request()).await;
        let (status, headers) = connection.read_head().await.unwrap();
        assert_eq!(status, 200);
        assert!(headers.iter().any(|(_, value)| value == "text/event-stream"), "{headers:?}");
        assert!(headers.iter().any(|(name, _)| name == "x-request-id"), "{headers:?}");
        assert!(connection.read_chunk().await.unwrap().contains("acknowledged"));
        open.push(connection);
    }
    assert_eq!(server.error_code(&listen_request()).await, (429, -32013));
    // It outlives a request that reaches its time limit, and holds no permit to run.
    assert_eq!(server.status(&waiting_call(&ada_token())).await, 503);
    server.finish_calls(1).await;
    server.assert_serves().await;
    drop(open.pop());
    loop {
        let mut another = server.send(&listen_request()).await;
        if another.read_head().await.unwrap().0 == 200 {
            break;
        }
    }
    server.shutdown.finish.cancel();
    let mut last = String::new();
    while let Some(chunk) = open[0].read_chunk().await {
        last = chunk;
    }
    assert!(last.contains("result"), "{last}");
    server.running.await.unwrap().unwrap();
}

// S5: 4.6
#[tokio::test]
async fn subscription_ends_when_its_token_loses_rights() {
    let server = TestServer::start();
    for change in [Err(TokenError::Revoked), Ok(UserRole::User)] {
        server.tokens.set(&ada_token(), Ok(UserRole::Administrator));
        let mut open = server.send(&listen_request()).await;
        assert_eq!(open.read_head().await.unwrap().0, 200);
        assert!(open.read_chunk().await.unwrap().contains("acknowledged"));
        server.tokens.set(&ada_token(), change);
        while open.read_chunk().await.is_some() {}
    }
}

// A change is found 0.1 s after it was made, and a revocation up to a second later.
#[tokio::test]
async fn stream_of_a_revoked_token_delivers_nothing() {
    let server = TestServer::start();
    for change in [TokenError::Revoked, TokenError::Expired, TokenError::Disabled] {
        server.tokens.set(&ada_token(), Ok(UserRole::Administrator));
        let mut open = server.send(&listen_request()).await;
        assert_eq!(open.read_head().await.unwrap().0, 200);
        assert!(open.read_chunk().await.unwrap().contains("acknowledged"));
        server.service.touch_all();
        assert!(open.read_chunk().await.unwrap().contains("updated"), "a valid token");
        server.tokens.set(&ada_token(), Err(change));
        server.service.touch_all();
        while let Some(chunk) = open.read_chunk().await {
            assert!(!chunk.contains("updated"), "{change:?}: {chunk}");
        }
    }
}

#[tokio::test]
async fn client_that_sends_a_whole_large_body_reads_the_413() {
    let server = TestServer::with(HttpLimits { body_bytes: 1_000, ..HttpLimits::default() });
    // Larger than all socket buffers, so it is sent only while the server reads.
    let body = "x".repeat(16 * 1024 * 1024);
    let request = TestRequest::post(body).token(&ada_token());
    assert_eq!(server.error_code(&request).await, (413, -32600));
}
