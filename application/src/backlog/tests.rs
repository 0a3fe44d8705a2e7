//! The tools of the backlog, as their callers see them.

mod check;
mod fix;

use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::ApplicationService;
use serde_json::{Value, json};

use crate::testing::Testing;

mod deleting;
mod projects;

const GET: &str = "get_user_story_requirements";

/// An epic and a story.
async fn story() -> Testing {
    let testing = Testing::new();
    testing.data("create_epic", json!({ "title": "Accounts", "priority": 1 })).await;
    let story = json!({ "epic": "EP-001", "title": "Log in", "priority": 2 });
    testing.data("create_user_story", story).await;
    testing
}

async fn requirement(testing: &Testing, title: &str, priority: u8) -> Value {
    let given = json!({
        "user_story": "US-001", "title": title, "priority": priority, "type": "Functional",
    });
    testing.data("create_requirement", given).await
}

async fn write(testing: &Testing, kind: usize, name: &str, text: &str) {
    let id = DocumentId { kind: Kind::ITEMS[kind], name: name.to_owned() };
    testing.write(id, text.to_owned()).await;
}

// S5: 7.3, 7.4, 7.5, 7.6
#[tokio::test]
async fn every_create_answers_with_the_record_its_reference_and_its_version() {
    let testing = story().await;
    for (tool, given, sentence) in [
        ("create_epic", json!({ "title": "Search", "priority": 4 }), "Created epic EP-002: Search"),
        (
            "create_user_story",
            json!({ "epic": "EP-1", "title": "Find", "priority": 1 }),
            "Created user story US-002: Find",
        ),
        (
            "create_requirement",
            json!({ "user_story": "US-001", "title": "Fast", "priority": 1,
                    "type": "Non-Functional", "tags": ["speed", " speed "], "assignee": "bob" }),
            "Created requirement REQ-001: Fast",
        ),
        (
            "create_acceptance_criteria",
            json!({ "user_story": "US-1", "description": "GIVEN x\nTHEN y" }),
            "Created acceptance criteria AC-001: GIVEN x",
        ),
    ] {
        let reply = testing.call(tool, given).await.unwrap();
        let version = reply.data["version"].as_str().unwrap();
        assert_eq!(reply.text, [format!("{sentence} (version {})", &version[..8])]);
        assert_eq!(reply.data["project"], "default");
        assert_eq!(reply.data["creator_username"], "tester");
        assert_eq!(reply.data["uid"].as_str().map(str::len), Some(36));
    }
    let reply = testing.call("get_item", json!({ "reference": "REQ-1" })).await.unwrap();
    let item = &reply.data["item"];
    assert_eq!(item["type_name"], "Non-Functional");
    assert_eq!(item["user_story"], "US-001");
    assert_eq!(item["tags"], json!(["speed"]));
    assert_eq!(item["status"], "Draft");
    let reply = testing.call("get_item", json!({ "reference": "US-001" })).await.unwrap();
    assert_eq!(reply.data["item"]["status"], "Backlog");
    let children: Vec<&str> = reply.data["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|child| child["reference_id"].as_str().unwrap())
        .collect();
    assert_eq!(children, ["REQ-001", "AC-001"]);
}

// S2: 1.1, 1.3, 1.6, 1.8, 1.9, 3.1, 3.3, 4.1
#[tokio::test]
async fn requirements_of_a_story_are_told_word_for_word_in_the_one_order() {
    let testing = Testing::new();
    write(&testing, 1, "US-047", "---\ntitle: S\n---\n").await;
    let head = "user_story: US-47\ncreator_username: ann\ncreated_at: 2026-01-0";
    for (name, text) in [
        ("REQ-048", format!("---\ntitle: A\npriority: 2\n{head}1\n---\n\nBody\nof two lines.\n")),
        ("REQ-049", format!("---\ntitle: B\npriority: 2\n{head}2\ntype_name: Data\n---\n")),
        (
            "REQ-050",
            format!("---\ntitle: C\npriority: 1\n{head}1\nassignee_username: bob\n---\n\nX\n"),
        ),
        ("REQ-051", "---\ntitle: Of another story\nuser_story: US-048\n---\n\nUS-047\n".to_owned()),
        ("REQ-052", format!("---\ntitle: D\npriority: 2\n{head}2\nstatus: Active\n---\n")),
    ] {
        write(&testing, 2, name, &text).await;
    }
    let reply = testing.call(GET, json!({ "user_story": "US-047" })).await.unwrap();
    assert_eq!(
        reply.text[0],
        "Found 4 requirements for user story US-047:\n\n\
         REQ-050: C (Priority: 1, Status: Draft, Type: Functional, Creator: ann, Assignee: bob)\n\
         X\nCreated: 2026-01-01T00:00:00Z\n\n\
         REQ-052: D (Priority: 2, Status: Active, Type: Functional, Creator: ann)\n\n\
         Created: 2026-01-02T00:00:00Z\n\n\
         REQ-049: B (Priority: 2, Status: Draft, Type: Data, Creator: ann)\n\n\
         Created: 2026-01-02T00:00:00Z\n\n\
         REQ-048: A (Priority: 2, Status: Draft, Type: Functional, Creator: ann)\n\
         Body\nof two lines.\nCreated: 2026-01-01T00:00:00Z"
    );
    let requirements = reply.data["requirements"].as_array().unwrap();
    for key in [
        "reference_id",
        "title",
        "description",
        "status",
        "priority",
        "type_name",
        "creator_username",
        "assignee_username",
        "created_at",
        "updated_at",
    ] {
        assert!(requirements.iter().all(|found| found.get(key).is_some()), "{key} is missing");
    }
    assert_eq!(requirements[0]["assignee_username"], "bob");
    assert_eq!(requirements[1]["assignee_username"], Value::Null);
}

// S2: 1.4, 3.2
#[tokio::test]
async fn a_story_without_requirements_is_no_error() {
    let testing = story().await;
    let reply = testing.call(GET, json!({ "user_story": "US-001" })).await.unwrap();
    assert_eq!(
        reply.text,
        ["Found 0 requirements for user story US-001. No requirements are currently linked to \
          this user story."]
    );
    assert_eq!(reply.data["requirements"], json!([]));
}

// S2: 1.2, 1.5, 2.1, 2.2; catalogue 39
#[tokio::test]
async fn a_wrong_story_is_told_in_the_words_of_the_specification() {
    let testing = story().await;
    for unknown in ["US-999", "US-99999999999999999999"] {
        let error = testing.error(GET, json!({ "user_story": unknown })).await;
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.message, format!("User story not found: {unknown}"));
        assert_eq!(error.reference.as_deref(), Some(unknown));
    }
    for wrong in ["USER-047", "US-", "US-ABC", "047", "us-1", "US-1\n", "US-\u{661}", "EP-001"] {
        let error = testing.error(GET, json!({ "user_story": wrong })).await;
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{wrong}");
        assert!(error.message.starts_with("Invalid user story reference ID format"), "{error}");
        assert_eq!(error.field.as_deref(), Some("user_story"));
    }
    let found = testing.text(GET, json!({ "user_story": "US-0001" })).await;
    assert!(found.starts_with("Found 0 requirements for user story US-001"), "{found}");
}

