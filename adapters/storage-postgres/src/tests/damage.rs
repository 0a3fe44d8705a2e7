//! Damage that `reqlore check` finds.

use reqlore_domain::document::DocumentId;
use reqlore_test_postgres::TestDatabase;

use super::contract::open_on;

/// Puts a section, runs a statement, and returns the damage that is found.
fn damage_after(statement: &str) -> Vec<String> {
    reqlore_contract::run(async {
        let database = TestDatabase::new();
        let storage = open_on(&database.url()).await;
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
    assert!(damage.len() == 1 && damage[0].contains("documents"), "{damage:?}");
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
    let damage = damage_after("DELETE FROM bodies");
    assert!(damage.len() == 1 && damage[0].contains("text"), "{damage:?}");
}
