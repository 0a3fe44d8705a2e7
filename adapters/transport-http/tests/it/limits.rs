//! How much of everything there is, and what those are told who come too late.

use std::time::Duration;

use reqlore_domain::identity::{Role, TokenError};
use reqlore_transport_http::{Limits, Rate};
use serde_json::json;

use crate::client::Ask;
use crate::messages::modern;
use crate::server::{Server, ada, bob, call, call_with, good};

fn waiting(token: &str) -> Ask {
    Ask::post(call("wait")).token(token)
}

// S5: 4.7; catalogue 106
#[tokio::test]
async fn each_token_has_a_rate_of_its_own() {
    let hour = Duration::from_secs(3600);
    let requests = Some(Rate { every: hour, burst: 3 });
    let server = Server::with(Limits { requests, ..Limits::default() });
    for _ in 0..3 {
        assert_eq!(server.ask(&good()).await.status, 200);
    }
    let answer = server.ask(&good()).await;
    assert_eq!((answer.status, answer.code()), (429, -32013));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    assert_eq!(server.ask(&Ask::post(call("who")).token(&bob())).await.status, 200);
    assert_eq!(server.count(|counters| &counters.rate_limited), 1);
}

// Catalogue 106
#[tokio::test]
async fn what_can_t_run_now_waits_and_what_can_t_wait_is_refused() {
    let limits = Limits { in_flight_per_token: 2, in_flight: 3, queue: 2, ..Limits::default() };
    let server = Server::with(limits);
    let mut all = Vec::new();
    for _ in 0..2 {
        all.push(server.begin(&waiting(&ada())).await);
    }
    server.begun(2).await;
    let bobs = server.begin(&waiting(&bob())).await;
    server.begun(1).await;
    assert_eq!(server.in_flight(), 3);
    // One of these is refused, whichever comes last; none of them runs.
    let mut outcomes = Vec::new();
    let mut late = Vec::new();
    for token in [ada(), ada(), bob()] {
        late.push(server.begin(&waiting(&token)).await);
    }
    let mut refused = None;
    while refused.is_none() {
        for (at, connection) in late.iter_mut().enumerate() {
            tokio::select! {
                biased;
                answer = connection.answer() => refused = Some((at, answer.unwrap())),
                () = tokio::task::yield_now() => {}
            }
            if refused.is_some() {
                break;
            }
        }
    }
    let (at, answer) = refused.unwrap();
    late.remove(at);
    assert_eq!((answer.status, answer.code()), (503, -32015));
    assert_eq!(answer.json()["id"], 7, "its body was read");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(server.stub.called.load(std::sync::atomic::Ordering::SeqCst), 3);
    server.stub.gate.add_permits(5);
    for mut connection in all.into_iter().chain([bobs]).chain(late) {
        outcomes.push(connection.answer().await.unwrap().status);
    }
    assert_eq!(outcomes, [200; 5]);
}

