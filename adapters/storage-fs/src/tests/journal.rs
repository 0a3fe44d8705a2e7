//! A commit of several documents is whole after any death, and nothing else of a journal is
//! believed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqlore_contract::act;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, Kind};
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, DocumentRepository, ReadSet, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use tempfile::TempDir;

use super::config;
use super::crash::commit_here;
use crate::FsStore;
use crate::failpoint::Step;
use crate::failpoint::under_test::{Act, plan};
use crate::journal;
use crate::layout::Root;
use crate::read::read_file;
use crate::stage_and_swap::{Base, Found};

const STEPS: [Step; 14] = [
    Step::Locked,
    Step::Read,
    Step::Decided,
    Step::TempCreated,
    Step::TempWritten,
    Step::TempSynced,
    Step::JournalBegun,
    Step::JournalWritten,
    Step::JournalSynced,
    Step::Exchanged,
    Step::Checked,
    Step::FolderSynced,
    Step::JournalRemoved,
    Step::OldRemoved,
];
/// A step of a commit of three documents is reached at most so often.
const TIMES: usize = 3;
const BACKLOG: &str = ".reqlore/backlog";
const LOCAL: &str = ".reqlore/local";
const JOURNAL: &str = ".reqlore/local/journal";

fn item(kind: ItemKind, name: &str) -> DocumentId {
    DocumentId { kind: Kind::Item(kind), name: name.to_owned() }
}

fn documents() -> [DocumentId; 4] {
    [
        item(ItemKind::Requirement, "REQ-001-aaaaaa"),
        item(ItemKind::Requirement, "REQ-002"),
        item(ItemKind::UserStory, "US-001"),
        DocumentId { kind: Kind::Deleted, name: "REQ-001-aaaaaa".to_owned() },
    ]
}

type State = [Option<&'static str>; 4];

/// Two are deleted, and a third is replaced or made.
const OPERATIONS: [(State, State); 2] = [
    ([Some("one"), Some("two"), Some("old"), None], [None, None, Some("new"), None]),
    ([Some("one"), Some("two"), None, None], [None, None, None, Some("gone")]),
];

fn changes(operation: usize) -> Vec<Change> {
    let (before, after) = OPERATIONS[operation];
    let all = documents().into_iter().zip(before.into_iter().zip(after));
    all.filter(|(_, (before, after))| before != after)
        .map(|(id, (_, after))| match after {
            Some(body) => Change::put(id, body),
            None => Change::Delete { id },
        })
        .collect()
}

fn commit(changes: Vec<Change>) -> Commit {
    let ids = changes.iter().map(|change| change.id().clone()).collect();
    Commit { reads: ReadSet::of(ids), decide: Box::new(move |_| Ok(changes.clone())), act: act() }
}

fn run(root: &Path, operation: usize) -> StoreResult<Committed> {
    commit_here(root, commit(changes(operation)))
}

fn prepare(operation: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (id, body) in documents().iter().zip(OPERATIONS[operation].0) {
        let path = folder.path().join(id.to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(body) = body {
            fs::write(path, body).unwrap();
        }
    }
    folder
}

/// What lies there.
fn on_disk(root: &Path) -> Vec<Option<String>> {
    let read = |id: &DocumentId| fs::read_to_string(root.join(id.to_string())).ok();
    documents().iter().map(read).collect()
}

/// What the next process sees.
fn seen(root: &Path) -> Vec<Option<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = FsStore::new(&config(root));
    let found = runtime.block_on(store.get(&ProjectKey::default(), &documents())).unwrap();
    let text = |document: Document| String::from_utf8(document.body.to_vec()).unwrap();
    found.into_iter().map(|found| found.map(text)).collect()
}

fn owned(state: State) -> Vec<Option<String>> {
    state.map(|body| body.map(str::to_owned)).to_vec()
}

fn has_journal(root: &Path) -> bool {
    root.join(JOURNAL).symlink_metadata().is_ok()
}

fn leftovers(root: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(root.join(BACKLOG)).unwrap();
    let entries = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "tmp")).collect()
}

const CHILD: &str = "REQLORE_TEST_JOURNAL";

/// The process that dies: does nothing unless a parent asks for it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test tells its child what to do")]
fn child_that_dies() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let [root, step, times, operation] = order.split('|').collect::<Vec<_>>()[..] else { return };
    let number = |text: &str| text.parse::<usize>().unwrap();
    plan(STEPS[number(step)], number(times), Act::Abort);
    run(Path::new(root), number(operation)).unwrap();
}

fn cases() -> impl Iterator<Item = (usize, usize, usize)> {
    let times = |step| (0..TIMES).map(move |times| (step, times));
    let each = (0..STEPS.len()).flat_map(times);
    each.flat_map(|(step, times)| (0..OPERATIONS.len()).map(move |op| (step, times, op)))
}

