//! Tests of the six tools on the memory store.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::Access;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    CommitResult, MetadataPage, MockDocumentRepository, Revision, Snapshot, StoreError,
};
use reqlore_domain::ports::entity_list::{DuplicateIds, EntityCounts};
use reqlore_domain::ports::item_list::{DiagnosticList, ItemPage};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::DocumentProjection;
use serde_json::{Value, json};

use super::TokenBudget;
use crate::test_support::TestApplication;

const STORAGE: &str = "---\nid: dec-1d2c8f\ntype: decision\ntitle: Files first\nstatus: accepted\n\
                       tags: [storage]\nsupersedes: dec-aaaaaa\nimplements: [iss-bbbbbb, REQ-048]\n\
                       ---\n\n# Files first\n\nMarkdown in git is the storage backend.\n";
const ISSUE: &str = "---\nid: iss-bbbbbb\ntitle: Pick a backend\nlabels: [storage, urgent]\n---\n\
                     We need one.\n";

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_entity("decisions/dec-1d2c8f", STORAGE).await;
    testing.write_entity("issues/iss-bbbbbb", ISSUE).await;
    testing.write_entity("ideas/old/free", "# Free\n\ntext\n").await;
    testing
}

async fn data(testing: &TestApplication, tool: &str, arguments: Value) -> Value {
    let reply = testing.call(tool, arguments).await.unwrap();
    let text: Value = serde_json::from_str(&reply.text).unwrap();
    assert_eq!(text, *reply.data, "text and data are equal");
    text
}

// S4: AC-002.2
#[tokio::test]
async fn search_with_sections_finds_requirements() {
    let testing = project().await;
    let section = "# General\n\n**1.** Every backend keeps bytes.\n";
    testing.write(DocumentId::section("general"), section).await;
    let query = json!({ "query": "bytes", "sections": true });
    let found = data(&testing, "ixchel_search", query).await;
    assert_eq!(found["hits"][0]["id"], "general:1");
    let found = data(&testing, "ixchel_search", json!({ "query": "bytes" })).await;
    assert_eq!(found["total"], 0);
}

// S4: AC-002.3
#[tokio::test]
async fn duplicate_entity_id_error_names_the_files() {
    let testing = project().await;
    testing.write_entity("ideas/twin", "---\nid: dec-1d2c8f\n---\n").await;
    let error = testing.error("ixchel_graph", json!({ "id": "dec-1d2c8f" })).await;
    assert!(error.message.contains("decisions/dec-1d2c8f, ideas/twin"), "{}", error.message);
    let shown = data(&testing, "ixchel_show", json!({ "id": "ideas/twin" })).await;
    assert_eq!(shown["id"], "dec-1d2c8f");
}

// S4: AC-002.5
#[tokio::test]
async fn context_over_budget_reports_cut_parts() {
    let testing = project().await;
    let arguments = json!({ "id": "dec-1d2c8f", "max_tokens": 4 });
    let context = data(&testing, "ixchel_context", arguments).await;
    assert_eq!(
        (&context["truncated"], &context["items"][0]["body"]),
        (&json!(true), &json!("# Files first"))
    );
    assert!(context["cut"].to_string().contains("items: the first 1 of 2"), "{context}");
}

#[tokio::test]
async fn check_reports_entity_problems_with_file_and_line() {
    let testing = project().await;
    testing.write_entity("ideas/twin", "---\nid: iss-bbbbbb\n---\n").await;
    testing.write_entity("issues/iss-cccccc", "---\nid: [\n---\n").await;
    testing.write_entity("notes/other", "---\nid: iss-dddddd\n---\n").await;
    let shown = testing.check().await;
    for part in [
        ".ixchel/decisions/dec-1d2c8f.md:7: supersedes leads to dec-aaaaaa, which does not exist",
        ".ixchel/decisions/dec-1d2c8f.md:8: implements leads to iss-bbbbbb, which ideas/twin and",
        ".ixchel/ideas/twin.md:2: the id iss-bbbbbb is also used by .ixchel/issues/iss-bbbbbb.md",
        ".ixchel/issues/iss-bbbbbb.md:2: the id iss-bbbbbb is also used by .ixchel/ideas/twin.md",
        ".ixchel/notes/other.md:2: the id is iss-dddddd, but the file is other.md",
        ".ixchel/issues/iss-cccccc.md:2: invalid front matter",
    ] {
        assert!(shown.iter().any(|line| line.starts_with(part)), "{part}\n{shown:#?}");
    }
    assert_eq!(shown.len(), 6, "REQ-048 is not an entity; {shown:#?}");
}

