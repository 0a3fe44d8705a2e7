//! Users and tokens.

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, PresentedToken, Token, TokenId, User, UserName, UserRole};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::archive::{ArchiveRecord, IdentityRecords};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::archive::read_records;
use crate::{Storage, test_context};

const SECRET: &str = "0123456789abcdefghijklmnopqrstuv";

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 500)
}

pub fn user(name: &str) -> User {
    let name = UserName::parse(name).unwrap();
    User { name, role: UserRole::User, created_at: at(1), disabled_at: None }
}

fn token(id: &str, user: &str, created_at: i64) -> Token {
    let presented = PresentedToken::new(id, SECRET).unwrap();
    Token {
        id: presented.id.clone(),
        user: UserName::parse(user).unwrap(),
        digest: presented.digest(),
        scope: Access::Read,
        projects: vec![ProjectKey::new("one"), ProjectKey::default()],
        created_at: at(created_at),
        expires_at: at(created_at + 1_000),
        revoked_at: None,
        successor: None,
        last_used_at: None,
        parent: None,
    }
}

/// Stores changes without reading the present state.
async fn put_identities(store: &dyn Store, changes: Vec<IdentityChange>) -> StoreResult<()> {
    put_identities_as(store, changes, test_context()).await
}

pub async fn put_identities_as(
    store: &dyn Store,
    changes: Vec<IdentityChange>,
    act: WriteContext,
) -> StoreResult<()> {
    let decide = Box::new(move |_: &_, _: &_| Ok(changes.clone()));
    let (users, tokens) = (Vec::new(), Vec::new());
    store.commit_identities(IdentityCommit { users, tokens, decide, context: act }).await
}

pub async fn users_are_listed_by_name(s: &Storage) {
    for name in ["Zoe", "ada", "Bob"] {
        put_identities(&*s.store, vec![IdentityChange::User(user(name))]).await.unwrap();
    }
    assert_eq!(s.store.list_users().await.unwrap(), [user("ada"), user("Bob"), user("Zoe")]);
    let disabled = User { disabled_at: Some(at(9)), role: UserRole::Commenter, ..user("BOB") };
    put_identities(&*s.store, vec![IdentityChange::User(disabled.clone())]).await.unwrap();
    assert_eq!(s.store.list_users().await.unwrap(), [user("ada"), disabled, user("Zoe")]);
}

pub async fn tokens_are_listed_by_age(s: &Storage) {
    let tokens = [
        token("cccccccccccc", "ada", 1),
        token("AAAAAAAAAAAA", "ada", 2),
        token("bbbbbbbbbbbb", "ada", 2),
        token("BBBBBBBBBBBB", "ada", 3),
    ];
    for place in [3, 1, 0, 2] {
        let change = IdentityChange::Token(tokens[place].clone());
        put_identities(&*s.store, vec![change]).await.unwrap();
    }
    assert_eq!(s.store.list_tokens().await.unwrap(), tokens);
}

pub async fn token_is_found_with_its_user(s: &Storage) {
    let (known, unknown) = (token("aaaaaaaaaaaa", "Ada", 1), TokenId::parse("AAAAAAAAAAAA"));
    let both = vec![IdentityChange::User(user("ada")), IdentityChange::Token(known.clone())];
    put_identities(&*s.store, both).await.unwrap();
    let found = s.store.token_owner(&known.id).await.unwrap().unwrap();
    assert_eq!((found.token, found.user), (known.clone(), user("ada")));
    assert_eq!(s.store.token_owner(&unknown.unwrap()).await.unwrap(), None);
    let revoked = Token { revoked_at: Some(at(5)), successor: Some(known.id.clone()), ..known };
    put_identities(&*s.store, vec![IdentityChange::Token(revoked.clone())]).await.unwrap();
    assert_eq!(s.store.token_owner(&revoked.id).await.unwrap().unwrap().token, revoked);
}

pub async fn ended_sessions_are_removed(s: &Storage) {
    let parent = token("aaaaaaaaaaaa", "ada", 1);
    let session = |id, expires_at| Token {
        parent: Some(parent.id.clone()),
        expires_at: at(expires_at),
        ..token(id, "ada", 2)
    };
    let open = session("bbbbbbbbbbbb", 6);
    let expired = session("cccccccccccc", 5);
    let signed_out = Token { revoked_at: Some(at(3)), ..session("dddddddddddd", 9) };
    let mut changes = vec![IdentityChange::User(user("ada"))];
    for token in [&parent, &open, &expired, &signed_out] {
        changes.push(IdentityChange::Token(token.clone()));
    }
    put_identities(&*s.store, changes).await.unwrap();
    let tokens = vec![parent.clone()];
    assert_eq!(s.store.list_tokens().await.unwrap(), tokens, "no list has sessions");
    let archive = IdentityRecords { users: vec![user("ada")], tokens };
    let records: Vec<_> = archive.into_records().collect();
    let found = read_records(&*s.store).await.unwrap();
    assert!(records.iter().all(|record| found.contains(record)), "{found:?}");
    let tokens = found.iter().filter(|record| matches!(record, ArchiveRecord::Token(_)));
    assert_eq!(tokens.count(), 1, "no archive has sessions");
    let epoch = s.store.identity_epoch().await.unwrap();
    s.store.expire_sessions(at(5)).await.unwrap();
    assert_eq!(s.store.identity_epoch().await.unwrap(), epoch);
    for (token, is_kept) in [(parent, true), (open, true), (expired, false), (signed_out, false)] {
        let found = s.store.token_owner(&token.id).await.unwrap();
        assert_eq!(found.map(|found| found.token), is_kept.then_some(token));
    }
}

