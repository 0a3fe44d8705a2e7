//! Tests of audit rows and idempotency keys on the memory store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqlore_domain::audit_log::{AuditEvent, AuditTarget, RESULT_OK};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentKind, Version};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::identity::{Access, Caller, Token, UserRole};
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, StoreResult};
use reqlore_domain::ports::history::{DocumentHistory, HistoryQuery};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::observed::{ObservedPort, OperationObserver};
use reqlore_domain::ports::service::ApplicationService;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::RowStore;
use serde_json::json;

use crate::ports::ApplicationPorts;
use crate::test_support::TestApplication;
use crate::test_support::team::{TestTeam, id, resource_request};
use crate::{Application, RetentionDays};

const DAY: i64 = 24 * 60 * 60;

async fn writer(team: &TestTeam) -> Arc<Caller> {
    team.join('w', "wendy", UserRole::User, Access::Write).await;
    team.login('w').await.unwrap()
}

async fn reader(team: &TestTeam) -> Arc<Caller> {
    team.join('r', "rob", UserRole::Commenter, Access::Write).await;
    team.login('r').await.unwrap()
}

tokio::task_local! { static IN_SCOPE: (); }

/// Records for each operation whether it ran in a scope.
#[derive(Clone, Default)]
struct ScopeObserver(Arc<Mutex<Vec<bool>>>);

impl OperationObserver for ScopeObserver {
    type Running<'a> = ();

    fn begin(&self, _: &'static str) {
        self.0.lock().unwrap().push(IN_SCOPE.try_with(|()| ()).is_ok());
    }
}

#[tokio::test]
async fn only_calls_that_only_read_have_a_scope() {
    let observer = ScopeObserver::default();
    let scopes = || {
        let mut scopes = std::mem::take(&mut *observer.0.lock().unwrap());
        scopes.dedup();
        scopes
    };
    let testing = TestApplication::new();
    let inner = Arc::clone(&testing.store);
    let application = Application::new(ApplicationPorts {
        documents: Arc::new(ObservedPort { inner, observer: observer.clone() }),
        read_scope: |call| Box::pin(IN_SCOPE.scope((), call)),
        ..testing.ports()
    });
    let epic = json!({ "title": "First", "priority": 2 });
    testing.call_on(&application, "create_epic", epic).await.unwrap();
    assert_eq!(scopes(), [false]);
    let item = json!({ "reference": "EP-001" });
    testing.call_on(&application, "get_item", item).await.unwrap();
    assert_eq!(scopes(), [true]);
    let caller = Arc::new(Caller::local("me", Access::Write));
    application.read(resource_request(&caller, "epic://EP-001")).await.unwrap();
    assert_eq!(scopes(), [true]);
}

// S5: 2.4, 4.5
#[tokio::test]
async fn audit_has_one_row_per_call_with_user_and_result() {
    let team = TestTeam::new();
    let (writer, reader) = (writer(&team).await, reader(&team).await);
    team.epic(&writer, None).await.unwrap();
    let update = json!({ "epic": "EP-001", "title": "Better" });
    team.call(&writer, "update_epic", update, None).await.unwrap();
    team.call(&reader, "get_item", json!({ "reference": "EP-001" }), None).await.unwrap();
    team.call(&reader, "get_item", json!({ "reference": "EP-999" }), None).await.unwrap_err();
    team.epic(&reader, None).await.unwrap_err();
    team.call(&reader, "no_such_tool", json!({}), None).await.unwrap_err();
    team.application.read(resource_request(&reader, "epic://EP-001")).await.unwrap();
    team.application.prompt(resource_request(&reader, "decompose_epic")).await.unwrap();
    team.application.authorize(&reader, "n-1", "tools/list").await.unwrap();
    team.resources(&reader, Some("unknown")).await.unwrap_err();
    let rows = team.rows().await;
    let results: Vec<_> = rows.iter().map(|row| (&*row.user, &*row.action, &*row.result)).collect();
    assert_eq!(
        results,
        [
            ("wendy", "create_epic", RESULT_OK),
            ("wendy", "update_epic", RESULT_OK),
            ("rob", "get_item", RESULT_OK),
            ("rob", "get_item", "not_found"),
            ("rob", "create_epic", "forbidden"),
            ("rob", "no_such_tool", "unknown_tool"),
            ("rob", "resources/read", RESULT_OK),
            ("rob", "prompts/get", RESULT_OK),
            ("rob", "tools/list", RESULT_OK),
            ("rob", "resources/list", "invalid_argument"),
        ]
    );
    let (created, updated) = (&rows[0].targets[0], &rows[1].targets[0]);
    assert_eq!((created.before, created.after), (None, updated.before));
    assert!(updated.after.is_some_and(|after| Some(after) != updated.before));
    assert_eq!((&rows[0].token, &*rows[0].correlation_id), (&Some(id('w')), "call-1"));
    assert_eq!((&*rows[2].targets[0].name, rows[2].targets[0].after), ("EP-001", None::<Version>));
    assert_eq!((&*rows[6].targets[0].name, &*rows[6].correlation_id), ("epic://EP-001", "read-1"));
}

