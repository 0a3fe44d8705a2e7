//! What a person should mend in AGENTS.md and the sections.

use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentMeta, Kind};
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::Filter;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::sections::Section;
use reqlore_domain::sections::instructions;

use crate::Ports;
use crate::finding::Finding;

/// Everything there is to mend in a project's sections, by document and line.
pub(crate) async fn check(ports: &Ports, project: &ProjectKey) -> Result<Vec<Finding>> {
    let page = ports.documents.find(project, &Filter::all(Kind::Section)).await?;
    let mut findings = Vec::new();
    for head in &page.heads {
        if let Some(fault) = &head.fault {
            findings.push(Finding::whole(&head.id, fault.message.clone()));
            continue;
        }
        let found = ports.documents.get(project, std::slice::from_ref(&head.id)).await?;
        let Some(document) = found.into_iter().flatten().next() else {
            continue;
        };
        let Ok(section) = document.text().map(Section::of) else {
            continue;
        };
        let found = section.diagnostics().into_iter();
        findings.extend(found.map(|found| Finding::new(&head.id, found)));
    }
    for pair in page.heads.windows(2) {
        if pair[0].id.name.to_lowercase() == pair[1].id.name.to_lowercase() {
            let message = format!("differs only in case from {}; rename one", pair[0].id);
            findings.push(Finding::whole(&pair[1].id, message));
        }
    }
    findings.extend(check_list(ports, project, &page.heads).await?);
    Ok(findings)
}

/// Does AGENTS.md list the sections that are there?
async fn check_list(
    ports: &Ports,
    project: &ProjectKey,
    heads: &[Arc<DocumentMeta>],
) -> Result<Vec<Finding>> {
    let id = DocumentId::instructions();
    let found = ports.documents.get(project, std::slice::from_ref(&id)).await?;
    // A project that has none yet, or just got the placeholder, has nothing to mend.
    let Some(document) = found.into_iter().flatten().next() else { return Ok(Vec::new()) };
    if heads.is_empty() && document.body == instructions::PLACEHOLDER {
        return Ok(Vec::new());
    }
    let Ok(source) = std::str::from_utf8(&document.body) else {
        return Ok(vec![Finding::whole(&id, "not UTF-8 text; save the file as UTF-8".to_owned())]);
    };
    let titles = heads.iter().map(|head| (head.id.name.clone(), head.title.clone())).collect();
    let is_true = instructions::with_sections(source, &titles).is_none();
    let message = "the list under \"## Sections\" is not what is there; the next set mends it";
    Ok(if is_true { Vec::new() } else { vec![Finding::whole(&id, message.to_owned())] })
}
