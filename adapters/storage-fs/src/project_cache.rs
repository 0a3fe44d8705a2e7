//! An LRU cache with one value per project and a cost budget. Values in use are never evicted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use reqlore_domain::project_key::ProjectKey;

#[derive(Debug)]
pub(crate) struct ProjectCache<V> {
    state: Mutex<CacheState<V>>,
    /// In the unit of the costs, such as bytes.
    max_cost: usize,
}

#[derive(Debug)]
struct CacheState<V> {
    entries: LruCache<ProjectKey, CacheEntry<V>>,
    /// The sum of the entries' costs.
    cost: usize,
}

#[derive(Debug)]
struct CacheEntry<V> {
    value: Arc<V>,
    cost: usize,
}

impl<V> ProjectCache<V> {
    pub(crate) fn new(max_cost: usize) -> Self {
        // Unbounded: `evict` removes entries, because a value in use must stay.
        let state = CacheState { entries: LruCache::unbounded(), cost: 0 };
        Self { state: Mutex::new(state), max_cost }
    }

    /// Returns the project's value. A new one has a cost of 1. Evicts nothing.
    pub(crate) fn get_or_insert(&self, project: &ProjectKey, make: impl FnOnce() -> V) -> Arc<V> {
        let mut state = self.lock();
        if let Some(entry) = state.entries.get(project) {
            return Arc::clone(&entry.value);
        }
        let value = Arc::new(make());
        state.entries.put(project.clone(), CacheEntry { value: Arc::clone(&value), cost: 1 });
        state.cost += 1;
        value
    }

    pub(crate) fn set_cost(&self, project: &ProjectKey, cost: usize) {
        let mut state = self.lock();
        let Some(entry) = state.entries.peek_mut(project) else { return };
        let old = std::mem::replace(&mut entry.cost, cost);
        state.cost = state.cost - old + cost;
    }

    /// Removes the least recently used idle value; `None` if the budget is not exceeded. The caller
    /// drops the value, which may take long.
    pub(crate) fn evict(&self) -> Option<(ProjectKey, Arc<V>)> {
        let mut state = self.lock();
        if state.cost <= self.max_cost {
            return None;
        }
        let mut from_oldest = state.entries.iter().rev();
        // Only the cache refers to an idle value, and its lock is held.
        let idle = from_oldest.find(|(_, entry)| Arc::strong_count(&entry.value) == 1);
        let project = idle.map(|(project, _)| project.clone())?;
        let entry = state.entries.pop(&project)?;
        state.cost -= entry.cost;
        Some((project, entry.value))
    }

    pub(crate) fn all(&self) -> Vec<(ProjectKey, Arc<V>)> {
        let state = self.lock();
        let entries = state.entries.iter();
        entries.map(|(project, entry)| (project.clone(), Arc::clone(&entry.value))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_over_budget_evicts_least_recently_used_idle_value() {
        let cache = ProjectCache::new(30);
        let key = |number: usize| ProjectKey::new(format!("p-{number}"));
        let held = cache.get_or_insert(&key(0), || 0);
        for number in 0..4 {
            cache.get_or_insert(&key(number), || number);
            cache.set_cost(&key(number), 10);
        }
        cache.get_or_insert(&key(1), || unreachable!());
        assert_eq!(cache.evict(), Some((key(2), Arc::new(2))));
        assert_eq!((cache.evict(), *held), (None, 0));
        cache.set_cost(&key(0), 31);
        let evicted = std::iter::from_fn(|| cache.evict()).map(|(_, value)| *value);
        assert_eq!(evicted.collect::<Vec<_>>(), [3, 1], "a value in use stays over the budget");
        drop(held);
        assert_eq!(cache.evict(), Some((key(0), Arc::new(0))));
        assert_eq!((cache.evict(), cache.all().len()), (None, 0));
    }
}
