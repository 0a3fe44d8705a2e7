//! Callers of several projects on one server: nobody sees or changes what is another's.

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, ProjectScope};
use reqlore_domain::ports::service::{ApplicationService, CompletionTarget, Message};
use reqlore_domain::project::ProjectKey;
use serde_json::{Value, json};

use crate::test_support::Testing;

/// A server with the projects `one` and `two`.
fn server() -> Testing {
    let projects = ["one", "two"].map(ProjectKey::new).to_vec();
    Testing { projects, ..Testing::new() }
}

/// Whoever reaches this project alone.
fn of(server: &Testing, project: &str) -> Testing {
    let project = ProjectKey::new(project);
    let reach = ProjectScope::Only(vec![project.clone()]);
    Testing { reach, project, ..server.clone() }
}

/// An epic, with a story that has a requirement and a criterion, all called by the same word.
async fn filled(server: &Testing, project: &str, word: &str) -> Testing {
    let testing = of(server, project);
    for (tool, arguments) in [
        ("create_epic", json!({ "title": word, "priority": 1 })),
        ("create_user_story", json!({ "title": word, "priority": 1, "epic": "EP-001" })),
        (
            "create_requirement",
            json!({ "title": word, "priority": 1, "user_story": "US-001", "type": "Functional" }),
        ),
        ("create_acceptance_criteria", json!({ "user_story": "US-001", "description": word })),
    ] {
        let made = testing.data(tool, arguments).await;
        assert_eq!(made["project"], project, "{tool}");
        assert!(made["reference_id"].as_str().unwrap().ends_with("-001"), "{tool}: {made}");
    }
    testing
}

/// The message with the name taken out that the caller gave.
fn without(error: &Error, name: &str) -> String {
    error.message.replace(name, "NAME")
}

// S5: 4.3
#[tokio::test]
async fn tools_of_two_projects_have_numbers_and_items_of_their_own() {
    let server = server();
    let one = filled(&server, "one", "alpha").await;
    let two = filled(&server, "two", "beta").await;
    let further = json!({ "title": "gamma", "priority": 1 });
    assert_eq!(one.data("create_epic", further).await["reference_id"], "EP-002");
    for (tool, argument) in [
        ("get_item", "reference"),
        ("delete_item", "reference"),
        ("epic_hierarchy", "epic"),
        ("update_epic", "epic"),
    ] {
        let mut arguments = json!({ argument: "EP-002" });
        if tool == "update_epic" {
            arguments["title"] = json!("taken");
        }
        let error = two.error(tool, arguments).await;
        assert_eq!(error.kind, ErrorKind::NotFound, "{tool}: {error}");
        assert!(!error.message.contains("gamma"), "{tool}: {error}");
    }
    for (testing, own, total) in [(&one, "alpha", 2), (&two, "beta", 1)] {
        let item = testing.data("get_item", json!({ "reference": "EP-001" })).await;
        assert_eq!(
            (&item["item"]["title"], &item["children"][0]["title"]),
            (&json!(own), &json!(own))
        );
        let hierarchy = testing.data("epic_hierarchy", json!({ "epic": "EP-001" })).await;
        assert_eq!(hierarchy["user_stories"][0]["requirements"][0]["title"], own);
        assert_eq!(testing.data("list_epics", json!({})).await["total"], total);
        let asked = json!({ "user_story": "US-001" });
        let asked = testing.data("get_user_story_requirements", asked).await;
        assert_eq!(asked["requirements"][0]["title"], own);
        assert_eq!(asked["requirements"].as_array().unwrap().len(), 1);
    }
    two.data("delete_item", json!({ "reference": "EP-001", "cascade": true })).await;
    assert_eq!(two.data("list_epics", json!({})).await["total"], 0);
    assert_eq!(one.data("list_epics", json!({})).await["total"], 2);
    let next = two.data("create_epic", json!({ "title": "delta", "priority": 1 })).await;
    assert_eq!(next["reference_id"], "EP-002");
}

// S5: 4.3
#[tokio::test]
async fn searches_find_what_is_the_caller_s_and_their_cursors_go_on_there_alone() {
    let server = server();
    let one = filled(&server, "one", "alpha").await;
    let two = filled(&server, "two", "beta").await;
    for tool in ["search_global", "search_requirements"] {
        for (testing, own, other) in [(&one, "alpha", "beta"), (&two, "beta", "alpha")] {
            let found = testing.data(tool, json!({ "query": own })).await;
            assert_ne!(found["total"], 0, "{tool}: {found}");
            assert!(!found.to_string().contains(other), "{tool}: {found}");
            let found = testing.data(tool, json!({ "query": other })).await;
            assert_eq!(found["total"], 0, "{tool}: {found}");
        }
    }
    one.data("create_epic", json!({ "title": "further", "priority": 1 })).await;
    two.data("create_epic", json!({ "title": "further", "priority": 1 })).await;
    let page = one.data("list_epics", json!({ "limit": 1 })).await;
    let next = json!({ "limit": 1, "cursor": page["next_cursor"] });
    assert_eq!(one.data("list_epics", next.clone()).await["epics"].as_array().unwrap().len(), 1);
    assert_eq!(two.error("list_epics", next).await.kind, ErrorKind::InvalidArgument);
}

