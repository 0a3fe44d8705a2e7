//! Reads: `get`, `versions`, `find` and `lookup`.

use bytes::Bytes;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, DocumentChange, DocumentFilter, ReadSet, Snapshot,
};
use reqlore_domain::ports::record_list::{RecordCounts, RecordQuery, RecordSelection};

use crate::Storage;

/// A document of each kind.
fn one_of_each_kind() -> [DocumentId; 11] {
    let item = |kind, name: &str| DocumentId { kind, name: name.to_owned() };
    [
        DocumentId::instructions(),
        DocumentId::section("general"),
        DocumentId::docsets(),
        DocumentId::schema(),
        DocumentId::template("requirement-login"),
        DocumentId::entity("decisions/dec-1d2c8f"),
        item(DocumentKind::ITEMS[0], "EP-001-3f9a1c"),
        item(DocumentKind::ITEMS[1], "US-001-3f9a1c"),
        item(DocumentKind::ITEMS[2], "REQ-001"),
        item(DocumentKind::ITEMS[3], "AC-001"),
        item(DocumentKind::Deleted, "REQ-002-3f9a1c"),
    ]
}

pub async fn missing_documents_are_none(s: &Storage) {
    assert_eq!(s.read_body(&DocumentId::section("nothing")).await, None);
    assert_eq!(s.read_body(&DocumentId::instructions()).await, None);
    let page =
        s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
    assert_eq!((page.metadata.len(), page.next_name), (0, None));
}

pub async fn bytes_survive_a_round_trip(s: &Storage) {
    let id = DocumentId::section("bytes");
    for body in ["\u{feff}# A\r\n\r\nmixed\nends\r", "no newline at the end", "\u{a0}\u{2028}é🦀\n"]
    {
        s.put(&id, body).await;
        assert_eq!(s.read_body(&id).await.as_deref(), Some(body.as_bytes()));
    }
}

pub async fn get_keeps_the_order(s: &Storage) {
    let (a, b) = (DocumentId::section("a"), DocumentId::instructions());
    s.put(&a, "A").await;
    s.put(&b, "B").await;
    let ids = [b.clone(), DocumentId::section("none"), a.clone(), b.clone()];
    let found = s.store.get(&s.project, &ids).await.unwrap();
    let bodies: Vec<_> = found.iter().map(|d| d.as_ref().map(|d| &d.body[..])).collect();
    assert_eq!(bodies, [Some(&b"B"[..]), None, Some(b"A"), Some(b"B")]);
    assert_eq!(found[2].as_ref().map(|d| &d.id), Some(&a));
}

