//! Claims of stories, and the list of those that can be begun.

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, Caller, UserRole};
use serde_json::{Value, json};

use crate::test_support::team::TestTeam;
use crate::test_support::{TestApplication, references};

const CLAIM: &str = "claim_item";

/// A team whose project has the stories US-001 and US-002, with two callers.
struct Team {
    users: TestTeam,
    ann: Arc<Caller>,
    bob: Arc<Caller>,
}

impl Team {
    async fn new() -> Self {
        let team = TestTeam::new();
        team.join('a', "ann", UserRole::User, Access::Write).await;
        team.join('b', "bob", UserRole::User, Access::Write).await;
        let (ann, bob) = (team.login('a').await.unwrap(), team.login('b').await.unwrap());
        let testing = Self { users: team, ann, bob };
        let epic = json!({ "title": "Shop", "priority": 1 });
        testing.data("create_epic", epic).await;
        for title in ["Pay", "Ship"] {
            let story = json!({ "epic": "EP-001", "title": title, "priority": 2 });
            testing.data("create_user_story", story).await;
        }
        testing
    }

    /// Calls a tool as ann.
    async fn data(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.users.call(&self.ann, tool, arguments, None).await.unwrap();
        Arc::unwrap_or_clone(answer.data)
    }

    async fn error(&self, caller: &Arc<Caller>, arguments: Value) -> Error {
        self.users.call(caller, CLAIM, arguments, None).await.unwrap_err()
    }

    async fn ready(&self) -> Vec<String> {
        let page = self.data("list_ready", json!({})).await;
        references(&page["items"]).into_iter().map(str::to_owned).collect()
    }

    async fn text(&self, tool: &str, arguments: Value) -> String {
        self.users.call(&self.ann, tool, arguments, None).await.unwrap().text
    }
}

#[tokio::test]
async fn claimed_story_is_refused_and_shown_until_it_ends() {
    let testing = Team::new().await;
    let before = testing.data("get_item", json!({ "reference": "US-001" })).await;
    let claimed = testing.data(CLAIM, json!({ "id": "US-001", "for_minutes": 10 })).await;
    assert_eq!(claimed["holder"], "ann");
    assert_eq!(claimed["reach"], "this server");
    let until = claimed["until"].as_str().unwrap();
    let shown = format!("laimed by ann until {until}");
    // Several agents share a token, so it proves nothing.
    for caller in [&testing.ann, &testing.bob] {
        let error = testing.error(caller, json!({ "id": "US-001" })).await;
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(error.message.contains(&shown), "{error}");
        for wrong in [json!({ "claim": "x" }), json!({ "claim": "x", "release": true })] {
            let mut arguments = wrong;
            arguments["id"] = json!("US-001");
            assert_eq!(testing.error(caller, arguments).await.kind, ErrorKind::Conflict);
        }
    }
    assert_eq!(testing.ready().await, ["US-002"]);
    for (tool, arguments) in [
        ("get_item", json!({ "reference": "US-001" })),
        ("get_item", json!({ "reference": "EP-001" })),
        ("list_items", json!({ "kind": "user_story" })),
        ("epic_hierarchy", json!({ "epic": "EP-001" })),
    ] {
        let text = testing.text(tool, arguments).await;
        assert!(text.contains(&shown), "{tool}: {text}");
    }
    let mut after = testing.data("get_item", json!({ "reference": "US-001" })).await;
    after["item"].as_object_mut().unwrap().remove("claim");
    assert_eq!(after, before);
    let renew = json!({ "id": "US-001", "claim": claimed["claim"], "for_minutes": 20 });
    assert!(testing.data(CLAIM, renew).await["until"].as_str().unwrap() > until);
    testing.users.pass(20 * 60);
    assert_eq!(testing.ready().await, ["US-001", "US-002"]);
    let renew = json!({ "id": "US-001", "claim": claimed["claim"] });
    let error = testing.error(&testing.ann, renew).await;
    assert_eq!(error.field.as_deref(), Some("claim"));
    testing.users.call(&testing.bob, CLAIM, json!({ "id": "US-001" }), None).await.unwrap();
}

#[tokio::test]
async fn release_end_and_finished_status_free_a_story() {
    let testing = Team::new().await;
    let claim = json!({ "id": "US-001" });
    let claimed = testing.data(CLAIM, claim.clone()).await;
    let release = json!({ "id": "US-001", "claim": claimed["claim"], "release": true });
    assert_eq!(testing.text(CLAIM, release.clone()).await, "Released US-001");
    let none = "US-001 has no claim, so none was released";
    assert_eq!(testing.text(CLAIM, release).await, none);
    let ended = testing.users.call(&testing.bob, "unclaim_item", claim.clone(), None).await;
    assert_eq!(ended.unwrap().text, none);
    testing.data(CLAIM, claim.clone()).await;
    let ended = testing.users.call(&testing.bob, "unclaim_item", claim.clone(), None).await;
    assert_eq!(ended.unwrap().text, "Released US-001");
    for status in ["Done", "Cancelled"] {
        testing.data(CLAIM, claim.clone()).await;
        for status in [status, "Backlog"] {
            let update = json!({ "user_story": "US-001", "status": status });
            testing.data("update_user_story", update).await;
            if status != "Backlog" {
                let error = testing.error(&testing.ann, claim.clone()).await;
                assert!(error.message.contains(&format!("US-001 is {status}")), "{error}");
            }
        }
        assert_eq!(testing.ready().await, ["US-001", "US-002"]);
    }
    let rows = testing.users.rows().await;
    let claims = rows.iter().filter(|row| row.action == CLAIM);
    assert_eq!(claims.clone().count(), 8);
    assert!(claims.flat_map(|row| &row.targets).all(|target| target.name == "US-001"));
}

