//! Tests of users, tokens and audit queries on the memory store.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead, RESULT_OK, RowHash};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::token::verify_token;
use reqlore_domain::identity::{Access, Caller, TokenError, UserName, UserRole};
use reqlore_domain::ports::administration::AuditFilter;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::id_generator::CountedIds;
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::{RowStore, memory_store};

use super::audit_query::{self, ExpectedRow};
use super::tokens::TokenLifetime;
use super::tokens::{self, IssuedToken, TokenRequest};
use super::user_admin::{self, LastAdministrator, UserAdmin};
use crate::test_support::team::ManualClock;

const KEEP: LastAdministrator = LastAdministrator::Keep;
const DAY: i64 = 24 * 60 * 60;

struct Host {
    admin: UserAdmin,
    clock: Arc<ManualClock>,
    store: Arc<RowStore>,
}

impl Host {
    fn new() -> Self {
        let store = Arc::new(memory_store());
        let clock = Arc::new(ManualClock::new());
        let admin = UserAdmin {
            identities: Arc::clone(&store) as _,
            clock: Arc::clone(&clock) as _,
            ids: Arc::new(CountedIds::default()),
            projects: vec![ProjectKey::default(), ProjectKey::new("shop")],
            caller: Arc::new(Caller::local("root", Access::Write)),
            is_audited: true,
        };
        Self { admin, clock, store }
    }

    async fn with_user(name: &str, role: UserRole) -> Self {
        let host = Self::new();
        user_admin::add_user(&host.admin, user(name), role).await.unwrap();
        host
    }

    fn wait(&self, seconds: i64) {
        self.clock.pass(seconds);
    }

    async fn create(&self, name: &str) -> IssuedToken {
        tokens::create_token(&self.admin, request(name)).await.unwrap()
    }

    /// Returns the result that a server would get for this token now.
    async fn verify(&self, issued: &IssuedToken) -> Result<(), TokenError> {
        let owner = self.store.token_owner(&issued.token.id).await.unwrap();
        verify_token(owner.as_ref(), &issued.presented.digest(), self.clock.now())
    }

    async fn states(&self) -> Vec<&'static str> {
        let listed = tokens::list_tokens(&self.admin).await.unwrap();
        listed.into_iter().map(|listed| listed.state.name()).collect()
    }

    async fn events(&self) -> Vec<AuditEvent> {
        let rows = self.store.rows(1, usize::MAX).await.unwrap();
        rows.iter().map(|row| row.parse_event().unwrap()).collect()
    }
}

fn user(name: &str) -> UserName {
    UserName::parse(name).unwrap()
}

fn request(name: &str) -> TokenRequest {
    let (scope, projects) = (Access::Write, Vec::new());
    TokenRequest { user: user(name), scope, projects, lifetime: TokenLifetime::DEFAULT }
}

fn assert_error(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.message.contains(word), "{word} in {error}");
    }
}

#[tokio::test]
async fn set_role_changes_role_and_keeps_name() {
    let host = Host::with_user("Ada", UserRole::User).await;
    let changed =
        user_admin::set_role(&host.admin, user("ada"), UserRole::Commenter, KEEP).await.unwrap();
    assert_eq!((changed.user.name.as_str(), changed.unchanged), ("Ada", false));
    let (rows, epoch) = (host.events().await.len(), host.store.identity_epoch().await.unwrap());
    let again =
        user_admin::set_role(&host.admin, user("ada"), UserRole::Commenter, KEEP).await.unwrap();
    assert!(again.unchanged, "the role is unchanged");
    assert_eq!(
        (host.events().await.len(), host.store.identity_epoch().await.unwrap()),
        (rows, epoch)
    );
    let unknown =
        user_admin::set_role(&host.admin, user("eve"), UserRole::User, KEEP).await.unwrap_err();
    assert_error(
        &unknown,
        ErrorKind::NotFound,
        &["user eve does not exist", "user list", "user add eve"],
    );
}

