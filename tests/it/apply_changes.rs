//! `apply_changes`: one commit for many items, equal to the single tools in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use reqlore_application::{Application, ApplicationPorts};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Error;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository};
use reqlore_domain::ports::service::{AnswerFormat, NoProgress, ToolCall, ToolService};
use reqlore_domain::project_key::ProjectKey;
use reqlore_storage_memory::{MemoryIndex, RowStore, memory_store};
use serde_json::{Value, json};

use crate::client::{Server, text};
use crate::http::{STORAGES, TestTeam};
use crate::transcripts::{commit_document_to, memory_ports};

/// An epic with 5 stories of 4 requirements each.
pub(crate) fn decomposed_epic(title: &str) -> Vec<Value> {
    let mut changes =
        vec![json!({ "create": "epic", "name": "epic", "title": title, "priority": 1 })];
    for story in 0..5 {
        let name = format!("story-{story}");
        changes.push(json!({
            "create": "user_story", "name": name, "epic": "$epic",
            "title": format!("Story {story}"), "priority": 2
        }));
        for requirement in 0..4 {
            changes.push(json!({
                "create": "requirement", "user_story": format!("${name}"),
                "title": format!("Requirement {requirement}"), "priority": 3,
                "type": "Functional"
            }));
        }
    }
    changes
}

#[test]
fn apply_changes_creates_an_epic_with_25_items_in_one_call() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        let token = team.administrator();
        let server = team.serve();
        let mut client = server.client(&token);
        let params = json!({
            "name": "apply_changes",
            "arguments": { "changes": decomposed_epic("Checkout") },
            "_meta": { "reqlore/idempotency-key": "k-1" }
        });
        let first = client.request("tools/call", params.clone()).json();
        let results = &first["result"]["structuredContent"]["results"];
        let ids: Vec<&str> =
            results.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!((ids.len(), ids[0], ids[1], ids[25]), (26, "EP-001", "US-001", "REQ-020"));
        let second = client.request("tools/call", params).json();
        assert_eq!(second["result"], first["result"], "a repeated call changes nothing");
        let counts = json!({ "user_stories": 5, "requirements": 20, "acceptance_criteria": 0 });
        let hierarchy = client.data("epic_hierarchy", json!({ "epic": "EP-001" }));
        assert_eq!(hierarchy["counts"], counts, "{storage}");
        server.end();
        let rows = team.rows();
        let row = rows.iter().find(|row| row["action"] == "apply_changes").unwrap();
        assert_eq!(row["targets"].as_array().unwrap().len(), 26, "one row with all targets");
        let server = team.serve();
        let next = server.client(&token).data(
            "create_requirement",
            json!({ "user_story": "US-005", "title": "x", "priority": 1, "type": "Data" }),
        );
        assert_eq!(next["reference_id"], "REQ-021", "{storage}: all numbers are issued");
    }
}

#[test]
fn apply_changes_refuses_entries_of_disabled_toolsets() {
    let epic = json!({ "create": "epic", "title": "x", "priority": 1 });
    let decision = json!({ "create": "decision", "title": "x" });
    for (toolset, own, other, tool) in [
        ("backlog", &epic, &decision, "ixchel_create"),
        ("knowledge", &decision, &epic, "create_epic"),
    ] {
        let project = crate::client::project();
        let mut server = Server::start_with(project.path(), &["--toolsets", toolset]);
        let answer = server.call("apply_changes", json!({ "changes": [own, other] }));
        let message = text(&answer);
        assert!(message.starts_with("Entry 2 (create "), "{message}");
        assert!(message.contains(&format!("): {tool} is not enabled")), "{message}");
        let applied = server.data("apply_changes", json!({ "changes": [own] }));
        assert_eq!(applied["results"][0]["action"], "create");
        let id = &applied["results"][0]["id"];
        let deleted = server.data("apply_changes", json!({ "changes": [{ "delete": id }] }));
        assert_eq!(deleted["results"][0]["action"], "delete");
        let tools = server.request("tools/list", json!({}));
        let mut tools = tools["result"]["tools"].as_array().unwrap().iter();
        let tool = tools.find(|tool| tool["name"] == "apply_changes").unwrap();
        let kinds = tool.pointer("/inputSchema/properties/changes/items/properties/create/enum");
        let has_epic = kinds.unwrap().as_array().unwrap().contains(&json!("epic"));
        assert_eq!(has_epic, toolset == "backlog", "{kinds:?}");
    }
    let project = crate::client::project();
    let mut server = Server::start_with(project.path(), &["--toolsets", "sections,docsets"]);
    let tools = server.request("tools/list", json!({})).to_string();
    assert!(!tools.contains("apply_changes"), "no entry could be applied");
}

