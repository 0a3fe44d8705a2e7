//! The cost of open indexes, and its limit for all together.

/// Maximum cost of all open indexes; see [`IndexCost::readers`].
pub(crate) const MAX_READERS: usize = 256;

/// The cost of an index in memory, which allows at most eight of them.
pub(crate) const MEMORY_READERS: usize = MAX_READERS / 8;

/// The resources that an open index takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexCost {
    /// Open files.
    pub(crate) files: usize,
    /// 1 for an index on disk; more for one in memory, which has all its texts there.
    pub(crate) readers: usize,
    /// Size of the files on disk.
    pub(crate) disk_bytes: u64,
    pub(crate) unembedded_texts: usize,
}
