//! Local history: changes that are not committed to Git yet, hand edits between them, and files
//! that are damaged, full, copied or replaced.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};
use reqlore_contract::audit::verified_rows;
use reqlore_domain::document::Version;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::history::{DocumentHistory, HistoryNote, HistoryPage};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::timestamp::Timestamp;

use super::history::{
    EPIC, GitProject, epic, history, query, store_of, text_at, version, versions,
};
use super::*;

const HISTORY: &str = ".reqlore/local/history";
/// The time of the first commit of [`GitProject`] is long before.
const NOW: i64 = 1_900_000_000;

/// The number of minutes after the first commit, for a commit after this second.
fn minute_after(second: i64) -> i64 {
    (NOW + second - 1_700_000_000) / 60 + 1
}

/// A change by a user at this second after [`NOW`].
async fn change(store: &FsStore, user: &str, second: i64, changes: Vec<DocumentChange>) {
    let context = WriteContext {
        caller: Arc::new(Caller::local(user, Access::Write)),
        at: Timestamp::new(NOW + second, 0),
        ..test_context()
    };
    store.commit(&PROJECT(), CommitRequest { context, ..commit(changes) }).await.unwrap();
}

async fn put_text(store: &FsStore, second: i64, text: &str) {
    change(store, "ann", second, vec![DocumentChange::put(epic(), text.to_owned())]).await;
}

/// Text and user of each entry, the newest first. A deletion has the text "-".
async fn shown(store: &FsStore) -> Vec<(String, Option<String>)> {
    let mut shown = Vec::new();
    for entry in history(store, &epic()).await.entries {
        let text = match entry.version {
            None => "-".to_owned(),
            Some(version) => {
                let document = store.document_at(&PROJECT(), &epic(), version).await.unwrap();
                document.expect("a text").text().unwrap().to_owned()
            }
        };
        shown.push((text, entry.origin.user));
    }
    shown
}

fn by<const N: usize>(entries: [(&str, &str); N]) -> Vec<(String, Option<String>)> {
    let user = |user: &str| (!user.is_empty()).then(|| user.to_owned());
    entries.map(|(text, name)| (text.to_owned(), user(name))).to_vec()
}

#[tokio::test]
async fn hand_edits_between_changes_are_entries() {
    let project = Project::new();
    project.write(EPIC, "hand 1");
    let store = project.store();
    put_text(&store, 1, "tool 1").await;
    project.write(EPIC, "hand 2");
    put_text(&store, 2, "tool 2").await;
    let expected = [("tool 2", "ann"), ("hand 2", ""), ("tool 1", "ann"), ("hand 1", "")];
    assert_eq!(shown(&store).await, by(expected));
    project.write(EPIC, "hand 3");
    fs::remove_file(project.path(EPIC)).unwrap();
    change(&store, "bob", 3, vec![DocumentChange::put(epic(), "again")]).await;
    change(&store, "bob", 4, vec![DocumentChange::Delete { id: epic() }]).await;
    project.write(EPIC, "hand 4");
    // Also in a process that starts later.
    let store = project.store();
    let newer = by([("hand 4", ""), ("-", "bob"), ("again", "bob"), ("-", "")]);
    assert_eq!(shown(&store).await, [newer, by(expected)].concat());
    let modified = fs::metadata(project.path(EPIC)).unwrap().mtime();
    assert_eq!(history(&store, &epic()).await.entries[0].at.seconds(), modified);
    // A file that was moved by hand is the same document.
    let moved = ".reqlore/backlog/epics/shop/EP-001-abcdef.md";
    project.write(moved, "hand 4");
    fs::remove_file(project.path(EPIC)).unwrap();
    let page = history(&store, &item(ItemKind::Epic, "shop/EP-001-abcdef")).await;
    assert_eq!((page.entries.len(), page.entries[0].version), (8, version("hand 4")));
}

