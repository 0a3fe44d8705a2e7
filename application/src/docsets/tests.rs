//! Tests of the docset tools: answers, caching and errors.

use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Access, Caller, ProjectScope};
use reqlore_domain::ports::documents::{MockDocumentRepository, StoreError};
use reqlore_domain::project_key::ProjectKey;
use serde_json::{Value, json};

use super::ConfigCache;
use super::import::import;
use crate::test_support::TestApplication;

const REACT: &str = "docsets:\n  react: {version: 18.2, aliases: [reactjs], description: UI}\n";

async fn configured(text: impl Into<bytes::Bytes>) -> TestApplication {
    let testing = TestApplication::new();
    testing.write(DocumentId::docsets(), text).await;
    testing
}

fn search(docset: &str) -> Value {
    let (keywords, generalized) = (["useEffect", "cleanup"], ["hooks"]);
    json!({ "docset": docset, "keywords": keywords, "generalized_keywords": generalized })
}

// S3: REQ-7.4
#[tokio::test]
async fn unknown_docset_error_lists_first_names() {
    let many: Vec<String> = (0..1_000).map(|n| format!("  d{n}:\n")).collect();
    let testing = configured(format!("docsets:\n{}", many.concat())).await;
    let message = testing.error("search_docs", search("nothing")).await.message;
    assert!(message.len() < 300 && message.contains("d19 and 980 more; list_docsets"), "{message}");
}

// S3: REQ-3.3, REQ-4.2, REQ-9.3
#[tokio::test]
async fn invalid_edit_reports_line_until_fixed() {
    let testing = TestApplication::new();
    let application = testing.application();
    let list = async || {
        let answer = testing.call_on(&application, "list_docsets", json!({})).await;
        answer.map_err(|error| (error.kind, error.message)).map(|answer| answer.text)
    };
    testing.write(DocumentId::docsets(), REACT).await;
    assert!(list().await.unwrap().contains("react"));
    for (invalid, line) in
        [("docsets:\n  react: {ver", ":2:10: "), ("docsets:\n  a b:\n", ":2:3: "), ("", ":1:1: ")]
    {
        testing.write(DocumentId::docsets(), invalid).await;
        // The second answer comes from the cache.
        for _ in 0..2 {
            let (kind, message) = list().await.unwrap_err();
            assert_eq!(kind, ErrorKind::Unreadable);
            assert!(message.starts_with(".knowledge/config.yaml") && message.contains(line));
            assert!(message.contains("\nFix the file; the next call reads it"), "{message}");
        }
    }
    testing.write(DocumentId::docsets(), &b"docsets:\n\xff"[..]).await;
    let (_, message) = list().await.unwrap_err();
    assert!(message.contains("line 2 is not UTF-8 text"), "{message}");
    testing.write(DocumentId::docsets(), "docsets:\n  vue:\n").await;
    let fixed = list().await.unwrap();
    assert!(fixed.contains("vue") && !fixed.contains("react"), "{fixed}");
}

// Ruling 4
#[tokio::test]
async fn docset_with_a_fault_is_an_error_beside_usable_ones() {
    let text = "docsets:\n  react: {version: 18.2}\n  vue: {version: 1/2, aliases: [vuejs]}\n";
    let testing = configured(text).await;
    let listed = testing.call("list_docsets", json!({})).await.unwrap();
    let docsets = &listed.data["docsets"];
    let position = ".knowledge/config.yaml:3:18: version: ";
    let error = docsets[1]["error"].as_str().unwrap();
    assert!(error.starts_with(position), "{docsets}");
    assert_eq!(docsets[1], json!({ "name": "vue", "error": error }));
    assert_eq!((docsets.as_array().unwrap().len(), &docsets[0]["name"]), (2, &json!("react")));
    assert_eq!(listed.data.get("notes"), None);
    assert_eq!(serde_json::from_str::<Value>(&listed.text).unwrap(), *docsets);
    testing.call("search_docs", search("react")).await.unwrap();
    for name in ["vue", "vuejs"] {
        let error = testing.error("search_docs", search(name)).await;
        assert_eq!(error.kind, ErrorKind::Unreadable);
        assert!(error.message.starts_with(position), "{error}");
    }
    assert!(testing.check().await.iter().any(|finding| finding.contains(":3: column 18: ")));
    let (ports, caller) = (testing.ports(), Caller::local("me", Access::Write));
    let refused = import(&ports, text.to_owned(), caller).await.unwrap_err();
    assert!(refused.message.starts_with(position), "{refused}");
}

// S3: REQ-1.4, REQ-9.1, REQ-9.2, REQ-9.4
#[tokio::test]
async fn unchanged_config_is_read_once() {
    let mut store = MockDocumentRepository::new();
    let document = Document::new(DocumentId::docsets(), REACT.into());
    let version = document.version;
    store.expect_versions().times(4).returning(move |_, _| Ok(vec![Some(version)]));
    store.expect_get().times(1).returning(move |_, _| Ok(vec![Some(document.clone())]));
    let testing = TestApplication::on(store);
    let application = testing.application();
    for _ in 0..2 {
        testing.call_on(&application, "search_docs", search("react")).await.unwrap();
        testing.call_on(&application, "list_docsets", json!({})).await.unwrap();
    }
}

// S3: REQ-9.5
#[tokio::test]
async fn docset_list_is_rendered_once_and_shared() {
    let testing = configured(REACT).await;
    let (cache, ports, caller) = (ConfigCache::default(), testing.ports(), testing.caller());
    let first = cache.current_config(&ports, &caller).await.unwrap();
    let second = cache.current_config(&ports, &caller).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &second));
}

