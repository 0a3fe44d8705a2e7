//! Damage that `reqlore check` finds.

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::StoreError;
use reqlore_row_store::METADATA_FORMAT;
use reqlore_row_store::database::{CommitOutcome, Database};
use reqlore_row_store::row::{RowChange, RowQuery};
use reqlore_row_store::tables::STORE;
use reqlore_test_postgres::TestDatabase;

use super::contract::open_on;
use crate::postgres::PostgresDatabase;
use crate::{PasswordSources, PostgresConfig};

/// Puts a section, runs a statement, and returns the damage that is found.
fn damage_after(statement: &str) -> Vec<String> {
    reqlore_contract::run(async {
        let database = TestDatabase::new();
        let storage = open_on(&database.url()).await;
        storage.put(&DocumentId::section("other"), "# Other").await;
        storage.put(&DocumentId::section("kept"), "# Kept\n\nSee [[REQ-001]].").await;
        storage.put(&DocumentId::section("kept"), "# Kept\n\nSee REQ-002 and REQ-003.").await;
        assert_eq!(storage.store.find_damage().await.unwrap(), Vec::<String>::new());
        database.query(statement).unwrap();
        storage.store.find_damage().await.unwrap()
    })
}

#[test]
fn changed_value_is_found_by_its_checksum() {
    let damage = damage_after("UPDATE documents SET modified = modified + 1");
    assert_eq!(damage, ["row default section kept of table documents"]);
}

/// The checksum of a row does not cover its metadata.
#[test]
fn changed_metadata_is_found() {
    let swapped = "UPDATE documents SET meta = (SELECT meta FROM documents WHERE name = 'other')";
    for statement in ["UPDATE documents SET meta = 'other'", swapped] {
        assert!(damage_after(statement).contains(&"the metadata of section kept".to_owned()));
    }
}

#[test]
fn changed_text_is_found() {
    let damage = damage_after("UPDATE texts SET bytes = 'other'");
    assert!(damage.len() == 1 && damage[0].contains("texts"), "{damage:?}");
}

#[test]
fn lost_row_of_a_list_is_found() {
    let damage = damage_after("DELETE FROM links");
    assert_eq!(damage, ["the list links differs from the documents"]);
}

#[test]
fn lost_text_is_found() {
    assert_eq!(damage_after("DELETE FROM bodies"), ["section kept", "section other"]);
}

#[test]
fn metadata_of_another_format_is_unavailable() {
    use reqlore_contract::run;
    let database = TestDatabase::new();
    let config = PostgresConfig::parse(&database.url(), &PasswordSources::default()).unwrap();
    let storage = run(open_on(&database.url()));
    let is_refused = |error: StoreError| {
        let text = error.to_string();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(text.contains("written by another version of Reqlore"), "{text}");
    };
    for format in [METADATA_FORMAT - 1, METADATA_FORMAT + 1] {
        set_format(&config, format);
        // Opened before.
        is_refused(run(storage.store.identity_epoch()).unwrap_err());
        let append = storage.store.save_answer("key", String::new());
        is_refused(run(append).unwrap_err());
        is_refused(run(crate::open(config.clone())).unwrap_err());
        is_refused(run(crate::open_for_server(config.clone())).unwrap_err());
    }
    set_format(&config, METADATA_FORMAT);
    run(storage.store.identity_epoch()).unwrap();
    run(storage.put(&DocumentId::section("kept"), "# Kept"));
}

/// Changes the format of the metadata, with a valid checksum.
fn set_format(config: &PostgresConfig, format: i64) {
    let mut session = PostgresDatabase::of_config(config.clone()).unwrap().open_session();
    let begun = session.begin(&[RowQuery::all(&STORE)]).unwrap();
    let before = begun.rows[0][0].clone();
    let row = before.replace(STORE.columns.len() - 1, format.into());
    session.write(vec![(&STORE, vec![RowChange::Update { row, before }])]).unwrap();
    assert!(matches!(session.commit(), CommitOutcome::Committed));
}