#[tokio::test]
async fn changes_of_all_documents_are_listed_by_commit() {
    let project = Project::new();
    let store = project.store();
    assert_eq!(store.recent_changes(&PROJECT(), Timestamp::default(), 9).await.unwrap(), []);
    put_text(&store, 1, "one").await;
    let (a, b) = (DocumentId::entity("a"), DocumentId::entity("b"));
    let both = [&a, &b].map(|id| DocumentChange::put(id.clone(), "x"));
    change(&store, "bob", 2, both.to_vec()).await;
    let mut both = both.to_vec();
    both.push(DocumentChange::Delete { id: epic() });
    // The entities keep their texts.
    change(&store, "ann", 3, both).await;
    let store = project.store();
    let changes = async |second, limit| {
        let since = Timestamp::new(NOW + second, 0);
        let changes = store.recent_changes(&PROJECT(), since, limit).await.unwrap();
        for change in &changes {
            let entries = history(&store, &change.id).await.entries;
            assert!(entries.contains(&change.entry), "{change:?}: {entries:?}");
        }
        let shown = changes.into_iter().map(|change| (change.id, change.entry.at.seconds() - NOW));
        shown.collect::<Vec<_>>()
    };
    let all = [(epic(), 3), (a, 2), (b, 2), (epic(), 1)];
    assert_eq!(changes(0, 9).await, all);
    assert_eq!(changes(3, 9).await, all[..1]);
    assert_eq!(changes(0, 2).await, all[..2]);
}

#[tokio::test]
async fn git_takes_over_at_the_commit() {
    let mut git = GitProject::new();
    let store = git.store();
    put_text(&store, -250_000_000, "one").await;
    let page = git.history().await;
    assert_eq!((page.entries.len(), &page.notes[..]), (1, &[HistoryNote::Uncommitted][..]));
    assert_eq!(page.entries[0].origin.user.as_deref(), Some("ann"));
    git.commit("first");
    assert_eq!(shown(&store).await, by([("one", "Ada")]));
    assert_eq!(git.history().await.notes, []);
    put_text(&store, 1, "two").await;
    put_text(&store, 2, "three").await;
    assert_eq!(shown(&store).await, by([("three", "ann"), ("two", "ann"), ("one", "Ada")]));
    // A change and its undo.
    put_text(&store, 3, "one").await;
    assert_eq!(shown(&store).await[..2], by([("one", "ann"), ("three", "ann")]));
    assert_eq!(git.history().await.entries.len(), 4);
    git.write(EPIC, "hand");
    put_text(&store, 4, "four").await;
    assert_eq!(shown(&store).await[..2], by([("four", "ann"), ("hand", "")]));
    git.commits = minute_after(5);
    git.commit("second");
    // Texts between two commits stay in their place.
    let between = [("hand", ""), ("one", "ann"), ("three", "ann"), ("two", "ann"), ("one", "Ada")];
    assert_eq!(shown(&store).await, [by([("four", "Ada")]), by(between)].concat());
    change(&store, "bob", 9_000, vec![DocumentChange::Delete { id: epic() }]).await;
    assert_eq!(shown(&store).await[..3], by([("-", "bob"), ("four", "Ada"), ("hand", "")]));
    git.commits += 1_000;
    git.commit("delete");
    assert_eq!(shown(&store).await[..2], by([("-", "Ada"), ("four", "Ada")]));
    put_text(&store, 90_000, "back").await;
    assert_eq!(shown(&store).await[..2], by([("back", "ann"), ("-", "Ada")]));
}

#[tokio::test]
async fn discarded_texts_are_listed_by_time() {
    let mut git = GitProject::new();
    git.write(EPIC, "main");
    git.commit("main");
    git.run(&["checkout", "--quiet", "-b", "side"]);
    let store = git.store();
    put_text(&store, 1, "side").await;
    git.commits = minute_after(1);
    git.commit("side");
    git.run(&["checkout", "--quiet", "main"]);
    let side = by([("main", ""), ("side", "ann"), ("main", "Ada")]);
    assert_eq!(shown(&store).await, side);
    let checkout = history(&store, &epic()).await;
    assert_eq!(checkout.notes, []);
    let reason = checkout.entries[0].origin.reason.as_deref();
    assert_eq!(reason, Some("checkout of the committed text"));
    put_text(&store, 2, "next").await;
    assert_eq!(shown(&store).await, [by([("next", "ann")]), side.clone()].concat());
    git.run(&["reset", "--quiet", "--hard"]);
    let discarded = [by([("main", ""), ("next", "ann")]), side].concat();
    assert_eq!(shown(&store).await, discarded);
    // Commits of others are newer than all of it.
    git.commits += 60;
    for text in ["pulled", "side"] {
        git.write(EPIC, text);
        git.commit(text);
    }
    let pulled = by([("side", "Ada"), ("pulled", "Ada"), ("next", "ann")]);
    assert_eq!(shown(&store).await[..3], pulled);
    // A file that Git removed before its commit.
    put_text(&store, 9_000, "last").await;
    git.run(&["rm", "--quiet", "--force", EPIC]);
    assert_eq!(shown(&store).await[..2], by([("-", ""), ("last", "ann")]));
}