pub async fn epoch_changes_with_every_identity_commit(s: &Storage) {
    let before = s.store.identity_epoch().await.unwrap();
    assert_eq!(s.store.identity_epoch().await.unwrap(), before);
    put_identities(&*s.store, vec![IdentityChange::User(user("ada"))]).await.unwrap();
    let after = s.store.identity_epoch().await.unwrap();
    assert_ne!(after, before);
    put_identities(&*s.store, vec![IdentityChange::Token(token("aaaaaaaaaaaa", "ada", 1))])
        .await
        .unwrap();
    assert_ne!(s.store.identity_epoch().await.unwrap(), after);
}

pub async fn rejected_identity_decision_changes_nothing(s: &Storage) {
    put_identities(&*s.store, vec![IdentityChange::User(user("ada"))]).await.unwrap();
    let epoch = s.store.identity_epoch().await.unwrap();
    let commit = IdentityCommit {
        users: vec![UserName::parse("ADA").unwrap(), UserName::parse("bob").unwrap()],
        tokens: vec![TokenId::parse("aaaaaaaaaaaa").unwrap()],
        decide: Box::new(|users, tokens| {
            assert_eq!(users, [Some(user("ada")), None]);
            assert_eq!(tokens, [None]);
            Err(Error::new(ErrorKind::Refused, "no"))
        }),
        context: test_context(),
    };
    let refused = s.store.commit_identities(commit).await.unwrap_err();
    assert!(matches!(refused, StoreError::Decided(_)), "{refused:?}");
    assert_eq!(s.store.identity_epoch().await.unwrap(), epoch);
    assert_eq!(s.store.list_users().await.unwrap(), [user("ada")]);
}

pub async fn concurrent_commits_create_a_user_once(s: &Storage) {
    let create = |store: Arc<dyn Store>| async move {
        let decide = |users: &[Option<User>], _: &[Option<Token>]| match &users[0] {
            Some(_) => Err(Error::new(ErrorKind::Refused, "it exists")),
            None => Ok(vec![IdentityChange::User(user("ada"))]),
        };
        let users = vec![UserName::parse("ada").unwrap()];
        let decide = Box::new(decide);
        let commit = IdentityCommit { users, tokens: Vec::new(), decide, context: test_context() };
        store.commit_identities(commit).await.is_ok()
    };
    let all = (0..8).map(|_| tokio::spawn(create(Arc::clone(&s.store))));
    let mut count = 0;
    for one in all.collect::<Vec<_>>() {
        count += usize::from(one.await.unwrap());
    }
    assert_eq!(count, 1);
}

pub async fn last_use_never_decreases(s: &Storage) {
    let known = token("aaaaaaaaaaaa", "ada", 1);
    let both = vec![IdentityChange::User(user("ada")), IdentityChange::Token(known.clone())];
    put_identities(&*s.store, both).await.unwrap();
    let epoch = s.store.identity_epoch().await.unwrap();
    let unknown = TokenId::parse("AAAAAAAAAAAA").unwrap();
    for (second, expected) in [(20, 20), (10, 20), (30, 30)] {
        let uses = vec![(unknown.clone(), at(second)), (known.id.clone(), at(second))];
        s.store.record_use(uses).await.unwrap();
        let found = s.store.token_owner(&known.id).await.unwrap().unwrap().token;
        assert_eq!(found, Token { last_used_at: Some(at(expected)), ..known.clone() });
    }
    assert_eq!(s.store.identity_epoch().await.unwrap(), epoch);
    assert_eq!(s.store.list_tokens().await.unwrap()[0].last_used_at, Some(at(30)));
}

pub async fn identities_survive_restart(s: &Storage) {
    let (kept, known) = (user("ada"), token("aaaaaaaaaaaa", "ada", 1));
    let both = vec![IdentityChange::User(kept.clone()), IdentityChange::Token(known.clone())];
    put_identities(&*s.store, both).await.unwrap();
    let Some(reopened) = s.reopen_store().await else { return };
    let found = reopened.token_owner(&known.id).await.unwrap().unwrap();
    assert_eq!((found.user, found.token), (kept, known));
}

pub async fn import_rejects_a_store_with_tokens(s: &Storage) {
    put_identities(&*s.store, vec![IdentityChange::Token(token("aaaaaaaaaaaa", "ada", 1))])
        .await
        .unwrap();
    s.assert_rejects_import().await;
}

pub async fn identities_survive_a_round_trip(s: &Storage) {
    let mut used = token("bbbbbbbbbbbb", "bob", 2);
    used.last_used_at = Some(at(7));
    used.revoked_at = Some(at(8));
    let all = IdentityRecords {
        users: vec![user("ada"), User { disabled_at: Some(at(3)), ..user("Bob") }],
        tokens: vec![token("aaaaaaaaaaaa", "ada", 1), used],
    };
    let mut writer = s.store.import().await.unwrap();
    writer.write_batch(all.clone().into_records().collect()).await.unwrap();
    writer.finish().await.unwrap();
    let found = read_records(&*s.store).await.unwrap();
    assert_eq!(found, all.clone().into_records().collect::<Vec<_>>());
    assert_eq!(s.store.token_owner(&all.tokens[1].id).await.unwrap().unwrap().user, all.users[1]);
    s.assert_rejects_import().await;
}
