//! Builds the search index of a project for a command that waits for it.

use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;

use crate::ports::ApplicationPorts;
use crate::project_index::ProjectIndexes;

/// Indexes all documents with an outdated or missing version in the index. Returns when the index
/// is complete.
pub async fn build_index(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    progress: &dyn ProgressSink,
) -> Result<()> {
    ProjectIndexes::default().update_search(ports, project, Refresh::Full, progress).await
}
