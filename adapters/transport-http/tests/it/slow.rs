//! Slow peers: they are closed, and no other client waits.

use std::time::Duration;

use reqlore_transport_http::Limits;
use serde_json::json;

use crate::client::Ask;
use crate::server::{Server, ada, call_with, good};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(600);

/// No limit but the one that a test shortens.
fn patient() -> Limits {
    Limits { header_time: LONG, body_time: LONG, idle: LONG, unread: LONG, ..Limits::default() }
}

// Catalogue 105
#[tokio::test]
async fn late_headers_close_the_connection() {
    let server = Server::with(Limits { header_time: SHORT, ..patient() });
    let part = b"POST /api/v1/mcp HTTP/1.1\r\nHost: 127";
    for begun in [b"".as_slice(), b"P", part] {
        let mut connection = server.connect().await;
        connection.write(begun).await;
        assert!(connection.answer().await.is_none());
    }
    // The same on a connection that was good before.
    let mut connection = server.connect().await;
    assert_eq!(connection.ask(&good()).await.status, 200);
    connection.write(part).await;
    assert!(connection.answer().await.is_none());
    // A byte now and then is no way out.
    let mut connection = server.connect().await;
    let mut sent = 0;
    while connection.is_open().await {
        connection.write(b"x").await;
        sent += 1;
        assert!(sent < 1_000_000);
    }
    server.lives().await;
}

#[tokio::test]
async fn call_may_take_longer_than_headers() {
    let server = Server::with(Limits { header_time: SHORT, idle: SHORT, ..patient() });
    let mut waiting = server.begin(&Ask::post(crate::server::call("wait")).token(&ada())).await;
    server.begun(1).await;
    let mut other = server.connect().await;
    assert!(other.answer().await.is_none(), "the time is over");
    server.stub.gate.add_permits(1);
    assert_eq!(waiting.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn idle_connections_have_a_time_limit_of_their_own() {
    let server = Server::with(Limits { idle: SHORT, ..patient() });
    let mut connection = server.connect().await;
    assert_eq!(connection.ask(&good()).await.status, 200);
    assert!(connection.answer().await.is_none());
    let server = Server::with(Limits { header_time: SHORT, ..patient() });
    let mut idle = server.connect().await;
    assert_eq!(idle.ask(&good()).await.status, 200);
    let mut slow = server.connect().await;
    assert!(slow.answer().await.is_none(), "the headers' time is over");
    assert_eq!(idle.ask(&good()).await.status, 200);
}

// Catalogue 105
#[tokio::test]
async fn late_body_closes_the_connection() {
    let server = Server::with(Limits { body_time: SHORT, ..patient() });
    let ask = Ask::post("").token(&ada()).header("Content-Length", "1000");
    let mut connection = server.begin(&ask).await;
    connection.write(b"{\"jsonrpc\"").await;
    assert_eq!(connection.answer().await.unwrap().refusal(), (408, -32600));
    assert!(connection.answer().await.is_none());
    server.lives().await;
}

// Catalogue 105
#[tokio::test]
async fn unread_response_closes_the_connection() {
    const BYTES: usize = 12 * 1024 * 1024;
    let server = Server::with(Limits { unread: SHORT, connections: 1, ..patient() });
    let big = Ask::post(call_with("big", &json!({ "bytes": BYTES }))).token(&ada());
    let mut never = server.begin(&big).await;
    // There is one permit, which is free when the server gives up.
    loop {
        let mut other = server.begin(&good()).await;
        if other.answer().await.is_some() {
            break;
        }
    }
    assert!(never.closed().await < BYTES, "the rest was not sent");
}

// Catalogue 105
#[tokio::test]
async fn two_hundred_slow_peers_delay_no_other_client() {
    let server = Server::with(Limits { connections_per_address: 256, ..patient() });
    let mut slow = Vec::new();
    for n in 0..200 {
        let mut connection = server.connect().await;
        match n % 3 {
            0 => connection.write(b"POST /api/v1/mcp HTTP/1.1\r\nHost: 127").await,
            1 => {
                let ask = Ask::post("{").token(&ada()).header("Content-Length", "1000");
                connection.write(&ask.bytes()).await;
            }
            _ => {
                let big = call_with("big", &json!({ "bytes": 20_000 }));
                connection.write(&Ask::post(big).token(&ada()).bytes()).await;
            }
        }
        slow.push(connection);
    }
    for _ in 0..20 {
        server.lives().await;
    }
    assert_eq!(slow.len(), 200);
}
