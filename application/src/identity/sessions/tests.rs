//! Tests of sessions on the memory store.

use reqlore_domain::identity::token::SESSION_PREFIX;
use reqlore_domain::identity::{Caller, User, UserRole};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::project_key::ProjectKey;

use super::*;
use crate::RetentionDays;
use crate::test_support::team::{TestTeam, id, presented};

fn credentials(token: &str) -> Credentials<'_> {
    let (address, correlation_id) = ("192.0.2.7", "page-1");
    Credentials { token: Some(token), project: None, address, correlation_id }
}

fn denial<T: std::fmt::Debug>(outcome: Result<T, AuthenticationError>) -> TokenError {
    match outcome {
        Err(AuthenticationError::Token(denial)) => denial,
        other => panic!("{other:?}"),
    }
}

/// A team whose user has the token `a`, and the session that it began.
async fn signed_in(role: UserRole, scope: Access) -> (TestTeam, TokenSessions, String) {
    let team = TestTeam::new();
    team.join('a', "ada", role, scope).await;
    let sessions = team.application.sessions(Arc::clone(&team.authenticator));
    let issued = sessions.sign_in(credentials(&presented('a').reveal())).await.unwrap();
    (team, sessions, issued.secret)
}

async fn caller(sessions: &TokenSessions, secret: &str) -> Result<Arc<Caller>, TokenError> {
    match sessions.caller(credentials(secret)).await {
        Ok(caller) => Ok(caller),
        Err(AuthenticationError::Token(denial)) => Err(denial),
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn session_has_rights_and_channel_of_its_token() {
    let (team, sessions, secret) = signed_in(UserRole::User, Access::Read).await;
    assert!(secret.starts_with(SESSION_PREFIX), "{SESSION_PREFIX}");
    let caller = caller(&sessions, &secret).await.unwrap();
    assert_eq!((&*caller.name, caller.role, caller.access), ("ada", UserRole::User, Access::Read));
    assert_eq!((caller.channel, &caller.token), (CallChannel::Web, &Some(id('a'))));
    let shop = Credentials { project: Some("none"), ..credentials(&secret) };
    let foreign = sessions.caller(shop).await.unwrap_err();
    assert!(matches!(foreign, AuthenticationError::Project(_)), "{foreign:?}");
    let default = Credentials { project: Some("default"), ..credentials(&secret) };
    assert_eq!(sessions.caller(default).await.unwrap().project, ProjectKey::default());
    team.call(&caller, "list_items_by_tag", serde_json::json!({}), None).await.ok();
    let rows = team.rows().await;
    let sign_in = rows.iter().find(|row| row.action == "session/sign-in").unwrap();
    assert_eq!(
        (&*sign_in.user, &sign_in.token, sign_in.channel),
        ("ada", &Some(id('a')), CallChannel::Web)
    );
    assert_eq!(rows.last().unwrap().channel, CallChannel::Web);
}

#[tokio::test]
async fn session_is_no_token_and_token_is_no_session() {
    let (team, sessions, secret) = signed_in(UserRole::User, Access::Write).await;
    assert_eq!(denial(team.show(Some(&secret), None).await), TokenError::Malformed);
    // The same letters with the other prefix and its checksum.
    let parts: Vec<&str> = secret.split('_').collect();
    let disguised = PresentedToken::new(parts[2], parts[3]).unwrap();
    let shown = team.show(Some(&disguised.reveal()), None).await;
    assert_eq!(denial(shown), TokenError::Unknown);
    let token = presented('a');
    assert_eq!(caller(&sessions, &token.reveal()).await.unwrap_err(), TokenError::Malformed);
    let disguised = token.for_session().reveal();
    assert_eq!(caller(&sessions, &disguised).await.unwrap_err(), TokenError::Unknown);
    assert_eq!(denial(sessions.sign_in(credentials(&secret)).await), TokenError::Malformed);
}

#[tokio::test]
async fn oldest_session_of_a_token_ends_beyond_the_limit() {
    let (team, sessions, first) = signed_in(UserRole::User, Access::Write).await;
    team.join('b', "bob", UserRole::User, Access::Write).await;
    let sign_in = async |letter| {
        sessions.sign_in(credentials(&presented(letter).reveal())).await.unwrap().secret
    };
    let other = sign_in('b').await;
    let mut open = vec![first];
    for _ in 1..MAX_SESSIONS {
        open.push(sign_in('a').await);
    }
    for secret in &open {
        assert!(caller(&sessions, secret).await.is_ok(), "{MAX_SESSIONS} sessions");
    }
    for ended in 0..3 {
        open.push(sign_in('a').await);
        for (number, secret) in open.iter().enumerate() {
            assert_eq!(caller(&sessions, secret).await.is_ok(), number > ended, "{number}");
        }
    }
    assert!(caller(&sessions, &other).await.is_ok(), "of another token");
}

#[tokio::test]
async fn session_ends_with_token_user_and_time() {
    let (team, sessions, secret) = signed_in(UserRole::User, Access::Write).await;
    caller(&sessions, &secret).await.unwrap();
    let token = team.token('a', "ada", Access::Write);
    let user = team.user("ada", UserRole::User);
    let now = team.clock.now();
    for (change, end) in [
        (
            IdentityChange::Token(Token { revoked_at: Some(now), ..token.clone() }),
            TokenError::Revoked,
        ),
        (
            IdentityChange::Token(Token {
                expires_at: now,
                successor: Some(id('b')),
                ..token.clone()
            }),
            TokenError::Retired,
        ),
        (
            IdentityChange::User(User { disabled_at: Some(now), ..user.clone() }),
            TokenError::Disabled,
        ),
    ] {
        team.put(change).await;
        assert_eq!(caller(&sessions, &secret).await.unwrap_err(), end);
        team.put(IdentityChange::Token(token.clone())).await;
        team.put(IdentityChange::User(user.clone())).await;
        caller(&sessions, &secret).await.unwrap();
    }
    // A role that changes applies to the next request.
    team.put(IdentityChange::User(User { role: UserRole::Commenter, ..user })).await;
    assert_eq!(caller(&sessions, &secret).await.unwrap().access, Access::Read);
    // The token of this test is valid for 1,000 seconds, and no session outlives its token.
    team.pass(1_000);
    assert_eq!(caller(&sessions, &secret).await.unwrap_err(), TokenError::Expired);
}

#[tokio::test]
async fn session_lasts_twelve_hours_and_is_removed() {
    let team = TestTeam::new();
    let year = Timestamp::new(team.clock.now().seconds() + 366 * 24 * 60 * 60, 0);
    team.put(IdentityChange::User(team.user("ada", UserRole::User))).await;
    let token = Token { expires_at: year, ..team.token('a', "ada", Access::Write) };
    team.put(IdentityChange::Token(token)).await;
    let sessions = team.application.sessions(Arc::clone(&team.authenticator));
    let issued = sessions.sign_in(credentials(&presented('a').reveal())).await.unwrap();
    let keep_days = RetentionDays { audit: 1, history: 0 };
    let maintenance =
        team.application.maintenance(Some(Arc::clone(&team.authenticator)), keep_days);
    maintenance.tick().await;
    team.pass(LIFETIME_SECONDS - 1);
    maintenance.tick().await;
    caller(&sessions, &issued.secret).await.unwrap();
    team.pass(1);
    assert_eq!(caller(&sessions, &issued.secret).await.unwrap_err(), TokenError::Expired);
    team.pass(60 * 60);
    maintenance.tick().await;
    let id = PresentedToken::parse_session(&issued.secret).unwrap().id;
    assert_eq!(team.authenticator.identities.token_owner(&id).await.unwrap(), None);
    assert!(team.login('a').await.is_ok());
}

#[tokio::test]
async fn sign_out_ends_only_this_session() {
    let (team, sessions, secret) = signed_in(UserRole::User, Access::Write).await;
    let other = sessions.sign_in(credentials(&presented('a').reveal())).await.unwrap().secret;
    sessions.sign_out(credentials(&secret)).await.unwrap();
    assert_eq!(caller(&sessions, &secret).await.unwrap_err(), TokenError::Revoked);
    caller(&sessions, &other).await.unwrap();
    team.login('a').await.unwrap();
    for ended in [secret.as_str(), "x"] {
        sessions.sign_out(credentials(ended)).await.unwrap();
    }
    let rows = team.rows().await;
    let signed_out = rows.iter().filter(|row| row.action == "session/sign-out");
    assert_eq!(signed_out.count(), 1);
}

#[tokio::test]
async fn sign_in_with_invalid_or_metrics_token_is_audited() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::Administrator, Access::Metrics).await;
    let sessions = team.application.sessions(Arc::clone(&team.authenticator));
    for (token, expected) in [('a', TokenError::MetricsOnly), ('z', TokenError::Unknown)] {
        let signed_in = sessions.sign_in(credentials(&presented(token).reveal())).await;
        assert_eq!(denial(signed_in), expected);
        let rows = team.rows().await;
        let row = rows.last().unwrap();
        assert_eq!((&*row.action, &*row.result), ("login", expected.name()));
    }
}