// S3: REQ-2.3
#[tokio::test]
async fn list_without_docsets_is_an_empty_array() {
    let testing = configured("docsets:\n").await;
    let answer = testing.call("list_docsets", json!({})).await.unwrap();
    assert_eq!((&*answer.text, &*answer.data), ("[]", &json!({ "docsets": [] })));
}

// S3: REQ-3.4
#[tokio::test]
async fn missing_config_is_an_error_of_two_lines() {
    let error = TestApplication::new().error("list_docsets", json!({})).await;
    assert_eq!((error.kind, error.message.lines().count()), (ErrorKind::NotFound, 2), "{error}");
    assert!(error.message.starts_with("No docsets are configured"), "{error}");
}

// S3: REQ-7.3
#[tokio::test]
async fn unreadable_config_error_names_file_and_reason() {
    let mut store = MockDocumentRepository::new();
    store.expect_versions().returning(|_, _| {
        let (subject, reason) =
            (".knowledge/config.yaml".to_owned(), "permission denied".to_owned());
        Err(StoreError::Unavailable { subject, reason, source: None })
    });
    let error = TestApplication::on(store).error("list_docsets", json!({})).await;
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(error.message, ".knowledge/config.yaml: permission denied");
}

#[tokio::test]
async fn check_lists_config_errors_and_hints() {
    let check = async |text: &'static str| configured(text).await.check().await;
    assert!(check("docsets:\n").await.is_empty());
    assert_eq!(check("docsets:\n  a b:\n  c: {version: 1/2}\n").await.len(), 2);
    let findings = check("docsets:\n  a:\n    alias: [b]\n").await;
    assert_eq!(findings.len(), 2, "the hint and the missing folder: {findings:?}");
    let hint = ".knowledge/config.yaml:3: column 5: unknown property \"alias\"; did you mean \
                `aliases`?";
    assert_eq!(findings[1], hint);
}

#[tokio::test]
async fn import_replaces_config_and_rejects_invalid() {
    let testing = TestApplication::new();
    let caller = || Caller::local("me", Access::Write);
    let import = async |text: &str| import(&testing.ports(), text.to_owned(), caller()).await;
    let first = import("docsets:\n  react: {version: 18.2}\n").await.unwrap();
    assert_eq!((first.docsets, first.replaced, first.unchanged), (1, false, false));
    let again = import("docsets:\n  react: {version: 18.2}\n").await.unwrap();
    assert_eq!((again.version, again.replaced, again.unchanged), (first.version, false, true));
    let refused = import("docsets:\n  react: [\n").await.unwrap_err();
    assert!(refused.message.starts_with(".knowledge/config.yaml:"), "{}", refused.message);
    let other = import("docsets:\n  vue:\n").await.unwrap();
    assert!(other.replaced && !other.unchanged);
    let listed = testing.call("list_docsets", json!({})).await.unwrap();
    assert_eq!(listed.data["docsets"][0]["name"], "vue");
}

// S3: REQ-3.4
// S5: 4.3
#[tokio::test]
async fn docsets_come_from_callers_project() {
    let one = ProjectKey::new("one");
    let server = TestApplication { projects: vec![one.clone()], ..configured(REACT).await };
    let scope = ProjectScope::Only(vec![one.clone()]);
    let remote = TestApplication { scope, project: one, ..server.clone() };
    for (tool, arguments) in [("list_docsets", json!({})), ("search_docs", search("react"))] {
        let error = remote.error(tool, arguments).await;
        assert_eq!(error.kind, ErrorKind::NotFound);
        let expected = "there is no .knowledge/config.yaml in the project's folder.\nCreate \
                        .knowledge/config.yaml there";
        assert!(error.message.contains(expected), "path of the server: {error}");
    }
    remote.write(DocumentId::docsets(), "docsets:\n  vue:\n").await;
    let names = async |testing: &TestApplication| {
        testing.data("list_docsets", json!({})).await["docsets"][0]["name"].clone()
    };
    assert_eq!((names(&remote).await, names(&server).await), (json!("vue"), json!("react")));
}

// S3: REQ-3.1, REQ-9.3
#[tokio::test]
async fn file_on_this_machine_wins_over_a_stored_config() {
    let editor = TestApplication::new();
    let testing = TestApplication {
        tree: Some(editor.store.clone()),
        ..configured("docsets: {stored: }").await
    };
    let application = testing.application();
    let first = async || {
        let answer = testing.call_on(&application, "list_docsets", json!({})).await;
        answer.map(|answer| answer.data["docsets"][0]["name"].clone()).map_err(|error| error.kind)
    };
    assert_eq!(first().await, Ok(json!("stored")));
    for (text, expected) in [
        ("docsets: {live: }", Ok(json!("live"))),
        ("docsets: {edited: }", Ok(json!("edited"))),
        ("docsets: [", Err(ErrorKind::Unreadable)),
        ("docsets:", Ok(Value::Null)),
    ] {
        editor.write(DocumentId::docsets(), text).await;
        assert_eq!(first().await, expected, "{text}");
    }
    editor.write(DocumentId::docsets(), "docsets: {a: {version: 1/2}, b: }").await;
    let findings = testing.check().await;
    assert!(findings.iter().any(|finding| finding.contains("is not a version")), "{findings:?}");
}