#[tokio::test]
async fn retry_with_the_same_key_gets_the_same_claim() {
    let testing = Team::new().await;
    let claim = || async {
        let claim = json!({ "id": "US-001" });
        let call = testing.users.call(&testing.ann, CLAIM, claim, Some("key-1"));
        Arc::unwrap_or_clone(call.await.unwrap().data)
    };
    assert_eq!(claim().await, claim().await);
    let other = json!({ "id": "US-001" });
    let error = testing.users.call(&testing.ann, CLAIM, other, Some("key-2")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn ready_stories_are_sorted_by_priority_and_waiting_stories() {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: A\n---\n").await;
    for (number, fields) in [
        (1, "status: Backlog\npriority: 3\n"),
        (2, "status: Backlog\npriority: 3\ndepends_on: [US-004]\n"),
        (3, "status: Draft\npriority: 1\n"),
        (4, "status: In Progress\npriority: 3\nepic: EP-001\n"),
        (5, "status: Backlog\npriority: 1\nassignee_username: bob\n"),
        (6, "status: Backlog\npriority: 4\nassignee_username: Tester\n"),
        (7, "status: Done\npriority: 1\n"),
        (8, "status: Backlog\npriority: 2\ndepends_on: [US-009]\n"),
        (9, "status: Backlog\npriority: 2\ndepends_on: [US-008]\n"),
        (10, "status: Backlog\npriority: 4\ndepends_on: [US-011]\n"),
        (11, "status: Cancelled\npriority: 1\n"),
    ] {
        let text = format!("---\ntitle: Story {number}\n{fields}---\n");
        testing.write_item(&format!("US-{number:03}"), text).await;
    }
    // REQ-002 makes US-002 wait for US-001 as well. The obsolete one does not count.
    for (name, fields) in [
        ("REQ-001", "user_story: US-001\nblocks: [REQ-002]\n"),
        ("REQ-002", "user_story: US-002\n"),
        ("REQ-003", "user_story: US-001\nstatus: Obsolete\ndepends_on: [REQ-002]\n"),
    ] {
        testing.write_item(name, format!("---\ntitle: A\n{fields}---\n")).await;
    }
    let page = testing.data("list_ready", json!({})).await;
    assert_eq!(references(&page["items"]), ["US-001", "US-004", "US-006", "US-010"]);
    assert_eq!((&page["total"], &page["waiting"]), (&json!(4), &json!(3)));
    assert_eq!(page["cycles"], json!([["US-008", "US-009"]]));
    let expected = "4 stories are ready; waiting: 3\n\
        US-001 (Backlog, 3 Medium): Story 1; needed by 1\n\
        US-004 (In Progress, 3 Medium): Story 4; parent EP-001; needed by 1\n\
        US-006 (Backlog, 4 Low): Story 6; assignee Tester\n\
        US-010 (Backlog, 4 Low): Story 10\n\n\
        Note: waiting: US-008 for US-009; US-009 for US-008; US-002 for US-001, US-004\n\
        Note: US-008 → US-009 → US-008 wait for each other; remove a dependency\n\
        Note: US-010 depends on US-011, which was dropped; change it";
    assert_eq!(testing.text("list_ready", json!({})).await, expected);
    let mut listed = Vec::new();
    let mut arguments = json!({ "limit": 1 });
    loop {
        let page = testing.data("list_ready", arguments.clone()).await;
        listed.extend(references(&page["items"]).into_iter().map(str::to_owned));
        let Some(cursor) = page.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
    }
    assert_eq!(listed, ["US-001", "US-004", "US-006", "US-010"]);
    for (arguments, expected) in [
        (json!({ "assignee": "BOB" }), &["US-005", "US-001", "US-004", "US-010"][..]),
        (json!({ "assignee": "" }), &["US-001", "US-004", "US-010"]),
        (json!({ "epic": "EP-001" }), &["US-004"]),
    ] {
        let page = testing.data("list_ready", arguments).await;
        assert_eq!(references(&page["items"]), expected);
    }
    let folder = ".reqlore/backlog/stories";
    let found = testing.check().await;
    for problem in [
        "US-008.md:: US-008 → US-009 → US-008 wait for each other; remove a dependency",
        "US-010.md:: US-010 depends on US-011, which was dropped; change it",
    ] {
        assert!(found.contains(&format!("{folder}/{problem}")), "{found:#?}");
    }
}

#[tokio::test]
async fn stories_are_related_by_two_types() {
    let testing = TestApplication::new();
    testing.write_item("US-001", "---\ntitle: A\n---\n").await;
    testing.write_item("US-002", "---\ntitle: B\n---\n").await;
    testing.write_item("REQ-001", "---\ntitle: C\n---\n").await;
    let relate =
        |kind: &str, target: &str| json!({ "source": "US-001", "type": kind, "target": target });
    testing.data("create_relationship", relate("depends_on", "US-002")).await;
    for (kind, target, field) in
        [("relates_to", "US-002", "type"), ("depends_on", "REQ-001", "target")]
    {
        let error = testing.error("create_relationship", relate(kind, target)).await;
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    let text = testing.text("get_item", json!({ "reference": "US-002" })).await;
    assert!(text.contains("- needed by US-001 (Backlog): A"), "{text}");
    let page = testing.data("list_ready", json!({})).await;
    assert_eq!(references(&page["items"]), ["US-002"]);
    testing.data("delete_relationship", relate("depends_on", "US-002")).await;
    let page = testing.data("list_ready", json!({})).await;
    assert_eq!(references(&page["items"]), ["US-001", "US-002"]);
}
