//! Tokens: what is taken for one, what all others are told, and what the log says of them.

use std::sync::atomic::Ordering;

use reqlore_domain::identity::{Role, TokenError};
use serde_json::json;

use crate::client::{Ask, Connection};
use crate::server::{Log, SECRET, Server, ada, bob, call, good, token};

// S5: 1.2, 1.3, 1.5, 4.1, 4.2, 4.3
#[tokio::test]
async fn a_call_runs_in_the_name_of_the_tokens_owner() {
    let server = Server::start();
    for (token, name) in [(ada(), "ada"), (bob(), "bob")] {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let ask = Ask::post(call("who")).header("Authorization", &format!("{scheme} {token}"));
            let answer = server.ask(&ask).await;
            assert_eq!(answer.status, 200);
            let data = &answer.json()["result"]["structuredContent"];
            assert_eq!(data["user"], name, "{answer:?}");
        }
    }
    assert_eq!(server.tokens.look_ups.load(Ordering::SeqCst), 6, "judged at each call");
}

// S5: 1.2, 1.4, 4.1; catalogue 80, 85
#[tokio::test]
async fn whatever_is_no_token_that_counts_gets_one_answer() {
    let limits = reqlore_transport_http::Limits { failed_logins: None, ..Default::default() };
    let server = Server::with(limits);
    for (id, denial) in [
        ("RevokedToken", TokenError::Revoked),
        ("WrongSecret1", TokenError::Wrong),
        ("RetiredToken", TokenError::Retired),
        ("NotYetValid1", TokenError::NotYetValid),
        ("DisabledUser", TokenError::Disabled),
    ] {
        server.tokens.set(&token(id), Err(denial));
    }
    let bearer = |token: &str| format!("Bearer {token}");
    let two = format!("Bearer {}, Bearer {}", ada(), bob());
    let mut shapes = std::collections::BTreeSet::new();
    for value in [
        bearer(&token("UnknownToken")),
        bearer(&token("RevokedToken")),
        bearer(&token("WrongSecret1")),
        bearer(&token("RetiredToken")),
        bearer(&token("NotYetValid1")),
        bearer(&token("DisabledUser")),
        bearer(&ada()[..ada().len() - 1]),
        bearer("ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
        bearer("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ."),
        bearer(&ada().to_lowercase()),
        bearer(""),
        "Bearer".to_owned(),
        format!("Bearer\t{}", ada()),
        format!("Bearer  {}", ada()),
        format!("Basic {}", ada()),
        format!("Token {}", ada()),
        ada(),
        two,
        format!("Bearer {} x", ada()),
    ] {
        let ask = Ask::post(call("who")).header("Authorization", &value);
        let answer = server.ask(&ask).await;
        assert_eq!((answer.status, answer.code()), (401, -32010), "{value}");
        let challenge = answer.header("www-authenticate").unwrap_or_default().to_owned();
        assert_eq!(challenge, "Bearer error=\"invalid_token\"", "{value}");
        shapes.insert(answer.body);
    }
    assert_eq!(shapes.len(), 1, "{shapes:?}");
    let bearer = format!("Bearer {}", ada());
    let twice = good().header("Authorization", &bearer);
    assert_eq!(server.ask(&twice).await.status, 401);
    let none = server.ask(&Ask::post(call("who"))).await;
    assert_eq!((none.status, none.code()), (401, -32010));
    assert_eq!(none.header("www-authenticate"), Some("Bearer"), "there was no token to call wrong");
    assert_eq!(server.stub.called.load(Ordering::SeqCst), 0);
    server.lives().await;
}

// S5: 5.3; catalogue 97
#[tokio::test]
async fn what_can_t_be_read_is_told_to_who_keeps_the_record_and_no_token_is_not() {
    let server = Server::start();
    let ask = Ask::post(call("who"));
    let double = format!("Bearer  {}", ada());
    let basic = ask.clone().header("Authorization", "Basic YTpi");
    let twice = ask.clone().token(&ada()).token(&ada());
    let unreadable = [basic, twice, ask.clone().header("Authorization", &double)];
    for (n, ask) in unreadable.iter().enumerate() {
        assert_eq!(server.ask(ask).await.status, 401);
        assert_eq!(server.tokens.look_ups.load(Ordering::SeqCst), n + 1);
    }
    assert_eq!(server.ask(&ask).await.status, 401);
    assert_eq!(server.tokens.look_ups.load(Ordering::SeqCst), unreadable.len());
}

// S5: 4.6; catalogue 82
#[tokio::test]
async fn what_ended_counts_no_more_from_the_next_call_on() {
    let server = Server::start();
    server.lives().await;
    server.tokens.set(&ada(), Err(TokenError::Expired));
    let answer = server.ask(&good()).await;
    assert_eq!((answer.status, answer.code()), (401, -32010));
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("expired"), "{message}");
    server.tokens.set(&ada(), Err(TokenError::Revoked));
    assert_eq!(server.ask(&good()).await.status, 401);
    server.tokens.set(&ada(), Ok(Role::User));
    server.lives().await;
}

