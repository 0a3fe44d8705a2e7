//! Links, titles and metadata that people write by hand, and files in the middle of a merge.

use super::*;

const MERGE: &str = "<<<<<<< HEAD\nstatus: Done\n=======\nstatus: Cancelled\n>>>>>>> topic\n";

// S2: 1.1
#[tokio::test]
async fn hand_made_children_are_listed_or_named() {
    let testing = story().await;
    let parents = ["us-1", "US-0001", "\"[[US-001]]\"", "[[US-1]]", "{id: US-1}", "[us-001.md]"];
    for (number, parent) in parents.iter().enumerate() {
        let text = format!("---\ntitle: T{number}\nuser_story: {parent}\n---\n");
        testing.write_item(&format!("REQ-{:03}", number + 1), text).await;
    }
    let unknown = ["Log in", "US-1, US-2", "{story: US-1}", "EP-001", "US-", "[US-1, US-1]"];
    for (number, parent) in unknown.iter().enumerate() {
        for kind in ["REQ", "AC"] {
            let text = format!("---\ntitle: U\nuser_story: {parent}\n---\n");
            testing.write_item(&format!("{kind}-{:03}", number + 11), text).await;
        }
    }
    let text = "---\ntitle: U\nuser_story: US-1\nbroken: [\nuser_story\n---\n";
    testing.write_item("US-002", "---\ntitle: U\nepic: Accounts\n---\n").await;
    testing.write_item("REQ-020", text.replace("user_story: US-1\n", "")).await;
    let answer = testing.call(GET, json!({ "user_story": "US-001" })).await.unwrap();
    assert_eq!(answer.data["requirements"].as_array().unwrap().len(), parents.len());
    assert!(
        answer.text.starts_with("Found 6 requirements for user story US-001:"),
        "{}",
        answer.text
    );
    for (tool, arguments) in [
        (GET, json!({ "user_story": "US-001" })),
        ("get_item", json!({ "reference": "US-001" })),
        ("list_items", json!({ "kind": "requirement", "user_story": "US-001" })),
        ("search_requirements", json!({ "user_story": "US-001" })),
        ("epic_hierarchy", json!({ "epic": "EP-001" })),
    ] {
        let answer = testing.call(tool, arguments).await.unwrap();
        let (named, total) = match tool {
            "epic_hierarchy" => ("and 9 more", 14),
            "get_item" => ("and 8 more", 13),
            _ => ("and 2 more", 7),
        };
        assert!(answer.text.contains(named), "{tool}, {total} files: {}", answer.text);
        assert!(
            answer.text.contains("user_story \\\"Log in\\\" is not a reference")
                || answer.text.contains("user_story \"Log in\" is not a reference"),
            "{}",
            answer.text
        );
    }
    let answer = testing.call("get_item", json!({ "reference": "EP-001" })).await.unwrap();
    assert!(answer.text.contains("US-002.md:3: epic \"Accounts\" is not a ref"), "{}", answer.text);
}

/// A project in which each kind of document is in a merge, and its items and sections.
async fn project_in_a_merge() -> (TestApplication, Vec<(DocumentId, String)>) {
    let testing = story().await;
    let front_matter = format!("---\ntitle: A\n{MERGE}user_story: US-1\n---\nbody\n");
    let body = format!("---\ntitle: B\nuser_story: US-1\n---\n\n{MERGE}");
    let whole = "<<<<<<< HEAD\n---\ntitle: C\n---\n=======\n---\ntitle: D\n---\n>>>>>>> topic\n";
    testing.write_item("REQ-001", front_matter.clone()).await;
    testing.write_item("REQ-002", body.clone()).await;
    testing.write_item("EP-002", whole).await;
    testing.write_item("REQ-003", "---\ntitle: E\ndepends_on: REQ-2\n---\n").await;
    let entity = format!("---\nid: dec-000001\n---\n{MERGE}");
    testing.write(DocumentId::entity("decisions/dec-000001"), entity).await;
    let rules = "# M\n\n**1.** a\n\n<<<<<<< HEAD\n\n**2.** ours\n\n=======\n\n**2.** theirs\n\n\
                 >>>>>>> topic\n\n**3.** z\n";
    testing.write(DocumentId::section("money"), rules).await;
    let list = "# R\n\n## Sections\n\n<<<<<<< a\n- M (key: money)\n=======\n>>>>>>> b\n";
    testing.write(DocumentId::instructions(), list).await;
    testing.write(DocumentId::docsets(), format!("docsets:\n{MERGE}")).await;
    let texts = vec![
        (item_id("REQ-001"), front_matter),
        (item_id("REQ-002"), body),
        (item_id("EP-002"), whole.to_owned()),
        (DocumentId::section("money"), rules.to_owned()),
        (DocumentId::instructions(), list.to_owned()),
    ];
    (testing, texts)
}

