//! Many writers, many readers, several processes: here several stores on one file.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use reqlore_contract::archive::{into_document, read_documents};
use reqlore_contract::{Storage, act, run};
use reqlore_domain::document::{Document, DocumentId, Kind};
use reqlore_domain::ports::archive::{ArchiveRecord, DocumentRecord};
use reqlore_domain::ports::documents::{Change, Changes, Filter, Refresh, Revision, StoreError};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use rusqlite::Connection;

use super::{at, made, place, sqlite, storage, told, try_put};

/// How many transactions the log holds: frames that say how large the database is end one.
fn commits(file: &Path) -> usize {
    let log = fs::read(file.with_extension("db-wal")).unwrap();
    let frames = log[32..].chunks(24 + 4096);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[test]
fn what_waits_shares_one_sync() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        s.put(&DocumentId::section("first"), "x").await;
        let before = commits(&file);
        let names: Vec<String> = (0..256).map(|at| format!("s{at}")).collect();
        for outcome in join_all(names.iter().map(|name| try_put(&s, name))).await {
            outcome.unwrap();
        }
        let synced = commits(&file) - before;
        assert!((1..=25).contains(&synced), "{synced} transactions for 256 commits");
    });
}

#[test]
fn a_refused_commit_undoes_itself_and_the_group_stands() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        let (good, bad) = (DocumentId::section("good"), DocumentId::section("bad"));
        let limit = "CREATE TRIGGER no BEFORE INSERT ON bodies WHEN NEW.body = x'626164' \
                     BEGIN SELECT RAISE(ABORT, 'no'); END";
        sqlite(&file, limit);
        let ids = [good.clone(), bad.clone()];
        let put = |id: &DocumentId, body: &'static str| Change::put(id.clone(), body);
        let changes = vec![put(&good, "undone"), put(&bad, "bad")];
        let refused = s.decide(&ids, move |_| Ok(changes.clone()));
        let kept = try_put(&s, "kept");
        let (refused, kept) = futures_util::join!(refused, kept);
        assert!(matches!(refused, Err(StoreError::Internal(_))), "{refused:?}");
        kept.unwrap();
        assert_eq!((s.body(&good).await, s.body(&bad).await), (None, None));
        assert!(s.body(&DocumentId::section("kept")).await.is_some());
    });
}

#[test]
fn a_database_locked_by_another_is_busy_and_then_works() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        s.put(&DocumentId::section("a"), "x").await;
        let other = Connection::open(&file).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (error, words) = told(try_put(&s, "b").await);
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
        assert!(words.contains("Nothing was written; try again"), "{words}");
        assert!(s.body(&DocumentId::section("a")).await.is_some(), "reads go on");
        other.execute_batch("ROLLBACK").unwrap();
        try_put(&s, "b").await.unwrap();
    });
}

#[test]
fn a_database_that_another_has_alone_is_waited_for() {
    let (_folder, file) = made();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; UPDATE store SET one = 1").unwrap();
    let (error, words) = told(at(&file));
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    assert!(words.contains("try again"), "{words}");
    let closing = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(100));
        drop(other);
    });
    run(async { try_put(&storage(&file), "a").await.unwrap() });
    closing.join().unwrap();
}

#[test]
fn what_another_version_took_over_is_not_written() {
    for taken in ["PRAGMA user_version = 99", "UPDATE store SET heads = 0"] {
        let (_folder, file) = place();
        run(async {
            let s = storage(&file);
            sqlite(&file, taken);
            let (error, words) = told(try_put(&s, "a").await);
            assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
            assert!(words.contains("start this one again"), "{words}");
            // The others are not held up.
            sqlite(&file, "UPDATE store SET one = 1");
        });
    }
}

#[test]
fn a_put_keeps_the_place_and_sets_the_time() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        let id = DocumentId::entity("first");
        let mut sink = s.store.fill().await.unwrap();
        let place: Option<Arc<str>> = Some(".ixchel/first.md".into());
        let document = Document::new(id.clone(), "old".into());
        let project = s.project.clone();
        let modified = Timestamp::default();
        let record = DocumentRecord { project, document, modified, place: place.clone() };
        sink.put(vec![ArchiveRecord::Document(record)]).await.unwrap();
        sink.finish().await.unwrap();
        s.put(&id, "new").await;
        let records = read_documents(&*s.store).await.unwrap();
        assert_eq!((&records[0].place, records[0].modified), (&place, act().at));
    });
}

