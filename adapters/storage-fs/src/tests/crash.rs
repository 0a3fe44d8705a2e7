//! Dying, failing and being overtaken at every step of a commit (catalogue 115 to 118, 126).

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use reqlore_contract::act;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;

use super::config;
use crate::failpoint::Step;
use crate::failpoint::under_test::{Act, EXCHANGES, plan};
use crate::lock::Turn;
use crate::{FsStore, commit};

const STEPS: [Step; 10] = [
    Step::Locked,
    Step::Read,
    Step::Decided,
    Step::TempCreated,
    Step::TempWritten,
    Step::TempSynced,
    Step::Exchanged,
    Step::Checked,
    Step::FolderSynced,
    Step::OldRemoved,
];
const DIRECTORY: &str = "docs/development/requirements";

/// What a commit does to `a.md`; each also lists in AGENTS.md what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Create,
    Replace,
    Delete,
}

const OPERATIONS: [Operation; 3] = [Operation::Create, Operation::Replace, Operation::Delete];

impl Operation {
    /// The section before and after.
    fn states(self) -> (Option<&'static str>, Option<&'static str>) {
        match self {
            Self::Create => (None, Some("new")),
            Self::Replace => (Some("old"), Some("new")),
            Self::Delete => (Some("old"), None),
        }
    }

    fn prepare(self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join(DIRECTORY);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("AGENTS.md"), list(self.states().0)).unwrap();
        if let Some(old) = self.states().0 {
            fs::write(directory.join("a.md"), old).unwrap();
        }
        folder
    }

    fn changes(self) -> Vec<Change> {
        let (id, after) = (DocumentId::section("a"), self.states().1);
        let section = match after {
            Some(body) => Change::put(id, body),
            None => Change::Delete { id },
        };
        vec![section, Change::put(DocumentId::instructions(), list(after))]
    }
}

fn list(section: Option<&str>) -> String {
    format!("the list knows: {section:?}\n")
}

/// Commits in this very thread, where failpoints are planned.
fn run(
    root: &Path,
    decide: impl FnMut(Option<&Bytes>) -> Vec<Change> + Send + 'static,
) -> StoreResult<Committed> {
    let mut decide = decide;
    let commit = Commit {
        reads: ReadSet::of(vec![DocumentId::section("a"), DocumentId::instructions()]),
        decide: Box::new(move |snapshot| {
            Ok(decide(snapshot.documents[0].as_ref().map(|document| &document.body)))
        }),
        act: act(),
    };
    commit_here(root, commit)
}

/// The same of any commit.
pub(super) fn commit_here(root: &Path, commit: Commit) -> StoreResult<Committed> {
    let store = FsStore::new(&config(root));
    let project = ProjectKey::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let taken = runtime.block_on(store.shared.turns.take(&project)).unwrap();
    let root = store.shared.open(&project).unwrap();
    let Turn::Locked(lock) = taken.lock_now(&root).unwrap() else { panic!("nobody else locks") };
    commit::run(&store.shared, &project, &root, commit, &lock)
}

fn read(root: &Path, name: &str) -> Option<String> {
    fs::read_to_string(root.join(DIRECTORY).join(name)).ok()
}

fn leftovers(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(DIRECTORY)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "tmp")).collect()
}

const CHILD: &str = "REQLORE_TEST_CRASH";

/// The process that dies: does nothing unless a parent asks for it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test tells its child what to do")]
fn child_that_dies() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let [root, step, times, operation] = order.split('|').collect::<Vec<_>>()[..] else { return };
    let number = |text: &str| text.parse::<usize>().unwrap();
    let operation = OPERATIONS[number(operation)];
    plan(STEPS[number(step)], number(times), Act::Abort);
    run(Path::new(root), move |_| operation.changes()).unwrap();
    fs::write(Path::new(root).join("acknowledged"), "").unwrap();
}

// Catalogue 113, 117, 118
#[test]
fn a_process_that_dies_at_any_step_leaves_the_old_or_the_new_and_the_next_one_heals() {
    let mut died = 0;
    for (step, times, operation) in cases() {
        let folder = OPERATIONS[operation].prepare();
        let root = folder.path();
        let order = format!("{}|{step}|{times}|{operation}", root.display());
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crash::child_that_dies"])
            .env(CHILD, order)
            .output()
            .unwrap();
        let (before, after) = OPERATIONS[operation].states();
        let section = read(root, "a.md");
        let shown = format!("{:?} x{times} {:?}: {section:?}", STEPS[step], OPERATIONS[operation]);
        if child.status.success() {
            assert!(root.join("acknowledged").is_file(), "{shown}");
            assert_eq!(section.as_deref(), after, "{shown}");
        } else {
            died += 1;
            assert!(section.as_deref() == before || section.as_deref() == after, "{shown}");
        }
        let agents = read(root, "AGENTS.md");
        let known = [Some(list(before)), Some(list(after))];
        assert!(known.contains(&agents), "{shown}: {agents:?}");

        run(root, move |_| OPERATIONS[operation].changes()).unwrap();
        assert_eq!(read(root, "a.md").as_deref(), after, "{shown}");
        assert_eq!(read(root, "AGENTS.md"), Some(list(after)), "{shown}");
        assert_eq!(leftovers(root), [] as [PathBuf; 0], "{shown}");
    }
    assert!(died >= STEPS.len() * OPERATIONS.len(), "only {died} processes died");
}

/// Every step, reached the first and the second time, in every operation.
fn cases() -> impl Iterator<Item = (usize, usize, usize)> {
    let times = |step| (0..2).map(move |times| (step, times));
    (0..STEPS.len())
        .flat_map(times)
        .flat_map(|(step, times)| (0..3).map(move |op| (step, times, op)))
}

