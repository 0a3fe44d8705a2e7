//! Validation of the request head: path, method, Host, Origin, target and lengths.

use crate::test_client::{TestRequest, send};
use crate::test_server::{CapturedLog, TestServer, ada_token, call, valid_request};

// S5: 1.1
#[tokio::test]
async fn request_other_than_post_to_mcp_path_is_rejected() {
    let server = TestServer::start();
    server.assert_serves().await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "PATCH", "FOO"] {
        let request = valid_request().line(&format!("{method} /api/v1/mcp HTTP/1.1"));
        let mut connection = server.send(&request).await;
        let (status, headers) = connection.read_head().await.unwrap();
        assert_eq!(status, 405, "{method}");
        let has = |name: &str| headers.iter().find(|(other, _)| other.starts_with(name));
        assert_eq!(has("allow").map(|(_, value)| value.as_str()), Some("POST"), "{method}");
        assert_eq!(has("access-control-"), None, "{method}");
    }
    for path in
        ["/", "/api/v1/mcp/", "/api/v1/mcp/x", "/API/v1/mcp", "/api/v1//mcp", "/%61pi/v1/mcp"]
    {
        assert_eq!(
            server.error_code(&valid_request().line(&format!("POST {path} HTTP/1.1"))).await,
            (404, -32600),
            "{path}"
        );
    }
}

// Catalogue 73
#[tokio::test]
async fn preflight_gets_no_access_control_headers() {
    let server = TestServer::start();
    let preflight = TestRequest::post("")
        .line("OPTIONS /api/v1/mcp HTTP/1.1")
        .header("Origin", "https://evil.example")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization");
    let response = server.request(&preflight).await;
    assert_eq!(response.status, 403);
    let local = preflight.with("Origin", "http://localhost:3000");
    let response = server.request(&local).await;
    assert_eq!(response.status, 405);
    assert!(!response.headers.iter().any(|(name, _)| name.starts_with("access-control")));
}

// Catalogue 70
#[tokio::test]
async fn foreign_host_header_is_rejected() {
    let server = TestServer::configured(reqlore_transport_http::HttpLimits::default(), |config| {
        config.hosts = vec!["reqlore.example".to_owned(), "other.example:8443".to_owned()];
    });
    let port = server.address.port();
    let own = format!("127.0.0.1:{port} 127.0.0.1 localhost:1234 LocalHost [::1]:80");
    for host in own.split(' ') {
        assert_eq!(server.status(&valid_request().with("Host", host)).await, 200, "{host}");
    }
    for host in ["reqlore.example", "Reqlore.Example:443", "other.example:8443"] {
        assert_eq!(server.status(&valid_request().with("Host", host)).await, 200, "{host}");
    }
    let others = "evil.example 127.0.0.1.evil.example localhost. localhost.evil.example:80 \
                  0.0.0.0 127.0.0.2 other.example other.example:443 [::]";
    for host in others.split(' ') {
        assert_eq!(
            server.error_code(&valid_request().with("Host", host)).await,
            (403, -32600),
            "{host}"
        );
    }
    for host in
        ["", "local host", "user@localhost", "localhost:x", "localhost:99999", "[::1", "a/b"]
    {
        assert_eq!(
            server.error_code(&valid_request().with("Host", host)).await,
            (400, -32600),
            "{host}"
        );
    }
    assert_eq!(server.status(&valid_request().without("Host")).await, 400);
    let twice = valid_request().header("Host", "127.0.0.1");
    assert_eq!(server.status(&twice).await, 400);
    let old = valid_request().without("Host").line("POST /api/v1/mcp HTTP/1.0");
    assert_eq!(server.status(&old).await, 400);
    server.assert_serves().await;
}

// Catalogue 71
#[tokio::test]
async fn unlisted_origin_is_rejected() {
    let server = TestServer::configured(reqlore_transport_http::HttpLimits::default(), |config| {
        let origins = ["https://app.example", "https://dev.example:8443", "http://any.example:*"];
        config.origins = origins.map(str::to_owned).to_vec();
    });
    let known = "http://127.0.0.1:3000 http://localhost http://[::1]:99 https://app.example \
                 https://app.example:443 https://dev.example:8443 http://any.example:7";
    for origin in known.split(' ') {
        assert_eq!(server.status(&valid_request().header("Origin", origin)).await, 200, "{origin}");
    }
    let unknown = "https://evil.example null http://localhost.evil http://127.0.0.1:other \
                   https://localhost https://app.example:444 https://dev.example \
                   https://app.example.evil https://app.example/x file:// localhost";
    for origin in unknown.split(' ').chain([""]) {
        let response = server.error_code(&valid_request().header("Origin", origin)).await;
        assert_eq!(response, (403, -32600), "{origin}");
    }
    let local = "http://localhost";
    let twice = valid_request().header("Origin", local).header("Origin", local);
    assert_eq!(server.status(&twice).await, 403);
}