#[test]
fn two_stores_on_one_file_see_each_other_at_once() {
    let (_folder, file) = place();
    run(async {
        let (a, b) = (storage(&file), storage(&file));
        let id = DocumentId::entity("decisions/first");
        for body in ["---\nid: dec-1d2c8f\n---\n", "---\nid: dec-ffffff\n---\n"] {
            let put = a.put(&id, body).await;
            assert_eq!(b.body(&id).await.as_deref(), Some(body.as_bytes()));
            let words = [body[8..18].to_owned()];
            assert_eq!(b.store.lookup(&b.project, Kind::Entity, &words).await.unwrap()[0].len(), 1);
            let since = Revision(put.revision.0 - 1);
            let changes =
                b.store.changes(&b.project, Kind::Entity, since, Refresh::Incremental).await;
            let wanted = Changes::Since { revision: put.revision, ids: vec![id.clone()] };
            assert_eq!(changes.unwrap(), wanted);
        }
        b.delete(&id).await;
        assert_eq!(a.body(&id).await, None);
    });
}

#[test]
fn a_new_database_is_made_by_many_at_once() {
    for _ in 0..10 {
        let (_folder, file) = place();
        let openers = [0, 1, 2, 3].map(|at: usize| {
            let file = file.clone();
            std::thread::spawn(move || {
                run(async { try_put(&storage(&file), &format!("s{at}")).await.unwrap() });
            })
        });
        for opener in openers {
            opener.join().unwrap();
        }
        run(async {
            let page = storage(&file).store.find(&ProjectKey::default(), &all()).await.unwrap();
            assert_eq!(page.total, 4);
        });
    }
}

#[test]
fn whoever_is_making_the_database_is_waited_for() {
    let (_folder, file) = place();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let making = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(100));
        drop(other);
    });
    at(&file).unwrap();
    making.join().unwrap();
}

fn all() -> Filter {
    Filter::all(Kind::Section)
}

/// Adds a line to one section.
async fn add(s: &Storage) {
    let id = DocumentId::section("counter");
    let ids = [id.clone()];
    let add = s.decide(&ids, move |snapshot| {
        let before = snapshot.documents[0].as_ref().map_or(&b""[..], |document| &document.body);
        Ok(vec![Change::put(id.clone(), [before, b"x\n"].concat())])
    });
    add.await.unwrap();
}

#[test]
fn concurrent_commits_of_two_stores_all_take_effect() {
    let (_folder, file) = place();
    let writers = [0, 1, 2].map(|_| {
        let file = file.clone();
        std::thread::spawn(move || {
            run(async {
                let s = storage(&file);
                for _ in 0..10 {
                    join_all((0..5).map(|_| add(&s))).await;
                }
            });
        })
    });
    for writer in writers {
        writer.join().unwrap();
    }
    run(async {
        let body = storage(&file).body(&DocumentId::section("counter")).await.unwrap();
        assert_eq!(body.len(), 2 * 150, "150 additions, none lost");
    });
}

#[test]
fn one_name_in_two_projects_is_two_documents() {
    let (_folder, file) = place();
    run(async {
        let a = storage(&file);
        let b = Storage { project: a.other.clone(), ..storage(&file) };
        let id = DocumentId::entity("decisions/first");
        a.put(&id, "---\nid: dec-1d2c8f\n---\n").await;
        b.put(&id, "---\nid: dec-ffffff\n---\n").await;
        let words = ["dec-1d2c8f".to_owned(), id.name.clone()];
        for (s, by_reference) in [(&a, 1), (&b, 0)] {
            let named = s.store.lookup(&s.project, Kind::Entity, &words).await.unwrap();
            assert_eq!([named[0].len(), named[1].len()], [by_reference, 1]);
            let page = s.store.find(&s.project, &Filter::all(Kind::Entity)).await.unwrap();
            assert_eq!(page.total, 1);
        }
        b.delete(&id).await;
        assert_eq!(a.body(&id).await.as_deref(), Some(&b"---\nid: dec-1d2c8f\n---\n"[..]));
        assert_eq!(b.body(&id).await, None);
    });
}

