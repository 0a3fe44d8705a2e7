//! Idle connections and open streams never keep other requests out.

use reqlore_transport_http::HttpLimits;
use serde_json::json;

use crate::limits::{listen_request, waiting_call};
use crate::pages;
use crate::test_client::{TestConnection, TestRequest};
use crate::test_server::{
    CapturedLog, TestServer, ada_token, bob_token, call_with, request_without_token, valid_request,
};

const COUNT: usize = 8;

/// Limits of this many connections, in total or of one address.
fn limits_of(count: usize, is_of_address: bool) -> HttpLimits {
    let subscriptions_per_token = 100;
    if is_of_address {
        return HttpLimits {
            connections_per_address: count,
            subscriptions_per_token,
            ..HttpLimits::default()
        };
    }
    HttpLimits { connections: count, subscriptions_per_token, ..HttpLimits::default() }
}

/// Asserts that probes, metrics, calls and pages are served on new connections.
async fn assert_serves_all(server: &TestServer, place: &str) {
    for (request, status) in [
        (TestRequest::get("/livez"), 200),
        (TestRequest::get("/readyz"), 200),
        (TestRequest::get("/metrics").token(&ada_token()), 200),
        (TestRequest::get("/show"), 200),
        (valid_request(), 200),
        (request_without_token().token(&bob_token()), 200),
        (request_without_token(), 401),
    ] {
        let mut connection = server.send(&request).await;
        let response = connection.read_response().await;
        let outcome = response.map(|response| response.status);
        assert_eq!(outcome, Some(status), "{place}: {:?}", request.bytes());
    }
}

#[tokio::test]
async fn idle_connections_make_room() {
    let whole = valid_request().bytes();
    let half = &valid_request().head()[..20];
    for (name, starts) in [
        ("after a response", vec![whole.as_slice()]),
        ("after two responses", vec![whole.as_slice(), whole.as_slice()]),
        ("nothing sent", vec![]),
        ("half a line", vec![b"POST /api/v1".as_slice()]),
        ("half of the headers", vec![half]),
        ("half of a second request", vec![whole.as_slice(), half]),
        ("an empty line", vec![b"\r\n".as_slice()]),
    ] {
        for is_of_address in [false, true] {
            let server = pages::start(limits_of(COUNT, is_of_address), false);
            let mut open = Vec::new();
            // Far more than the limit.
            for _ in 0..5 * COUNT {
                let mut connection = server.connect().await;
                for start in &starts {
                    connection.write(start).await;
                    if *start == whole {
                        assert_eq!(connection.read_response().await.unwrap().status, 200, "{name}");
                    }
                }
                open.push(connection);
            }
            assert_serves_all(&server, name).await;
            // A replaced connection counts until it is closed.
            while server.connections() > COUNT as u64 {
                tokio::task::yield_now().await;
            }
            assert_eq!(server.count(|counters| &counters.refused_connections), 0, "{name}");
            open[0].wait_until_closed().await;
        }
    }
}

#[tokio::test]
async fn longest_idle_connection_is_closed() {
    let server = TestServer::with(limits_of(3, false));
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(server.connect().await);
        assert_eq!(open.last_mut().unwrap().request(&valid_request()).await.status, 200);
    }
    // The first one is used again, so the second one is idle for longest.
    assert_eq!(open[0].request(&valid_request()).await.status, 200);
    server.assert_serves().await;
    open[1].wait_until_closed().await;
    for at in [0, 2] {
        assert_eq!(open[at].request(&valid_request()).await.status, 200, "{at}");
    }
}

async fn open_streams(
    server: &TestServer,
    requests: &[TestRequest],
) -> (Vec<TestConnection>, Vec<TestConnection>) {
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    for request in requests {
        let mut connection = server.send(request).await;
        let (status, headers) = connection.read_head().await.expect("not closed");
        if status == 200 {
            open.push(connection);
            continue;
        }
        assert_eq!(status, 503);
        assert!(headers.iter().any(|(name, value)| name == "retry-after" && value == "10"));
        refused.push(connection);
    }
    (open, refused)
}

#[tokio::test]
async fn streams_beyond_their_share_get_503_and_others_are_served() {
    let event_page = |at: usize| TestRequest::get(&format!("/events?user{at}"));
    let from = |at: usize, request: TestRequest| {
        request.header("X-Forwarded-For", &format!("192.0.2.{at}"))
    };
    for (name, is_of_address, is_proxy) in
        [("total", false, false), ("address", true, false), ("behind a proxy", false, true)]
    {
        let log = CapturedLog::capture();
        let server = pages::start(limits_of(COUNT, is_of_address), is_proxy);
        let mut requests = Vec::new();
        for at in 0..2 * COUNT {
            let stream = if at % 2 == 0 { event_page(at) } else { listen_request() };
            requests.push(if is_proxy { from(at, stream) } else { stream });
        }
        let (mut open, _refused) = open_streams(&server, &requests).await;
        assert_eq!(open.len(), 6, "{name}: three quarters");
        // Idle connections next to the streams take no places either.
        let mut idle = Vec::new();
        for _ in 0..2 * COUNT {
            let mut connection = server.connect().await;
            assert_eq!(connection.request(&valid_request()).await.status, 200, "{name}");
            idle.push(connection);
        }
        assert_serves_all(&server, name).await;
        assert_eq!(log.text().matches("stream refused").count(), 1, "{name}: {}", log.text());
        // Each stream that ends makes room for another one.
        drop(open.pop());
        loop {
            let (again, _) = open_streams(&server, &requests[..1]).await;
            if !again.is_empty() {
                break;
            }
        }
        for stream in &mut open {
            assert!(stream.is_open().await, "{name}");
        }
    }
}

#[tokio::test]
async fn working_connections_keep_their_places() {
    for is_of_address in [false, true] {
        let log = CapturedLog::capture();
        let server = TestServer::with(limits_of(3, is_of_address));
        let mut working = Vec::new();
        for _ in 0..3 {
            working.push(server.send(&waiting_call(&ada_token())).await);
        }
        server.wait_started(3).await;
        for _ in 0..10 {
            let mut further = server.send(&valid_request()).await;
            assert!(further.read_response().await.is_none());
        }
        assert_eq!(server.count(|counters| &counters.refused_connections), 10);
        assert_eq!(log.text().matches("too many connections").count(), 1, "{}", log.text());
        server.stub.gate.add_permits(3);
        for connection in &mut working {
            assert_eq!(connection.read_response().await.unwrap().status, 200);
        }
        server.assert_serves().await;
    }
}

#[tokio::test]
async fn response_that_is_read_late_is_complete() {
    const BYTES: usize = 12_000_000;
    let server = TestServer::with(limits_of(2, false));
    let big = TestRequest::post(call_with("big", &json!({ "bytes": BYTES })));
    let mut slow = server.send(&big.token(&ada_token())).await;
    let head = slow.read_head().await.unwrap();
    assert_eq!(head.0, 200);
    let mut idle = Vec::new();
    for _ in 0..10 {
        let mut connection = server.connect().await;
        assert_eq!(connection.request(&valid_request()).await.status, 200);
        idle.push(connection);
    }
    assert!(slow.receive(BYTES).await > BYTES);
}
