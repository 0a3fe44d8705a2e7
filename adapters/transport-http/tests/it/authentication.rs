//! Authentication: valid and invalid tokens, limits of guesses, and the log.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqlore_domain::identity::{TokenError, UserRole};
use reqlore_transport_http::{HttpLimits, RateLimit};
use serde_json::json;

use crate::test_client::{TestConnection, TestRequest};
use crate::test_server::{
    CapturedLog, SECRET, TestServer, ada_token, bob_token, call, request_without_token, token,
    valid_request,
};

fn guessed_token(number: u32) -> TestRequest {
    request_without_token().token(&token(&format!("Forged{number:06}")))
}

// S5: 1.2, 1.3, 1.5, 4.1, 4.2, 4.3
#[tokio::test]
async fn call_runs_as_token_owner() {
    let server = TestServer::start();
    for (token, name) in [(ada_token(), "ada"), (bob_token(), "bob")] {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let request =
                request_without_token().header("Authorization", &format!("{scheme} {token}"));
            assert_eq!(server.request(&request).await.data()["user"], name);
        }
    }
    assert_eq!(server.look_ups(), 6, "each call is authenticated");
}

// S5: 1.2, 1.4, 4.1; catalogue 80, 85
#[tokio::test]
async fn invalid_tokens_get_identical_401() {
    let server = TestServer::with(HttpLimits { failed_login_rate: None, ..HttpLimits::default() });
    let mut values = Vec::new();
    for (id, denial) in [
        ("RevokedToken", TokenError::Revoked),
        ("WrongSecret1", TokenError::Wrong),
        ("RetiredToken", TokenError::Retired),
        ("NotYetValid1", TokenError::NotYetValid),
        ("DisabledUser", TokenError::Disabled),
        ("UnknownToken", TokenError::Unknown),
    ] {
        server.tokens.set(&token(id), Err(denial));
        values.push(format!("Bearer {}", token(id)));
    }
    let mut bodies = std::collections::BTreeSet::new();
    for value in values {
        let response =
            server.request(&request_without_token().header("Authorization", &value)).await;
        assert_eq!(response.error_code(), (401, -32010), "{value}");
        let challenge = response.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer error=\"invalid_token\""), "{value}");
        bodies.insert(response.body);
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let none = server.request(&request_without_token()).await;
    assert_eq!(none.error_code(), (401, -32010));
    assert_eq!(none.header("www-authenticate"), Some("Bearer"), "no token, so none is invalid");
    assert_eq!(server.calls(), 0);
    server.assert_serves().await;
}

// S5: 1.4, 5.6
#[tokio::test]
async fn token_of_wrong_form_gets_401_that_names_the_fault() {
    let server = TestServer::with(HttpLimits { failed_login_rate: None, ..HttpLimits::default() });
    let ada = ada_token();
    for (value, problem) in [
        (format!("Bearer {}", &ada[..ada.len() - 1]), "incomplete or mistyped"),
        (format!("Bearer {}", ada.to_lowercase()), "incomplete or mistyped"),
        ("Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a".to_owned(), "does not begin with"),
        ("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.".to_owned(), "does not begin with"),
        ("Bearer your-token-here".to_owned(), "does not begin with"),
        ("Bearer ".to_owned(), "is empty"),
        ("Bearer".to_owned(), "is empty"),
        ("Bearer ${REQLORE_TOKEN}".to_owned(), "not replaced"),
        ("Bearer $REQLORE_TOKEN".to_owned(), "not replaced"),
        ("Bearer %REQLORE_TOKEN%".to_owned(), "not replaced"),
        ("Bearer {{ token }}".to_owned(), "not replaced"),
        ("Bearer ${env:REQLORE_TOKEN:-none}".to_owned(), "not replaced"),
        ("Bearer REQLORE_TOKEN".to_owned(), "not replaced"),
        ("Bearer <token>".to_owned(), "not replaced"),
        ("${AUTH_HEADER}".to_owned(), "not replaced"),
        (format!("Bearer \"{ada}\""), "has quotes"),
        (format!("Bearer '{ada}'"), "has quotes"),
        (format!("Bearer “{ada}”"), "has quotes"),
        (format!("\"Bearer {ada}\""), "has quotes"),
        (format!("Bearer Bearer {ada}"), "send `Bearer` once"),
        (format!("Bearer bearer {ada}"), "send `Bearer` once"),
        (format!("Bearer: {ada}"), "send `Bearer` once"),
        (format!("Bearer {ada}, Bearer {}", bob_token()), "send `Bearer` once"),
        (format!("Bearer\t{ada}"), "send `Bearer` once"),
        (format!("Bearer {ada} x"), "contains invalid characters"),
        (format!("Bearer {}…", &ada[..20]), "contains invalid characters"),
        (format!("Bearer {}****", &ada[..20]), "contains invalid characters"),
        (format!("Bearer {ada}\\n"), "contains invalid characters"),
        (format!("Basic {ada}"), "was sent without `Bearer`"),
        (format!("Token {ada}"), "was sent without `Bearer`"),
        (ada.clone(), "was sent without `Bearer`"),
        (ada.replace("_pat_", "_ses_"), "does not begin with"),
    ] {
        let request = request_without_token().header("Authorization", &value);
        let response = server.request(&request).await;
        assert_eq!(response.error_code(), (401, -32010), "{value}");
        let challenge = response.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer error=\"invalid_token\""), "{value}");
        assert!(response.body.contains(problem), "{value}: {response:?}");
        assert!(!response.body.contains(&ada[12..20]), "quotes nothing: {response:?}");
    }
    let twice = server.request(&valid_request().token(&ada)).await;
    assert_eq!(twice.error_code(), (401, -32010));
    assert!(twice.body.contains("was sent twice"), "{twice:?}");
    assert_eq!(server.calls(), 0);
}

