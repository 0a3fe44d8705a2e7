//! Pages behind the checks and limits of the transport.

use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use reqlore_domain::ports::transport::{FailedSignIn, PageOrigin, SIGN_IN_PATH, StreamOwner};
use reqlore_transport_http::{HttpLimits, ProxyTrust, RateLimit};
use tokio::sync::Semaphore;

use crate::test_client::TestRequest;
use crate::test_server::{TestServer, ada_token, valid_request};

/// Pages that answer with parts of the request; `/slow` takes a permit of the gate.
fn pages(gate: &Arc<Semaphore>) -> Router {
    let gate = gate.clone();
    let show = |Extension(origin): Extension<PageOrigin>, query: RawQuery, headers: HeaderMap| {
        let has_token = headers.contains_key("authorization");
        let PageOrigin { address, request_id } = origin;
        async move { format!("{address} {request_id} {} {has_token}", query.0.unwrap_or_default()) }
    };
    let sign_in = async || (StatusCode::UNAUTHORIZED, Extension(FailedSignIn)).into_response();
    let events = async |query: RawQuery| {
        let stream = futures_util::stream::pending::<Result<&str, std::io::Error>>();
        let headers = [(CONTENT_TYPE, "text/event-stream")];
        let owner = Extension(StreamOwner(query.0.unwrap_or_default().into()));
        (headers, owner, Body::from_stream(stream)).into_response()
    };
    let wait = async move || -> Response<Body> {
        gate.acquire().await.unwrap().forget();
        "done".into_response()
    };
    Router::new()
        .route("/show", get(show).post(async |body: String| body.len().to_string()))
        .route(SIGN_IN_PATH, post(sign_in))
        .route("/events", get(events))
        .route("/slow", get(wait))
        .route("/panic", get(async || -> StatusCode { panic!("of a page") }))
}

pub(crate) fn start(limits: HttpLimits, is_behind_proxy: bool) -> TestServer {
    start_with(limits, is_behind_proxy, &Arc::new(Semaphore::new(0)))
}

fn start_with(limits: HttpLimits, is_behind_proxy: bool, gate: &Arc<Semaphore>) -> TestServer {
    TestServer::configured(limits, |config| {
        config.pages = Some(pages(gate));
        config.hosts = vec!["reqlore.example".to_owned()];
        config.origins = vec!["https://tools.example".to_owned()];
        config.behind_proxy = is_behind_proxy.then(ProxyTrust::default);
    })
}

#[tokio::test]
async fn page_gets_address_request_id_and_query_but_no_token() {
    let server = start(HttpLimits::default(), true);
    let request = TestRequest::get("/show?a=b").header("X-Request-Id", "page-1");
    let request = request.header("X-Forwarded-For", "192.0.2.7").token(&ada_token());
    let response = server.request(&request).await;
    assert_eq!((response.status, response.body.as_str()), (200, "192.0.2.7 page-1 a=b false"));
    assert_eq!(response.header("x-request-id"), Some("page-1"));
    assert_eq!((server.in_flight(), server.look_ups()), (0, 0));
    let missing = server.request(&TestRequest::get("/other")).await;
    assert_eq!(missing.status, 404, "the router answers: {missing:?}");
    let broken = server.request(&TestRequest::get("/panic")).await;
    assert_eq!(
        (broken.status, broken.header("content-type")),
        (500, Some("text/plain; charset=utf-8"))
    );
    server.assert_serves().await;
}

#[tokio::test]
async fn page_of_foreign_host_or_origin_is_refused() {
    let server = start(HttpLimits::default(), false);
    let post = || TestRequest::post("x").line("POST /show HTTP/1.1");
    let named = || post().with("Host", "reqlore.example");
    for (request, status) in [
        (post(), 200),
        (post().header("Origin", "http://127.0.0.1"), 200),
        (post().with("Host", "127.0.0.1:81").header("Origin", "http://127.0.0.1:81"), 200),
        (named().header("Origin", "https://reqlore.example"), 200),
        (named().header("Origin", "https://tools.example"), 200),
        // Another server on this machine is another origin, although it may call MCP.
        (post().header("Origin", "http://127.0.0.1:3000"), 403),
        (post().header("Origin", "http://localhost"), 403),
        (named().header("Origin", "http://127.0.0.1"), 403),
        (named().header("Origin", "https://reqlore.example:8443"), 403),
        (named().header("Origin", "https://evil.example"), 403),
        (named().header("Origin", "null"), 403),
        (post().with("Host", "evil.example").header("Origin", "http://evil.example"), 403),
    ] {
        assert_eq!(server.status(&request).await, status, "{:?}", request.bytes());
    }
}

