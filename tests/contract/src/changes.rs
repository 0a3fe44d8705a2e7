//! History: what changed since a revision.

use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::documents::{Changes, Refresh, Revision};

use crate::Storage;

async fn changes(s: &Storage, kind: Kind, since: Revision) -> Changes {
    let changed = s.store.changes(&s.project, kind, since, Refresh::Incremental).await.unwrap();
    let everything = s.store.changes(&s.project, kind, since, Refresh::Full).await.unwrap();
    assert_eq!(changed, everything, "looking at everything finds nothing else");
    changed
}

pub async fn changes_tell_what_changed_since(s: &Storage) {
    for (kind, id) in
        [(Kind::Section, DocumentId::section as fn(_) -> _), (Kind::Entity, DocumentId::entity)]
    {
        let (a, b, c) = (id("a"), id("b"), id("c"));
        // History may begin with the first question.
        changes(s, kind, Revision::default()).await;
        s.put(&a, "one").await;
        s.put(&c, "gone soon").await;
        let since = s.put(&b, "one").await.revision;
        s.put(&b, "two").await;
        s.put(&b, "three").await;
        let now = s.delete(&c).await.revision;
        let Changes::Since { revision, mut ids } = changes(s, kind, since).await else {
            panic!("the store still knows {since:?}")
        };
        ids.sort();
        assert_eq!((revision, ids), (now, vec![b, c]));
        let later = changes(s, kind, now).await;
        assert_eq!(later, Changes::Since { revision: now, ids: vec![] });
    }
}

pub async fn changes_are_of_one_kind(s: &Storage) {
    let since = match changes(s, Kind::Entity, Revision::default()).await {
        Changes::Reset { revision } | Changes::Since { revision, .. } => revision,
    };
    s.put(&DocumentId::section("a"), "one").await;
    s.put(&DocumentId::entity("decisions/dec-1d2c8f"), "one").await;
    let Changes::Since { ids, .. } = changes(s, Kind::Entity, since).await else {
        panic!("the store still knows {since:?}")
    };
    assert_eq!(ids, [DocumentId::entity("decisions/dec-1d2c8f")]);
}

pub async fn an_unknown_revision_is_a_reset(s: &Storage) {
    let now = s.put(&DocumentId::section("a"), "one").await.revision;
    let changes = changes(s, Kind::Section, Revision(now.0 + 1000)).await;
    assert!(matches!(changes, Changes::Reset { .. }), "{changes:?}");
}