const SEED_ITEMS: [(&str, &str); 10] = [
    ("epics/EP-001", "---\ntitle: A\n---\n"),
    ("epics/EP-002", "---\ntitle: B\n---\n"),
    ("stories/US-001", "---\ntitle: C\nepic: EP-001\n---\n"),
    ("stories/US-002", "---\ntitle: D\nepic: EP-001\n---\n"),
    ("stories/US-003", "---\ntitle: E\nepic: EP-002\n---\n"),
    ("requirements/REQ-001", "---\ntitle: F\nuser_story: US-001\ndepends_on: [REQ-002]\n---\n"),
    ("requirements/REQ-002", "---\ntitle: G\nuser_story: US-001\n---\n"),
    ("requirements/REQ-003", "---\ntitle: H\nuser_story: US-002\n---\n"),
    ("requirements/REQ-004", "---\ntitle: I\nuser_story: US-003\n---\n"),
    ("criteria/AC-001", "---\nuser_story: US-001\n---\n\nGIVEN x\n"),
];

/// All projects of the test share one application, because tool schemas take long to build.
static APPLICATION: LazyLock<(Arc<RowStore>, Application)> = LazyLock::new(|| {
    let store = Arc::new(memory_store());
    let application = Application::new(ApplicationPorts {
        documents: store.clone(),
        ..memory_ports(Arc::new(MemoryIndex::default()))
    });
    (store, application)
});

/// A new project in memory.
struct TestProject(ProjectKey);

impl TestProject {
    async fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let project = ProjectKey::new(format!("project-{number}"));
        for (path, text) in SEED_ITEMS {
            let path = format!(".reqlore/backlog/{path}.md");
            commit_document_to(&*APPLICATION.0, &project, &path, text).await;
        }
        Self(project)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Error> {
        let call = ToolCall {
            caller: Arc::new(Caller {
                project: self.0.clone(),
                ..Caller::local("tester", Access::Write)
            }),
            idempotency_key: None,
            answer_format: AnswerFormat::Both,
            is_audited: false,
            progress_sink: Arc::new(NoProgress),
            client_name: None,
            correlation_id: String::new(),
            name: tool.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
        };
        APPLICATION.1.call(call).await.map(|answer| Arc::unwrap_or_clone(answer.data))
    }

    /// All documents by id, as text.
    async fn documents(&self) -> BTreeMap<String, String> {
        let (store, project) = (&APPLICATION.0, &self.0);
        let mut documents = BTreeMap::new();
        for kind in DocumentKind::ALL {
            let page = store.find(project, &DocumentFilter::of_kind(kind)).await.unwrap();
            let ids: Vec<_> = page.metadata.iter().map(|meta| meta.id.clone()).collect();
            for document in store.get(project, &ids).await.unwrap().into_iter().flatten() {
                documents.insert(document.id.to_string(), document.text().unwrap().to_owned());
            }
        }
        documents
    }
}

// The last of each kind does not exist.
const EPICS: [&str; 3] = ["EP-001", "EP-002", "EP-099"];
const STORIES: [&str; 4] = ["US-001", "US-002", "US-003", "US-099"];
const REQUIREMENTS: [&str; 5] = ["REQ-001", "REQ-002", "REQ-003", "REQ-004", "REQ-099"];
const ITEMS: [&str; 10] = [
    "EP-001", "EP-002", "US-001", "US-002", "US-003", "REQ-001", "REQ-002", "REQ-003", "REQ-004",
    "AC-001",
];

