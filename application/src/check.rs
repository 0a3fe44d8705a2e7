//! What a person should mend in a project, over all slices; `reqlore check` prints it.

use std::sync::Arc;

use reqlore_domain::error::Result;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::write_context::WriteContext;

use crate::backlog::check::Names;
use crate::backlog::find::Backlog;
use crate::backlog::repair::{Mended, relink, renumber, younger};
use crate::finding::Finding;
use crate::{Ports, backlog, docsets, knowledge, sections};

/// Everything there is to mend in the server's own project: slice by slice, by document and line.
pub async fn check(ports: &Ports) -> Result<Vec<Finding>> {
    let caller = Caller::local("check", Access::Read);
    let project = async |slice| ports.projects.resolve(&caller, None, slice).await;
    let mut findings = sections::check::check(ports, &project(Toolset::Sections).await?).await?;
    findings.extend(backlog::check::check(ports, &project(Toolset::Backlog).await?).await?);
    findings.extend(docsets::check::check(ports, &project(Toolset::Docsets).await?).await?);
    findings.extend(knowledge::check::check(ports, &project(Toolset::Knowledge).await?).await?);
    Ok(findings)
}

/// Mends what can be mended without asking a person: links that another branch's renumbering left
/// behind follow it, and of equal references the younger item gets a new one (rulings 3). An error
/// means that nothing was begun.
pub async fn fix(ports: &Ports, caller: Caller) -> Result<Mended> {
    let project = ports.projects.resolve(&caller, None, Toolset::Backlog).await?;
    let act = WriteContext {
        caller: Arc::new(caller),
        tool: "check --fix",
        reason: "two items had one reference".to_owned(),
        correlation_id: String::new(),
        at: ports.clock.now(),
        audited: None,
        once: None,
    };
    let backlog = Backlog { ports, project: &project };
    let names = Names::read(ports, &project).await?;
    let younger = younger(backlog, &names).await?;
    let mut mended = Mended::default();
    relink(backlog, &names, &act, &mut mended).await;
    renumber(backlog, younger, &act, &mut mended).await;
    Ok(mended)
}
