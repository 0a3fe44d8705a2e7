//! Shutdown: accepted requests complete, later ones are rejected.

use std::time::Duration;

use reqlore_transport_http::HttpLimits;

use crate::test_client::TestRequest;
use crate::test_server::{TestServer, ada_token, call, valid_request};

// Catalogue 112
#[tokio::test]
async fn shutdown_completes_running_requests_and_rejects_later_ones() {
    let server = TestServer::with(HttpLimits { in_flight_per_token: 20, ..HttpLimits::default() });
    let mut idle = server.connect().await;
    assert_eq!(idle.request(&valid_request()).await.status, 200);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(server.send(&TestRequest::post(call("wait")).token(&ada_token())).await);
    }
    server.wait_started(20).await;
    assert_eq!(server.status(&TestRequest::get("/readyz")).await, 200);
    server.shutdown.finish.cancel();
    assert!(idle.read_response().await.is_none(), "an idle connection is closed");
    let called = server.calls();
    let ready = server.request(&TestRequest::get("/readyz")).await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "shutting down\n"));
    assert_eq!(server.status(&TestRequest::get("/livez")).await, 200);
    let late = server.request(&valid_request()).await;
    assert_eq!(late.error_code(), (503, -32015));
    assert!(late.header("retry-after").is_some());
    assert_eq!(server.calls(), called);
    assert!(!server.running.is_finished());
    server.stub.gate.add_permits(20);
    for mut connection in waiting {
        assert_eq!(connection.read_response().await.unwrap().status, 200);
    }
    server.running.await.unwrap().unwrap();
}

// Catalogue 112
#[tokio::test]
async fn drain_time_and_second_signal_end_waiting_requests() {
    for aborted in [false, true] {
        let drain = if aborted { Duration::from_secs(600) } else { Duration::from_millis(50) };
        let server = TestServer::with(HttpLimits { drain_timeout: drain, ..HttpLimits::default() });
        let mut waiting = server.send(&TestRequest::post(call("wait")).token(&ada_token())).await;
        server.wait_started(1).await;
        server.shutdown.finish.cancel();
        if aborted {
            server.shutdown.abort.cancel();
        }
        server.running.await.unwrap().unwrap();
        let response = waiting.read_response().await;
        assert!(response.is_none_or(|response| response.status == 503));
    }
}

#[tokio::test]
async fn shutdown_of_idle_server_is_immediate() {
    let server = TestServer::start();
    let _silent = server.connect().await;
    server.assert_serves().await;
    server.shutdown.finish.cancel();
    server.running.await.unwrap().unwrap();
}