// S2: 1.7, 4.2
#[test]
fn the_schema_is_the_specification_s_and_has_no_further_keys() {
    let application = Testing::new().application();
    let caller = Caller::local("", Access::Read);
    let tools = application.tools(&caller);
    let spec = tools.iter().find(|spec| spec.name == GET).unwrap();
    assert_eq!(spec.description, "Get all requirements linked to a specific user story");
    let schema = json!({
        "type": "object",
        "properties": { "user_story": {
            "type": "string",
            "description": "User story reference ID (e.g., 'US-047')",
            "pattern": "^US-\\d+$",
        } },
        "required": ["user_story"],
    });
    assert_eq!(Value::Object(spec.input_schema.clone()), schema);
}

// S5: 7.2, 7.8
#[tokio::test]
async fn what_does_not_fit_is_named_and_nothing_is_made() {
    let testing = story().await;
    for (tool, given, says) in [
        ("create_epic", json!({ "title": " ", "priority": 1 }), "title: "),
        ("create_epic", json!({ "title": "T", "priority": 5 }), "priority: 5 is not from 1 to 4"),
        ("create_epic", json!({ "title": "T" }), "priority: required"),
        (
            "create_epic",
            json!({ "title": "T", "priority": 1, "status": "Active" }),
            "none of Backlog",
        ),
        (
            "create_user_story",
            json!({ "epic": "US-1", "title": "T", "priority": 1 }),
            "Invalid epic reference ID format: \"US-1\"",
        ),
        (
            "create_user_story",
            json!({ "epic": "EP-9", "title": "T", "priority": 1 }),
            "Epic not found: EP-009",
        ),
        (
            "create_requirement",
            json!({ "user_story": "US-1", "title": "T", "priority": 1 }),
            "type: required",
        ),
        (
            "create_acceptance_criteria",
            json!({ "user_story": "US-1", "description": "" }),
            "description: ",
        ),
        (
            "update_epic",
            json!({ "epic": "EP-1" }),
            "Nothing to change was given. Give one of title",
        ),
        (
            "update_user_story",
            json!({ "user_story": "US-1", "epic": "EP-7" }),
            "Epic not found: EP-007",
        ),
        ("get_item", json!({ "reference": "X-1" }), "write it like EP-047 or US-047"),
    ] {
        let error = testing.error(tool, given).await;
        assert!(error.message.contains(says), "{tool}: {error}");
    }
    let made = requirement(&testing, "First", 1).await;
    assert_eq!(made["reference_id"], "REQ-001", "no number was lost");
}

