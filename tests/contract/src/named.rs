//! What words name: references and names.

use reqlore_domain::document::{DocumentId, Kind};

use crate::Storage;

/// The names of the documents that each word names.
async fn named(s: &Storage, words: &[&str]) -> Vec<Vec<String>> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let found = s.store.lookup(&s.project, Kind::Entity, &words).await.unwrap();
    found.iter().map(|heads| heads.iter().map(|head| head.id.name.clone()).collect()).collect()
}

const ENTITY: &str = "---\nid: dec-1d2c8f\n---\n";

pub async fn a_word_names_by_reference_and_by_name(s: &Storage) {
    s.put(&DocumentId::entity("decisions/first"), ENTITY).await;
    s.put(&DocumentId::entity("notes"), "# No id\n").await;
    s.put(&DocumentId::section("dec-1d2c8f"), "of another kind").await;
    let found = named(s, &["dec-1d2c8f", "nothing", "notes", "decisions/first", "notes"]).await;
    let first = vec!["decisions/first".to_owned()];
    let notes = vec!["notes".to_owned()];
    assert_eq!(found, [first.clone(), vec![], notes.clone(), first, notes]);
    assert_eq!(named(s, &[]).await, Vec::<Vec<String>>::new());
}

pub async fn a_reference_may_be_claimed_twice(s: &Storage) {
    s.put(&DocumentId::entity("decisions/b"), ENTITY).await;
    s.put(&DocumentId::entity("decisions/a"), ENTITY).await;
    // Its name is what the others claim.
    s.put(&DocumentId::entity("dec-1d2c8f"), "---\nid: dec-ffffff\n---\n").await;
    let found = named(s, &["dec-1d2c8f"]).await;
    assert_eq!(found, [["dec-1d2c8f", "decisions/a", "decisions/b"]]);
}

pub async fn names_follow_every_commit(s: &Storage) {
    let id = DocumentId::entity("decisions/first");
    s.put(&id, ENTITY).await;
    s.put(&id, "---\nid: dec-ffffff\n---\n").await;
    let [before, after] = ["dec-1d2c8f", "dec-ffffff"];
    assert_eq!(named(s, &[before, after]).await, [vec![], vec![id.name.clone()]]);
    s.delete(&id).await;
    assert_eq!(named(s, &[before, after, &id.name]).await, [(); 3].map(|()| Vec::<String>::new()));
    s.put(&id, ENTITY).await;
    assert_eq!(named(s, &[before]).await, [[id.name]]);
}
