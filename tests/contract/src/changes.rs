//! History: what changed since a revision.

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{Changes, Revision};

use crate::Storage;

pub async fn changes_tell_what_changed_since(s: &Storage) {
    let (a, b, c) = (DocumentId::section("a"), DocumentId::section("b"), DocumentId::section("c"));
    // History may begin with the first question.
    s.store.changes(&s.project, Revision::default()).await.unwrap();
    s.put(&a, "one").await;
    s.put(&c, "gone soon").await;
    let since = s.put(&b, "one").await.revision;
    s.put(&b, "two").await;
    s.put(&b, "three").await;
    let now = s.delete(&c).await.revision;
    let Changes::Since { revision, mut ids } = s.store.changes(&s.project, since).await.unwrap()
    else {
        panic!("the store still knows {since:?}")
    };
    ids.sort();
    assert_eq!((revision, ids), (now, vec![b, c]));
    let later = s.store.changes(&s.project, now).await.unwrap();
    assert_eq!(later, Changes::Since { revision: now, ids: vec![] });
}

pub async fn an_unknown_revision_is_a_reset(s: &Storage) {
    let now = s.put(&DocumentId::section("a"), "one").await.revision;
    let changes = s.store.changes(&s.project, Revision(now.0 + 1000)).await.unwrap();
    assert!(matches!(changes, Changes::Reset { .. }), "{changes:?}");
}
