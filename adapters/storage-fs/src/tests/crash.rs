//! Each step of each kind of commit: the process is killed, the step fails, or an editor saves.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use reqlore_contract::{run as block_on, test_context};
use reqlore_domain::audit_log::{
    AuditEvent, AuditRow, AuditTarget, ChainVerifier, UNCONFIRMED_ACTION,
};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::idempotency::IdempotencyKey;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    CommitRequest, CommitResult, DocumentChange, DocumentRepository, ReadSet, StoreError,
    StoreResult,
};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::folder::{LOCKS_ARE_FILES, try_lock_folder};
use reqlore_local_state as local;

use super::two_names::{STEPS_OF_TWO_NAMES, exchange_that_stops_between_its_steps_is_undone};
use super::{
    DIRECTORY, LOCAL, PROJECT, Project, check_refused, child_argument, commit, config, files, item,
    run_child,
};
use crate::FsStore;
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::{Act, EXCHANGES, UNSTABLE_INODES, clear_plan, plan};
use crate::layout::ProjectRoot;
use crate::lock::PROJECT_LOCK_FILE;

pub(super) const KEY: &str = "0123456789abcdef0123456789abcdef";

/// A commit of documents with their contents before and after it.
pub(super) struct Operation {
    name: &'static str,
    documents: Vec<(DocumentId, Option<&'static str>, Option<&'static str>)>,
    /// The commit has an audit row and an idempotency key.
    is_audited: bool,
}

/// The last two are audited.
pub(super) fn operation(name: &str) -> Operation {
    operations().into_iter().find(|operation| operation.name == name).unwrap()
}

pub(super) fn operations() -> Vec<Operation> {
    let section = |name, before, after| {
        let list = |section| match section {
            None => "lists none",
            Some("old") => "lists the old",
            _ => "lists the new",
        };
        let agents = (DocumentId::instructions(), Some(list(before)), Some(list(after)));
        let documents = vec![(DocumentId::section("a"), before, after), agents];
        Operation { name, documents, is_audited: false }
    };
    let epic = |name| (item(ItemKind::Epic, name), Some("old"), Some("new"));
    let [one, two] = ["REQ-001-aaaaaa", "REQ-002"].map(|name| item(ItemKind::Requirement, name));
    let deleted = [(one.clone(), Some("one"), None), (two, Some("two"), None)];
    let story = (item(ItemKind::UserStory, "US-001"), Some("old"), Some("new"));
    let tombstone =
        (DocumentId { kind: DocumentKind::Deleted, name: one.name }, None, Some("gone"));
    let several = |name, third| {
        let documents = deleted.iter().cloned().chain([third]).collect();
        Operation { name, documents, is_audited: false }
    };
    let [new_epic, new_story] =
        [(ItemKind::Epic, "EP-003-aaaaaa"), (ItemKind::UserStory, "US-002-aaaaaa")];
    let new_items = [new_epic, new_story, (ItemKind::Requirement, "REQ-003-aaaaaa")]
        .map(|(kind, name)| (item(kind, name), None, Some("new")));
    let created = Operation {
        name: "create three, replace one",
        documents: new_items.into_iter().chain([story.clone()]).collect(),
        is_audited: false,
    };
    let audited = |name, documents| Operation { name, documents, is_audited: true };
    vec![
        section("create", None, Some("new")),
        section("replace", Some("old"), Some("new")),
        section("delete", Some("old"), None),
        several("delete two, replace one", story),
        several("delete two, create one", tombstone),
        created,
        audited("one audited", vec![epic("EP-001")]),
        audited("two audited", vec![epic("EP-001"), epic("EP-002")]),
    ]
}

pub(super) fn audited() -> WriteContext {
    let clock = Arc::new(Timestamp::new(1_700_000_000, 0));
    WriteContext { audited: Some(AuditScope::begin(clock)), ..test_context() }
}

/// The commit with the idempotency key of all tests.
pub(super) fn with_key(commit: CommitRequest) -> CommitRequest {
    let once = Some(IdempotencyKey { key: KEY.to_owned(), request_hash: "r".to_owned() });
    CommitRequest { context: WriteContext { idempotency_key: once, ..audited() }, ..commit }
}

thread_local! {
    /// True for projects in a Git repository.
    static IN_GIT: Cell<bool> = const { Cell::new(false) };
}

impl Operation {
    pub(super) fn prepare(&self) -> Project {
        let project = Project::new();
        if IN_GIT.get() {
            fs::create_dir(project.path(".git")).unwrap();
        }
        for (id, before, _) in &self.documents {
            let file = project.file(id);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            if let Some(before) = before {
                fs::write(file, before).unwrap();
            }
        }
        project
    }

