//! Limits of rates, concurrency, bodies, connections and subscriptions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqlore_domain::identity::{Role, TokenError};
use reqlore_transport_http::{Limits, Rate};
use serde_json::json;

use crate::client::{Ask, Connection};
use crate::messages::modern;
use crate::server::{Server, ada, bob, call, call_with, good, who};

fn waiting(token: &str) -> Ask {
    Ask::post(call("wait")).token(token)
}

fn listen() -> Ask {
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["epic://1"] } });
    modern("subscriptions/listen", wanted)
}

// S5: 4.7; catalogue 106
#[tokio::test]
async fn each_token_has_a_rate_of_its_own() {
    let requests = Some(Rate { every: Duration::from_secs(3600), burst: 3 });
    let server = Server::with(Limits { requests, ..Limits::default() });
    for _ in 0..3 {
        assert_eq!(server.status(&good()).await, 200);
    }
    let answer = server.ask(&good()).await;
    assert_eq!(answer.refusal(), (429, -32013));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    assert_eq!(server.status(&who().token(&bob())).await, 200);
    assert_eq!(server.count(|counters| &counters.rate_limited), 1);
}

/// The first answer on any of these connections, which is removed.
async fn first_answer(connections: &mut Vec<Connection>) -> crate::client::Answer {
    loop {
        for at in 0..connections.len() {
            tokio::select! {
                biased;
                answer = connections[at].answer() => {
                    connections.remove(at);
                    return answer.unwrap();
                }
                () = tokio::task::yield_now() => {}
            }
        }
    }
}

// Catalogue 106
#[tokio::test]
async fn requests_beyond_the_concurrency_wait_and_beyond_the_queue_are_refused() {
    let limits = Limits { in_flight_per_token: 2, in_flight: 3, queue: 2, ..Limits::default() };
    let server = Server::with(limits);
    let mut running = Vec::new();
    for token in [ada(), ada(), bob()] {
        running.push(server.begin(&waiting(&token)).await);
        server.begun(1).await;
    }
    assert_eq!(server.in_flight(), 3);
    // The last of these to arrive is refused; none of them runs.
    let mut late = Vec::new();
    for token in [ada(), ada(), bob()] {
        late.push(server.begin(&waiting(&token)).await);
    }
    let answer = first_answer(&mut late).await;
    assert_eq!(answer.refusal(), (503, -32015));
    assert_eq!(answer.json()["id"], 7, "its body was read");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(server.called(), 3);
    server.stub.gate.add_permits(5);
    for mut connection in running.into_iter().chain(late) {
        assert_eq!(connection.answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn calls_of_one_token_delay_no_other_token() {
    let server = Server::with(Limits { in_flight_per_token: 2, in_flight: 3, ..Limits::default() });
    let mut all = Vec::new();
    for _ in 0..10 {
        all.push(server.begin(&waiting(&ada())).await);
    }
    server.begun(2).await;
    assert_eq!(server.status(&who().token(&bob())).await, 200);
    server.stub.gate.add_permits(10);
    for mut connection in all {
        assert_eq!(connection.answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn started_call_finishes_after_its_time_limit_and_without_its_client() {
    let request_time = Duration::from_millis(50);
    let server = Server::with(Limits { request_time, ..Limits::default() });
    let answer = server.ask(&waiting(&ada())).await;
    assert_eq!(answer.refusal(), (503, -32015));
    assert_eq!(answer.json()["id"], 7, "its body was read");
    assert!(answer.header("retry-after").is_some());
    answer.correlation_id();
    assert_eq!(server.in_flight(), 1, "it still runs and holds its permit");
    server.finish_calls(1).await;
    assert_eq!(server.stub.ended.load(Ordering::SeqCst), 1);

    let server = Server::start();
    let connection = server.begin(&waiting(&ada())).await;
    server.begun(1).await;
    drop(connection);
    while server.connections() > 0 {
        tokio::task::yield_now().await;
    }
    server.finish_calls(1).await;
    assert_eq!(server.stub.ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn body_beyond_the_limit_is_refused() {
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
                assert_eq!(answer.refusal(), (413, -32600), "{size}");
                assert_eq!(answer.header("connection"), Some("close"));
            }
        }
    }
    let announced = Ask::post("").token(&ada()).header("Content-Length", "99999999999");
    assert_eq!(server.status(&announced).await, 413, "not read at all");
    server.lives().await;
}

#[tokio::test]
async fn large_bodies_of_one_token_delay_no_other_token() {
    const LIMIT: usize = 100_000;
    let body_time = Duration::from_millis(300);
    let limits = Limits { body: LIMIT, bodies: 4 * LIMIT, body_time, ..Limits::default() };
    let server = Server::with(limits);
    let large = |tool| Ask::post(call_with(tool, &json!({ "x": "y".repeat(LIMIT - 1_000) })));
    let mut running = server.begin(&large("wait").token(&ada())).await;
    server.begun(1).await;
    assert_eq!(server.refusal(&large("who").token(&ada())).await, (503, -32015), "her share");
    assert_eq!(server.status(&large("who").token(&bob())).await, 200);
    server.stub.gate.add_permits(1);
    assert_eq!(running.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn invalid_chunks_are_refused() {
    let server = Server::start();
    for chunks in ["fffffffffffffffff1\r\nx\r\n0\r\n\r\n", "x\r\n\r\n", "-1\r\n\r\n"] {
        let ask = Ask::post(chunks).token(&ada()).header("Transfer-Encoding", "chunked");
        assert_eq!(server.refusal(&ask).await, (400, -32600), "{chunks}");
    }
    server.lives().await;
}

#[tokio::test]
async fn connections_are_limited_in_total_and_by_address() {
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
async fn subscriptions_outlive_the_request_time_and_have_their_own_limit() {
    let request_time = Duration::from_millis(50);
    let limits =
        Limits { request_time, listens_per_token: 2, in_flight_per_token: 1, ..Limits::default() };
    let server = Server::with(limits);
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut connection = server.begin(&listen()).await;
        let (status, headers) = connection.head().await.unwrap();
        assert_eq!(status, 200);
        assert!(headers.iter().any(|(_, value)| value == "text/event-stream"), "{headers:?}");
        assert!(headers.iter().any(|(name, _)| name == "x-request-id"), "{headers:?}");
        assert!(connection.chunk().await.unwrap().contains("acknowledged"));
        open.push(connection);
    }
    assert_eq!(server.refusal(&listen()).await, (429, -32013));
    // It outlives a request that takes its whole time, and holds no permit of those.
    assert_eq!(server.status(&waiting(&ada())).await, 503);
    server.finish_calls(1).await;
    server.lives().await;
    drop(open.pop());
    loop {
        let mut another = server.begin(&listen()).await;
        if another.head().await.unwrap().0 == 200 {
            break;
        }
    }
    server.ending.finish.cancel();
    let mut last = String::new();
    while let Some(chunk) = open[0].chunk().await {
        last = chunk;
    }
    assert!(last.contains("result"), "{last}");
    server.running.await.unwrap().unwrap();
}

// S5: 4.6
#[tokio::test]
async fn subscription_ends_with_the_rights_of_its_token() {
    let server = Server::start();
    for change in [Err(TokenError::Revoked), Ok(Role::User)] {
        server.tokens.set(&ada(), Ok(Role::Administrator));
        let mut open = server.begin(&listen()).await;
        assert_eq!(open.head().await.unwrap().0, 200);
        assert!(open.chunk().await.unwrap().contains("acknowledged"));
        server.tokens.set(&ada(), change);
        while open.chunk().await.is_some() {}
    }
}