#[tokio::test]
async fn page_url_with_token_is_refused() {
    let server = start(HttpLimits::default(), false);
    let response = server.request(&TestRequest::get(&format!("/show?t={}", ada_token()))).await;
    assert_eq!(response.status, 400);
    assert!(!response.body.contains(&ada_token()), "{response:?}");
}

#[tokio::test]
async fn page_body_over_limit_is_refused() {
    let limits = HttpLimits { body_bytes: 3_000_000, ..HttpLimits::default() };
    let server = start(limits, false);
    let post = |bytes| TestRequest::post("x".repeat(bytes)).line("POST /show HTTP/1.1");
    let accepted = server.request(&post(3_000_000)).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (200, "3000000"));
    assert_eq!(server.status(&post(3_000_001)).await, 413);
}

#[tokio::test]
async fn failed_sign_ins_are_limited_by_address() {
    let rate = RateLimit { every: std::time::Duration::from_secs(60), burst: 2 };
    let limits = HttpLimits { failed_login_rate: Some(rate), ..HttpLimits::default() };
    let server = start(limits, false);
    let sign_in = TestRequest::post("").line("POST /signin HTTP/1.1");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(server.status(&sign_in).await);
    }
    assert_eq!(statuses, [401, 401, 429]);
    assert_eq!(server.count(|counters| &counters.failed_logins), 2);
    server.assert_serves().await;
}

#[tokio::test]
async fn page_rate_is_limited_by_address() {
    let rate = RateLimit { every: std::time::Duration::from_secs(60), burst: 2 };
    let limits = HttpLimits { request_rate: Some(rate), ..HttpLimits::default() };
    let server = start(limits, false);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(server.status(&TestRequest::get("/show")).await);
    }
    assert_eq!(statuses, [200, 200, 429]);
    // Tokens have rates of their own.
    assert_eq!(server.status(&valid_request()).await, 200);
}

#[tokio::test]
async fn event_stream_is_not_in_flight_and_ends_with_the_server() {
    let limits = HttpLimits {
        in_flight: 1,
        in_flight_per_token: 1,
        subscriptions_per_token: 1,
        ..HttpLimits::default()
    };
    let server = start(limits, false);
    let events = TestRequest::get("/events?ada").header("Cookie", "s=1");
    let mut stream = server.send(&events).await;
    assert_eq!(stream.read_head().await.unwrap().0, 200);
    assert_eq!(server.in_flight(), 0);
    assert_eq!(server.status(&TestRequest::get("/show")).await, 200);
    let again = TestRequest::get("/events?ada").header("Cookie", "s=1; more=1");
    assert_eq!(server.status(&again).await, 429, "one stream of an owner");
    let mut other = server.send(&TestRequest::get("/events?bob")).await;
    assert_eq!(other.read_head().await.unwrap().0, 200);
    server.shutdown.finish.cancel();
    assert!(stream.read_chunk().await.is_none());
    server.running.await.unwrap().unwrap();
}

#[tokio::test]
async fn running_page_completes_during_shutdown() {
    let gate = Arc::new(Semaphore::new(0));
    let server = start_with(HttpLimits::default(), false, &gate);
    let mut running = server.send(&TestRequest::get("/slow")).await;
    while server.in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    server.shutdown.finish.cancel();
    assert_eq!(server.status(&TestRequest::get("/show")).await, 503);
    gate.add_permits(1);
    assert_eq!(running.read_response().await.unwrap().body, "done");
    server.running.await.unwrap().unwrap();
}