/// Entries with valid arguments; some targets do not exist and some changes are refused.
fn entries() -> impl Strategy<Value = Vec<Value>> {
    let choice = (0..14_u8, any::<usize>(), any::<usize>(), any::<bool>());
    prop::collection::vec(choice, 1..9).prop_map(|choices| {
        let mut names: [Vec<String>; 3] = [EPICS.as_slice(), &STORIES, &REQUIREMENTS]
            .map(|list| list.iter().map(|id| (*id).to_owned()).collect());
        let mut entries = Vec::new();
        for (position, (operation, a, b, flag)) in choices.into_iter().enumerate() {
            let pick = |list: &[String], at: usize| list[at % list.len()].clone();
            let title = format!("Title {position}");
            let name = format!("n{position}");
            let (epic, story) = (pick(&names[0], a), pick(&names[1], a));
            entries.push(match operation {
                0 => json!({ "create": "epic", "name": name, "title": title, "priority": 2 }),
                1 | 2 => json!({
                    "create": "user_story", "name": name, "epic": epic, "title": title,
                    "priority": 1
                }),
                3..=5 => json!({
                    "create": "requirement", "name": name, "user_story": story, "title": title,
                    "priority": 3, "type": "Data"
                }),
                6 => json!({
                    "create": "acceptance_criteria", "user_story": story, "description": title
                }),
                7 => {
                    json!({ "update": EPICS[a % 3], "status": if flag { "Done" } else { "Draft" } })
                }
                8 => json!({ "update": STORIES[b % 4], "epic": epic }),
                9 => json!({ "update": REQUIREMENTS[b % 5], "title": title, "user_story": story }),
                10 => json!({ "delete": ITEMS[a % 10], "cascade": flag }),
                _ => json!({ "relate": {
                    "source": pick(&names[2], a), "target": pick(&names[2], b),
                    "type": if flag { "depends_on" } else { "relates_to" }
                } }),
            });
            match operation {
                0 => names[0].push(format!("${name}")),
                1 | 2 => names[1].push(format!("${name}")),
                3..=5 => names[2].push(format!("${name}")),
                _ => {}
            }
        }
        entries
    })
}

/// Calls the tool of one entry; `references` are those of the local names.
async fn call_single_tool(
    project: &TestProject,
    entry: &Value,
    references: &BTreeMap<String, String>,
) -> Result<Value, Error> {
    let mut arguments = entry.as_object().unwrap().clone();
    arguments.remove("name");
    let (tool, own_arguments) = if let Some(kind) = arguments.remove("create") {
        (format!("create_{}", kind.as_str().unwrap()), json!({}))
    } else if let Some(id) = arguments.remove("update") {
        let kind = match &id.as_str().unwrap()[..2] {
            "EP" => "epic",
            "US" => "user_story",
            _ => "requirement",
        };
        (format!("update_{kind}"), json!({ kind: id }))
    } else if let Some(id) = arguments.remove("delete") {
        ("delete_item".to_owned(), json!({ "reference": id }))
    } else {
        ("create_relationship".to_owned(), arguments.remove("relate").unwrap())
    };
    arguments.extend(own_arguments.as_object().unwrap().clone());
    for value in arguments.values_mut() {
        let name = value.as_str().and_then(|text| text.strip_prefix('$'));
        if let Some(reference) = name.and_then(|name| references.get(name)) {
            *value = reference.as_str().into();
        }
    }
    project.call(&tool, Value::Object(arguments)).await
}

/// True if the rule "one entry per item" may refuse entries that the single tools accept.
fn may_touch_an_item_twice(entries: &[Value]) -> bool {
    let mut changed = BTreeSet::new();
    for entry in entries {
        if entry["cascade"] == true {
            return true;
        }
        let ids = [&entry["update"], &entry["delete"]].into_iter().filter_map(Value::as_str);
        for id in ids {
            if !changed.insert(id.to_owned()) {
                return true;
            }
        }
    }
    false
}

