//! Writes: `commit` as the transaction and `changes` as its history.

use futures_util::future::join_all;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::documents::{DocumentChange, StoreError};

use crate::Storage;

pub async fn decision_reads_the_newest_state(s: &Storage) {
    let id = DocumentId::section("a");
    s.put(&id, "one").await;
    s.put(&DocumentId::section("b"), "# B\n").await;
    let ids = [id.clone(), DocumentId::section("none")];
    let seen = s.commit_from(&ids, |snapshot| {
        let documents = &snapshot.documents;
        assert_eq!(documents[0].as_ref().map(|d| &d.body[..]), Some(&b"one"[..]));
        assert_eq!(documents[1], None);
        let titles = [("a".to_owned(), None), ("b".to_owned(), Some("B".to_owned()))];
        assert_eq!(snapshot.titles, titles.into());
        Ok(vec![])
    });
    assert!(seen.await.is_ok());
}

pub async fn rejected_decision_changes_nothing(s: &Storage) {
    let id = DocumentId::section("a");
    let before = s.put(&id, "one").await;
    let decide = |_: &_| Err(Error::new(ErrorKind::Conflict, "changed since").reference("a"));
    let refused = s.commit_from(std::slice::from_ref(&id), decide).await;
    let Err(StoreError::Decided(error)) = refused else { panic!("{refused:?}") };
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Conflict, "changed since"));
    assert_eq!(s.read_body(&id).await.as_deref(), Some(&b"one"[..]));
    let after = s.commit_from(&[], |_| Ok(vec![])).await.unwrap();
    assert_eq!(after.revision, before.revision);
}

pub async fn commit_applies_all_changes(s: &Storage) {
    let (old, new, list) =
        (DocumentId::section("old"), DocumentId::section("new"), DocumentId::instructions());
    s.put(&old, "old").await;
    let changes = vec![
        DocumentChange::put(new.clone(), "new"),
        DocumentChange::Delete { id: old.clone() },
        DocumentChange::put(list.clone(), "list"),
    ];
    let ids = [old.clone(), new.clone(), list.clone()];
    let done = s.commit_from(&ids, move |_| Ok(changes.clone())).await.unwrap();
    let [new_version, list_version] = [b"new".as_slice(), b"list"].map(Version::of_bytes);
    assert_eq!(done.versions, [Some(new_version), None, Some(list_version)], "in their order");
    assert_eq!(s.read_body(&old).await, None);
    assert_eq!(s.read_body(&new).await.as_deref(), Some(&b"new"[..]));
    assert_eq!(s.read_body(&list).await.as_deref(), Some(&b"list"[..]));
}

pub async fn concurrent_commits_lose_no_update(s: &Storage) {
    let id = DocumentId::section("counter");
    let add = |id: DocumentId| async move {
        let ids = [id.clone()];
        let append = s.commit_from(&ids, move |snapshot| {
            let before = snapshot.documents[0].as_ref().map_or(&b""[..], |d| &d.body);
            Ok(vec![DocumentChange::put(id.clone(), [before, b"x\n"].concat())])
        });
        append.await
    };
    for result in join_all((0..20).map(|_| add(id.clone()))).await {
        result.expect("each commit takes effect");
    }
    let body = s.read_body(&id).await.unwrap();
    assert_eq!(body.len(), 40, "20 additions, none lost");
}

pub async fn change_of_an_unread_document_is_rejected(s: &Storage) {
    let (read, unread) = (DocumentId::section("read"), DocumentId::section("unread"));
    let changes =
        vec![DocumentChange::put(read.clone(), "x"), DocumentChange::put(unread.clone(), "x")];
    let refused = s.commit_from(std::slice::from_ref(&read), move |_| Ok(changes.clone())).await;
    assert!(matches!(refused, Err(StoreError::Internal(_))), "{refused:?}");
    assert_eq!(s.read_body(&read).await, None, "the whole commit is rejected");
    assert_eq!(s.read_body(&unread).await, None);
}

pub async fn empty_commit_keeps_the_revision(s: &Storage) {
    let put = s.put(&DocumentId::section("a"), "one").await;
    let none = s.commit_from(&[], |_| Ok(vec![])).await.unwrap();
    assert_eq!((none.revision, none.versions), (put.revision, vec![]));
}

pub async fn commits_survive_restart(s: &Storage) {
    let (kept, gone) = (DocumentId::section("kept"), DocumentId::section("gone"));
    s.put(&gone, "x").await;
    s.put(&kept, "y\r\n").await;
    s.delete(&gone).await;
    let Some(reopened) = s.reopen_store().await else { return };
    let found = reopened.versions(&s.project, &[kept, gone]).await.unwrap();
    assert_eq!(found, [Some(Version::of_bytes(b"y\r\n")), None]);
}
