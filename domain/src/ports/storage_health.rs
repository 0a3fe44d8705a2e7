//! Port for the health of a storage: damage that is known, and a search for more.

use async_trait::async_trait;

use super::documents::StoreResult;

/// Numbers of a storage on a database server, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatabaseStatistics {
    /// Maximum number of connections that read. The writer has one more.
    pub max_connections: u64,
    pub idle_connections: u64,
    pub used_connections: u64,
    /// Reads that wait for a connection.
    pub waiting_reads: u64,
    pub writes: WriteStatistics,
}

/// Counts since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteStatistics {
    /// Transactions, with repetitions.
    pub transactions: u64,
    /// Commits in these transactions.
    pub writes: u64,
    /// Repetitions after a conflict or a lost connection.
    pub retries: u64,
    /// Connections lost at a commit, so that the next transaction had to find the outcome.
    pub unknown_outcomes: u64,
}

/// Reports damaged content. By default a storage finds damage only in its reads.
#[async_trait]
pub trait StorageHealth: Send + Sync {
    /// The damage that this process knows of, as a sentence with the next step; also a file that
    /// was lost while it was open. While there is any, all writes are refused. Only a restart ends
    /// damage of the content.
    fn known_damage(&self) -> Option<String> {
        None
    }

    /// The present numbers of a storage on a database server; `None` for other storages.
    fn database_statistics(&self) -> Option<DatabaseStatistics> {
        None
    }

    /// Reads everything that an export reads, and more. Returns a text for each damaged object, of
    /// at most a hundred; an error if the content could not be read at all.
    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }
}
