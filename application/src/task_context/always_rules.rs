//! The rules of the sections in `[context] always`.

use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::error::{Error, Result};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::document_label::{DocumentLabel, SECTION_REQUIREMENT};
use reqlore_domain::sections::mentions::requirement_title;
use reqlore_domain::sections::{Requirement, Section};
use reqlore_domain::task_context::{ContextEntry, EntryReason};

use crate::documents::{document_text, get_one};
use crate::ports::ApplicationPorts;
use crate::sections::stored_section;

#[derive(Default)]
pub(crate) struct AlwaysRules {
    pub(crate) entries: Vec<ContextEntry>,
    /// One for each section that gives no rules.
    pub(crate) problems: Vec<String>,
}

/// Reads the rules that always hold, each with at most `max_bytes` of text.
pub(crate) async fn always_rules(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    max_bytes: usize,
) -> Result<AlwaysRules> {
    let mut always = AlwaysRules::default();
    if !ports.settings.toolsets.contains(&Toolset::Sections) {
        return Ok(always);
    }
    for name in &ports.schema(project).await?.always {
        let id = stored_section(ports, project, DocumentId::section(name.as_str())).await?;
        let found = get_one(&*ports.documents, project, &id).await.map_err(Error::from);
        let problem = match found.and_then(|document| document.as_ref().map(rules_of).transpose()) {
            Ok(None) => "does not exist".to_owned(),
            Ok(Some(rules)) if rules.is_empty() => "has no rules".to_owned(),
            Ok(Some(rules)) => {
                for (index, text, version) in rules {
                    let (kind, title) = (SECTION_REQUIREMENT.to_owned(), requirement_title(&text));
                    let id = format!("{name}:{index}");
                    let label =
                        DocumentLabel { id, kind, title: Some(title), ..DocumentLabel::default() };
                    let mut entry = ContextEntry::new(label, EntryReason::Rule);
                    entry.version = version;
                    entry.set_text(&text, max_bytes);
                    always.entries.push(entry);
                }
                continue;
            }
            Err(error) => format!("cannot be read: {error}"),
        };
        let name = truncate_echo(name);
        always.problems.push(format!("[context] always: section {name:?} {problem}"));
    }
    Ok(always)
}

/// Index, text and version of each rule.
fn rules_of(document: &Document) -> Result<Vec<(String, String, String)>> {
    let section = Section::parse(document_text(document)?);
    let rule = |rule: &Requirement| {
        (rule.index.to_owned(), section.text(rule), document.version.to_string())
    };
    Ok(section.requirements().iter().map(rule).collect())
}