// S5: 4.6
#[tokio::test]
async fn disabled_user_has_no_valid_token_and_gets_none() {
    let host = Host::with_user("ada", UserRole::User).await;
    let issued = host.create("ada").await;
    assert_eq!(host.verify(&issued).await, Ok(()));
    assert!(!user_admin::disable_user(&host.admin, user("ADA"), KEEP).await.unwrap().unchanged);
    assert_eq!(host.verify(&issued).await, Err(TokenError::Disabled));
    assert_eq!(host.states().await, ["user_disabled"]);
    host.wait(60);
    let again = user_admin::disable_user(&host.admin, user("ada"), KEEP).await.unwrap();
    assert!(again.unchanged && again.user.disabled_at < Some(host.clock.now()));
    for refused in [
        tokens::create_token(&host.admin, request("ada")).await.unwrap_err(),
        tokens::rotate_token(&host.admin, issued.token.id, TokenLifetime::default())
            .await
            .unwrap_err(),
    ] {
        assert_error(
            &refused,
            ErrorKind::Refused,
            &["user ada has been disabled since 2023-11-14T"],
        );
    }
}

#[tokio::test]
async fn disabled_user_can_be_enabled_again() {
    let host = Host::with_user("ada", UserRole::User).await;
    let issued = host.create("ada").await;
    user_admin::disable_user(&host.admin, user("ada"), KEEP).await.unwrap();
    let enabled = user_admin::enable_user(&host.admin, user("ADA")).await.unwrap();
    assert_eq!((enabled.unchanged, enabled.user.disabled_at), (false, None));
    assert_eq!(host.verify(&issued).await, Ok(()));
    assert!(user_admin::enable_user(&host.admin, user("ada")).await.unwrap().unchanged);
    let unknown = user_admin::enable_user(&host.admin, user("eve")).await.unwrap_err();
    assert_error(&unknown, ErrorKind::NotFound, &["user eve does not exist"]);
}

#[tokio::test]
async fn last_enabled_administrator_goes_with_force_only() {
    let host = Host::with_user("ada", UserRole::Administrator).await;
    user_admin::add_user(&host.admin, user("bob"), UserRole::Administrator).await.unwrap();
    user_admin::add_user(&host.admin, user("cay"), UserRole::User).await.unwrap();
    // Not the last one.
    user_admin::disable_user(&host.admin, user("bob"), KEEP).await.unwrap();
    let words = ["user ada is the last enabled administrator", "--force"];
    for refused in [
        user_admin::disable_user(&host.admin, user("Ada"), KEEP).await.unwrap_err(),
        user_admin::set_role(&host.admin, user("ada"), UserRole::User, KEEP).await.unwrap_err(),
    ] {
        assert_error(&refused, ErrorKind::Refused, &words);
    }
    // No change of an administrator, and one of another user.
    let same = UserRole::Administrator;
    assert!(user_admin::set_role(&host.admin, user("ada"), same, KEEP).await.unwrap().unchanged);
    user_admin::disable_user(&host.admin, user("cay"), KEEP).await.unwrap();
    user_admin::enable_user(&host.admin, user("bob")).await.unwrap();
    user_admin::set_role(&host.admin, user("ada"), UserRole::User, KEEP).await.unwrap();
    let forced = LastAdministrator::MayGo;
    user_admin::disable_user(&host.admin, user("bob"), forced).await.unwrap();
}

// S5: 4.1
#[tokio::test]
async fn created_token_matches_request_and_stores_digest_only() {
    let host = Host::with_user("Ada", UserRole::User).await;
    let projects = ["shop", "default", "shop"].map(ProjectKey::new).to_vec();
    let lifetime = TokenLifetime::parse("2h").unwrap();
    let token_request = TokenRequest { user: user("ada"), scope: Access::Read, projects, lifetime };
    let IssuedToken { presented, token, user } =
        tokens::create_token(&host.admin, token_request).await.unwrap();
    assert_eq!((token.user.as_str(), user.role), ("Ada", UserRole::User));
    assert_eq!(token.projects, ["shop", "default"].map(ProjectKey::new));
    assert_eq!(token.expires_at.seconds() - token.created_at.seconds(), 2 * 60 * 60);
    let kept = host.store.token_owner(&presented.id).await.unwrap().unwrap().token;
    assert_eq!((kept.digest, kept.scope), (presented.digest(), Access::Read));
    let secret = presented.reveal();
    let secret = secret.split('_').nth(3).unwrap();
    let all = format!("{:?} {:?}", host.store.list_tokens().await.unwrap(), host.events().await);
    assert!(!all.contains(secret), "{all}");
}