#[tokio::test]
async fn audit_has_no_row_for_a_poll() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    team.epic(&writer, None).await.unwrap();
    let before = team.rows().await.len();
    let mut poll = resource_request(&writer, "epic://EP-001");
    poll.is_poll = true;
    team.application.read(poll).await.unwrap();
    assert_eq!(team.rows().await.len(), before);
}

#[tokio::test]
async fn audit_has_no_row_for_another_read_of_a_view() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    team.epic(&writer, None).await.unwrap();
    let before = team.rows().await.len();
    for (tool, arguments) in [
        ("get_item", json!({ "reference": "EP-001" })),
        ("get_item", json!({ "reference": "EP-999" })),
        ("update_epic", json!({ "epic": "EP-001", "title": "Better" })),
    ] {
        let _ = team.call_audited(&writer, tool, arguments).await;
    }
    let rows = team.rows().await.split_off(before);
    let results: Vec<_> = rows.iter().map(|row| (&*row.action, &*row.result)).collect();
    assert_eq!(results, [("get_item", "not_found"), ("update_epic", RESULT_OK)]);
    let changes: Vec<bool> = rows.iter().map(AuditEvent::is_change).collect();
    assert_eq!(changes, [false, true]);
}

#[tokio::test]
async fn audit_row_of_named_project_has_the_name_as_target() {
    let team = TestTeam::new();
    let reader = reader(&team).await;
    team.call(&reader, "ixchel_show", json!({ "repo": "web", "id": "x" }), None).await.unwrap_err();
    let section = json!({
        "project_root": "web", "section": "a", "operation_description": "why not"
    });
    let _ = team.call(&reader, "reqlix_get_requirements", section, None).await;
    let rows = team.rows().await;
    let unchanged = rows.iter().filter(|row| !row.targets.iter().any(AuditTarget::is_changed));
    let targets = unchanged.map(|row| {
        let names: Vec<&str> = row.targets.iter().map(|target| target.name.as_str()).collect();
        (row.project.as_ref(), names)
    });
    let targets: Vec<_> = targets.collect();
    let long = json!({ "reference": "x".repeat(4_000_000) });
    team.call(&reader, "get_item", long, None).await.unwrap_err();
    let rows = team.rows().await;
    assert_eq!(rows.last().unwrap().targets[0].name.len(), 200, "pending targets are truncated");
    assert_eq!(targets[0], (None, vec!["x", "repo=web"]));
    assert_eq!(targets[1], (None, vec!["section=a", "project_root=web"]));
}

#[tokio::test]
async fn audit_row_of_a_failed_batch_names_its_items() {
    let team = TestTeam::new();
    let reader = reader(&team).await;
    let changes = json!({ "changes": [
        { "update": "EP-001", "title": "x" }, { "delete": "REQ-002" }, { "update": 1 }, "x",
    ] });
    let error = team.call(&reader, "apply_changes", changes, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    let rows = team.rows().await;
    let targets = &rows.last().unwrap().targets;
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["EP-001", "REQ-002"]);
}

#[tokio::test]
async fn write_with_repeated_key_runs_once() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    let first = team.epic(&writer, Some("k")).await.unwrap();
    team.pass(DAY - 1);
    let second = team.epic(&writer, Some("k")).await.unwrap();
    assert_eq!((&first.text, &first.data), (&second.text, &second.data));
    let listed = team.call(&writer, "list_epics", json!({}), None).await.unwrap();
    assert_eq!(listed.data["total"], 1);
    let other = json!({ "title": "Another", "priority": 1 });
    let refused = team.call(&writer, "create_epic", other, Some("k")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("use a new key for each write"), "{refused}");
    team.pass(1);
    assert_ne!(team.epic(&writer, Some("k")).await.unwrap(), first, "a day later it is new");
    assert_ne!(team.epic(&writer, Some("l")).await.unwrap(), first);
    let rows = team.rows().await;
    assert_eq!(rows.iter().filter(|row| row.reason == "repeated").count(), 1);
}