#[tokio::test]
async fn refusals_before_authentication_are_logged_up_to_a_limit() {
    let log = CapturedLog::capture();
    let server = TestServer::start();
    let secret = ada_token();
    let page = valid_request().header("Origin", "https://evil.example");
    assert_eq!(server.status(&page).await, 403);
    log.assert_line(&["INFO", "status=403", "https://evil.example", "address=127.0.0.1"]);
    assert_eq!(server.status(&valid_request().with("Host", "team.example")).await, 403);
    log.assert_line(&["INFO", "status=403", "host=\"team.example\""]);
    let target = valid_request().line("PUT /api/v1/mcp HTTP/1.1");
    assert_eq!(server.status(&target).await, 405);
    log.assert_line(&["INFO", "status=405", "method=\"PUT\"", "only POST"]);
    assert_eq!(server.status(&TestRequest::get("/metrics").with("Host", "x")).await, 403);
    let coding = valid_request().header("Transfer-Encoding", "foo, chunked");
    assert_eq!(server.status(&coding).await, 400);
    log.assert_line(&["INFO", "status=400", "Transfer-Encoding"]);
    let leak = valid_request().header("Origin", &format!("https://ada:{secret}@x"));
    for _ in 0..200 {
        assert_eq!(server.status(&leak).await, 403);
    }
    let text = log.text();
    assert!(!text.contains(&secret[secret.len() - 20..]), "{text}");
    // The limit grows while the test runs.
    let count = text.matches("request refused").count();
    assert!((100..150).contains(&count), "{count}");
}

// Catalogue 70, 86
#[tokio::test]
async fn absolute_target_with_other_host_is_rejected() {
    let server = TestServer::start();
    let target = |url: &str| valid_request().line(&format!("POST {url} HTTP/1.1"));
    for url in ["http://127.0.0.1/api/v1/mcp", "http://127.0.0.1:80/api/v1/mcp"] {
        assert_eq!(server.status(&target(url)).await, 200, "{url}");
    }
    for url in ["http://evil.example/api/v1/mcp", "http://127.0.0.1:81/api/v1/mcp"] {
        assert_eq!(server.status(&target(url)).await, 400, "{url}");
    }
    let url = format!("http://{}@127.0.0.1/api/v1/mcp", ada_token());
    assert_eq!(server.status(&target(&url)).await, 400);
    assert_eq!(server.status(&target(&url).without("Authorization")).await, 401);
}