#[tokio::test]
async fn rotated_token_has_successor_with_same_lifetime() {
    let host = Host::with_user("ada", UserRole::User).await;
    let projects = vec![ProjectKey::new("shop")];
    let token_request = TokenRequest { projects, scope: Access::Read, ..request("ada") };
    let old = tokens::create_token(&host.admin, token_request).await.unwrap();
    host.store.record_use(vec![(old.token.id.clone(), host.clock.now())]).await.unwrap();
    host.wait(30 * DAY);
    let new = tokens::rotate_token(&host.admin, old.token.id.clone(), TokenLifetime::default())
        .await
        .unwrap();
    assert_eq!(host.verify(&old).await, Err(TokenError::Retired), "at once");
    assert_eq!(host.verify(&new).await, Ok(()));
    let token = &new.token;
    assert_eq!((token.scope, &token.projects), (Access::Read, &old.token.projects));
    assert_eq!(token.expires_at.seconds() - token.created_at.seconds(), 90 * DAY);
    assert_eq!((token.last_used_at, &token.successor), (None, &None));
    assert_eq!(host.states().await, ["retired", "active"]);
    let again = tokens::rotate_token(&host.admin, old.token.id, TokenLifetime::default())
        .await
        .unwrap_err();
    assert_error(&again, ErrorKind::Refused, &["already rotated", token.id.as_str()]);
}

#[tokio::test]
async fn overlap_never_extends_token_lifetime() {
    let host = Host::with_user("ada", UserRole::User).await;
    let overlap = TokenLifetime::parse_overlap("1h").unwrap();
    let late = host.create("ada").await;
    host.wait(90 * DAY - 10);
    let new = tokens::rotate_token(&host.admin, late.token.id.clone(), overlap).await.unwrap();
    host.wait(10);
    assert_eq!(host.verify(&late).await, Err(TokenError::Retired), "not beyond its own end");
    tokens::revoke_token(&host.admin, new.token.id.clone()).await.unwrap();
    for (id, why) in [(new.token.id, "revoked"), (late.token.id, "already rotated")] {
        let refused = tokens::rotate_token(&host.admin, id, overlap).await.unwrap_err();
        assert_error(&refused, ErrorKind::Refused, &[why]);
    }
}

// S5: 4.5
#[tokio::test]
async fn admin_changes_are_audited_with_local_user() {
    let host = Host::with_user("ada", UserRole::User).await;
    let old = host.create("ada").await.token.id;
    let new = tokens::rotate_token(&host.admin, old.clone(), TokenLifetime::default())
        .await
        .unwrap()
        .token
        .id;
    tokens::revoke_token(&host.admin, new.clone()).await.unwrap();
    user_admin::set_role(&host.admin, user("ada"), UserRole::Commenter, KEEP).await.unwrap();
    user_admin::disable_user(&host.admin, user("ada"), KEEP).await.unwrap();
    let mut changes = Vec::new();
    for event in host.events().await {
        assert_eq!((&*event.user, &*event.result), ("root", RESULT_OK));
        let targets: Vec<_> = event.targets.into_iter().map(|target| target.name).collect();
        changes.push(format!("{} {}", event.action, targets.join(" ")));
    }
    let expected = [
        "user/add user/ada".to_owned(),
        format!("token/create token/{old}"),
        format!("token/rotate token/{old} token/{new}"),
        format!("token/revoke token/{new}"),
        "user/set-role user/ada".to_owned(),
        "user/disable user/ada".to_owned(),
    ];
    assert_eq!(changes, expected);
    let unaudited = UserAdmin { is_audited: false, ..host.admin.clone() };
    user_admin::add_user(&unaudited, user("bob"), UserRole::User).await.unwrap();
    assert_eq!(host.events().await.len(), expected.len());
}

fn event(number: u64, user: &str) -> AuditEvent {
    let at = Timestamp::new(i64::try_from(number).unwrap(), 0);
    let action = if number.is_multiple_of(2) { "even" } else { "odd" };
    AuditEvent {
        user: user.to_owned(),
        ..AuditEvent::rejected(action, RESULT_OK, String::new(), at)
    }
}

/// A log with rows of bob; every tenth row is of Ada.
async fn log_with_rows(count: u64) -> RowStore {
    let store = memory_store();
    let name = |number: u64| if number.is_multiple_of(10) { "Ada" } else { "bob" };
    let all = (1..=count).map(|number| event(number, name(number))).collect();
    store.append_events(all).await.unwrap();
    store
}

