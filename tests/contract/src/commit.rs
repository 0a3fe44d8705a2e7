//! Writing: `commit` is the transaction, and `changes` is its history.

use futures_util::future::join_all;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::documents::{ChangeSet, DocumentChange, Refresh, Revision, StoreError};

use crate::Storage;

pub async fn the_decision_sees_the_newest_state(s: &Storage) {
    let id = DocumentId::section("a");
    s.put(&id, "one").await;
    s.put(&DocumentId::section("b"), "# B\n").await;
    let ids = [id.clone(), DocumentId::section("none")];
    let seen = s.decide(&ids, |snapshot| {
        let documents = &snapshot.documents;
        assert_eq!(documents[0].as_ref().map(|d| &d.body[..]), Some(&b"one"[..]));
        assert_eq!(documents[1], None);
        let heads: Vec<_> = snapshot.metadata.iter().map(|h| h.id.name.as_str()).collect();
        assert_eq!(heads, ["a", "b"]);
        Ok(vec![])
    });
    assert!(seen.await.is_ok());
}

pub async fn a_refused_decision_changes_nothing(s: &Storage) {
    let id = DocumentId::section("a");
    let before = s.put(&id, "one").await;
    let decide = |_: &_| Err(Error::new(ErrorKind::Conflict, "changed since").reference("a"));
    let refused = s.decide(std::slice::from_ref(&id), decide).await;
    let Err(StoreError::Decided(error)) = refused else { panic!("{refused:?}") };
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Conflict, "changed since"));
    assert_eq!(s.body(&id).await.as_deref(), Some(&b"one"[..]));
    let after = s.decide(&[], |_| Ok(vec![])).await.unwrap();
    assert_eq!(after.revision, before.revision);
}

pub async fn all_changes_of_a_commit_take_effect(s: &Storage) {
    let (old, new, list) =
        (DocumentId::section("old"), DocumentId::section("new"), DocumentId::instructions());
    s.put(&old, "old").await;
    let changes = vec![
        DocumentChange::put(new.clone(), "new"),
        DocumentChange::Delete { id: old.clone() },
        DocumentChange::put(list.clone(), "list"),
    ];
    let ids = [old.clone(), new.clone(), list.clone()];
    let done = s.decide(&ids, move |_| Ok(changes.clone())).await.unwrap();
    let [new_version, list_version] = [b"new".as_slice(), b"list"].map(Version::of);
    assert_eq!(done.versions, [Some(new_version), None, Some(list_version)], "in their order");
    assert_eq!(s.body(&old).await, None);
    assert_eq!(s.body(&new).await.as_deref(), Some(&b"new"[..]));
    assert_eq!(s.body(&list).await.as_deref(), Some(&b"list"[..]));
}

pub async fn concurrent_commits_all_take_effect(s: &Storage) {
    let id = DocumentId::section("counter");
    let add = |id: DocumentId| async move {
        let ids = [id.clone()];
        let append = s.decide(&ids, move |snapshot| {
            let before = snapshot.documents[0].as_ref().map_or(&b""[..], |d| &d.body);
            Ok(vec![DocumentChange::put(id.clone(), [before, b"x\n"].concat())])
        });
        append.await
    };
    for result in join_all((0..20).map(|_| add(id.clone()))).await {
        result.expect("each commit takes effect");
    }
    let body = s.body(&id).await.unwrap();
    assert_eq!(body.len(), 40, "20 additions, none lost");
}

pub async fn a_change_of_what_was_not_read_is_refused(s: &Storage) {
    let (read, unread) = (DocumentId::section("read"), DocumentId::section("unread"));
    let changes =
        vec![DocumentChange::put(read.clone(), "x"), DocumentChange::put(unread.clone(), "x")];
    let refused = s.decide(std::slice::from_ref(&read), move |_| Ok(changes.clone())).await;
    assert!(matches!(refused, Err(StoreError::Internal(_))), "{refused:?}");
    assert_eq!(s.body(&read).await, None, "refused whole");
    assert_eq!(s.body(&unread).await, None);
}

pub async fn a_commit_without_changes_keeps_the_revision(s: &Storage) {
    let put = s.put(&DocumentId::section("a"), "one").await;
    let none = s.decide(&[], |_| Ok(vec![])).await.unwrap();
    assert_eq!((none.revision, none.versions), (put.revision, vec![]));
}

pub async fn what_was_committed_outlives_a_restart(s: &Storage) {
    let (kept, gone) = (DocumentId::section("kept"), DocumentId::section("gone"));
    s.put(&gone, "x").await;
    s.put(&kept, "y\r\n").await;
    s.delete(&gone).await;
    let Some(again) = s.reopened().await else { return };
    let found = again.versions(&s.project, &[kept, gone]).await.unwrap();
    assert_eq!(found, [Some(Version::of(b"y\r\n")), None]);
}

async fn changes(s: &Storage, kind: DocumentKind, since: Revision) -> ChangeSet {
    let changed = s.store.changes(&s.project, kind, since, Refresh::Incremental).await.unwrap();
    let everything = s.store.changes(&s.project, kind, since, Refresh::Full).await.unwrap();
    assert_eq!(changed, everything, "a full refresh finds the same");
    changed
}

pub async fn changes_tell_what_changed_since(s: &Storage) {
    for (kind, id) in [
        (DocumentKind::Section, DocumentId::section as fn(_) -> _),
        (DocumentKind::Entity, DocumentId::entity),
    ] {
        let (a, b, c) = (id("a"), id("b"), id("c"));
        // History may begin with the first question.
        changes(s, kind, Revision::default()).await;
        s.put(&a, "one").await;
        s.put(&c, "gone soon").await;
        let since = s.put(&b, "one").await.revision;
        s.put(&b, "two").await;
        s.put(&b, "three").await;
        let now = s.delete(&c).await.revision;
        let ChangeSet::Since { revision, mut ids } = changes(s, kind, since).await else {
            panic!("the store still knows {since:?}")
        };
        ids.sort();
        assert_eq!((revision, ids), (now, vec![b, c]));
        let later = changes(s, kind, now).await;
        assert_eq!(later, ChangeSet::Since { revision: now, ids: vec![] });
    }
}

pub async fn changes_are_of_one_kind(s: &Storage) {
    let since = match changes(s, DocumentKind::Entity, Revision::default()).await {
        ChangeSet::Reset { revision } | ChangeSet::Since { revision, .. } => revision,
    };
    s.put(&DocumentId::section("a"), "one").await;
    s.put(&DocumentId::entity("decisions/dec-1d2c8f"), "one").await;
    let ChangeSet::Since { ids, .. } = changes(s, DocumentKind::Entity, since).await else {
        panic!("the store still knows {since:?}")
    };
    assert_eq!(ids, [DocumentId::entity("decisions/dec-1d2c8f")]);
}

pub async fn an_unknown_revision_is_a_reset(s: &Storage) {
    let now = s.put(&DocumentId::section("a"), "one").await.revision;
    let changes = changes(s, DocumentKind::Section, Revision(now.0 + 1000)).await;
    assert!(matches!(changes, ChangeSet::Reset { .. }), "{changes:?}");
}
