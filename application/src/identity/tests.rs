//! Administration on the memory store, with a clock that is set by hand.

use std::sync::Arc;

use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead, OK, RowHash};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::token::verify_token;
use reqlore_domain::identity::{Access, Caller, Role, TokenError, UserName};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::id_generator::CountedIds;
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::MemoryStore;

use super::audit_query::{self, ExpectedRow};
use super::tokens::TokenLifetime;
use super::tokens::{self, IssuedToken, TokenRequest};
use super::user_admin;
use super::user_admin::UserAdmin;
use crate::test_support::team::ManualClock;

const DAY: i64 = 24 * 60 * 60;

struct Host {
    to: UserAdmin,
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl Host {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        let clock = Arc::new(ManualClock::new());
        let to = UserAdmin {
            identities: Arc::clone(&store) as _,
            clock: Arc::clone(&clock) as _,
            ids: Arc::new(CountedIds::default()),
            projects: vec![ProjectKey::default(), ProjectKey::new("shop")],
            caller: Arc::new(Caller::local("root", Access::Write)),
            is_audited: true,
        };
        Self { to, clock, store }
    }

    async fn with_user(name: &str, role: Role) -> Self {
        let host = Self::new();
        user_admin::add(&host.to, user(name), role).await.unwrap();
        host
    }

    fn wait(&self, seconds: i64) {
        self.clock.pass(seconds);
    }

    async fn create(&self, name: &str) -> IssuedToken {
        tokens::create(&self.to, wanted(name)).await.unwrap()
    }

    /// What a server says of this token now.
    async fn judged(&self, issued: &IssuedToken) -> Result<(), TokenError> {
        let owner = self.store.token_owner(&issued.token.id).await.unwrap();
        verify_token(owner.as_ref(), &issued.presented.digest(), self.clock.now())
    }

    async fn states(&self) -> Vec<&'static str> {
        let listed = tokens::list(&self.to).await.unwrap();
        listed.into_iter().map(|listed| listed.state.name()).collect()
    }

    async fn entries(&self) -> Vec<AuditEvent> {
        let rows = self.store.rows(1, usize::MAX).await.unwrap();
        rows.iter().map(|row| row.entry().unwrap()).collect()
    }
}

fn user(name: &str) -> UserName {
    UserName::parse(name).unwrap()
}

fn wanted(name: &str) -> TokenRequest {
    let (scope, projects) = (Access::Write, Vec::new());
    TokenRequest { user: user(name), scope, projects, lifetime: TokenLifetime::USUAL }
}

fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.message.contains(word), "{word} in {error}");
    }
}

#[tokio::test]
async fn a_role_changes_and_the_name_stays_as_it_was() {
    let host = Host::with_user("Ada", Role::User).await;
    let changed = user_admin::set_role(&host.to, user("ada"), Role::Commenter).await.unwrap();
    assert_eq!((changed.user.name.as_str(), changed.unchanged), ("Ada", false));
    let (rows, epoch) = (host.entries().await.len(), host.store.epoch().await.unwrap());
    let again = user_admin::set_role(&host.to, user("ada"), Role::Commenter).await.unwrap();
    assert!(again.unchanged, "what is so already is no change");
    assert_eq!((host.entries().await.len(), host.store.epoch().await.unwrap()), (rows, epoch));
    let unknown = user_admin::set_role(&host.to, user("eve"), Role::User).await.unwrap_err();
    says(&unknown, ErrorKind::NotFound, &["no user eve", "user list", "user add eve"]);
}

// S5: 4.6
#[tokio::test]
async fn a_disabled_user_has_no_token_that_counts_and_gets_none() {
    let host = Host::with_user("ada", Role::User).await;
    let issued = host.create("ada").await;
    assert_eq!(host.judged(&issued).await, Ok(()));
    assert!(!user_admin::disable(&host.to, user("ADA")).await.unwrap().unchanged);
    assert_eq!(host.judged(&issued).await, Err(TokenError::Disabled));
    assert_eq!(host.states().await, ["user_disabled"]);
    host.wait(60);
    let again = user_admin::disable(&host.to, user("ada")).await.unwrap();
    assert!(again.unchanged && again.user.disabled_at < Some(host.clock.now()));
    for refused in [
        tokens::create(&host.to, wanted("ada")).await.unwrap_err(),
        tokens::rotate(&host.to, issued.token.id, TokenLifetime::default()).await.unwrap_err(),
    ] {
        says(&refused, ErrorKind::Refused, &["user ada is disabled since 2023-11-14T"]);
    }
}

