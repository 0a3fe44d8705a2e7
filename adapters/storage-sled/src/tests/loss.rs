//! Databases that lost commits are refused; an accepted loss never leads to a second use of a number.

use std::fs;
use std::path::Path;

use reqlore_contract::audit::audited_context;
use reqlore_contract::run;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_durable_fs::commit_counter::CommitCounter;
use tempfile::{TempDir, tempdir};

use super::corruption::add_item;
use super::files::copy_files;
use super::{close, config, get, open, open_both, open_error, put, verified_rows};
use crate::files::{ACKNOWLEDGED, DB};
use crate::open::wait_until_closed;

const LOST: &str = "lacks changes that were acknowledged";

fn accept(folder: &Path) -> StoreResult<AcceptedLoss> {
    crate::accept_loss(&config(folder), audited_context())
}

/// A database with the items 1 to 5 whose `db` was replaced by one with the items 1 to 3.
fn outdated_database() -> TempDir {
    let (folder, older) = (tempdir().unwrap(), tempdir().unwrap());
    let sled = folder.path().join("sled");
    run(async {
        for (first, last) in [(1, 3), (4, 5)] {
            let store = open(&folder);
            for number in first..=last {
                assert_eq!(add_item(&store, &format!("item {number}")).await, number);
            }
            close(&folder, store);
            if last == 3 {
                copy_files(&sled, older.path());
            }
        }
    });
    let count = fs::read(sled.join(ACKNOWLEDGED)).unwrap();
    fs::remove_dir_all(&sled).unwrap();
    copy_files(older.path(), &sled);
    fs::write(sled.join(ACKNOWLEDGED), count).unwrap();
    folder
}

#[test]
fn accepted_loss_never_issues_a_lost_number_again() {
    let folder = outdated_database();
    let text = open_error(folder.path());
    assert!(text.contains(LOST) && text.contains("`reqlore check --accept-loss`"), "{text}");
    let count_file = folder.path().join("sled").join(ACKNOWLEDGED);
    let old_count = fs::read(&count_file).unwrap();
    let accepted = accept(folder.path()).unwrap();
    assert!(accepted.loss.contains(LOST), "{}", accepted.loss);
    assert_eq!(accepted.raised.len(), 1);
    assert_eq!(accepted.raised[0].number, 5, "only the count knows of the items 4 and 5");
    let refused = accept(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("has all its commits"), "{refused}");
    wait_until_closed(&folder.path().join("sled")).unwrap();
    run(async {
        let store = open(&folder);
        assert_eq!(add_item(&store, "new").await, 6);
        let rows = verified_rows(&store).await;
        let event = rows[rows.len() - 2].parse_event().unwrap();
        assert!(event.reason.contains(LOST), "{event:?}");
        assert_eq!(store.find_damage().await.unwrap(), [""; 0]);
        close(&folder, store);
        // The database has a new identity, so files from before the loss are not mixed with it.
        fs::write(count_file, old_count).unwrap();
        assert!(open_error(folder.path()).contains("belongs to another database"));
    });
}

#[test]
fn missing_or_foreign_count_is_refused_and_accepted() {
    let other = outdated_database();
    for is_missing in [true, false] {
        let folder = tempdir().unwrap();
        let count = folder.path().join("sled").join(ACKNOWLEDGED);
        run(async {
            let store = open(&folder);
            add_item(&store, "mentions REQ-040").await;
            close(&folder, store);
            if is_missing {
                fs::remove_file(&count).unwrap();
            } else {
                fs::copy(other.path().join("sled").join(ACKNOWLEDGED), &count).unwrap();
            }
            let text = open_error(folder.path());
            assert!(text.contains("acknowledged") && text.contains("--accept-loss"), "{text}");
            accept(folder.path()).unwrap();
            let store = open(&folder);
            let next = add_item(&store, "new").await;
            assert_eq!(next, 41, "the text mentions the number 40");
            close(&folder, store);
        });
    }
}

#[test]
fn damaged_or_complete_database_has_no_loss_to_accept() {
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    let refused = accept(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("has no file db"), "{refused}");
    assert!(fs::symlink_metadata(&sled).is_err(), "it creates nothing");
    run(async {
        let store = open(&folder);
        put(&store, &DocumentId::section("a"), "kept").await.unwrap();
        let in_use = accept(folder.path()).unwrap_err().to_string();
        assert!(in_use.contains("another process"), "{in_use}");
        close(&folder, store);
        let complete = accept(folder.path()).unwrap_err().to_string();
        assert!(complete.contains("has all its commits"), "{complete}");
        wait_until_closed(&sled).unwrap();
        assert!(get(&open(&folder), &DocumentId::section("a")).await.unwrap().is_some());
        wait_until_closed(&sled).unwrap();
        let (store, database) = open_both(&folder);
        let (key, _) = database.tree().0.first().unwrap().unwrap();
        database.tree().0.insert(key, b"damaged").unwrap();
        drop(database);
        assert_eq!(store.known_damage(), None);
        let found = store.find_damage().await.unwrap();
        assert_eq!(found, ["row 1 of table store"]);
        assert!(store.known_damage().unwrap().contains("row 1 of table store"));
        close(&folder, store);
        fs::remove_file(sled.join(ACKNOWLEDGED)).unwrap();
        let damaged = accept(folder.path()).unwrap_err().to_string();
        assert!(damaged.contains("is damaged"), "{damaged}");
        assert!(fs::metadata(sled.join(DB)).unwrap().len() > 0);
        assert_eq!(CommitCounter::read(&sled.join(ACKNOWLEDGED)).unwrap(), None);
    });
}
