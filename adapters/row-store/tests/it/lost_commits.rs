//! A standby took over that lacked the newest commits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqlore_contract::Storage;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::DocumentChange;

use crate::change_reader::{ChangeReader, read_versions};
use reqlore_contract::faulty::{FaultPlan, FaultyDatabase};
use reqlore_row_store::RowStore;
use reqlore_row_store::database::Database;
use reqlore_storage_memory::database::MemoryDatabase;

#[test]
fn lost_commits_make_readers_start_again() {
    reqlore_contract::run(async {
        let simulated = MemoryDatabase::new(1, None);
        let plan = FaultPlan { rate: 0, ..FaultPlan::HIDDEN };
        let inner = Arc::clone(&simulated) as Arc<dyn Database>;
        let faulty = Arc::new(FaultyDatabase::new(inner, plan, 1));
        let database = Arc::clone(&faulty) as Arc<dyn Database>;
        let s = Storage::in_memory(RowStore::start(database).await.unwrap());
        let [kept, lost, new] = ["kept", "lost", "new"].map(DocumentId::section);
        s.put(&kept, "kept").await;
        let standby = simulated.copy();
        s.put(&lost, "lost").await;
        let mut reader = ChangeReader::default();
        while reader.follow(&*s.store, 9).await.unwrap() {}
        // The primary fails, and the server notices only a lost connection.
        faulty.is_dead.store(true, Ordering::Relaxed);
        let ids = std::slice::from_ref(&new);
        let change = DocumentChange::put(new.clone(), "new");
        s.commit_from(ids, move |_| Ok(vec![change.clone()])).await.unwrap_err();
        faulty.is_dead.store(false, Ordering::Relaxed);
        simulated.restore(standby);
        // It gets the revision of the lost commit.
        s.put(&new, "new").await;
        while reader.follow(&*s.store, 9).await.unwrap() {}
        let expected = read_versions(&*s.store, &s.project).await.unwrap();
        assert!(expected.contains_key(&new) && !expected.contains_key(&lost));
        assert_eq!(reader.versions, expected);
    });
}