#[tokio::test]
async fn commit_of_an_older_text_separates_no_change() {
    let mut git = GitProject::new();
    let store = git.store();
    put_text(&store, 1, "one").await;
    git.run(&["add", "--all"]);
    put_text(&store, 2, "two").await;
    put_text(&store, 3, "three").await;
    git.commits = minute_after(3);
    git.run(&["commit", "--quiet", "--message", "staged"]);
    // A branch with another text, which is older than the last change.
    let branch = git.run(&["commit-tree", "-p", "HEAD", "-m", "x", "HEAD^{tree}"]);
    git.run(&["merge", "--quiet", "--no-edit", branch.trim()]);
    let expected = [("three", "ann"), ("two", "ann"), ("one", "Ada")];
    assert_eq!(shown(&store).await, by(expected));
    assert_eq!(git.history().await.notes, [HistoryNote::Uncommitted]);
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = store.history(&PROJECT(), &epic(), &query(1, after)).await.unwrap();
        found.extend(versions(&page.entries));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, ["three", "two", "one"].map(version));
}

#[tokio::test]
async fn local_pages_neither_skip_nor_repeat() {
    let mut git = GitProject::new();
    for text in ["one", "two"] {
        git.write(EPIC, text);
        git.commit(text);
    }
    let store = git.store();
    for (second, text) in ["three", "four", "five"].into_iter().enumerate() {
        put_text(&store, i64::try_from(second).unwrap(), text).await;
    }
    let (mut after, mut found) = (None, Vec::new());
    for second in 10.. {
        let page = store.history(&PROJECT(), &epic(), &query(2, after)).await.unwrap();
        found.extend(versions(&page.entries));
        let Some(next) = page.next else { break };
        after = Some(next);
        put_text(&store, second, &format!("later {second}")).await;
    }
    assert_eq!(found, ["five", "four", "three", "two", "one"].map(version));
    // Between two local entries, Git gets them.
    let all = history(&store, &epic()).await.entries;
    let page = store.history(&PROJECT(), &epic(), &query(1, None)).await.unwrap();
    git.commits = 10_000_000;
    git.commit("all");
    let page = store.history(&PROJECT(), &epic(), &query(1, page.next)).await.unwrap();
    assert_eq!(page.entries, all[1..2]);
    for unknown in ["x", "99.", "1.x", "-1.", "x."] {
        let query = query(1, Some(unknown.to_owned()));
        assert!(store.history(&PROJECT(), &epic(), &query).await.is_err(), "{unknown}");
    }
}

