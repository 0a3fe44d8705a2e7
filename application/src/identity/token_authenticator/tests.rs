//! Tests of authentication on the memory store.

use reqlore_domain::identity::{Token, User, UserRole};
use reqlore_domain::ports::identity::IdentityChange;

use super::*;
use crate::RetentionDays;
use crate::test_support::team::{TestTeam, id, presented};

fn denial(outcome: Result<Arc<Caller>, AuthenticationError>) -> TokenError {
    match outcome {
        Err(AuthenticationError::Token(denial)) => denial,
        other => panic!("{other:?}"),
    }
}

// S5: 1.3, 1.5, 4.1, 4.3
#[tokio::test]
async fn login_access_is_minimum_of_role_and_scope() {
    let team = TestTeam::new();
    for (letter, role, scope, access) in [
        ('a', UserRole::Administrator, Access::Write, Access::Write),
        ('b', UserRole::User, Access::Write, Access::Write),
        ('c', UserRole::User, Access::Read, Access::Read),
        ('d', UserRole::Commenter, Access::Write, Access::Read),
        ('e', UserRole::Administrator, Access::Read, Access::Read),
    ] {
        team.join(letter, &format!("user-{letter}"), role, scope).await;
        let caller = team.login(letter).await.unwrap();
        assert_eq!(&*caller.name, format!("user-{letter}"));
        assert_eq!((caller.role, caller.access), (role, access), "{letter}");
        assert_eq!((&caller.token, &caller.scope), (&Some(id(letter)), &ProjectScope::Configured));
    }
    let read_only = TestTeam::with_max_access(Access::Read);
    read_only.join('a', "ada", UserRole::Administrator, Access::Write).await;
    assert_eq!(read_only.login('a').await.unwrap().access, Access::Read);
}

// S5: 1.4, 4.2, 4.6
#[tokio::test]
async fn login_with_invalid_token_is_rejected() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::User, Access::Write).await;
    assert_eq!(denial(team.show(None, None).await), TokenError::Missing);
    for malformed in ["", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "a.b.c", " "] {
        assert_eq!(denial(team.show(Some(malformed), None).await), TokenError::Malformed);
    }
    assert_eq!(denial(team.login('z').await), TokenError::Unknown);
    let other = PresentedToken::new(id('a').as_str(), &"x".repeat(32)).unwrap().reveal();
    assert_eq!(denial(team.show(Some(&other), None).await), TokenError::Wrong);
    team.pass(999);
    team.login('a').await.unwrap();
    team.pass(1);
    assert_eq!(denial(team.login('a').await), TokenError::Expired);
}

#[tokio::test]
async fn login_after_identity_change_applies_it_at_once() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::User, Access::Write).await;
    assert_eq!(team.login('a').await.unwrap().access, Access::Write);
    team.put(IdentityChange::User(team.user("ada", UserRole::Commenter))).await;
    assert_eq!(team.login('a').await.unwrap().access, Access::Read);
    let disabled = User { disabled_at: Some(team.clock.now()), ..team.user("ada", UserRole::User) };
    team.put(IdentityChange::User(disabled)).await;
    assert_eq!(denial(team.login('a').await), TokenError::Disabled);
    team.put(IdentityChange::User(team.user("ada", UserRole::User))).await;
    team.login('a').await.unwrap();
    let token = team.token('a', "ada", Access::Write);
    let revoked = Token { revoked_at: Some(team.clock.now()), ..token };
    team.put(IdentityChange::Token(revoked)).await;
    assert_eq!(denial(team.login('a').await), TokenError::Revoked);
}

#[tokio::test]
async fn login_is_cached_until_an_identity_changes() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::User, Access::Write).await;
    let first = team.login('a').await.unwrap();
    let second = team.login('a').await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    team.put(IdentityChange::User(team.user("bob", UserRole::User))).await;
    assert!(!Arc::ptr_eq(&first, &team.login('a').await.unwrap()));
}

#[tokio::test]
async fn login_project_is_header_or_first_existing_of_token() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::User, Access::Write).await;
    let [web, default] = [ProjectKey::new("web"), ProjectKey::default()];
    for (letter, projects, expected) in [
        ('b', vec![web.clone()], &web),
        ('c', vec![web.clone(), default.clone()], &web),
        ('f', vec![default.clone(), web.clone()], &default),
        ('d', vec![ProjectKey::new("gone"), web.clone()], &web),
        ('e', vec![ProjectKey::new("gone")], &ProjectKey::new("gone")),
    ] {
        let token = Token { projects, ..team.token(letter, "ada", Access::Write) };
        team.put(IdentityChange::Token(token)).await;
        assert_eq!(&team.login(letter).await.unwrap().project, expected);
    }
    assert!(team.login('a').await.unwrap().project.is_default());
    let shown = |letter| presented(letter).reveal();
    let named = team.show(Some(&shown('a')), Some("web")).await.unwrap();
    assert_eq!(named.project, web);
    let mut errors = Vec::new();
    for project in ["default", "nowhere", "/etc", ""] {
        match team.show(Some(&shown('b')), Some(project)).await {
            Err(AuthenticationError::Project(error)) => {
                errors.push(error.message.replace(project, "X"));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(errors[0].contains("the projects that you can use are: web."), "{}", errors[0]);
    assert_eq!(errors[0], errors[1], "a foreign and a missing project have the same error");
    let rows = team.rows().await;
    assert_eq!((&*rows[0].user, &*rows[0].targets[0].name), ("ada", "default"));
}

// S5: 4.5, 4.8
#[tokio::test]
async fn rejected_login_is_audited_with_token_id_only() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::User, Access::Write).await;
    let _ = team.show(None, None).await;
    let _ = team.show(Some("nonsense"), None).await;
    let _ = team.login('z').await;
    let rows = team.rows().await;
    let results: Vec<_> = rows.iter().map(|row| (&*row.result, row.token.clone())).collect();
    assert_eq!(results, [("malformed", None), ("unknown", Some(id('z')))]);
    assert!(rows.iter().all(|row| row.reason == "from 192.0.2.7" && row.user.is_empty()));
    for _ in 0..300 {
        let _ = team.login('z').await;
    }
    team.authenticator.save_token_uses().await.unwrap();
    let rows = team.rows().await;
    assert!(rows.len() < 102, "a flood of guesses made {} rows", rows.len());
    assert_eq!(rows.last().unwrap().reason, "202 more logins were refused");
    for _ in 0..200 {
        let _ = team.login('z').await;
    }
    team.pass(2_000);
    for _ in 0..10 {
        let _ = team.login('a').await;
    }
    let rows = team.rows().await;
    let expired = rows.iter().filter(|row| row.result == "expired");
    assert_eq!(expired.count(), 5, "guesses do not hide uses of the true secret");
}

#[tokio::test]
async fn token_uses_are_saved_by_maintenance_only() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::User, Access::Write).await;
    team.login('a').await.unwrap();
    let last_use = async || team.store.list_tokens().await.unwrap()[0].last_used_at;
    assert_eq!(last_use().await, None);
    team.pass(5);
    team.login('a').await.unwrap();
    let maintenance = team.application.maintenance(
        Some(Arc::clone(&team.authenticator)),
        RetentionDays { audit: 400, history: 0 },
    );
    maintenance.tick().await;
    assert_eq!(last_use().await, Some(team.clock.now()));
    team.pass(5);
    team.login('a').await.unwrap();
    maintenance.tick().await;
    assert_ne!(last_use().await, Some(team.clock.now()), "a minute has not passed");
    maintenance.finish().await;
    assert_eq!(last_use().await, Some(team.clock.now()));
}
