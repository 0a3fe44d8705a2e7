//! Bytes that changed by another hand than ours.

use reqlore_contract::run;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{DocumentRepository, StoreError};
use reqlore_domain::project::ProjectKey;

use super::{at, made, sqlite, storage, told};

#[test]
fn changed_bytes_are_told_and_not_served() {
    let (_folder, file) = made();
    let (kept, other) = (DocumentId::section("kept"), DocumentId::section("other"));
    run(async { storage(&file).put(&other, "fine").await });
    sqlite(
        &file,
        "UPDATE bodies SET body = CAST('kepT' AS BLOB) WHERE body = CAST('kept' AS BLOB)",
    );
    let store = at(&file).unwrap();
    run(async {
        let project = ProjectKey::default();
        let (error, words) = told(store.get(&project, &[kept]).await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(words.contains("section kept") && words.contains("reqlore restore"), "{words}");
        assert!(store.get(&project, &[other]).await.unwrap()[0].is_some(), "the rest is served");
        let (_, words) = told(store.read().await.unwrap().next().await);
        assert!(words.contains("section kept"), "{words}");
    });
}
