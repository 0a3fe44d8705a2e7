//! Groups of jobs of which some fail, and rows that the writer removes.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use reqlore_contract::{Storage, run, test_context};
use reqlore_domain::document::DocumentId;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Refresh};
use reqlore_domain::timestamp::Timestamp;
use reqlore_row_store::RowStore;
use reqlore_row_store::database::Database;
use reqlore_row_store::row::Value;
use reqlore_row_store::tables::DOCUMENTS;
use reqlore_storage_memory::database::MemoryDatabase;

fn open(database: &Arc<MemoryDatabase>) -> Storage {
    let database = Arc::clone(database) as Arc<dyn Database>;
    Storage::in_memory(run(RowStore::start(database)).unwrap())
}

#[test]
fn failed_jobs_of_a_group_leave_the_others() {
    let database = MemoryDatabase::new(1, None);
    let s = open(&database);
    let mut other_writer = database.open_session();
    other_writer.begin(&[]).unwrap();
    let jobs = ["a", "b", "c", "d", "e"].map(|name| {
        let is_bad = matches!(name, "a" | "c" | "e");
        let id = DocumentId::section(name);
        let put = DocumentChange::put(id.clone(), "x");
        s.commit(ReadSet::of_documents(vec![id]), move |_| {
            if is_bad { Err(Error::new(ErrorKind::Refused, "no")) } else { Ok(vec![put.clone()]) }
        })
    });
    // All of them wait for the other writer, and so share a group.
    let end_wait = async { other_writer.roll_back() };
    let (done, ()) = run(join(join_all(jobs), end_wait));
    assert_eq!(
        done.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [false, true, false, true, false]
    );
    let stored = database.rows(&DOCUMENTS);
    let names = stored.values().map(|row| row.value(2));
    assert_eq!(names.collect::<Vec<_>>(), [Value::Text("b"), Value::Text("d")]);
}

async fn changes(s: &Storage, since: Option<ChangePosition>) -> ChangePage {
    s.store.changes_since(&s.project, since, 100, Refresh::Full).await.unwrap()
}

#[test]
fn pruned_deletion_leaves_no_row() {
    let database = MemoryDatabase::new(1, None);
    let s = open(&database);
    run(async {
        let id = DocumentId::section("a");
        s.put(&id, "x").await;
        let before = changes(&s, None).await.position();
        s.delete(&id).await;
        let deleted = changes(&s, Some(before)).await;
        assert!(matches!(&deleted, ChangePage::Since { ids, .. } if *ids == [id]), "{deleted:?}");
        assert_eq!(database.rows(&DOCUMENTS).len(), 1);
        let later = Timestamp(test_context().at.0 + 1);
        while s.store.prune_history(later).await.unwrap() > 0 {}
        assert_eq!(database.rows(&DOCUMENTS).len(), 0);
        let unknown = changes(&s, Some(before)).await;
        assert!(matches!(unknown, ChangePage::Reset { .. }), "{unknown:?}");
        let newest = changes(&s, Some(deleted.position())).await;
        assert!(matches!(&newest, ChangePage::Since { ids, .. } if ids.is_empty()), "{newest:?}");
    });
}
