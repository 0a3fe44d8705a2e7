//! `reqlix_get_instructions`: returns AGENTS.md and creates it with a placeholder if it is missing.

use async_trait::async_trait;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::DocumentFilter;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::sections::Instructions;
use reqlore_domain::sections::instructions;
use reqlore_domain::untrusted_text::encode_id;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{OperationDescription, ProjectRoot};
use crate::answers::answer::{ToolAnswer, body_answer};
use crate::ports::ApplicationPorts;
use crate::tools::tool::{Tool, ToolRequest, whole_tool};

pub(crate) struct GetInstructions;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path to the project root directory. Used to locate requirements and project source code.
    project_root: ProjectRoot,
    /// Brief description of the operation that LLM intends to perform.
    /// Used to provide relevant instructions.
    operation_description: OperationDescription,
}

#[async_trait]
impl Tool for GetInstructions {
    fn spec(&self) -> ToolSpec {
        // The space at the end of the first line is the specification's.
        whole_tool::<Arguments, Instructions>(
            "reqlix_get_instructions",
            "Read the rules before you code",
            "\
CALL THIS BEFORE ANY CODE OPERATION (reading or writing).\x20
Returns instructions on how to work with requirements.
This MCP server is the single source of truth for everything related to requirements.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let (caller, ports) = (&request.call.caller, &request.context.ports);
        let project = super::resolve_project(ports, caller, &arguments.project_root).await?;
        let write = request.write_context(arguments.operation_description.into_string());
        let (agents, _) = super::read_documents(ports, &project, None, write).await?;
        let details = Instructions {
            project: project.to_string(),
            version: agents.version.to_string(),
            text: super::into_document_text(agents)?,
        };
        let mut answer = body_answer(details.text.clone(), &details)?;
        let version = super::short_version(&details.version);
        let label = super::project_label(&project);
        answer.add_notes([format!("AGENTS.md{label} at version {version}.")]);
        answer.add_notes(unlisted_note(ports, &project, &details.text).await);
        Ok(answer)
    }
}

/// Names the sections that AGENTS.md does not list; `None` if it lists all.
async fn unlisted_note(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    agents: &str,
) -> Option<String> {
    const MAX_NAMED: usize = 50;
    let filter = DocumentFilter::of_kind(DocumentKind::Section);
    // The instructions are complete without this note, so a failure to list sections is no error.
    let page = ports.documents.find(project, &filter).await.ok()?;
    let listed = instructions::listed(agents);
    let mut keys = Vec::new();
    for meta in &page.metadata {
        if !listed.contains_key(&meta.id.name) {
            keys.push(encode_id(&meta.id.name));
        }
    }
    if keys.is_empty() {
        return None;
    }
    let rest = match keys.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    keys.truncate(MAX_NAMED);
    let keys = keys.join(", ");
    Some(format!("These sections exist too, but AGENTS.md does not list them: {keys}{rest}."))
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::DocumentId;
    use reqlore_domain::error::ErrorKind;
    use reqlore_domain::identity::Access;
    use reqlore_domain::ports::documents::{MetadataPage, MockDocumentRepository, StoreError};
    use reqlore_domain::sections::instructions::NEW_INSTRUCTIONS;
    use serde_json::json;

    use crate::test_support::TestApplication;

    const TOOL: &str = "reqlix_get_instructions";

    // S1: T.3.2
    #[tokio::test]
    async fn instructions_for_a_reader_are_the_placeholder_unwritten() {
        let mut store = MockDocumentRepository::new();
        store.expect_get().returning(|_, ids| Ok(vec![None; ids.len()]));
        store.expect_find().returning(|_, _| {
            Ok(MetadataPage { metadata: Vec::new(), next_name: None, unread: Vec::new() })
        });
        let testing = TestApplication { access: Access::Read, ..TestApplication::on(store) };
        let answer = testing.call(TOOL, json!({})).await.unwrap();
        assert_eq!(answer.data["text"], NEW_INSTRUCTIONS);
        let note = answer.text.strip_prefix(NEW_INSTRUCTIONS).unwrap();
        assert!(note.starts_with("\n\nNote: AGENTS.md at version "), "{note}");
    }

    // S1: T.3.5, S.3.5
    #[tokio::test]
    async fn instructions_name_sections_that_agents_md_does_not_list() {
        let testing = TestApplication::new();
        let agents = "# Ours\n\n## Sections\n\n- API (key: api)\n";
        testing.write(DocumentId::instructions(), agents).await;
        testing.write(DocumentId::section("api"), "**1.** One.\n").await;
        let text = testing.text(TOOL, json!({})).await;
        assert!(text.starts_with(agents) && !text.contains("does not list"), "{text}");
        for key in ["ops", "my notes"] {
            testing.write(DocumentId::section(key), "**1.** One.\n").await;
        }
        let text = testing.text(TOOL, json!({})).await;
        let note = "\nNote: These sections exist too, but AGENTS.md does not list them: \
                    \"my notes\", ops.";
        assert!(text.ends_with(note), "{text}");
    }

    // S1: T.3.3
    #[tokio::test]
    async fn instructions_on_a_failed_write_name_the_file_and_reason() {
        let mut store = MockDocumentRepository::new();
        store.expect_get().returning(|_, ids| Ok(vec![None; ids.len()]));
        store.expect_commit().returning(|_, _| {
            let (subject, reason) = ("docs/AGENTS.md".to_owned(), "the disk is full".to_owned());
            Err(StoreError::Unavailable { subject, reason, source: None })
        });
        let error = TestApplication::on(store).error(TOOL, json!({})).await;
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert_eq!(error.message, "docs/AGENTS.md: the disk is full");
    }
}
