//! Resources and completions on the memory store.

use std::collections::BTreeSet;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::service::CompletionTarget;
use serde_json::{Value, json};

use crate::test_support::{TestApplication, references, unavailable};

/// An item of each kind.
async fn project() -> TestApplication {
    let testing = TestApplication::new();
    for name in ["EP-001-aaaaaa", "US-001", "REQ-001", "AC-001"] {
        testing.write_item(name, "---\ntitle: Shop\n---\n").await;
    }
    testing
}

async fn json(testing: &TestApplication, uri: &str) -> Value {
    serde_json::from_str(&testing.read(uri).await.unwrap().text).unwrap()
}

async fn error(testing: &TestApplication, uri: &str) -> Error {
    testing.read(uri).await.expect_err(uri)
}

// S5: 6.7
#[tokio::test]
async fn read_with_a_failed_storage_is_unavailable() {
    let error = error(&unavailable(), "epic://EP-001").await;
    assert_eq!(error.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn read_of_a_duplicate_reference_is_refused() {
    let testing = project().await;
    testing.write_item("EP-001-cccccc", "---\ntitle: Twin\n---\n").await;
    let error = error(&testing, "epic://EP-001").await;
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("check --fix"), "{}", error.message);
    let listed = testing.resources(None).await.unwrap().resources;
    assert_eq!(listed.iter().filter(|found| found.uri == "epic://EP-001").count(), 1);
}

#[tokio::test]
async fn collection_over_the_size_limit_is_truncated_with_a_hint() {
    let testing = TestApplication::new();
    for number in 1..=30 {
        let text = format!("---\ntitle: T\n---\n{}", "x".repeat(50_000));
        testing.write_item(&format!("REQ-{number:03}"), text).await;
    }
    let content = testing.read("requirements://requirements").await.unwrap();
    assert!(content.text.len() < 1024 * 1024 + 1_000, "{}", content.text.len());
    let found: Value = serde_json::from_str(&content.text).unwrap();
    let shown = found["requirements"].as_array().unwrap().len();
    assert_eq!((shown, &found["count"], &found["truncated"]), (20, &json!(30), &json!(true)));
    let hint = found["hint"].as_str().unwrap();
    assert!(hint.starts_with("the first 20 of 30 items; use search_requirements"), "{hint}");
}

#[tokio::test]
async fn collection_with_an_unreadable_file_has_a_warning() {
    let testing = project().await;
    testing.write_item("EP-002", &b"\xff\xfe"[..]).await;
    let found = json(&testing, "requirements://epics").await;
    assert_eq!(references(&found["epics"]), ["EP-001", "EP-002"]);
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with(".reqlore/backlog/epics/EP-002.md: "), "{warning}");
    assert_eq!(error(&testing, "epic://EP-002").await.kind, ErrorKind::Unreadable);
}

#[tokio::test]
async fn item_with_a_fault_has_a_warning_with_its_line() {
    let testing = TestApplication::new();
    testing.write_item("REQ-001", "---\ntitle: T\nstatus: Doing\n---\n").await;
    let found = json(&testing, "requirement://REQ-001").await;
    assert_eq!(found["status"], "Draft");
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with(".reqlore/backlog/requirements/REQ-001.md:3: "), "{warning}");
}