#[tokio::test]
async fn sync_after_index_loss_indexes_documents_again() {
    let testing = TestApplication::new();
    testing.write_entity("a", "# An apple\n").await;
    let application = testing.application();
    testing.call_on(&application, "ixchel_sync", json!({})).await.unwrap();
    let gone = DocumentProjection::without_items(DocumentId::entity("a"), None);
    testing.search.apply_projections(&ProjectKey::default(), vec![gone], None).await.unwrap();
    testing.call_on(&application, "ixchel_sync", json!({})).await.unwrap();
    let found = testing.call_on(&application, "ixchel_search", json!({ "query": "apple" })).await;
    assert_eq!(found.unwrap().data["total"], 1);
}

/// A database whose workspace root has these files.
async fn with_files(files: &[(&str, &str)]) -> TestApplication {
    let editor = TestApplication::new();
    for (name, text) in files {
        editor.write(DocumentId::entity(*name), (*text).to_owned()).await;
    }
    TestApplication { tree: Some(editor.store), ..TestApplication::new() }
}

#[tokio::test]
async fn sync_from_root_without_entities_deletes_nothing() {
    let testing = with_files(&[]).await;
    testing.write_entity("kept", "x\n").await;
    testing.call("ixchel_sync", json!({})).await.unwrap();
    assert_eq!(testing.body(DocumentId::entity("kept")).await.as_deref(), Some("x\n"));
}

#[tokio::test]
async fn sync_into_a_database_requires_write_access() {
    let testing = with_files(&[("a", "x\n")]).await;
    let reader = TestApplication { access: Access::Read, ..testing };
    let error = reader.call("ixchel_sync", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden, "{error}");
    assert_eq!(reader.body(DocumentId::entity("a")).await, None);
}

// S4 AC-002: one bad file never fails a call.
#[tokio::test]
async fn sync_reports_rejected_files_and_imports_the_rest() {
    let editor = with_files(&[("bad", "x\n"), ("good", "y\n")]).await;
    let mut store = MockDocumentRepository::new();
    let mut committed = Vec::new();
    store.expect_find().returning(|_, filter| Ok(MetadataPage::select(Vec::new(), filter)));
    store.expect_items().returning(|_, _| Ok(ItemPage::default()));
    store.expect_entity_kinds().returning(|_| Ok(EntityCounts::new()));
    store.expect_diagnostics().returning(|_, _, _| Ok(DiagnosticList::default()));
    store.expect_duplicate_ids().returning(|_, _| Ok(DuplicateIds::default()));
    store.expect_lookup().returning(|_, _, words| Ok(vec![Vec::new(); words.len()]));
    let reset = ChangePage::Reset { position: ChangePosition::default() };
    store.expect_changes_since().returning(move |_, _, _, _| Ok(reset.clone()));
    store.expect_commit().returning(move |project, mut commit| {
        let changes = commit.decide(project, &Snapshot::default()).unwrap().changes;
        if changes.iter().any(|change| change.id().name == "bad") {
            let (place, reason) = ("bad".to_owned(), "is refused".to_owned());
            return Err(StoreError::Refused { place, reason });
        }
        committed.extend(changes.iter().map(|change| change.id().name.clone()));
        assert_eq!(committed, ["good"]);
        Ok(CommitResult { revision: Revision(2), versions: vec![None] })
    });
    let testing = TestApplication { tree: editor.tree, ..TestApplication::on(store) };
    let synced = testing.call("ixchel_sync", json!({})).await.unwrap().data;
    assert_eq!(
        synced["warnings"],
        json!(["bad: is refused; the file was not imported"]),
        "{synced}"
    );
    assert_eq!(synced["scanned"], 1, "the rejected file is counted: {synced}");
}

fn budget(characters: usize) -> TokenBudget {
    TokenBudget { remaining: characters, notes: Vec::new() }
}

#[test]
fn token_budget_cuts_text_at_line_or_word_end() {
    for (remaining, text, kept, cut) in [
        (9, "all of it", "all of it", vec![]),
        (8, "all of it", "all of", vec!["x: the first 6 of 9 characters"]),
        (9, "line one\nline two", "line one", vec!["x: the first 8 of 17 characters"]),
        (4, "🦀🦀🦀🦀", "🦀🦀🦀🦀", vec![]),
        (3, "🦀🦀🦀🦀", "🦀🦀🦀", vec!["x: the first 3 of 4 characters"]),
        (0, "x", "", vec!["x: the first 0 of 1 characters"]),
    ] {
        let mut budget = budget(remaining);
        assert_eq!(budget.cut_text("x", text), kept, "{remaining} {text}");
        assert_eq!(budget.into_truncation().cut, cut);
    }
}

#[test]
fn token_budget_keeps_items_that_fit() {
    let mut budget = budget(10);
    let mut items = vec!["abc", "def", "g"];
    budget.keep_fitting("hits", &mut items);
    assert_eq!(items, ["abc", "def"]);
    assert_eq!(budget.into_truncation().cut, ["hits: the first 2 of 3"]);
}
