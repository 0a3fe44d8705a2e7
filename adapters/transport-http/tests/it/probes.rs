//! What operators ask.

use std::sync::atomic::Ordering;

use crate::client::Ask;
use crate::server::{Log, Server, ada, bob};

#[tokio::test]
async fn probes_answer_whoever_asks_under_whatever_name() {
    let server = Server::start();
    for host in ["127.0.0.1", "10.1.2.3:8080", "pod-7.cluster.local"] {
        for (path, body) in [("/livez", "alive\n"), ("/readyz", "ready\n")] {
            let answer = server.ask(&Ask::get(path).with("Host", host)).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, body), "{host}");
        }
    }
    server.is_ready.store(false, Ordering::SeqCst);
    assert_eq!(server.ask(&Ask::get("/readyz")).await.status, 503);
    assert_eq!(server.ask(&Ask::get("/livez")).await.status, 200);
    assert_eq!(server.ask(&Ask::get("/livez").line("POST /livez HTTP/1.1")).await.status, 405);
}

// S5: 1.2, 4.4
#[tokio::test]
async fn figures_are_for_administrators() {
    let server = Server::start();
    let ask = Ask::get("/metrics");
    let none = server.ask(&ask).await;
    assert_eq!((none.status, none.code()), (401, -32010));
    let user = server.ask(&ask.clone().token(&bob())).await;
    assert_eq!((user.status, user.code()), (403, -32011));
    let figures = server.ask(&ask.clone().token(&ada())).await;
    assert_eq!((figures.status, figures.body.as_str()), (200, "reqlore_up 1\n"));
    assert!(
        figures
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text; version=1.0.0")
    );
    let elsewhere = ask.token(&ada()).with("Host", "evil.example");
    assert_eq!(server.ask(&elsewhere).await.status, 403);
}

// S5: 4.1; catalogue 86
#[tokio::test]
async fn figures_are_asked_for_as_calls_are() {
    let server = Server::start();
    let (log, _guard) = Log::keep();
    let in_url = Ask::get(&format!("/metrics?token={}", ada())).token(&ada());
    let answer = server.ask(&in_url).await;
    assert_eq!((answer.status, answer.code()), (400, -32600));
    assert_eq!(server.ask(&Ask::get("/metrics").token(&bob())).await.status, 403);
    assert_eq!(server.count(|counters| &counters.responses[2]), 2);
    let text = log.text();
    let line = text.lines().find(|line| line.contains("INFO") && line.contains("status=403"));
    assert!(line.is_some_and(|line| line.contains("user=\"bob\"")), "{text}");
}