#[tokio::test]
async fn sixth_failed_login_gets_429_with_the_reason() {
    let server = TestServer::start();
    for value in ["${REQLORE_TOKEN}", "\"x\"", "ghp_x"] {
        let address = |request: TestRequest| request.header("X-Number", value);
        let request = address(request_without_token().header("Authorization", value));
        let first = server.request(&request).await;
        if value == "${REQLORE_TOKEN}" {
            assert_eq!(first.error_code(), (401, -32010));
            for _ in 0..4 {
                assert_eq!(server.status(&request).await, 401);
            }
        }
        let limited = server.request(&request).await;
        assert_eq!(limited.error_code(), (429, -32013), "{value}");
        assert!(limited.body.contains("A valid token is required: the token"), "{limited:?}");
        assert!(limited.header("retry-after").is_some(), "{limited:?}");
    }
    let unknown = server.request(&guessed_token(1)).await;
    assert_eq!(unknown.error_code(), (429, -32013));
    assert!(unknown.body.contains("An administrator creates one"), "{unknown:?}");
    server.assert_serves().await;
    assert_eq!(server.status(&request_without_token().token(&bob_token())).await, 200);
}

// S5: 3.4
#[tokio::test]
async fn refused_request_has_its_id() {
    let rate = Some(RateLimit { every: Duration::from_secs(3600), burst: 1 });
    let server = TestServer::with(HttpLimits { request_rate: rate, ..HttpLimits::default() });
    let body = |id: &str| call("who").replace("\"id\":7", &format!("\"id\":{id}"));
    server.assert_serves().await;
    for (request, status) in [
        (TestRequest::post(""), 401),
        (TestRequest::post("").token(&token("UnknownToken")), 401),
        (TestRequest::post("").token(&ada_token()), 429),
        (TestRequest::post("").token(&bob_token()).with("Content-Type", "text/plain"), 415),
        (TestRequest::post("").line("PUT /api/v1/mcp HTTP/1.1"), 405),
        (TestRequest::post("").header("Origin", "https://evil.example"), 403),
        (TestRequest::post("").line("POST /other HTTP/1.1"), 404),
    ] {
        for (id, wanted) in [("7", json!(7)), ("\"a\"", json!("a")), ("1.5", json!(1.5))] {
            let response = server.request(&request.clone().body(body(id))).await;
            assert_eq!(response.json()["id"], wanted, "{status}: {response:?}");
            if id == "7" {
                assert_eq!(response.status, status, "{response:?}");
            }
        }
        let result = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let response = server.request(&request.body(result)).await;
        assert_eq!(response.json()["id"], json!(null), "a response: {response:?}");
    }
}

