//! Builds of the search index on the memory store.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{MockDocumentRepository, Refresh, StoreError};
use reqlore_domain::ports::service::NoProgress;
use serde_json::{Value, json};

use super::{BATCH_DOCUMENTS, MAX_AWAITED_DIFFERENCES};
use crate::Application;
use crate::project_index::index_build::build_index;
use crate::test_support::TestApplication;

/// More documents than a search waits for.
const LONG_BUILD: usize = MAX_AWAITED_DIFFERENCES + 2 * BATCH_DOCUMENTS;

async fn write_many(testing: &TestApplication, text: &str) {
    for number in 0..LONG_BUILD {
        testing.write_entity(&format!("n{number:03}"), format!("# {text} {number}\n")).await;
    }
}

async fn search(testing: &TestApplication, application: &Application, query: &str) -> Value {
    let arguments = json!({ "query": query, "limit": 50 });
    let found = testing.call_on(application, "ixchel_search", arguments).await.unwrap();
    (*found.data).clone()
}

/// Searches until the build has ended.
async fn search_at_end(testing: &TestApplication, application: &Application, query: &str) -> Value {
    loop {
        let found = search(testing, application, query).await;
        if found["pending"] == 0 {
            return found;
        }
    }
}

#[tokio::test]
async fn long_first_build_answers_pending_and_ends_complete() {
    let testing = TestApplication::new();
    write_many(&testing, "apple").await;
    let application = testing.application();
    let first = search(&testing, &application, "apple").await;
    let pending = first["pending"].as_u64().unwrap();
    assert!((1..=LONG_BUILD as u64).contains(&pending), "{first}");
    // Its own writes are found during the build, too.
    testing.write_entity("late", "# pear\n").await;
    assert_eq!(search(&testing, &application, "pear").await["total"], 1);
    testing.remove(DocumentId::entity("n000")).await;
    let found = search_at_end(&testing, &application, "apple").await;
    assert_eq!(found["total"], LONG_BUILD - 1, "{found}");
    let found = search(&testing, &application, "apple").await;
    assert_eq!((&found["pending"], &found["total"]), (&json!(0), &json!(LONG_BUILD - 1)));
}

#[tokio::test]
async fn short_build_is_complete_before_the_answer() {
    let testing = TestApplication::new();
    for number in 0..MAX_AWAITED_DIFFERENCES {
        testing.write_entity(&format!("n{number:03}"), "# apple\n").await;
    }
    let found = search(&testing, &testing.application(), "apple").await;
    assert_eq!((&found["pending"], &found["total"]), (&json!(0), &json!(MAX_AWAITED_DIFFERENCES)));
}

#[tokio::test]
async fn changes_after_a_restart_are_complete_before_the_answer() {
    let testing = TestApplication::new();
    search(&testing, &testing.application(), "apple").await;
    write_many(&testing, "apple").await;
    let found = search(&testing, &testing.application(), "apple").await;
    assert_eq!((&found["pending"], &found["total"]), (&json!(0), &json!(LONG_BUILD)));
}

#[tokio::test]
async fn build_over_another_history_shows_no_outdated_hit() {
    let old = TestApplication::new();
    write_many(&old, "apple").await;
    search_at_end(&old, &old.application(), "apple").await;
    // The same names with other texts, and an index of the old ones.
    let testing = TestApplication { search: old.search.clone(), ..TestApplication::new() };
    write_many(&testing, "pear").await;
    let application = testing.application();
    let first = search(&testing, &application, "apple").await;
    assert!(first["pending"].as_u64().unwrap() > 0, "{first}");
    assert_eq!(first["hits"], json!([]), "{first}");
    assert_eq!(search_at_end(&testing, &application, "apple").await["total"], 0);
    assert_eq!(search(&testing, &application, "pear").await["total"], LONG_BUILD);
}

#[tokio::test]
async fn sync_waits_for_the_end_of_a_long_build() {
    let testing = TestApplication::new();
    write_many(&testing, "apple").await;
    let application = testing.application();
    testing.call_on(&application, "ixchel_sync", json!({})).await.unwrap();
    let found = search(&testing, &application, "apple").await;
    assert_eq!((&found["pending"], &found["total"]), (&json!(0), &json!(LONG_BUILD)));
}

#[tokio::test]
async fn dropped_application_ends_its_build_and_the_next_continues() {
    let testing = TestApplication::new();
    write_many(&testing, "apple").await;
    let application = testing.application();
    let pending = search(&testing, &application, "apple").await["pending"].as_u64().unwrap();
    assert!(pending > 0);
    drop(application);
    // The task would go on here.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let project = &testing.project;
    let position = testing.search.position(project).await.unwrap().unwrap();
    assert_eq!(position, ChangePosition::BUILDING, "the build has not ended");
    let found = search_at_end(&testing, &testing.application(), "apple").await;
    assert_eq!(found["total"], LONG_BUILD);
}

#[tokio::test]
async fn interrupted_build_is_not_awaited_again() {
    let testing = TestApplication::new();
    write_many(&testing, "apple").await;
    search_at_end(&testing, &testing.application(), "apple").await;
    let building = Some(ChangePosition::BUILDING);
    testing.search.apply_projections(&testing.project, Vec::new(), building).await.unwrap();
    // Fewer than a search waits for, in more than one batch.
    for number in 0..=BATCH_DOCUMENTS {
        testing.write_entity(&format!("late{number}"), "# apple\n").await;
    }
    let application = testing.application();
    let first = search(&testing, &application, "apple").await;
    assert!(first["pending"].as_u64().unwrap() > 0, "{first}");
    let found = search_at_end(&testing, &application, "apple").await;
    assert_eq!(found["total"], LONG_BUILD + BATCH_DOCUMENTS + 1);
}

#[tokio::test]
async fn failed_build_fails_the_search_that_waits_for_it() {
    let mut store = MockDocumentRepository::new();
    let position = ChangePosition { store_id: 1, ..ChangePosition::default() };
    store.expect_changes_since().returning(move |_, _, _, _| Ok(ChangePage::Reset { position }));
    store.expect_find().returning(|_, _| {
        let (subject, reason) = ("the folder".to_owned(), "permission denied".to_owned());
        Err(StoreError::Unavailable { subject, reason, source: None })
    });
    let testing = TestApplication::on(store);
    let application = testing.application();
    let arguments = json!({ "query": "apple", "repo": "default" });
    let failed = testing.call_on(&application, "search_global", arguments).await;
    assert_eq!(failed.unwrap_err().kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn build_for_a_command_examines_every_file() {
    let mut store = MockDocumentRepository::new();
    store.expect_changes_since().returning(|_, _, _, look| match look {
        Refresh::Full => Err(StoreError::Busy { reason: "all files were examined".to_owned() }),
        Refresh::Incremental => Ok(ChangePage::Reset { position: ChangePosition::default() }),
    });
    store.expect_find().returning(|_, _| Err(StoreError::Internal("no files".to_owned())));
    let testing = TestApplication::on(store);
    let built = build_index(&testing.ports(), &testing.project, &NoProgress).await;
    assert_eq!(built.unwrap_err().kind, ErrorKind::Busy);
}