pub async fn projects_are_isolated(s: &Storage) {
    let (id, entity) = (DocumentId::section("mine"), DocumentId::entity("a"));
    s.put(&id, "secret").await;
    s.put(&entity, "---\nid: dec-1d2c8f\n---\n").await;
    let other = s.store.get(&s.other, std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(other, [None]);
    let page =
        s.store.find(&s.other, &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
    assert_eq!(page.metadata, []);
    // The same name in both projects.
    let theirs = DocumentChange::put(id.clone(), "theirs");
    let reads = ReadSet {
        titles_of: Some(DocumentKind::Section),
        ..ReadSet::of_documents(vec![id.clone()])
    };
    let decide = move |snapshot: &Snapshot| {
        assert_eq!((snapshot.documents.as_slice(), snapshot.titles.len()), (&[None][..], 0));
        Ok(vec![theirs.clone()])
    };
    let commit =
        CommitRequest { read_set: reads, decide: Box::new(decide), context: crate::test_context() };
    s.store.commit(&s.other, commit).await.unwrap();
    assert_eq!(s.read_body(&id).await, Some(Bytes::from_static(b"secret")));
    let words = ["dec-1d2c8f".to_owned()];
    let named = s.store.lookup(&s.other, DocumentKind::Entity, &words).await.unwrap();
    assert_eq!(named, [vec![]]);
    s.delete(&id).await;
    let other = s.store.get(&s.other, &[id]).await.unwrap();
    assert_eq!(other[0].as_ref().map(|d| &*d.body), Some(&b"theirs"[..]));
}

pub async fn versions_match_get(s: &Storage) {
    let (a, none) = (DocumentId::section("a"), DocumentId::section("none"));
    s.put(&a, "one").await;
    let ids = [none, a.clone(), DocumentId::docsets()];
    for body in ["two", "three"] {
        let put = s.put(&a, body).await;
        let version = Some(Version::of_bytes(body.as_bytes()));
        let versions = s.store.versions(&s.project, &ids).await.unwrap();
        assert_eq!((&put.versions[..], versions), (&[version][..], vec![None, version, None]));
        let found = s.store.get(&s.project, &ids).await.unwrap();
        assert_eq!(found[1].as_ref().map(|document| document.version), version);
    }
    s.delete(&a).await;
    assert_eq!(s.store.versions(&s.project, &ids).await.unwrap(), [None; 3]);
}

pub async fn find_sorts_by_name(s: &Storage) {
    // Windows has one file for names that differ in case.
    let capital = if cfg!(windows) { "D" } else { "B" };
    for name in ["b", "a", "c-1", capital] {
        s.put(&DocumentId::section(name), "# Title\n").await;
    }
    s.put(&DocumentId::instructions(), "# Not a section\n").await;
    let page =
        s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
    let names: Vec<_> = page.metadata.iter().map(|h| h.id.name.as_str()).collect();
    assert_eq!(names, [capital, "a", "b", "c-1"]);
    assert!(page.metadata.iter().all(|h| h.title.as_deref() == Some("Title")));
}

pub async fn pages_have_every_document_once(s: &Storage) {
    for name in ["a", "b", "c", "d", "e"] {
        s.put(&DocumentId::section(name), "x").await;
    }
    let mut filter = DocumentFilter { limit: 2, ..DocumentFilter::of_kind(DocumentKind::Section) };
    let mut seen = Vec::new();
    loop {
        let page = s.store.find(&s.project, &filter).await.unwrap();
        assert!(page.metadata.len() <= 2);
        seen.extend(page.metadata.iter().map(|h| h.id.name.clone()));
        let Some(next) = page.next_name else { break };
        filter.after_name = Some(next);
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

pub async fn unreadable_document_is_listed_with_a_diagnostic(s: &Storage) {
    let id = DocumentId::section("broken");
    let body = Bytes::from_static(b"# T\n\xff");
    let change = DocumentChange::put(id.clone(), body.clone());
    s.commit_from(std::slice::from_ref(&id), move |_| Ok(vec![change.clone()])).await.unwrap();
    let page =
        s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
    assert!(page.metadata[0].diagnostic.is_some(), "{:?}", page.metadata[0]);
    assert_eq!(s.read_body(&id).await, Some(body));
}

pub async fn every_document_kind_is_stored(s: &Storage) {
    let ids = one_of_each_kind();
    assert_eq!(ids.each_ref().map(|id| id.kind), DocumentKind::ALL);
    for id in &ids {
        s.put(id, "docsets: {}\n").await;
    }
    for id in &ids {
        assert_eq!(s.read_body(id).await.as_deref(), Some(&b"docsets: {}\n"[..]), "{id}");
        let page = s.store.find(&s.project, &DocumentFilter::of_kind(id.kind)).await.unwrap();
        let found: Vec<_> = page.metadata.iter().map(|meta| &meta.id).collect();
        assert_eq!(found, [id]);
    }
    for id in &ids {
        s.delete(id).await;
        assert_eq!(s.read_body(id).await, None, "{id}");
    }
}

pub async fn entities_may_be_nested(s: &Storage) {
    let names = ["ideas/old/specs/cli", "ideas/old", "readme", "decisions/dec-1d2c8f", "ideas/ä"];
    for name in names {
        s.put(&DocumentId::entity(name), "# Title\n").await;
    }
    let page =
        s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Entity)).await.unwrap();
    let found: Vec<_> = page.metadata.iter().map(|meta| meta.id.name.as_str()).collect();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(found, sorted);
    let none = DocumentId::entity("../outside");
    assert_eq!(s.read_body(&none).await, None);
}

pub async fn entity_metadata_matches_the_body(s: &Storage) {
    let id = DocumentId::entity("decisions/dec-1d2c8f");
    let text = "---\nid: dec-1d2c8f\ntitle: T\ntags: [a]\nlinks: [dec-aaaaaa]\n---\nbody\n";
    s.put(&id, text).await;
    s.put(&DocumentId::entity("decisions/broken"), "---\nid: [\n---\n").await;
    let page =
        s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Entity)).await.unwrap();
    let fault = page.metadata[0].diagnostic.as_ref().expect("broken front matter has a diagnostic");
    assert_eq!(fault.line, Some(2), "{fault:?}");
    let entity = page.metadata[1].entity.as_ref().expect("an entity");
    assert_eq!((entity.id.as_str(), entity.title.as_str()), ("dec-1d2c8f", "T"));
    assert_eq!((&entity.tags[..], entity.links.len()), (&["a".to_owned()][..], 1));
}

