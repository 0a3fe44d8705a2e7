//! The history of changes: its limits, its query plan, and its writers.

use reqlore_contract::{Storage, run};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{DocumentChange, DocumentFilter, Refresh, Revision};

use super::loss::copy_files;
use super::{database_path, open_file, storage};

/// Commits a hundred changes at a time. Returns the last revision.
async fn commit_in_parts(
    s: &Storage,
    ids: &[DocumentId],
    change: fn(&DocumentId) -> DocumentChange,
) -> Revision {
    let mut last = Revision(0);
    for part in ids.chunks(100) {
        let changes: Vec<DocumentChange> = part.iter().map(change).collect();
        last = s.commit_from(part, move |_| Ok(changes.clone())).await.unwrap().revision;
    }
    last
}

/// Reads all pages of changes. Returns their documents and the last position; `None` if the
/// changes are unknown.
async fn changes(
    s: &Storage,
    mut since: Option<ChangePosition>,
) -> Option<(Vec<DocumentId>, ChangePosition)> {
    let mut all = Vec::new();
    loop {
        let page = s.store.changes_since(&s.project, since, 150, Refresh::Incremental).await;
        match page.unwrap() {
            ChangePage::Reset { .. } => return None,
            ChangePage::Since { ids, position, has_more } => {
                all.extend(ids);
                since = Some(position);
                if !has_more {
                    return Some((all, position));
                }
            }
        }
    }
}

async fn present_position(s: &Storage) -> ChangePosition {
    let page = s.store.changes_since(&s.project, None, 1, Refresh::Incremental).await;
    page.unwrap().position()
}

#[test]
fn deletions_are_pruned_at_their_limit() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        let names: Vec<String> = (0..1_100).map(|at| format!("n{at:05}")).collect();
        let ids: Vec<DocumentId> = names.iter().map(DocumentId::entity).collect();
        let start = present_position(&s).await;
        commit_in_parts(&s, &ids, |id| DocumentChange::put(id.clone(), "x")).await;
        let (listed, filled) = changes(&s, Some(start)).await.unwrap();
        assert_eq!(listed, ids, "any number of changes is listed");
        commit_in_parts(&s, &ids, |id| DocumentChange::Delete { id: id.clone() }).await;
        let rows = super::connect(&file);
        let stored: usize =
            rows.query_one("SELECT count(*) FROM removed", [], |row| row.get(0)).unwrap();
        assert!(stored <= 1_000, "{stored}");
        assert_eq!(changes(&s, Some(filled)).await, None);
        let now = present_position(&s).await;
        assert_eq!(changes(&s, Some(now)).await, Some((Vec::new(), now)));
        let before = ChangePosition { revision: Revision(now.revision.0 - 1), ..now };
        assert_eq!(changes(&s, Some(before)).await.unwrap().0.len(), 100);
        let page =
            s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Entity)).await.unwrap();
        assert_eq!(page.metadata.len(), 0);
    });
    assert!(open_file(&file).is_ok());
}

#[test]
fn change_query_reads_both_indexes_in_order() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        s.put(&DocumentId::section("a"), "x").await;
        let plan: Vec<String> = super::connect(&file)
            .prepare(&format!("EXPLAIN QUERY PLAN {}", *crate::changes::SELECT_CHANGES))
            .unwrap()
            .query_map((1, 0), |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let plan = plan.join("\n");
        assert!(plan.contains("MERGE (UNION ALL)"), "{plan}");
        for index in ["documents_by_revision", "removed_by_revision"] {
            assert!(plan.contains(&format!("INDEX {index} (project=? AND revision>?)")), "{plan}");
        }
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    });
}

#[test]
fn copies_continued_by_other_writers_differ() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        s.put(&DocumentId::section("a"), "x").await;
        let copied = present_position(&s).await;
        drop(s);
        let copy = file.with_file_name("copy.db");
        copy_files(&file, &copy, &["", "-wal", "-commits"]);
        let (mut later, mut positions) = (Vec::new(), Vec::new());
        for (file, names) in [(&file, ["b", "c"]), (&copy, ["d", "e"])] {
            let s = storage(file);
            for name in names {
                s.put(&DocumentId::section(name), "x").await;
            }
            positions.push(present_position(&s).await);
            later.push(s);
        }
        for (s, names) in later.iter().zip([["b", "c"], ["d", "e"]]) {
            let known = changes(s, Some(copied)).await.unwrap().0;
            assert_eq!(known, names.map(DocumentId::section), "the common past is known");
        }
        assert_eq!(positions[0].revision, positions[1].revision);
        assert_eq!(changes(&later[0], Some(positions[1])).await, None);
        assert_eq!(changes(&later[1], Some(positions[0])).await, None);
    });
}

#[test]
fn alternating_writers_keep_few_rows() {
    let (_folder, file) = database_path();
    run(async {
        let writers = [storage(&file), storage(&file)];
        let mut positions = Vec::new();
        for round in 0..60 {
            writers[round % 2].put(&DocumentId::section("a"), "x").await;
            positions.push(present_position(&writers[0]).await);
        }
        let rows = super::connect(&file);
        let stored: usize =
            rows.query_one("SELECT count(*) FROM writers", [], |row| row.get(0)).unwrap();
        assert!((20..=22).contains(&stored), "{stored}");
        let known = |at: usize| changes(&writers[1], Some(positions[at]));
        assert_eq!(known(0).await, None, "its writer is forgotten");
        assert_eq!(known(59).await.unwrap().0.len(), 0);
        assert_eq!(known(45).await.unwrap().0.len(), 1);
    });
    assert!(open_file(&file).is_ok());
}
