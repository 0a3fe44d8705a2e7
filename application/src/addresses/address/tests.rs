//! Tests of the address space through the tools that read it.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::ApplicationService;
use serde_json::{Value, json};

use crate::Application;
use crate::ports::ApplicationPorts;
use crate::project_index::SHARED_POLL;
use crate::test_support::TestApplication;

const DECISION: &str = "---\nid: dec-4f1a20\ntitle: Guests\nstatus: accepted\ntags: [shop]\naffects: \
                        [REQ-7, general:2.1]\n---\nNo account.\n";
const SECTION: &str =
    "# Rules\n\n**1.** Be fast.\n\n**2.1.** Ask no guest for an account, see REQ-7.\n";
const DOCSETS: &str = "docsets:\n  react:\n    version: \"18.2\"\n    aliases: [reactjs]\n";

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_item("US-001-aaaaaa", "---\ntitle: Checkout\n---\n").await;
    let text = "---\ntitle: Guest checkout\nuser_story: US-001\n---\nAs dec-4f1a20 says.\n";
    testing.write_item("REQ-007-bbbbbb", text).await;
    testing.write_entity("decisions/dec-4f1a20", DECISION).await;
    testing.write(DocumentId::section("general"), SECTION).await;
    testing.write(DocumentId::docsets(), DOCSETS).await;
    testing
}

async fn read(testing: &TestApplication, reference: &str) -> Value {
    testing.data("get_item", json!({ "reference": reference })).await
}

#[tokio::test]
async fn get_item_reads_every_id_in_any_spelling() {
    let testing = project().await;
    for spelling in ["REQ-7", "req-007", ".reqlore/backlog/requirements/REQ-007-bbbbbb.md"] {
        assert_eq!(read(&testing, spelling).await["item"]["reference_id"], "REQ-007", "{spelling}");
    }
    for (spelling, id, kind, title, text) in [
        ("dec-4f1a20", "dec-4f1a20", "decision", "Guests", "No account."),
        ("DEC-4F1A20", "dec-4f1a20", "decision", "Guests", "No account."),
        (".ixchel/decisions/dec-4f1a20.md", "dec-4f1a20", "decision", "Guests", "No account."),
        ("decisions/dec-4f1a20", "dec-4f1a20", "decision", "Guests", "No account."),
        ("general", "general", "section", "Rules", SECTION),
        ("section:general", "general", "section", "Rules", SECTION),
        ("general:1", "general:1", "section_requirement", "Be fast.", "Be fast."),
        ("section:general:01", "general:1", "section_requirement", "Be fast.", "Be fast."),
    ] {
        let answer = read(&testing, spelling).await;
        let item = &answer["item"];
        assert_eq!(
            [&item["id"], &item["kind"], &item["title"], &item["text"]],
            [id, kind, title, text],
            "{spelling}"
        );
        assert_eq!(item["version"].as_str().map(str::len), Some(16), "{spelling}");
        assert!(answer["links"]["outgoing"].is_array(), "{answer}");
    }
    for spelling in ["react", "reactjs", "docset:react"] {
        let answer = read(&testing, spelling).await;
        assert_eq!([&answer["item"]["id"], &answer["item"]["kind"]], ["react", "docset"]);
        let text = answer["item"]["text"].as_str().unwrap();
        assert!(text.contains(".knowledge/docs/react-18.2/"), "{text}");
    }
    for unknown in ["general:3", "section:react", "docset:general", "dec-000000", "nothing"] {
        let error = testing.error("get_item", json!({ "reference": unknown })).await;
        assert_eq!(error.kind, ErrorKind::NotFound, "{unknown}");
        assert_eq!(error.field.as_deref(), Some("reference"));
    }
}

