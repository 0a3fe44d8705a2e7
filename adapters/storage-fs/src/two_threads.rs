//! Splits work on many files between two threads.

use std::thread;

/// With fewer files, starting a thread costs more than it saves.
const MIN_FILES: usize = 65;

/// Returns the results of all items in their order. `work` returns one for each item, or fewer.
pub(crate) fn on_two_threads<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&[T]) -> Vec<R> + Sync,
) -> Vec<R> {
    if items.len() < MIN_FILES {
        return work(items);
    }
    let (left, right) = items.split_at(items.len() / 2);
    thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, || work(right));
        let mut results = work(left);
        results.extend(match spawned.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(results)) => results,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The thread limit is reached, so this thread does all the work.
            Err(_) => work(right),
        });
        results
    })
}