// A locked table or a silent network must not hold a request for longer.
#[tokio::test]
async fn slow_look_up_of_a_token_gets_503() {
    let time = Duration::from_millis(50);
    let server = TestServer::with(HttpLimits { request_timeout: time, ..HttpLimits::default() });
    server.tokens.hangs.store(true, Ordering::SeqCst);
    for request in [valid_request(), request_without_token().token(&token("UnknownToken"))] {
        let response = server.request(&request).await;
        assert_eq!(response.error_code(), (503, -32016), "{response:?}");
        assert!(response.header("retry-after").is_some(), "{response:?}");
    }
    server.tokens.hangs.store(false, Ordering::SeqCst);
    server.assert_serves().await;
}

// S5: 5.3; catalogue 97
#[tokio::test]
async fn unreadable_token_is_recorded_but_missing_one_is_not() {
    let server = TestServer::start();
    let tab = format!("Bearer\t{}", ada_token());
    let unreadable = [
        request_without_token().header("Authorization", "Basic YTpi"),
        request_without_token().token(&ada_token()).token(&ada_token()),
        request_without_token().header("Authorization", &tab),
    ];
    for (number, request) in unreadable.iter().enumerate() {
        assert_eq!(server.status(request).await, 401);
        assert_eq!(server.look_ups(), number + 1);
    }
    assert_eq!(server.status(&request_without_token()).await, 401);
    assert_eq!(server.look_ups(), unreadable.len());
}

// S5: 4.6; catalogue 82
#[tokio::test]
async fn revoked_token_fails_next_call_but_running_call_finishes() {
    let server = TestServer::start();
    let mut waiting = server.send(&TestRequest::post(call("wait")).token(&ada_token())).await;
    server.wait_started(1).await;
    server.tokens.set(&ada_token(), Err(TokenError::Expired));
    let response = server.request(&valid_request()).await;
    assert_eq!(response.error_code(), (401, -32010));
    assert!(response.body.contains("expired"), "{response:?}");
    server.stub.gate.add_permits(1);
    assert_eq!(waiting.read_response().await.unwrap().status, 200);
    server.tokens.set(&ada_token(), Err(TokenError::Revoked));
    assert_eq!(server.status(&valid_request()).await, 401);
    server.tokens.set(&ada_token(), Ok(UserRole::User));
    server.assert_serves().await;
}

// S5: 4.1; catalogue 86
#[tokio::test]
async fn token_outside_authorization_header_is_rejected() {
    let server = TestServer::start();
    let log = CapturedLog::capture();
    let token = ada_token();
    let in_url = format!("POST /api/v1/mcp?access_token={token} HTTP/1.1");
    let in_body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "who", "_meta": { "token": token }, "arguments": { "token": token } },
    });
    for request in [
        request_without_token().line(&in_url),
        request_without_token().header("Cookie", &format!("token={token}")),
        TestRequest::post(in_body.to_string()),
        request_without_token().header("X-Api-Key", &token),
        request_without_token().header("Proxy-Authorization", &format!("Bearer {token}")),
    ] {
        assert_eq!(server.status(&request).await, 401);
    }
    assert_eq!(server.error_code(&valid_request().line(&in_url)).await, (400, -32600), "no query");
    assert_eq!(server.calls(), 0);
    assert!(!log.text().contains(&SECRET[..8]), "{}", log.text());
}

// S5: 5.1, 5.2, 5.3; catalogue 97
#[tokio::test]
async fn log_contains_failed_logins_without_secrets() {
    let server = TestServer::start();
    let log = CapturedLog::capture();
    let request =
        request_without_token().token(&token("UnknownToken")).header("X-Request-Id", "my-login");
    let refused = server.request(&request).await;
    server.assert_serves().await;
    server.request(&TestRequest::post(call("forbidden")).token(&ada_token())).await;
    server.request(&TestRequest::post(call("panic")).token(&ada_token())).await;
    // The authenticator logs the warning.
    log.assert_line(&["failed login", "127.0.0.1", "unknown", "id=\"my-login\""]);
    log.assert_line(&["INFO", "code=-32011", "user=\"ada\"", "token=\"AdaAdaAdaAda\""]);
    let text = log.text();
    for part in SECRET.as_bytes().windows(8) {
        let part = std::str::from_utf8(part).unwrap();
        assert!(!text.contains(part) && !refused.body.contains(part), "{part}");
    }
}

