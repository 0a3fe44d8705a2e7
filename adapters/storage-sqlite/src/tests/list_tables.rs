//! The tables of lists: compared by the check, never shown wrongly.

use std::path::Path;

use reqlore_contract::run;
use reqlore_domain::backlog::{ItemKind, Reference, Status};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::documents::DocumentRepository;
use reqlore_domain::ports::item_list::{ItemFilter, ItemQuery};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use tempfile::TempDir;

use super::{connect, database_path, error_text, open_file, run_sql, storage};
use reqlore_sqlite_metadata::find_differences;

const REQ: ItemKind = ItemKind::Requirement;

/// A closed database with three requirements, of which one is active and one has a diagnostic, and
/// two entities, of which one has a tag.
fn database_with_items() -> (TempDir, std::path::PathBuf) {
    let (folder, file) = database_path();
    run(async {
        let s = storage(&file);
        for (name, text) in [
            ("REQ-001", "---\ntitle: A\nstatus: Active\nuser_story: US-001\n---\n"),
            ("REQ-002", "---\ntitle: B\n---\n"),
            ("REQ-003", "---\ntitle: [\n---\n"),
        ] {
            let id = DocumentId { kind: DocumentKind::Item(REQ), name: name.to_owned() };
            s.put(&id, text).await;
        }
        s.put(&DocumentId::entity("ideas/a"), "---\ntags: [x]\n---\n").await;
        s.put(&DocumentId::entity("ideas/b"), "").await;
    });
    (folder, file)
}

fn differences(file: &Path) -> Vec<String> {
    find_differences(&connect(file), 10).unwrap()
}

#[test]
fn wrong_row_of_a_list_is_found_by_the_check() {
    for change in [
        "DELETE FROM items WHERE status = 'Active'",
        "UPDATE items SET status = 'Obsolete' WHERE status = 'Active'",
        "UPDATE items SET parent = 'US-002' WHERE status = 'Active'",
        "UPDATE items SET document = document + 1 WHERE status = 'Active'",
        "UPDATE items SET position = x'00' WHERE status = 'Active'",
        "INSERT INTO items VALUES (1, 'requirement', x'00', 9, '', '', '', 0)",
        "UPDATE item_counts SET number = 7",
        "DELETE FROM item_counts",
        "DELETE FROM diagnostics",
        "INSERT INTO diagnostics VALUES (1, 'requirement', 'REQ-009', 1, 0)",
        "UPDATE entity_counts SET number = 7 WHERE tag = 'x'",
        "UPDATE entity_counts SET tag = 'y' WHERE tag = 'x'",
        "DELETE FROM entity_counts WHERE tag = ''",
        "DELETE FROM untagged",
        "UPDATE untagged SET kind = 'issue'",
        "INSERT INTO untagged VALUES (1, 'idea', 'ideas/c', 1, 0)",
        "DELETE FROM entity_words WHERE word = '=ideas/a'",
        "UPDATE entity_words SET word = '=ideas/c' WHERE word = '=ideas/a'",
        "INSERT INTO entity_words VALUES (1, '=c', 'c', 1, 0)",
    ] {
        let (_folder, file) = database_with_items();
        assert_eq!(differences(&file), Vec::<String>::new());
        run_sql(&file, change);
        assert_eq!(differences(&file).len(), 1, "{change}: {:?}", differences(&file));
        let damage = run(open_file(&file).unwrap().find_damage()).unwrap();
        assert!(!damage.is_empty(), "{change}");
    }
}

#[test]
fn wrong_row_of_a_list_is_not_served() {
    let (_folder, file) = database_with_items();
    run_sql(
        &file,
        "UPDATE items SET status = 'Active' WHERE status = 'Draft'; \
         UPDATE items SET document = 99 WHERE parent != ''",
    );
    let store = open_file(&file).unwrap();
    let filter = ItemFilter { status: Some(Status::Active), ..ItemFilter::default() };
    for filter in [filter, ItemFilter::default()] {
        let query = ItemQuery { filter, ..ItemQuery::of_kind(REQ, 10) };
        let (_, message) = error_text(run(store.items(&ProjectKey::default(), &query)));
        assert!(message.contains("items") && message.contains("restore"), "{message}");
    }
    let stories = [Reference { kind: ItemKind::UserStory, number: 1 }];
    let counted = run(store.child_statuses(&ProjectKey::default(), REQ, &stories));
    let (_, message) = error_text(counted);
    assert!(message.contains("damaged") && message.contains("restore"), "{message}");
}

#[test]
fn wrong_row_of_an_entity_is_not_served() {
    let (_folder, file) = database_with_items();
    run_sql(
        &file,
        "UPDATE entity_counts SET number = 7; \
         UPDATE untagged SET document = (SELECT id FROM documents WHERE name = 'ideas/a'); \
         UPDATE entity_words SET document = (SELECT id FROM documents WHERE name = 'ideas/b')",
    );
    let store = open_file(&file).unwrap();
    let project = ProjectKey::default();
    let failures = [
        error_text(run(store.entity_kinds(&project))),
        error_text(run(store.tag_counts(&project, None))),
        error_text(run(store.untagged(&project, None, 10))),
        error_text(run(store.similar_entities(&project, "IDEAS/A"))),
    ];
    for (_, message) in failures {
        assert!(message.contains("damaged") && message.contains("restore"), "{message}");
    }
}
