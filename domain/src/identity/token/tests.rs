//! The form of tokens and their validation.

use super::*;
use crate::identity::UserRole;

const ID: &str = "AbCdEf012345";
const SECRET: &str = "0123456789abcdefghijklmnopqrstuv";

fn presented() -> PresentedToken {
    PresentedToken::new(ID, SECRET).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0)
}

fn owner() -> TokenOwner {
    let name = UserName::parse("ada").unwrap();
    let user =
        User { name: name.clone(), role: UserRole::User, created_at: at(0), disabled_at: None };
    let token = Token {
        id: presented().id,
        user: name,
        digest: presented().digest(),
        scope: Access::Write,
        projects: Vec::new(),
        created_at: at(1_000),
        expires_at: at(2_000),
        revoked_at: None,
        successor: None,
        last_used_at: None,
        parent: None,
    };
    TokenOwner { token, user }
}

#[test]
fn revealed_token_parses_back() {
    let text = presented().reveal();
    assert_eq!(
        text.len(),
        TOKEN_PREFIX.len() + ID_LETTERS + 1 + SECRET_LETTERS + 1 + CHECK_LETTERS
    );
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    assert_eq!(PresentedToken::parse(&text), Some(presented()));
}

#[test]
fn mistyped_token_is_rejected() {
    let text = presented().reveal();
    for (at, byte) in text.bytes().enumerate() {
        let other = if byte == b'x' { "y" } else { "x" };
        let mut mistyped = text.clone();
        mistyped.replace_range(at..=at, other);
        assert_eq!(PresentedToken::parse(&mistyped), None, "{mistyped}");
        assert_eq!(PresentedToken::parse(&text[..at]), None);
    }
    for invalid in ["", TOKEN_PREFIX, "ghp_0123456789", &format!("{text} "), &format!("{text}x")] {
        assert_eq!(PresentedToken::parse(invalid), None, "{invalid}");
    }
}

#[test]
fn debug_output_contains_no_secret() {
    let printed = format!("{:?} {:?}", presented(), owner());
    assert!(!printed.contains(&SECRET[..8]), "{printed}");
    let digest = String::from(presented().digest());
    assert!(!printed.contains(&digest[..8]), "{printed}");
}

#[test]
fn digest_depends_on_the_token_id() {
    let other = PresentedToken::new("AbCdEf012346", SECRET).unwrap();
    assert_ne!(other.digest(), presented().digest());
    let text = serde_json::to_string(&presented().digest()).unwrap();
    assert_eq!(serde_json::from_str::<TokenDigest>(&text).unwrap(), presented().digest());
}

fn verify_at(owner: &TokenOwner, seconds: i64) -> Result<(), TokenError> {
    verify_token(Some(owner), &presented().digest(), at(seconds))
}

// S5: 4.6; catalogue 82
#[test]
fn token_is_valid_from_creation_until_expiry() {
    let valid = owner();
    assert_eq!(verify_at(&valid, 1_000), Ok(()));
    assert_eq!(verify_at(&valid, 1_999), Ok(()));
    assert_eq!(verify_at(&valid, 2_000), Err(TokenError::Expired));
    assert_eq!(verify_at(&valid, 1_000 - MAX_CLOCK_SKEW_SECONDS), Ok(()));
    assert_eq!(verify_at(&valid, 999 - MAX_CLOCK_SKEW_SECONDS), Err(TokenError::NotYetValid));
    let mut replaced = owner();
    replaced.token.successor = TokenId::parse("000000000000");
    assert_eq!(verify_at(&replaced, 1_999), Ok(()));
    assert_eq!(verify_at(&replaced, 2_000), Err(TokenError::Retired));
    replaced.token.revoked_at = Some(at(1_500));
    assert_eq!(verify_at(&replaced, 1_600), Err(TokenError::Revoked));
    let mut disabled = owner();
    disabled.user.disabled_at = Some(at(1_500));
    assert_eq!(verify_at(&disabled, 1_600), Err(TokenError::Disabled));
}

// Which of them it was is for the log alone.
// The error is for the log only; clients get one response for all of them.
// S5: 1.4
#[test]
fn wrong_secret_reveals_nothing_about_the_token() {
    let wrong = PresentedToken::new(ID, &SECRET.to_ascii_uppercase()).unwrap().digest();
    let mut revoked = owner();
    revoked.token.revoked_at = Some(at(1_500));
    for now in [0, 1_500, 3_000] {
        assert_eq!(verify_token(Some(&owner()), &wrong, at(now)), Err(TokenError::Wrong));
        assert_eq!(verify_token(Some(&revoked), &wrong, at(now)), Err(TokenError::Wrong));
        assert_eq!(verify_token(None, &wrong, at(now)), Err(TokenError::Unknown));
    }
}
