//! Copies of a database that other writers continue.

use reqlore_contract::{Storage, run};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::Refresh;

use super::loss::copy_files;
use super::{database_path, storage};

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