    /// The failpoints that the operation hits.
    fn steps(&self) -> Vec<FailPoint> {
        let mut steps = vec![FailPoint::Locked, FailPoint::Read, FailPoint::Decided];
        steps.extend([FailPoint::TempCreated, FailPoint::TempWritten, FailPoint::TempSynced]);
        if self.is_audited {
            steps.push(FailPoint::Prepared);
        }
        if self.has_journal() {
            steps.extend([
                FailPoint::JournalBegun,
                FailPoint::JournalWritten,
                FailPoint::JournalSynced,
            ]);
        }
        steps.extend([
            FailPoint::Exchanged,
            FailPoint::Checked,
            FailPoint::FolderSynced,
            FailPoint::OldRemoved,
        ]);
        if self.has_journal() {
            steps.push(FailPoint::JournalRemoved);
        }
        if self.is_audited {
            steps.push(FailPoint::Confirmed);
        }
        steps
    }

    /// Each step once for each document.
    fn cases(&self) -> Vec<(FailPoint, usize)> {
        let times = |step| (0..self.documents.len()).map(move |times| (step, times));
        self.steps().into_iter().flat_map(times).collect()
    }

    /// True for several documents, not counting AGENTS.md, which is derived.
    fn has_journal(&self) -> bool {
        self.documents.iter().filter(|(id, ..)| id.kind != DocumentKind::Instructions).count() > 1
    }

    pub(super) fn changes(&self) -> Vec<DocumentChange> {
        let change = |(id, _, after): &(DocumentId, _, Option<&'static str>)| match after {
            Some(body) => DocumentChange::put(id.clone(), *body),
            None => DocumentChange::Delete { id: id.clone() },
        };
        self.documents.iter().map(change).collect()
    }

    pub(super) fn run(&self, project: &Project) -> StoreResult<CommitResult> {
        let commit = commit(self.changes());
        commit_here(&project.root, if self.is_audited { with_key(commit) } else { commit })
    }

    pub(super) fn before(&self) -> Vec<Option<String>> {
        self.documents.iter().map(|(_, before, _)| before.map(str::to_owned)).collect()
    }

    pub(super) fn after(&self) -> Vec<Option<String>> {
        self.documents.iter().map(|(.., after)| after.map(str::to_owned)).collect()
    }

    pub(super) fn on_disk(&self, project: &Project) -> Vec<Option<String>> {
        let read = |id| fs::read_to_string(project.file(id)).ok();
        self.documents.iter().map(|(id, ..)| read(id)).collect()
    }

    /// The contents that a new process reads.
    pub(super) fn read_by_new_process(&self, project: &Project) -> Vec<Option<String>> {
        let ids: Vec<DocumentId> = self.documents.iter().map(|(id, ..)| id.clone()).collect();
        let found = block_on(project.store().get(&PROJECT(), &ids)).unwrap();
        let text = |body: Bytes| String::from_utf8(body.to_vec()).unwrap();
        found.into_iter().map(|found| found.map(|document| text(document.body))).collect()
    }

    /// Checks that the row and the key exist if the change was made, and that it can be made once.
    /// Returns the number of rows that were rolled back.
    fn check_audit(&self, project: &Project, is_made: bool, case: &str) -> usize {
        let store = project.store();
        let (kept, rolled_back) = audited_changes(&chain(&store));
        assert_eq!(kept, usize::from(is_made), "{case}");
        assert!(!is_made || rolled_back == 0, "{case}");
        assert_eq!(block_on(store.find_record(KEY)).unwrap().is_some(), is_made, "{case}: key");
        let repeated = self.run(project);
        if is_made {
            assert!(matches!(repeated, Err(StoreError::Repeated(_))), "{case}: {repeated:?}");
        } else {
            repeated.unwrap();
            assert_eq!(audited_changes(&chain(&store)), (1, rolled_back), "{case}");
        }
        rolled_back
    }
}

/// Commits in this thread, because failpoints are planned for each thread.
pub(super) fn commit_here(root: &Path, commit: CommitRequest) -> StoreResult<CommitResult> {
    commit_to(&FsStore::new(&config(root)), &ProjectKey::default(), commit)
}

