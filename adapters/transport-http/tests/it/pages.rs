//! Pages behind the checks and limits of the transport.

use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{get, post};
use reqlore_domain::ports::transport::{FailedSignIn, PageOrigin, SIGN_IN_PATH, StreamOwner};
use reqlore_transport_http::{HttpLimits, ProxyTrust, RateLimit};
use tokio::sync::Semaphore;

use crate::test_client::TestRequest;
use crate::test_server::{CapturedLog, TestServer, ada_token, call, valid_request};

/// Pages that answer with parts of the request; `/slow` takes a permit of the gate.
fn pages(gate: &Arc<Semaphore>) -> Router {
    let gate = gate.clone();
    let show = |Extension(origin): Extension<PageOrigin>, query: RawQuery, headers: HeaderMap| {
        let has_token = headers.contains_key("authorization");
        let PageOrigin { address, request_id } = origin;
        async move { format!("{address} {request_id} {} {has_token}", query.0.unwrap_or_default()) }
    };
    let sign_in =
        async || (StatusCode::UNAUTHORIZED, Extension(FailedSignIn), "a page").into_response();
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
        .route("/", get(async || Redirect::to("/signin")))
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
    let panic = TestRequest::get("/panic");
    for (request, content_type) in [
        (panic.clone().header("Accept", "text/html"), "text/plain; charset=utf-8"),
        (panic, "application/json"),
    ] {
        let broken = server.request(&request).await;
        assert_eq!((broken.status, broken.header("content-type")), (500, Some(content_type)));
    }
    server.assert_serves().await;
}

// S5: 1.10, 3.4
#[tokio::test]
async fn program_at_wrong_path_gets_logged_json_with_right_path() {
    let log = CapturedLog::capture();
    let post = |path: &str| TestRequest::post(call("who")).line(&format!("POST {path} HTTP/1.1"));
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    let form = "application/x-www-form-urlencoded";
    for has_pages in [true, false] {
        let server =
            if has_pages { start(HttpLimits::default(), false) } else { TestServer::start() };
        for (request, id) in [
            (post("/"), 7),
            (post("/mcp"), 7),
            (post("/api/v1/mcp/"), 7),
            (post("/api/v1"), 7),
            (post("/events"), 7),
            (post("/sse").token(&ada_token()), 7),
            (post("/mcp").header("Accept", "application/json, text/event-stream"), 7),
            (post("/mcp").header("Accept", browser), 7),
            (post("/mcp").with("Content-Type", form), 7),
            (TestRequest::get("/sse"), 0),
            (TestRequest::get("/mcp").header("Accept", "text/event-stream"), 0),
            (TestRequest::get("/api/v1/tools").header("Accept", "*/*"), 0),
            (TestRequest::get("/").header("Accept", "text/event-stream"), 0),
            (TestRequest::get("/x").line("DELETE /mcp HTTP/1.1"), 0),
        ] {
            let response = server.request(&request).await;
            let place = String::from_utf8_lossy(&request.bytes()).into_owned();
            assert_eq!(response.error_code(), (404, -32600), "{place}");
            assert_eq!(response.header("content-type"), Some("application/json"), "{place}");
            assert!(response.body.contains("POST /api/v1/mcp"), "{place}: {response:?}");
            assert!(response.header("x-request-id").is_some(), "{place}");
            let wanted = if id == 0 { serde_json::Value::Null } else { id.into() };
            assert_eq!(response.json()["id"], wanted, "{place}");
        }
        let lines = log.text().matches("send calls to POST /api/v1/mcp").count();
        assert_eq!(lines, if has_pages { 14 } else { 28 });
        log.assert_line(&["request refused", "path=\"/mcp\"", "status=404", "method=\"POST\""]);
    }
    let server = start(HttpLimits::default(), false);
    for request in [
        TestRequest::get("/other").header("Accept", browser),
        post("/other").header("Accept", browser).with("Content-Type", form),
    ] {
        let page = server.request(&request).await;
        assert_eq!((page.status, &*page.body), (404, ""), "the router answers a person");
    }
    assert_eq!(server.status(&TestRequest::get("/")).await, 303, "a probe");
}

#[tokio::test]
async fn discovery_of_oauth_gets_json() {
    for has_pages in [true, false] {
        let server =
            if has_pages { start(HttpLimits::default(), false) } else { TestServer::start() };
        for target in [
            "POST /register",
            "GET /authorize?client_id=x&redirect_uri=http://127.0.0.1:3000/",
            "POST /token",
            "GET /.well-known/oauth-authorization-server",
            "GET /.well-known/oauth-protected-resource/api/v1/mcp",
            "GET /.well-known/openid-configuration",
            "GET /api/v1/mcp/.well-known/openid-configuration",
            "OPTIONS /.well-known/oauth-authorization-server",
            "GET /register",
            "PUT /token",
        ] {
            let request = TestRequest::get("/").line(&format!("{target} HTTP/1.1"));
            for request in [request.clone(), request.header("Accept", "text/html")] {
                let response = server.request(&request).await;
                assert_eq!(response.status, 404, "{target}");
                let json = response.json();
                assert_eq!(json["error"], "invalid_request", "{target}");
                let description = json["error_description"].as_str().unwrap();
                assert!(description.contains("no OAuth"), "{target}: {description}");
            }
        }
    }
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
    let further = server.request(&sign_in).await;
    assert_eq!((further.status, &*further.body), (429, "a page"), "with the reason");
    assert!(further.header("retry-after").is_some(), "{further:?}");
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
