//! Callers of several projects on one server: no call reads or changes another project.

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Access, ProjectScope};
use reqlore_domain::ports::service::{ApplicationService, CompletionTarget};
use reqlore_domain::project_key::ProjectKey;
use serde_json::{Value, json};

use crate::project_index::SHARED_POLL;
use crate::test_support::TestApplication;

/// Callers with the scope of the projects `one` and `two`, on one server.
fn two_projects() -> [TestApplication; 2] {
    let keys = ["one", "two"].map(ProjectKey::new);
    let server = TestApplication { projects: keys.to_vec(), ..TestApplication::new() };
    keys.map(|project| {
        let scope = ProjectScope::Only(vec![project.clone()]);
        TestApplication { scope, project, ..server.clone() }
    })
}

/// Two projects with an epic, a story and a requirement each, titled `alpha` or `beta`.
async fn filled() -> [TestApplication; 2] {
    let projects = two_projects();
    for (testing, word) in projects.iter().zip(["alpha", "beta"]) {
        for (tool, arguments) in [
            ("create_epic", json!({ "title": word, "priority": 1 })),
            ("create_user_story", json!({ "title": word, "priority": 1, "epic": "EP-001" })),
            (
                "create_requirement",
                json!({ "title": word, "priority": 1, "user_story": "US-001", "type": "Data" }),
            ),
        ] {
            let created = testing.data(tool, arguments).await;
            assert_eq!(created["project"], testing.project.as_str(), "{tool}");
            assert!(
                created["reference_id"].as_str().unwrap().ends_with("-001"),
                "{tool}: {created}"
            );
        }
    }
    projects
}

// S5: 4.3
#[tokio::test]
async fn tools_in_two_projects_have_separate_items_and_numbers() {
    let [first, second] = filled().await;
    let further = json!({ "title": "gamma", "priority": 1 });
    assert_eq!(first.data("create_epic", further).await["reference_id"], "EP-002");
    for (tool, arguments) in [
        ("get_item", json!({ "reference": "EP-002" })),
        ("delete_item", json!({ "reference": "EP-002" })),
        ("epic_hierarchy", json!({ "epic": "EP-002" })),
        ("update_epic", json!({ "epic": "EP-002", "title": "taken" })),
    ] {
        let error = second.error(tool, arguments).await;
        assert_eq!(error.kind, ErrorKind::NotFound, "{tool}: {error}");
        assert!(!error.message.contains("gamma"), "{tool}: {error}");
    }
    second.data("delete_item", json!({ "reference": "EP-001", "cascade": true })).await;
    assert_eq!(second.data("list_epics", json!({})).await["total"], 0);
    assert_eq!(first.data("list_epics", json!({})).await["total"], 2);
    let next = second.data("create_epic", json!({ "title": "delta", "priority": 1 })).await;
    assert_eq!(next["reference_id"], "EP-002");
}

// S5: 4.3, 6.4
#[tokio::test]
async fn searches_lists_and_completions_stay_in_the_project() {
    let [first, second] = filled().await;
    first.data("create_epic", json!({ "title": "alpha", "priority": 1 })).await;
    for (testing, own_word, other_word, epics) in
        [(&first, "alpha", "beta", 2), (&second, "beta", "alpha", 1)]
    {
        for tool in ["search_global", "search_requirements"] {
            let found = testing.data(tool, json!({ "query": own_word })).await;
            assert_ne!(found["total"], 0, "{tool}: {found}");
            assert!(!found.to_string().contains(other_word), "{tool}: {found}");
            let found = testing.data(tool, json!({ "query": other_word })).await;
            assert_eq!(found["total"], 0, "{tool}: {found}");
        }
        let listed = testing.resources(None).await.unwrap().resources;
        let of_epics = listed.iter().filter(|resource| resource.uri.starts_with("epic://"));
        assert_eq!(of_epics.count(), epics);
        assert!(listed.iter().all(|resource| !resource.title.contains(other_word)));
        let target = CompletionTarget::Prompt("decompose_epic".to_owned());
        assert_eq!(testing.complete(target, "epic", "EP").await.unwrap().total, epics);
    }
    assert_eq!(second.read("epic://EP-002").await.unwrap_err().kind, ErrorKind::NotFound);
    let prompt = second.prompt("decompose_epic", json!({ "epic": "EP-002" })).await;
    assert_eq!(prompt.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn cursor_of_another_project_is_refused() {
    let [first, second] = two_projects();
    for testing in [&first, &second] {
        for number in 1..=101 {
            let epic = Reference { kind: ItemKind::Epic, number };
            testing.write(epic.document_id("", "abcdef"), "---\ntitle: E\n---\n").await;
        }
    }
    let next = first.resources(None).await.unwrap().next_cursor.unwrap();
    assert!(!first.resources(Some(&next)).await.unwrap().resources.is_empty());
    assert_eq!(second.resources(Some(&next)).await.unwrap_err().kind, ErrorKind::InvalidArgument);
    let page = first.data("list_epics", json!({ "limit": 1 })).await;
    let next = json!({ "limit": 1, "cursor": page["next_cursor"] });
    assert_eq!(first.data("list_epics", next.clone()).await["epics"].as_array().unwrap().len(), 1);
    assert_eq!(second.error("list_epics", next).await.kind, ErrorKind::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn revision_of_other_projects_is_unchanged_by_a_write() {
    let [first, second] = two_projects();
    let application = first.application();
    let count = async |testing: &TestApplication| {
        tokio::time::advance(SHARED_POLL).await;
        application.resources_changed(&testing.caller()).await.unwrap()
    };
    let before = (count(&first).await, count(&second).await);
    assert_ne!(before.0, before.1, "projects have different revisions");
    first.data("create_epic", json!({ "title": "E", "priority": 1 })).await;
    assert!(count(&first).await > before.0);
    assert_eq!(count(&second).await, before.1);
}

// S5: 4.3; catalogue 90
#[tokio::test]
async fn error_for_a_foreign_project_equals_an_unknown_one() {
    let [first, _] = two_projects();
    for (tool, argument, rest) in [
        ("reqlix_get_requirements", "project_root", json!({ "section": "general" })),
        ("ixchel_search", "repo", json!({ "query": "alpha" })),
        ("ixchel_sync", "repo", json!({})),
    ] {
        let arguments = |name: &str| {
            let mut arguments: Value = rest.clone();
            arguments[argument] = json!(name);
            arguments
        };
        let mut messages = Vec::new();
        for name in ["two", "unknown", "/etc", "/project"] {
            let error = first.error(tool, arguments(name)).await;
            assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::NotFound, Some(argument)));
            assert!(error.message.ends_with("can use are: one."), "{tool}: {error}");
            // The error replaces the default project's folder by its key.
            let name = if name == "/project" { "default" } else { name };
            messages.push(error.message.replace(name, "NAME"));
        }
        messages.dedup();
        assert_eq!(messages.len(), 1, "{tool}: {messages:?}");
        first.call(tool, arguments("one")).await.unwrap();
    }
    let reader = TestApplication { access: Access::Read, ..first };
    assert_eq!(reader.data("ixchel_sync", json!({})).await["scanned"], 0);
}
