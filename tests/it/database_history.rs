//! Earlier versions in databases: copies, backups and killed servers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::history::HistoryQuery;
use reqlore_domain::project_key::ProjectKey;
use reqlore_storage_sled::SledConfig;
use reqlore_storage_sqlite::SqliteConfig;
use serde_json::json;

use crate::backlog::{create_epic, data};
use crate::client::{Server, project, storage_argument};
use crate::copy_and_backup::{run, run_ok, run_split};
use crate::schemas::block_on;
use crate::transcripts::open_postgres;

const DATABASES: [&str; 3] = ["sqlite", "sled", "postgres"];

fn open_database(storage: &str, root: &Path) -> Arc<dyn Store> {
    if storage.starts_with("postgres:") {
        return open_postgres(storage);
    }
    let local = root.join(".reqlore/local");
    if storage == "sled" {
        let config = SledConfig { folder: local.join("sled") };
        return Arc::new(reqlore_storage_sled::open(&config).unwrap());
    }
    Arc::new(
        reqlore_storage_sqlite::open(&SqliteConfig { file: local.join("reqlore.db") }).unwrap(),
    )
}

/// The texts of a document from its first version on, `None` for a deletion. Asserts that the last
/// one is the document.
async fn replay(store: &dyn Store, id: &DocumentId) -> Vec<Option<String>> {
    let project = ProjectKey::default();
    let mut query = HistoryQuery { after: None, limit: 7 };
    let mut texts = Vec::new();
    loop {
        let page = store.history(&project, id, &query).await.unwrap();
        for entry in page.entries {
            let Some(version) = entry.version else {
                texts.insert(0, None);
                continue;
            };
            let document = store.document_at(&project, id, version).await.unwrap();
            let document = document.unwrap_or_else(|| panic!("{id} {version} has no text"));
            texts.insert(0, Some(document.text().unwrap().to_owned()));
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let document = store.get(&project, std::slice::from_ref(id)).await.unwrap().remove(0);
    let text = document.map(|document| document.text().unwrap().to_owned());
    assert_eq!(texts.last().cloned().flatten(), text, "{id}");
    texts
}

/// Asserts that each acknowledged text is in a version of the section, that no change is listed
/// twice, and that the newest version is the section.
pub(crate) fn check_killed_history(storage: &str, root: &Path, acknowledged: &BTreeSet<String>) {
    if storage == "fs" {
        return;
    }
    let store = open_database(storage, root);
    let texts = block_on(replay(&*store, &DocumentId::section("general")));
    for pair in texts.windows(2) {
        assert_ne!(pair[0], pair[1], "{storage}: a version without a change");
    }
    let all: String = texts.iter().flatten().map(|text| text.replace('\n', " ")).collect();
    for text in acknowledged {
        assert!(all.contains(text), "{storage}: {text} has no version");
    }
}

/// A database with an epic of three versions and a deleted one.
fn write_versions(root: &Path) {
    let mut server = Server::start_with(root, &["--storage", "sqlite"]);
    let kept = create_epic(&mut server, "First title");
    let gone = create_epic(&mut server, "Gone");
    for title in ["Second title", "Third title"] {
        data(&server.call("update_epic", json!({ "epic": kept, "title": title })));
    }
    data(&server.call("delete_item", json!({ "reference": gone })));
    assert!(server.end().1.success());
}

#[test]
fn copy_and_backup_carry_history_between_databases() {
    let scratch = project();
    let root = scratch.path();
    write_versions(root);
    fs::create_dir(root.join("files")).unwrap();
    let output = run_ok(root, "copy --from sqlite --to sled:sled --verify");
    assert!(output.contains(", 4 earlier versions from sqlite:"), "{output}");
    assert!(output.ends_with("; verified: both sides are the same.\n"), "{output}");
    run_ok(root, "backup --storage sled:sled one.dump");
    let output = run_ok(root, "restore --storage sqlite:two.db one.dump");
    assert!(output.ends_with("; verified: both sides are the same.\n"), "{output}");
    run_ok(root, "backup --storage sqlite:two.db two.dump");
    run_ok(root, "backup --storage sqlite original.dump");
    let dumps = ["one.dump", "two.dump", "original.dump"];
    let [one, two, original] = dumps.map(|dump| fs::read_to_string(root.join(dump)).unwrap());
    assert_eq!(one, two);
    assert_eq!(one, original);
    assert!(original.starts_with("{\"format\":\"reqlore-dump\",\"version\":2,"), "{original}");
    for part in ["First title", "Second title", "title: Gone", "\"tool\":\"update_epic\""] {
        assert!(original.contains(part), "{part} in {original}");
    }

    let output = run_ok(root, "copy --from sqlite --to fs:files --verify");
    let left =
        "; 4 earlier versions left behind, because files have the history of Git; verified: ";
    assert!(output.contains(left), "{output}");
    let output = run_ok(root, "copy --from fs:files --to sqlite:again.db --verify");
    assert!(!output.contains("earlier"), "{output}");
}

// The text is gone from the database, and everything else stays.
#[test]
fn history_purge_erases_an_earlier_text() {
    for storage in DATABASES {
        let storage = &*storage_argument(storage);
        let scratch = project();
        let root = scratch.path();
        let mut server = Server::start_with(root, &["--storage", storage]);
        let epic = create_epic(&mut server, "hunter2");
        let versions: Vec<String> = ["Login", "Sign-in"]
            .iter()
            .map(|title| {
                let update = json!({ "epic": epic, "title": title });
                data(&server.call("update_epic", update))["version"].as_str().unwrap().to_owned()
            })
            .collect();
        assert!(server.end().1.success());
        let purge = format!("--storage {storage} history purge {epic}");
        let (code, output) = run(root, &format!("{purge} --version {} --reason x", versions[1]));
        assert_eq!(code, 1, "{output}");
        assert!(output.contains("is the present text of"), "{output}");
        let (code, output) = run(root, &format!("{purge} --version 0123456789abcdef --reason x"));
        assert!(code == 1 && output.contains("has no version 0123456789abcdef"), "{output}");
        let (code, output) = run(root, &format!("--read-only {purge} --reason x"));
        assert!(code == 1 && output.contains("administrator"), "{output}");

        let output = run_ok(root, &format!("{purge} --reason pasted --json"));
        assert!(output.contains("\"erased\": 2") || output.contains("\"erased\":2"), "{output}");
        run_ok(root, &format!("--storage {storage} backup one.dump"));
        let dump = fs::read_to_string(root.join("one.dump")).unwrap();
        assert!(!dump.contains("title: hunter2") && dump.contains("\"purged\":"), "{dump}");
        let rows = run_ok(root, &format!("--storage {storage} audit list"));
        assert!(rows.contains("history purge") && rows.contains("pasted"), "{rows}");
        let (code, output) =
            run(root, &format!("--storage {storage} history purge EP-007 --reason x"));
        assert!(code == 1 && output.contains("EP-007"), "{output}");
    }
}

// Its tombstone would keep the last text.
#[test]
fn history_purge_erases_the_text_of_a_deleted_item() {
    for storage in DATABASES {
        let storage = &*storage_argument(storage);
        let scratch = project();
        let root = scratch.path();
        let mut server = Server::start_with(root, &["--storage", storage]);
        let epic = create_epic(&mut server, "Login");
        server.call("update_epic", json!({ "epic": epic, "description": "hunter2" }));
        let decision = json!({ "kind": "decision", "title": "Login", "body": "hunter2" });
        let decision = data(&server.call("ixchel_create", decision))["id"].clone();
        let ids = [epic, decision.as_str().unwrap().to_owned()];
        for id in &ids {
            server.call("delete_item", json!({ "reference": id }));
        }
        assert!(server.end().1.success());
        let dump = root.join("before.dump");
        run_ok(root, &format!("--storage {storage} backup before.dump"));
        assert!(fs::read_to_string(dump).unwrap().contains("hunter2"));
        for id in &ids {
            // A repeated purge finishes one that was interrupted.
            for _ in 0..2 {
                let purge = format!("--storage {storage} history purge {id} --reason pasted");
                // The change of the tombstone is logged.
                let (code, _, errors) = run_split(root, &purge);
                assert_eq!(code, 0, "{errors}");
            }
        }
        run_ok(root, &format!("--storage {storage} backup after.dump"));
        let dump = fs::read_to_string(root.join("after.dump")).unwrap();
        assert!(!dump.contains("hunter2"), "{dump}");
        let mut server = Server::start_with(root, &["--storage", storage]);
        for id in &ids {
            let answer = server.call("get_item", json!({ "reference": id })).to_string();
            assert!(answer.contains("deleted on"), "{answer}");
        }
        assert!(server.end().1.success());
    }
}