// Reliability 5.1
#[test]
fn a_commit_of_several_is_all_old_or_all_new_after_any_death() {
    let (mut died, mut half, mut old, mut new) = (0, 0, 0, 0);
    for (step, times, operation) in cases() {
        let folder = prepare(operation);
        let root = folder.path();
        let order = format!("{}|{step}|{times}|{operation}", root.display());
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::journal::child_that_dies"])
            .env(CHILD, order)
            .output()
            .unwrap();
        let (before, after) = (owned(OPERATIONS[operation].0), owned(OPERATIONS[operation].1));
        let left = on_disk(root);
        half += usize::from(left != before && left != after);
        let found = seen(root);
        let shown = format!("{:?} x{times} of {operation}: {left:?}", STEPS[step]);
        assert_eq!(on_disk(root), found, "{shown}");
        assert!(!has_journal(root), "{shown}");
        if child.status.success() {
            assert_eq!(found, after, "{shown}");
            continue;
        }
        died += 1;
        assert!(found == before || found == after, "{shown}: {found:?}");
        old += usize::from(found == before);
        new += usize::from(found == after);
        run(root, operation).unwrap();
        assert_eq!(on_disk(root), after, "{shown}");
        assert_eq!(leftovers(root), [] as [PathBuf; 0], "{shown}");
    }
    let counts = format!("{died} died, {half} half way, {old} then all old, {new} then all new");
    assert!(died >= STEPS.len() * 2 && half > 5 && old > 5 && new > 5, "{counts}");
}

#[test]
fn a_step_that_fails_leaves_all_old_and_no_journal() {
    for (step, times, operation) in cases() {
        let folder = prepare(operation);
        let root = folder.path();
        plan(STEPS[step], times, Act::Fail);
        let outcome = run(root, operation);
        plan(STEPS[0], usize::MAX, Act::Fail);
        let (before, after) = OPERATIONS[operation];
        let shown = format!("{:?} x{times} of {operation}: {outcome:?}", STEPS[step]);
        let expected = if outcome.is_ok() { after } else { before };
        assert_eq!(on_disk(root), owned(expected), "{shown}");
        assert!(!has_journal(root), "{shown}");
        assert_eq!(leftovers(root), [] as [PathBuf; 0], "{shown}");
        if times == 0 {
            let behind = [Step::OldRemoved, Step::JournalRemoved].contains(&STEPS[step]);
            assert_eq!(outcome.is_ok(), behind, "{shown}");
        }
    }
}

#[test]
fn one_document_with_its_list_pays_for_no_journal() {
    let folder = prepare(0);
    for changes in [
        vec![Change::put(item(ItemKind::Epic, "EP-001"), "x")],
        vec![
            Change::put(DocumentId::section("a"), "x"),
            Change::put(DocumentId::instructions(), "x"),
        ],
        vec![
            Change::put(item(ItemKind::Epic, "EP-002"), "x"),
            Change::Delete { id: item(ItemKind::Epic, "EP-404") },
        ],
    ] {
        plan(Step::JournalBegun, 0, Act::Fail);
        commit_here(folder.path(), commit(changes)).unwrap();
    }
    plan(STEPS[0], usize::MAX, Act::Fail);
}

/// Leaves what a process leaves that dies right before the first exchange.
fn interrupt(root: &Path, operation: usize) {
    let root = Root::open(&root.canonicalize().unwrap()).unwrap();
    let mut base = Base::new();
    for id in documents() {
        let (path, name) = (id.to_string(), format!("{}.md", id.name));
        let dir = root.dir.open_dir(Path::new(&path).parent().unwrap()).unwrap();
        let found = read_file(&dir, &name, &path).unwrap().map(|content| Found {
            document: Document::new(id.clone(), content.bytes),
            metadata: content.metadata,
        });
        base.insert(id, found);
    }
    journal::write(&root, &base, &changes(operation)).unwrap();
}

#[test]
fn what_somebody_edited_meanwhile_is_left_alone() {
    let folder = prepare(0);
    let root = folder.path();
    interrupt(root, 0);
    let [one, ..] = documents().map(|id| root.join(id.to_string()));
    fs::write(&one, "by hand").unwrap();
    assert_eq!(seen(root), [Some("by hand"), None, Some("new"), None].map(|s| s.map(String::from)));
    assert!(!has_journal(root));
    // Also where the journal would make what is there by now, or can't touch it.
    let folder = prepare(0);
    let root = folder.path();
    interrupt(root, 0);
    let twice = root.join(documents()[1].to_string());
    fs::hard_link(&twice, root.join("twin")).unwrap();
    fs::remove_file(root.join(documents()[0].to_string())).unwrap();
    assert_eq!(seen(root), [None, Some("two"), Some("new"), None].map(|s| s.map(String::from)));
    assert!(!has_journal(root));
}

