//! Lists of all entities: kinds, tags, similar IDs.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::record_list::{RecordCounts, RecordPage, RecordQuery, RecordSelection};

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

fn counts(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

pub async fn entities_are_counted_by_kind_and_tag(s: &Storage) {
    let count = |kind: Option<&str>, counts| {
        RecordQuery::of_entities(kind.map(str::to_owned), 0).count_by(counts)
    };
    let kinds = async || {
        let page = s.store.list(&s.project, &count(None, RecordCounts::Kind)).await.unwrap();
        assert_eq!(page.total, page.by_text.values().sum::<usize>());
        page.by_text
    };
    let tags = async |kind: Option<&str>| {
        s.store.list(&s.project, &count(kind, RecordCounts::Tag)).await.unwrap().by_text
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
    let other = s.store.list(&s.other, &count(None, RecordCounts::Kind)).await.unwrap();
    assert_eq!(other, RecordPage::default(), "projects are isolated");
}

pub async fn untagged_entities_are_listed_by_kind(s: &Storage) {
    put_entities(s).await;
    let list = async |kind: Option<&str>, limit| {
        let query = RecordQuery::of_entities(kind.map(str::to_owned), limit);
        let query = RecordQuery { selection: RecordSelection::Untagged, ..query };
        let list = s.store.list(&s.project, &query).await.unwrap();
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
    let untagged = RecordQuery::select(DocumentKind::Entity, RecordSelection::Untagged, 10);
    let other = s.store.list(&s.other, &untagged).await.unwrap();
    assert_eq!(other.total, 0, "projects are isolated");
}

pub async fn similar_entities_are_found_by_case_and_part(s: &Storage) {
    put_entities(s).await;
    let list = |selection| RecordQuery::select(DocumentKind::Entity, selection, 3);
    let similar = async |text: &str| {
        let [spelled, similar] = [RecordSelection::Spelled, RecordSelection::Similar];
        let same = s.store.list(&s.project, &list(spelled(text.to_owned()))).await.unwrap();
        let same: Vec<&str> = same.metadata.iter().map(|meta| meta.id.name.as_str()).collect();
        let found = s.store.list(&s.project, &list(similar(text.to_owned()))).await.unwrap();
        assert_eq!(found.total, found.metadata.len());
        let mut ids: Vec<String> = Vec::new();
        ids.extend(found.metadata.iter().map(|meta| meta.entity.as_ref().unwrap().id.clone()));
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
        ("x-idea", "", "idea-5 idea-5"),
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
    let spelled = list(RecordSelection::Spelled("DEC-1D2C8F".to_owned()));
    let other = s.store.list(&s.other, &spelled).await.unwrap();
    assert_eq!(other, RecordPage::default(), "projects are isolated");
}