#[tokio::test]
async fn replay_to_token_with_smaller_scope_is_denied() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    let token = team.token('n', "wendy", Access::Write);
    let token = Token { projects: vec![ProjectKey::default()], ..token };
    team.put(IdentityChange::Token(token)).await;
    let narrow = team.login('n').await.unwrap();
    let section = json!({
        "project_root": "web", "section": "a", "index": "1", "text": "Secret.",
        "operation_description": "why not"
    });
    let tool = "reqlix_set_requirements";
    team.call(&writer, tool, section.clone(), Some("k")).await.unwrap();
    let refused = team.call(&narrow, tool, section, Some("k")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn idempotency_key_is_per_caller_and_unused_after_failure() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    team.join('o', "otto", UserRole::User, Access::Write).await;
    let otto = team.login('o').await.unwrap();
    let first = team.epic(&writer, Some("k")).await.unwrap();
    assert_ne!(team.epic(&otto, Some("k")).await.unwrap(), first);
    let bad = json!({ "title": "An epic", "priority": 9 });
    team.call(&writer, "create_epic", bad, Some("m")).await.unwrap_err();
    team.epic(&writer, Some("m")).await.unwrap();
    let race = || team.epic(&writer, Some("r"));
    let (one, two, three) = tokio::join!(race(), race(), race());
    let one = one.unwrap();
    assert!([two.unwrap(), three.unwrap()].iter().all(|other| other.data == one.data));
}

/// The keys of a server that looked for a key just before another server stored it.
struct LateKeys {
    store: Arc<RowStore>,
    is_late: AtomicBool,
}

#[async_trait]
impl IdempotencyStore for LateKeys {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        if self.is_late.swap(false, Ordering::Relaxed) {
            return Ok(None);
        }
        self.store.find_record(key).await
    }

    async fn save_answer(&self, key: &str, answer: String) -> StoreResult<()> {
        self.store.save_answer(key, answer).await
    }

    async fn expire_records(&self, oldest: Timestamp) -> StoreResult<()> {
        self.store.expire_records(oldest).await
    }
}

#[tokio::test]
async fn repeated_key_on_two_servers_at_once_gets_one_response() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    team.epic(&writer, None).await.unwrap();
    let keys = LateKeys { store: team.store.clone(), is_late: AtomicBool::new(false) };
    let keys = Arc::new(keys);
    let second = Application::new(ApplicationPorts {
        documents: team.store.clone(),
        idempotency: keys.clone(),
        clock: team.clock.clone(),
        ..TestApplication::new().ports()
    });
    let second = TestTeam { application: second, ..TestTeam::new() };
    let update = json!({ "epic": "EP-001", "title": "Better" });
    for (tool, arguments) in
        [("update_epic", update), ("delete_item", json!({ "reference": "EP-001" }))]
    {
        let first = team.call(&writer, tool, arguments.clone(), Some(tool)).await.unwrap();
        keys.is_late.store(true, Ordering::Relaxed);
        let repeated = second.call(&writer, tool, arguments, Some(tool)).await.unwrap();
        assert_eq!((first.text, first.data), (repeated.text, repeated.data), "{tool}");
        let other = json!({ "reference": "EP-009" });
        let missing = second.call(&writer, "delete_item", other, Some("new")).await.unwrap_err();
        assert_eq!(missing.kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn maintenance_prunes_only_old_audit_rows() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    team.epic(&writer, None).await.unwrap();
    let maintenance = team.application.maintenance(None, RetentionDays { audit: 400, history: 0 });
    maintenance.tick().await;
    team.pass(399 * DAY);
    maintenance.tick().await;
    assert_eq!(team.rows().await[0].action, "create_epic");
    team.pass(2 * DAY);
    maintenance.tick().await;
    let rows = team.rows().await;
    assert_eq!(rows[0].action, reqlore_domain::audit_log::PRUNED_ACTION);
}

#[tokio::test]
async fn maintenance_prunes_versions_after_history_keep_days() {
    let team = TestTeam::new();
    let writer = writer(&team).await;
    team.epic(&writer, None).await.unwrap();
    let project = ProjectKey::default();
    let epics = DocumentFilter::of_kind(DocumentKind::Item(ItemKind::Epic));
    let epic = team.store.find(&project, &epics).await.unwrap().metadata[0].id.clone();
    let query = HistoryQuery { after: None, limit: 10 };
    let versions = async || team.store.history(&project, &epic, &query).await.unwrap().entries;
    let maintenance = team.application.maintenance(None, RetentionDays { audit: 400, history: 30 });
    maintenance.tick().await;
    // The first version is old, but it was the present one until now.
    team.pass(100 * DAY);
    let update = json!({ "epic": "EP-001", "title": "Another" });
    team.call(&writer, "update_epic", update, None).await.unwrap();
    let updated = versions().await;
    assert_eq!(updated.len(), 2);
    let origin = &updated[0].origin;
    assert_eq!(origin.user.as_deref(), Some("wendy"));
    assert_eq!(origin.tool.as_deref(), Some("update_epic"));
    team.pass(30 * DAY - 1);
    maintenance.tick().await;
    assert_eq!(versions().await, updated);
    team.pass(DAY);
    maintenance.tick().await;
    assert_eq!(versions().await, updated[..1]);
}
