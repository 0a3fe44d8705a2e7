//! The paths for operators.

use std::sync::atomic::Ordering;

use crate::client::Ask;
use crate::server::{Log, Server, ada, bob};

#[tokio::test]
async fn probes_answer_without_a_token_under_any_host() {
    let server = Server::start();
    for host in ["127.0.0.1", "10.1.2.3:8080", "pod-7.cluster.local"] {
        for (path, body) in [("/livez", "alive\n"), ("/readyz", "ready\n")] {
            let answer = server.ask(&Ask::get(path).with("Host", host)).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, body), "{host}");
        }
    }
    server.is_ready.store(false, Ordering::SeqCst);
    assert_eq!(server.status(&Ask::get("/readyz")).await, 503);
    assert_eq!(server.status(&Ask::get("/livez")).await, 200);
    assert_eq!(server.status(&Ask::get("/livez").line("POST /livez HTTP/1.1")).await, 405);
}

// S5: 1.2, 4.1, 4.4; catalogue 86
#[tokio::test]
async fn metrics_are_for_administrators_and_checked_like_calls() {
    let server = Server::start();
    let log = Log::keep();
    let ask = Ask::get("/metrics");
    assert_eq!(server.refusal(&ask).await, (401, -32010));
    assert_eq!(server.refusal(&ask.clone().token(&bob())).await, (403, -32011));
    log.assert_line(&["INFO", "status=403", "user=\"bob\""]);
    let answer = server.ask(&ask.clone().token(&ada())).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "reqlore_up 1\n"));
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let elsewhere = ask.token(&ada()).with("Host", "evil.example");
    assert_eq!(server.status(&elsewhere).await, 403);
    let in_url = Ask::get(&format!("/metrics?token={}", ada())).token(&ada());
    assert_eq!(server.refusal(&in_url).await, (400, -32600));
    assert_eq!(server.count(|counters| &counters.responses[2]), 4);
}