#[tokio::test]
async fn two_processes_write_one_history() {
    let project = Project::new();
    let stores = [project.store(), project.store()];
    for second in 0..9 {
        let store = &stores[usize::try_from(second).unwrap() % 2];
        put_text(store, second, &format!("text {second}")).await;
    }
    let expected: Vec<_> = (0..9).rev().map(|second| format!("text {second}")).collect();
    let found = shown(&project.store()).await;
    assert_eq!(found.into_iter().map(|(text, _)| text).collect::<Vec<_>>(), expected);
    assert_eq!(fs::metadata(project.path(HISTORY)).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn damaged_history_loses_the_damaged_records_only() {
    let project = Project::new();
    let before = reqlore_contract::run(async {
        for second in 0..8 {
            put_text(&project.store(), second, &format!("text {second}")).await;
        }
        history(&project.store(), &epic()).await.entries
    });
    let intact = fs::read(project.path(HISTORY)).unwrap();
    let damage = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3_u8);
    let cases = Cases { cases: 100, failure_persistence: None, ..Cases::default() };
    let outcome = TestRunner::new(cases).run(&damage, |(at, length, kind)| {
        let mut bytes = intact.clone();
        let record = bytes.len() / 8;
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] ^= 1 + u8::try_from(length.index(255)).unwrap(),
            1 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, vec![b'0'; length.index(3 * record)])),
        }
        fs::write(project.path(HISTORY), bytes).unwrap();
        project.write(EPIC, "text 7");
        let after = reqlore_contract::run(async {
            put_text(&project.store(), 9, "last").await;
            history(&project.store(), &epic()).await.entries
        });
        // Damage of the identity between two records is damage of both.
        let lost = if kind == 1 { 8.min(9 - at / record) } else { 2 };
        let users = after.iter().filter(|entry| entry.origin.user.is_some()).count();
        prop_assert!(users >= 9 - lost, "{} of 9, kind {} at {}", users, kind, at);
        prop_assert_eq!(after[0].version, version("last"));
        // A state next to a damaged record may be listed as a hand edit.
        for entry in &after[1..] {
            prop_assert!(before.iter().any(|known| known.version == entry.version));
            prop_assert!(entry.origin.user.is_none() || before.contains(entry));
        }
        Ok(())
    });
    outcome.unwrap();
}

#[tokio::test]
async fn full_history_drops_the_oldest_records() {
    let project = Project::new();
    let store = project.store();
    for second in 0..40 {
        put_text(&store, second, &format!("{second}").repeat(5_000)).await;
    }
    let entries = history(&store, &epic()).await.entries;
    assert!((5..20).contains(&entries.len()), "{}", entries.len());
    assert_eq!(entries[0].version, version(&"39".repeat(5_000)));
    let size = |name| fs::metadata(project.path(name)).unwrap().len();
    assert!(size(HISTORY) < 70_000 && size(".reqlore/local/history.old") < 70_000);
    // A text that is larger than a file.
    put_text(&store, 50, &"x".repeat(100_000)).await;
    put_text(&store, 51, "small").await;
    let entries = history(&store, &epic()).await.entries;
    assert_eq!(entries[1].origin.user.as_deref(), Some("ann"));
    assert_eq!(text_at(&store, &epic(), &"x".repeat(100_000)).await, None);
    assert!(entries[1].is_purged && text_at(&store, &epic(), "small").await.is_some());
}

#[tokio::test]
async fn history_that_came_with_a_copy_is_ignored() {
    let project = Project::new();
    put_text(&project.store(), 1, "one").await;
    put_text(&project.store(), 2, "two").await;
    let copy = project.outside.path().join("copy");
    let copied = Command::new("cp").arg("-a").arg(&project.root).arg(&copy).status();
    assert!(copied.unwrap().success());
    let store = store_of(&copy);
    assert_eq!(shown(&store).await, by([("two", "")]));
    put_text(&store, 3, "three").await;
    assert_eq!(shown(&store).await, by([("three", "ann"), ("two", "")]));
    fs::remove_file(project.path(HISTORY)).unwrap();
    assert_eq!(shown(&project.store()).await, by([("two", "")]));
    // Hard links of a copy that shares its files.
    fs::hard_link(copy.join(HISTORY), project.path(HISTORY)).unwrap();
    assert_eq!(shown(&project.store()).await, by([("two", "")]));
    put_text(&project.store(), 4, "four").await;
    assert_eq!(shown(&project.store()).await, by([("four", "ann"), ("two", "")]));
    assert_eq!(shown(&store).await, by([("three", "ann"), ("two", "")]));
}

