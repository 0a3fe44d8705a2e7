//! Groups of jobs of which some fail, and rows that the writer removes.

use std::sync::Arc;

use futures_util::future::{join, join_all, join3};
use reqlore_contract::audit::{audit_event, verified_rows};
use reqlore_contract::{Storage, run, test_context};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{CommitResult, DocumentChange, Refresh, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use reqlore_row_store::RowStore;
use reqlore_row_store::database::Database;
use reqlore_row_store::row::{RowChange, TableRow, Value};
use reqlore_row_store::tables::{DOCUMENTS, PROJECTS, WRITERS};
use reqlore_storage_memory::database::MemoryDatabase;

/// The writers of more revisions are removed with each thousandth one.
const LOGGED: i64 = 1_000_000;

fn open(database: &Arc<MemoryDatabase>) -> Storage {
    let database = Arc::clone(database) as Arc<dyn Database>;
    Storage::in_memory(run(RowStore::start(database)).unwrap())
}

/// Runs jobs in one group: the writer waits for another transaction until all are queued.
async fn as_group<T>(database: &MemoryDatabase, jobs: impl Future<Output = T>) -> T {
    let mut session = database.open_session();
    session.begin(&[]).unwrap();
    join(jobs, async move { session.roll_back() }).await.0
}

/// Creates a document. A bad commit fails at its second one.
async fn commit(s: &Storage, name: &str, is_bad: bool) -> StoreResult<CommitResult> {
    let mut ids = vec![DocumentId::section(name)];
    if is_bad {
        ids.push(DocumentId::section("x".repeat(1_000)));
    }
    let changes: Vec<_> = ids.iter().map(|id| DocumentChange::put(id.clone(), "x")).collect();
    s.commit_from(&ids, move |_| Ok(changes.clone())).await
}

async fn changes(s: &Storage, since: Option<ChangePosition>) -> ChangePage {
    s.store.changes_since(&s.project, since, 100, Refresh::Full).await.unwrap()
}

/// A project before the revision with which writers are removed.
fn after_many_revisions() -> (Arc<MemoryDatabase>, Storage) {
    let database = MemoryDatabase::new(1, None);
    let s = open(&database);
    let project = Value::from(s.project.as_str());
    let insert = |values: &[Value<'_>]| RowChange::Insert(TableRow::of(values));
    let last = LOGGED + 999;
    let writers = [1, 400, 800, last].map(|first| insert(&[project, first.into(), first.into()]));
    let row = insert(&[project, last.into(), 0.into(), last.into()]);
    let mut session = database.open_session();
    session.begin(&[]).unwrap();
    session.write(vec![(&WRITERS, writers.into()), (&PROJECTS, vec![row])]).unwrap();
    session.commit();
    (database, s)
}

#[test]
fn failed_jobs_of_a_group_leave_the_others() {
    let database = MemoryDatabase::new(1, None);
    let s = open(&database);
    let all = [("a", true), ("b", false), ("c", true), ("d", false), ("e", true)];
    let jobs = join_all(all.map(|(name, is_bad)| commit(&s, name, is_bad)));
    let outcomes = run(as_group(&database, jobs));
    for (outcome, (name, is_bad)) in outcomes.iter().zip(all) {
        assert_eq!(outcome.is_err(), is_bad, "{name}");
        let body = run(s.read_body(&DocumentId::section(name)));
        assert_eq!(body.is_none(), is_bad, "{name}");
    }
    assert_eq!(run(changes(&s, None)).position().revision, Revision(2));
}

/// The rows of such a job cannot be undone alone, so each job of its group runs again.
#[test]
fn job_that_fails_after_its_writes_changes_nothing() {
    let (database, s) = after_many_revisions();
    let append = |action| s.store.append_events(vec![audit_event(action, 1)]);
    // To remove writers, it reads after its first write.
    let jobs = join3(append("first"), commit(&s, "a", true), append("last"));
    let (first, bad, last) = run(as_group(&database, jobs));
    assert!(first.is_ok() && bad.is_err() && last.is_ok());
    let rows = run(verified_rows(&*s.store));
    let actions: Vec<_> = rows.iter().map(|row| row.parse_event().unwrap().action).collect();
    assert_eq!(actions, ["first", "last"]);
    assert_eq!(run(s.read_body(&DocumentId::section("a"))), None);
    assert_eq!(database.rows(&WRITERS).len(), 4);
}

#[test]
fn old_writers_are_removed_and_their_positions_unknown() {
    let (database, s) = after_many_revisions();
    run(s.put(&DocumentId::section("a"), "one"));
    let rows = database.rows(&WRITERS);
    let firsts: Vec<Value<'_>> = rows.keys().map(|key| key.value(1)).collect();
    assert_eq!(firsts, [800, LOGGED + 999, LOGGED + 1_000].map(Value::Integer));
    let ChangePosition { store_id, .. } = run(changes(&s, None)).position();
    for (revision, writer_id, is_known) in [(799, 400, false), (800, 800, true)] {
        let position = ChangePosition { store_id, writer_id, revision: Revision(revision) };
        let page = run(changes(&s, Some(position)));
        assert_eq!(matches!(page, ChangePage::Since { .. }), is_known, "{page:?}");
    }
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
