//! What a person should mend in a project, over all slices; `reqlore check` prints it.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::Result;
use reqlore_domain::ports::projects::Slice;
use serde::Serialize;

use crate::{Ports, docsets, knowledge, sections};

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The document, as people call it: `AGENTS.md`, `section general`.
    pub document: String,
    /// Counted from 1; absent where the whole document is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    /// A finding on a document as a whole.
    pub(crate) fn whole(id: &DocumentId, message: String) -> Self {
        Self { document: id.to_string(), line: None, message }
    }
}

/// Everything there is to mend in the server's own project: slice by slice, by document and line.
pub async fn check(ports: &Ports) -> Result<Vec<Finding>> {
    let project = async |slice| ports.projects.resolve(None, slice).await;
    let mut findings = sections::check::check(ports, &project(Slice::Sections).await?).await?;
    findings.extend(docsets::check::check(ports, &project(Slice::Docsets).await?).await?);
    findings.extend(knowledge::check::check(ports, &project(Slice::Knowledge).await?).await?);
    Ok(findings)
}