// S5: 4.6; catalogue 82
#[tokio::test]
async fn a_call_that_runs_when_its_token_ends_ends_well() {
    let server = Server::start();
    let mut waiting = server.begin(&Ask::post(call("wait")).token(&ada())).await;
    server.begun(1).await;
    server.tokens.set(&ada(), Err(TokenError::Expired));
    assert_eq!(server.ask(&good()).await.status, 401);
    server.stub.gate.add_permits(1);
    assert_eq!(waiting.answer().await.unwrap().status, 200);
}

// S5: 4.1; catalogue 86
#[tokio::test]
async fn a_token_counts_in_its_header_alone() {
    let server = Server::start();
    let (log, _guard) = Log::keep();
    let token = ada();
    let in_url = format!("POST /api/v1/mcp?access_token={token} HTTP/1.1");
    let in_body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "who", "_meta": { "token": token }, "arguments": { "token": token } },
    });
    for ask in [
        Ask::post(call("who")).line(&in_url),
        Ask::post(call("who")).header("Cookie", &format!("token={token}")),
        Ask::post(in_body.to_string()),
        Ask::post(call("who")).header("X-Api-Key", &token),
        Ask::post(call("who")).header("Proxy-Authorization", &format!("Bearer {token}")),
    ] {
        assert_eq!(server.ask(&ask).await.status, 401);
    }
    let answer = server.ask(&good().line(&in_url)).await;
    assert_eq!((answer.status, answer.code()), (400, -32600), "a query is nothing we take");
    assert_eq!(server.stub.called.load(Ordering::SeqCst), 0);
    assert!(!log.text().contains(&SECRET[..8]), "{}", log.text());
}

