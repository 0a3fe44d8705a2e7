//! Durable commits with many callers in flight, at the port, in each storage.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{Change, Commit, DocumentRepository, ReadSet};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use reqlore_storage_sled::SledStore;
use reqlore_storage_sqlite::SqliteStore;

use crate::Result;
use crate::table::{Row, Times};

const IN_FLIGHT: usize = 64;
const COMMITS: usize = 100;
/// The fewest commits a second.
const BAR: f64 = 2_000.0;

pub(crate) fn measure(folder: &Path) -> Result<()> {
    println!("\n{IN_FLIGHT} callers commit at once, each {COMMITS} times");
    let file = folder.join("commits.db");
    let sqlite: Arc<dyn DocumentRepository> =
        Arc::new(SqliteStore::open(&reqlore_storage_sqlite::Config { file })?);
    println!("{}", in_flight("sqlite", &sqlite)?);
    let folder = folder.join("commits");
    let sled: Arc<dyn DocumentRepository> =
        Arc::new(SledStore::open(&reqlore_storage_sled::Config { folder })?);
    println!("{}", in_flight("sled", &sled)?);
    Ok(())
}

fn in_flight(name: &str, store: &Arc<dyn DocumentRepository>) -> Result<Row> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let clock = Instant::now();
    let times: Result<Vec<Duration>> = runtime.block_on(async {
        let callers = (0..IN_FLIGHT).map(|caller| tokio::spawn(write(Arc::clone(store), caller)));
        let callers: Vec<_> = callers.collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await??);
        }
        Ok(times)
    });
    let times = Times::of(times?);
    let seconds = clock.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let rate = (IN_FLIGHT * COMMITS) as f64 / seconds;
    let verdict = if rate >= BAR { "met" } else { "MISSED" };
    let note = format!("{rate:.0} commits a second; bar {BAR:.0}: {verdict}");
    Ok(Row::new(name).times(&times).note(note))
}

async fn write(store: Arc<dyn DocumentRepository>, caller: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for number in 0..COMMITS {
        let id = DocumentId::section(format!("caller-{caller}"));
        let put = Change::put(id.clone(), format!("**1.** commit {number}\n"));
        let commit = Commit {
            reads: ReadSet::of(vec![id]),
            decide: Box::new(move |_| Ok(vec![put.clone()])),
            act: WriteContext {
                caller: Arc::new(Caller::local("bench", Access::Write)),
                tool: "bench",
                reason: String::new(),
                correlation_id: String::new(),
                at: Timestamp::default(),
                audited: None,
                once: None,
            },
        };
        let clock = Instant::now();
        store.commit(&ProjectKey::default(), commit).await?;
        times.push(clock.elapsed());
    }
    Ok(times)
}