// S5: 4.3, 6.4
#[tokio::test]
async fn resources_prompts_and_completions_speak_of_the_caller_s_project() {
    let server = server();
    let one = filled(&server, "one", "alpha").await;
    let two = filled(&server, "two", "beta").await;
    one.data("create_epic", json!({ "title": "alpha", "priority": 1 })).await;
    for (testing, own, other, epics) in [(&one, "alpha", "beta", 2), (&two, "beta", "alpha", 1)] {
        let listed = testing.resources(None).await.unwrap().resources;
        let of_epics = listed.iter().filter(|resource| resource.uri.starts_with("epic://"));
        assert_eq!(of_epics.count(), epics);
        assert!(listed.iter().all(|resource| !resource.title.contains(other)));
        for uri in ["epic://EP-001", "epic://EP-001/hierarchy", "requirements://requirements"] {
            let text = testing.read(uri).await.unwrap().text;
            assert!(text.contains(own) && !text.contains(other), "{uri}: {text}");
        }
        let prompt = testing.prompt("decompose_epic", json!({ "epic": "EP-001" })).await.unwrap();
        let Message::Text(text) = &prompt.messages[0] else { panic!("{prompt:?}") };
        assert!(text.contains(own) && !text.contains(other), "{text}");
        let begun = CompletionTarget::Prompt("decompose_epic".to_owned());
        assert_eq!(testing.complete(begun, "epic", "EP").await.unwrap().total, epics);
    }
    assert_eq!(two.read("epic://EP-002").await.unwrap_err().kind, ErrorKind::NotFound);
    let asked = two.prompt("decompose_epic", json!({ "epic": "EP-002" })).await;
    assert_eq!(asked.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_long_list_of_resources_goes_on_in_its_own_project_alone() {
    let server = server();
    let [one, two] = ["one", "two"].map(|project| of(&server, project));
    for testing in [&one, &two] {
        for number in 1..=101 {
            let epic = Reference { kind: ItemKind::Epic, number };
            testing.write(epic.document("abcdef"), "---\ntitle: E\n---\n").await;
        }
    }
    let next = one.resources(None).await.unwrap().next_cursor.unwrap();
    assert!(!one.resources(Some(&next)).await.unwrap().resources.is_empty());
    assert_eq!(two.resources(Some(&next)).await.unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_change_in_one_project_is_none_in_another() {
    let server = server();
    let [one, two] = ["one", "two"].map(|project| of(&server, project));
    let application = server.application();
    let count =
        async |testing: &Testing| application.resources_changed(&testing.caller()).await.unwrap();
    let before = (count(&one).await, count(&two).await);
    assert_ne!(before.0, before.1, "one series: nobody is told another project's count");
    one.data("create_epic", json!({ "title": "E", "priority": 1 })).await;
    assert!(count(&one).await > before.0);
    assert_eq!(count(&two).await, before.1);
    two.data("create_epic", json!({ "title": "E", "priority": 1 })).await;
    assert!(count(&two).await > before.1);
}

// S5: 4.3; catalogue 90
#[tokio::test]
async fn another_s_project_and_an_unknown_one_are_answered_alike() {
    let server = server();
    let one = of(&server, "one");
    for (tool, argument, rest) in [
        ("reqlix_get_instructions", "project_root", json!({})),
        ("reqlix_get_requirements", "project_root", json!({ "section": "general" })),
        ("ixchel_search", "repo", json!({ "query": "alpha" })),
        ("ixchel_sync", "repo", json!({})),
    ] {
        let asked = |name: &str| {
            let mut arguments: Value = rest.clone();
            arguments[argument] = json!(name);
            arguments
        };
        let mut told = Vec::new();
        for name in ["two", "nobody", "/etc", "/project"] {
            let error = one.error(tool, asked(name)).await;
            assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::NotFound, Some(argument)));
            assert!(error.message.ends_with("can use are: one."), "{tool}: {error}");
            // The default project's folder is told by its key.
            let name = if name == "/project" { "default" } else { name };
            told.push(without(&error, name));
        }
        told.dedup();
        assert_eq!(told.len(), 1, "{tool}: {told:?}");
        one.call(tool, asked("one")).await.unwrap();
    }
    let reader = Testing { access: Access::Read, ..one };
    assert_eq!(reader.data("ixchel_sync", json!({})).await["scanned"], 0);
}
