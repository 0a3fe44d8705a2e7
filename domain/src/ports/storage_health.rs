//! Port for the health of a storage: damage that is known, and a search for more.

use async_trait::async_trait;

use super::documents::StoreResult;

/// Reports damaged content. By default a storage finds damage only in its reads.
#[async_trait]
pub trait StorageHealth: Send + Sync {
    /// The damage that this process knows of, as a sentence with the next step; also a file that
    /// was lost while it was open. While there is any, all writes are refused. Only a restart ends
    /// damage of the content.
    fn known_damage(&self) -> Option<String> {
        None
    }

    /// Reads everything that an export reads, and more. Returns a text for each damaged object, of
    /// at most a hundred; an error if the content could not be read at all.
    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }
}