// S5: 4.7, 5.3; catalogue 97
#[tokio::test]
async fn guesses_are_limited_but_valid_tokens_are_not() {
    let server = TestServer::start();
    let log = CapturedLog::capture();
    for number in 0..20 {
        let response = server.request(&guessed_token(number)).await;
        if number < 5 {
            assert_eq!(response.status, 401, "{number}");
        } else {
            assert_eq!(response.error_code(), (429, -32013), "{number}");
            let seconds: u64 = response.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
        }
    }
    server.assert_serves().await;
    assert_eq!(
        server.status(&request_without_token().token(&bob_token())).await,
        200,
        "a token not seen before"
    );
    assert_eq!(server.status(&request_without_token().token("nonsense")).await, 429);
    assert_eq!(
        server.status(&request_without_token()).await,
        401,
        "a request without a token is not a guess"
    );
    let text = log.text();
    let loud = text.lines().filter(|line| !line.contains("DEBUG") && !line.contains("TRACE"));
    assert_eq!(loud.count(), 0, "failed logins must not fill the log: {text}");
}

// S5: 4.7; catalogue 106
#[tokio::test]
async fn look_up_limit_leaves_share_for_other_addresses() {
    let every = Duration::from_secs(3600);
    let limits = |burst| HttpLimits {
        look_up_rate: Some(RateLimit { every, burst }),
        ..HttpLimits::default()
    };
    let server = TestServer::with(limits(10));
    server.assert_serves().await;
    for number in 0..100 {
        assert!([401, 429].contains(&server.status(&guessed_token(number)).await));
    }
    // One valid token, five failures, one above the limit, and the share of a guessing address.
    assert_eq!(server.look_ups(), 8);
    server.assert_serves().await;

    let server =
        TestServer::configured(limits(20), |config| config.behind_proxy = Some(<_>::default()));
    for number in 0..99 {
        server.request(&guessed_token(number).header("X-Forwarded-For", "203.0.113.9")).await;
    }
    let last = server.request(&guessed_token(99).header("X-Forwarded-For", "203.0.113.9")).await;
    assert_eq!(last.error_code(), (429, -32013));
    assert!(!last.body.contains("failed"), "it may be valid: {last:?}");
    let other =
        request_without_token().token(&bob_token()).header("X-Forwarded-For", "203.0.113.10");
    assert_eq!(server.status(&other).await, 200);
}

#[tokio::test]
async fn project_header_selects_project_once() {
    let server = TestServer::start();
    let of = |project| valid_request().header("Reqlore-Project", project);
    assert_eq!(server.request(&of("mine")).await.data()["project"], "mine");
    for other in ["theirs", "unknown"] {
        let response = server.request(&of(other)).await;
        assert_eq!(response.error_code(), (404, -32002));
        assert_eq!(response.json()["error"]["message"], "no such project");
    }
    assert_eq!(server.status(&of("mine").header("Reqlore-Project", "mine")).await, 400);
}

// S5: 5.9; catalogue 100
#[tokio::test]
async fn failed_look_up_gets_503_instead_of_401() {
    let server = TestServer::start();
    server.tokens.is_unavailable.store(true, Ordering::SeqCst);
    let log = CapturedLog::capture();
    let response = server.request(&valid_request()).await;
    assert_eq!(response.error_code(), (503, -32016));
    assert!(response.header("retry-after").is_some());
    assert!(!response.body.contains("/secret/path"), "{}", response.body);
    log.assert_line(&["ERROR", response.correlation_id(), "/secret/path"]);
}

// Clients write a body after its head, and reuse the connection of a rejected request.
#[tokio::test]
async fn rejected_request_leaves_connection_usable_or_closed() {
    let server = TestServer::start();
    let mut connection = TestConnection::open(server.address).await;
    connection.write(&request_without_token().head()).await;
    // The server has read the head by now.
    assert_eq!(server.status(&valid_request()).await, 200);
    connection.write(call("who").as_bytes()).await;
    let response = connection.read_response().await.unwrap();
    assert_eq!((response.status, response.header("connection")), (401, None));
    assert_eq!(connection.request(&valid_request()).await.status, 200);

    for length in [("Content-Length", "1000000"), ("Transfer-Encoding", "chunked")] {
        let mut connection = TestConnection::open(server.address).await;
        connection.write(&TestRequest::post("").header(length.0, length.1).head()).await;
        let response = connection.read_response().await.unwrap();
        assert_eq!((response.status, response.header("connection")), (401, Some("close")));
    }
}
