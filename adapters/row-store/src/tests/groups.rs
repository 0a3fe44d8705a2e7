//! Groups of jobs of which some fail, and rows that the writer removes.

use std::sync::Arc;

use reqlore_contract::audit::{audit_event, verified_rows};
use reqlore_contract::{Storage, run, test_context};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{Refresh, StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::{GroupEngine as _, GroupOutcome};

use crate::RowStore;
use crate::database::Database;
use crate::tables::{DOCUMENTS, WRITERS};
use crate::test_support::simulated::SimulatedDatabase;
use crate::writer::{GroupWriterEngine, ReadPlan};

fn open(database: &Arc<SimulatedDatabase>) -> Storage {
    let database = Arc::clone(database) as Arc<dyn Database>;
    Storage::in_memory(run(RowStore::start(database)).unwrap())
}

fn begin_group(database: &SimulatedDatabase) -> GroupWriterEngine {
    let session = database.open_session();
    let mut engine = GroupWriterEngine::new(session, Arc::default()).unwrap();
    engine.begin_group(&[&ReadPlan::default()]).unwrap();
    engine
}

fn append(engine: &mut GroupWriterEngine, action: &str) -> StoreResult<()> {
    engine.append_events([audit_event(action, 1)])
}

fn fail(_: ()) -> StoreResult<()> {
    Err(StoreError::Internal("no".to_owned()))
}

fn actions(database: &Arc<SimulatedDatabase>) -> Vec<String> {
    let s = open(database);
    let rows = run(async { verified_rows(&*s.store).await });
    rows.iter().map(|row| row.parse_event().unwrap().action).collect()
}

#[test]
fn failed_jobs_of_a_group_leave_the_others() {
    let database = SimulatedDatabase::new(1, None);
    let mut engine = begin_group(&database);
    for (action, is_bad) in [("a", true), ("b", false), ("c", true), ("d", false), ("e", true)] {
        let job = engine.run_job(|engine| {
            append(engine, action)?;
            if is_bad { fail(()) } else { Ok(()) }
        });
        assert_eq!(job.is_err(), is_bad, "{action}");
    }
    assert!(matches!(engine.finish_group().unwrap(), GroupOutcome::Durable));
    assert_eq!(actions(&database), ["b", "d"]);
}

/// The rows of such a job cannot be undone alone.
#[test]
fn job_that_fails_after_its_writes_fails_its_group() {
    let database = SimulatedDatabase::new(1, None);
    let mut engine = begin_group(&database);
    engine.run_job(|engine| append(engine, "first")).unwrap();
    let bad = engine.run_job(|engine| {
        append(engine, "bad")?;
        engine.transaction.flush().and_then(fail)
    });
    bad.unwrap_err();
    let _ = engine.run_job(|engine| append(engine, "last"));
    assert!(matches!(engine.finish_group().unwrap(), GroupOutcome::RetryEachAlone(_)));
    assert_eq!(actions(&database), Vec::<String>::new());
    engine.begin_group(&[&ReadPlan::default()]).unwrap();
    engine.run_job(|engine| append(engine, "next")).unwrap();
    assert!(matches!(engine.finish_group().unwrap(), GroupOutcome::Durable));
    assert_eq!(actions(&database), ["next"]);
}

async fn changes(s: &Storage, since: Option<ChangePosition>) -> ChangePage {
    s.store.changes_since(&s.project, since, 100, Refresh::Full).await.unwrap()
}

#[test]
fn alternating_writers_keep_few_rows() {
    let database = SimulatedDatabase::new(1, None);
    let writers = [open(&database), open(&database)];
    run(async {
        let mut positions = Vec::new();
        for round in 0..200 {
            writers[round % 2].put(&DocumentId::section("a"), "x").await;
            positions.push(changes(&writers[0], None).await.position());
        }
        let stored = database.rows(&WRITERS).len();
        assert!((50..=61).contains(&stored), "{stored}");
        let known = |at: usize| changes(&writers[1], Some(positions[at]));
        assert!(matches!(known(100).await, ChangePage::Reset { .. }), "its writer is forgotten");
        let newest = known(199).await;
        assert!(matches!(&newest, ChangePage::Since { ids, .. } if ids.is_empty()), "{newest:?}");
        let earlier = known(180).await;
        assert!(matches!(&earlier, ChangePage::Since { ids, .. } if ids.len() == 1), "{earlier:?}");
    });
}

#[test]
fn pruned_deletion_leaves_no_row() {
    let database = SimulatedDatabase::new(1, None);
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