// S1: T.3.3; catalogue 126
#[test]
fn a_step_that_fails_leaves_everything_as_it_was() {
    for (step, times, operation) in cases() {
        let folder = OPERATIONS[operation].prepare();
        let root = folder.path();
        plan(STEPS[step], times, Act::Fail);
        let outcome = run(root, move |_| OPERATIONS[operation].changes());
        let (before, after) = OPERATIONS[operation].states();
        let shown = format!("{:?} x{times} {:?}: {outcome:?}", STEPS[step], OPERATIONS[operation]);
        let expected = if outcome.is_ok() { after } else { before };
        assert_eq!(read(root, "a.md").as_deref(), expected, "{shown}");
        assert_eq!(read(root, "AGENTS.md"), Some(list(expected)), "{shown}");
        assert_eq!(leftovers(root), [] as [PathBuf; 0], "{shown}");
        if let Err(error) = &outcome {
            assert!(error.to_string().contains("Nothing was written"), "{shown}");
        }
        // A sync that is left out is a step that is not reached.
        if times == 0 {
            assert_eq!(outcome.is_err(), STEPS[step] != Step::OldRemoved, "{shown}");
        }
        plan(STEPS[0], usize::MAX, Act::Fail);
    }
}

// Reliability 5.1: not every file system exchanges names
#[test]
fn without_exchange_nothing_is_lost_either() {
    EXCHANGES.set(false);
    a_step_that_fails_leaves_everything_as_it_was();
    an_editor_that_saves_in_between_is_seen_and_nothing_of_it_is_lost();
    an_editor_that_saves_behind_the_exchange_is_seen_too();
    what_cannot_be_read_is_put_back_and_left();
}

thread_local! {
    static EDITED: RefCell<PathBuf> = RefCell::default();
}

/// An editor that saves by renaming.
fn save() {
    let path = EDITED.with_borrow(PathBuf::clone);
    fs::write(path.with_extension("swp"), "edited").unwrap();
    fs::rename(path.with_extension("swp"), &path).unwrap();
}

/// An editor that truncates and writes.
fn save_in_place() {
    fs::write(EDITED.with_borrow(PathBuf::clone), "edited").unwrap();
}

// Reliability P3
#[test]
fn an_editor_that_saves_in_between_is_seen_and_nothing_of_it_is_lost() {
    for step in [Step::Read, Step::Decided, Step::TempCreated, Step::TempWritten, Step::TempSynced]
    {
        for save in [save, save_in_place] {
            for operation in [Operation::Create, Operation::Replace] {
                let folder = operation.prepare();
                EDITED.set(folder.path().join(DIRECTORY).join("a.md"));
                plan(step, 0, Act::Run(save));
                let append = |old: Option<&Bytes>| {
                    let old =
                        old.map_or(String::new(), |old| String::from_utf8(old.to_vec()).unwrap());
                    let body = format!("{old} + ours");
                    vec![Change::put(DocumentId::section("a"), body)]
                };
                run(folder.path(), append).unwrap();
                let found = read(folder.path(), "a.md");
                assert_eq!(found.as_deref(), Some("edited + ours"), "{step:?} {operation:?}");
                assert_eq!(leftovers(folder.path()), [] as [PathBuf; 0]);
            }
        }
    }
}

// Reliability P3
#[test]
fn an_editor_that_saves_behind_the_exchange_is_seen_too() {
    for step in [Step::Exchanged, Step::Checked, Step::FolderSynced] {
        let folder = Operation::Replace.prepare();
        EDITED.set(folder.path().join(DIRECTORY).join("a.md"));
        plan(step, 0, Act::Run(save));
        let append = |old: Option<&Bytes>| {
            let old = old.map_or(String::new(), |old| String::from_utf8(old.to_vec()).unwrap());
            vec![Change::put(DocumentId::section("a"), format!("{old} + ours"))]
        };
        run(folder.path(), append).unwrap();
        assert_eq!(read(folder.path(), "a.md").as_deref(), Some("edited + ours"), "{step:?}");
        assert_eq!(leftovers(folder.path()), [] as [PathBuf; 0]);
    }
}

/// An editor that saves what we could not read.
fn save_a_link() {
    let path = EDITED.with_borrow(PathBuf::clone);
    std::os::unix::fs::symlink("elsewhere", path.with_extension("swp")).unwrap();
    fs::rename(path.with_extension("swp"), &path).unwrap();
}

// Catalogue 16
#[test]
fn what_cannot_be_read_is_put_back_and_left() {
    let folder = Operation::Replace.prepare();
    let path = folder.path().join(DIRECTORY).join("a.md");
    EDITED.set(path.clone());
    plan(Step::TempSynced, 0, Act::Run(save_a_link));
    let outcome = run(folder.path(), |_| Operation::Replace.changes());
    assert!(matches!(outcome, Err(StoreError::Refused { .. })), "{outcome:?}");
    assert!(path.is_symlink());
    assert_eq!(leftovers(folder.path()), [] as [PathBuf; 0]);
}

// Reliability P3
#[test]
fn an_editor_that_never_stops_wins_and_we_say_that_nothing_was_written() {
    let folder = Operation::Replace.prepare();
    let path = folder.path().join(DIRECTORY).join("a.md");
    let mut saved = 0;
    let outcome = run(folder.path(), move |_| {
        saved += 1;
        fs::write(&path, format!("saved {saved}")).unwrap();
        Operation::Replace.changes()
    });
    assert!(matches!(outcome, Err(StoreError::Busy { .. })), "{outcome:?}");
    assert_eq!(read(folder.path(), "a.md").as_deref(), Some("saved 3"));
    assert_eq!(read(folder.path(), "AGENTS.md"), Some(list(Some("old"))));
    assert_eq!(leftovers(folder.path()), [] as [PathBuf; 0]);
}
