//! Questions about all entities: kinds, tags, similar and duplicate IDs.

use std::collections::BTreeMap;

use reqlore_domain::document::DocumentId;
use reqlore_domain::knowledge::entity_graph::EntityCounts;
use reqlore_domain::ports::entity_list::SimilarEntities;

use crate::Storage;

async fn put_entities(s: &Storage) {
    for (name, text) in [
        ("decisions/dec-1d2c8f", "---\nid: dec-1d2c8f\ntags: [z, a]\n---\n"),
        ("decisions/dec-1d2caa", "---\nid: dec-1d2caa\nlabels: [a]\n---\n"),
        ("ideas/Use-Tantivy-now", "---\nid: Use-Tantivy-now\n---\n"),
        ("ideas/x", "---\nid: idea-5\ntags: [a]\n---\n"),
        ("issues/y", "---\nid: idea-5\n---\n"),
        ("specs/use", ""),
    ] {
        s.put(&DocumentId::entity(name), text).await;
    }
    // Tombstones and items are no entities.
    let tombstone = DocumentId::entity("ideas/gone").tombstone();
    s.put(&tombstone, "---\ntags: [a]\n---\n").await;
    s.put(&DocumentId::section("tantivy"), "---\ntags: [a]\n---\n").await;
}

fn counts(expected: &[(&str, usize)]) -> EntityCounts {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

pub async fn entities_are_counted_by_kind_and_tag(s: &Storage) {
    let kinds = async || s.store.entity_kinds(&s.project).await.unwrap();
    let tags = async |kind: Option<&str>| {
        s.store.tag_counts(&s.project, kind.map(str::to_owned)).await.unwrap()
    };
    assert_eq!((kinds().await, tags(None).await), (BTreeMap::new(), BTreeMap::new()));
    put_entities(s).await;
    assert_eq!(kinds().await, counts(&[("decision", 2), ("idea", 2), ("issue", 1), ("specs", 1)]));
    assert_eq!(tags(None).await, counts(&[("a", 3), ("z", 1)]));
    assert_eq!(tags(Some("idea")).await, counts(&[("a", 1)]));
    assert_eq!(tags(Some("issue")).await, counts(&[]));
    s.put(&DocumentId::entity("decisions/dec-1d2c8f"), "---\ntags: [b]\ntype: idea\n---\n").await;
    s.delete(&DocumentId::entity("ideas/x")).await;
    assert_eq!(kinds().await, counts(&[("decision", 1), ("idea", 2), ("issue", 1), ("specs", 1)]));
    assert_eq!(tags(None).await, counts(&[("a", 1), ("b", 1)]));
    assert_eq!(tags(Some("idea")).await, counts(&[("b", 1)]));
    let other = s.store.entity_kinds(&s.other).await.unwrap();
    assert_eq!(other, counts(&[]), "projects are isolated");
}

pub async fn untagged_entities_are_listed_by_kind(s: &Storage) {
    put_entities(s).await;
    let list = async |kind: Option<&str>, limit| {
        let kind = kind.map(str::to_owned);
        let list = s.store.untagged(&s.project, kind, limit).await.unwrap();
        let names: Vec<String> = list.metadata.iter().map(|meta| meta.id.name.clone()).collect();
        (names.join(" "), list.total)
    };
    let all = "ideas/Use-Tantivy-now issues/y specs/use".to_owned();
    assert_eq!(list(None, 10).await, (all, 3));
    assert_eq!(list(None, 2).await, ("ideas/Use-Tantivy-now issues/y".to_owned(), 3));
    assert_eq!(list(Some("specs"), 10).await, ("specs/use".to_owned(), 1));
    assert_eq!(list(Some("decision"), 10).await, (String::new(), 0));
    s.put(&DocumentId::entity("issues/y"), "---\ntags: [b]\n---\n").await;
    s.put(&DocumentId::entity("ideas/x"), "").await;
    s.delete(&DocumentId::entity("specs/use")).await;
    assert_eq!(list(None, 10).await, ("ideas/Use-Tantivy-now ideas/x".to_owned(), 2));
    let other = s.store.untagged(&s.other, None, 10).await.unwrap();
    assert_eq!(other.total, 0, "projects are isolated");
}

pub async fn similar_entities_are_found_by_case_and_part(s: &Storage) {
    put_entities(s).await;
    let similar = async |text: &str| {
        let SimilarEntities { same, ids } =
            s.store.similar_entities(&s.project, text).await.unwrap();
        let same: Vec<&str> = same.iter().map(|meta| meta.id.name.as_str()).collect();
        (same.join(" "), ids.join(" "))
    };
    let found = |same: &str, ids: &str| (same.to_owned(), ids.to_owned());
    for (text, same, ids) in [
        ("DEC-1D2C8F", "decisions/dec-1d2c8f", "dec-1d2c8f"),
        ("iss-1d2c", "", "dec-1d2c8f dec-1d2caa"),
        ("use-TANTIVY-now", "ideas/Use-Tantivy-now", "Use-Tantivy-now"),
        ("for-tant", "", "Use-Tantivy-now"),
        ("Idea-5", "ideas/x issues/y", ""),
        ("IDEAS/X", "ideas/x", ""),
        ("x-idea", "", "idea-5"),
        // Too short, and the middle of a part.
        ("a-1d", "", ""),
        ("2c8f", "", ""),
        ("", "", ""),
    ] {
        assert_eq!(similar(text).await, found(same, ids), "{text}");
    }
    s.put(&DocumentId::entity("decisions/dec-1d2c8f"), "---\nid: new-id\n---\n").await;
    s.delete(&DocumentId::entity("decisions/dec-1d2caa")).await;
    assert_eq!(similar("DEC-1D2C8F").await, found("", ""));
    assert_eq!(similar("NEW-ID").await.0, "decisions/dec-1d2c8f");
    assert_eq!(similar("iss-1d2c").await, found("", ""));
    let other = s.store.similar_entities(&s.other, "DEC-1D2C8F").await.unwrap();
    assert_eq!(other, SimilarEntities::default(), "projects are isolated");
}

pub async fn duplicate_ids_are_listed(s: &Storage) {
    put_entities(s).await;
    for name in ["a", "b"] {
        s.put(&DocumentId::entity(name), "---\nid: dec-1d2caa\n---\n").await;
    }
    let list = s.store.duplicate_ids(&s.project, 10).await.unwrap();
    assert_eq!((list.ids.join(" "), list.total), ("dec-1d2caa idea-5".to_owned(), 2));
    let list = s.store.duplicate_ids(&s.project, 1).await.unwrap();
    assert_eq!((list.ids.join(" "), list.total), ("dec-1d2caa".to_owned(), 2));
    s.delete(&DocumentId::entity("issues/y")).await;
    assert_eq!(s.store.duplicate_ids(&s.project, 0).await.unwrap().total, 1);
    assert_eq!(s.store.duplicate_ids(&s.other, 10).await.unwrap().total, 0);
}
