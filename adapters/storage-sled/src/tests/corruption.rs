//! Corruption suite: every damage of every file is refused or harmless.
//!
//! A database that opens has all rows of the undamaged one, byte for byte, and issues the next
//! number. So no answer can be wrong.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reqlore_contract::run;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{User, UserName, UserRole};
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, ReadSet, Snapshot,
};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_row_store::RowStore;
use sled::IVec;
use tempfile::tempdir;

use super::files::copy_files;
use super::{audited, close, commit, keyed, open, open_both, put};
use crate::database::OpenDatabase;
use crate::files::{ACKNOWLEDGED, DB};
use crate::open::COPY_TIMEOUT;
use crate::open::open_database;
use crate::start;

const ITEMS: u32 = 12;
const BLOCK: u64 = 4096;
const THREADS: usize = 4;

type Rows = Vec<(IVec, IVec)>;

fn rows(database: &OpenDatabase) -> Rows {
    database.tree().0.iter().map(Result::unwrap).collect()
}

async fn add_user(store: &RowStore) {
    let name = UserName::parse("ada").unwrap();
    let user = User { name, role: UserRole::User, created_at: Timestamp(1), disabled_at: None };
    let decide = Box::new(move |_: &_, _: &_| Ok(vec![IdentityChange::User(user.clone())]));
    let (users, tokens, context) = (Vec::new(), Vec::new(), audited());
    store.commit_identities(IdentityCommit { users, tokens, decide, context }).await.unwrap();
}

/// Commits an item with the next number, and returns the number.
pub(super) async fn add_item(store: &RowStore, text: &str) -> u32 {
    let (sender, number) = tokio::sync::oneshot::channel();
    let context = keyed(&format!("key {text}"), audited());
    let (mut sender, text) = (Some(sender), text.to_owned());
    let decide = move |snapshot: &Snapshot| {
        let number = snapshot.next_numbers[0];
        sender.take().map(|sender| sender.send(number));
        let reference = Reference { kind: ItemKind::Requirement, number };
        Ok(vec![DocumentChange::put(reference.document_id("", "aaaaaa"), text.clone())])
    };
    let read_set = ReadSet { sequences: vec![ItemKind::Requirement], ..ReadSet::default() };
    let commit = CommitRequest { read_set, decide: Box::new(decide), context };
    store.commit(&ProjectKey::default(), commit).await.unwrap();
    number.await.unwrap()
}

/// A closed database with rows in all trees, and its files while its first process had it open.
struct Sample {
    live: tempfile::TempDir,
    closed: tempfile::TempDir,
    rows: Rows,
    live_rows: Rows,
}

/// `sections` of 20 kB make the log longer than one segment of sled.
fn sample(sections: usize) -> Sample {
    let (live, closed) = (tempdir().unwrap(), tempdir().unwrap());
    let (rows, live_rows) = run(async {
        let (store, database) = open_both(&closed);
        add_user(&store).await;
        for number in 1..=ITEMS {
            let text = format!("---\nid: x{number}\nuser_story: US-1\n---\n{}", "a ".repeat(200));
            assert_eq!(add_item(&store, &text).await, number);
        }
        for number in 0..sections {
            let text = format!("{number} ").repeat(20_000 / 3);
            put(&store, &DocumentId::section(number.to_string()), &text).await.unwrap();
        }
        let id = DocumentId::entity("long");
        put(&store, &id, &"x".repeat(8192)).await.unwrap();
        put(&store, &id, "---\nid: dec-1d2c8f\n---\n").await.unwrap();
        // Without a snapshot, which a later start writes: sled recovers all pages from the log.
        let live_rows = rows(&database);
        copy_files(&closed.path().join("sled"), &live.path().join("sled"));
        drop(database);
        close(&closed, store);
        let (store, database) = open_both(&closed);
        commit(&store, vec![DocumentChange::Delete { id }]).await.unwrap();
        put(&store, &DocumentId::section("last"), "the last one").await.unwrap();
        let rows = rows(&database);
        drop(database);
        close(&closed, store);
        // Another start writes a snapshot.
        close(&closed, open(&closed));
        (rows, live_rows)
    });
    Sample { live, closed, rows, live_rows }
}

#[derive(Debug, Default)]
struct Outcomes {
    refused: AtomicUsize,
    harmless: AtomicUsize,
    /// The damages that made rows disappear or change, or a message without a next step.
    wrong: Mutex<Vec<String>>,
}

impl Outcomes {
    /// Opens a copy of the files after `damage`.
    fn check(&self, sled: &Path, rows_before: &Rows, name: &str, damage: impl FnOnce(&Path)) {
        let copy = tempdir().unwrap();
        let folder = copy.path().join("sled");
        copy_files(sled, &folder);
        damage(&folder);
        let sync = Box::new(File::sync_all);
        let opened = open_database(&folder, sync, COPY_TIMEOUT).map(Arc::new);
        let opened = opened.and_then(|open| Ok((start(&folder, Arc::clone(&open))?, open)));
        let problem = match opened {
            Ok((store, database)) => {
                self.harmless.fetch_add(1, Ordering::Relaxed);
                if rows(&database) == *rows_before {
                    let number = run(add_item(&store, "new"));
                    (number != ITEMS + 1).then(|| format!("issued {number}"))
                } else {
                    Some("other rows".to_owned())
                }
            }
            Err(error) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let text = error.to_string();
                let names_folder = text.starts_with(&folder.display().to_string());
                let has_next_step = text.contains("reqlore restore") || text.contains(" back");
                (!names_folder || !has_next_step).then_some(text)
            }
        };
        if let Some(problem) = problem {
            self.wrong.lock().unwrap().push(format!("{name}: {problem}"));
        }
    }

    #[track_caller]
    fn assert_none_wrong(&self) {
        let wrong = self.wrong.lock().unwrap();
        assert!(
            wrong.is_empty(),
            "{} wrong, {:?} refused, {:?} harmless: {:#?}",
            wrong.len(),
            self.refused,
            self.harmless,
            &wrong[..wrong.len().min(20)]
        );
        assert!(self.refused.load(Ordering::Relaxed) > 0, "nothing was detected");
    }
}

