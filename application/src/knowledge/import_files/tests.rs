//! Tests of `ixchel_sync` on a database, whose entities files and tools write.

use reqlore_domain::document::DocumentId;
use serde_json::{Value, json};

use crate::test_support::TestApplication;

/// The files of the workspace root, and the application on a database.
struct SyncedProject {
    files: TestApplication,
    testing: TestApplication,
}

impl SyncedProject {
    /// Imports files with these names and this text.
    async fn with_files(names: &[&str]) -> Self {
        let files = TestApplication::new();
        for name in names {
            files.write_entity(name, "# Old\n").await;
        }
        let tree = Some(std::sync::Arc::clone(&files.store));
        let project = Self { files, testing: TestApplication { tree, ..TestApplication::new() } };
        project.sync().await;
        project
    }

    /// Returns the warnings.
    async fn sync(&self) -> Value {
        let report = self.testing.data("ixchel_sync", json!({})).await;
        report["warnings"].clone()
    }

    async fn update(&self, name: &str, body: &str) {
        self.testing.data("ixchel_update", json!({ "id": name, "body": body })).await;
    }

    async fn body(&self, name: &str) -> Option<String> {
        self.testing.body(DocumentId::entity(name)).await
    }
}

#[tokio::test]
async fn sync_imports_changed_and_removed_files() {
    let project = SyncedProject::with_files(&["a", "b", "gone"]).await;
    assert_eq!(project.body("gone").await.as_deref(), Some("# Old\n"));
    project.files.write_entity("a", "# New\n").await;
    project.files.remove(DocumentId::entity("gone")).await;
    assert_eq!(project.sync().await, json!([]));
    assert_eq!(project.body("a").await.as_deref(), Some("# New\n"));
    assert_eq!(project.body("b").await.as_deref(), Some("# Old\n"));
    assert_eq!(project.body("gone").await, None);
}

#[tokio::test]
async fn sync_keeps_entities_that_tools_created() {
    let project = SyncedProject::with_files(&["a"]).await;
    let idea = json!({ "kind": "idea", "title": "Ours" });
    let created = project.testing.data("ixchel_create", idea).await;
    let id = created["id"].as_str().unwrap();
    assert_eq!(project.sync().await, json!([]));
    let shown = project.testing.data("ixchel_show", json!({ "id": id })).await;
    assert_eq!(shown["version"], created["version"]);
}

#[tokio::test]
async fn sync_keeps_an_update_while_the_file_is_unchanged() {
    let project = SyncedProject::with_files(&["a"]).await;
    project.update("a", "Ours.").await;
    let updated = project.body("a").await;
    for _ in 0..2 {
        assert_eq!(project.sync().await, json!([]));
        assert_eq!(project.body("a").await, updated);
    }
}

#[tokio::test]
async fn sync_of_a_file_changed_after_an_update_imports_it() {
    let project = SyncedProject::with_files(&["a"]).await;
    project.update("a", "Ours.").await;
    project.files.write_entity("a", "# New\n").await;
    let warnings = project.sync().await.to_string();
    assert!(warnings.contains(".ixchel/a.md: a tool and the file changed it"), "{warnings}");
    assert_eq!(project.body("a").await.as_deref(), Some("# New\n"));
    assert_eq!(project.sync().await, json!([]), "the next one has nothing to do");
}

#[tokio::test]
async fn sync_keeps_an_updated_entity_whose_file_was_removed() {
    let project = SyncedProject::with_files(&["a", "b"]).await;
    project.update("a", "Ours.").await;
    project.files.remove(DocumentId::entity("a")).await;
    let warnings = project.sync().await.to_string();
    assert!(warnings.contains(".ixchel/a.md: it has no file any more"), "{warnings}");
    assert!(project.body("a").await.unwrap().contains("Ours."));
}

#[tokio::test]
async fn sync_imports_a_deleted_entity_only_after_its_file_changed() {
    let project = SyncedProject::with_files(&["a", "b"]).await;
    project.testing.data("delete_item", json!({ "reference": "a" })).await;
    assert_eq!(project.sync().await, json!([]));
    assert_eq!(project.body("a").await, None);
    project.files.write_entity("a", "# New\n").await;
    project.sync().await;
    assert_eq!(project.body("a").await.as_deref(), Some("# New\n"));
}

#[tokio::test]
async fn sync_keeps_a_stored_text_that_never_came_from_a_file() {
    let project = SyncedProject::with_files(&["a"]).await;
    project.testing.write_entity("b", "# Stored\n").await;
    project.files.write_entity("b", "# File\n").await;
    let warnings = project.sync().await.to_string();
    assert!(warnings.contains(".ixchel/b.md: a tool wrote the stored text"), "{warnings}");
    assert_eq!(project.body("b").await.as_deref(), Some("# Stored\n"));
}
