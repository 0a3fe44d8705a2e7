//! `reqlix_get_requirements` (S1 G): a whole section, byte for byte.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::document::Version;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::sections::{NO_REQUIREMENTS, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationDescription, ProjectRoot};
use crate::ToolContext;
use crate::tool::{Tool, decode, read_tool, reply};
use crate::transaction::act;

#[derive(Default)]
pub(crate) struct GetRequirements {
    counts: CountCache,
}

/// Number of requirements by section version, so that an unchanged section is parsed once.
#[derive(Default)]
struct CountCache {
    counts: Mutex<HashMap<Version, usize>>,
}

impl CountCache {
    const MAX_ENTRIES: usize = 1_000;

    fn count(&self, version: Version, text: &str) -> usize {
        let lock = || self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&version).copied();
        if let Some(count) = known {
            return count;
        }
        // Parsed without the lock, because other calls may need it.
        let count = Section::of(text).requirements().len();
        let mut counts = lock();
        if counts.len() >= Self::MAX_ENTRIES {
            counts.clear();
        }
        counts.insert(version, count);
        count
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path to the project root directory. Used to locate requirements and project source code.
    project_root: ProjectRoot,
    /// Brief description of the operation that LLM intends to perform.
    /// Used to provide relevant instructions.
    operation_description: OperationDescription,
    /// Section key (e.g., "general", "testing", "code_quality").
    section: SectionKey,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    project: String,
    section: String,
    /// For if_version; null if the section does not exist.
    #[schemars(required, extend("type" = ["string", "null"]))]
    version: Option<String>,
    count: usize,
}

#[async_trait]
impl Tool for GetRequirements {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, Answer>(
            "reqlix_get_requirements",
            "Read a section",
            "Returns all requirements in the specified section.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let ports = &context.ports;
        let arguments: Arguments = decode(&mut call, spec)?;
        let project = super::project(ports, &call.caller, &arguments.project_root).await?;
        let act = act(context, &call, spec, arguments.operation_description.into_string());
        let key = arguments.section;
        let (_, section) = super::read(ports, &project, Some(&key), act).await?;
        let mut answer = Answer {
            project: project.to_string(),
            section: key.as_str().to_owned(),
            version: None,
            count: 0,
        };
        let Some(section) = section else {
            key.check_new().map_err(|reason| {
                Error::new(ErrorKind::InvalidArgument, format!("section: {reason}."))
                    .field("section")
            })?;
            return reply(NO_REQUIREMENTS.to_owned(), &answer);
        };
        let version = section.version;
        answer.version = Some(version.to_string());
        let text = super::into_text(section)?;
        answer.count = self.counts.count(version, &text);
        reply(text, &answer)
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::DocumentId;
    use reqlore_domain::ports::documents::MockDocumentRepository;
    use serde_json::json;

    use crate::test_support::TestApplication;

    const TOOL: &str = "reqlix_get_requirements";

    // S1: G.3.2, G.3.3
    #[tokio::test]
    async fn a_section_is_returned_whole_whatever_its_name_and_content() {
        let testing = TestApplication::new();
        let body = "\u{feff}# Title\r\n\r\nprose\r\n\r\n**1.** one";
        testing.write(DocumentId::section("my notes"), body).await;
        let reply = testing.call(TOOL, json!({ "section": "my notes" })).await.unwrap();
        assert_eq!(reply.text, [body]);
        assert_eq!(reply.data["count"], 1);
    }

    // S1: G.3.4, C.1
    #[tokio::test]
    async fn a_section_that_is_not_there_says_so_and_agents_is_made() {
        let testing = TestApplication::new();
        let text = testing.text(TOOL, json!({ "section": "general" })).await;
        assert_eq!(text, "No requirements in this section.");
        assert!(testing.body(DocumentId::instructions()).await.is_some());
    }

    // S1: P.2
    #[tokio::test]
    async fn an_invalid_call_never_reaches_the_store() {
        let testing = TestApplication::on(MockDocumentRepository::new());
        for section in ["../x", "agents", "", "a\0"] {
            let error = testing.error(TOOL, json!({ "section": section })).await;
            assert_eq!(error.field.as_deref(), Some("section"));
        }
    }
}
