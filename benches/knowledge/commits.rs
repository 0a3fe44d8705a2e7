//! Durable commits of many concurrent callers at the port of each database storage.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{CommitRequest, DocumentChange, ReadSet};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::harness::Result;
use crate::harness::ports::{open_store, write_context};
use crate::harness::report::{Row, Times, per_second};

const IN_FLIGHT: usize = 64;
const COMMITS: usize = 100;
/// Minimum commits per second.
const BAR: f64 = 2_000.0;

pub(crate) fn measure(folder: &Path) -> Result<()> {
    println!("\n{IN_FLIGHT} callers commit at once, each {COMMITS} times");
    for storage in ["sqlite", "sled"] {
        println!("{}", measure_storage(storage, &open_store(&folder.join("commits"), storage)?)?);
    }
    Ok(())
}

fn measure_storage(name: &str, store: &Arc<dyn Store>) -> Result<Row> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let clock = Instant::now();
    let times: Result<Vec<Duration>> = runtime.block_on(async {
        let callers =
            (0..IN_FLIGHT).map(|caller| tokio::spawn(commit_repeatedly(Arc::clone(store), caller)));
        let callers: Vec<_> = callers.collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await??);
        }
        Ok(times)
    });
    let times = Times::from_unsorted(times?);
    let rate = per_second(IN_FLIGHT * COMMITS, clock.elapsed());
    Ok(Row::new(name).times(&times).at_least(BAR, rate))
}

async fn commit_repeatedly(store: Arc<dyn Store>, caller: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for number in 0..COMMITS {
        let id = DocumentId::section(format!("caller-{caller}"));
        let put = DocumentChange::put(id.clone(), format!("**1.** commit {number}\n"));
        let commit = CommitRequest {
            read_set: ReadSet::of_documents(vec![id]),
            decide: Box::new(move |_| Ok(vec![put.clone()])),
            context: write_context(Timestamp::default()),
        };
        let clock = Instant::now();
        store.commit(&ProjectKey::default(), commit).await?;
        times.push(clock.elapsed());
    }
    Ok(times)
}
