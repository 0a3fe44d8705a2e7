//! Damage that `reqlore check` finds.

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_row_store::METADATA_FORMAT;
use reqlore_row_store::database::{CommitOutcome, Database};
use reqlore_row_store::row::{RowChange, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{DOCUMENTS, STORE};
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
    assert!(damage.len() == 1 && damage[0].contains("documents"), "{damage:?}");
}

/// The checksum of a row does not cover its metadata.
#[test]
fn changed_metadata_is_found() {
    let swapped = "UPDATE documents SET meta = (SELECT meta FROM documents WHERE name = 'other')";
    for statement in ["UPDATE documents SET meta = 'other'", swapped] {
        let damage = damage_after(statement);
        assert!(damage.len() == 1 && damage[0].contains("document metadata"), "{damage:?}");
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
    let damage = damage_after("DELETE FROM bodies");
    assert!(damage.len() == 1 && damage[0].contains("text"), "{damage:?}");
}

/// A server with another format of metadata derives it again when it starts.
#[test]
fn metadata_of_an_older_format_is_derived_again() {
    use reqlore_contract::run;
    let database = TestDatabase::new();
    let config = PostgresConfig::parse(&database.url(), &PasswordSources::default()).unwrap();
    let storage = run(open_on(&database.url()));
    run(async {
        for number in 1..=150 {
            let id = DocumentId::section(format!("s{number}"));
            storage.put(&id, "# Section\n\nSee REQ-001.").await;
        }
        storage.delete(&DocumentId::section("s7")).await;
    });
    let large: &str = Box::leak("a long text\n".repeat(100_000).into_boxed_str());
    run(storage.put(&DocumentId::section("large"), large));
    let all = RowQuery::all(&DOCUMENTS).sorted_by(&["name"]);
    let before = replace_rows(&config, &all, |_| ());
    replace_rows(&config, &all, |row| *row = row.replace(META, b"{}"[..].into()));
    database.query("DELETE FROM links; DELETE FROM counts").unwrap();
    let set_format = |format: i64| {
        replace_rows(&config, &RowQuery::all(&STORE), |row| {
            *row = row.replace(STORE.columns.len() - 1, format.into());
        });
    };
    set_format(METADATA_FORMAT - 1);
    let outdated = run(storage.store.identity_epoch()).unwrap_err().to_string();
    assert!(outdated.contains("start a server of this version"), "{outdated}");
    // Only a server updates it.
    run(crate::open(config.clone())).unwrap_err();

    let (store, _) = run(crate::open_for_server(config.clone())).unwrap();
    assert_eq!(replace_rows(&config, &all, |_| ()), before);
    assert_eq!(run(store.find_damage()).unwrap(), Vec::<String>::new());
    assert_eq!(run(storage.read_body(&DocumentId::section("s7"))), None);
    let body = run(storage.read_body(&DocumentId::section("s150"))).unwrap();
    assert_eq!(body, "# Section\n\nSee REQ-001.");
    run(storage.store.identity_epoch()).unwrap();

    set_format(METADATA_FORMAT + 1);
    let newer = run(crate::open_for_server(config.clone())).unwrap_err().to_string();
    assert!(newer.contains("update Reqlore"), "{newer}");
}

/// The column of the metadata in a row of `documents`.
const META: usize = 17;

/// Changes rows, with valid checksums. Returns the rows before.
fn replace_rows(
    config: &PostgresConfig,
    query: &RowQuery,
    change: impl Fn(&mut TableRow),
) -> Vec<TableRow> {
    let mut session = PostgresDatabase::of_config(config.clone()).unwrap().open_session();
    let before = session.begin(std::slice::from_ref(query)).unwrap().rows.remove(0);
    let mut changes = Vec::new();
    for row in &before {
        let (before, mut row) = (row.clone(), row.clone());
        if *query.table != DOCUMENTS || row.value(META) != Value::Null {
            change(&mut row);
        }
        changes.push(RowChange::Update { row, before });
    }
    session.write(vec![(query.table, changes)]).unwrap();
    assert!(matches!(session.commit(), CommitOutcome::Committed));
    before
}
