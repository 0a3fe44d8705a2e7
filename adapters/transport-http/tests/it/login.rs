//! Tokens: valid and invalid ones, limits of guesses, and the log.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqlore_domain::identity::{Role, TokenError};
use reqlore_transport_http::{Limits, Rate};
use serde_json::json;

use crate::client::{Ask, Connection};
use crate::server::{Log, SECRET, Server, ada, bob, call, good, token, who};

fn guess(number: u32) -> Ask {
    who().token(&token(&format!("Forged{number:06}")))
}

// S5: 1.2, 1.3, 1.5, 4.1, 4.2, 4.3
#[tokio::test]
async fn call_runs_as_the_owner_of_its_token() {
    let server = Server::start();
    for (token, name) in [(ada(), "ada"), (bob(), "bob")] {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let ask = who().header("Authorization", &format!("{scheme} {token}"));
            assert_eq!(server.ask(&ask).await.data()["user"], name);
        }
    }
    assert_eq!(server.look_ups(), 6, "each call is authenticated");
}

// S5: 1.2, 1.4, 4.1; catalogue 80, 85
#[tokio::test]
async fn every_invalid_token_gets_the_same_401() {
    let server = Server::with(Limits { failed_logins: None, ..Limits::default() });
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
    let ada = ada();
    values.extend([
        format!("Bearer {}", &ada[..ada.len() - 1]),
        "Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a".to_owned(),
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.".to_owned(),
        format!("Bearer {}", ada.to_lowercase()),
        "Bearer ".to_owned(),
        "Bearer".to_owned(),
        format!("Bearer\t{ada}"),
        format!("Bearer  {ada}"),
        format!("Basic {ada}"),
        format!("Token {ada}"),
        ada.clone(),
        format!("Bearer {ada}, Bearer {}", bob()),
        format!("Bearer {ada} x"),
    ]);
    let mut bodies = std::collections::BTreeSet::new();
    for value in values {
        let answer = server.ask(&who().header("Authorization", &value)).await;
        assert_eq!(answer.refusal(), (401, -32010), "{value}");
        let challenge = answer.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer error=\"invalid_token\""), "{value}");
        bodies.insert(answer.body);
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(server.status(&good().token(&ada)).await, 401, "two headers");
    let none = server.ask(&who()).await;
    assert_eq!(none.refusal(), (401, -32010));
    assert_eq!(none.header("www-authenticate"), Some("Bearer"), "no token, so none is invalid");
    assert_eq!(server.called(), 0);
    server.lives().await;
}

// S5: 5.3; catalogue 97
#[tokio::test]
async fn authenticator_records_unreadable_headers_but_not_missing_ones() {
    let server = Server::start();
    let double = format!("Bearer  {}", ada());
    let unreadable = [
        who().header("Authorization", "Basic YTpi"),
        who().token(&ada()).token(&ada()),
        who().header("Authorization", &double),
    ];
    for (number, ask) in unreadable.iter().enumerate() {
        assert_eq!(server.status(ask).await, 401);
        assert_eq!(server.look_ups(), number + 1);
    }
    assert_eq!(server.status(&who()).await, 401);
    assert_eq!(server.look_ups(), unreadable.len());
}

// S5: 4.6; catalogue 82
#[tokio::test]
async fn token_ends_at_the_next_call_and_running_calls_finish() {
    let server = Server::start();
    let mut waiting = server.begin(&Ask::post(call("wait")).token(&ada())).await;
    server.begun(1).await;
    server.tokens.set(&ada(), Err(TokenError::Expired));
    let answer = server.ask(&good()).await;
    assert_eq!(answer.refusal(), (401, -32010));
    assert!(answer.body.contains("expired"), "{answer:?}");
    server.stub.gate.add_permits(1);
    assert_eq!(waiting.answer().await.unwrap().status, 200);
    server.tokens.set(&ada(), Err(TokenError::Revoked));
    assert_eq!(server.status(&good()).await, 401);
    server.tokens.set(&ada(), Ok(Role::User));
    server.lives().await;
}

// S5: 4.1; catalogue 86
#[tokio::test]
async fn token_is_valid_in_its_header_alone() {
    let server = Server::start();
    let log = Log::keep();
    let token = ada();
    let in_url = format!("POST /api/v1/mcp?access_token={token} HTTP/1.1");
    let in_body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "who", "_meta": { "token": token }, "arguments": { "token": token } },
    });
    for ask in [
        who().line(&in_url),
        who().header("Cookie", &format!("token={token}")),
        Ask::post(in_body.to_string()),
        who().header("X-Api-Key", &token),
        who().header("Proxy-Authorization", &format!("Bearer {token}")),
    ] {
        assert_eq!(server.status(&ask).await, 401);
    }
    assert_eq!(server.refusal(&good().line(&in_url)).await, (400, -32600), "no query");
    assert_eq!(server.called(), 0);
    assert!(!log.text().contains(&SECRET[..8]), "{}", log.text());
}

