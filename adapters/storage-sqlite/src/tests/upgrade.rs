//! Upgrades that are killed, read-only media, and reads of databases of older schemas.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_contract::killed_process::{kill_child, killed_step};
use reqlore_contract::run;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::documents::{DocumentRepository, StoreError};
use reqlore_domain::ports::item_list::ItemQuery;
use reqlore_domain::ports::service::{NoProgress, ProgressSink};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use tempfile::TempDir;

use super::{connect, create_older_schema, database_path, error_text, open_file};
use crate::connection::{ConnectionUse, Connector, OpenMode};
use crate::database_file::{DatabaseFile, sibling_path};
use crate::schema::{MIGRATIONS, prepare_database};
use crate::{ReadOnlyOpen, SqliteConfig, SqliteStore};

const ITEMS: usize = 300;
/// The test that runs in child processes.
const CHILD: &str = "tests::upgrade::child_aborts_an_upgrade";

/// A database with requirements, as a version with this schema left it.
fn older_database(schema: usize) -> (TempDir, PathBuf) {
    let (folder, file) = database_path();
    create_older_schema(&file, schema);
    let connection = connect(&file);
    connection
        .execute_batch("INSERT INTO projects (id, key, revision) VALUES (1, 'default', 7); BEGIN")
        .unwrap();
    for number in 1..=ITEMS {
        let name = format!("REQ-{number:03}");
        let id = DocumentId { kind: DocumentKind::Item(ItemKind::Requirement), name };
        let document = Document::new(id, format!("---\ntitle: Number {number}\n---\n").into());
        let row = (number, &document.id.name, document.version.to_string());
        connection
            .execute(
                "INSERT INTO documents (id, project, kind, name, version, revision, modified, head) \
                 VALUES (?1, 1, 'requirement', ?2, ?3, 7, 9000000000, x'')",
                row,
            )
            .unwrap();
        let insert = "INSERT INTO bodies (document, body) VALUES (?1, ?2)";
        connection.execute(insert, (number, &document.body[..])).unwrap();
    }
    connection
        .execute_batch(
            "INSERT INTO marks (project, kind, number) VALUES (1, 'requirement', 900); COMMIT",
        )
        .unwrap();
    (folder, file)
}

fn config(file: &Path) -> SqliteConfig {
    SqliteConfig { file: file.to_owned() }
}

/// Number of documents and the high-water mark in an export.
fn exported(source: &dyn Archive) -> (usize, u32) {
    run(async {
        let mut reader = source.export().await.unwrap();
        let (mut documents, mut mark) = (0, 0);
        loop {
            let records = reader.next_batch().await.unwrap();
            if records.is_empty() {
                return (documents, mark);
            }
            for record in records {
                match record {
                    ArchiveRecord::Document(_) => documents += 1,
                    ArchiveRecord::HighWaterMark(found) => mark = found.number,
                    _ => {}
                }
            }
        }
    })
}

#[track_caller]
fn check_upgraded(file: &Path) {
    let store = open_file(file).unwrap();
    run(async {
        let query = ItemQuery::of_kind(ItemKind::Requirement, 10);
        let page = store.items(&ProjectKey::default(), &query).await.unwrap();
        assert_eq!((page.metadata.len(), page.total), (10, ITEMS));
        assert_eq!(store.find_damage().await.unwrap(), Vec::<String>::new());
    });
    assert_eq!(exported(&store), (ITEMS, 900));
}

/// Ends the process at a step, without any cleanup, as `kill -9` does.
#[derive(Debug)]
struct AbortAt(String);

impl ProgressSink for AbortAt {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn progress(&self, done: usize, _: usize, message: &str) {
        if self.0 == format!("{done} {message}") {
            std::process::abort();
        }
    }
}

#[test]
fn child_aborts_an_upgrade() {
    let Some(step) = killed_step() else { return };
    let file = std::path::absolute("reqlore.db").unwrap();
    drop(SqliteStore::open_with_progress(&config(&file), &AbortAt(step)));
}

#[test]
fn killed_upgrade_begins_again_and_loses_nothing() {
    for schema in 1..=3 {
        let (folder, file) = older_database(schema);
        let last = format!("{ITEMS} Upgrading the database (documents)");
        for step in [
            "0 Checking the database",
            "1 Upgrading the database (documents)",
            "150 Upgrading the database (documents)",
            &last,
        ] {
            kill_child(CHILD, folder.path(), step);
            let source = SqliteStore::open_source(&config(&file)).unwrap();
            assert_eq!(exported(&*source), (ITEMS, 900), "{schema}: {step}");
        }
        check_upgraded(&file);
        let backup = sibling_path(&file, &format!(".schema-{schema}.backup"));
        fs::metadata(&backup).unwrap();
        fs::metadata(sibling_path(&file, &format!(".schema-{schema}.unfinished"))).unwrap_err();
        // The copy is complete, too.
        let copied = SqliteStore::open_source(&config(&backup)).unwrap();
        assert_eq!(exported(&*copied), (ITEMS, 900));
    }
}

#[test]
fn older_database_is_read_as_it_is() {
    for schema in 1..=3 {
        let (folder, file) = older_database(schema);
        let before = fs::read(&file).unwrap();
        let source = SqliteStore::open_source(&config(&file)).unwrap();
        assert_eq!(exported(&*source), (ITEMS, 900), "{schema}");
        let error = run(source.import()).err().expect("it is only read");
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        let Ok(ReadOnlyOpen::Older { database, schema: found, .. }) =
            SqliteStore::open_read_only(&config(&file))
        else {
            panic!("{schema}: it is not recognized");
        };
        assert_eq!((exported(&database), found), ((ITEMS, 900), schema));
        assert_eq!(fs::read(&file).unwrap(), before, "{schema}");
        let names = fs::read_dir(folder.path()).unwrap();
        assert!(names.into_iter().all(|name| {
            let name = name.unwrap().file_name().into_string().unwrap();
            !name.contains("schema") && !name.contains("commits")
        }));
        check_upgraded(&file);
    }
}

#[test]
fn older_database_on_a_read_only_medium_names_copy() {
    let (_folder, file) = older_database(2);
    let prepared = Arc::new(DatabaseFile::prepare(&file).unwrap());
    // SQLite opens a file so if it or its folder is read-only.
    let connector = Connector { file: prepared, mode: OpenMode::Immutable };
    let mut connection = connector.open(ConnectionUse::Write).unwrap();
    let refused = prepare_database(&connector, &mut connection, MIGRATIONS, &NoProgress);
    let (_, message) = error_text(refused.map_err(|error| error.into_store_error("it")));
    let command = format!("reqlore copy --from sqlite:{}", file.display());
    assert!(
        message.contains(&command) && message.contains("older version of reqlore"),
        "{message}"
    );
}

#[test]
fn second_process_is_refused_during_an_upgrade() {
    let (_folder, file) = older_database(3);
    let first = connect(&file);
    first.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (error, message) = error_text(open_file(&file));
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    assert!(message.contains("another process is upgrading it"), "{message}");
    first.execute_batch("ROLLBACK").unwrap();
    check_upgraded(&file);
}

#[test]
fn damaged_older_database_is_not_exported() {
    let (_folder, file) = older_database(3);
    connect(&file).execute_batch("UPDATE bodies SET body = x'00' WHERE document = 7").unwrap();
    let source = SqliteStore::open_source(&config(&file)).unwrap();
    let read = run(async {
        let mut reader = source.export().await?;
        while !reader.next_batch().await?.is_empty() {}
        Ok::<_, StoreError>(())
    });
    assert!(matches!(read, Err(StoreError::Unreadable { .. })), "{read:?}");
}
