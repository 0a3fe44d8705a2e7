//! The end: accepted requests are answered, later ones are refused.

use std::time::Duration;

use reqlore_transport_http::Limits;

use crate::client::Ask;
use crate::server::{Server, ada, call, good};

// Catalogue 112
#[tokio::test]
async fn running_requests_are_answered_and_later_ones_refused() {
    let server = Server::with(Limits { in_flight_per_token: 20, ..Limits::default() });
    let mut idle = server.connect().await;
    assert_eq!(idle.ask(&good()).await.status, 200);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(server.begin(&Ask::post(call("wait")).token(&ada())).await);
    }
    server.begun(20).await;
    assert_eq!(server.status(&Ask::get("/readyz")).await, 200);
    server.ending.finish.cancel();
    assert!(idle.answer().await.is_none(), "an idle connection is closed");
    let called = server.called();
    let ready = server.ask(&Ask::get("/readyz")).await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "ending\n"));
    assert_eq!(server.status(&Ask::get("/livez")).await, 200);
    let late = server.ask(&good()).await;
    assert_eq!(late.refusal(), (503, -32015));
    assert!(late.header("retry-after").is_some());
    assert_eq!(server.called(), called);
    assert!(!server.running.is_finished());
    server.stub.gate.add_permits(20);
    for mut connection in waiting {
        assert_eq!(connection.answer().await.unwrap().status, 200);
    }
    server.running.await.unwrap().unwrap();
}

// Catalogue 112
#[tokio::test]
async fn drain_time_and_second_signal_end_waiting_requests() {
    for aborted in [false, true] {
        let drain = if aborted { Duration::from_secs(600) } else { Duration::from_millis(50) };
        let server = Server::with(Limits { drain, ..Limits::default() });
        let mut waiting = server.begin(&Ask::post(call("wait")).token(&ada())).await;
        server.begun(1).await;
        server.ending.finish.cancel();
        if aborted {
            server.ending.abort.cancel();
        }
        server.running.await.unwrap().unwrap();
        let answer = waiting.answer().await;
        assert!(answer.is_none_or(|answer| answer.status == 503));
    }
}

#[tokio::test]
async fn unused_server_ends_at_once() {
    let server = Server::start();
    let _silent = server.connect().await;
    server.lives().await;
    server.ending.finish.cancel();
    server.running.await.unwrap().unwrap();
}