// S5: 5.1, 5.2, 5.3; catalogue 97
#[tokio::test]
async fn failed_logins_stand_in_the_log_and_secrets_never() {
    let server = Server::start();
    let (log, _guard) = Log::keep();
    let wrong = token("UnknownToken");
    let ask = Ask::post(call("who")).token(&wrong).header("X-Request-Id", "my-login");
    let refused = server.ask(&ask).await;
    server.lives().await;
    server.ask(&Ask::post(call("forbidden")).token(&ada())).await;
    server.ask(&Ask::post(call("panic")).token(&ada())).await;
    let text = log.text();
    let line = text.lines().find(|line| line.contains("failed login")).unwrap();
    // The authenticator warns of it; this is where it came in.
    for part in ["127.0.0.1", "unknown", "id=\"my-login\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
    for part in SECRET.as_bytes().windows(8) {
        let part = std::str::from_utf8(part).unwrap();
        assert!(!text.contains(part) && !refused.body.contains(part), "{part}");
    }
    let line = text.lines().find(|line| line.contains("INFO") && line.contains("status=403"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("user=\"ada\"") && line.contains("token=\"AdaAdaAdaAda\""), "{line}");
}

// S5: 5.3; catalogue 97
#[tokio::test]
async fn whoever_fails_to_log_in_does_not_fill_the_log() {
    let server = Server::start();
    let (log, _guard) = Log::keep();
    for n in 0..10 {
        let forged = token(&format!("Forged{n:06}"));
        assert_ne!(server.ask(&Ask::post(call("who")).token(&forged)).await.status, 200);
        assert_eq!(server.ask(&Ask::post(call("who"))).await.status, 401);
    }
    let text = log.text();
    let loud = text.lines().filter(|line| !line.contains("DEBUG") && !line.contains("TRACE"));
    assert_eq!(loud.count(), 0, "{text}");
}

// S5: 4.7
#[tokio::test]
async fn who_guesses_is_slowed_down_and_who_has_a_token_is_not() {
    let server = Server::start();
    for n in 0..20 {
        let ask = Ask::post(call("who")).token(&token(&format!("Guess{n:07}")));
        let answer = server.ask(&ask).await;
        if n < 5 {
            assert_eq!(answer.status, 401, "{n}");
        } else {
            assert_eq!((answer.status, answer.code()), (429, -32013), "{n}");
            let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
        }
    }
    server.lives().await;
    let bob = server.ask(&Ask::post(call("who")).token(&bob())).await;
    assert_eq!(bob.status, 200, "also who was not seen before");
    let malformed = server.ask(&Ask::post(call("who")).token("nonsense")).await;
    assert_eq!(malformed.status, 429);
    assert_eq!(server.ask(&Ask::post(call("who"))).await.status, 401, "no guess, no token");
}

// S5: 4.7; catalogue 106
#[tokio::test]
async fn forged_tokens_are_not_looked_up_without_end() {
    let hour = std::time::Duration::from_secs(3600);
    let look_ups = Some(reqlore_transport_http::Rate { every: hour, burst: 10 });
    let limits = reqlore_transport_http::Limits { look_ups, ..Default::default() };
    let server = Server::with(limits);
    server.lives().await;
    for n in 0..100 {
        let ask = Ask::post(call("who")).token(&token(&format!("Forged{n:06}")));
        assert!([401, 429].contains(&server.ask(&ask).await.status));
    }
    // One good, as many as may fail, one that was too many, and one as the address's own share.
    assert_eq!(server.tokens.look_ups.load(Ordering::SeqCst), 8);
    server.lives().await;
}

// S5: 4.7; catalogue 106
#[tokio::test]
async fn who_guesses_uses_up_nobody_elses_first_look_up() {
    let hour = std::time::Duration::from_secs(3600);
    let look_ups = Some(reqlore_transport_http::Rate { every: hour, burst: 20 });
    let limits = reqlore_transport_http::Limits { look_ups, ..Default::default() };
    let server = Server::configured(limits, |config| config.behind_proxy = Some(<_>::default()));
    let from = |address: &str, token: &str| {
        Ask::post(call("who")).token(token).header("X-Forwarded-For", address)
    };
    let mut last = None;
    for n in 0..100 {
        let forged = token(&format!("Forged{n:06}"));
        last = Some(server.ask(&from("203.0.113.9", &forged)).await);
    }
    let last = last.unwrap();
    assert_eq!((last.status, last.code()), (429, -32013));
    let message = last.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(!message.contains("failed"), "it may be a good one: {message}");
    assert_eq!(server.ask(&from("203.0.113.10", &bob())).await.status, 200);
}

#[tokio::test]
async fn a_request_may_name_its_project_once() {
    let server = Server::start();
    let answer = server.ask(&good().header("Reqlore-Project", "mine")).await;
    assert_eq!(answer.json()["result"]["structuredContent"]["project"], "mine", "{answer:?}");
    for other in ["theirs", "nobodys"] {
        let answer = server.ask(&good().header("Reqlore-Project", other)).await;
        assert_eq!((answer.status, answer.code()), (404, -32002));
        assert_eq!(answer.json()["error"]["message"], "no such project");
    }
    let twice = good().header("Reqlore-Project", "mine").header("Reqlore-Project", "mine");
    assert_eq!(server.ask(&twice).await.status, 400);
}

// S5: 5.9; catalogue 100
#[tokio::test]
async fn a_token_that_can_t_be_looked_up_is_not_called_wrong() {
    let server = Server::start();
    server.tokens.broken.store(true, Ordering::SeqCst);
    let (log, _guard) = Log::keep();
    let answer = server.ask(&good()).await;
    assert_eq!((answer.status, answer.code()), (503, -32016));
    assert!(answer.header("retry-after").is_some());
    assert!(!answer.body.contains("/secret/path"), "{}", answer.body);
    let id = answer.header("x-request-id").unwrap();
    assert_eq!(answer.json()["error"]["data"]["correlation_id"], *id);
    let text = log.text();
    let line = text.lines().find(|line| line.contains("ERROR") && line.contains(id));
    assert!(line.is_some_and(|line| line.contains("/secret/path")), "{text}");
}

// Clients write a body after its head, and go on with the connection that refused it.
#[tokio::test]
async fn a_refused_request_leaves_its_connection_whole_or_says_that_it_ends() {
    let server = Server::start();
    let mut connection = Connection::open(server.address).await;
    let refused = Ask::post(call("who"));
    connection.write(&refused.head()).await;
    // By now the server has seen the head.
    assert_eq!(server.ask(&good()).await.status, 200);
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
