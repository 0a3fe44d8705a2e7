//! Liveness, readiness and metrics.

use reqlore_transport_http::Readiness;

use crate::test_client::TestRequest;
use crate::test_server::{CapturedLog, TestServer, ada_token, bob_token};

#[tokio::test]
async fn probes_need_no_token_and_accept_any_host() {
    let server = TestServer::start();
    for host in ["127.0.0.1", "10.1.2.3:8080", "pod-7.cluster.local"] {
        for (path, body) in [("/livez", "alive\n"), ("/readyz", "ready\n")] {
            let response = server.request(&TestRequest::get(path).with("Host", host)).await;
            assert_eq!((response.status, response.body.as_str()), (200, body), "{host}");
        }
    }
    for (state, words) in [(Readiness::Unavailable, "unavailable"), (Readiness::Damaged, "damaged")]
    {
        *server.readiness.lock().unwrap() = state;
        let response = server.request(&TestRequest::get("/readyz")).await;
        assert!(response.status == 503 && response.body.contains(words), "{response:?}");
    }
    assert_eq!(server.status(&TestRequest::get("/livez")).await, 200);
    assert_eq!(server.status(&TestRequest::get("/livez").line("POST /livez HTTP/1.1")).await, 405);
}

// S5: 1.2, 4.1, 4.4; catalogue 86
#[tokio::test]
async fn metrics_require_administrator_and_request_checks() {
    let server = TestServer::start();
    let log = CapturedLog::capture();
    let request = TestRequest::get("/metrics");
    assert_eq!(server.error_code(&request).await, (401, -32010));
    assert_eq!(server.error_code(&request.clone().token(&bob_token())).await, (403, -32011));
    log.assert_line(&["INFO", "code=-32011", "user=\"bob\""]);
    let response = server.request(&request.clone().token(&ada_token())).await;
    assert_eq!((response.status, response.body.as_str()), (200, "reqlore_up 1\n"));
    let kind = response.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let elsewhere = request.token(&ada_token()).with("Host", "evil.example");
    assert_eq!(server.status(&elsewhere).await, 403);
    let in_url = TestRequest::get(&format!("/metrics?token={}", ada_token())).token(&ada_token());
    assert_eq!(server.error_code(&in_url).await, (400, -32600));
    assert_eq!(server.count(|counters| &counters.responses[2]), 4);
}