// S5: 4.1
#[tokio::test]
async fn a_token_is_what_was_asked_for_and_only_its_digest_is_kept() {
    let host = Host::with_user("Ada", Role::User).await;
    let projects = ["shop", "default", "shop"].map(ProjectKey::new).to_vec();
    let lifetime = TokenLifetime::parse("2h").unwrap();
    let asked = TokenRequest { user: user("ada"), scope: Access::Read, projects, lifetime };
    let IssuedToken { presented, token, user } = tokens::create(&host.to, asked).await.unwrap();
    assert_eq!((token.user.as_str(), user.role), ("Ada", Role::User));
    assert_eq!(token.projects, ["shop", "default"].map(ProjectKey::new));
    assert_eq!(token.expires_at.seconds() - token.created_at.seconds(), 2 * 60 * 60);
    let kept = host.store.token_owner(&presented.id).await.unwrap().unwrap().token;
    assert_eq!((kept.digest, kept.scope), (presented.digest(), Access::Read));
    let secret = presented.reveal();
    let secret = secret.split('_').nth(3).unwrap();
    let all = format!("{:?} {:?}", host.store.tokens().await.unwrap(), host.entries().await);
    assert!(!all.contains(secret), "{all}");
}

#[tokio::test]
async fn a_rotated_token_has_a_successor_of_the_same_length() {
    let host = Host::with_user("ada", Role::User).await;
    let projects = vec![ProjectKey::new("shop")];
    let asked = TokenRequest { projects, scope: Access::Read, ..wanted("ada") };
    let old = tokens::create(&host.to, asked).await.unwrap();
    host.store.record_use(vec![(old.token.id.clone(), host.clock.now())]).await.unwrap();
    host.wait(30 * DAY);
    let new =
        tokens::rotate(&host.to, old.token.id.clone(), TokenLifetime::default()).await.unwrap();
    assert_eq!(host.judged(&old).await, Err(TokenError::Retired), "at once");
    assert_eq!(host.judged(&new).await, Ok(()));
    let token = &new.token;
    assert_eq!((token.scope, &token.projects), (Access::Read, &old.token.projects));
    assert_eq!(token.expires_at.seconds() - token.created_at.seconds(), 90 * DAY);
    assert_eq!((token.last_used_at, &token.successor), (None, &None));
    assert_eq!(host.states().await, ["retired", "active"]);
    let again = tokens::rotate(&host.to, old.token.id, TokenLifetime::default()).await.unwrap_err();
    says(&again, ErrorKind::Refused, &["rotated already", token.id.as_str()]);
}

#[tokio::test]
async fn an_overlap_never_extends_the_lifetime_of_a_token() {
    let host = Host::with_user("ada", Role::User).await;
    let overlap = TokenLifetime::of_overlap("1h").unwrap();
    let late = host.create("ada").await;
    host.wait(90 * DAY - 10);
    let new = tokens::rotate(&host.to, late.token.id.clone(), overlap).await.unwrap();
    host.wait(10);
    assert_eq!(host.judged(&late).await, Err(TokenError::Retired), "never longer than it had");
    tokens::revoke(&host.to, new.token.id.clone()).await.unwrap();
    for (id, why) in [(new.token.id, "revoked"), (late.token.id, "rotated already")] {
        let refused = tokens::rotate(&host.to, id, overlap).await.unwrap_err();
        says(&refused, ErrorKind::Refused, &[why]);
    }
}

// S5: 4.5
#[tokio::test]
async fn every_change_is_audited_in_the_name_of_the_local_person() {
    let host = Host::with_user("ada", Role::User).await;
    let old = host.create("ada").await.token.id;
    let new =
        tokens::rotate(&host.to, old.clone(), TokenLifetime::default()).await.unwrap().token.id;
    tokens::revoke(&host.to, new.clone()).await.unwrap();
    user_admin::set_role(&host.to, user("ada"), Role::Commenter).await.unwrap();
    user_admin::disable(&host.to, user("ada")).await.unwrap();
    let mut told = Vec::new();
    for entry in host.entries().await {
        assert_eq!((&*entry.user, &*entry.result), ("root", OK));
        let targets: Vec<_> = entry.targets.into_iter().map(|target| target.name).collect();
        told.push(format!("{} {}", entry.action, targets.join(" ")));
    }
    let expected = [
        "user/add user/ada".to_owned(),
        format!("token/create token/{old}"),
        format!("token/rotate token/{old} token/{new}"),
        format!("token/revoke token/{new}"),
        "user/set-role user/ada".to_owned(),
        "user/disable user/ada".to_owned(),
    ];
    assert_eq!(told, expected);
    let silent = UserAdmin { is_audited: false, ..host.to.clone() };
    user_admin::add(&silent, user("bob"), Role::User).await.unwrap();
    assert_eq!(host.entries().await.len(), expected.len());
}