#[tokio::test]
async fn an_update_changes_what_is_given_and_keeps_the_rest() {
    let testing = story().await;
    let mine = "---\n# mine\ntitle: By hand\nfoo: bar # kept\nuser_story: US-001\n---\n\nText\n";
    write(&testing, 2, "REQ-500", mine).await;
    let given = json!({ "requirement": "REQ-500", "status": "Active", "assignee": "bob" });
    let updated = testing.data("update_requirement", given.clone()).await;
    assert_eq!(
        (&updated["status"], &updated["assignee_username"]),
        (&json!("Active"), &json!("bob"))
    );
    let id = DocumentId { kind: Kind::ITEMS[2], name: "REQ-500".to_owned() };
    let text = testing.body(id.clone()).await.unwrap();
    assert!(text.starts_with("---\n# mine\ntitle: By hand\nfoo: bar # kept\n"), "{text}");
    assert!(text.ends_with("---\n\nText\n") && !text.contains("uid"), "{text}");
    let again = testing.call("update_requirement", given).await.unwrap();
    assert!(again.text[0].starts_with("Nothing to change in requirement REQ-500"), "{again:?}");
    assert_eq!(testing.body(id).await.unwrap(), text, "nothing was written");
    let given = json!({ "requirement": "REQ-500", "assignee": "", "description": "New" });
    let updated = testing.data("update_requirement", given).await;
    assert_eq!(
        (&updated["assignee_username"], &updated["description"]),
        (&Value::Null, &json!("New"))
    );
}