async fn listed_numbers(store: &RowStore, query: AuditFilter) -> Vec<u64> {
    let rows = audit_query::list_rows(store, &query).await.unwrap();
    rows.iter().map(|row| row.number).collect()
}

#[tokio::test]
async fn audit_list_returns_newest_matching_rows_in_order() {
    let store = log_with_rows(5_000).await;
    let last = |last| AuditFilter { limit: last, ..AuditFilter::default() };
    assert_eq!(listed_numbers(&store, last(3)).await, [4_998, 4_999, 5_000]);
    assert_eq!(listed_numbers(&store, last(9_000)).await, (1..=5_000).collect::<Vec<_>>());
    let ada = AuditFilter { user: Some("ada".to_owned()), ..last(200) };
    let rows = listed_numbers(&store, ada.clone()).await;
    assert_eq!((rows.len(), rows[0], rows[199]), (200, 3_010, 5_000));
    let none = AuditFilter { action: Some("odd".to_owned()), ..ada };
    assert!(listed_numbers(&store, none).await.is_empty());
    store.prune(Timestamp::new(900, 0), Timestamp::new(9_000, 0)).await.unwrap();
    let rows = listed_numbers(&store, last(9_000)).await;
    assert_eq!((rows[0], rows.len()), (900, 4_102));
    assert!(listed_numbers(&memory_store(), last(5)).await.is_empty());
}

#[tokio::test]
async fn audit_verify_compares_chain_with_expected_row() {
    let store = log_with_rows(2_500).await;
    let newest = store.newest().await.unwrap();
    let verified = audit_query::verify_chain(&store, None).await.unwrap();
    assert!(verified.is_intact());
    assert_eq!(
        (verified.rows, verified.newest, verified.expected),
        (2_500, newest, ExpectedRow::None)
    );
    let early = store.rows(1_000, 1).await.unwrap()[0].head();
    let noted = async |head| audit_query::verify_chain(&store, Some(head)).await.unwrap();
    for head in [newest, early, ChainHead::default()] {
        assert_eq!(noted(head).await.expected, ExpectedRow::Found, "{head:?}");
    }
    let other = ChainHead { hash: early.hash, ..newest };
    let later = ChainHead { number: 2_501, hash: newest.hash };
    for head in [other, later, ChainHead { number: 0, hash: newest.hash }] {
        let verified = noted(head).await;
        assert!(verified.expected == ExpectedRow::Missing && !verified.is_intact(), "{head:?}");
    }
    store.prune(Timestamp::new(2_000, 0), Timestamp::new(9_000, 0)).await.unwrap();
    let verified = noted(early).await;
    assert!(verified.expected == ExpectedRow::Pruned && verified.is_intact());
    let empty = audit_query::verify_chain(&memory_store(), None).await.unwrap();
    assert!(empty.is_intact() && empty.newest.hash == RowHash::FIRST);
}

/// A log of changed rows, in a storage that does not compare their numbers.
struct ChangedLog(Vec<AuditRow>);

#[async_trait]
impl AuditLog for ChangedLog {
    async fn append_events(&self, _: Vec<AuditEvent>) -> StoreResult<()> {
        unreachable!()
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        Ok(self.0.iter().filter(|row| row.number >= from).take(limit).cloned().collect())
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        unreachable!()
    }

    async fn prune(&self, _: Timestamp, _: Timestamp) -> StoreResult<u64> {
        unreachable!()
    }
}

#[tokio::test]
async fn audit_verify_names_first_broken_row() {
    let rows = log_with_rows(1_500).await.rows(1, 1_500).await.unwrap();
    let broken = async |rows: Vec<AuditRow>| {
        let verified = audit_query::verify_chain(&ChangedLog(rows), None).await.unwrap();
        assert!(!verified.is_intact());
        (verified.rows, verified.broken.unwrap().to_string())
    };
    let mut changed = rows.clone();
    changed[1_200].text = changed[1_200].text.replace("bob", "eve").into();
    assert!(changed[1_200].text.contains("eve"));
    let expected = "row 1201 or the row before it was changed";
    assert_eq!(broken(changed).await, (1_200, expected.to_owned()));
    let mut missing = rows.clone();
    missing.remove(700);
    assert_eq!(broken(missing).await, (700, "row 701 is missing".to_owned()));
    let (rows, error) = broken(rows[5..].to_vec()).await;
    assert_eq!((rows, &*error), (1_495, "row 5 is missing"));
}