#[tokio::test]
async fn id_of_several_documents_names_the_first_and_lists_others() {
    let testing = project().await;
    testing.write(DocumentId::section("react"), "**1.** x\n").await;
    testing.write_entity("notes/react", "---\nid: react\n---\n").await;
    let answer = read(&testing, "react").await;
    assert_eq!(answer["item"]["kind"], "notes");
    assert_eq!(answer["other_ids"], json!(["section:react", "docset:react"]));
    for exact in answer["other_ids"].as_array().unwrap() {
        let answer = read(&testing, exact.as_str().unwrap()).await;
        assert_eq!(answer["item"]["id"], "react");
        assert_eq!(answer["other_ids"], Value::Null, "an exact ID names one document");
    }
    testing.write_entity("notes/req", "---\nid: REQ-007\n---\n").await;
    let answer = read(&testing, "REQ-007").await;
    assert_eq!(answer["item"]["title"], "Guest checkout", "references come first");
    assert_eq!(answer["other_ids"], json!([".ixchel/notes/req.md"]));
}

#[tokio::test]
async fn id_of_a_disabled_toolset_is_not_read() {
    let testing = project().await;
    let mut ports: ApplicationPorts = testing.ports();
    ports.settings.toolsets = vec![Toolset::Backlog];
    let application = Application::new(ports);
    for disabled in ["dec-4f1a20", "general", "general:1", "react"] {
        let arguments = json!({ "reference": disabled });
        let error = testing.call_on(&application, "get_item", arguments).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{disabled}");
    }
    let arguments = json!({ "reference": "REQ-007" });
    let answer = testing.call_on(&application, "get_item", arguments).await.unwrap().data;
    assert_eq!(answer["links"]["incoming_total"], 0, "{answer}");
}

#[tokio::test]
async fn unknown_id_names_only_tools_that_are_enabled() {
    let testing = project().await;
    // get_history belongs to these two toolsets.
    for (toolset, tool) in
        [(Toolset::Backlog, "search_global"), (Toolset::Knowledge, "ixchel_search")]
    {
        let mut ports: ApplicationPorts = testing.ports();
        ports.settings.toolsets = vec![toolset];
        let application = Application::new(ports);
        let arguments = json!({ "reference": "missing" });
        let answer = testing.call_on(&application, "get_history", arguments).await;
        let hint = answer.unwrap_err().hint.unwrap();
        assert!(hint.starts_with(tool), "{toolset:?}: {hint}");
    }
}

#[tokio::test]
async fn reading_tools_answer_ids_of_other_sets() {
    let testing = project().await;
    let shown = testing.data("ixchel_show", json!({ "id": "req-7" })).await;
    assert_eq!([&shown["id"], &shown["kind"]], ["REQ-007", "requirement"]);
    assert_eq!(shown["links"]["incoming"][0]["id"], "dec-4f1a20", "{shown}");
    let graph = testing.data("ixchel_graph", json!({ "id": "general:2.1" })).await;
    let target = &graph["outgoing"][0]["targets"][0];
    assert_eq!([&target["id"], &target["title"]], ["REQ-007", "Guest checkout"]);
    let source = &graph["incoming"][0]["sources"][0];
    assert_eq!([&source["id"], &source["title"]], ["dec-4f1a20", "Guests"]);
    let context = testing.data("ixchel_context", json!({ "id": "dec-4f1a20" })).await;
    let items = context["items"].as_array().unwrap();
    let ids: Vec<&Value> = items.iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, ["dec-4f1a20", "REQ-007", "general:2.1"]);
    assert_eq!(items[2]["body"], "Ask no guest for an account, see REQ-7.");
    for (section, text) in [
        ("REQ-7", "As dec-4f1a20 says.\n"),
        ("dec-4f1a20", "No account.\n"),
        ("general:1", "Be fast."),
        ("react", "No requirements in this section."),
    ] {
        let shown = testing.text("reqlix_get_requirements", json!({ "section": section })).await;
        assert!(shown.starts_with(text.trim_end()), "{section}: {shown}");
    }
}

