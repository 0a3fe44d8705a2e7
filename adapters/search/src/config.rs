//! The settings of the search index.

use std::path::PathBuf;
use std::sync::Arc;

use reqlore_domain::ports::embedder::Embedder;

#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "models have none")]
pub struct SearchConfig {
    /// The folder of this user's caches; `None` keeps everything in memory.
    pub cache_folder: Option<PathBuf>,
    /// The address of the projects' store; for files the path of the default project. With a
    /// project's key it identifies the project's cache directory. It is never shown.
    pub store: String,
    /// The embedding models, the best one last; may be empty.
    pub embedders: Vec<Arc<dyn Embedder>>,
    /// Limits the memory of indexing besides the index itself.
    pub memory_bytes: usize,
    /// File descriptors that all open indexes may use together.
    pub max_open_files: usize,
}

impl Default for SearchConfig {
    /// No models and no cache folder.
    fn default() -> Self {
        Self {
            cache_folder: None,
            store: String::new(),
            embedders: Vec::new(),
            memory_bytes: 0,
            max_open_files: 512,
        }
    }
}