pub(super) fn commit_to(
    store: &FsStore,
    project: &ProjectKey,
    commit: CommitRequest,
) -> StoreResult<CommitResult> {
    let store = &store.inner;
    let path = store.project_path(project);
    if LOCKS_ARE_FILES {
        // As a call that waits for the lock does.
        local::open_or_create(&ProjectRoot::open(path).unwrap().dir).unwrap();
    }
    let lock = store.locks.try_lock(project, path).unwrap().unwrap();
    crate::commit::run_commit(store, project, commit, &lock)
}

/// Reads all audit rows and verifies their chain.
pub(super) fn chain(store: &FsStore) -> Vec<AuditRow> {
    let rows = block_on(store.rows(1, usize::MAX)).unwrap();
    let mut verifier = ChainVerifier::default();
    verifier.verify_rows(&rows).unwrap();
    assert_eq!(verifier.finish().unwrap().1, block_on(store.newest()).unwrap());
    rows
}

/// The number of valid rows of changes, and of rows that were rolled back.
pub(super) fn audited_changes(rows: &[AuditRow]) -> (usize, usize) {
    let is_change = |event: &AuditEvent| {
        let mut targets = event.targets.iter();
        targets.any(|target| AuditTarget::is_changed(target) || target.name.starts_with("user/"))
    };
    let (mut changes, mut rolled_back) = (Vec::new(), Vec::new());
    for (number, event) in rows.iter().map(|row| (row.number, row.parse_event().unwrap())) {
        if is_change(&event) {
            changes.push(number);
        }
        if event.action == UNCONFIRMED_ACTION {
            rolled_back.push(event.reason.parse::<u64>().unwrap());
        }
    }
    let is_known = rolled_back.iter().all(|number| changes.contains(number));
    assert!(is_known, "{rolled_back:?} of {changes:?}");
    (changes.len() - rolled_back.len(), rolled_back.len())
}

pub(super) fn temp_files(project: &Project) -> Vec<PathBuf> {
    let is_temp = |path: &PathBuf| path.extension().is_some_and(|end| end == "tmp");
    files(&project.root).into_iter().filter(is_temp).collect()
}

pub(super) fn has_journal(project: &Project) -> bool {
    project.has(Path::new(LOCAL).join("journal"))
}

/// The child process of [`run_and_die`]; does nothing in an ordinary test run.
#[test]
fn killed_child_process() {
    let Some(argument) = child_argument() else { return };
    let [root, name, step, times] = argument.split('|').collect::<Vec<_>>()[..] else { return };
    let operation = operation(name);
    let project = Project { outside: tempfile::tempdir().unwrap(), root: root.into() };
    let is_planned = |candidate: &FailPoint| format!("{candidate:?}") == step;
    EXCHANGES.set(!STEPS_OF_TWO_NAMES.iter().any(is_planned));
    let mut steps = operation.steps().into_iter().chain(STEPS_OF_TWO_NAMES);
    match steps.find(is_planned) {
        Some(step) => plan(step, times.parse().unwrap(), Act::Abort),
        None => plan_overtaking_save(&project, Act::Abort),
    }
    operation.run(&project).unwrap();
}

/// Runs an operation in another process that is killed at a step. True if it survives.
pub(super) fn run_and_die(
    operation: &Operation,
    project: &Project,
    step: FailPoint,
    times: usize,
) -> bool {
    let argument = format!("{}|{}|{step:?}|{times}", project.root.display(), operation.name);
    run_child("crash::killed_child_process", &argument).status.success()
}

/// Plans that an editor saves the first epic during the commit, and then `act` at the rollback.
pub(super) fn plan_overtaking_save(project: &Project, act: Act) {
    let path = project.path(".reqlore/backlog/epics/EP-001.md");
    let save_and_plan = move || {
        save(&path);
        plan(FailPoint::RollingBack, 0, act);
    };
    plan(FailPoint::Prepared, 0, Act::Run(Box::new(save_and_plan)));
}

// S5: 4.5
#[test]
fn commit_killed_at_any_step_is_all_or_nothing() {
    // Not in parallel: a process that is being started holds a copy of the locks for a moment.
    for operation in operations() {
        check_deaths(&operation);
    }
}