/// Returns the names of the documents that each word matches.
async fn lookup_names(s: &Storage, words: &[&str]) -> Vec<Vec<String>> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let found = s.store.lookup(&s.project, DocumentKind::Entity, &words).await.unwrap();
    found.iter().map(|list| list.iter().map(|meta| meta.id.name.clone()).collect()).collect()
}

const ENTITY: &str = "---\nid: dec-1d2c8f\n---\n";

pub async fn lookup_matches_reference_and_name(s: &Storage) {
    s.put(&DocumentId::entity("decisions/first"), ENTITY).await;
    s.put(&DocumentId::entity("notes"), "# No id\n").await;
    s.put(&DocumentId::section("dec-1d2c8f"), "of another kind").await;
    let found =
        lookup_names(s, &["dec-1d2c8f", "nothing", "notes", "decisions/first", "notes"]).await;
    let first = vec!["decisions/first".to_owned()];
    let notes = vec!["notes".to_owned()];
    assert_eq!(found, [first.clone(), vec![], notes.clone(), first, notes]);
    assert_eq!(lookup_names(s, &[]).await, Vec::<Vec<String>>::new());
}

pub async fn lookup_returns_all_claims_of_a_reference(s: &Storage) {
    s.put(&DocumentId::entity("decisions/b"), ENTITY).await;
    s.put(&DocumentId::entity("decisions/a"), ENTITY).await;
    // The name of this document is the reference of the others.
    s.put(&DocumentId::entity("dec-1d2c8f"), "---\nid: dec-ffffff\n---\n").await;
    let found = lookup_names(s, &["dec-1d2c8f"]).await;
    assert_eq!(found, [["dec-1d2c8f", "decisions/a", "decisions/b"]]);
}

pub async fn lookup_reflects_every_commit(s: &Storage) {
    let id = DocumentId::entity("decisions/first");
    s.put(&id, ENTITY).await;
    s.put(&id, "---\nid: dec-ffffff\n---\n").await;
    let [before, after] = ["dec-1d2c8f", "dec-ffffff"];
    assert_eq!(lookup_names(s, &[before, after]).await, [vec![], vec![id.name.clone()]]);
    s.delete(&id).await;
    assert_eq!(
        lookup_names(s, &[before, after, &id.name]).await,
        [(); 3].map(|()| Vec::<String>::new())
    );
    s.put(&id, ENTITY).await;
    assert_eq!(lookup_names(s, &[before]).await, [[id.name]]);
}

/// Names as macOS writes them, and as users type them.
pub async fn composed_and_decomposed_names_are_one(s: &Storage) {
    for (number, (decomposed, composed)) in [
        ("re\u{301}sume\u{301}", "r\u{e9}sum\u{e9}"),
        ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "\u{d55c}\u{ae00}"),
        ("Vie\u{323}\u{302}t", "Vi\u{1ec7}t"),
        ("\u{212b}ngstro\u{308}m", "\u{c5}ngstr\u{f6}m"),
    ]
    .into_iter()
    .enumerate()
    {
        let (id, source) =
            (DocumentId::entity(decomposed), DocumentId::entity(format!("s{number}")));
        s.put(&id, format!("---\ntags: [{decomposed}]\n---\n")).await;
        s.put(&source, format!("---\naffects: [{decomposed}]\ntags: [{composed}]\n---\n")).await;
        assert_eq!(lookup_names(s, &[composed]).await, [[decomposed]]);
        let targets = vec![composed.to_owned()];
        let query = BacklinkQuery { kinds: vec![DocumentKind::Entity], targets };
        let found = s.store.backlinks(&s.project, &query).await.unwrap();
        assert_eq!(found[0][0].id, source);
        let tags = RecordQuery::of_entities(None, 0).count_by(RecordCounts::Tag);
        let tags = s.store.list(&s.project, &tags).await.unwrap().by_text;
        assert_eq!((tags.get(composed), tags.get(decomposed)), (Some(&2), None));
        for spelling in [composed.to_uppercase(), decomposed.to_lowercase()] {
            let spelled = RecordSelection::Spelled(spelling.clone());
            let query = RecordQuery::select(DocumentKind::Entity, spelled, 10);
            let same = s.store.list(&s.project, &query).await.unwrap().metadata;
            assert_eq!(same.len(), 1, "{spelling}");
        }
    }
    // Compatible letters are other names.
    s.put(&DocumentId::entity("\u{fb01}le"), "").await;
    assert_eq!(lookup_names(s, &["file"]).await, [Vec::<String>::new()]);
}