/// Runs the checks of all positions on several threads.
fn in_parallel(positions: &[u64], check: impl Fn(u64) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(position) = positions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(*position);
                }
            });
        }
    });
}

fn files_of(sled: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(sled).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            files.push(path);
        }
    }
    files
}

fn edit(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

/// Runs a check with the closed and the live files and their rows.
fn for_both(sections: usize, check: impl Fn(&Outcomes, &Path, &Rows)) {
    let sample = sample(sections);
    let outcomes = Outcomes::default();
    for (folder, rows) in [(&sample.closed, &sample.rows), (&sample.live, &sample.live_rows)] {
        check(&outcomes, &folder.path().join("sled"), rows);
    }
    outcomes.assert_none_wrong();
}

#[test]
fn truncated_files_are_refused_or_harmless() {
    for_both(0, |outcomes, sled, rows| {
        for file in files_of(sled) {
            let length = fs::metadata(&file).unwrap().len();
            let step = if file.ends_with(DB) { 1024 } else { 8 };
            let positions: Vec<u64> = (0..length).step_by(step).collect();
            in_parallel(&positions, |position| {
                let name = format!("{} cut at {position} of {length}", file.display());
                outcomes.check(sled, rows, &name, |folder| {
                    edit(&folder.join(file.file_name().unwrap())).set_len(position).unwrap();
                });
            });
        }
    });
}

#[test]
fn zeroed_blocks_are_refused_or_harmless() {
    for_both(30, |outcomes, sled, rows| {
        for file in files_of(sled) {
            let length = fs::metadata(&file).unwrap().len();
            let positions: Vec<u64> = (0..length.div_ceil(BLOCK)).collect();
            in_parallel(&positions, |block| {
                let name = format!("{} block {block} zeroed", file.display());
                outcomes.check(sled, rows, &name, |folder| {
                    let at = block * BLOCK;
                    let size = usize::try_from(BLOCK.min(length - at)).unwrap();
                    let file = edit(&folder.join(file.file_name().unwrap()));
                    file.write_all_at(&vec![0; size], at).unwrap();
                });
            });
        }
    });
}

#[test]
fn flipped_bits_are_refused_or_harmless() {
    for_both(0, |outcomes, sled, rows| {
        for file in files_of(sled) {
            let length = fs::metadata(&file).unwrap().len();
            let step = if length > BLOCK { 509 } else { 1 };
            let positions: Vec<u64> = (0..length).step_by(step).collect();
            in_parallel(&positions, |position| {
                let name = format!("{} bit flipped at {position}", file.display());
                outcomes.check(sled, rows, &name, |folder| {
                    let file = edit(&folder.join(file.file_name().unwrap()));
                    let mut byte = [0];
                    file.read_exact_at(&mut byte, position).unwrap();
                    byte[0] ^= 1 << (position % 8);
                    file.write_all_at(&byte, position).unwrap();
                });
            });
        }
    });
}

#[test]
fn swapped_blocks_are_refused_or_harmless() {
    for_both(0, |outcomes, sled, rows| {
        let length = fs::metadata(sled.join(DB)).unwrap().len();
        let positions: Vec<u64> = (1..length / BLOCK).collect();
        in_parallel(&positions, |block| {
            let name = format!("{} blocks {block} and before swapped", sled.display());
            outcomes.check(sled, rows, &name, |folder| {
                let file = edit(&folder.join(DB));
                let (mut one, mut two) = ([0; 4096], [0; 4096]);
                file.read_exact_at(&mut one, (block - 1) * BLOCK).unwrap();
                file.read_exact_at(&mut two, block * BLOCK).unwrap();
                file.write_all_at(&two, (block - 1) * BLOCK).unwrap();
                file.write_all_at(&one, block * BLOCK).unwrap();
            });
        });
    });
}

#[test]
fn removed_and_lone_files_are_refused_or_harmless() {
    for_both(0, |outcomes, sled, rows| {
        for file in files_of(sled) {
            let name = file.file_name().unwrap();
            let label = format!("{} removed", file.display());
            outcomes.check(sled, rows, &label, |folder| {
                fs::remove_file(folder.join(name)).unwrap();
            });
            let label = format!("{} empty", file.display());
            outcomes.check(sled, rows, &label, |folder| {
                fs::write(folder.join(name), "").unwrap();
            });
            let label = format!("{} alone", file.display());
            outcomes.check(sled, rows, &label, |folder| {
                for other in files_of(folder) {
                    if other.file_name() != Some(name) {
                        fs::remove_file(other).unwrap();
                    }
                }
            });
        }
        outcomes.check(sled, rows, "blobs removed", |folder| {
            fs::remove_dir(folder.join("blobs")).unwrap();
        });
        outcomes.check(sled, rows, "all but the count removed", |folder| {
            for other in files_of(folder) {
                if !other.ends_with(ACKNOWLEDGED) {
                    fs::remove_file(other).unwrap();
                }
            }
        });
    });
}