#[test]
fn a_torn_journal_is_dropped_and_nothing_of_it_was_applied() {
    let folder = prepare(1);
    let root = folder.path();
    let journal = root.join(JOURNAL);
    // Written into the same file each time: another one would not be believed in any case.
    let anew = |damage: &dyn Fn(&mut Vec<u8>)| {
        let _ = fs::remove_file(&journal);
        interrupt(root, 1);
        let mut bytes = fs::read(&journal).unwrap();
        damage(&mut bytes);
        fs::write(&journal, &bytes).unwrap();
        bytes.len()
    };
    let whole = anew(&|_| ());
    let before = owned(OPERATIONS[1].0);
    for length in (0..whole).step_by(3) {
        anew(&|bytes| bytes.truncate(length));
        assert_eq!(seen(root), before, "{length} bytes");
        assert!(!has_journal(root), "{length} bytes");
    }
    for at in (0..whole).step_by(3) {
        anew(&|bytes| bytes[at] ^= 0x20);
        assert_eq!(seen(root), before, "byte {at}");
    }
    anew(&|_| ());
    assert_eq!(seen(root), owned(OPERATIONS[1].1));
}

/// Anybody can compute its checksum.
#[test]
fn a_journal_of_a_clone_or_a_copy_is_dropped_and_nothing_of_it_is_applied() {
    let (theirs, folder) = (prepare(0), prepare(0));
    let root = folder.path();
    interrupt(theirs.path(), 0);
    fs::create_dir_all(root.join(LOCAL)).unwrap();
    let copy = || fs::copy(theirs.path().join(JOURNAL), root.join(JOURNAL)).unwrap();
    let before = owned(OPERATIONS[0].0);
    copy();
    assert_eq!(seen(root), before);
    assert_eq!(on_disk(root), before);
    assert!(!has_journal(root));
    copy();
    let other = Change::put(item(ItemKind::Epic, "EP-001"), "x");
    commit_here(root, commit(vec![other])).unwrap();
    assert_eq!(on_disk(root), before);
    // Its own is believed, also where the project was moved to.
    let moved = folder.path().join("moved");
    fs::create_dir(&moved).unwrap();
    for part in fs::read_dir(theirs.path()).unwrap().map(|part| part.unwrap()) {
        fs::rename(part.path(), moved.join(part.file_name())).unwrap();
    }
    assert_eq!(seen(&moved), owned(OPERATIONS[0].1));
}

#[test]
fn a_journal_that_came_with_a_repository_leads_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let (root, secret) = (folder.path().join("repo"), folder.path().join("secret.md"));
    fs::create_dir_all(root.join(".reqlore/backlog")).unwrap();
    fs::write(&secret, "secret").unwrap();
    symlink("../../..", root.join(".reqlore/backlog/epics")).unwrap();
    let opened = Root::open(&root.canonicalize().unwrap()).unwrap();
    for id in [
        item(ItemKind::Epic, "secret"),
        item(ItemKind::UserStory, "../../../../secret"),
        DocumentId::entity("../../secret"),
        DocumentId::section("../../../../secret"),
    ] {
        let base = BTreeMap::<DocumentId, Option<Found>>::new().into_iter().collect();
        journal::write(&opened, &base, &[Change::put(id.clone(), "stolen")]).unwrap();
        let _ = seen(&root);
        assert!(!has_journal(&root), "{id}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret", "{id}");
    }
    let expected = ["repo", "secret.md"];
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, expected);
    // What is no file is no journal, and nobody waits for it.
    for make in [
        |at: &Path| symlink("../../../secret.md", at).unwrap(),
        |at: &Path| fs::create_dir(at).unwrap(),
        |at: &Path| assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
    ] {
        make(&root.join(JOURNAL));
        let _ = seen(&root);
        let one = Change::put(item(ItemKind::UserStory, "US-001"), "x");
        commit_here(&root, commit(vec![one.clone()])).unwrap();
        let two = Change::put(item(ItemKind::UserStory, "US-002"), "x");
        let refused = commit_here(&root, commit(vec![one, two])).unwrap_err().to_string();
        assert!(refused.contains("journal"), "{refused}");
        let at = root.join(JOURNAL);
        let _ = fs::remove_file(&at).or_else(|_| fs::remove_dir(&at));
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn a_journal_of_whoever_has_the_lock_is_his() {
    let folder = prepare(0);
    let root = folder.path();
    let lock = fs::File::open(root).unwrap();
    lock.lock().unwrap();
    interrupt(root, 0);
    assert_eq!(seen(root), owned(OPERATIONS[0].0), "a reader does not wait");
    assert!(has_journal(root));
    drop(lock);
    assert_eq!(seen(root), owned(OPERATIONS[0].1));
}

/// A reader that is open for long looks as well, before it believes its watch.
#[tokio::test]
async fn a_reader_that_was_there_before_finishes_it_too() {
    let folder = prepare(0);
    let store = FsStore::new(&config(folder.path()));
    let words = ["REQ-002".to_owned()];
    let kind = Kind::Item(ItemKind::Requirement);
    let named = || async { store.lookup(&ProjectKey::default(), kind, &words).await.unwrap() };
    assert_eq!(named().await[0].len(), 1);
    interrupt(folder.path(), 0);
    assert_eq!(named().await[0].len(), 0);
}