/// The entries that the single tools accept are applied with the same result. The first refused
/// one makes the call fail.
async fn check_against_single_tools(entries: &[Value]) -> Result<(), TestCaseError> {
    let (alone, together) = (TestProject::new().await, TestProject::new().await);
    let before = together.documents().await;
    let (mut accepted, mut ids, mut has_refused) = (Vec::new(), Vec::new(), false);
    let mut references = BTreeMap::new();
    for entry in entries {
        let Ok(data) = call_single_tool(&alone, entry, &references).await else {
            if !has_refused {
                has_refused = true;
                let mut changes = accepted.clone();
                changes.push(entry.clone());
                let failed = together.call("apply_changes", json!({ "changes": changes })).await;
                prop_assert!(failed.is_err(), "{changes:?}");
                prop_assert_eq!(&together.documents().await, &before);
            }
            continue;
        };
        let id = data["reference_id"].as_str().unwrap().to_owned();
        if let Some(name) = entry["name"].as_str() {
            references.insert(name.to_owned(), id.clone());
        }
        ids.push(id);
        accepted.push(entry.clone());
    }
    if accepted.is_empty() {
        return Ok(());
    }
    let dry_run = json!({ "changes": accepted, "dry_run": true });
    let dry_run = together.call("apply_changes", dry_run).await;
    prop_assert_eq!(&together.documents().await, &before, "a dry run writes nothing");
    match together.call("apply_changes", json!({ "changes": accepted })).await {
        Ok(data) => {
            let documents = mask_uids(together.documents().await);
            prop_assert_eq!(documents, mask_uids(alone.documents().await));
            let results = data["results"].as_array().unwrap();
            let applied: Vec<_> = results.iter().map(|one| one["id"].as_str().unwrap()).collect();
            prop_assert_eq!(applied, ids);
            prop_assert!(dry_run.is_ok());
        }
        Err(error) => {
            let is_rule = error.message.contains("already changed by entry")
                || error.message.contains("an earlier entry adds");
            prop_assert!(is_rule && may_touch_an_item_twice(&accepted), "{}", error);
            prop_assert_eq!(together.documents().await, before);
            prop_assert_eq!(dry_run.unwrap_err().message, error.message);
        }
    }
    Ok(())
}

/// Changes of rules: some do not exist, and some entries change a rule twice.
fn rule_entries() -> impl Strategy<Value = Vec<Value>> {
    let choice = (0..4_u8, 1..5_u8, any::<bool>());
    prop::collection::vec(choice, 0..5).prop_map(|choices| {
        let mut entries = Vec::new();
        for (operation, index, flag) in choices {
            let section = if flag { "one" } else { "two" };
            let (address, text) = (format!("{section}:{index}"), format!("Text {index}."));
            entries.push(match operation {
                0 => json!({ "create": "rule", "section": section, "text": text }),
                1 => json!({ "create": "rule", "section": section, "text": text, "index": "9" }),
                2 => json!({ "update": address, "text": text }),
                _ => json!({ "delete": address }),
            });
        }
        entries
    })
}

/// A plan that is applied has the result of the call without a dry run.
async fn check_plan(entries: &[Value]) -> Result<(), TestCaseError> {
    let (direct, planned) = (TestProject::new().await, TestProject::new().await);
    for project in [&direct, &planned] {
        let rule = json!({ "create": "rule", "section": "one", "text": "A rule." });
        project.call("apply_changes", json!({ "changes": [rule, rule, rule] })).await.unwrap();
    }
    let call = json!({ "changes": entries });
    let dry_run = json!({ "changes": entries, "dry_run": true });
    let expected = direct.call("apply_changes", call).await;
    let plan = match planned.call("apply_changes", dry_run).await {
        Ok(data) => json!({ "plan": data["plan"] }),
        Err(error) => {
            prop_assert_eq!(error.message, expected.unwrap_err().message);
            return Ok(());
        }
    };
    let mut expected = expected.unwrap();
    let mut applied = planned.call("apply_changes", plan).await.unwrap();
    for data in [&mut expected, &mut applied] {
        data["project"] = Value::Null;
        for result in data["results"].as_array_mut().unwrap() {
            // It depends on the random uid.
            result["version"] = Value::Null;
        }
    }
    prop_assert_eq!(applied, expected);
    let documents = [planned.documents().await, direct.documents().await].map(mask_uids);
    prop_assert_eq!(&documents[0], &documents[1]);
    Ok(())
}

/// Removes the uids and their suffixes in names and links.
fn mask_uids(documents: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut masked = BTreeMap::new();
    for (id, text) in documents {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("uid:") && !line.starts_with("linked:"))
            .collect();
        let name: Vec<&str> = id.split('-').take(2).collect();
        masked.insert(name.join("-"), lines.join("\n"));
    }
    masked
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn apply_changes_equals_the_single_tools_in_order(entries in entries()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check_against_single_tools(&entries))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn applied_plan_equals_the_applied_call(items in entries(), rules in rule_entries()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check_plan(&[items, rules].concat()))?;
    }
}