#[tokio::test]
async fn document_in_a_merge_is_reported_and_not_written() {
    let (testing, texts) = project_in_a_merge().await;
    let findings = testing.check().await;
    for place in [
        "AGENTS.md:5: ",
        "section money:5: ",
        ".reqlore/backlog/epics/EP-002.md:1: ",
        ".reqlore/backlog/requirements/REQ-001.md:3: ",
        ".reqlore/backlog/requirements/REQ-002.md:6: ",
        ".knowledge/config.yaml:2: column 1: ",
        ".ixchel/decisions/dec-000001.md:4: ",
    ] {
        let start = format!("{place}unresolved merge; keep the right lines");
        assert!(findings.iter().any(|found| found.starts_with(&start)), "{place}: {findings:#?}");
    }
    assert_eq!(findings.len(), 7, "{findings:#?}");

    let set = |index: &str, text: &str| {
        json!({
            "project_root": "default", "operation_description": "t", "section": "money",
            "index": index, "text": text,
        })
    };
    let mut delete_rule = set("3", "");
    delete_rule.as_object_mut().unwrap().remove("text");
    let change = json!([{ "update": "REQ-002", "status": "Active" }]);
    for (tool, arguments) in [
        ("update_requirement", json!({ "requirement": "REQ-001", "status": "Active" })),
        ("update_requirement", json!({ "requirement": "REQ-002", "description": "merged" })),
        ("update_epic", json!({ "epic": "EP-002", "title": "F" })),
        ("delete_item", json!({ "reference": "REQ-002", "cascade": true })),
        ("delete_item", json!({ "reference": "EP-002" })),
        ("delete_item", json!({ "reference": "US-001", "cascade": true })),
        ("delete_item", json!({ "reference": "dec-000001" })),
        ("create_relationship", relate("REQ-002", "REQ-003", "blocks")),
        ("apply_changes", json!({ "changes": change })),
        ("apply_changes", json!({ "changes": change, "dry_run": true })),
        ("ixchel_update", json!({ "id": "dec-000001", "status": "open" })),
        ("reqlix_set_requirements", set("3", "zz")),
        ("reqlix_set_requirements", set("1", "zz")),
        ("reqlix_set_requirements", set("4", "new")),
        ("reqlix_delete_requirements", delete_rule),
    ] {
        let error = testing.error(tool, arguments).await;
        assert_eq!(error.kind, ErrorKind::Refused, "{tool}: {error}");
        let is_merge = error.message.contains("unresolved merge; keep the right lines");
        // Front matter with markers cannot be edited anyway.
        assert!(is_merge || error.message.contains("can't be edited safely"), "{tool}: {error}");
    }
    for (id, text) in texts {
        assert_eq!(testing.body(id.clone()).await, Some(text), "{id}");
    }
    // A write must not make such a document either, except as an example.
    let error =
        testing.error("create_epic", json!({ "title": "G", "priority": 1, "description": MERGE }));
    assert!(error.await.message.contains("fence examples with ```"));
    let example = format!("```\n{MERGE}```");
    testing
        .data("create_epic", json!({ "title": "G", "priority": 1, "description": example }))
        .await;
}

