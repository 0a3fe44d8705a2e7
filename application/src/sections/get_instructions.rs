//! `reqlix_get_instructions`: returns AGENTS.md and creates it with a placeholder if it is missing.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationDescription, ProjectRoot};
use crate::ToolContext;
use crate::answer::{ToolAnswer, reply_with_body};
use crate::tool::{Tool, decode_arguments, whole_tool};
use crate::transaction::write_context;

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

#[derive(Serialize, JsonSchema)]
struct InstructionsVersion {
    project: String,
    /// Of AGENTS.md.
    version: String,
}

#[async_trait]
impl Tool for GetInstructions {
    fn spec(&self) -> ToolSpec {
        // The space at the end of the first line is the specification's.
        whole_tool::<Arguments, InstructionsVersion>(
            "reqlix_get_instructions",
            "Read the instructions",
            "\
CALL THIS BEFORE ANY CODE OPERATION (reading or writing).\x20
Returns instructions on how to work with requirements.
This MCP server is the single source of truth for everything related to requirements.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let ports = &context.ports;
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let project = super::resolve_project(ports, &call.caller, &arguments.project_root).await?;
        let write_context =
            write_context(context, &call, spec, arguments.operation_description.into_string());
        let (agents, _) = super::read_documents(ports, &project, None, write_context).await?;
        let version = InstructionsVersion {
            project: project.to_string(),
            version: agents.version.to_string(),
        };
        reply_with_body(super::into_document_text(agents)?, &version)
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::error::ErrorKind;
    use reqlore_domain::identity::Access;
    use reqlore_domain::ports::documents::{MockDocumentRepository, StoreError};
    use reqlore_domain::sections::instructions::NEW_INSTRUCTIONS;
    use serde_json::json;

    use crate::test_support::TestApplication;

    const TOOL: &str = "reqlix_get_instructions";

    // S1: T.3.2
    #[tokio::test]
    async fn instructions_for_a_reader_are_the_placeholder_unwritten() {
        let mut store = MockDocumentRepository::new();
        store.expect_get().returning(|_, ids| Ok(vec![None; ids.len()]));
        let testing = TestApplication { access: Access::Read, ..TestApplication::on(store) };
        assert_eq!(testing.text(TOOL, json!({})).await, NEW_INSTRUCTIONS);
    }

    // S1: T.3.3
    #[tokio::test]
    async fn instructions_on_a_failed_write_name_the_file_and_reason() {
        let mut store = MockDocumentRepository::new();
        store.expect_get().returning(|_, ids| Ok(vec![None; ids.len()]));
        store.expect_commit().returning(|_, _| {
            let (place, reason) = ("docs/AGENTS.md".to_owned(), "the disk is full".to_owned());
            Err(StoreError::Unavailable { place, reason, source: None })
        });
        let error = TestApplication::on(store).error(TOOL, json!({})).await;
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert_eq!(error.message, "docs/AGENTS.md: the disk is full");
    }
}
