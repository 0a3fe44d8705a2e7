//! Reading: `get` and `find`.

use bytes::Bytes;
use reqlore_domain::document::{DocumentId, Kind, Version};
use reqlore_domain::ports::documents::{Change, Filter};

use crate::Storage;

pub async fn what_is_not_there_is_none(s: &Storage) {
    assert_eq!(s.body(&DocumentId::section("nothing")).await, None);
    assert_eq!(s.body(&DocumentId::instructions()).await, None);
    let page = s.store.find(&s.project, &Filter::all(Kind::Section)).await.unwrap();
    assert_eq!((page.heads.len(), page.total, page.next), (0, 0, None));
}

pub async fn bytes_come_back_as_they_were_put(s: &Storage) {
    let id = DocumentId::section("bytes");
    for body in ["\u{feff}# A\r\n\r\nmixed\nends\r", "no newline at the end", "\u{a0}\u{2028}é🦀\n"]
    {
        s.put(&id, body).await;
        assert_eq!(s.body(&id).await.as_deref(), Some(body.as_bytes()));
    }
}

pub async fn get_keeps_the_order_asked(s: &Storage) {
    let (a, b) = (DocumentId::section("a"), DocumentId::instructions());
    s.put(&a, "A").await;
    s.put(&b, "B").await;
    let ids = [b.clone(), DocumentId::section("none"), a.clone(), b.clone()];
    let found = s.store.get(&s.project, &ids).await.unwrap();
    let bodies: Vec<_> = found.iter().map(|d| d.as_ref().map(|d| &d.body[..])).collect();
    assert_eq!(bodies, [Some(&b"B"[..]), None, Some(b"A"), Some(b"B")]);
    assert_eq!(found[2].as_ref().map(|d| &d.id), Some(&a));
}

pub async fn projects_are_apart(s: &Storage) {
    let id = DocumentId::section("mine");
    s.put(&id, "secret").await;
    let other = s.store.get(&s.other, std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(other, [None]);
    let page = s.store.find(&s.other, &Filter::all(Kind::Section)).await.unwrap();
    assert_eq!(page.total, 0);
}

pub async fn versions_are_the_hash_of_the_bytes(s: &Storage) {
    let id = DocumentId::section("v");
    let put = s.put(&id, "text").await;
    let found = s.store.get(&s.project, &[id]).await.unwrap();
    let version = found[0].as_ref().map(|d| d.version);
    assert_eq!(version, Some(Version::of(b"text")));
    assert_eq!(put.versions, [version]);
}

pub async fn versions_are_those_of_get(s: &Storage) {
    let (a, none) = (DocumentId::section("a"), DocumentId::section("none"));
    s.put(&a, "one").await;
    let ids = [none, a.clone(), DocumentId::docsets()];
    for body in ["two", "three"] {
        let put = s.put(&a, body).await;
        let versions = s.store.versions(&s.project, &ids).await.unwrap();
        assert_eq!(versions, [None, put.versions[0], None]);
    }
    s.delete(&a).await;
    assert_eq!(s.store.versions(&s.project, &ids).await.unwrap(), [None; 3]);
}

pub async fn find_sorts_by_name(s: &Storage) {
    for name in ["b", "a", "c-1", "B"] {
        s.put(&DocumentId::section(name), "# Title\n").await;
    }
    s.put(&DocumentId::instructions(), "# Not a section\n").await;
    let page = s.store.find(&s.project, &Filter::all(Kind::Section)).await.unwrap();
    let names: Vec<_> = page.heads.iter().map(|h| h.id.name.as_str()).collect();
    assert_eq!(names, ["B", "a", "b", "c-1"]);
    assert!(page.heads.iter().all(|h| h.title.as_deref() == Some("Title")));
}

pub async fn find_pages_with_the_true_total(s: &Storage) {
    for name in ["a", "b", "c", "d", "e"] {
        s.put(&DocumentId::section(name), "x").await;
    }
    let mut filter = Filter { kind: Kind::Section, after: None, limit: Some(2) };
    let mut seen = Vec::new();
    loop {
        let page = s.store.find(&s.project, &filter).await.unwrap();
        assert_eq!(page.total, 5);
        assert!(page.heads.len() <= 2);
        seen.extend(page.heads.into_iter().map(|h| h.id.name));
        let Some(next) = page.next else { break };
        filter.after = Some(next);
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

pub async fn an_unreadable_document_is_listed_with_its_fault(s: &Storage) {
    let id = DocumentId::section("broken");
    let body = Bytes::from_static(b"# T\n\xff");
    let change = Change::put(id.clone(), body.clone());
    s.decide(std::slice::from_ref(&id), move |_| Ok(vec![change.clone()])).await.unwrap();
    let page = s.store.find(&s.project, &Filter::all(Kind::Section)).await.unwrap();
    assert!(page.heads[0].fault.is_some(), "{:?}", page.heads[0]);
    assert_eq!(s.body(&id).await, Some(body));
}
