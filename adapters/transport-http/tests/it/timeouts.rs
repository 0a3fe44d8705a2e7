//! Time limits: slow peers are disconnected and delay no other client.

use std::time::Duration;

use reqlore_transport_http::HttpLimits;
use serde_json::json;

use crate::test_client::TestRequest;
use crate::test_server::{TestServer, ada_token, call_with, valid_request};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(600);

/// Limits so long that only the one that a test shortens applies.
fn long_limits() -> HttpLimits {
    HttpLimits {
        header_timeout: LONG,
        body_timeout: LONG,
        idle_timeout: LONG,
        unread_timeout: LONG,
        ..HttpLimits::default()
    }
}

// Catalogue 105
#[tokio::test]
async fn late_headers_close_connection() {
    let server = TestServer::with(HttpLimits { header_timeout: SHORT, ..long_limits() });
    let part = b"POST /api/v1/mcp HTTP/1.1\r\nHost: 127";
    for begun in [b"".as_slice(), b"P", part] {
        let mut connection = server.connect().await;
        connection.write(begun).await;
        assert!(connection.read_response().await.is_none());
    }
    // The same on a connection that already served a request.
    let mut connection = server.connect().await;
    assert_eq!(connection.request(&valid_request()).await.status, 200);
    connection.write(part).await;
    assert!(connection.read_response().await.is_none());
    // Sending single bytes does not extend the time.
    let mut connection = server.connect().await;
    let mut sent = 0;
    while connection.is_open().await {
        connection.write(b"x").await;
        sent += 1;
        assert!(sent < 1_000_000);
    }
    server.assert_serves().await;
}

#[tokio::test]
async fn call_may_exceed_header_time() {
    let server = TestServer::with(HttpLimits {
        header_timeout: SHORT,
        idle_timeout: SHORT,
        ..long_limits()
    });
    let mut waiting =
        server.send(&TestRequest::post(crate::test_server::call("wait")).token(&ada_token())).await;
    server.wait_started(1).await;
    let mut other = server.connect().await;
    assert!(other.read_response().await.is_none(), "the header time has passed");
    server.stub.gate.add_permits(1);
    assert_eq!(waiting.read_response().await.unwrap().status, 200);
}

#[tokio::test]
async fn idle_connection_has_separate_time_limit() {
    let server = TestServer::with(HttpLimits { idle_timeout: SHORT, ..long_limits() });
    let mut connection = server.connect().await;
    assert_eq!(connection.request(&valid_request()).await.status, 200);
    assert!(connection.read_response().await.is_none());
    let server = TestServer::with(HttpLimits { header_timeout: SHORT, ..long_limits() });
    let mut idle = server.connect().await;
    assert_eq!(idle.request(&valid_request()).await.status, 200);
    let mut slow = server.connect().await;
    assert!(slow.read_response().await.is_none(), "the header time has passed");
    assert_eq!(idle.request(&valid_request()).await.status, 200);
}

// Catalogue 105
#[tokio::test]
async fn late_body_closes_connection() {
    let server = TestServer::with(HttpLimits { body_timeout: SHORT, ..long_limits() });
    let request = TestRequest::post("").token(&ada_token()).header("Content-Length", "1000");
    let mut connection = server.send(&request).await;
    connection.write(b"{\"jsonrpc\"").await;
    assert_eq!(connection.read_response().await.unwrap().error_code(), (408, -32600));
    assert!(connection.read_response().await.is_none());
    server.assert_serves().await;
}

// Catalogue 105
#[tokio::test]
async fn unread_response_closes_connection() {
    // More than the buffers of both sockets take.
    const BYTES: usize = 48 * 1024 * 1024;
    let server =
        TestServer::with(HttpLimits { unread_timeout: SHORT, connections: 1, ..long_limits() });
    let big = TestRequest::post(call_with("big", &json!({ "bytes": BYTES }))).token(&ada_token());
    let mut never = server.send(&big).await;
    // A connection without a response that waits for its reader is idle, and may be replaced.
    assert!(never.receive(1).await > 1);
    // The only connection permit becomes free when the server disconnects the slow reader.
    loop {
        let mut other = server.send(&valid_request()).await;
        if other.read_response().await.is_some() {
            break;
        }
    }
    assert!(never.wait_until_closed().await < BYTES, "the rest was not sent");
}

// Catalogue 105
#[tokio::test]
async fn slow_peers_delay_no_other_client() {
    let server = TestServer::with(HttpLimits { connections_per_address: 256, ..long_limits() });
    let mut slow = Vec::new();
    for n in 0..200 {
        let mut connection = server.connect().await;
        match n % 3 {
            0 => connection.write(b"POST /api/v1/mcp HTTP/1.1\r\nHost: 127").await,
            1 => {
                let request =
                    TestRequest::post("{").token(&ada_token()).header("Content-Length", "1000");
                connection.write(&request.bytes()).await;
            }
            _ => {
                let big = call_with("big", &json!({ "bytes": 20_000 }));
                connection.write(&TestRequest::post(big).token(&ada_token()).bytes()).await;
            }
        }
        slow.push(connection);
    }
    for _ in 0..20 {
        server.assert_serves().await;
    }
    assert_eq!(slow.len(), 200);
}