fn entry(number: u64, user: &str) -> AuditEvent {
    let at = Timestamp::new(i64::try_from(number).unwrap(), 0);
    let action = if number.is_multiple_of(2) { "even" } else { "odd" };
    AuditEvent { user: user.to_owned(), ..AuditEvent::refused(action, OK, String::new(), at) }
}

/// Rows of bob, every tenth of Ada.
async fn audited(count: u64) -> MemoryStore {
    let store = MemoryStore::default();
    let name = |number: u64| if number.is_multiple_of(10) { "Ada" } else { "bob" };
    let all = (1..=count).map(|number| entry(number, name(number))).collect();
    store.record(all).await.unwrap();
    store
}

async fn listed(store: &MemoryStore, wanted: audit_query::AuditQuery) -> Vec<u64> {
    let rows = audit_query::list(store, &wanted).await.unwrap();
    rows.iter().map(|row| row.number).collect()
}

#[tokio::test]
async fn the_newest_rows_that_are_wanted_are_listed_in_their_order() {
    let store = audited(5_000).await;
    let last = |last| audit_query::AuditQuery { last, ..audit_query::AuditQuery::default() };
    assert_eq!(listed(&store, last(3)).await, [4_998, 4_999, 5_000]);
    assert_eq!(listed(&store, last(9_000)).await, (1..=5_000).collect::<Vec<_>>());
    let ada = audit_query::AuditQuery { user: Some("ada".to_owned()), ..last(200) };
    let rows = listed(&store, ada.clone()).await;
    assert_eq!((rows.len(), rows[0], rows[199]), (200, 3_010, 5_000));
    let none = audit_query::AuditQuery { action: Some("odd".to_owned()), ..ada };
    assert!(listed(&store, none).await.is_empty());
    store.prune(Timestamp::new(4_500, 0), Timestamp::new(9_000, 0)).await.unwrap();
    let rows = listed(&store, last(9_000)).await;
    assert_eq!((rows[0], rows.len()), (4_500, 502));
    assert!(listed(&MemoryStore::default(), last(5)).await.is_empty());
}

#[tokio::test]
async fn a_chain_is_whole_and_its_end_is_held_against_what_was_noted() {
    let store = audited(2_500).await;
    let newest = store.newest().await.unwrap();
    let verified = audit_query::verify(&store, None).await.unwrap();
    assert!(verified.is_whole());
    assert_eq!(
        (verified.rows, verified.newest, verified.noted),
        (2_500, newest, ExpectedRow::None)
    );
    let early = store.rows(1_000, 1).await.unwrap()[0].head();
    let noted = async |head| audit_query::verify(&store, Some(head)).await.unwrap();
    for head in [newest, early, ChainHead::default()] {
        assert_eq!(noted(head).await.noted, ExpectedRow::Found, "{head:?}");
    }
    let other = ChainHead { hash: early.hash, ..newest };
    let later = ChainHead { number: 2_501, hash: newest.hash };
    for head in [other, later, ChainHead { number: 0, hash: newest.hash }] {
        let verified = noted(head).await;
        assert!(verified.noted == ExpectedRow::Missing && !verified.is_whole(), "{head:?}");
    }
    store.prune(Timestamp::new(2_000, 0), Timestamp::new(9_000, 0)).await.unwrap();
    let verified = noted(early).await;
    assert!(verified.noted == ExpectedRow::Pruned && verified.is_whole());
    let empty = audit_query::verify(&MemoryStore::default(), None).await.unwrap();
    assert!(empty.is_whole() && empty.newest.hash == RowHash::FIRST);
}

#[tokio::test]
async fn the_first_row_that_is_wrong_is_named() {
    let rows = audited(1_500).await.rows(1, 1_500).await.unwrap();
    let broken = async |rows: Vec<AuditRow>| {
        let store = MemoryStore::default();
        let mut sink = store.fill().await.unwrap();
        sink.put(rows.into_iter().map(ArchiveRecord::AuditRow).collect()).await.unwrap();
        sink.finish().await.unwrap();
        let verified = audit_query::verify(&store, None).await.unwrap();
        assert!(!verified.is_whole());
        (verified.rows, verified.broken.unwrap().to_string())
    };
    let mut changed = rows.clone();
    changed[1_200].text = changed[1_200].text.replace("bob", "eve").into();
    assert!(changed[1_200].text.contains("eve"));
    let told = "row 1201 or the row before it was changed";
    assert_eq!(broken(changed).await, (1_200, told.to_owned()));
    let mut missing = rows.clone();
    missing.remove(700);
    assert_eq!(broken(missing).await, (700, "row 701 is missing".to_owned()));
    let (rows, told) = broken(rows[5..].to_vec()).await;
    assert_eq!((rows, &*told), (1_495, "row 5 is missing"));
}