// S5: 6.6
#[tokio::test]
async fn list_pages_contain_each_resource_once() {
    let testing = TestApplication::new();
    let mut expected = BTreeSet::new();
    for (prefix, scheme, count) in [
        ("EP", "epic", 95),
        ("US", "user-story", 7),
        ("REQ", "requirement", 140),
        ("AC", "acceptance-criteria", 8),
    ] {
        for number in 1..=count {
            let name = format!("{prefix}-{number:03}");
            testing.write_item(&name, format!("---\ntitle: Title of {name}\n---\n")).await;
            expected.insert(format!("{scheme}://{name}"));
        }
    }
    let (mut found, mut pages, mut cursor) = (Vec::new(), Vec::new(), None::<String>);
    loop {
        let page = testing.resources(cursor.as_deref()).await.unwrap();
        pages.push(page.resources.len());
        found.extend(page.resources);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    // The first page ends where the epics do.
    assert_eq!(pages, [100, 100, 55]);
    let collections: Vec<&str> = found[..5].iter().map(|found| found.uri.as_str()).collect();
    assert_eq!(collections[3], "requirements://requirements-types");
    let uris: BTreeSet<String> = found[5..].iter().map(|found| found.uri.clone()).collect();
    assert_eq!((found.len(), uris), (255, expected));
    let epic = &found[5];
    assert_eq!((epic.name.as_str(), epic.title.as_str()), ("EP-001", "Title of EP-001"));
    assert_eq!(epic.description, "Epic EP-001: Title of EP-001, with its user stories");
    for listed in [&found[0], epic, &found[254]] {
        assert_eq!(listed.mime_type, "application/json");
        assert!(testing.read(&listed.uri).await.is_ok(), "{}", listed.uri);
    }
}

#[tokio::test]
async fn list_with_a_full_last_page_has_no_cursor() {
    let testing = TestApplication::new();
    for number in 1..=95 {
        testing.write_item(&format!("EP-{number:03}"), "---\ntitle: T\n---\n").await;
    }
    let page = testing.resources(None).await.unwrap();
    assert_eq!((page.resources.len(), page.next_cursor), (100, None));
}

#[tokio::test]
async fn list_with_a_forged_cursor_is_refused() {
    let testing = TestApplication::new();
    for number in 1..=101 {
        testing.write_item(&format!("EP-{number:03}"), "---\ntitle: T\n---\n").await;
    }
    let cursor = testing.resources(None).await.unwrap().next_cursor.unwrap();
    assert!(testing.resources(Some(&cursor)).await.is_ok());
    let changed = format!("{}A", &cursor[..cursor.len() - 1]);
    let (too_long, too_short) = ("A".repeat(100_000), &cursor[..10]);
    for invalid in
        ["", "1", "EP-050", "ZXBpYwpFUC0wNTA", "\u{e9}\u{e9}", too_short, &changed, &too_long]
    {
        let error = testing.resources(Some(invalid)).await.expect_err(invalid);
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{invalid}");
        assert_eq!(error.field.as_deref(), Some("cursor"), "{invalid}");
        assert!(error.message.len() < 500);
    }
}

async fn completed(testing: &TestApplication, template: &str, value: &str) -> Vec<String> {
    let target = CompletionTarget::Template(template.to_owned());
    testing.complete(target, "reference", value).await.unwrap().values
}

#[tokio::test]
async fn completion_matches_references_numbers_and_title_words() {
    let testing = TestApplication::new();
    for (number, title) in [
        (1, "Login by password"),
        (4, "Log of logins"),
        (40, "Password rules"),
        (48, "Audit trail"),
        (148, "Reset a password"),
        (481, "Größe"),
    ] {
        testing
            .write_item(&format!("REQ-{number:03}"), format!("---\ntitle: {title}\n---\n"))
            .await;
    }
    let template = "requirement://{reference}/relationships";
    for (typed, expected) in [
        ("REQ-04", &["REQ-040", "REQ-048"][..]),
        ("req-4", &["REQ-004", "REQ-040", "REQ-048", "REQ-481"][..]),
        ("48", &["REQ-048", "REQ-481"][..]),
        ("048", &["REQ-048"][..]),
        (" pass log ", &["REQ-001"][..]),
        ("PASSWORD", &["REQ-001", "REQ-040", "REQ-148"][..]),
        ("größ", &["REQ-481"][..]),
        ("US-", &[][..]),
        ("-", &[][..]),
        ("nothing like it", &[][..]),
    ] {
        assert_eq!(completed(&testing, template, typed).await, expected, "{typed:?}");
    }
    assert_eq!(completed(&testing, template, "").await.len(), 6);
    let too_long = "x".repeat(1_000_000);
    assert!(completed(&testing, template, &too_long).await.is_empty());
}

#[tokio::test]
async fn completion_over_the_limit_returns_the_total() {
    let testing = TestApplication::new();
    for number in 1..=130 {
        testing.write_item(&format!("US-{number:03}"), "---\ntitle: T\n---\n").await;
    }
    let target = CompletionTarget::Prompt("suggest_acceptance_criteria".to_owned());
    let found = testing.complete(target, "user_story", "US-").await.unwrap();
    assert_eq!((found.values.len(), found.total), (100, 130));
    assert_eq!((found.values[0].as_str(), found.values[99].as_str()), ("US-001", "US-100"));
}

#[tokio::test]
async fn completion_of_an_unknown_argument_is_empty() {
    let testing = project().await;
    for (target, argument) in [
        (CompletionTarget::Template("epic://{id}".to_owned()), "reference"),
        (CompletionTarget::Template("epic://{reference}".to_owned()), "epic"),
        (CompletionTarget::Prompt("unknown".to_owned()), "epic"),
        (CompletionTarget::Prompt("decompose_epic".to_owned()), "requirement"),
        (CompletionTarget::Prompt("generate_user_story".to_owned()), "idea"),
    ] {
        let found = testing.complete(target.clone(), argument, "").await.unwrap();
        assert_eq!((found.values.len(), found.total), (0, 0), "{target:?} {argument}");
    }
    for kind in ItemKind::ALL {
        let template = format!("{}://{{reference}}", kind.name().replace('_', "-"));
        assert!(!completed(&testing, &template, "").await.is_empty(), "{template}");
    }
}
