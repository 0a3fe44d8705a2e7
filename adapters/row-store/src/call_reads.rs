//! Reads of one call. The first asks the database, and so learns the state of the project. Later
//! ones find rows that this server read in the same state.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqlore_domain::ports::documents::{ReadCall, StoreResult};
use tokio::task_local;

use crate::database::Database;
use crate::row::{RowKey, RowQuery, TableRow};
use crate::tables::{
    BODIES, COUNTS, DOCUMENTS, FIELD_VALUES, ITEM_COUNTS, ITEM_FIELDS, LINKS, PROJECTS, Table,
};

/// Tables with rows that change only with the row of their project.
static CACHED_TABLES: [&Table; 7] =
    [&DOCUMENTS, &BODIES, &LINKS, &FIELD_VALUES, &ITEM_FIELDS, &ITEM_COUNTS, &COUNTS];
/// Maximum size of the cache. A full cache is cleared.
const CACHE_BYTES: usize = 32 << 20;
/// Larger results are not kept: they belong to an export or a new search index.
const MAX_RESULT_BYTES: usize = 256 << 10;

/// The row of a project in `projects`: its state. None before the first commit.
type ProjectState = Option<TableRow>;

/// Rows that this server read, for all its calls.
#[derive(Default)]
struct RowCache {
    contents: Mutex<CacheContents>,
}

#[derive(Default)]
struct CacheContents {
    projects: HashMap<RowKey, ProjectRows>,
    bytes: usize,
}

/// The results of queries in one state of a project.
struct ProjectRows {
    state: ProjectState,
    results: HashMap<RowQuery, Vec<TableRow>>,
}

impl fmt::Debug for RowCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RowCache").finish_non_exhaustive()
    }
}

impl RowCache {
    fn lock(&self) -> MutexGuard<'_, CacheContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The results of these queries, `None` for each that is not known in this state.
    fn find(
        &self,
        project: &RowKey,
        state: &ProjectState,
        queries: &[RowQuery],
    ) -> Vec<Option<Vec<TableRow>>> {
        let contents = self.lock();
        let rows = contents.projects.get(project).filter(|rows| rows.state == *state);
        let result = |query| rows.and_then(|rows| rows.results.get(query)).cloned();
        queries.iter().map(result).collect()
    }

    fn insert(&self, project: &RowKey, state: &ProjectState, query: RowQuery, result: &[TableRow]) {
        let bytes = size_bytes(&query, result);
        if bytes > MAX_RESULT_BYTES {
            return;
        }
        let mut contents = self.lock();
        if contents.bytes + bytes > CACHE_BYTES {
            *contents = CacheContents::default();
        }
        let CacheContents { projects, bytes: all_bytes } = &mut *contents;
        let rows = projects
            .entry(project.clone())
            .or_insert_with(|| ProjectRows { state: state.clone(), results: HashMap::new() });
        if rows.state != *state {
            // Each commit changes the state.
            let old = mem::take(&mut rows.results);
            *all_bytes -= old.iter().map(|(query, rows)| size_bytes(query, rows)).sum::<usize>();
            rows.state.clone_from(state);
        }
        let result = if query.is_narrow {
            result.iter().map(TableRow::detached).collect()
        } else {
            result.to_vec()
        };
        if rows.results.insert(query, result).is_none() {
            *all_bytes += bytes;
        }
    }
}

/// The approximate memory of a query and its result.
fn size_bytes(query: &RowQuery, result: &[TableRow]) -> usize {
    const QUERY_BYTES: usize = 512;
    const ROW_BYTES: usize = 64;
    let rows = query.tuples.iter().chain(result);
    QUERY_BYTES + rows.map(|row| ROW_BYTES + row.as_bytes().len()).sum::<usize>()
}

/// Cached reads of a database, shared by all calls.
#[derive(Debug)]
pub(crate) struct CallReads {
    database: Arc<dyn Database>,
    cache: RowCache,
}

task_local! {
    /// The project that the present call read last, and its state.
    static SEEN: RefCell<Option<(RowKey, ProjectState)>>;
}

/// Runs a call that only reads. Its first read of a project asks the database. Later reads use rows
/// that this server read in the same state.
pub fn in_read_scope(call: ReadCall<'_>) -> ReadCall<'_> {
    Box::pin(SEEN.scope(RefCell::default(), call))
}

/// The state of the project that the call has seen.
fn seen_state(project: &RowKey) -> Option<ProjectState> {
    let seen = SEEN.try_with(|seen| seen.borrow().clone()).ok().flatten()?;
    (seen.0 == *project).then_some(seen.1)
}

fn set_seen(seen: Option<(RowKey, ProjectState)>) {
    // Fails outside of calls.
    let _ = SEEN.try_with(|present| present.replace(seen));
}

impl CallReads {
    pub(crate) fn new(database: Arc<dyn Database>) -> Arc<Self> {
        Arc::new(Self { database, cache: RowCache::default() })
    }

    /// Asks the database for results and for the state of the project.
    async fn ask(
        &self,
        project: &RowKey,
        queries: &[RowQuery],
    ) -> StoreResult<(ProjectState, Vec<Vec<TableRow>>)> {
        let mut reads = queries.to_vec();
        reads.push(RowQuery::keys(&PROJECTS, vec![project.clone()]));
        let mut results = self.database.read(reads).await?;
        let state = results.pop().unwrap_or_default().pop();
        for (query, result) in queries.iter().zip(&results) {
            self.cache.insert(project, &state, query.clone(), result);
        }
        set_seen(Some((project.clone(), state.clone())));
        Ok((state, results))
    }

    /// Runs all queries on one state of the database or of the cache.
    pub(crate) async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        let is_in_call = SEEN.try_with(|_| ()).is_ok();
        let Some(project) = project_of(&queries).filter(|_| is_in_call) else {
            if queries.iter().any(|query| *query.table == PROJECTS) {
                // After reading the changes of a project, a call must not see an earlier state.
                set_seen(None);
            }
            return self.database.read(queries).await;
        };
        let Some(seen) = seen_state(&project) else {
            return Ok(self.ask(&project, &queries).await?.1);
        };
        let mut results = self.cache.find(&project, &seen, &queries);
        let mut missing = Vec::new();
        for (query, result) in queries.iter().zip(&results) {
            if result.is_none() {
                missing.push(query.clone());
            }
        }
        if !missing.is_empty() {
            let (state, found) = self.ask(&project, &missing).await?;
            if state != seen && missing.len() < queries.len() {
                // The project changed, so the other results are of an earlier state.
                return Ok(self.ask(&project, &queries).await?.1);
            }
            let mut found = found.into_iter();
            for result in results.iter_mut().filter(|result| result.is_none()) {
                *result = found.next();
            }
        }
        Ok(results.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// The one project of these queries, if all their results can be cached.
fn project_of(queries: &[RowQuery]) -> Option<RowKey> {
    let project = queries.first()?.tuples.first()?.prefix(1);
    let is_cached = |query: &RowQuery| {
        CACHED_TABLES.contains(&query.table)
            && query.columns.first() == Some(&"project")
            && query.tuples.iter().all(|tuple| tuple.starts_with(&project))
    };
    queries.iter().all(is_cached).then_some(project.clone())
}