// Catalogue 76
#[tokio::test]
async fn other_protocols_are_rejected() {
    let server = TestServer::start();
    let long = format!("POST /{} HTTP/1.1\r\n\r\n", "x".repeat(1024 * 1024));
    for (bytes, status) in [
        (b"GET /\r\n\r\n".as_slice(), 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"POST /api/v1/mcp HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"POST /api/v1/mcp HTTP/1.1\r\nHo\0st: x\r\n\r\n", 400),
        (long.as_bytes(), 414),
    ] {
        let response = send(server.address, bytes).await;
        let answered = response.map_or(400, |response| response.status);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        assert!(answered == status || answered == 431, "{shown}: {answered}");
    }
    server.assert_serves().await;
}

#[tokio::test]
async fn headers_beyond_limit_get_431() {
    let server = TestServer::start();
    let mut request = valid_request();
    for n in 0..58 {
        request = request.header(&format!("x-{n}"), "y");
    }
    assert_eq!(server.status(&request).await, 200);
    for n in 58..70 {
        request = request.header(&format!("x-{n}"), "y");
    }
    assert_eq!(server.status(&request).await, 431);
    assert_eq!(server.status(&valid_request().header("x", &"y".repeat(15_000))).await, 200);
    let response =
        send(server.address, &valid_request().header("x", &"y".repeat(100_000)).bytes()).await;
    assert!(response.is_none_or(|response| response.status == 431));
    server.assert_serves().await;
}

// Request smuggling: a proxy may parse two requests from two lengths, or from length and chunks.
#[tokio::test]
async fn ambiguous_body_length_hides_no_second_request() {
    let server = TestServer::start();
    let body = call("who");
    let hidden = String::from_utf8(valid_request().bytes()).unwrap();
    let own = body.len().to_string();
    for (one, other) in [
        (("Content-Length", own.as_str()), ("Content-Length", "0")),
        (("Content-Length", "+5"), ("x", "y")),
        (("Content-Length", "5, 6"), ("x", "y")),
        (("Transfer-Encoding", "identity"), ("x", "y")),
        (("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")),
    ] {
        let request = valid_request().header(one.0, one.1).header(other.0, other.1);
        let mut connection = server.send(&request).await;
        connection.write(hidden.as_bytes()).await;
        let response = connection.read_response().await;
        assert!(response.is_none_or(|response| response.status == 400), "{one:?} {other:?}");
        assert!(connection.read_response().await.is_none(), "{one:?} {other:?}");
    }
    server.assert_serves().await;
}

/// A request with a chunked body and these headers, and another request behind it.
async fn send_chunked(server: &TestServer, headers: &[(&str, &str)]) -> (Vec<u16>, bool) {
    let body = call("who");
    let mut request = TestRequest::post("").token(&ada_token());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut connection = server.send(&request).await;
    connection.write(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes()).await;
    connection.write(&valid_request().bytes()).await;
    let mut statuses = Vec::new();
    while let Some(response) = connection.read_response().await {
        statuses.push(response.status);
        if statuses.len() == 2 {
            return (statuses, true);
        }
    }
    (statuses, false)
}

// Request smuggling: RFC 9112, section 11.2.
#[tokio::test]
async fn transfer_encoding_other_than_chunked_gets_400_and_closes() {
    let server = TestServer::start();
    let coding = |value: &'static str| ("Transfer-Encoding", value);
    for value in ["chunked", "Chunked", "CHUNKED", " chunked\t"] {
        let outcome = send_chunked(&server, &[coding(value)]).await;
        assert_eq!(outcome, (vec![200, 200], true), "{value:?}");
    }
    for headers in [
        vec![coding("gzip, chunked")],
        vec![coding("foo, chunked")],
        vec![coding("chunked, chunked")],
        vec![coding("chunked,chunked")],
        vec![coding(", chunked")],
        vec![coding("chunked,")],
        vec![coding("chunked, identity")],
        vec![coding("identity")],
        vec![coding("gzip")],
        vec![coding("chunked;x=1")],
        vec![coding("\"chunked\"")],
        vec![coding("xchunked")],
        vec![coding("\x0bchunked")],
        vec![coding("")],
        vec![coding("chunked"), coding("chunked")],
        vec![coding("chunked"), coding("identity")],
        vec![coding("identity"), coding("chunked")],
        vec![coding(""), coding("chunked")],
        vec![("Content-Length", "5"), coding("foo, chunked")],
        vec![coding("foo, chunked"), ("Content-Length", "5")],
    ] {
        assert_eq!(send_chunked(&server, &headers).await, (vec![400], false), "{headers:?}");
    }
    // The probes and unknown paths read no body, so one left behind must not become a request.
    for target in ["GET /livez", "GET /readyz", "GET /metrics", "POST /x"] {
        let request = valid_request().line(&format!("{target} HTTP/1.1"));
        let mut connection = server.send(&request.with("Transfer-Encoding", "foo, chunked")).await;
        assert_eq!(connection.read_response().await.unwrap().status, 400, "{target}");
        assert!(connection.read_response().await.is_none(), "{target}");
    }
    server.assert_serves().await;
}

// RFC 9112, section 2.2; hyper has no option to refuse it. SECURITY.md says so.
#[tokio::test]
async fn bare_lf_ends_a_line_of_the_head() {
    let server = TestServer::start();
    let request = String::from_utf8(valid_request().bytes()).unwrap().replace("\r\n", "\n");
    let response = send(server.address, request.as_bytes()).await;
    assert_eq!(response.unwrap().status, 200);
}

// RFC 9112, section 6.1: the chunks count, and the connection ends with the response.
#[tokio::test]
async fn content_length_beside_chunks_is_ignored_and_closes() {
    let server = TestServer::start();
    let (length, chunked) = (("Content-Length", "5"), ("Transfer-Encoding", "chunked"));
    for headers in [[length, chunked], [chunked, length]] {
        assert_eq!(send_chunked(&server, &headers).await, (vec![200], false), "{headers:?}");
    }
    let old = TestRequest::post("").token(&ada_token()).line("POST /api/v1/mcp HTTP/1.0");
    let mut connection = server.send(&old.header(chunked.0, chunked.1)).await;
    connection.write(b"0\r\n\r\n").await;
    assert_eq!(connection.read_response().await.unwrap().status, 400, "HTTP/1.0");
    assert!(connection.read_response().await.is_none(), "HTTP/1.0");
    server.assert_serves().await;
}

#[test]
fn bind_rejects_public_address_without_proxy_and_invalid_names() {
    use reqlore_transport_http::{HttpLimits, HttpTransport, ProxyTrust};
    let tokens = std::sync::Arc::default();
    let mut config = crate::test_server::config(&tokens, HttpLimits::default());
    config.listen = ([0, 0, 0, 0], 0).into();
    let message = HttpTransport::bind(config.clone()).unwrap_err().to_string();
    assert!(message.contains("--behind-proxy") && message.contains("0.0.0.0:0"), "{message}");
    config.behind_proxy = Some(ProxyTrust::default());
    assert!(HttpTransport::bind(config.clone()).is_ok());
    config.hosts = vec!["https://x".to_owned()];
    let message = HttpTransport::bind(config.clone()).unwrap_err().to_string();
    assert!(message.contains("https://x"), "{message}");
    config.hosts.clear();
    config.origins = vec!["app.example".to_owned()];
    let message = HttpTransport::bind(config).unwrap_err().to_string();
    assert!(message.contains("app.example"), "{message}");
}
