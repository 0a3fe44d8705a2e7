//! The end: what was accepted is answered, and nothing more is.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqlore_transport_http::Limits;

use crate::client::Ask;
use crate::server::{Server, ada, call, good};

// Catalogue 112
#[tokio::test]
async fn what_runs_is_answered_and_what_comes_later_is_not_run() {
    let server = Server::with(Limits { in_flight_per_token: 20, ..Limits::default() });
    let mut idle = server.connect().await;
    assert_eq!(idle.ask(&good()).await.status, 200);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(server.begin(&Ask::post(call("wait")).token(&ada())).await);
    }
    server.begun(20).await;
    assert_eq!(server.ask(&Ask::get("/readyz")).await.status, 200);
    server.ending.finish.cancel();
    assert!(idle.answer().await.is_none(), "who asks nothing is let go");
    let called = server.stub.called.load(Ordering::SeqCst);
    let ready = server.ask(&Ask::get("/readyz")).await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "ending\n"));
    assert_eq!(server.ask(&Ask::get("/livez")).await.status, 200);
    let late = server.ask(&good()).await;
    assert_eq!((late.status, late.code()), (503, -32015));
    assert!(late.header("retry-after").is_some());
    assert_eq!(server.stub.called.load(Ordering::SeqCst), called);
    assert!(!server.running.is_finished());
    server.stub.gate.add_permits(20);
    for mut connection in waiting {
        assert_eq!(connection.answer().await.unwrap().status, 200);
    }
    server.running.await.unwrap().unwrap();
}

// Catalogue 112
#[tokio::test]
async fn nobody_waits_longer_than_the_drain_and_a_second_signal_waits_for_nobody() {
    let drain = Duration::from_millis(50);
    for aborted in [false, true] {
        let drain = if aborted { Duration::from_secs(600) } else { drain };
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
async fn a_server_that_nobody_uses_ends_at_once() {
    let server = Server::start();
    let _silent = server.connect().await;
    server.lives().await;
    server.ending.finish.cancel();
    server.running.await.unwrap().unwrap();
}
