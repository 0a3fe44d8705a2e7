//! `reqlix_get_requirements`: returns a whole section, byte for byte.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{DocumentKind, Version};
use reqlore_domain::error::Result;
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{DocumentFilter, count_documents};
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::sections::{NO_REQUIREMENTS, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationDescription, ProjectRoot};
use crate::ToolContext;
use crate::address::AddressSpace;
use crate::answer::{ToolAnswer, reply, reply_with_body};
use crate::empty_answer::add_reason;
use crate::tool::{Tool, decode_arguments, whole_tool};
use crate::transaction::write_context;

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

    fn requirement_count(&self, version: Version, text: &str) -> usize {
        if let Some(count) = self.lock().get(&version) {
            return *count;
        }
        // Parse without the lock, so that other calls need not wait.
        let count = Section::parse(text).requirements().len();
        let mut counts = self.lock();
        // Any section may make room, because it is parsed in microseconds.
        if counts.len() >= Self::MAX_ENTRIES
            && let Some(other) = counts.keys().next().copied()
        {
            counts.remove(&other);
        }
        counts.insert(version, count);
        count
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Version, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
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
    #[schemars(with = "SectionKey")]
    section: BoundedString<100>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SectionDetails {
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
        whole_tool::<Arguments, SectionDetails>(
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
    ) -> Result<ToolAnswer> {
        let ports = &context.ports;
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let project = super::resolve_project(ports, &call.caller, &arguments.project_root).await?;
        let write_context =
            write_context(context, &call, spec, arguments.operation_description.into_string());
        let key = arguments.section.into_string();
        let readable_key = parse_readable_key(&key)?;
        let (_, section) =
            super::read_documents(ports, &project, readable_key.as_ref(), write_context).await?;
        let mut details = SectionDetails {
            project: project.to_string(),
            section: key.clone(),
            version: None,
            count: 0,
        };
        let Some(section) = section else {
            // A key that cannot be created is missing like any other, unless it looks like a path.
            if let Some(key) = readable_key.filter(|key| key.as_str().contains("..")) {
                key.check_new().map_err(|reason| super::section_error(&reason))?;
            }
            if let Some(text) = read_other_id(context, &call.caller, &project, &key).await? {
                return reply_with_body(text, &details);
            }
            let mut reply = reply(NO_REQUIREMENTS.to_owned(), &details)?;
            let kinds = [DocumentKind::Section];
            let filter = DocumentFilter::of_kind(DocumentKind::Section);
            let page = ports.documents.find(&project, &filter).await?;
            let keys: Vec<&str> = page.metadata.iter().map(|meta| meta.id.name.as_str()).collect();
            let count = match page.next_name {
                None => keys.len(),
                Some(_) => {
                    count_documents(&*ports.documents, &project, DocumentKind::Section).await?
                }
            };
            let excluded = super::existing_values(&key, "sections", &keys, count);
            add_reason(&mut reply, ports, &call.caller, &project, &kinds, &excluded).await?;
            return Ok(reply);
        };
        let version = section.version;
        details.version = Some(version.to_string());
        let text = super::into_document_text(section)?;
        details.count = self.counts.requirement_count(version, &text);
        reply_with_body(text, &details)
    }
}

/// A key that no file can have reads as missing (`None`), unless it looks like a path.
fn parse_readable_key(key: &str) -> Result<Option<SectionKey>> {
    match SectionKey::try_from(key.to_owned()) {
        Ok(readable_key) => Ok(Some(readable_key)),
        Err(reason) if key.contains(|c: char| c == '/' || c == '\\' || c.is_control()) => {
            Err(super::section_error(&reason))
        }
        Err(reason) if key.contains("..") => Err(super::section_error(&reason)),
        Err(_) => Ok(None),
    }
}

/// Reads an ID of another toolset, or of one requirement, that was passed as a section.
async fn read_other_id(
    context: &ToolContext,
    caller: &Caller,
    project: &ProjectKey,
    key: &str,
) -> Result<Option<String>> {
    let space = AddressSpace::of_project(context, caller, project.clone());
    match space.find(key).await {
        // A docset, or an entity with a custom ID, may have the name of a missing section.
        Ok(Some(address)) if address.target.is_unmistakable() => {
            Ok(Some(address.read_text(context).await?.body))
        }
        _ => Ok(None),
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
    async fn get_section_with_any_name_returns_all_bytes() {
        let testing = TestApplication::new();
        let body = "\u{feff}# Title\r\n\r\nprose\r\n\r\n**1.** one";
        testing.write(DocumentId::section("my notes"), body).await;
        let reply = testing.call(TOOL, json!({ "section": "my notes" })).await.unwrap();
        assert_eq!(reply.text, body);
        assert_eq!(reply.data["count"], 1);
    }

    // S1: G.3.4, C.1
    #[tokio::test]
    async fn get_missing_section_says_so_and_creates_agents_md() {
        let testing = TestApplication::new();
        let text = testing.text(TOOL, json!({ "section": "general" })).await;
        assert_eq!(text, "No requirements in this section.");
        assert!(testing.body(DocumentId::instructions()).await.is_some());
    }

    // S1: G.3.4
    #[tokio::test]
    async fn get_missing_section_with_an_odd_name_reads_as_missing() {
        let testing = TestApplication::new();
        for section in ["имя", "a.b", "con", "my notes", "-x", "agents", "AGENTS", ".x", " x"] {
            let reply = testing.call(TOOL, json!({ "section": section })).await.unwrap();
            assert_eq!(reply.text, "No requirements in this section.", "{section}");
            assert_eq!(reply.data["version"], json!(null), "{section}");
        }
        for section in ["a/b", "a\\b", "..", "a..b", "../a", "a\n"] {
            let error = testing.error(TOOL, json!({ "section": section })).await;
            assert_eq!(error.field.as_deref(), Some("section"), "{section}");
        }
    }

    // S1: P.2
    #[tokio::test]
    async fn get_with_invalid_arguments_does_not_reach_the_store() {
        let testing = TestApplication::on(MockDocumentRepository::new());
        for section in ["../x", "a/b", "", "a\0"] {
            let error = testing.error(TOOL, json!({ "section": section })).await;
            assert_eq!(error.field.as_deref(), Some("section"));
        }
    }
}