fn check_deaths(operation: &Operation) {
    let (before, after) = (operation.before(), operation.after());
    let (mut partial, mut old, mut new, mut rolled_back) = (0, 0, 0, 0);
    for (step, times) in operation.cases() {
        let project = operation.prepare();
        let has_survived = run_and_die(operation, &project, step, times);
        let on_disk_after = operation.on_disk(&project);
        partial += usize::from(on_disk_after != before && on_disk_after != after);
        FsStore::open(&config(&project.root)).unwrap();
        let found = operation.read_by_new_process(&project);
        let case = format!("{} {step:?} x{times}: {on_disk_after:?}", operation.name);
        assert_eq!(operation.on_disk(&project), found, "{case}");
        assert!(!has_journal(&project), "{case}");
        assert!(!has_survived || (times > 0 && found == after), "{case}");
        let mut versions = found.iter().zip(before.iter().zip(&after));
        let is_old_or_new =
            versions.all(|(found, (before, after))| found == before || found == after);
        let is_complete = found == before || found == after;
        assert!(is_complete || (is_old_or_new && !operation.has_journal()), "{case}: {found:?}");
        old += usize::from(found == before);
        new += usize::from(found == after);
        if operation.is_audited {
            rolled_back += operation.check_audit(&project, found == after, &case);
        } else {
            operation.run(&project).unwrap();
        }
        assert_eq!(operation.on_disk(&project), after, "{case}");
        // A replayed commit writes nothing, so it removes no temporary files.
        let is_repeated = operation.is_audited && found == after;
        assert!(is_repeated || temp_files(&project).is_empty(), "{case}");
    }
    let counts = format!("{}: {partial} partial, {old} old, {new} new", operation.name);
    assert!(old > 2 && new > 2 && (partial > 0 || operation.documents.len() == 1), "{counts}");
    assert!(rolled_back > 0 || !operation.is_audited, "{counts}");
}

// S1: T.3.3
#[test]
fn commit_failing_at_any_step_changes_nothing() {
    check_failures(&operations());
}

fn check_failures(operations: &[Operation]) {
    for operation in operations {
        for (step, times) in operation.cases() {
            let project = operation.prepare();
            plan(step, times, Act::Fail);
            let outcome = operation.run(&project);
            clear_plan();
            let case = format!("{} {step:?} x{times}: {outcome:?}", operation.name);
            let expected = if outcome.is_ok() { operation.after() } else { operation.before() };
            assert_eq!(operation.on_disk(&project), expected, "{case}");
            assert!(!has_journal(&project), "{case}");
            assert_eq!(temp_files(&project), [] as [PathBuf; 0], "{case}");
            if let Err(error) = &outcome {
                assert!(error.to_string().contains("Nothing was written"), "{case}");
            }
            // A missing sync shows here, because its failpoint is not hit.
            if times == 0 {
                let is_after =
                    [FailPoint::OldRemoved, FailPoint::JournalRemoved, FailPoint::Confirmed];
                assert_eq!(outcome.is_ok(), is_after.contains(&step), "{case}");
            }
            if operation.is_audited {
                operation.check_audit(&project, outcome.is_ok(), &case);
            }
        }
    }
}

/// Temporary files are in another folder than their targets.
#[test]
fn commit_in_a_git_repository_is_all_or_nothing() {
    IN_GIT.set(true);
    commit_killed_at_any_step_is_all_or_nothing();
    commit_failing_at_any_step_changes_nothing();
    editor_save_at_any_step_is_detected_and_kept();
    exchange_that_stops_between_its_steps_is_undone();
    commit_without_exchange_support_loses_nothing();
}

#[test]
fn commit_without_exchange_support_loses_nothing() {
    EXCHANGES.set(false);
    commit_failing_at_any_step_changes_nothing();
    editor_save_at_any_step_is_detected_and_kept();
    #[cfg(unix)]
    link_saved_during_commit_is_restored();
}

#[test]
fn commit_with_unstable_inodes_is_verified_by_content() {
    for exchanges in [true, false] {
        EXCHANGES.set(exchanges);
        UNSTABLE_INODES.set(true);
        let (several, single): (Vec<_>, Vec<_>) = operations()
            .into_iter()
            .partition(|operation| operation.is_audited || operation.has_journal());
        check_failures(&single);
        editor_save_at_any_step_is_detected_and_kept();
        #[cfg(unix)]
        link_saved_during_commit_is_restored();
        // Their journal would look like a copy, so an interrupted one would stay half done.
        for operation in several.iter().filter(|operation| !operation.is_audited) {
            let project = operation.prepare();
            let outcome = operation.run(&project);
            check_refused(outcome, "the project's folder", "stable inode numbers");
            assert_eq!(operation.on_disk(&project), operation.before());
            assert!(!has_journal(&project) && temp_files(&project).is_empty());
        }
    }
}

