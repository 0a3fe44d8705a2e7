//! What a person should mend in a project, over all slices; `reqlore check` prints it.

use reqlore_domain::error::Result;
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::Act;
use reqlore_domain::ports::projects::Slice;

use crate::backlog::check::Backlog;
use crate::backlog::mended::Mended;
use crate::backlog::relink::relink;
use crate::backlog::renumber::{renumber, younger};
use crate::finding::Finding;
use crate::{Ports, backlog, docsets, knowledge, sections};

/// Everything there is to mend in the server's own project: slice by slice, by document and line.
pub async fn check(ports: &Ports) -> Result<Vec<Finding>> {
    let project = async |slice| ports.projects.resolve(None, slice).await;
    let mut findings = sections::check::check(ports, &project(Slice::Sections).await?).await?;
    findings.extend(backlog::check::check(ports, &project(Slice::Backlog).await?).await?);
    findings.extend(docsets::check::check(ports, &project(Slice::Docsets).await?).await?);
    findings.extend(knowledge::check::check(ports, &project(Slice::Knowledge).await?).await?);
    Ok(findings)
}

/// Mends what can be mended without asking a person: links that another branch's renumbering left
/// behind follow it, and of equal references the younger item gets a new one (rulings 3). An error
/// means that nothing was begun.
pub async fn fix(ports: &Ports, caller: Caller) -> Result<Mended> {
    let project = ports.projects.resolve(None, Slice::Backlog).await?;
    let act = Act {
        caller,
        tool: "check --fix",
        reason: "two items had one reference".to_owned(),
        correlation_id: String::new(),
        at: ports.clock.now(),
    };
    let backlog = Backlog::read(ports, &project).await?;
    let younger = younger(ports, &backlog).await?;
    let mut mended = Mended::default();
    relink(ports, &backlog, &act, &mut mended).await;
    renumber(ports, younger, &act, &mut mended).await;
    Ok(mended)
}
