//! Cases about `changes_since`.

use futures_util::future::{join, join_all};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{DocumentChange, Refresh};

use crate::Storage;

async fn page(s: &Storage, since: Option<ChangePosition>, limit: usize) -> ChangePage {
    let page = s.store.changes_since(&s.project, since, limit, Refresh::Incremental).await.unwrap();
    let full = s.store.changes_since(&s.project, since, limit, Refresh::Full).await.unwrap();
    assert_eq!(page, full, "a full refresh finds the same");
    page
}

/// The present position, from which on every storage knows the changes.
async fn start(s: &Storage) -> ChangePosition {
    page(s, None, 1).await.position()
}

/// Reads all pages since a position. Each change is one entry, also one that is repeated.
async fn read_pages(
    s: &Storage,
    mut since: ChangePosition,
    limit: usize,
) -> (Vec<Vec<DocumentId>>, ChangePosition) {
    let mut pages = Vec::new();
    loop {
        let ChangePage::Since { ids, position, has_more } = page(s, Some(since), limit).await
        else {
            panic!("the history lacks {since:?}")
        };
        pages.push(ids);
        since = position;
        if !has_more {
            return (pages, since);
        }
    }
}

pub async fn changes_have_the_order_of_commits(s: &Storage) {
    let [a, b] = ["a", "b"].map(DocumentId::entity);
    let (c, gone) = (DocumentId::section("c"), DocumentId::docsets());
    s.put(&a, "before").await;
    let since = start(s).await;
    for id in [&c, &a, &gone, &b, &a] {
        s.put(id, "id: x\n").await;
        s.put(id, "id: y\n").await;
    }
    let now = s.delete(&gone).await.revision;
    let (pages, position) = read_pages(s, since, 10).await;
    assert_eq!(pages, [[c, b, a, gone]]);
    assert_eq!(position.revision, now);
    assert_eq!(read_pages(s, position, 10).await, (vec![vec![]], position));
}

pub async fn change_pages_end_with_a_revision(s: &Storage) {
    let ids: Vec<DocumentId> = ["a", "b", "c", "d", "e"].map(DocumentId::section).into();
    let since = start(s).await;
    s.put(&ids[0], "x").await;
    let puts: Vec<DocumentChange> =
        ids[1..4].iter().map(|id| DocumentChange::put(id.clone(), "x")).collect();
    s.commit_from(&ids[1..4], move |_| Ok(puts.clone())).await.unwrap();
    s.put(&ids[4], "x").await;
    let (pages, position) = read_pages(s, since, 2).await;
    // The second revision has more documents than a page.
    assert_eq!(pages.concat(), ids);
    assert!(pages.iter().any(|page| page.ends_with(&ids[1..4])), "{pages:?}");
    assert!(pages.len() > 1, "{pages:?}");
    assert_eq!(read_pages(s, since, 5).await, (vec![ids], position));
    // Documents of another project are no changes of this one.
    let other = s.store.changes_since(&s.other, None, 1, Refresh::Incremental).await.unwrap();
    assert_ne!(other.position().revision, position.revision);
}

pub async fn concurrent_commits_skip_no_change(s: &Storage) {
    let ids: Vec<DocumentId> =
        (0..40).map(|number| DocumentId::section(number.to_string())).collect();
    let mut since = start(s).await;
    let writers = join_all(ids.iter().map(|id| s.put(id, "x")));
    let mut found = Vec::new();
    let mut reader = async |rounds| {
        for _ in 0..rounds {
            let look = Refresh::Incremental;
            let page = s.store.changes_since(&s.project, Some(since), 3, look).await.unwrap();
            since = page.position();
            let ChangePage::Since { ids, .. } = page else { panic!("the history lacks {since:?}") };
            found.extend(ids);
        }
    };
    join(writers, reader(10)).await;
    // More pages than there are documents.
    reader(ids.len()).await;
    found.sort();
    found.dedup();
    let mut expected = ids;
    expected.sort();
    assert_eq!(found, expected);
}

pub async fn changes_without_a_position_are_a_reset(s: &Storage) {
    s.put(&DocumentId::section("a"), "one").await;
    assert!(matches!(page(s, None, 1).await, ChangePage::Reset { .. }));
}

/// Asserts that nothing is known about this position.
async fn assert_reset(s: &Storage, position: ChangePosition) {
    let changes = page(s, Some(position), 10).await;
    assert_eq!(changes, ChangePage::Reset { position: start(s).await });
}

pub async fn future_revision_is_a_reset(s: &Storage) {
    s.put(&DocumentId::section("a"), "one").await;
    let now = start(s).await;
    assert_reset(s, ChangePosition { revision: Revision(now.revision.0 + 1), ..now }).await;
    assert_reset(s, ChangePosition { revision: Revision(u64::MAX), ..now }).await;
}

pub async fn position_of_another_store_is_a_reset(s: &Storage) {
    s.put(&DocumentId::section("a"), "one").await;
    let now = start(s).await;
    assert_reset(s, ChangePosition { store_id: now.store_id ^ 1, ..now }).await;
    assert_reset(s, ChangePosition::default()).await;
}

pub async fn position_of_another_writer_is_a_reset(s: &Storage) {
    s.put(&DocumentId::section("a"), "one").await;
    let before = start(s).await;
    assert_reset(s, ChangePosition { writer_id: before.writer_id ^ 1, ..before }).await;
    let Some(reopened) = s.reopen_store().await else { return };
    let s = &Storage {
        store: reopened,
        reopen: None,
        project: s.project.clone(),
        other: s.other.clone(),
        guard: Box::new(()),
    };
    // A storage may start its history with the first call.
    let now = start(s).await;
    let id = DocumentId::section("b");
    s.put(&id, "one").await;
    assert_eq!(read_pages(s, now, 10).await.0, [[id.clone()]]);
    let changes = page(s, Some(before), 10).await;
    if let ChangePage::Since { ids, position, .. } = &changes {
        assert_eq!(*ids, [id]);
        assert_ne!(position.writer_id, before.writer_id, "each process is another writer");
        // As if an older copy had been continued.
        let (writer_id, revision) = (before.writer_id, position.revision);
        assert_reset(s, ChangePosition { writer_id, revision, ..before }).await;
    }
}