#[test]
fn a_copy_is_of_one_moment_while_others_write() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        // Each commit writes both, so a copy between two commits has both alike.
        let both = |body: String| {
            let ids = [DocumentId::section("left"), DocumentId::entity("right")];
            let changes = ids.clone().map(|id| Change::put(id, body.clone())).to_vec();
            let s = &s;
            async move { s.decide(&ids, move |_| Ok(changes.clone())).await.unwrap() }
        };
        both("0".to_owned()).await;
        let mut earlier = s.store.read().await.unwrap();
        both("1".to_owned()).await;
        s.put(&DocumentId::section("new"), "x").await;
        let records = earlier.next().await.unwrap();
        let records: Vec<_> = records.into_iter().filter_map(into_document).collect();
        assert!(records.len() == 2 && records.iter().all(|record| record.document.body == "0"));
        s.delete(&DocumentId::section("new")).await;
        let writing = async {
            for round in 0..50 {
                both(round.to_string()).await;
            }
        };
        let copying = async {
            for _ in 0..20 {
                let mut source = s.store.read().await.unwrap();
                let records = source.next().await.unwrap();
                let records: Vec<_> = records.into_iter().filter_map(into_document).collect();
                assert_eq!((records.len(), source.total()), (2, Some(2)));
                assert_eq!(records[0].document.body, records[1].document.body);
                assert!(source.next().await.unwrap().is_empty());
            }
        };
        futures_util::join!(writing, copying);
    });
}

#[test]
fn what_came_back_is_named_once() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        let id = DocumentId::entity("first");
        s.put(&id, "one").await;
        s.delete(&id).await;
        let revision = s.put(&id, "two").await.revision;
        let changes =
            s.store.changes(&s.project, Kind::Entity, Revision(0), Refresh::Incremental).await;
        assert_eq!(changes.unwrap(), Changes::Since { revision, ids: vec![id] });
    });
}

/// Commits of a hundred changes each; the last one's revision.
async fn in_parts(s: &Storage, ids: &[DocumentId], change: fn(&DocumentId) -> Change) -> Revision {
    let mut last = Revision(0);
    for part in ids.chunks(100) {
        let changes: Vec<Change> = part.iter().map(change).collect();
        last = s.decide(part, move |_| Ok(changes.clone())).await.unwrap().revision;
    }
    last
}

#[test]
fn history_is_kept_up_to_a_bound() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        let names: Vec<String> = (0..10_100).map(|at| format!("n{at:05}")).collect();
        let ids: Vec<DocumentId> = names.iter().map(DocumentId::entity).collect();
        let since = in_parts(&s, &ids, |id| Change::put(id.clone(), "x")).await;
        let all =
            s.store.changes(&s.project, Kind::Entity, Revision(0), Refresh::Incremental).await;
        assert_eq!(all.unwrap(), Changes::Reset { revision: since }, "too many to list");
        let now = in_parts(&s, &ids, |id| Change::Delete { id: id.clone() }).await;
        let rows = Connection::open(&file).unwrap();
        let held: usize =
            rows.query_one("SELECT count(*) FROM removed", [], |row| row.get(0)).unwrap();
        assert!(held <= 10_000, "{held}");
        let after = |since| s.store.changes(&s.project, Kind::Entity, since, Refresh::Incremental);
        assert_eq!(after(since).await.unwrap(), Changes::Reset { revision: now });
        assert_eq!(after(now).await.unwrap(), Changes::Since { revision: now, ids: Vec::new() });
        let before = Revision(now.0 - 1);
        let Changes::Since { ids, .. } = after(before).await.unwrap() else { panic!("known") };
        assert_eq!(ids.len(), 100);
        let page = s.store.find(&s.project, &Filter::all(Kind::Entity)).await.unwrap();
        assert_eq!(page.total, 0);
    });
    assert!(at(&file).is_ok());
}