#[tokio::test]
async fn a_stale_version_is_a_conflict_that_shows_what_is_there() {
    let testing = story().await;
    let made = requirement(&testing, "First", 1).await;
    let version = made["version"].clone();
    let given = json!({ "requirement": "REQ-001", "title": "Second", "if_version": version });
    testing.data("update_requirement", given.clone()).await;
    for (tool, given) in [
        ("update_requirement", given),
        ("delete_item", json!({ "reference": "REQ-001", "if_version": version })),
    ] {
        let error = testing.error(tool, given).await;
        assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::Conflict, Some("if_version")));
        assert!(error.message.contains("title: Second"), "{error}");
    }
}

// S5: 7.6
#[tokio::test]
async fn relationships_are_of_two_requirements_once_and_not_of_one_with_itself() {
    let testing = story().await;
    requirement(&testing, "A", 1).await;
    requirement(&testing, "B", 1).await;
    let relate = |source: &str, target: &str, kind: &str| json!({ "source": source, "target": target, "type": kind });
    testing.data("create_relationship", relate("REQ-001", "REQ-002", "depends_on")).await;
    testing.data("create_relationship", relate("REQ-001", "REQ-002", "relates_to")).await;
    testing.data("create_relationship", relate("REQ-002", "REQ-001", "depends_on")).await;
    for (given, says) in [
        (relate("REQ-001", "REQ-002", "depends_on"), "There is a relationship already"),
        (relate("REQ-002", "REQ-001", "relates_to"), "There is a relationship already"),
        (relate("REQ-001", "REQ-001", "blocks"), "with itself"),
        (relate("REQ-001", "REQ-009", "blocks"), "Requirement not found: REQ-009"),
        (relate("US-001", "REQ-001", "blocks"), "Invalid requirement reference ID format"),
        (relate("REQ-001", "REQ-002", "hates"), "is none of depends_on, blocks"),
    ] {
        let error = testing.error("create_relationship", given).await;
        assert!(error.message.contains(says), "{error}");
    }
    let reply = testing.call("get_item", json!({ "reference": "REQ-001" })).await.unwrap();
    let kinds = |way: &str| -> Vec<String> {
        let related = reply.data["relationships"][way].as_array().unwrap();
        related.iter().map(|to| format!("{} {}", to["type"], to["reference_id"])).collect()
    };
    assert_eq!(kinds("outgoing"), ["\"depends_on\" \"REQ-002\"", "\"relates_to\" \"REQ-002\""]);
    assert_eq!(kinds("incoming"), ["\"depends_on\" \"REQ-002\""]);
    let ended = relate("REQ-001", "REQ-002", "depends_on");
    testing.data("delete_relationship", ended.clone()).await;
    let error = testing.error("delete_relationship", ended).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn two_files_of_one_reference_are_named_and_nothing_is_changed() {
    let testing = story().await;
    write(&testing, 2, "REQ-001-aaaaaa", "---\ntitle: A\n---\n").await;
    write(&testing, 2, "REQ-001-bbbbbb", "---\ntitle: B\n---\n").await;
    let error = testing
        .error("update_requirement", json!({ "requirement": "REQ-001", "title": "X" }))
        .await;
    for part in ["REQ-001-aaaaaa.md", "REQ-001-bbbbbb.md", "reqlore check --fix"] {
        assert!(error.message.contains(part), "{error}");
    }
}

// S2: 1.9, 4.1
#[tokio::test]
async fn type_names_are_those_of_the_resource() {
    let testing = story().await;
    let types = testing.read("requirements://requirements-types").await.unwrap();
    let types: Value = serde_json::from_str(&types.text).unwrap();
    let names: Vec<&str> = types["requirement_types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for name in &names {
        let given = json!({ "user_story": "US-001", "title": name, "priority": 1, "type": name });
        testing.data("create_requirement", given).await;
    }
    let reply = testing.call(GET, json!({ "user_story": "US-001" })).await.unwrap();
    let mut told: Vec<&str> = reply.data["requirements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["type_name"].as_str().unwrap())
        .collect();
    told.reverse();
    assert_eq!(told, names);
    assert!(names.iter().all(|name| reply.text[0].contains(&format!("Type: {name},"))));
}