#[tokio::test]
async fn writing_tools_refuse_ids_of_other_sets_and_name_the_tool() {
    let testing = project().await;
    for (tool, field, id, right_tool) in [
        ("update_requirement", "requirement", "dec-4f1a20", "a decision; ixchel_update changes it"),
        ("update_requirement", "requirement", "US-001", "a user story; update_user_story changes"),
        ("update_epic", "epic", "general", "a section; reqlix_set_requirements changes it"),
        ("delete_item", "reference", "general:2.1", "reqlix_delete_requirements deletes it"),
        ("delete_item", "reference", "general", "deletes its rules one by one"),
        ("delete_item", "reference", "react", "only .knowledge/config.yaml defines it"),
        ("epic_hierarchy", "epic", "REQ-007", "a requirement; get_item reads it"),
        ("search_docs", "docset", "REQ-007", "a requirement; get_item reads it"),
    ] {
        let arguments = match tool {
            "search_docs" => json!({ field: id, "keywords": ["x"], "generalized_keywords": [] }),
            "delete_item" | "epic_hierarchy" => json!({ field: id }),
            _ => json!({ field: id, "title": "x" }),
        };
        let error = testing.error(tool, arguments).await;
        assert!(error.message.contains(right_tool), "{}", error.message);
        assert_eq!(error.field.as_deref(), Some(field));
    }
}

#[tokio::test]
async fn links_are_listed_in_both_directions_by_relation() {
    let testing = project().await;
    let answer = testing.call("get_item", json!({ "reference": "REQ-007" })).await.unwrap();
    let text = &answer.text;
    for line in [
        "- mentions dec-4f1a20 (decision, accepted): Guests [shop]",
        "- affected by dec-4f1a20 (decision, accepted): Guests [shop]",
        "- mentioned by general:2.1 (rule): Ask no guest for an account, see REQ-7.",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    let links = &answer.data["links"];
    let relations: Vec<&Value> =
        links["incoming"].as_array().unwrap().iter().map(|link| &link["relation"]).collect();
    assert_eq!(relations, ["affects", "mentions"]);
    assert_eq!(links["incoming_total"], 2);
    let resource = testing.read("requirement://REQ-007").await.unwrap();
    let resource: Value = serde_json::from_str(&resource.text).unwrap();
    assert_eq!(resource["links"], *links);
    let decision = read(&testing, "dec-4f1a20").await;
    assert_eq!(decision["links"]["incoming"][0]["id"], "REQ-007", "{decision}");
}

#[tokio::test]
async fn incoming_links_are_bounded_and_counted() {
    let testing = project().await;
    for number in 0..60 {
        let text = format!("---\nid: iss-{number:06}\nblocks: REQ-007\n---\n");
        testing.write_entity(&format!("issues/{number}"), text).await;
    }
    for number in 100..152 {
        let text = "---\ntitle: x\ndepends_on: [REQ-007]\n---\n";
        testing.write_item(&format!("REQ-{number}"), text).await;
    }
    let answer = testing.call("get_item", json!({ "reference": "REQ-007" })).await.unwrap();
    let links = &answer.data["links"];
    assert_eq!(links["incoming"].as_array().unwrap().len(), 50);
    let relationships = &answer.data["relationships"];
    assert_eq!(relationships["incoming"].as_array().unwrap().len(), 50);
    assert_eq!(relationships["incoming_total"], 52);
    assert_eq!(links["incoming_total"], 62);
    assert!(answer.text.contains("(50 of 62 incoming links)"), "{}", answer.text);
    let graph = testing.data("ixchel_graph", json!({ "id": "REQ-007" })).await;
    assert_eq!(graph["incoming_total"], 62 + 52);
    let all = testing.read("requirement://REQ-007/relationships").await.unwrap();
    let all: Value = serde_json::from_str(&all.text).unwrap();
    assert_eq!(all["count"], 52, "this resource lists all");
}

#[tokio::test(start_paused = true)]
async fn resource_revision_changes_with_mentions_in_sections() {
    let testing = project().await;
    let application = testing.application();
    let revision = async || application.resources_changed(&testing.caller()).await.unwrap();
    let before = revision().await;
    assert_eq!(revision().await, before);
    testing.write(DocumentId::section("general"), "**1.** See REQ-7.\n").await;
    assert_eq!(revision().await, before, "pollers share a read");
    tokio::time::advance(SHARED_POLL).await;
    assert!(revision().await > before);
}