#[tokio::test]
async fn special_file_in_its_place_stops_no_write() {
    let project = Project::new();
    let target = project.outside.path().join("target");
    fs::write(&target, "kept").unwrap();
    let history_file = project.path(HISTORY);
    let local = project.path(LOCAL);
    for (second, place) in ["link", "pipe", "folder", "open", "unreadable"].iter().enumerate() {
        fs::create_dir_all(&local).unwrap();
        match *place {
            "link" => symlink(&target, &history_file).unwrap(),
            "pipe" => make_pipe(&history_file),
            "folder" => fs::create_dir(&history_file).unwrap(),
            mode => {
                fs::write(&history_file, "x").unwrap();
                let mode = if mode == "open" { 0o644 } else { 0 };
                fs::set_permissions(&history_file, PermissionsExt::from_mode(mode)).unwrap();
            }
        }
        let store = project.store();
        let page = history(&store, &epic()).await;
        assert_eq!(page.entries.len(), second.min(1), "{place}");
        let is_open = *place == "unreadable" && rustix::process::geteuid().is_root();
        assert_eq!(page.notes.contains(&HistoryNote::LocalBlocked), !is_open, "{place}");
        put_text(&store, 1, &format!("text {place}")).await;
        let HistoryPage { entries, notes, .. } = history(&store, &epic()).await;
        let newest = &entries[0];
        assert_eq!(newest.version, version(&format!("text {place}")));
        assert_eq!(notes.contains(&HistoryNote::LocalBlocked), *place == "folder");
        assert_eq!(newest.origin.user.is_some(), *place != "folder", "{place}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
        fs::remove_dir_all(&local).unwrap();
    }
    symlink(project.outside.path(), &local).unwrap();
    put_text(&project.store(), 1, "linked folder").await;
    assert_eq!(names(project.outside.path()), ["repo", "target"]);
}

/// All bytes in the local state directory.
fn local_bytes(project: &Project) -> String {
    let read = |path: PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    files(&project.path(LOCAL)).into_iter().map(read).collect()
}

#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::new(NOW, 0)
    }
}

#[tokio::test]
async fn purge_erases_uncommitted_texts_and_names_git() {
    let mut git = GitProject::new();
    let store = git.store();
    for (second, text) in [(1, "secret one"), (2, "two"), (3, "secret three"), (4, "four")] {
        put_text(&store, second, text).await;
    }
    assert!(local_bytes(&git.project).contains("secret three"));
    let context = || WriteContext {
        audited: Some(AuditScope::begin(Arc::new(StoppedClock))),
        ..test_context()
    };
    let one = Some(Version::of_bytes(b"secret one"));
    assert_eq!(store.purge_history(&PROJECT(), &epic(), one, context()).await.unwrap(), 1);
    assert_eq!(text_at(&store, &epic(), "secret one").await, None);
    assert_eq!(text_at(&store, &epic(), "two").await.as_deref(), Some("two"));
    let rows = verified_rows(&store).await;
    assert_eq!((rows.len(), rows[0].parse_event().unwrap().targets[0].after), (1, one));
    git.commits = minute_after(4);
    git.commit("four");
    put_text(&store, 1_000, "five").await;
    // Git has the fourth text.
    let outcome = store.purge_history(&PROJECT(), &epic(), None, context()).await;
    check_refused(outcome, "EP-001", "are in Git");
    assert!(!local_bytes(&git.project).contains("secret"));
    assert_eq!(text_at(&store, &epic(), "four").await.as_deref(), Some("four"));
    let page = git.history().await;
    let all = ["five", "four", "secret three", "two", "secret one"].map(version);
    assert_eq!(versions(&page.entries), all);
    let purged = page.entries.iter().map(|entry| entry.is_purged);
    assert_eq!(purged.collect::<Vec<_>>(), [false, false, true, true, true]);
    // A version that Git does not have.
    let two = Some(Version::of_bytes(b"two"));
    assert_eq!(store.purge_history(&PROJECT(), &epic(), two, context()).await.unwrap(), 1);
}

#[tokio::test]
async fn reading_the_history_writes_nothing() {
    let project = Project::new();
    project.write(EPIC, "text");
    let store = FsStore::open_to_inspect(&config(&project.root)).unwrap().unwrap();
    assert_eq!(shown(&store).await, by([("text", "")]));
    store.recent_changes(&PROJECT(), Timestamp::default(), 1).await.unwrap();
    assert!(!project.has(LOCAL));
}