#[test]
fn change_that_cannot_be_undone_is_reported_as_unknown() {
    for exchanges in [true, false] {
        EXCHANGES.set(exchanges);
        for name in ["create", "replace", "delete"] {
            let operation = operation(name);
            let project = operation.prepare();
            plan(FailPoint::FolderSynced, 0, Act::FailAgainAt(FailPoint::PuttingBack));
            let error = operation.run(&project).unwrap_err().to_string();
            assert!(error.contains("It is unknown whether the change was written"), "{error}");
            assert!(!error.contains("Nothing was written"), "{error}");
            assert_ne!(operation.on_disk(&project), operation.before(), "{name}");
        }
    }
}

/// Locks a project like another process that writes to it.
pub(super) fn lock_root(project: &Project) -> fs::File {
    // On Windows the lock is a file in the local state directory.
    let root = ProjectRoot::open(&project.root).unwrap().dir;
    let folder = if LOCKS_ARE_FILES { local::open_or_create(&root).unwrap() } else { root };
    try_lock_folder(&folder, PROJECT_LOCK_FILE).unwrap().unwrap()
}

/// Saves like an editor that renames a new file.
pub(super) fn save(path: &Path) {
    fs::write(path.with_extension("swp"), "edited").unwrap();
    fs::rename(path.with_extension("swp"), path).unwrap();
}

/// Saves like an editor that truncates and writes.
fn save_in_place(path: &Path) {
    fs::write(path, "edited").unwrap();
}

#[cfg(unix)]
/// Saves a link, which the store rejects.
fn save_a_link(path: &Path) {
    std::os::unix::fs::symlink("elsewhere", path.with_extension("swp")).unwrap();
    fs::rename(path.with_extension("swp"), path).unwrap();
}

fn plan_save(project: &Project, step: FailPoint, save: fn(&Path)) {
    let path = project.path(DIRECTORY).join("a.md");
    plan(step, 0, Act::Run(Box::new(move || save(&path))));
}

/// Commits the section `a` with a body that depends on its old one.
fn commit_section(
    project: &Project,
    mut decide: impl FnMut(Option<&Bytes>) -> String + Send + 'static,
) -> StoreResult<CommitResult> {
    let id = DocumentId::section("a");
    let reads = ReadSet::of_documents(vec![id.clone()]);
    let decide = Box::new(move |snapshot: &reqlore_domain::ports::documents::Snapshot| {
        let old = snapshot.documents[0].as_ref().map(|document| &document.body);
        Ok(vec![DocumentChange::put(id.clone(), decide(old))])
    });
    commit_here(&project.root, CommitRequest { read_set: reads, decide, context: test_context() })
}

#[test]
fn editor_save_at_any_step_is_detected_and_kept() {
    for operation in &operations()[..2] {
        for step in operation.steps().into_iter().filter(|step| *step != FailPoint::OldRemoved) {
            for save in [save, save_in_place] {
                let project = operation.prepare();
                plan_save(&project, step, save);
                let append = |old: Option<&Bytes>| {
                    let old =
                        old.map_or(String::new(), |old| String::from_utf8(old.to_vec()).unwrap());
                    format!("{old} + ours")
                };
                commit_section(&project, append).unwrap();
                let found = project.read(Path::new(DIRECTORY).join("a.md"));
                let case = format!("{} {step:?}", operation.name);
                assert_eq!(found.as_deref(), Some("edited + ours"), "{case}");
                assert_eq!(temp_files(&project), [] as [PathBuf; 0], "{case}");
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn link_saved_during_commit_is_restored() {
    let operation = &operations()[1];
    let project = operation.prepare();
    plan_save(&project, FailPoint::TempSynced, save_a_link);
    let outcome = operation.run(&project);
    assert!(matches!(outcome, Err(StoreError::Refused { .. })), "{outcome:?}");
    assert!(project.path(DIRECTORY).join("a.md").is_symlink());
    assert_eq!(temp_files(&project), [] as [PathBuf; 0]);
}

#[test]
fn repeated_editor_saves_make_commit_busy() {
    let project = operations()[1].prepare();
    let path = project.path(DIRECTORY).join("a.md");
    let edited = path.clone();
    let mut saved = 0;
    let outcome = commit_section(&project, move |_| {
        saved += 1;
        fs::write(&edited, format!("saved {saved}")).unwrap();
        "ours".to_owned()
    });
    assert!(matches!(outcome, Err(StoreError::Busy { .. })), "{outcome:?}");
    assert_eq!(fs::read_to_string(path).unwrap(), "saved 3");
    assert_eq!(temp_files(&project), [] as [PathBuf; 0]);
}
