//! Groups, failures and panics of an engine that only logs its calls.

use std::sync::{Arc, Mutex};

use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{CommitRequest, ReadSet, Snapshot};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use super::*;

/// The calls of an engine, one word each.
type EventLog = Arc<Mutex<Vec<&'static str>>>;

struct LoggingEngine {
    log: EventLog,
    gate: Receiver<()>,
    end: fn() -> StoreResult<GroupOutcome>,
}

impl GroupEngine for LoggingEngine {
    type ReadPlan = ();

    fn begin_group(&mut self, _: &[&()]) -> StoreResult<()> {
        self.gate.recv().unwrap();
        self.log.lock().unwrap().push("begin");
        Ok(())
    }

    fn finish_group(&mut self) -> StoreResult<GroupOutcome> {
        self.log.lock().unwrap().push("end");
        (self.end)()
    }

    fn abort_group(&mut self) {
        self.log.lock().unwrap().push("abort");
    }
}

impl LoggingEngine {
    fn apply(&mut self, mut commit: CommitRequest) -> StoreResult<()> {
        catch_panic(|| commit.decide(&ProjectKey::default(), &Snapshot::default()))?;
        self.log.lock().unwrap().push("apply");
        Ok(())
    }
}

fn commit(decide: impl FnMut() + Send + 'static) -> CommitRequest {
    let mut decide = decide;
    CommitRequest {
        read_set: ReadSet::of_documents(vec![DocumentId::section("a")]),
        decide: Box::new(move |_| {
            decide();
            Ok(Vec::new())
        }),
        context: WriteContext {
            caller: Arc::new(Caller::local("tester", Access::Write)),
            tool: "group-commit",
            reason: String::new(),
            correlation_id: String::new(),
            at: Timestamp::default(),
            audited: None,
            idempotency_key: None,
        },
    }
}

fn start(
    end: fn() -> StoreResult<GroupOutcome>,
) -> (GroupWriter<LoggingEngine>, EventLog, Sender<()>) {
    let (open, gate) = channel();
    let log = EventLog::default();
    let engine = LoggingEngine { log: Arc::clone(&log), gate, end };
    (GroupWriter::start("test", engine).unwrap(), log, open)
}

/// Runs these commits concurrently. The first one is a group of its own, because the gate blocks
/// it until all others are queued.
fn run_all(
    writer: &GroupWriter<LoggingEngine>,
    open: &Sender<()>,
    commits: Vec<CommitRequest>,
) -> Vec<StoreResult<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let queued = commits.into_iter().map(|commit| writer.run(|engine| engine.apply(commit)));
        let mut queued: Vec<_> = queued.map(Box::pin).collect();
        // The first poll puts each job into the queue.
        for future in &mut queued {
            let is_pending = std::future::poll_fn(|context| {
                std::task::Poll::Ready(future.as_mut().poll(context).is_pending())
            });
            assert!(is_pending.await);
        }
        (0..2).for_each(|_| open.send(()).unwrap());
        let mut outcomes = Vec::new();
        for future in queued {
            outcomes.push(future.await);
        }
        outcomes
    })
}

#[test]
fn jobs_that_arrive_at_the_begin_share_one_sync() {
    let (writer, log, open) = start(|| Ok(GroupOutcome::Durable));
    let outcomes = run_all(&writer, &open, (0..11).map(|_| commit(|| ())).collect());
    assert!(outcomes.iter().all(Result::is_ok));
    let log = log.lock().unwrap();
    assert_eq!(log.iter().filter(|word| **word == "end").count(), 1, "{log:?}");
    assert_eq!(log.iter().filter(|word| **word == "apply").count(), 11);
}

#[test]
fn decision_panic_fails_only_its_commit() {
    let (writer, _, open) = start(|| Ok(GroupOutcome::Durable));
    let commits = vec![commit(|| ()), commit(|| panic!("on purpose")), commit(|| ())];
    let outcomes = run_all(&writer, &open, commits);
    assert!(matches!(outcomes[1], Err(StoreError::Internal(_))), "{outcomes:?}");
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
}

#[test]
fn failed_sync_fails_every_commit_of_the_group() {
    let (writer, _, open) = start(|| Err(StoreError::Busy { reason: "no sync".to_owned() }));
    let outcomes = run_all(&writer, &open, vec![commit(|| ()), commit(|| ())]);
    for outcome in outcomes {
        assert!(matches!(outcome, Err(StoreError::Busy { .. })), "{outcome:?}");
    }
}

#[test]
fn engine_panic_fails_and_aborts_its_group() {
    let (writer, log, open) = start(|| panic!("on purpose"));
    let outcomes = run_all(&writer, &open, vec![commit(|| ())]);
    assert!(matches!(outcomes[0], Err(StoreError::Internal(_))), "{outcomes:?}");
    drop(open);
    drop(writer);
    assert_eq!(log.lock().unwrap().last(), Some(&"abort"));
}

/// Ends the first groups as `ends` says, and all later ones as durable.
struct RepeatingEngine {
    ends: Vec<GroupOutcome>,
    is_full: bool,
    groups: Arc<Mutex<Vec<usize>>>,
}

impl GroupEngine for RepeatingEngine {
    type ReadPlan = u8;

    fn begin_group(&mut self, plans: &[&u8]) -> StoreResult<()> {
        self.groups.lock().unwrap().push(plans.len());
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn finish_group(&mut self) -> StoreResult<GroupOutcome> {
        Ok(self.ends.pop().unwrap_or(GroupOutcome::Durable))
    }

    fn abort_group(&mut self) {}
}

/// Runs two jobs in one group. Returns how often each ran, and the size of each group.
fn run_repeatedly(ends: Vec<GroupOutcome>, is_full: bool) -> (Vec<u32>, Vec<usize>) {
    let groups = Arc::default();
    let mut engine = RepeatingEngine { ends, is_full, groups: Arc::clone(&groups) };
    let (mut group, mut answers): (Vec<Box<dyn WriteJob<RepeatingEngine>>>, _) =
        (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (sender, answer) = oneshot::channel();
        let mut runs = 0;
        let work = move |_: &mut RepeatingEngine| {
            runs += 1;
            Ok(runs)
        };
        group.push(Box::new(QueuedJob { plan: 0, work, outcome: None, sender }));
        answers.push(answer);
    }
    run_group(&mut engine, group, None);
    let outcomes = answers.into_iter().map(|mut answer| answer.try_recv().unwrap().unwrap());
    let groups = groups.lock().unwrap().clone();
    (outcomes.collect(), groups)
}

#[test]
fn retried_group_runs_all_jobs_again() {
    assert_eq!(
        run_repeatedly(vec![GroupOutcome::Retry, GroupOutcome::Retry], false),
        (vec![3, 3], vec![2; 3])
    );
}

#[test]
fn group_with_a_failed_job_is_separated() {
    let end = GroupOutcome::RetryEachAlone(StoreError::Internal("one job".to_owned()));
    assert_eq!(run_repeatedly(vec![end], false), (vec![2, 2], vec![2, 1, 1]));
}

#[test]
fn jobs_after_a_full_group_run_in_the_next_one() {
    assert_eq!(run_repeatedly(vec![GroupOutcome::Retry], true), (vec![2, 1], vec![2, 2, 1]));
}