#[tokio::test]
async fn misplaced_front_matter_is_reported_and_kept() {
    let testing = TestApplication::new();
    let texts = [
        "\n---\ntitle: T\npriority: 1\n---\nbody\n",
        "\u{feff}\u{feff}---\ntitle: T\n---\nbody\n",
        "+++\ntitle = \"T\"\n+++\nbody\n",
        "{\n  \"title\": \"T\"\n}\nbody\n",
        "---\ntitle: A\n---\n---\ntitle: T\nstatus: Done\n---\n",
    ];
    for (number, text) in texts.into_iter().enumerate() {
        testing.write_item(&format!("EP-{:03}", number + 1), text).await;
        let name = format!("decisions/dec-00000{number}");
        testing.write(DocumentId::entity(&*name), text).await;
    }
    let findings = testing.check().await;
    let count = findings.iter().filter(|found| found.contains("seems to begin at line ")).count();
    assert_eq!((count, findings.len()), (2 * texts.len(), 2 * texts.len()), "{findings:#?}");
    for (number, text) in texts.into_iter().enumerate() {
        let reference = format!("EP-{:03}", number + 1);
        let update = json!({ "epic": reference, "status": "Done" });
        let error = testing.error("update_epic", update).await;
        assert!(error.message.contains("seems to begin at line "), "{text:?}: {error}");
        assert_eq!(testing.body(item_id(&reference)).await.as_deref(), Some(text));
        let name = format!("decisions/dec-00000{number}");
        let update = json!({ "id": name, "status": "open" });
        let error = testing.error("ixchel_update", update).await;
        assert!(error.message.contains("seems to begin at line "), "{text:?}: {error}");
        assert_eq!(testing.body(DocumentId::entity(name)).await.as_deref(), Some(text));
    }
}

#[tokio::test]
async fn title_that_yaml_cuts_is_quoted_by_an_update() {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: Fix #12 now\npriority: 1\n---\n").await;
    let finding = "EP-001.md:2: the title ends before ` #12 now`; quote it";
    assert!(testing.check().await[0].ends_with(finding));
    let record = testing.data("get_item", json!({ "reference": "EP-001" })).await;
    assert_eq!(record["item"]["title"], "Fix #12 now");
    for title in ["Fix #12 now", "Fix #13"] {
        testing.data("update_epic", json!({ "epic": "EP-001", "title": title })).await;
        let body = testing.body(item_id("EP-001")).await.unwrap();
        assert!(body.starts_with(&format!("---\ntitle: \"{title}\"\npriority: 1\n")), "{body}");
        assert_eq!(testing.check().await, [""; 0]);
    }
    testing.write(DocumentId::entity("a"), "---\ntitle: [draft] x\n---\n# Other\n").await;
    let entity = testing.data("get_item", json!({ "reference": "a" })).await;
    assert_eq!(entity["item"]["title"], "[draft] x");
}

#[tokio::test]
async fn item_names_the_items_above_it_also_a_missing_one() {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: Accounts\n---\n").await;
    testing.write_item("US-001", "---\ntitle: Sign in\nepic: EP-001\n---\n").await;
    testing.write_item("REQ-001", "---\ntitle: Lock\nuser_story: US-001\n---\n").await;
    testing.write_item("US-002", "---\ntitle: Sign out\nepic: EP-404\n---\n").await;
    let parent = |id: &str, title: &str| json!({ "reference_id": id, "title": title });
    for (id, parents) in [
        ("REQ-001", json!([parent("EP-001", "Accounts"), parent("US-001", "Sign in")])),
        ("US-002", json!([parent("EP-404", "")])),
        ("EP-001", Value::Null),
    ] {
        let data = testing.data("get_item", json!({ "reference": id, "parents": true })).await;
        assert_eq!(data["parents"], parents, "{id}");
        let data = testing.data("get_item", json!({ "reference": id })).await;
        assert_eq!(data.get("parents"), None, "{id}");
    }
}
