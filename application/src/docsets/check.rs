//! What a person should mend in the configuration of the docsets.

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::Configuration;
use reqlore_domain::document::DocumentId;
use reqlore_domain::error::Result;
use reqlore_domain::project::ProjectKey;

use crate::Ports;
use crate::finding::Finding;

/// Every fault of the configuration, likely slips in it, and folders that are not there.
pub(crate) async fn check(ports: &Ports, project: &ProjectKey) -> Result<Vec<Finding>> {
    let id = DocumentId::docsets();
    let found = ports.documents.get(project, std::slice::from_ref(&id)).await?;
    // A project without docsets has nothing to mend.
    let Some(document) = found.into_iter().next().flatten() else { return Ok(Vec::new()) };
    let text = match document.text() {
        Ok(text) => text,
        Err(fault) => return Ok(vec![Finding::whole(&id, fault)]),
    };
    let folder = ports.projects.folder(project).await?;
    let on_line = |Diagnostic { line, column, message }: Diagnostic| {
        let message = format!("column {}: {message}", column.unwrap_or(1));
        Finding::new(&id, Diagnostic::new(line, message))
    };
    let configuration = match Configuration::read(text, &folder) {
        Ok(configuration) => configuration,
        Err(faults) => return Ok(faults.into_iter().map(on_line).collect()),
    };
    let mut findings: Vec<Finding> = configuration.hints.into_iter().map(on_line).collect();
    for docset in &configuration.docsets {
        if !ports.projects.has_folder(&docset.local_path).await {
            let message = format!(
                "the folder {} of docset {} is not there; put the documentation there, or name \
                 its folder with `local_path`",
                docset.local_path, docset.name
            );
            findings.push(Finding::new(&id, Diagnostic::new(docset.line, message)));
        }
    }
    findings.sort_by_key(|finding| finding.line);
    Ok(findings)
}