// S5: 5.1, 5.2, 5.3; catalogue 97
#[tokio::test]
async fn log_has_failed_logins_and_no_secrets() {
    let server = Server::start();
    let log = Log::keep();
    let ask = who().token(&token("UnknownToken")).header("X-Request-Id", "my-login");
    let refused = server.ask(&ask).await;
    server.lives().await;
    server.ask(&Ask::post(call("forbidden")).token(&ada())).await;
    server.ask(&Ask::post(call("panic")).token(&ada())).await;
    // The authenticator logs the warning.
    log.assert_line(&["failed login", "127.0.0.1", "unknown", "id=\"my-login\""]);
    log.assert_line(&["INFO", "status=403", "user=\"ada\"", "token=\"AdaAdaAdaAda\""]);
    let text = log.text();
    for part in SECRET.as_bytes().windows(8) {
        let part = std::str::from_utf8(part).unwrap();
        assert!(!text.contains(part) && !refused.body.contains(part), "{part}");
    }
}

// S5: 4.7, 5.3; catalogue 97
#[tokio::test]
async fn guesses_are_limited_and_valid_tokens_of_the_address_are_not() {
    let server = Server::start();
    let log = Log::keep();
    for number in 0..20 {
        let answer = server.ask(&guess(number)).await;
        if number < 5 {
            assert_eq!(answer.status, 401, "{number}");
        } else {
            assert_eq!(answer.refusal(), (429, -32013), "{number}");
            let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
        }
    }
    server.lives().await;
    assert_eq!(server.status(&who().token(&bob())).await, 200, "a token not seen before");
    assert_eq!(server.status(&who().token("nonsense")).await, 429);
    assert_eq!(server.status(&who()).await, 401, "a request without a token is not a guess");
    let text = log.text();
    let loud = text.lines().filter(|line| !line.contains("DEBUG") && !line.contains("TRACE"));
    assert_eq!(loud.count(), 0, "failed logins do not fill the log: {text}");
}

// S5: 4.7; catalogue 106
#[tokio::test]
async fn look_ups_are_limited_and_leave_room_for_other_addresses() {
    let every = Duration::from_secs(3600);
    let limits = |burst| Limits { look_ups: Some(Rate { every, burst }), ..Limits::default() };
    let server = Server::with(limits(10));
    server.lives().await;
    for number in 0..100 {
        assert!([401, 429].contains(&server.status(&guess(number)).await));
    }
    // One valid token, five failures, one too many, and the share of a guessing address.
    assert_eq!(server.look_ups(), 8);
    server.lives().await;

    let server =
        Server::configured(limits(20), |config| config.behind_proxy = Some(<_>::default()));
    for number in 0..99 {
        server.ask(&guess(number).header("X-Forwarded-For", "203.0.113.9")).await;
    }
    let last = server.ask(&guess(99).header("X-Forwarded-For", "203.0.113.9")).await;
    assert_eq!(last.refusal(), (429, -32013));
    assert!(!last.body.contains("failed"), "it may be valid: {last:?}");
    let other = who().token(&bob()).header("X-Forwarded-For", "203.0.113.10");
    assert_eq!(server.status(&other).await, 200);
}

#[tokio::test]
async fn request_may_name_its_project_once() {
    let server = Server::start();
    let of = |project| good().header("Reqlore-Project", project);
    assert_eq!(server.ask(&of("mine")).await.data()["project"], "mine");
    for other in ["theirs", "unknown"] {
        let answer = server.ask(&of(other)).await;
        assert_eq!(answer.refusal(), (404, -32002));
        assert_eq!(answer.json()["error"]["message"], "no such project");
    }
    assert_eq!(server.status(&of("mine").header("Reqlore-Project", "mine")).await, 400);
}

// S5: 5.9; catalogue 100
#[tokio::test]
async fn failed_look_up_is_a_503_and_not_an_invalid_token() {
    let server = Server::start();
    server.tokens.broken.store(true, Ordering::SeqCst);
    let log = Log::keep();
    let answer = server.ask(&good()).await;
    assert_eq!(answer.refusal(), (503, -32016));
    assert!(answer.header("retry-after").is_some());
    assert!(!answer.body.contains("/secret/path"), "{}", answer.body);
    log.assert_line(&["ERROR", answer.correlation_id(), "/secret/path"]);
}

// Clients write a body after its head, and reuse the connection that refused it.
#[tokio::test]
async fn connection_of_a_refused_request_stays_usable_or_is_closed() {
    let server = Server::start();
    let mut connection = Connection::open(server.address).await;
    connection.write(&who().head()).await;
    // By now the server has seen the head.
    assert_eq!(server.status(&good()).await, 200);
    connection.write(call("who").as_bytes()).await;
    let answer = connection.answer().await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (401, None));
    assert_eq!(connection.ask(&good()).await.status, 200);

    for length in [("Content-Length", "1000000"), ("Transfer-Encoding", "chunked")] {
        let mut connection = Connection::open(server.address).await;
        connection.write(&Ask::post("").header(length.0, length.1).head()).await;
        let answer = connection.answer().await.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (401, Some("close")));
    }
}