#[tokio::test]
async fn one_tokens_calls_keep_no_other_token_waiting() {
    let server = Server::with(Limits { in_flight_per_token: 2, in_flight: 3, ..Limits::default() });
    let mut all = Vec::new();
    for _ in 0..10 {
        all.push(server.begin(&waiting(&ada())).await);
    }
    server.begun(2).await;
    assert_eq!(server.ask(&Ask::post(call("who")).token(&bob())).await.status, 200);
    server.stub.gate.add_permits(10);
    for mut connection in all {
        assert_eq!(connection.answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn who_waits_too_long_is_told_so_and_what_was_begun_is_finished() {
    let request_time = Duration::from_millis(50);
    let server = Server::with(Limits { request_time, ..Limits::default() });
    let answer = server.ask(&waiting(&ada())).await;
    assert_eq!((answer.status, answer.code()), (503, -32015));
    assert_eq!(answer.json()["id"], 7, "its body was read");
    assert!(answer.header("retry-after").is_some());
    let id = answer.header("x-request-id").unwrap();
    assert_eq!(answer.json()["error"]["data"]["correlation_id"], *id);
    assert_eq!(server.in_flight(), 1, "it still runs and holds its place");
    server.stub.gate.add_permits(1);
    while server.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.stub.ended.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_was_begun_is_finished_when_the_client_goes_away() {
    let server = Server::start();
    let connection = server.begin(&waiting(&ada())).await;
    server.begun(1).await;
    drop(connection);
    while server.connections() > 0 {
        tokio::task::yield_now().await;
    }
    server.stub.gate.add_permits(1);
    while server.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.stub.ended.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_body_has_a_limit() {
    const LIMIT: usize = 100_000;
    let server = Server::with(Limits { body: LIMIT, ..Limits::default() });
    let empty = call_with("who", &json!({ "x": "" })).len();
    for size in [LIMIT - 1, LIMIT, LIMIT + 1] {
        let body = call_with("who", &json!({ "x": "y".repeat(size - empty) }));
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        let whole = Ask::post(body).token(&ada());
        let chunked = Ask::post(chunks).token(&ada()).header("Transfer-Encoding", "chunked");
        for ask in [whole, chunked] {
            let answer = server.ask(&ask).await;
            if size <= LIMIT {
                assert_eq!(answer.status, 200, "{size}");
            } else {
                assert_eq!((answer.status, answer.code()), (413, -32600), "{size}");
                assert_eq!(answer.header("connection"), Some("close"));
            }
        }
    }
    let promised = Ask::post("").token(&ada()).header("Content-Length", "99999999999");
    assert_eq!(server.ask(&promised).await.status, 413, "not read at all");
    server.lives().await;
}

#[tokio::test]
async fn one_tokens_large_bodies_keep_no_other_token_waiting() {
    const LIMIT: usize = 100_000;
    let body_time = Duration::from_millis(300);
    let limits = Limits { body: LIMIT, bodies: 4 * LIMIT, body_time, ..Limits::default() };
    let server = Server::with(limits);
    let large = |tool| call_with(tool, &json!({ "x": "y".repeat(LIMIT - 1_000) }));
    let mut running = server.begin(&Ask::post(large("wait")).token(&ada())).await;
    server.begun(1).await;
    let answer = server.ask(&Ask::post(large("who")).token(&ada())).await;
    assert_eq!((answer.status, answer.code()), (503, -32015), "her share is taken");
    assert_eq!(server.ask(&Ask::post(large("who")).token(&bob())).await.status, 200);
    server.stub.gate.add_permits(1);
    assert_eq!(running.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn chunks_that_are_none_are_the_clients_fault() {
    let server = Server::start();
    for chunks in ["fffffffffffffffff1\r\nx\r\n0\r\n\r\n", "x\r\n\r\n", "-1\r\n\r\n"] {
        let ask = Ask::post(chunks).token(&ada()).header("Transfer-Encoding", "chunked");
        let answer = server.ask(&ask).await;
        assert_eq!((answer.status, answer.code()), (400, -32600), "{chunks}");
    }
    server.lives().await;
}

#[tokio::test]
async fn connections_have_a_limit_and_one_address_has_less() {
    for limits in [
        Limits { connections: 3, ..Limits::default() },
        Limits { connections_per_address: 3, ..Limits::default() },
    ] {
        let server = Server::with(limits);
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut connection = server.connect().await;
            assert_eq!(connection.ask(&good()).await.status, 200);
            open.push(connection);
        }
        let mut fourth = server.begin(&good()).await;
        assert!(fourth.answer().await.is_none());
        assert_eq!(server.count(|counters| &counters.refused_connections), 1);
        assert_eq!(open[0].ask(&good()).await.status, 200);
        drop(open.pop());
        while server.connections() == 3 {
            tokio::task::yield_now().await;
        }
        server.lives().await;
    }
}

#[tokio::test]
async fn subscriptions_stand_beyond_the_time_of_a_request_and_are_counted() {
    let request_time = Duration::from_millis(50);
    let limits =
        Limits { request_time, listens_per_token: 2, in_flight_per_token: 1, ..Limits::default() };
    let server = Server::with(limits);
    let listen = modern(
        "subscriptions/listen",
        json!({ "notifications": { "resourceSubscriptions": ["epic://1"] } }),
    );
    let mut standing = Vec::new();
    for _ in 0..2 {
        let mut connection = server.begin(&listen).await;
        let (status, headers) = connection.head().await.unwrap();
        assert_eq!(status, 200);
        assert!(headers.iter().any(|(_, value)| value == "text/event-stream"), "{headers:?}");
        assert!(headers.iter().any(|(name, _)| name == "x-request-id"), "{headers:?}");
        assert!(connection.chunk().await.unwrap().contains("acknowledged"));
        standing.push(connection);
    }
    let third = server.ask(&listen).await;
    assert_eq!((third.status, third.code()), (429, -32013));
    // It outlives a request that takes its whole time, and holds no place among those.
    assert_eq!(server.ask(&waiting(&ada())).await.status, 503);
    server.stub.gate.add_permits(1);
    while server.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    server.lives().await;
    drop(standing.pop());
    loop {
        let mut again = server.begin(&listen).await;
        if again.head().await.unwrap().0 == 200 {
            break;
        }
    }
    server.ending.finish.cancel();
    let mut last = String::new();
    while let Some(chunk) = standing[0].chunk().await {
        last = chunk;
    }
    assert!(last.contains("result"), "{last}");
    server.running.await.unwrap().unwrap();
}

// S5: 4.6
#[tokio::test]
async fn a_subscription_ends_with_the_rights_that_it_was_opened_with() {
    let server = Server::start();
    let listen = modern(
        "subscriptions/listen",
        json!({ "notifications": { "resourceSubscriptions": ["epic://1"] } }),
    );
    for change in [Err(TokenError::Revoked), Ok(Role::User)] {
        server.tokens.set(&ada(), Ok(Role::Administrator));
        let mut standing = server.begin(&listen).await;
        assert_eq!(standing.head().await.unwrap().0, 200);
        assert!(standing.chunk().await.unwrap().contains("acknowledged"));
        server.tokens.set(&ada(), change);
        while standing.chunk().await.is_some() {}
    }
}

#[tokio::test]
async fn progress_is_told_before_the_answer() {
    let server = Server::start();
    let params = json!({ "name": "who", "arguments": {}, "_meta": { "progressToken": 1 } });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let ask = good().header("Accept", "application/json, text/event-stream");
    let ask = ask.body(body.to_string());
    let answer = server.ask(&ask).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("\"user\":\"ada\""), "{answer:?}");
}
