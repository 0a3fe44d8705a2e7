//! `list_record_templates`: the templates that forms and `reqlore add` begin with. No list names it
//! to models.

use async_trait::async_trait;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::read_all;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::template::{RecordTemplate, TemplateList};

use crate::answers::answer::{ToolAnswer, body_answer};
use crate::check::finding::CheckFinding;
use crate::documents::MAX_READ_DOCUMENTS;
use crate::ports::ApplicationPorts;
use crate::tools::tool::{NoArguments, Tool, ToolRequest, whole_tool};

/// Maximum number of templates of a project; further ones are reported.
const MAX_TEMPLATES: usize = 100;

pub(crate) struct ListRecordTemplates;

#[async_trait]
impl Tool for ListRecordTemplates {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_listed: false,
            ..whole_tool::<NoArguments, TemplateList>(
                "list_record_templates",
                "List the templates of new records",
                "Returns the fields and texts that new items and entities begin with.",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let NoArguments {} = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let project = &call.caller.project;
        let (mut templates, mut lines) = (Vec::new(), Vec::new());
        for (id, template) in read_templates(&context.ports, project).await? {
            if let Ok(template) = template {
                lines.push(id.to_string());
                templates.push(template);
            }
        }
        let text = if lines.is_empty() { "No templates".to_owned() } else { lines.join("\n") };
        body_answer(text, &TemplateList { project: project.to_string(), templates })
    }
}

/// The templates in the order of their names, or the reason why one cannot be used.
async fn read_templates(
    ports: &ApplicationPorts,
    project: &ProjectKey,
) -> Result<Vec<(DocumentId, Result<RecordTemplate, Diagnostic>)>> {
    let (metadata, _) = read_all(&*ports.documents, project, DocumentKind::Template).await?;
    let schema = ports.schema(project).await?;
    let first = metadata.iter().take(MAX_TEMPLATES).filter(|meta| meta.diagnostic.is_none());
    let ids: Vec<DocumentId> = first.map(|meta| meta.id.clone()).collect();
    let mut documents = Vec::with_capacity(ids.len());
    for batch in ids.chunks(MAX_READ_DOCUMENTS) {
        documents.extend(ports.documents.get(project, batch).await?);
    }
    let mut documents = documents.into_iter();
    let mut templates = Vec::new();
    for (index, meta) in metadata.iter().enumerate() {
        let id = meta.id.clone();
        if index == MAX_TEMPLATES {
            let message = format!("a project has at most {MAX_TEMPLATES} templates; remove some");
            templates.push((id, Err(Diagnostic::new(None, message))));
            break;
        }
        if let Some(problem) = &meta.diagnostic {
            templates.push((id, Err(problem.clone())));
            continue;
        }
        let Some(document) = documents.next().flatten() else { continue };
        let template =
            document.text().and_then(|text| RecordTemplate::parse(&id.name, text, &schema));
        templates.push((id, template.map_err(|problem| Diagnostic::new(None, problem))));
    }
    Ok(templates)
}

/// The problems that `reqlore check` reports.
pub(crate) async fn find_template_problems(
    ports: &ApplicationPorts,
    project: &ProjectKey,
) -> Result<Vec<CheckFinding>> {
    let mut findings = Vec::new();
    for (id, template) in read_templates(ports, project).await? {
        let problems = template.map_or_else(|problem| vec![problem], |one| one.diagnostics);
        findings.extend(problems.into_iter().map(|problem| CheckFinding::new(&id, problem)));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_support::TestApplication;

    #[tokio::test]
    async fn templates_are_listed_and_wrong_ones_are_findings() {
        let testing = TestApplication::new();
        let answer = testing.data("list_record_templates", json!({})).await;
        assert_eq!(answer["templates"], json!([]));
        let schema = "[fields.risk]\nkinds = [\"epic\"]\ntype = \"choice\"\nvalues = [\"High\"]\n";
        testing.write(DocumentId::schema(), schema).await;
        for (name, text) in [
            ("car", "Text"),
            ("decision-adr", "---\n<<<<<<< HEAD\n=======\n>>>>>>> b\n---\n"),
            ("epic", "---\nrisk: High\npriority: 9\n---\nWhy?\n"),
            ("idea", "---\nrisk: Low\n---\n"),
        ] {
            testing.write(DocumentId::template(name), text).await;
        }
        testing.write(DocumentId::template("issue"), &b"\xff"[..]).await;
        let answer = testing.data("list_record_templates", json!({})).await;
        let expected = json!([
            { "kind": "epic", "name": "", "values": { "risk": "High", "description": "Why?" } },
            { "kind": "idea", "name": "", "values": {} },
        ]);
        assert_eq!(answer["templates"], expected);
        let findings = testing.check().await;
        for start in [
            ".reqlore/templates/car.md:: the name begins with none of the kinds epic, ",
            ".reqlore/templates/decision-adr.md:2: ",
            ".reqlore/templates/epic.md:3: priority: \"9\" is invalid; use one of Critical",
            ".reqlore/templates/idea.md:2: risk: it is not a field of ideas; remove it",
            ".reqlore/templates/issue.md:: ",
        ] {
            assert!(findings.iter().any(|found| found.starts_with(start)), "{start} {findings:?}");
        }
        assert_eq!(findings.len(), 5, "{findings:?}");
    }
}
