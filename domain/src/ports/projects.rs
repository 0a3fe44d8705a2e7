//! The driven port from what a call names to a project.

use async_trait::async_trait;

use crate::error::Result;
use crate::project::ProjectKey;

/// Finds the project of a call. Refusals of roots live behind this port and nowhere else.
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait Projects: Send + Sync {
    /// The project that `root` (S1 `project_root`) names: `default` for the server's own root.
    ///
    /// An `InvalidArgument` error says what a usable root looks like; nothing is created.
    async fn resolve(&self, root: &str) -> Result<ProjectKey>;
}
