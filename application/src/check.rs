//! What a person should mend in a project, over all slices; `reqlore check` prints it.

use reqlore_domain::error::Result;
use reqlore_domain::ports::projects::Slice;

use crate::finding::Finding;
use crate::{Ports, docsets, knowledge, sections};

/// Everything there is to mend in the server's own project: slice by slice, by document and line.
pub async fn check(ports: &Ports) -> Result<Vec<Finding>> {
    let project = async |slice| ports.projects.resolve(None, slice).await;
    let mut findings = sections::check::check(ports, &project(Slice::Sections).await?).await?;
    findings.extend(docsets::check::check(ports, &project(Slice::Docsets).await?).await?);
    findings.extend(knowledge::check::check(ports, &project(Slice::Knowledge).await?).await?);
    Ok(findings)
}
