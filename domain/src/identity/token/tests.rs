//! The form of tokens, and when they count.

use super::*;
use crate::identity::Role;

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
    let user = User { name: name.clone(), role: Role::User, created_at: at(0), disabled_at: None };
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
    };
    TokenOwner { token, user }
}

#[test]
fn a_token_is_one_word_that_reads_back() {
    let text = presented().reveal();
    assert_eq!(text.len(), PREFIX.len() + ID_LETTERS + 1 + SECRET_LETTERS + 1 + CHECK_LETTERS);
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    assert_eq!(PresentedToken::parse(&text), Some(presented()));
}

#[test]
fn whatever_is_mistyped_is_no_token() {
    let text = presented().reveal();
    for (place, byte) in text.bytes().enumerate() {
        let other = if byte == b'x' { 'y' } else { 'x' };
        let mut wrong = text.clone();
        wrong.replace_range(place..=place, &other.to_string());
        assert_eq!(PresentedToken::parse(&wrong), None, "{wrong}");
        assert_eq!(PresentedToken::parse(&text[..place]), None);
    }
    for wrong in ["", PREFIX, "ghp_0123456789", &format!("{text} "), &format!("{text}x")] {
        assert_eq!(PresentedToken::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn nothing_prints_a_secret() {
    let printed = format!("{:?} {:?}", presented(), owner());
    assert!(!printed.contains(&SECRET[..8]), "{printed}");
    let digest = String::from(presented().digest());
    assert!(!printed.contains(&digest[..8]), "{printed}");
}

#[test]
fn a_digest_belongs_to_its_id() {
    let other = PresentedToken::new("AbCdEf012346", SECRET).unwrap();
    assert_ne!(other.digest(), presented().digest());
    let text = serde_json::to_string(&presented().digest()).unwrap();
    assert_eq!(serde_json::from_str::<TokenDigest>(&text).unwrap(), presented().digest());
}

// S5: 4.6; catalogue 82
#[test]
fn a_token_counts_from_its_making_until_the_second_of_its_end() {
    let judged =
        |owner: &TokenOwner, now| verify_token(Some(owner), &presented().digest(), at(now));
    let good = owner();
    assert_eq!(judged(&good, 1_000), Ok(()));
    assert_eq!(judged(&good, 1_999), Ok(()));
    assert_eq!(judged(&good, 2_000), Err(TokenError::Expired));
    assert_eq!(judged(&good, 1_000 - SLACK), Ok(()));
    assert_eq!(judged(&good, 999 - SLACK), Err(TokenError::NotYetValid));
    let mut changed = owner();
    changed.token.successor = TokenId::parse("000000000000");
    assert_eq!(judged(&changed, 1_999), Ok(()));
    assert_eq!(judged(&changed, 2_000), Err(TokenError::Retired));
    changed.token.revoked_at = Some(at(1_500));
    assert_eq!(judged(&changed, 1_600), Err(TokenError::Revoked));
    let mut disabled = owner();
    disabled.user.disabled_at = Some(at(1_500));
    assert_eq!(judged(&disabled, 1_600), Err(TokenError::Disabled));
}

// Which of them it was is for the log alone.
// S5: 1.4
#[test]
fn what_is_not_the_right_secret_says_nothing_of_the_token() {
    let wrong = PresentedToken::new(ID, &SECRET.to_ascii_uppercase()).unwrap().digest();
    let mut revoked = owner();
    revoked.token.revoked_at = Some(at(1_500));
    for now in [0, 1_500, 3_000] {
        assert_eq!(verify_token(Some(&owner()), &wrong, at(now)), Err(TokenError::Wrong));
        assert_eq!(verify_token(Some(&revoked), &wrong, at(now)), Err(TokenError::Wrong));
        assert_eq!(verify_token(None, &wrong, at(now)), Err(TokenError::Unknown));
    }
}
