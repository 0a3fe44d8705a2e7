//! The ordered tree of an engine.

use std::borrow::Borrow;

use reqlore_domain::ports::documents::StoreResult;

/// An ordered tree of an engine. Keys that begin with `FIRST_FREE_BYTE` or a higher byte belong
/// to the engine.
pub trait OrderedTree {
    type Bytes: Borrow<[u8]> + Ord + Clone + From<Vec<u8>>;

    /// Rows with longer keys are refused.
    const MAX_KEY_BYTES: usize;
    /// Longer values are split.
    const MAX_VALUE_BYTES: usize;

    fn get(&self, key: &[u8]) -> StoreResult<Option<Self::Bytes>>;

    /// The keys from `start` to below `end`, with their values.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        is_descending: bool,
    ) -> impl Iterator<Item = StoreResult<(Self::Bytes, Self::Bytes)>>;
}
